"""Declares the C structs of ccmix-sockmon's binary output, field by field as in format.h.

probes/sockmon/format.h has them. This module imports only the standard library, because importing
the libraries that make tables takes longer than a short run.
"""

import struct
from enum import IntEnum
from typing import Annotated, NamedTuple, get_type_hints

MAGIC, VERSION, BYTE_ORDER = b"CCMIXMON", 1, 0x01020304
MOST_RECORD_BYTES = (
    1 << 28
)  # the probe's longest possible record: a sample of 700000 sockets is shorter

# C's types with their codes in the module struct; an array's code begins with its length.
U8 = Annotated[int, "B"]
U16 = Annotated[int, "H"]
U32 = Annotated[int, "I"]
I32 = Annotated[int, "i"]
U64 = Annotated[int, "Q"]


class RecordType(IntEnum):
    """Mirrors enum record_type: what a record of the stream has.

    An identity (such as SOCKET) introduces an object once; a sample (such as SOCKETS) has a row for
    each object at one time.
    """

    SOCKET = 1
    QUEUE = 2
    COUNTER = 3
    PROCESS = 4
    SOCKETS = 16
    CLOSED = 17
    QUEUES = 18
    LINKS = 19
    COUNTERS = 20
    CPU = 21
    PROCESSES = 22
    BBR = 23
    BBR_INFO = 24
    NOTE = 32
    REPORT = 33


class StreamHeader(NamedTuple):
    """Mirrors struct stream_header, with which the stream begins; text lines follow it."""

    magic: Annotated[bytes, "8s"]
    byte_order: U32
    version: U32
    start_mono_ns: U64
    start_wall_ns: U64
    reserved: U32
    text_bytes: U32


class Record(NamedTuple):
    """Mirrors struct record, with which every record begins: its length and its type."""

    bytes: U32
    type: U32


class SampleHeader(NamedTuple):
    """Mirrors struct sample: the time of a sample, and how many rows follow."""

    mono_ns: U64
    wall_ns: U64
    took_ns: U32
    rows: U32
    row_bytes: U32
    info_bytes: U32


class SocketIdentity(NamedTuple):
    """Mirrors struct id_socket, which introduces a socket: rows refer to it by `id`."""

    id: U32
    target: U32
    cookie: U64
    mono_ns: U64
    family: U32
    local_port: U16
    remote_port: U16
    ifindex: U32
    uid: U32
    inode: U32
    reserved: U32
    local: Annotated[bytes, "16s"]
    remote: Annotated[bytes, "16s"]
    cca: Annotated[bytes, "16s"]


class QueueIdentity(NamedTuple):
    """Mirrors struct id_queue, which introduces a qdisc."""

    id: U32
    device: U32
    handle: U32
    parent: U32
    kind: Annotated[bytes, "16s"]


class CounterIdentity(NamedTuple):
    """Mirrors struct id_counter: a counter of the kernel; `core` is negative if it has none."""

    id: U32
    target: U32
    core: I32
    name: Annotated[bytes, "44s"]


class ProcessIdentity(NamedTuple):
    """Mirrors struct id_process, which introduces a process."""

    id: U32
    pid: U32
    parent: U32
    reserved: U32
    started_ticks: U64
    name: Annotated[bytes, "24s"]


class SocketRow:
    """Mirrors struct row_socket, the state of a socket at one time; tcp_info follows it.

    This class and the following ones have no instances, because rows are read as arrays.
    """

    id: U32
    state: U8
    timer: U8
    timer_retransmits: U8
    has: U8
    timer_expires_ms: U32
    recv_queue_bytes: U32
    send_queue_bytes: U32
    memory: Annotated[tuple[int, ...], "9I"]
    cca_state: Annotated[tuple[int, ...], "5I"]
    reserved: U32


class BbrRow:
    """Mirrors struct row_bbr: the phase and bounds of a socket with a later version of BBR."""

    id: U32
    phase: U32
    bw_lo_bps: U64
    inflight_hi_packets: U32
    inflight_lo_packets: U32
    cycle: U32
    reserved: U32


class BbrInfoRow:
    """Mirrors struct row_bbr_info: tcp_bbr_info of a socket, if the kernel did not send it."""

    id: U32
    info: Annotated[tuple[int, ...], "5I"]


class QueueRow:
    """Mirrors struct row_queue: a qdisc's counters; `xstats` are those that only its kind has."""

    id: U32
    xstats_bytes: U32
    bytes: U64
    packets: U64
    backlog_packets: U32
    backlog_bytes: U32
    drops: U32
    requeues: U32
    overlimits: U32
    least_backlog_bytes: U32
    xstats: Annotated[tuple[int, ...], "160B"]


class LinkRow:
    """Mirrors struct row_link: a device's counters, of which the kernel has the first `known`."""

    device: U32
    known: U32
    counters: Annotated[tuple[int, ...], "25Q"]


class CounterRow:
    """Mirrors struct row_counter."""

    id: U32
    reserved: U32
    value: U64


class CpuRow:
    """Mirrors struct row_cpu: how a core has spent its time, in ticks."""

    core: U32
    frequency_khz: U32
    ticks: Annotated[tuple[int, ...], "10Q"]


class ProcessRow:
    """Mirrors struct row_process."""

    id: U32
    threads: U32
    user_ticks: U64
    system_ticks: U64
    memory_pages: U64


HAS_MEMORY, HAS_VEGAS, HAS_DCTCP, HAS_BBR = 1, 2, 4, 8  # bits of SocketRow.has

# The phases of BBR's later versions, in the order of enum bbr_phase
_BBR_PHASES = "startup drain probe_bw_down probe_bw_cruise probe_bw_refill probe_bw_up probe_rtt"
BBR_PHASES = tuple(_BBR_PHASES.split())

# The names of the numbers in arrays: the members of enum SK_MEMINFO_* (SocketRow.memory) and of
# struct rtnl_link_stats64 (LinkRow.counters), and the columns of /proc/stat (CpuRow.ticks).
_MEMORY = "rmem_alloc rcvbuf wmem_alloc sndbuf fwd_alloc wmem_queued optmem backlog drops"
MEMORY = tuple(_MEMORY.split())
_LINK_COUNTERS = (
    "rx_packets tx_packets rx_bytes tx_bytes rx_errors tx_errors rx_dropped tx_dropped multicast "
    "collisions rx_length_errors rx_over_errors rx_crc_errors rx_frame_errors rx_fifo_errors "
    "rx_missed_errors tx_aborted_errors tx_carrier_errors tx_fifo_errors tx_heartbeat_errors "
    "tx_window_errors rx_compressed tx_compressed rx_nohandler rx_otherhost_dropped"
)
LINK_COUNTERS = tuple(_LINK_COUNTERS.split())
_CPU_TIMES = "user_s nice_s system_s idle_s iowait_s irq_s softirq_s steal_s guest_s guest_nice_s"
CPU_TIMES = tuple(_CPU_TIMES.split())
CORE_TIMES = [
    name for name in CPU_TIMES if not name.startswith("guest")
]  # which user and nice include


def codes(declaration: type) -> dict[str, str]:
    """Returns the type of each field of a struct as a code of the module struct, in order."""
    hints = get_type_hints(declaration, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def packed(*declarations: type) -> struct.Struct:
    """Returns the layout of consecutive structs, whose fields are naturally aligned without
    gaps.
    """
    return struct.Struct(
        "<" + "".join(code for declaration in declarations for code in codes(declaration).values())
    )


HEADER = packed(StreamHeader)
RECORD = packed(Record)
SAMPLE = packed(SampleHeader)
SOCKET_BYTES = packed(SocketRow).size  # tcp_info follows


def is_sample(kind: int) -> bool:
    """Returns whether records of this type are samples, and so begin with a SampleHeader."""
    return RecordType.SOCKETS <= kind <= RecordType.BBR_INFO


def check_length(length: int, offset: int) -> None:
    """Raises ValueError if no record can have this length; `offset` is for the message."""
    if length < RECORD.size or length % 8 or length > MOST_RECORD_BYTES:
        raise ValueError(f"offset {offset}: a record can't be {length} bytes long")
