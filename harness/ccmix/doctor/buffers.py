"""Socket buffers against what is on the way: a flow of rate R and round-trip time T has R x T unacknowledged (the BDP).

The kernel sizes buffers by itself up to the third number of tcp_rmem and tcp_wmem (ip-sysctl.rst). Of a receive buffer
about half becomes window, the rest is for its own overhead; a send buffer grows to twice the congestion window, since
what was lost in a window is still there in the next (tcp_sndbuf_expand() in net/ipv4/tcp_input.c). So 2 BDP are needed
of each. rmem_max and wmem_max only limit what applications ask for themselves (SO_RCVBUF, SO_SNDBUF; iperf3's -w).
tcp_mem limits all sockets of the machine together, in pages.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ccmix.doctor.findings import Finding, Status, line
from ccmix.doctor.needs import Load
from ccmix.doctor.reading import files, numbers, whole
from ccmix.hosts import Host
from ccmix.units import format_bytes, format_rate, format_time

BDPS = 2
MOST_BUFFER_BYTES = 2**31 - 1  # the kernel's limit (net/ipv4/sysctl_net_ipv4.c counts in int)
FILES = ("ipv4/tcp_rmem", "ipv4/tcp_wmem", "ipv4/tcp_mem", "core/rmem_max", "core/wmem_max")


@dataclass(frozen=True)
class Buffers:
    """Bytes, but `mem_pages`; None where the host doesn't show it, as network namespaces do."""

    rmem: tuple[int, int, int] | None
    wmem: tuple[int, int, int] | None
    mem_pages: tuple[int, int, int] | None
    rmem_max: int | None
    wmem_max: int | None
    page_bytes: int


@dataclass(frozen=True)
class Demand:
    """`flow_bytes`: BDP of the flow that has most; `all_bytes`: of all flows; `certain`: of a rate that was asked for,
    not of what the device could do at best.
    """

    flow_bytes: float
    all_bytes: float
    sentence: str
    certain: bool


def read_buffers(host: Host) -> Buffers:
    """Raises CommandError or ValueError."""
    said = files(host, *(f"/proc/sys/net/{name}" for name in FILES))
    pages = host.run(["getconf", "PAGESIZE"])
    return buffers_of({name.removeprefix("/proc/sys/net/"): text for name, text in said.items()}, pages)


def buffers_of(said: Mapping[str, str], page: str) -> Buffers:
    """Raises ValueError."""

    def three(name: str) -> tuple[int, int, int] | None:
        if name not in said:
            return None
        least, middle, most = numbers(said[name], 3, name)
        return least, middle, most

    def one(name: str) -> int | None:
        return whole(said[name], name, 0) if name in said else None

    if not said:
        raise ValueError("the host shows none of its buffer sizes")
    return Buffers(
        rmem=three("ipv4/tcp_rmem"),
        wmem=three("ipv4/tcp_wmem"),
        mem_pages=three("ipv4/tcp_mem"),
        rmem_max=one("core/rmem_max"),
        wmem_max=one("core/wmem_max"),
        page_bytes=whole(page, "the size of a page", 1),
    )


def demand(loads: Iterable[Load], rtt_s: float | None, speed_bps: float | None) -> Demand | None:
    """Of the condition that needs the largest buffer. `rtt_s` None: not known; `speed_bps`: of the NIC.

    None where the rate or the round-trip time can't be told.
    """
    found = []
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
        found.append(Demand(flow_bps * rtt / 8, load.streams * flow_bps * rtt / 8, sentence, certain))
    return max(found, key=lambda one: one.flow_bytes, default=None)


def judge_buffers(
    buffers: Buffers, sends: Demand | None, receives: Demand | None, window_bytes: int
) -> Iterator[Finding]:
    """`window_bytes`: what a command asks for by itself, as with iperf3's -w."""
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
            yield Finding(name, Status.OK, f"{format_bytes(most)}, and a command asks for {format_bytes(window_bytes)}")
        else:
            yield Finding(
                name, Status.FAIL, f"{format_bytes(most)}, and a command asks for {format_bytes(window_bytes)}",
                "A command that sets its socket buffer (-w) gets no more than this, without being told.",
                (line("sysctl", "-w", f"{name}={window_bytes}"),),
            )  # fmt: skip
    total = BDPS * sum(one.all_bytes for one in (sends, receives) if one)
    if buffers.mem_pages is not None and total:
        yield _all_sockets(buffers.mem_pages, buffers.page_bytes, total)


def _automatic(name: str, sizes: tuple[int, int, int], wanted: Demand, what: str) -> Finding:
    most = sizes[2]
    needed = min(BDPS * wanted.flow_bytes, MOST_BUFFER_BYTES)
    seen = f"up to {format_bytes(most)}; {wanted.sentence}"
    if most >= needed:
        return Finding(name, Status.OK, seen)
    size = min(2 ** max(16, (round(needed) - 1).bit_length()), MOST_BUFFER_BYTES)
    status = Status.FAIL if wanted.certain and most < wanted.flow_bytes else Status.WARN
    limit = "the run is then limited by the host" if status is Status.FAIL else "a flow that has lost may be limited"
    return Finding(
        name, status, seen, f"{what}, and a flow needs {BDPS} BDP, {format_bytes(needed)}: {limit}.",
        (line("sysctl", "-w", f"{name}={sizes[0]} {min(sizes[1], size)} {size}"),),
    )  # fmt: skip


def _all_sockets(pages: tuple[int, int, int], page_bytes: int, total: float) -> Finding:
    pressure, most = pages[1] * page_bytes, pages[2] * page_bytes
    seen = f"pressure from {format_bytes(pressure)}, at most {format_bytes(most)}; all flows need {format_bytes(total)}"
    if total < pressure:
        return Finding("net.ipv4.tcp_mem", Status.OK, seen)
    needed = round(total / page_bytes) + 1
    return Finding(
        "net.ipv4.tcp_mem", Status.FAIL if total > most else Status.WARN, seen,
        "All sockets of the host share this; under pressure their windows stop growing.",
        (line("sysctl", "-w", f"net.ipv4.tcp_mem={needed} {2 * needed} {3 * needed}"),),
    )  # fmt: skip
