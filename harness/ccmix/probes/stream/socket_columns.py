"""Defines the columns of the table of sockets: which field of tcp_info each has, and its unit.

Values are converted to SI units, with null for missing ones. The columns are in the order of the
table. probes/sockmon/README.md documents the meaning of each column and its source in the kernel.
"""

import struct
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from ccmix.probes.stream.format import (
    HAS_BBR,
    HAS_DCTCP,
    HAS_MEMORY,
    HAS_VEGAS,
    MEMORY,
    SOCKET_BYTES,
    SocketRow,
    codes,
)
from ccmix.probes.stream.records import Numbers, dtype_of

_NO_U32 = 2**32 - 1
_VEGAS_NO_RTT = 0x7FFFFFFF
_BBR_UNIT = 256  # BBR's gains are fixed-point numbers in units of 1/256
_DCTCP_UNIT = 1024  # DCTCP's alpha in units of 1/1024

CCA_WORDS = tuple(f"row_cca_{number}" for number in range(5))
# The names of the numbers in the row's arrays.
_MEMBERS = {"memory": tuple(f"row_memory_{name}" for name in MEMORY), "cca_state": CCA_WORDS}


def _row_fields() -> dict[str, tuple[int, str]]:
    """Returns (offset, numpy type) of each field of struct row_socket.

    The names begin with row_, to tell them from tcp_info's.
    """
    fields, offset = {}, 0
    for name, code in codes(SocketRow).items():
        for member in _MEMBERS.get(name, (f"row_{name}",)):
            fields[member] = (offset, dtype_of(code[-1]))
            offset += struct.calcsize(code[-1])
    assert offset == SOCKET_BYTES
    return fields


_ROW_FIELDS = _row_fields()

# struct tcp_info (include/uapi/linux/tcp.h). New fields are only added at its end, so an old kernel
# has fewer of them.
_TCP_INFO = (
    "state:B ca_state:B retransmits:B probes:B backoff:B options:B wscale:B flags:B rto:I ato:I "
    "snd_mss:I rcv_mss:I "
    "unacked:I sacked:I lost:I retrans:I fackets:I last_data_sent:I last_ack_sent:I "
    "last_data_recv:I last_ack_recv:I "
    "pmtu:I rcv_ssthresh:I rtt:I rttvar:I snd_ssthresh:I snd_cwnd:I advmss:I reordering:I "
    "rcv_rtt:I rcv_space:I "
    "total_retrans:I pacing_rate:Q max_pacing_rate:Q bytes_acked:Q bytes_received:Q segs_out:I "
    "segs_in:I "
    "notsent_bytes:I min_rtt:I data_segs_in:I data_segs_out:I delivery_rate:Q busy_time:Q "
    "rwnd_limited:Q "
    "sndbuf_limited:Q delivered:I delivered_ce:I bytes_sent:Q bytes_retrans:Q dsack_dups:I "
    "reord_seen:I rcv_ooopack:I "
    "snd_wnd:I rcv_wnd:I rehash:I total_rto:H total_rto_recoveries:H total_rto_time:I "
    "received_ce:I "
    "delivered_e1_bytes:I delivered_e0_bytes:I delivered_ce_bytes:I received_e1_bytes:I "
    "received_e0_bytes:I "
    "received_ce_bytes:I accecn:I"
)


def _tcp_info_fields() -> dict[str, tuple[int, str]]:
    """Returns (offset, numpy type) of each field of tcp_info; they are aligned, without gaps."""
    fields, offset = {}, 0
    for field in _TCP_INFO.split():
        name, _, code = field.partition(":")
        fields[name] = (offset, dtype_of(code))
        offset += struct.calcsize(code)
    return fields


TCP_INFO_FIELDS = _tcp_info_fields()


def socket_layout(info_bytes: int) -> np.dtype[Any]:
    """Returns the layout of a socket's row as a numpy type.

    `info_bytes` is the length of tcp_info in the recording kernel: it has only the fields before
    that.
    """
    fields = dict(_ROW_FIELDS)
    for name, (offset, dtype) in TCP_INFO_FIELDS.items():
        if offset + np.dtype(dtype).itemsize <= info_bytes:
            fields[name] = (SOCKET_BYTES + offset, dtype)
    return np.dtype(
        {
            "names": list(fields),
            "offsets": [offset for offset, _ in fields.values()],
            "formats": [dtype for _, dtype in fields.values()],
            "itemsize": SOCKET_BYTES + info_bytes,
        }
    )


class TransposedRows:
    """Holds rows of sockets with a separate array for each word of 8 bytes.

    The values of a field are then next to each other in memory. Extracting a hundred fields from
    rows would read all of the memory a hundred times.
    """

    def __init__(self, layout: np.dtype[Any], capacity: int) -> None:
        """Allocates memory for up to `capacity` rows."""
        self._layout = layout
        self._words = np.empty((layout.itemsize // 8, capacity), "<u8")
        self.count = 0  # rows that it holds

    @property
    def full(self) -> bool:
        return self.count == self._words.shape[1]

    def add(self, rows: bytes) -> None:
        """Adds a block of rows; there must be room for it."""
        block = np.frombuffer(rows, "<u8").reshape(-1, len(self._words))
        self._words[:, self.count : self.count + len(block)] = block.T
        self.count += len(block)

    def __getitem__(self, field: str) -> Numbers:
        """Returns the values of a field in all rows, without copying them."""
        assert self._layout.fields
        dtype, offset = self._layout.fields[field][:2]
        parts = self._words[offset // 8, : self.count].view(dtype)
        return parts[offset % 8 // dtype.itemsize :: 8 // dtype.itemsize]


@dataclass(frozen=True)
class SocketColumn:
    """Describes a column: a field multiplied by `times`, divided by `per`, or some of its bits.

    The column is null if the field is one of `none`, or if row_has, the row's bits of what is
    known, lacks the bit `needs`.
    """

    field: str
    type: Literal["int", "float", "bool"] = "int"
    times: float = 1.0
    per: float = 1.0
    none: tuple[int, ...] = ()
    needs: int = 0
    bits: tuple[int, int] | None = None  # shift and mask

    @property
    def dtype(self) -> Any:
        """Returns the numpy type of the column.

        Whole numbers keep the kernel's width, which halves memory and writing.
        """
        if self.type == "int":
            return np.dtype("u1" if self.bits else (_ROW_FIELDS | TCP_INFO_FIELDS)[self.field][1])
        return np.dtype(np.float64 if self.type == "float" else np.bool_)

    @property
    def nullable(self) -> bool:
        return bool(self.none or self.needs)

    def fill(self, rows: TransposedRows, into: Numbers) -> None:
        """Writes the value of each row to `into`; for a row without a value, an arbitrary
        number.
        """
        raw = rows[self.field]
        if self.bits:
            raw = raw >> self.bits[0] & self.bits[1]
        if self.type == "float" and self.per != 1.0:
            np.divide(raw, self.per, out=into)  # not times 1e-6, which is not exact in binary
        elif self.type == "float":
            np.multiply(raw, self.times, out=into)
        else:
            into[:] = raw

    def fill_known(self, rows: TransposedRows, into: Numbers) -> None:
        """Writes to `into` whether each row has a value."""
        into[:] = rows["row_has"] & self.needs if self.needs else True
        for none in self.none:
            into &= rows[self.field] != none


def _column(kind: str, field: str, *numbers: str) -> SocketColumn:
    """Makes a column from a line of _TABLE.

    `kind` is 'number', 'seconds', 'rate', 'bits' or 'memory'; `numbers` are the words after the
    field.
    """
    if kind == "memory":
        return SocketColumn(f"row_memory_{field}", needs=HAS_MEMORY)
    if kind == "bits":
        shift, mask = map(int, numbers)
        return SocketColumn(field, "bool" if mask == 1 else "int", bits=(shift, mask))
    per, *none = numbers if kind == "seconds" else ("1", *numbers)
    values = tuple(int(number, 0) for number in none)
    if kind == "number":
        return SocketColumn(field, none=values)
    return SocketColumn(field, "float", 8 if kind == "rate" else 1, float(per), values)


STATES = {
    1: "established",
    2: "syn-sent",
    3: "syn-recv",
    4: "fin-wait-1",
    5: "fin-wait-2",
    6: "time-wait",
    7: "close",
    8: "close-wait",
    9: "last-ack",
    10: "listen",
    11: "closing",
    12: "new-syn-recv",
}
CA_STATES = {0: "open", 1: "disorder", 2: "cwr", 3: "recovery", 4: "loss"}

# A line for each column: its name, its kind, and its source field. Then follow, for times, the
# field's units in a second, for bits the shift and the mask; and the numbers that mean "no value".
_TABLE = """\
recv_queue_bytes           number   row_recv_queue_bytes
send_queue_bytes           number   row_send_queue_bytes
rto_s                      seconds  rto 1e6 0
rtt_s                      seconds  rtt 1e6 0
rttvar_s                   seconds  rttvar 1e6
min_rtt_s                  seconds  min_rtt 1e6 0 0xffffffff
mss_bytes                  number   snd_mss
cwnd_packets               number   snd_cwnd
ssthresh_packets           number   snd_ssthresh 0x7fffffff
bytes_sent                 number   bytes_sent
bytes_retransmitted        number   bytes_retrans
bytes_acked                number   bytes_acked
bytes_received             number   bytes_received
segs_out                   number   segs_out
data_segs_out              number   data_segs_out
retransmits                number   total_retrans
lost                       number   lost
unacked                    number   unacked
pacing_rate_bps            rate     pacing_rate 0 0xffffffffffffffff
delivery_rate_bps          rate     delivery_rate 0
busy_s                     seconds  busy_time 1e6
receiver_window_limited_s  seconds  rwnd_limited 1e6
send_buffer_limited_s      seconds  sndbuf_limited 1e6
segs_in                    number   segs_in
data_segs_in               number   data_segs_in
timeouts_in_row            number   retransmits
probes                     number   probes
backoff                    number   backoff
timestamps                 bits     options 0 1
sack                       bits     options 1 1
window_scaling             bits     options 2 1
ecn                        bits     options 3 1
ecn_seen                   bits     options 4 1
syn_data                   bits     options 5 1
microsecond_timestamps     bits     options 6 1
send_window_scale          bits     wscale 0 15
receive_window_scale       bits     wscale 4 15
app_limited                bits     flags 0 1
fastopen_client_failure    bits     flags 1 3
ato_s                      seconds  ato 1e6
receive_mss_bytes          number   rcv_mss
sacked                     number   sacked
retransmitted_unacked      number   retrans
fackets                    number   fackets
last_data_sent_s           seconds  last_data_sent 1e3
last_data_received_s       seconds  last_data_recv 1e3
last_ack_received_s        seconds  last_ack_recv 1e3
path_mtu_bytes             number   pmtu
receive_ssthresh_bytes     number   rcv_ssthresh
advertised_mss_bytes       number   advmss
reordering_packets         number   reordering
receive_rtt_s              seconds  rcv_rtt 1e6 0
receive_space_bytes        number   rcv_space
max_pacing_rate_bps        rate     max_pacing_rate 0xffffffffffffffff
unsent_bytes               number   notsent_bytes
delivered                  number   delivered
delivered_ce               number   delivered_ce
dsack_duplicates           number   dsack_dups
reorderings_seen           number   reord_seen
out_of_order_received      number   rcv_ooopack
send_window_bytes          number   snd_wnd
receive_window_bytes       number   rcv_wnd
rehashes                   number   rehash
timeouts                   number   total_rto
timeout_recoveries         number   total_rto_recoveries
timeout_recovery_s         seconds  total_rto_time 1e3
received_ce                number   received_ce
delivered_ect1_bytes       number   delivered_e1_bytes
delivered_ect0_bytes       number   delivered_e0_bytes
delivered_ce_bytes         number   delivered_ce_bytes
received_ect1_bytes        number   received_e1_bytes
received_ect0_bytes        number   received_e0_bytes
received_ce_bytes          number   received_ce_bytes
accecn_word                number   accecn
timer                      number   row_timer
timer_s                    seconds  row_timer_expires_ms 1e3
timer_retransmits          number   row_timer_retransmits
receive_memory_bytes       memory   rmem_alloc
receive_buffer_bytes       memory   rcvbuf
send_memory_bytes          memory   wmem_alloc
send_buffer_bytes          memory   sndbuf
forward_memory_bytes       memory   fwd_alloc
send_queue_memory_bytes    memory   wmem_queued
option_memory_bytes        memory   optmem
backlog_memory_bytes       memory   backlog
socket_drops               memory   drops
"""
SOCKET_COLUMNS = {name: _column(*words) for name, *words in map(str.split, _TABLE.splitlines())}


# The raw fields that the table of sockets needs: numbers of identities and states, and the sources
# of several columns.
RAW_FIELDS = ("row_id", "row_state", "ca_state", "row_has", *CCA_WORDS)


def cca_columns() -> dict[str, pl.Expr]:
    """Returns the columns of the CCAs' internal state, such as BBR's gains or DCTCP's alpha.

    A row has the state of at most one CCA; row_has says which. Its words are those of struct
    tcp_bbr_info, tcp_dctcp_info or tcpvegas_info (include/uapi/linux/inet_diag.h).
    """
    has = pl.col("row_has")
    is_bbr, is_dctcp, is_vegas = ((has & bit) != 0 for bit in (HAS_BBR, HAS_DCTCP, HAS_VEGAS))
    bw_lo, bw_hi, bbr_min_rtt, pacing_gain, cwnd_gain = map(pl.col, CCA_WORDS)
    enabled_and_ce_state, alpha, ab_ecn, ab_tot, _ = map(pl.col, CCA_WORDS)
    vegas_enabled, rttcnt, vegas_rtt, vegas_minrtt, _ = map(pl.col, CCA_WORDS)
    bandwidth = bw_lo.cast(pl.Float64) + bw_hi.cast(pl.Float64) * 2.0**32
    dctcp_enabled, ce_state = enabled_and_ce_state % 2**16, enabled_and_ce_state // 2**16
    running = is_dctcp & (dctcp_enabled != 0)  # otherwise it fell back to Reno, and has no state
    return {
        "bbr_bandwidth_bps": pl.when(is_bbr).then(bandwidth * 8),
        "bbr_min_rtt_s": pl.when(is_bbr, bbr_min_rtt != _NO_U32).then(bbr_min_rtt / 1e6),
        "bbr_pacing_gain": pl.when(is_bbr).then(pacing_gain / _BBR_UNIT),
        "bbr_cwnd_gain": pl.when(is_bbr).then(cwnd_gain / _BBR_UNIT),
        "dctcp_enabled": pl.when(is_dctcp).then(dctcp_enabled != 0),
        "dctcp_ce_state": pl.when(running).then(ce_state.cast(pl.Int64)),
        "dctcp_alpha": pl.when(running).then(alpha / _DCTCP_UNIT),
        "dctcp_acked_ecn_bytes": pl.when(running).then(ab_ecn.cast(pl.Int64)),
        "dctcp_acked_bytes": pl.when(running).then(ab_tot.cast(pl.Int64)),
        "vegas_enabled": pl.when(is_vegas).then(vegas_enabled != 0),
        "vegas_rtts": pl.when(is_vegas).then(rttcnt.cast(pl.Int64)),
        "vegas_rtt_s": pl.when(is_vegas, vegas_rtt != _VEGAS_NO_RTT).then(vegas_rtt / 1e6),
        "vegas_min_rtt_s": pl.when(is_vegas, vegas_minrtt != _VEGAS_NO_RTT).then(
            vegas_minrtt / 1e6
        ),
    }
