"""Fills the second table of the HTML report: how groups share and start up, and how full queues are."""

from ccmix.analysis.metric_text import shown
from ccmix.analysis.statistics import Row
from ccmix.units import format_percent

# Heading, where the metric is, its name (docs/reference/metrics.md)
COLUMNS = (
    ("share", "group", "share"),
    ("fairness within", "group", "fairness"),
    ("fairness of the run", "run", "fairness"),
    ("utilisation", "run", "utilisation"),
    ("start-up", "group", "startup_s"),
    ("overshoot", "group", "overshoot"),
    ("convergence", "run", "convergence_s"),
    ("queueing delay, median", "group", "queueing_delay_median_s"),
    ("95th percentile", "group", "queueing_delay_p95_s"),
    ("buffer in use", "run", "bottleneck.occupancy_mean"),
    ("dropped there", "run", "bottleneck.drop_rate"),
)
HEADINGS = tuple(heading for heading, _, _ in COLUMNS)


def cells(row: Row) -> list[str]:
    """Returns the row under HEADINGS: means over the valid runs that have the metric; a dash where none has."""
    return [_cell(row, level, metric) for _, level, metric in COLUMNS]


def _cell(row: Row, level: str, metric: str) -> str:
    spread = (row.group_metrics if level == "group" else row.run_metrics).get(metric)
    if spread is None:
        return "–"
    text = shown(metric, float(f"{spread.mean:.3g}"))
    if metric == "share" and row.fair_share is not None and row.fair_share < 1:
        return f"{text} (fair: {format_percent(row.fair_share)})"
    return text
