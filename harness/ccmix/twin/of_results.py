"""Estimates what results alone tell of a path, such as those of an imported table: bounds, mostly.

docs/explanation/real-and-emulated.md says why a table of goodputs tells no more.
"""

import statistics
from collections.abc import Iterator, Sequence

from ccmix.model.results import FinishedRun
from ccmix.twin.base_rtt import BASE_RTT, NOISE
from ccmix.twin.estimate import Estimate, cannot_be_told
from ccmix.twin.hosts import ECN, MTU, SEND_BUFFER, WINDOW
from ccmix.twin.loss import BURST, LOSS, SEEN
from ccmix.twin.policer import POLICER
from ccmix.twin.queue import BUFFER, QUEUE
from ccmix.twin.rate import CROSS, RATE
from ccmix.twin.reordering import REORDERING

NO_SERIES = "the results have no series of samples"


def estimates_of_results(runs: Sequence[FinishedRun]) -> tuple[Estimate, ...]:
    """Returns every estimate of a path from the goodput, retransmission rate and median RTT of its runs, in the order
    in which estimates are shown.
    """
    best_bps = max((run.metrics.goodput_bps or 0.0 for run in runs), default=0.0)
    rtts_s = list(_rtts(runs))
    base_s = min(rtts_s, default=None)
    return (
        _base_rtt(base_s),
        cannot_be_told(NOISE, "s", NO_SERIES),
        _rate(best_bps),
        cannot_be_told(CROSS, "bps", NO_SERIES),
        _buffer(runs, base_s, best_bps),
        cannot_be_told(QUEUE, "", NO_SERIES),
        cannot_be_told(POLICER, "bytes", NO_SERIES),
        _loss(runs),
        cannot_be_told(SEEN, "", NO_SERIES),
        cannot_be_told(BURST, "packets", NO_SERIES),
        cannot_be_told(REORDERING, "share", NO_SERIES),
        _window(runs),
        cannot_be_told(SEND_BUFFER, "", NO_SERIES),
        cannot_be_told(MTU, "bytes", NO_SERIES),
        cannot_be_told(ECN, "", NO_SERIES),
    )  # fmt: skip


def _rtts(runs: Sequence[FinishedRun]) -> Iterator[float]:
    """Yields the median RTTs under load of all groups."""
    for run in runs:
        yield from (group.rtt_median_s for group in run.metrics.groups if group.rtt_median_s is not None)


def _base_rtt(base_s: float | None) -> Estimate:
    if base_s is None:
        return cannot_be_told(BASE_RTT, "s", "no result has an RTT")
    origin = "the smallest RTT under load of any test, an upper bound"
    return Estimate(BASE_RTT, "s", base_s, high=base_s, origin=origin)


def _rate(best_bps: float) -> Estimate:
    if not best_bps:
        return cannot_be_told(RATE, "bps", "no result has a goodput")
    return Estimate(
        RATE, "bps", best_bps, low=best_bps, origin="the best goodput of any test, without headers, a lower bound"
    )


def _buffer(runs: Sequence[FinishedRun], base_s: float | None, best_bps: float) -> Estimate:
    """Returns a lower bound: the growth of the RTT, as a mean over the tests that make it grow most, times the best
    goodput.
    """
    because = "the median of RTTs does not show when it was full"
    of_condition: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        for group in run.metrics.groups:
            if group.rtt_median_s is not None:
                key = run.run.entry, run.run.condition_name, group.group
                of_condition.setdefault(key, []).append(group.rtt_median_s)
    most_s = max(map(statistics.fmean, of_condition.values()), default=None)
    grown_s = most_s - base_s if most_s is not None and base_s is not None else 0.0
    origin = "the largest growth of the RTT x the best goodput"
    return cannot_be_told(BUFFER, "bytes", because, low=grown_s * best_bps / 8 or None, origin=origin)


def _loss(runs: Sequence[FinishedRun]) -> Estimate:
    """Returns that it is at most the smallest retransmission rate: flows cause losses in the buffer, too."""
    rates = [
        group.retransmission_rate
        for run in runs
        for group in run.metrics.groups
        if group.retransmission_rate is not None
    ]
    if not rates:
        return cannot_be_told(LOSS, "share", "no result has a retransmission rate")
    because = "flows retransmit what they lose in the buffer, too"
    origin = "the smallest retransmission rate of any test"
    return Estimate(LOSS, "share", high=min(rates), unknown=because, origin=origin)


def _window(runs: Sequence[FinishedRun]) -> Estimate:
    """Returns that it is at least the largest goodput x RTT of a single flow."""
    products = [
        run.metrics.groups[0].goodput_bps * run.metrics.groups[0].rtt_median_s / 8
        for run in runs
        if len(run.metrics.groups) == 1 and run.metrics.groups[0].streams == 1 and run.metrics.groups[0].rtt_median_s
    ]
    because = "nothing shows what limited the flows"
    return cannot_be_told(
        WINDOW, "bytes", because, low=max(products, default=None), origin="the largest goodput x RTT of a single flow"
    )
