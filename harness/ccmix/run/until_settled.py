"""Ends a run early once the goodputs that iperf3 reports no longer change (the run has settled).

Uses only the standard library.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ccmix.agent.deadline import Deadline
from ccmix.analysis.lengths import (
    HEADER_BYTES,
    LIKELY_MTU_BYTES,
    is_steady,
    looks_s,
    slowest_period,
    too_short,
)
from ccmix.generators.iperf3 import Iperf3Test
from ccmix.generators.iperf3_progress import GroupProgress, read_progress
from ccmix.model import Iperf3Source, Run, UdpSource
from ccmix.model.results import GroupMetrics

REPORTS_WITHIN_S = 10.0  # maximum delay of the receiver's report after the end of an interval
LOOKS_EACH_S = 0.1  # for that report

Test = tuple[Iperf3Source | UdpSource, Iperf3Test]


def ended_when_settled(run: Run, tests: Sequence[Test], begin: Deadline) -> float | None:
    """Looks at the tests' reports from time to time, and ends all tests once the run has settled:
    its goodputs no longer change. Returns the measured time in seconds; None if the run is to
    continue to its limit.

    `begin` is when the traffic began. A test that ends by itself has failed: then it returns None,
    too. Raises CommandError.
    """
    for look_s in looks_s(run):
        until = begin.plus(run.traffic.omit_s + look_s)
        if any(test.ends_within(until.remaining_s) for _, test in tests):
            return None
        if _has_settled(run, tests, look_s):
            for _, test in tests:
                test.end_now()
            return look_s
    return None


def _has_settled(run: Run, tests: Sequence[Test], look_s: float) -> bool:
    """Returns whether the goodputs were steady over the first `look_s` seconds of measured time,
    and that time is long enough for the path. Waits for reports that are late.
    """
    measured = replace(run, traffic=replace(run.traffic, duration_s=look_s))
    goodputs, late = _goodputs(measured, tests), Deadline(REPORTS_WITHIN_S)
    while goodputs is None and not late.expired:
        if any(test.ends_within(LOOKS_EACH_S) for _, test in tests):
            return False
        goodputs = _goodputs(measured, tests)
    if not goodputs or any(
        too_short(measured, slowest_period(measured, list(_groups(measured, tests))))
    ):
        return False
    return is_steady(goodputs)


def _goodputs(run: Run, tests: Sequence[Test]) -> dict[str, list[float]] | None:
    """Returns the goodputs of each group of flows, in bit/s for each interval of the measured time,
    as the receivers report them; None while a report is missing.
    """
    interval_s = run.traffic.goodput_interval_s
    count = round(run.traffic.measured_s / interval_s)
    goodputs: dict[str, list[float]] = {}
    for source, test in tests:
        progress = read_progress(test.receiver_output, interval_s)
        if not progress or min(len(group.goodput_bps) for group in progress.values()) < count:
            return None
        for number, group in progress.items():
            sums = goodputs.setdefault(_name(run, source, number), [0.0] * count)
            goodputs[_name(run, source, number)] = [
                total + goodput for total, goodput in zip(sums, group.goodput_bps, strict=False)
            ]
    return goodputs


def _groups(run: Run, tests: Sequence[Test]) -> Iterator[GroupMetrics]:
    """Yields what the senders have reported so far on their groups of flows (goodput, RTT, rate of
    retransmissions), from which the length that a run needs is calculated.
    """
    for source, test in tests:
        progress = read_progress(test.client_output, run.traffic.goodput_interval_s)
        for number, group in progress.items():
            yield GroupMetrics(
                group=_name(run, source, number),
                host=source.host,
                cca=group.cca,
                streams=group.streams,
                goodput_bps=sum(group.goodput_bps) / len(group.goodput_bps),
                throughput_bps=None,
                retransmission_rate=_retransmission_rate(group),
                rtt_p95_s=max(group.rtts_s, default=None),
            )


def _retransmission_rate(group: GroupProgress) -> float:
    """Estimates the fraction of packets that were retransmitted, for packets of a usual size."""
    packets = group.bytes / (LIKELY_MTU_BYTES - HEADER_BYTES)
    return min(1.0, group.retransmits / packets) if packets else 0.0


def _name(run: Run, source: Iperf3Source | UdpSource, number: int) -> str:
    """Returns the name in the results of a source's group of flows, which are counted from 1."""
    names = run.traffic.of_source(source).group_names
    return run.group_name(source, names[number - 1] if names else "")
