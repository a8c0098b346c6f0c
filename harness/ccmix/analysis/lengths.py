"""Decides how long a run must last, from the slowest period of its CCAs and from its goodput."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ccmix.model import (
    ETHERNET_HEADER_BYTES,
    Iperf3Source,
    Run,
    Topology,
)
from ccmix.model.results import GroupMetrics
from ccmix.terms import BBRS
from ccmix.units import format_count, format_time

LEAST_RTTS = 100  # with a full queue
LEAST_CYCLES = 5  # of anything slower
HEADER_BYTES = 52  # of IPv4, and of TCP with timestamps
LIKELY_MTU_BYTES = 1500  # of a path between hosts

# Window of the smallest RTT, after which every version of BBR drains the queue: bbr_min_rtt_win_sec
# of tcp_bbr.c
BBR_CYCLE_S = 10.0

CUBIC_C = 0.4  # RFC 9438, section 5
CUBIC_BETA = 0.7  # RFC 9438, section 4.6
# of the Reno-friendly region, RFC 9438, section 4.3
CUBIC_ALPHA = 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA)
RENO_BETA = 0.5  # RFC 5681, section 3.1
SHORT_QUEUES = frozenset(
    {"codel", "fq_codel", "pie", "fq_pie", "cake"}
)  # they drop long before the buffer is full

LEAST_INTERVALS = 20  # one for each batch of the trend test
LEAST_CHANGE = 0.1  # of the mean, from the first quarter to the last: less does not matter
# recommended durations; longer ones are whole hours
DURATIONS_S = (10, 20, 30, 60, 120, 180, 300, 600, 1200, 1800, 3600)
LEAST_LOOK_S = 10.0


@dataclass(frozen=True)
class Period:
    """Describes something that repeats during a run, such as the RTT or BBR's cycle of 10 s, and
    how often it must repeat in the measured time.
    """

    name: str  # in the plural: 'RTTs'
    seconds: float
    least: int  # repetitions

    @property
    def enough_s(self) -> float:
        """Returns the shortest measured time in which the period repeats often enough."""
        return self.least * self.seconds


@dataclass(frozen=True)
class _Flow:
    """Describes a typical flow of one CCA, to compute how long its window takes to grow back."""

    cca: str
    window_packets: float  # the largest for which the path has room
    rtt_s: float  # with a full queue
    loss: float  # share of packets that the path loses at random


def slowest_period(run: Run, groups: Sequence[GroupMetrics] = ()) -> Period | None:
    """Returns the period (such as the RTT) that needs the longest measured time, because a run must
    hold several of each period. Returns None if nothing is known about the path.

    groups: the metrics of a finished run, from which the periods on a real path are estimated;
        empty before the run
    """
    return max(_periods(run, groups), key=lambda period: period.enough_s, default=None)


def _periods(run: Run, groups: Sequence[GroupMetrics]) -> Iterator[Period]:
    """Yields all periods of which a run must hold several: BBR's cycle, the RTT of each group, and
    the time in which the window of CUBIC or Reno grows back after a loss.
    """
    configured = {group.cca for group in run.traffic.all_groups}
    used = {cca for group in groups for cca in group.cca.split(",")}
    if BBRS.keys() & (configured | used):
        yield Period("BBR cycles", BBR_CYCLE_S, LEAST_CYCLES)
    emulated = isinstance(run.path, Topology)
    for flow in _emulated_flows(run) if emulated else _measured_flows(groups):
        yield Period("RTTs", flow.rtt_s, LEAST_RTTS)
        for cca, name, period_s in (
            ("cubic", "CUBIC periods", cubic_period_s),
            ("reno", "Reno periods", reno_period_s),
        ):
            if flow.cca == cca:
                seconds = period_s(flow.window_packets, flow.rtt_s, flow.loss)
                yield Period(name, seconds, LEAST_CYCLES)


def _emulated_flows(run: Run) -> Iterator[_Flow]:
    """Yields a typical flow for each group of an emulated path, from the path's configuration.
    Assumes that all flows have the same share of the BDP and the buffer.
    """
    path = run.topology
    queue_bytes = (
        min(path.buffer_bytes, path.bdp_bytes)
        if path.queue.kind in SHORT_QUEUES
        else path.buffer_bytes
    )
    rtt_s = path.base_rtt_s + queue_bytes * 8 / path.rate_bps
    sources = [source for source in run.traffic.sources if isinstance(source, Iperf3Source)]
    flows = sum(source.streams for source in sources)
    losses = {sender.name: sender.loss.mean if sender.loss else 0.0 for sender in path.senders}
    packet_bytes = path.packet_bytes - ETHERNET_HEADER_BYTES - HEADER_BYTES
    for source in sources:
        for group in source.groups:
            rates_bps = (group.pacing_bps, run.traffic.pacing_bps, path.rate_bps / flows)
            window = min(filter(None, rates_bps)) * rtt_s / 8 / packet_bytes
            yield _Flow(group.cca, window, rtt_s, losses.get(source.host, 0.0))


def _measured_flows(groups: Sequence[GroupMetrics]) -> Iterator[_Flow]:
    """Yields a typical flow for each group of a finished run on a real path: its window is its
    goodput times its RTT, and its retransmission rate stands for the path's loss.
    """
    for group in groups:
        if group.rtt_p95_s and group.streams:
            packet_bytes = LIKELY_MTU_BYTES - HEADER_BYTES
            window = group.goodput_bps / group.streams * group.rtt_p95_s / 8 / packet_bytes
            yield _Flow(group.cca, window, group.rtt_p95_s, group.retransmission_rate or 0.0)


def cubic_period_s(window_packets: float, rtt_s: float, loss: float) -> float:
    """Returns the seconds from one reduction of CUBIC's window to the next. It is the smaller of
    two times: K of RFC 9438, section 4.2, and the time that growth takes in the Reno-friendly
    region (section 4.3).

    window_packets: the largest window for which the path has room
    loss: random loss, a fraction of packets; it keeps the window below that, at the response
        function of section 5
    """
    if loss:
        cubic = (CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA))) ** 0.25 * (
            rtt_s / loss
        ) ** 0.75
        reno_friendly = (CUBIC_ALPHA * (1 + CUBIC_BETA) / (2 * (1 - CUBIC_BETA) * loss)) ** 0.5
        window_packets = min(window_packets, max(cubic, reno_friendly))
    k_s: float = (window_packets * (1 - CUBIC_BETA) / CUBIC_C) ** (1 / 3)
    return min(k_s, (1 - CUBIC_BETA) * window_packets / CUBIC_ALPHA * rtt_s)


def reno_period_s(window_packets: float, rtt_s: float, loss: float) -> float:
    """Returns the seconds from one reduction of Reno's window to the next: the window loses half,
    and grows back by one packet each RTT (RFC 5681).

    window_packets: the largest window for which the path has room
    loss: random loss, a fraction of packets; it keeps the window below that, at sqrt(3 / (2 loss))
        packets (Mathis et al. 1997)
    """
    if loss:
        window_packets = min(window_packets, (1.5 / loss) ** 0.5)
    return (1 - RENO_BETA) * window_packets * rtt_s


def changes_by_design(run: Run) -> str | None:
    """Returns why the goodput of a run must change in the measured time: because traffic begins
    late, or because the path is configured to change. It then cannot be judged whether the run has
    settled. Returns None if there is no such reason.
    """
    omit_s, total_s = run.traffic.omit_s, run.traffic.total_s
    if (last_s := max(run.traffic.starts_s)) > omit_s + run.traffic.measured_s / LEAST_INTERVALS:
        return f"traffic begins after {format_time(last_s)}, so goodput changes"
    changes_s = (
        [change.at_s for change in run.path.changes] if isinstance(run.path, Topology) else []
    )
    if changing := [at_s for at_s in changes_s if omit_s < at_s < total_s]:
        return f"the path changes after {format_time(min(changing))}, so goodput changes"
    return None


def too_short(run: Run, period: Period | None) -> Iterator[tuple[str, float]]:
    """Yields each reason why the measured time of a run is too short to judge whether the run has
    settled: a clause for a message, and the seconds that would be enough.

    period: the slowest period of the run, of which it must hold several; None if not known
    """
    measured_s, interval_s = run.traffic.measured_s, run.traffic.goodput_interval_s
    intervals = round(measured_s / interval_s)
    if intervals < LEAST_INTERVALS:
        verb = "is" if intervals == 1 else "are"
        yield (
            f"{format_count(intervals, 'interval')} of {format_time(interval_s)} {verb} too few to "
            f"tell: {LEAST_INTERVALS} are needed",
            LEAST_INTERVALS * interval_s,
        )
    if period and measured_s < period.enough_s:
        yield (
            f"{_too_short_to_hold(measured_s)} {_periods_in(measured_s, period)}, and "
            f"{period.least} are "
            "needed",
            period.enough_s,
        )


def _too_short_to_hold(measured_s: float) -> str:
    """Returns the first part of a clause: '10 s are too short to tell: they hold'."""
    text = format_time(measured_s)
    holds = (
        "is too short to tell: it holds" if _is_one(text) else "are too short to tell: they hold"
    )
    return f"{text} {holds}"


def _periods_in(measured_s: float, period: Period) -> str:
    """Returns how many periods fit into the measured time, such as '1 BBR cycle of 10 s'."""
    count = f"{measured_s / period.seconds:.2g}"
    name = period.name.removesuffix("s") if _is_one(count) else period.name
    return f"{count} {name} of {format_time(float(f'{period.seconds:.2g}'))}"


def _is_one(text: str) -> bool:
    """Returns whether a quantity such as '1 s' is exactly 1, so that the words about it are
    singular.
    """
    return text.partition(" ")[0] == "1"


def rounded_up(seconds: float) -> float:
    """Returns the next longer duration that people would write into a configuration, in seconds: 60
    for 45, and whole hours above one hour.
    """
    hours_s = math.ceil(seconds / 3600) * 3600
    return float(next((duration for duration in DURATIONS_S if duration >= seconds), hours_s))


def too_short_warnings(runs: Iterable[Run]) -> Iterator[str]:
    """Yields warnings before a campaign: a sentence for each entry of the configuration with runs
    that are too short to settle. Its reason is that of the run which needs the longest duration.
    """
    by_entry: dict[str, dict[str, Run]] = {}
    for run in runs:
        by_entry.setdefault(run.entry, {}).setdefault(f"{run.dst} {run.condition_name}", run)
    for entry, conditions in by_entry.items():
        judged = [
            run
            for run in conditions.values()
            if run.traffic.duration_s is not None and not changes_by_design(run)
        ]
        reasons = [
            (enough_s, clause, run)
            for run in judged
            for clause, enough_s in too_short(run, slowest_period(run))
        ]
        if reasons:
            enough_s, clause, worst = max(reasons, key=lambda reason: reason[0])
            count = len({id(run) for _, _, run in reasons})
            several = len(conditions) > 1
            how_many = f": {count} of {len(conditions)} conditions" if several else ""
            example = f", such as {worst.condition_name}" if several else ""
            limit = "settled, at most " if worst.traffic.at_most_s is not None else ""
            yield (
                f"{entry}{how_many} can't settle{example}: {clause}; duration = "
                f"{limit}{rounded_up(enough_s):g}s would do"
            )


def looks_s(run: Run) -> Iterator[float]:
    """Yields the times at which ccmix looks whether a run has settled, if the run is to end as soon
    as it has. They are measured times in seconds. The first one may be long enough; each other one
    is twice the one before. All are below the maximum duration.
    """
    period = slowest_period(run)
    least_s = max(
        LEAST_LOOK_S,
        LEAST_INTERVALS * run.traffic.goodput_interval_s,
        period.enough_s if period else 0.0,
    )
    look_s = rounded_up(least_s)
    while look_s < run.traffic.measured_s:
        yield look_s
        look_s *= 2


def is_steady(goodputs: Mapping[str, Sequence[float]]) -> bool:
    """Returns whether the goodput of each group changed by less than LEAST_CHANGE (10%) over the
    run. If there are several groups, each group's share of the goodput must also have changed by
    less than that.

    goodputs: the goodput of each group in each interval, by the group's name
    """
    series = list(goodputs.values())
    if len(series) > 1:
        totals = [sum(values) for values in zip(*series, strict=True)]
        series += [
            [value / total if total else 0.0 for value, total in zip(goodput, totals, strict=True)]
            for goodput in series
        ]
    return all(abs(change(values)) < LEAST_CHANGE for values in series)


def change(values: Sequence[float]) -> float:
    """Returns by how much a series has changed, as a fraction of its mean: (mean of the last
    quarter - mean of the first quarter) / mean of all. Returns 0 if the mean is 0.

    If the number of values is not a multiple of 4, the value at the end of a quarter counts in
    part.
    """
    sums = [0.0, *accumulate(values)]
    if not sums[-1]:
        return 0.0
    quarter, rest = divmod(len(values), 4)
    first = sums[quarter] + rest / 4 * values[quarter]
    last = sums[-1] - sums[len(values) - quarter] + rest / 4 * values[-quarter - 1]
    return 4 * (last - first) / sums[-1]
