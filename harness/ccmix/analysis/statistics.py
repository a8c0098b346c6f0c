"""Statistics over the iterations of each condition: the rows of the result table."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ccmix.analysis.comparison import Sample
from ccmix.analysis.conditions import base_rtt_s, traffic_asked
from ccmix.analysis.counting import counts
from ccmix.analysis.intervals import confidence_interval, iterations_for_precision
from ccmix.model import HostPath, Run, Topology, Traffic, condition_name

OF_GROUP = (
    "goodput_bps", "throughput_bps", "retransmission_rate", "share", "fairness", "rtt_median_s", "rtt_p95_s",
    "rtt_p99_s", "queueing_delay_median_s", "queueing_delay_p95_s", "queueing_delay_p99_s", "startup_s", "overshoot",
)  # fmt: skip
OF_RUN = (
    "goodput_bps", "utilisation", "fairness", "fairness_of_groups", "retransmission_rate", "rtt_median_s", "rtt_p95_s",
    "queueing_delay_median_s", "queueing_delay_p95_s", "startup_s", "overshoot", "convergence_s", "netem_loss",
    "bottleneck.occupancy_mean", "bottleneck.drop_rate", "bottleneck.utilisation",
)  # fmt: skip
SHORT_RTT_S = 0.030  # that parts the columns of tables II and III of Tierney et al. 2021
RTT_KEYS = ("delay", "lat-sweep", "netem-lat")  # whose sweeps make the base RTT
BUCKET = "base RTT"

Finished = tuple[Run, dict[str, Any]]  # a run, and its run.json


@dataclass(frozen=True)
class Spread:
    """Of a metric over the valid runs that have it; unit and formula: docs/metrics.md."""

    runs: int
    mean: float
    deviation: float | None  # standard deviation with n-1; None of one run
    cv: float | None
    ci95: tuple[float, float] | None  # None too of values that are alike, and so one observation

    @classmethod
    def of(cls, values: Sequence[float | None]) -> "Spread | None":
        """None without any value."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        mean = statistics.fmean(known)
        deviation = statistics.stdev(known) if len(known) > 1 else None
        cv = deviation / mean if deviation is not None and mean else None
        ci95 = None if Sample(tuple(known)).alike else confidence_interval(known)
        return cls(len(known), mean, deviation, cv, ci95)


@dataclass(frozen=True)
class Row:
    """One entry, condition and group over its iterations; means are over the valid runs, None where there is none."""

    entry: str
    dst: str
    condition: dict[str, str]
    group: str
    cca: str
    streams: int
    runs: int
    invalid: int
    goodput_mean_bps: float | None
    goodput_cv: float | None
    goodput_ci95_bps: tuple[float, float] | None
    retransmission_rate_mean: float | None
    rtt_median_s: float | None
    fairness_mean: float | None
    fair_share: float | None
    iterations_needed: int | None  # for a goodput that is known to 5%; None: nothing tells, or too many
    group_metrics: dict[str, Spread | None]  # by the names in OF_GROUP
    run_metrics: dict[str, Spread | None]  # by the names in OF_RUN

    @property
    def too_few(self) -> bool:
        """Whether the interval of the goodput is wider than 5% to either side, or there is none."""
        return self.iterations_needed is None or self.iterations_needed > self.runs - self.invalid

    @property
    def condition_name(self) -> str:
        return condition_name(self.condition)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def value_of(metrics: Mapping[str, Any], name: str) -> float | None:
    """A metric of a run.json by its name, 'bottleneck.drop_rate'; None where an archive does not have it."""
    found = found_in(metrics, name)
    return None if found is None else float(found)


def found_in(metrics: Mapping[str, Any], name: str) -> Any:
    """The same, whatever it is."""
    found: Any = metrics
    for part in name.split("."):
        found = (found or {}).get(part)
    return found


def rtt_bucket(run: Run, summary: Mapping[str, Any]) -> dict[str, str]:
    """The run's condition without what sets its base RTT, but with the column of Tierney's tables that it is in."""
    rtt_s = base_rtt_s(run, summary)
    bucket = "unknown" if rtt_s is None else "< 30ms" if rtt_s < SHORT_RTT_S else "≥ 30ms"
    return {key: value for key, value in run.condition.items() if key not in RTT_KEYS} | {BUCKET: bucket}


def table(finished: Iterable[Finished], rtt_buckets: bool = False) -> list[Row]:
    """Rows in the order of the plan from runs and their run.json; `runs` counts all, `invalid` those left out.

    With rtt_buckets, runs of all destinations and base RTTs of a bucket are pooled, as in Tierney's tables II and III.
    """
    # runs of one name may be of campaigns that differ: only what is alike in all but seed and iteration is pooled
    cells: dict[
        tuple[str, str, Topology | HostPath | str, Traffic, str], list[tuple[Run, dict[str, Any], dict[str, Any]]]
    ] = {}
    for run, summary in finished:
        shown, place, traffic = run, run.path, traffic_asked(run, summary)
        if rtt_buckets:
            shown = replace(run, condition=rtt_bucket(run, summary), dst="all")
        for group in summary["metrics"]["groups"]:
            cell = (
                run.entry, shown.condition_name, "" if rtt_buckets else place, traffic, group["group"],
            )  # fmt: skip
            cells.setdefault(cell, []).append((shown, summary, group))
    return [_row(cell) for cell in cells.values()]


def _row(cell: Sequence[tuple[Run, dict[str, Any], dict[str, Any]]]) -> Row:
    run, _, first = cell[0]
    valid = [(summary["metrics"], group) for _, summary, group in cell if counts(summary)]
    of_group = {name: Spread.of([value_of(group, name) for _, group in valid]) for name in OF_GROUP}
    of_run = {name: Spread.of([value_of(metrics, name) for metrics, _ in valid]) for name in OF_RUN}
    goodput, retransmitted, fairness = of_group["goodput_bps"], of_group["retransmission_rate"], of_run["fairness"]
    return Row(
        entry=run.entry,
        dst=run.dst,
        condition=run.condition,
        group=first["group"],
        cca=first["cca"],
        streams=first["streams"],
        runs=len(cell),
        invalid=len(cell) - len(valid),
        goodput_mean_bps=goodput.mean if goodput else None,
        goodput_cv=goodput.cv if goodput else None,
        goodput_ci95_bps=goodput.ci95 if goodput else None,
        retransmission_rate_mean=retransmitted.mean if retransmitted else None,
        rtt_median_s=_median([group["rtt_median_s"] for _, group in valid]),
        fairness_mean=fairness.mean if fairness else None,
        fair_share=first.get("fair_share"),
        iterations_needed=iterations_for_precision([group["goodput_bps"] for _, group in valid]),
        group_metrics=of_group,
        run_metrics=of_run,
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
