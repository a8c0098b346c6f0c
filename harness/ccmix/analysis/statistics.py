"""Statistics over the iterations of each condition: the rows of the result table."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scipy.special import stdtrit

from ccmix.model import HostPath, Run, Topology, Traffic

LEAST_FOR_INTERVAL = 3  # iterations; of fewer, an interval says nothing


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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def table(finished: Iterable[tuple[Run, dict[str, Any]]]) -> list[Row]:
    """Rows in the order of the plan from runs and their run.json; `runs` counts all, `invalid` those left out."""
    # runs of one name may be of campaigns that differ: only what is alike in all but seed and iteration is pooled
    cells: dict[
        tuple[str, str, Topology | HostPath, Traffic, str], list[tuple[Run, dict[str, Any], dict[str, Any]]]
    ] = {}
    for run, summary in finished:
        for group in summary["metrics"]["groups"]:
            cell = (run.entry, run.condition_name, run.path, run.traffic, group["group"])
            cells.setdefault(cell, []).append((run, summary, group))
    return [_row(cell) for cell in cells.values()]


def _row(cell: Sequence[tuple[Run, dict[str, Any], dict[str, Any]]]) -> Row:
    run, _, first = cell[0]
    valid = [(summary, group) for _, summary, group in cell if summary["validity"]["status"] == "valid"]
    goodputs = [group["goodput_bps"] for _, group in valid]
    mean = _mean(goodputs)
    return Row(
        entry=run.entry,
        dst=run.dst,
        condition=run.condition,
        group=first["group"],
        cca=first["cca"],
        streams=first["streams"],
        runs=len(cell),
        invalid=len(cell) - len(valid),
        goodput_mean_bps=mean,
        goodput_cv=statistics.stdev(goodputs) / mean if mean and len(goodputs) > 1 else None,
        goodput_ci95_bps=confidence_interval(goodputs),
        retransmission_rate_mean=_mean([group["retransmission_rate"] for _, group in valid]),
        rtt_median_s=_median([group["rtt_median_s"] for _, group in valid]),
        fairness_mean=_mean([summary["metrics"]["fairness"] for summary, _ in valid]),
    )


def confidence_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Of the mean, by Student's t with n-1 degrees of freedom; None for fewer than 3 values."""
    if len(values) < LEAST_FOR_INTERVAL:
        return None
    mean = statistics.fmean(values)
    half = float(stdtrit(len(values) - 1, (1 + level) / 2)) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
