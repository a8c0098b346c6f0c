"""Computes means over runs with their bands in Vega-Lite, as charts.setting.spread() does for a frame."""

from collections.abc import Sequence

from ccmix.analysis.distributions import t_quantile
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.charts.json_types import Part

MOST_QUANTILES = 30  # beyond, Student's t is 2.04 to 1.96


def means_with_bands(value: str, by: Sequence[str]) -> list[Part]:
    """Returns transforms to rows with the columns `by`, and mean, low and high of the column `value`.

    low and high: the 95% interval of the mean by Student's t; below 3 runs their range. (From 15 runs on, a
    report has a bootstrap.)
    """
    counts = range(LEAST_FOR_INTERVAL, MOST_QUANTILES + 1)
    quantiles = ", ".join(f"{t_quantile(0.975, count - 1):.4g}" for count in counts)
    quantile = f"[{quantiles}][min(datum.runs, {MOST_QUANTILES}) - {LEAST_FOR_INTERVAL}]"
    few = f"datum.runs < {LEAST_FOR_INTERVAL}"
    measures = {"mean": "mean", "stdev": "deviation", "valid": "runs", "min": "least", "max": "most"}
    return [
        {"aggregate": [{"op": op, "field": value, "as": name} for op, name in measures.items()], "groupby": list(by)},
        {"filter": "datum.runs > 0"},
        {"calculate": f"{few} ? 0 : {quantile} * datum.deviation / sqrt(datum.runs)", "as": "half"},
        {"calculate": f"{few} ? datum.least : datum.mean - datum.half", "as": "low"},
        {"calculate": f"{few} ? datum.most : datum.mean + datum.half", "as": "high"},
    ]
