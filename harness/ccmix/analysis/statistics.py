"""Computes statistics over the iterations of each condition, and formats metrics as text."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast, get_args

from ccmix.analysis.comparison import MetricSample
from ccmix.analysis.counting import (
    NotValid,
    base_rtt_s,
    counts,
    not_settled,
    not_valid,
    requested_traffic,
)
from ccmix.analysis.intervals import confidence_interval, iterations_for_precision
from ccmix.model import HostPath, ImportFacts, Run, Topology, Traffic, condition_name
from ccmix.model.results import FinishedRun, FlowMetrics, GroupMetrics, Metrics, Status
from ccmix.units import format_bytes, format_percent, format_rate, format_time

_OF_GROUP = (
    "goodput_bps throughput_bps retransmission_rate share fairness rtt_median_s rtt_p95_s "
    "rtt_p99_s queueing_delay_median_s queueing_delay_p95_s queueing_delay_p99_s startup_s "
    "overshoot"
)
OF_GROUP = tuple(_OF_GROUP.split())
_OF_RUN = (
    "goodput_bps utilisation fairness fairness_of_groups retransmission_rate rtt_median_s "
    "rtt_p95_s queueing_delay_median_s queueing_delay_p95_s startup_s overshoot convergence_s "
    "netem_loss bottleneck.occupancy_mean bottleneck.drop_rate bottleneck.utilisation "
    "policer.drop_rate receiver_window_limited"
)
OF_RUN = tuple(_OF_RUN.split())
SHORT_RTT_S = 0.030  # the limit between the columns of tables II and III of Tierney et al. 2021
# whose sweeps vary the base RTT
RTT_KEYS = ("delay", "rtt", "data-delay", "ack-delay", "lat-sweep", "netem-lat")
BUCKET = "base RTT"
FRACTIONS = ("rate", "loss", "utilisation", "share", "occupancy_mean", "overshoot")


@dataclass(frozen=True)
class Spread:
    """Mean, deviation and confidence interval of a metric over the valid runs that have it;
    docs/reference/metrics.md has the metrics' units and formulas.
    """

    runs: int
    mean: float
    deviation: float | None  # standard deviation with n-1; None for one run
    cv: float | None
    ci95: tuple[float, float] | None  # None also if values are alike, and so one observation

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "Spread | None":
        """Computes the statistics of the values, leaving out those that are None. Returns None if
        no value is left.
        """
        known = [value for value in values if value is not None]
        if not known:
            return None
        mean = statistics.fmean(known)
        deviation = statistics.stdev(known) if len(known) > 1 else None
        cv = deviation / mean if deviation is not None and mean else None
        ci95 = None if MetricSample(tuple(known)).alike else confidence_interval(known)
        return cls(len(known), mean, deviation, cv, ci95)


@dataclass(frozen=True)
class Row:
    """A row of the result table: one entry, condition (one combination of swept values) and group,
    over its iterations. Means are over the valid runs, None if there are none.
    """

    entry: str
    dst: str
    condition: dict[str, str]
    group: str
    cca: str
    streams: int  # of the run with the fewest: of short flows, those completed
    most_streams: int
    runs: int
    invalid: int
    not_settled: int  # of the runs that count
    status: Status  # of the runs that count; if none does, of all runs
    not_valid: tuple[NotValid, ...]  # the runs that don't count, with the group's goodput
    goodput_mean_bps: float | None
    goodput_cv: float | None
    goodput_ci95_bps: tuple[float, float] | None
    retransmission_rate_mean: float | None
    rtt_median_s: float | None
    fairness_mean: float | None
    fair_share: float | None
    iterations_needed: int | None  # to know the goodput to 5%; None: not computable, or too many
    group_metrics: dict[str, Spread | None]  # by the names in OF_GROUP
    run_metrics: dict[str, Spread | None]  # by the names in OF_RUN

    @property
    def too_few(self) -> bool:
        """Returns whether there are too few valid runs to know the mean goodput to 5% (half the
        width of its 95% confidence interval), or too few to compute an interval.
        """
        return self.iterations_needed is None or self.iterations_needed > self.runs - self.invalid

    @property
    def condition_name(self) -> str:
        return condition_name(self.condition)

    def to_json(self) -> dict[str, object]:
        """Returns the row as nested dicts and lists, for JSON."""
        return asdict(self)


def metric(
    metrics: Metrics | GroupMetrics | FlowMetrics | ImportFacts, name: str
) -> float | int | None:
    """Returns a metric by its name, such as 'goodput_bps' or 'bottleneck.drop_rate'; None if the
    run does not have it.
    """
    value: Any = metrics
    for attribute in name.split("."):
        value = getattr(value, attribute, None)
    return cast("float | int | None", value)


def value_of(metrics: Metrics | GroupMetrics | FlowMetrics, name: str) -> float | None:
    """Returns a metric by its name, such as 'goodput_bps' or 'bottleneck.drop_rate', as a float;
    None if the run does not have it.
    """
    value = metric(metrics, name)
    return None if value is None else float(value)


def rtt_bucket(finished: FinishedRun) -> dict[str, str]:
    """Returns the run's condition, with the keys that vary the base RTT replaced by one: its
    bucket, '< 30ms' or '≥ 30ms'. Tables II and III of Tierney et al. 2021 have these columns.
    """
    rtt_s = base_rtt_s(finished)
    bucket = "unknown" if rtt_s is None else "< 30ms" if rtt_s < SHORT_RTT_S else "≥ 30ms"
    return {key: value for key, value in finished.run.condition.items() if key not in RTT_KEYS} | {
        BUCKET: bucket
    }


def table(runs: Iterable[FinishedRun], rtt_buckets: bool = False) -> list[Row]:
    """Returns the rows of the result table, one for each entry, condition and group, in the order
    of the plan. Each row also says how many of its runs don't count, and how many have not settled.

    With rtt_buckets, all destinations and base RTTs of a bucket (below 30 ms, or more) are pooled,
    as in tables II and III of Tierney et al. 2021.
    """
    # runs with the same name may come from different campaigns: only runs that are alike in all but
    # seed and iteration are pooled
    cells: dict[
        tuple[str, str, Topology | HostPath | str, Traffic, str],
        list[tuple[Run, FinishedRun, GroupMetrics]],
    ] = {}
    for finished in runs:
        run = pooled_run = finished.run
        path, traffic = run.path, requested_traffic(finished)
        if rtt_buckets:
            pooled_run = replace(run, condition=rtt_bucket(finished), dst="all")
        for group in finished.metrics.groups:
            cell = (
                run.entry,
                pooled_run.condition_name,
                "" if rtt_buckets else path,
                traffic,
                group.group,
            )
            cells.setdefault(cell, []).append((pooled_run, finished, group))
    return [_make_row(cell) for cell in cells.values()]


def _make_row(members: Sequence[tuple[Run, FinishedRun, GroupMetrics]]) -> Row:
    """Computes a row of the result table. `members` has three values for each run: the run with the
    condition that the row shows (several conditions may be pooled), the finished run, and the
    metrics of the row's group in it.
    """
    run, _, first_group = members[0]
    valid = [(finished.metrics, group) for _, finished, group in members if counts(finished)]
    group_spreads = {
        name: Spread.of([value_of(group, name) for _, group in valid]) for name in OF_GROUP
    }
    run_spreads = {
        name: Spread.of([value_of(metrics, name) for metrics, _ in valid]) for name in OF_RUN
    }
    goodput, fairness = group_spreads["goodput_bps"], run_spreads["fairness"]
    retransmitted, rtt = group_spreads["retransmission_rate"], group_spreads["rtt_median_s"]
    return Row(
        entry=run.entry,
        dst=run.dst,
        condition=run.condition,
        group=first_group.group,
        cca=first_group.cca,
        streams=min(group.streams for _, _, group in members),
        most_streams=max(group.streams for _, _, group in members),
        runs=len(members),
        invalid=len(members) - len(valid),
        not_settled=sum(counts(finished) and not_settled(finished) for _, finished, _ in members),
        status=min(
            (
                finished.verdict.status
                for _, finished, _ in members
                if counts(finished) or not valid
            ),
            key=get_args(Status).index,
        ),
        not_valid=not_valid((finished, group.goodput_bps) for _, finished, group in members),
        goodput_mean_bps=goodput.mean if goodput else None,
        goodput_cv=goodput.cv if goodput else None,
        goodput_ci95_bps=goodput.ci95 if goodput else None,
        retransmission_rate_mean=retransmitted.mean if retransmitted else None,
        rtt_median_s=rtt.mean if rtt else None,
        fairness_mean=fairness.mean if fairness else None,
        fair_share=first_group.fair_share,
        iterations_needed=iterations_for_precision([group.goodput_bps for _, group in valid]),
        group_metrics=group_spreads,
        run_metrics=run_spreads,
    )


def shown(metric: str, value: float | None) -> str:
    """Formats a metric for people, with the unit that its name's ending implies: '110 Mbit/s'
    (_bps), '12.5 ms' (_s), '0.1%' (fractions); a dash for None.
    """
    if value is None:
        return "–"
    sign, magnitude = "-" if value < 0 else "", abs(value)
    if metric.endswith("_bps"):
        return sign + format_rate(magnitude)
    if metric.endswith("_bytes"):
        return sign + format_bytes(magnitude)
    if metric.endswith("_s"):
        return sign + format_time(float(f"{magnitude:.4g}"))
    if metric.endswith(FRACTIONS):
        return sign + format_percent(magnitude)
    return f"{sign}{magnitude:.4g}"


def shown_mean(metric: str, spread: Spread) -> str:
    """Formats a mean, followed by half the width of its 95% confidence interval if it has an
    interval: '961 Mbit/s ± 12 Mbit/s'.
    """
    half = f" ± {shown(metric, (spread.ci95[1] - spread.ci95[0]) / 2)}" if spread.ci95 else ""
    return shown(metric, spread.mean) + half
