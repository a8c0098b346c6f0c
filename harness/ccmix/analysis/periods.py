"""Tells how long the slowest things of a path take that repeat: a measured time must hold several of each.

Before a run, these follow from its configuration. The rate of a path between hosts is known only afterwards, from
goodputs and RTTs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ccmix.model import ETHERNET_HEADER_BYTES, Group, GroupedSource, Iperf3Source, Run, Topology
from ccmix.model.results import GroupMetrics
from ccmix.terms import BBRS

LEAST_RTTS = 100  # with a full queue
LEAST_CYCLES = 5  # of anything slower
HEADER_BYTES = 52  # of IPv4, and of TCP with timestamps
LIKELY_MTU_BYTES = 1500  # of a path between hosts

# Window of the smallest RTT, after which BBR, of any version, drains the queue: bbr_min_rtt_win_sec of tcp_bbr.c
BBR_CYCLE_S = 10.0

CUBIC_C = 0.4  # RFC 9438, section 5
CUBIC_BETA = 0.7  # RFC 9438, section 4.6
CUBIC_ALPHA = 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA)  # of the Reno-friendly region, RFC 9438, section 4.3
RENO_BETA = 0.5  # RFC 5681, section 3.1
SHORT_QUEUES = frozenset({"codel", "fq_codel", "pie", "fq_pie", "cake"})  # they drop long before the buffer is full


@dataclass(frozen=True)
class Period:
    """Describes something that repeats, and how often a measured time must hold it."""

    name: str  # as after a number
    seconds: float
    least: int

    @property
    def enough_s(self) -> float:
        """Returns the shortest measured time that holds enough of them."""
        return self.least * self.seconds


@dataclass(frozen=True)
class _Flow:
    """Describes a flow of one CCA: the largest window that it has room for, and its RTT with a full queue."""

    cca: str
    window_packets: float
    rtt_s: float
    loss: float  # share of packets that the path loses at random


def slowest(run: Run, groups: Sequence[GroupMetrics] = ()) -> Period | None:
    """Returns the period that asks for the longest measured time; None where nothing is known of the path.

    `groups` are those of the finished run, where there is one.
    """
    return max(_periods(run, groups), key=lambda period: period.enough_s, default=None)


def _periods(run: Run, groups: Sequence[GroupMetrics]) -> Iterator[Period]:
    asked = {group.cca for group in run.traffic.all_groups}
    used = {cca for group in groups for cca in group.cca.split(",")}
    if BBRS.keys() & (asked | used):
        yield Period("BBR cycles", BBR_CYCLE_S, LEAST_CYCLES)
    flows = list(_emulated_flows(run, run.path) if isinstance(run.path, Topology) else _measured_flows(groups))
    for flow in flows:
        yield Period("RTTs", flow.rtt_s, LEAST_RTTS)
        if flow.cca == "cubic":
            yield Period("CUBIC periods", cubic_period_s(flow.window_packets, flow.rtt_s, flow.loss), LEAST_CYCLES)
        elif flow.cca == "reno":
            yield Period("Reno periods", reno_period_s(flow.window_packets, flow.rtt_s, flow.loss), LEAST_CYCLES)


def _emulated_flows(run: Run, path: Topology) -> Iterator[_Flow]:
    """Yields a flow of each group of iperf3's: all flows are taken to have the same share of BDP and buffer."""
    queue_bytes = min(path.buffer_bytes, path.bdp_bytes) if path.queue.kind in SHORT_QUEUES else path.buffer_bytes
    rtt_s = path.base_rtt_s + queue_bytes * 8 / path.rate_bps
    sources = [source for source in run.traffic.sources if isinstance(source, Iperf3Source)]
    flows = sum(source.streams for source in sources)
    of_sender = {sender.name: sender.loss.mean if sender.loss else 0.0 for sender in path.senders}
    packet_bytes = path.packet_bytes - ETHERNET_HEADER_BYTES - HEADER_BYTES
    for source, group in _groups(sources):
        paced_bps = min(rate for rate in (group.pacing_bps, run.traffic.pacing_bps, path.rate_bps / flows) if rate)
        window = paced_bps * rtt_s / 8 / packet_bytes
        yield _Flow(group.cca, window, rtt_s, of_sender.get(source.host, 0.0))


def _groups(sources: Iterable[Iperf3Source]) -> Iterator[tuple[GroupedSource, Group]]:
    return ((source, group) for source in sources for group in source.groups)


def _measured_flows(groups: Sequence[GroupMetrics]) -> Iterator[_Flow]:
    """Yields a flow of each group: it had a window of its goodput times its RTT."""
    for group in groups:
        if group.rtt_p95_s and group.streams:
            packet_bytes = LIKELY_MTU_BYTES - HEADER_BYTES
            window = group.goodput_bps / group.streams * group.rtt_p95_s / 8 / packet_bytes
            yield _Flow(group.cca, window, group.rtt_p95_s, group.retransmission_rate or 0.0)


def cubic_period_s(window_packets: float, rtt_s: float, loss: float) -> float:
    """Returns the time from one reduction of the window to the next: K of RFC 9438, section 4.2, or where that is less,
    what the Reno-friendly region takes (section 4.3).

    Random loss keeps the window at the response function of section 5.
    """
    if loss:
        cubic = (CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA))) ** 0.25 * (rtt_s / loss) ** 0.75
        friendly = (CUBIC_ALPHA * (1 + CUBIC_BETA) / (2 * (1 - CUBIC_BETA) * loss)) ** 0.5
        window_packets = min(window_packets, max(cubic, friendly))
    k_s: float = (window_packets * (1 - CUBIC_BETA) / CUBIC_C) ** (1 / 3)
    return min(k_s, (1 - CUBIC_BETA) * window_packets / CUBIC_ALPHA * rtt_s)


def reno_period_s(window_packets: float, rtt_s: float, loss: float) -> float:
    """Returns the time in which Reno's window grows by the half that it lost, one packet each RTT (RFC 5681).

    Random loss keeps the window at sqrt(3 / (2 loss)) packets (Mathis et al. 1997).
    """
    if loss:
        window_packets = min(window_packets, (1.5 / loss) ** 0.5)
    return (1 - RENO_BETA) * window_packets * rtt_s
