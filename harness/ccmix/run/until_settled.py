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
    """Ends all tests of a run as soon as the run has settled: the goodputs that the tests report no
    longer change. Returns the measured time in seconds.

    Returns None if the tests continue to their maximum duration, because the run has not settled,
    or if a test has ended by itself, which means that it has failed. Raises CommandError.

    begin: when the traffic began
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
    """Returns whether the run has settled after `look_s` seconds of measured time: its goodputs
    were steady, and this time is long enough for the path. Reports that are late are awaited for up
    to 10 s.
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
    """Returns the goodputs of each group of flows, as the receivers have reported them: a value in
    bit/s for each interval of the measured time. None if a report is still missing.
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
    """Yields the metrics of each group of flows so far (goodput, RTT, retransmission rate), as the
    senders have reported them. The length that the run needs is calculated from these.
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
    """Estimates the fraction of a group's packets that were retransmitted: retransmitted segments /
    packets. The number of packets follows from the bytes sent, assuming packets of a usual size.
    """
    packets = group.bytes / (LIKELY_MTU_BYTES - HEADER_BYTES)
    return min(1.0, group.retransmits / packets) if packets else 0.0


def _name(run: Run, source: Iperf3Source | UdpSource, number: int) -> str:
    """Returns the name that a group of flows has in the results. `number` is the position of the
    group in its source, counted from 1.
    """
    names = run.traffic.of_source(source).group_names
    return run.group_name(source, names[number - 1] if names else "")
