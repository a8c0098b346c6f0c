"""Makes charts that each show one condition, over the time of its runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from ccmix.analysis.metric_text import shown
from ccmix.analysis.results import Result, Results
from ccmix.charts import series
from ccmix.charts.bbr_state import state_over_time
from ccmix.charts.chart import Chart
from ccmix.charts.finish import finished
from ccmix.charts.settings import describe
from ccmix.charts.time_series import time_series
from ccmix.terms import BBRS
from ccmix.units import format_percent, format_rate

T = TypeVar("T")


@dataclass(frozen=True)
class ConditionRuns:
    """Holds runs of one condition on one path."""

    name: str
    settings: str
    results: tuple[Result, ...]


def each(results: Results, every: bool = False) -> Iterator[ConditionRuns]:
    """Yields the conditions in the order of the plan, without the runs that are not valid, unless `every` is wanted.

    Entries on different paths may have a condition of one name: then each path counts as a condition with a number.
    """
    by_condition: dict[str, dict[str, list[Result]]] = {}
    for result in results.runs:
        wanted = by_condition.setdefault(result.run.condition_name, {}).setdefault(describe(result), [])
        if every or result.valid:
            wanted.append(result)
    for name, paths in by_condition.items():
        for number, (settings, wanted) in enumerate(paths.items(), start=1):
            if wanted:
                yield ConditionRuns(f"{name}, path {number}" if len(paths) > 1 else name, settings, tuple(wanted))


def spread(every: Sequence[T], most: int | None) -> Sequence[T]:
    """Returns at most so many of them, at even steps from the first to the last."""
    if most is None or len(every) <= most:
        return every
    if most <= 1:
        return every[:most]
    return [every[round(at * (len(every) - 1) / (most - 1))] for at in range(most)]


def time_series_charts(results: Results, most: int | None) -> tuple[list[Chart], str | None]:
    """Returns a chart for each condition, and a sentence if there are more than `most`. Raises ArchiveError."""
    drawable = []
    for condition in each(results, every=True):
        with_intervals = tuple(filter(series.has_intervals, condition.results))
        if with_intervals:
            drawable.append(ConditionRuns(condition.name, condition.settings, with_intervals))
    drawn = spread(drawable, most)
    return [_time_series(condition) for condition in drawn], left_out("time-series", len(drawn), len(drawable))


def left_out(kind: str, drawn: int, of: int) -> str | None:
    if drawn == of:
        return None
    have = "has a chart of its own" if drawn == 1 else "have a chart of their own"
    return f"Of {of} conditions, {drawn} {have} here; for all of them: ccmix report OUTDIR --charts DIR --chart {kind}"


def _time_series(condition: ConditionRuns) -> Chart:
    frame = series.over_time(condition.results)
    entries = frame["entry"].unique(maintain_order=True).to_list()
    omit_s = {
        entry: max(series.omit_s(result) for result in condition.results if result.run.entry == entry)
        for entry in entries
    }
    drawing = time_series(frame, omit_s)
    return finished(
        "time-series",
        condition.name,
        f"Goodput over time: {condition.name}",
        condition.settings,
        _description(frame, omit_s),
        drawing,
        panels=len(entries),
        condition=condition.results[0].run.condition_name,
        results=condition.results,
    )


def _description(frame: pl.DataFrame, omit_s: dict[str, float]) -> str:
    """Returns 'all-cubic: cubic 961 Mbit/s, ...': the mean of what is drawn after the omitted time."""
    measured = frame.filter(pl.col("begin_s") >= pl.col("entry").replace_strict(omit_s, return_dtype=pl.Float64) - 1e-6)
    means = measured.group_by("entry", "group", maintain_order=True).agg(
        pl.col("goodput_bps").mean(), most=pl.col("goodput_bps").max()
    )
    of_entries = []
    for (entry,), groups in means.group_by("entry", maintain_order=True):
        parts = [
            f"{row['group']} {format_rate(row['goodput_bps'])} in the mean, at most {format_rate(row['most'])}"
            for row in groups.iter_rows(named=True)
        ]
        of_entries.append(f"{entry}: {'; '.join(parts)}")
    seconds = float(frame["time_s"].max())  # type: ignore[arg-type]
    return (
        f"Lines of goodput over {seconds:g} s, with retransmitted segments below, a panel for each entry. "
        + ". ".join(of_entries)
        + "."
    )


def bbr_state_charts(results: Results, most: int | None) -> tuple[list[Chart], str | None]:
    """Returns charts of a flow of each version of BBR, in the last condition or, where `most` is None, in each.

    Raises ArchiveError.
    """
    drawable = []
    for condition in each(results):
        with_bbr = next((result for result in condition.results if series.may_have_bbr(result)), None)
        if with_bbr:
            drawable.append(ConditionRuns(condition.name, condition.settings, (with_bbr,)))
    drawn = drawable if most is None else drawable[-1:]
    charts = [chart for condition in drawn for chart in _bbr_states(condition)]
    return charts, left_out("bbr-state", len(drawn), len(drawable))


def _bbr_states(condition: ConditionRuns) -> list[Chart]:
    [result] = condition.results
    return [_bbr_state(condition, BBRS[cca], flow) for cca, flow in series.bbr_flows(result).items()]


def _bbr_state(condition: ConditionRuns, version: str, flow: pl.DataFrame) -> Chart:
    run = condition.results[0].run
    counted = flow["bbr_state"].drop_nulls().value_counts(sort=True)
    shares = [f"{state} {format_percent(count / flow.height)}" for state, count in counted.iter_rows()]
    text = (
        f"A strip of the state of one {version} flow of {run.entry}, iteration {run.iteration}, and below lines of its "
        f"bandwidth estimate, RTT and window. Of {flow.height} samples: {', '.join(shares)}. "
        f"Bandwidth estimate: median {shown('_bps', _median(flow, 'bbr_bandwidth_bps'))}; "
        f"RTT: median {shown('_s', _median(flow, 'rtt_s'))}."
    )
    return finished(
        "bbr-state",
        f"{version} {run.entry} {condition.name}",
        f"One {version} flow over time: {run.entry}, {condition.name}",
        condition.settings,
        text,
        state_over_time(flow),
        panels=2,
        condition=run.condition_name,
        results=condition.results,
    )


def _median(flow: pl.DataFrame, column: str) -> float | None:
    median = flow[column].median()
    return float(median) if isinstance(median, int | float) else None
