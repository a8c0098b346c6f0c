"""Makes charts of samples: goodput over time, BBR's states, and distributions of RTTs and times.

Distributions are of the times of short flows, of RTTs, and of BBR's bandwidth estimates.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from ccmix.analysis.results import Result, Results
from ccmix.analysis.statistics import shown
from ccmix.charts import series
from ccmix.charts.distributions import boxes, distributions
from ccmix.charts.encodings import (
    RATE_AXIS,
    Chart,
    evenly_spread,
    finished,
    first_phrases,
    names_in_order,
    quantity,
)
from ccmix.charts.frames import Family, entry_names
from ccmix.charts.over_time import state_over_time, time_series
from ccmix.charts.overview import MOST_BOXES, too_large
from ccmix.charts.settings import describe, in_common
from ccmix.terms import BBRS
from ccmix.units import format_percent, format_rate


@dataclass(frozen=True)
class ConditionRuns:
    """Holds the runs of one condition (one combination of swept values) on one path. `settings`
    describes the path.
    """

    name: str
    settings: str
    results: tuple[Result, ...]


def conditions_of(results: Results, also_not_valid: bool = False) -> Iterator[ConditionRuns]:
    """Yields the conditions (combinations of swept values) with their valid runs, in the order of
    the plan. With `also_not_valid`, runs that are not valid are included.

    If entries on different paths have a condition with the same name, each path counts as a
    condition, and its name gets a number.
    """
    by_condition: dict[str, dict[str, list[Result]]] = {}
    for result in results.runs:
        condition_results = by_condition.setdefault(result.run.condition_name, {}).setdefault(
            describe(result), []
        )
        if also_not_valid or result.valid:
            condition_results.append(result)
    for name, paths in by_condition.items():
        for number, (settings, condition_results) in enumerate(paths.items(), start=1):
            if condition_results:
                yield ConditionRuns(
                    f"{name}, path {number}" if len(paths) > 1 else name,
                    settings,
                    tuple(condition_results),
                )


def time_series_charts(results: Results, most: int | None) -> tuple[list[Chart], str | None]:
    """Returns a chart of goodput over time for each condition (combination of swept values), but
    for at most `most` conditions, which are evenly spaced. If there are more, the second part is a
    sentence that says so, otherwise None. Raises ArchiveError.
    """
    drawable = []
    for condition in conditions_of(results, also_not_valid=True):
        with_intervals = tuple(filter(series.has_intervals, condition.results))
        if with_intervals:
            drawable.append(replace(condition, results=with_intervals))
    drawn = evenly_spread(drawable, most)
    return [_time_series_chart(condition) for condition in drawn], conditions_left_out(
        "time-series", len(drawn), len(drawable)
    )


def conditions_left_out(kind: str, drawn: int, of: int) -> str | None:
    """Returns the sentence which says that only `drawn` of `of` conditions have a chart of this
    kind, and which command draws all of them. None if all conditions have one.
    """
    if drawn == of:
        return None
    have = "has a chart of its own" if drawn == 1 else "have a chart of their own"
    return (
        f"Of {of} conditions, {drawn} {have} here; for all of them: ccmix report OUTDIR "
        f"--charts DIR --chart {kind}"
    )


def _time_series_chart(condition: ConditionRuns) -> Chart:
    """Returns the chart of goodput over time in one condition (combination of swept values), with a
    panel for each entry.
    """
    frame = series.over_time(condition.results)
    entries = names_in_order(frame, "entry")
    omit_s = {
        entry: max(
            series.omit_s(result) for result in condition.results if result.run.entry == entry
        )
        for entry in entries
    }
    drawing = time_series(frame, omit_s)
    return finished(
        "time-series",
        condition.name,
        f"Goodput over time: {condition.name}",
        condition.settings,
        _means_text(frame, omit_s),
        drawing,
        panels=len(entries),
        condition=condition.results[0].run.condition_name,
        results=condition.results,
    )


def _means_text(frame: pl.DataFrame, omit_s: dict[str, float]) -> str:
    """Returns the alternative text of a chart of goodput over time. It has the mean and the largest
    goodput of each group after the omitted time: 'all-cubic: cubic 961 Mbit/s in the mean, at most
    970 Mbit/s'.

    frame: a row per entry, iteration, group and interval: entry, group, begin_s, time_s (end),
        goodput_bps
    omit_s: by entry, the seconds at the start that are not measured
    """
    measured = frame.filter(
        pl.col("begin_s") >= pl.col("entry").replace_strict(omit_s, return_dtype=pl.Float64) - 1e-6
    )
    means = measured.group_by("entry", "group", maintain_order=True).agg(
        pl.col("goodput_bps").mean(), most=pl.col("goodput_bps").max()
    )
    entry_texts = []
    for (entry,), groups in means.group_by("entry", maintain_order=True):
        parts = [
            f"{row['group']} {format_rate(row['goodput_bps'])} in the mean, at most "
            f"{format_rate(row['most'])}"
            for row in groups.iter_rows(named=True)
        ]
        entry_texts.append(f"{entry}: {'; '.join(parts)}")
    seconds = float(frame["time_s"].max())  # type: ignore[arg-type]
    return (
        f"Lines of goodput over {seconds:g} s, with retransmitted segments below, a panel for "
        "each entry. " + ". ".join(entry_texts) + "."
    )


def bbr_state_charts(results: Results, most: int | None) -> tuple[list[Chart], str | None]:
    """Returns charts of BBR's state over time: one for a flow of each version of BBR, in the last
    condition (combination of swept values). If `most` is None, every condition has such charts. If
    conditions were left out, the second part is a sentence that says so, otherwise None. Raises
    ArchiveError.
    """
    drawable = []
    for condition in conditions_of(results):
        with_bbr = next(
            (result for result in condition.results if series.may_have_bbr(result)), None
        )
        if with_bbr:
            drawable.append(replace(condition, results=(with_bbr,)))
    drawn = drawable if most is None else drawable[-1:]
    charts = [
        _chart_of_bbr_flow(condition, BBRS[cca], flow)
        for condition in drawn
        for cca, flow in series.bbr_flows(condition.results[0]).items()
    ]
    return charts, conditions_left_out("bbr-state", len(drawn), len(drawable))


def _chart_of_bbr_flow(condition: ConditionRuns, version: str, flow: pl.DataFrame) -> Chart:
    """Returns the chart of one BBR flow's state over time.

    version: the name of the BBR version in titles
    flow: the samples of the flow's socket: bbr_state, rates, RTTs and windows
    """
    run = condition.results[0].run
    state_counts = flow["bbr_state"].drop_nulls().value_counts(sort=True)
    shares = [
        f"{state} {format_percent(count / flow.height)}"
        for state, count in state_counts.iter_rows()
    ]
    text = (
        f"A strip of the state of one {version} flow of {run.entry}, iteration {run.iteration}, "
        "and below lines of its "
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
    """Returns the median of a column; None if it has no numbers."""
    median = flow[column].median()
    return float(median) if isinstance(median, int | float) else None


MOST_PANELS = 6

ReadTimes = Callable[[Result], pl.DataFrame | None]


def distribution_charts(family: Family) -> Iterator[Chart | str]:
    """Yields a chart of cumulative distributions, with a panel for each condition (combination of
    swept values), and a sentence if there are too many conditions to draw. Raises ArchiveError.

    If the runs have short flows, their completion times are drawn. Otherwise RTTs are drawn, but
    only those of the first valid iteration of each condition.
    """
    has_short_flows = any(result.finished.metrics.completions for result in family.results)
    read_times, times_name = (
        (series.completions, "completion time")
        if has_short_flows
        else (series.rtts, "smoothed RTT")
    )
    all_conditions = list(conditions_of(Results(family.results, len(family.results))))
    frames: list[pl.DataFrame] = []
    drawn: list[Result] = []
    drawn_conditions = evenly_spread(all_conditions, MOST_PANELS)
    for condition in drawn_conditions:
        results = condition.results if has_short_flows else _first_iterations(condition.results)
        condition_frames = [
            frame
            for result in results
            if (frame := _times_of_run(result, condition.name, read_times)) is not None
        ]
        frames += condition_frames
        drawn += results if condition_frames else []
    if not frames:
        return
    all_times = pl.concat(frames)
    if all_times.is_empty():
        return
    entries = entry_names(drawn)
    title = f"Distribution of the {times_name}s of {'short' if has_short_flows else 'all'} flows"
    yield finished(
        "distribution",
        f"distribution {entries}",
        title,
        in_common(drawn),
        _quantiles_text(all_times),
        distributions(all_times, times_name),
        results=drawn,
        panels=min(3, all_times["panel"].n_unique()),
    )
    if len(drawn_conditions) < len(all_conditions):
        yield (
            f"“{title}” of {entries} shows only {len(drawn_conditions)} of {len(all_conditions)} "
            "conditions, evenly spread, because more panels would be too small to read."
        )


def estimate_charts(family: Family) -> Iterator[Chart | str]:
    """Yields box plots of the bandwidth that BBR estimates, with boxes for each value of the number
    that the family sweeps. Only the first valid iteration of each condition is drawn. Yields
    nothing unless exactly one swept key has numbers. Raises ArchiveError.
    """
    if len(family.sweeps) != 1:
        return
    [sweep] = family.sweeps
    title = f"BBR's bandwidth estimate of a flow by {sweep.title}"
    if sentence := too_large(title, family, (len(sweep.values), "places for boxes", MOST_BOXES)):
        if any(map(series.may_have_bbr, family.results)):
            yield sentence
        return
    case_columns = ("entry", "dst", "condition")
    cases = {
        row[:3]: row[3] for row in family.groups.select(*case_columns, "case").unique().iter_rows()
    }
    frames: list[pl.DataFrame] = []
    drawn: list[Result] = []
    in_order = sorted(
        family.results, key=lambda result: sweep.values[result.run.condition[sweep.key]]
    )
    for result in _first_iterations(in_order):
        run = result.run
        estimates = series.bandwidth_estimates(result)
        if estimates is not None and not estimates.is_empty():
            case = cases[run.entry, run.dst, run.condition_name]
            x = sweep.label(run.condition[sweep.key])
            frames.append(estimates.with_columns(panel=pl.lit(case), x=pl.lit(x)))
            drawn.append(result)
    if not frames:
        return
    all_estimates = pl.concat(frames)
    medians = all_estimates.group_by("panel", "x", "group", maintain_order=True).agg(
        pl.col("bandwidth_bps").median()
    )
    medians_text = [
        f"{row['panel']}, {row['x']}, {row['group']}: {shown('_bps', row['bandwidth_bps'])}"
        for row in medians.iter_rows(named=True)
    ]
    yield finished(
        "box",
        f"bandwidth estimate {entry_names(drawn)}",
        title,
        in_common(drawn),
        f"Box plots. Medians: {first_phrases(medians_text)}.",
        boxes(
            all_estimates,
            sweep.title,
            quantity("bandwidth_bps", "bandwidth estimate (bit/s)", RATE_AXIS),
        ),
        results=drawn,
        panels=min(3, all_estimates["panel"].n_unique()),
    )


def _first_iterations(results: Sequence[Result]) -> list[Result]:
    """Returns the first iteration of each condition (combination of swept values), separately for
    each entry and destination.
    """
    first: dict[tuple[str, str, str], Result] = {}
    for result in results:
        first.setdefault((result.run.entry, result.run.dst, result.run.condition_name), result)
    return list(first.values())


def _times_of_run(result: Result, panel: str, read_times: ReadTimes) -> pl.DataFrame | None:
    """Returns the times of a run, such as its RTTs, as the table that distributions() draws: panel,
    series, cca, seconds. None if the run has no such times.

    panel: the name of the panel
    read_times: reads the times of a run: group, seconds
    """
    frame = read_times(result)
    if frame is None:
        return None
    return frame.select(
        panel=pl.lit(panel),
        series=pl.lit(f"{result.run.entry}: ") + pl.col("group"),
        cca=series.cca_of_group(result),
        seconds="seconds",
    )


def _quantiles_text(times: pl.DataFrame) -> str:
    """Returns the alternative text of a chart of distributions. It has the median, the 95th
    percentile and the number of values of each series.
    """
    quantiles = times.group_by("panel", "series", maintain_order=True).agg(
        median=pl.col("seconds").median(),
        p95=pl.col("seconds").quantile(0.95, "linear"),
        count=pl.len(),
    )
    parts = [
        f"{row['panel']}, {row['series']}: median {shown('_s', row['median'])}, 95% within "
        f"{shown('_s', row['p95'])}, of {row['count']}"
        for row in quantiles.iter_rows(named=True)
    ]
    return f"Distribution functions. {first_phrases(parts)}."
