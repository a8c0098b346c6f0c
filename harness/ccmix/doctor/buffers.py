"""Compares socket buffers with the BDP: a flow of rate R and round-trip time T has R x T unacknowledged.

The kernel sizes buffers by itself up to the third number of tcp_rmem and tcp_wmem (ip-sysctl.rst). Of a receive buffer
about half becomes window, the rest is for its own overhead; a send buffer grows to twice the congestion window, since
what was lost in a window is still there in the next (tcp_sndbuf_expand() in net/ipv4/tcp_input.c). So 2 BDP are needed
of each. rmem_max and wmem_max only limit what applications ask for themselves (SO_RCVBUF, SO_SNDBUF; iperf3's -w).
tcp_mem limits all sockets of the machine together, in pages.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ccmix.doctor.findings import DoctorFinding, Status, line
from ccmix.doctor.needs import Load
from ccmix.doctor.reading import files, numbers, whole
from ccmix.hosts import Host
from ccmix.units import format_bytes, format_rate, format_time

BDPS = 2
MOST_BUFFER_BYTES = 2**31 - 1  # the kernel's limit (net/ipv4/sysctl_net_ipv4.c counts in int)
FILES = ("ipv4/tcp_rmem", "ipv4/tcp_wmem", "ipv4/tcp_mem", "core/rmem_max", "core/wmem_max")


@dataclass(frozen=True)
class Buffers:
    """Holds buffer sizes in bytes, except `mem_pages`; None if the host doesn't show one, as network namespaces
    don't.
    """

    rmem: tuple[int, int, int] | None
    wmem: tuple[int, int, int] | None
    mem_pages: tuple[int, int, int] | None
    rmem_max: int | None
    wmem_max: int | None
    page_bytes: int


@dataclass(frozen=True)
class Demand:
    """Describes what buffers must hold. `flow_bytes` is the BDP of the largest flow, `all_bytes` that of all flows;
    `certain` means that an entry asked for the rate, and that it is not just the device's speed.
    """

    flow_bytes: float
    all_bytes: float
    sentence: str
    certain: bool


def read_buffers(host: Host) -> Buffers:
    """Reads the buffer sizes of a host. Raises CommandError or ValueError."""
    texts = files(host, *(f"/proc/sys/net/{name}" for name in FILES))
    pages = host.run(["getconf", "PAGESIZE"])
    return buffers_of({name.removeprefix("/proc/sys/net/"): text for name, text in texts.items()}, pages)


def buffers_of(texts: Mapping[str, str], page: str) -> Buffers:
    """Reads buffer sizes from the texts of /proc/sys/net, by file, and of getconf. Raises ValueError."""

    def three(name: str) -> tuple[int, int, int] | None:
        if name not in texts:
            return None
        least, middle, most = numbers(texts[name], 3, name)
        return least, middle, most

    def number(name: str) -> int | None:
        return whole(texts[name], name, 0) if name in texts else None

    if not texts:
        raise ValueError("the host shows none of its buffer sizes")
    return Buffers(
        rmem=three("ipv4/tcp_rmem"),
        wmem=three("ipv4/tcp_wmem"),
        mem_pages=three("ipv4/tcp_mem"),
        rmem_max=number("core/rmem_max"),
        wmem_max=number("core/wmem_max"),
        page_bytes=whole(page, "the size of a page", 1),
    )


def demand(loads: Iterable[Load], rtt_s: float | None, speed_bps: float | None) -> Demand | None:
    """Returns the demand of the condition that needs the largest buffer. `rtt_s` is None if not known; `speed_bps` is
    the NIC's.

    Returns None if the rate or the round-trip time is not known.
    """
    demands = []
    for load in loads:
        together = min((rate for rate in (load.rate_bps, speed_bps) if rate is not None), default=None)
        rates = [rate for rate in (load.flow_bps, together and together / load.streams) if rate is not None]
        if not rates or (rtt_s is None and not load.added_rtt_s):
            continue
        rtt = (rtt_s or 0.0) + load.added_rtt_s
        flow_bps = min(rates)
        sentence = (
            f"{load.streams} x {format_rate(flow_bps)} over {format_time(round(rtt, 6))} have "
            f"{format_bytes(flow_bps * rtt / 8)} each on the way"
        )
        certain = flow_bps == load.flow_bps or load.rate_bps is not None
        demands.append(Demand(flow_bps * rtt / 8, load.streams * flow_bps * rtt / 8, sentence, certain))
    return max(demands, key=lambda candidate: candidate.flow_bytes, default=None)


def judge_buffers(
    buffers: Buffers, sends: Demand | None, receives: Demand | None, window_bytes: int
) -> Iterator[DoctorFinding]:
    """Judges buffers; `window_bytes` is what a command asks for by itself, as with iperf3's -w."""
    for name, sizes, wanted, what in (
        ("net.ipv4.tcp_wmem", buffers.wmem, sends, "The sender can't have more than this unacknowledged"),
        (
            "net.ipv4.tcp_rmem",
            buffers.rmem,
            receives,
            "The receiver offers a window of about half of this at most",
        ),
    ):
        if sizes is not None and wanted is not None:
            yield _automatic(name, sizes, wanted, what)
    for name, most, applies in (
        ("net.core.wmem_max", buffers.wmem_max, sends), ("net.core.rmem_max", buffers.rmem_max, receives)
    ):  # fmt: skip
        if most is None or not window_bytes or (applies is None and sends is not receives):
            continue
        if most >= window_bytes:
            yield DoctorFinding(
                name, Status.OK, f"{format_bytes(most)}, and a command asks for {format_bytes(window_bytes)}"
            )
        else:
            yield DoctorFinding(
                name, Status.FAIL, f"{format_bytes(most)}, and a command asks for {format_bytes(window_bytes)}",
                "A command that sets its socket buffer (-w) gets no more than this, and no error.",
                (line("sysctl", "-w", f"{name}={window_bytes}"),),
            )  # fmt: skip
    total = BDPS * sum(direction.all_bytes for direction in (sends, receives) if direction)
    if buffers.mem_pages is not None and total:
        yield _all_sockets(buffers.mem_pages, buffers.page_bytes, total)


def _automatic(name: str, sizes: tuple[int, int, int], wanted: Demand, what: str) -> DoctorFinding:
    most = sizes[2]
    needed = min(BDPS * wanted.flow_bytes, MOST_BUFFER_BYTES)
    seen = f"up to {format_bytes(most)}; {wanted.sentence}"
    if most >= needed:
        return DoctorFinding(name, Status.OK, seen)
    size = min(2 ** max(16, (round(needed) - 1).bit_length()), MOST_BUFFER_BYTES)
    status = Status.FAIL if wanted.certain and most < wanted.flow_bytes else Status.WARN
    limit = (
        "the run is then limited by the host"
        if status is Status.FAIL
        else "a flow that has lost packets may be limited"
    )
    return DoctorFinding(
        name, status, seen, f"{what}, and a flow needs {BDPS} BDP, {format_bytes(needed)}: {limit}.",
        (line("sysctl", "-w", f"{name}={sizes[0]} {min(sizes[1], size)} {size}"),),
    )  # fmt: skip


def _all_sockets(pages: tuple[int, int, int], page_bytes: int, total: float) -> DoctorFinding:
    pressure, most = pages[1] * page_bytes, pages[2] * page_bytes
    seen = f"pressure from {format_bytes(pressure)}, at most {format_bytes(most)}; all flows need {format_bytes(total)}"
    if total < pressure:
        return DoctorFinding("net.ipv4.tcp_mem", Status.OK, seen)
    needed = round(total / page_bytes) + 1
    return DoctorFinding(
        "net.ipv4.tcp_mem", Status.FAIL if total > most else Status.WARN, seen,
        "All sockets of the host share this; under pressure their windows stop growing.",
        (line("sysctl", "-w", f"net.ipv4.tcp_mem={needed} {2 * needed} {3 * needed}"),),
    )  # fmt: skip
