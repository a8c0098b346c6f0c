"""Makes charts of samples: distribution functions of the times of short flows or of RTTs, boxes of BBR's estimates."""

from collections.abc import Callable, Iterator, Sequence

import polars as pl

from ccmix.analysis.metric_text import shown
from ccmix.analysis.results import Result, Results
from ccmix.charts import conditions, series
from ccmix.charts.box import boxes
from ccmix.charts.chart import Chart
from ccmix.charts.distribution import distributions
from ccmix.charts.encodings import RATE_AXIS, quantity
from ccmix.charts.finish import finished, listed
from ccmix.charts.frames import Family
from ccmix.charts.overview import MOST_BOXES, too_large
from ccmix.charts.settings import in_common

MOST_PANELS = 6

Times = Callable[[Result], pl.DataFrame | None]


def distribution_charts(family: Family) -> Iterator[Chart | str]:
    """Yields a chart with a panel for each condition, and a sentence if these are too many.

    RTTs are those of the first valid iteration alone.

    Raises ArchiveError.
    """
    short = any(result.finished.metrics.completions for result in family.results)
    times, what = (series.completions, "completion time") if short else (series.rtts, "smoothed RTT")
    every_condition = list(conditions.each(Results(family.results, len(family.results))))
    frames: list[pl.DataFrame] = []
    drawn: list[Result] = []
    drawn_conditions = conditions.spread(every_condition, MOST_PANELS)
    for condition in drawn_conditions:
        results = condition.results if short else _first_of_each(condition.results)
        of_condition = [frame for result in results if (frame := _of_run(result, condition.name, times)) is not None]
        frames += of_condition
        drawn += results if of_condition else []
    if not frames:
        return
    whole = pl.concat(frames)
    if whole.is_empty():
        return
    entries = ",".join(dict.fromkeys(result.run.entry for result in drawn))
    title = f"Distribution of the {what}" + ("s of short flows" if short else "s of all flows")
    yield finished(
        "distribution",
        f"distribution {entries}",
        title,
        in_common(drawn),
        _description(whole),
        distributions(whole, what),
        results=drawn,
        panels=min(3, whole["panel"].n_unique()),
    )
    if len(drawn_conditions) < len(every_condition):
        yield (
            f"“{title}” of {entries} has {len(drawn_conditions)} of {len(every_condition)} conditions, evenly spread: "
            "more panels can't be read."
        )


def estimate_charts(family: Family) -> Iterator[Chart | str]:
    """Yields box plots of the bandwidth that BBR estimates in the first valid iteration, by the one swept number.

    Raises ArchiveError.
    """
    if len(family.sweeps) != 1:
        return
    [sweep] = family.sweeps
    title = f"BBR's bandwidth estimate of a flow by {sweep.title}"
    if len(sweep.values) > MOST_BOXES:
        if any(map(series.may_have_bbr, family.results)):
            yield too_large(title, family, f"{len(sweep.values)} places for boxes", MOST_BOXES)
        return
    where = ("entry", "dst", "condition")
    cases = {row[:3]: row[3] for row in family.groups.select(*where, "case").unique().iter_rows()}
    frames: list[pl.DataFrame] = []
    drawn: list[Result] = []
    in_order = sorted(family.results, key=lambda result: sweep.values[result.run.condition[sweep.key]])
    for result in _first_of_each(in_order):
        run = result.run
        estimates = series.bandwidth_estimates(result)
        if estimates is not None and not estimates.is_empty():
            case = cases[run.entry, run.dst, run.condition_name]
            x = sweep.label(run.condition[sweep.key])
            frames.append(estimates.with_columns(panel=pl.lit(case), x=pl.lit(x)))
            drawn.append(result)
    if not frames:
        return
    whole = pl.concat(frames)
    medians = whole.group_by("panel", "x", "group", maintain_order=True).agg(pl.col("bandwidth_bps").median())
    phrases = [
        f"{row['panel']}, {row['x']}, {row['group']}: {shown('_bps', row['bandwidth_bps'])}"
        for row in medians.iter_rows(named=True)
    ]
    yield finished(
        "box",
        f"bandwidth estimate {','.join(dict.fromkeys(result.run.entry for result in drawn))}",
        title,
        in_common(drawn),
        f"Box plots. Medians: {listed(phrases)}.",
        boxes(whole, sweep.title, quantity("bandwidth_bps", "bandwidth estimate (bit/s)", RATE_AXIS)),
        results=drawn,
        panels=min(3, whole["panel"].n_unique()),
    )


def _first_of_each(results: Sequence[Result]) -> list[Result]:
    """Returns the first iteration of each entry, destination and condition."""
    first: dict[tuple[str, str, str], Result] = {}
    for result in results:
        first.setdefault((result.run.entry, result.run.dst, result.run.condition_name), result)
    return list(first.values())


def _of_run(result: Result, panel: str, times: Times) -> pl.DataFrame | None:
    frame = times(result)
    if frame is None:
        return None
    ccas = {group.group: group.cca for group in result.finished.metrics.groups}
    return frame.select(
        panel=pl.lit(panel),
        series=pl.lit(f"{result.run.entry}: ") + pl.col("group"),
        cca=pl.col("group").replace_strict(ccas, default="-", return_dtype=pl.String),
        seconds="seconds",
    )


def _description(times: pl.DataFrame) -> str:
    quantiles = times.group_by("panel", "series", maintain_order=True).agg(
        median=pl.col("seconds").median(), p95=pl.col("seconds").quantile(0.95, "linear"), count=pl.len()
    )
    parts = [
        f"{row['panel']}, {row['series']}: median {shown('_s', row['median'])}, 95% within {shown('_s', row['p95'])}, "
        f"of {row['count']}"
        for row in quantiles.iter_rows(named=True)
    ]
    return f"Distribution functions. {listed(parts)}."
