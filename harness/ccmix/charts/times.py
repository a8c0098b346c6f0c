"""Distribution functions that fit: of short flows' times where there are any, else of RTTs."""

from collections.abc import Callable, Iterator

import polars as pl

from ccmix.charts import conditions, series
from ccmix.charts.chart import Chart
from ccmix.charts.distribution import distributions
from ccmix.charts.finish import file_name, finished, listed
from ccmix.charts.frames import Family
from ccmix.charts.settings import in_common
from ccmix.report.numbers import shown
from ccmix.report.results import Result, Results

MOST_PANELS = 6

Times = Callable[[Result], pl.DataFrame | None]


def distribution_charts(family: Family) -> Iterator[Chart]:
    """A panel a condition. RTTs are those of the first valid iteration alone. Raises ArchiveError."""
    short = any(result.summary["metrics"].get("completions") for result in family.results)
    times, what = (series.completions, "completion time") if short else (series.rtts, "smoothed RTT")
    found = list(conditions.each(Results(family.results, len(family.results))))
    frames: list[pl.DataFrame] = []
    drawn: list[Result] = []
    for one in conditions.spread(found, MOST_PANELS):
        results = one.results if short else _first_iterations(one.results)
        told = [frame for result in results if (frame := _of_run(result, one.name, times)) is not None]
        frames += told
        drawn += results if told else []
    if not frames:
        return
    whole = pl.concat(frames)
    if whole.is_empty():
        return
    entries = ",".join(dict.fromkeys(result.run.entry for result in drawn))
    title = f"Distribution of the {what}" + ("s of short flows" if short else "s of all flows")
    yield finished(
        "distribution",
        file_name(f"distribution {entries}"),
        title,
        in_common(drawn),
        _words(whole),
        distributions(whole, what),
        results=drawn,
        panels=min(3, whole["panel"].n_unique()),
    )


def _first_iterations(results: tuple[Result, ...]) -> list[Result]:
    first: dict[tuple[str, str], Result] = {}
    for result in results:
        first.setdefault((result.run.entry, result.run.dst), result)
    return list(first.values())


def _of_run(result: Result, panel: str, times: Times) -> pl.DataFrame | None:
    frame = times(result)
    if frame is None:
        return None
    ccas = {group["group"]: group["cca"] for group in result.summary["metrics"]["groups"]}
    return frame.select(
        panel=pl.lit(panel),
        series=pl.lit(f"{result.run.entry}: ") + pl.col("group"),
        cca=pl.col("group").replace_strict(ccas, default="-", return_dtype=pl.String),
        seconds="seconds",
    )


def _words(times: pl.DataFrame) -> str:
    quantiles = times.group_by("panel", "series", maintain_order=True).agg(
        median=pl.col("seconds").median(), p95=pl.col("seconds").quantile(0.95, "linear"), count=pl.len()
    )
    parts = [
        f"{row['panel']}, {row['series']}: median {shown('_s', row['median'])}, 95% within {shown('_s', row['p95'])}, "
        f"of {row['count']}"
        for row in quantiles.iter_rows(named=True)
    ]
    return f"Distribution functions. {listed(parts)}."
