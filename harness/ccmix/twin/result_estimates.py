"""Estimates a path from results without series of samples, such as an imported table.

They mostly give bounds: docs/explanation/real-and-emulated.md says why a table of goodputs does not
show more.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ccmix.model.results import FinishedRun
from ccmix.twin.estimate import (
    BASE_RTT,
    BUFFER,
    LOSS,
    RATE,
    UNITS,
    WINDOW,
    Estimate,
    cannot_be_told,
)

NO_SERIES = "the results have no series of samples"
ALIKE = 0.1  # maximum difference of the mean goodput x RTT between CCAs that a window limits
# of the best goodput of any test: a single flow that a window limits does not reach this
MUCH_LESS = 0.8


def estimates_of_results(runs: Sequence[FinishedRun]) -> tuple[Estimate, ...]:
    """Returns all estimates of a path, in the order in which they are shown, for runs of which only
    results are known, such as rows of an imported table. They follow from goodputs, retransmission
    rates and median RTTs. A quantity that these can't show has an estimate without a value.
    """
    best_bps = max((run.metrics.goodput_bps or 0.0 for run in runs), default=0.0)
    rtts_s = [group.rtt_median_s for run in runs for group in run.metrics.groups]
    base_s = min((rtt_s for rtt_s in rtts_s if rtt_s is not None), default=None)
    known_ones = (
        _base_rtt_of_results(base_s),
        _rate_of_results(best_bps),
        _buffer_of_results(runs, base_s, best_bps),
        _loss_of_results(runs),
        _window_of_results(runs, best_bps),
    )
    known = {estimate.quantity: estimate for estimate in known_ones}
    return tuple(known.get(each) or cannot_be_told(each, NO_SERIES) for each in UNITS)


def _base_rtt_of_results(base_s: float | None) -> Estimate:
    """Returns the estimate of the base RTT (without queueing): at most `base_s`, which is the
    smallest RTT under load of any test, or None if no test has an RTT.
    """
    if base_s is None:
        return cannot_be_told(BASE_RTT, "no result has an RTT")
    origin = "the smallest RTT under load of any test, an upper bound"
    return Estimate(BASE_RTT, base_s, high=base_s, origin=origin)


def _rate_of_results(best_bps: float) -> Estimate:
    """Returns the estimate of the bottleneck's rate: at least `best_bps`, the best goodput of any
    test.
    """
    if not best_bps:
        return cannot_be_told(RATE, "no result has a goodput")
    return Estimate(
        RATE,
        best_bps,
        low=best_bps,
        origin="the best goodput of any test, without headers, a lower bound",
    )


def _buffer_of_results(
    runs: Sequence[FinishedRun], base_s: float | None, best_bps: float
) -> Estimate:
    """Returns a lower bound of the buffer in bytes: (largest RTT - base RTT) x best goodput.

    The largest RTT is the mean over the iterations of the group of flows that has the largest mean.
    `base_s` is the smallest RTT of all tests, and `best_bps` is their best goodput.
    """
    because = "the median RTT does not show when the buffer was full"
    rtts_of_tests: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        for group in run.metrics.groups:
            if group.rtt_median_s is not None:
                key = run.run.entry, run.run.condition_name, group.group
                rtts_of_tests.setdefault(key, []).append(group.rtt_median_s)
    largest_rtt_s = max(map(statistics.fmean, rtts_of_tests.values()), default=None)
    grown_s = largest_rtt_s - base_s if largest_rtt_s is not None and base_s is not None else 0.0
    origin = "the largest growth of the RTT x the best goodput"
    return cannot_be_told(BUFFER, because, low=grown_s * best_bps / 8 or None, origin=origin)


def _loss_of_results(runs: Sequence[FinishedRun]) -> Estimate:
    """Returns an upper bound of the share of packets that are lost at random: the smallest
    retransmission rate of any test. Flows also retransmit packets that were lost in the buffer.
    """
    rates = [
        group.retransmission_rate
        for run in runs
        for group in run.metrics.groups
        if group.retransmission_rate is not None
    ]
    if not rates:
        return cannot_be_told(LOSS, "no result has a retransmission rate")
    because = "flows also retransmit packets that were lost in the buffer"
    origin = "the smallest retransmission rate of any test"
    return Estimate(LOSS, high=min(rates), unknown=because, origin=origin)


def _window_of_results(runs: Sequence[FinishedRun], best_bps: float) -> Estimate:
    """Returns the estimate of the receive window in bytes: goodput x RTT of single flows.

    A window limits single flows if this product is alike for all CCAs (within 10%), and if several
    flows got clearly more than one flow. Then the estimate is the largest mean of a CCA: a CCA
    without loss reaches the window, and a CCA that loses packets stays below it. Otherwise the
    largest product is a lower bound.

    best_bps: the best goodput of any test
    """
    products_by_cca: dict[str, list[float]] = {}
    single_flows = [
        run.metrics.groups[0]
        for run in runs
        if [group.streams for group in run.metrics.groups] == [1]
    ]
    for group in single_flows:
        if group.rtt_median_s:
            products_by_cca.setdefault(group.cca, []).append(
                group.goodput_bps * group.rtt_median_s / 8
            )
    largest_product = max(
        (product for products in products_by_cca.values() for product in products), default=None
    )
    means = sorted(map(statistics.fmean, products_by_cca.values()))
    single_bps = max((group.goodput_bps for group in single_flows), default=0.0)
    if len(means) > 1 and means[0] > (1 - ALIKE) * means[-1] and single_bps < MUCH_LESS * best_bps:
        ccas = " and ".join(sorted(products_by_cca))
        origin = f"goodput x RTT of a single flow, which is about the same for {ccas}"
        return Estimate(WINDOW, means[-1], means[0], largest_product, origin=origin)
    because = "nothing shows what limited the flows"
    return cannot_be_told(
        WINDOW, because, low=largest_product, origin="the largest goodput x RTT of a single flow"
    )
