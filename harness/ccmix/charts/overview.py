"""Makes the charts of all conditions of a family of entries that fit it.

A sentence replaces a chart that fits but would be too large to read.
"""

from collections.abc import Iterator

import polars as pl

from ccmix.analysis.statistics import shown
from ccmix.charts import distributions, heat_map
from ccmix.charts.encodings import Chart, Kind, Part, finished, first_phrases, goodput
from ccmix.charts.frames import SETTING, Family, SweptAxis, cubic_first, panels
from ccmix.charts.heat_map import Choice, Measure, goodput_table
from ccmix.charts.settings import against_setting, in_common, share_against_fair_share
from ccmix.units import format_percent

LEAST_FOR_MAP = 3  # values of each of two sweeps; fewer values are easier to read in a table
LEAST_FOR_SHARES = 3  # mixes
LEAST_FOR_BOXES = 5  # iterations
MOST_BOXES = 24  # of a panel
# columns, one for each condition; with more conditions, only the longest sweep's values have one
MOST_CONDITIONS_OF_TABLE = 8
MOST_ROWS, MOST_COLUMNS = 40, 16
MOST_PANELS = 12
BASELINE = "cubic"


def settings_charts(family: Family) -> Iterator[Chart | str]:
    """Yields the chart of all measures against the only swept number, if a panel has several of its
    values.
    """
    if len(family.sweeps) != 1:
        return
    [sweep] = family.sweeps
    runs = _with_setting(panels(family.groups), sweep)
    runs = runs.filter(pl.col("setting").n_unique().over("panel") > 1)
    if runs.is_empty():
        return
    title = f"Goodput, retransmissions and fairness by {sweep.title}"
    if (count := runs["panel"].n_unique()) > MOST_PANELS:
        yield too_large(title, family, f"{count} panels", MOST_PANELS)
        return
    means = runs.group_by("panel", "group", "setting", maintain_order=True).agg(
        pl.col("goodput_bps").mean()
    )
    phrases = []
    for (panel, group), own in means.group_by("panel", "group", maintain_order=True):
        least = own.sort("setting").row(0, named=True)
        most = own.sort("setting").row(-1, named=True)
        phrases.append(
            f"{panel}: {group} from {shown('_bps', least['goodput_bps'])} at {least['setting']} to "
            f"{shown('_bps', most['goodput_bps'])} at {most['setting']}"
        )
    yield _chart(
        family,
        "setting",
        f"by {sweep.key} {_entries(family)}",
        title,
        f"Lines with 95% bands over {sweep.title}. Goodput: {first_phrases(phrases)}.",
        against_setting(runs, sweep),
        panels=min(3, runs["panel"].n_unique()),
    )


def _with_setting(runs: pl.DataFrame, sweep: SweptAxis) -> pl.DataFrame:
    value = pl.col(SETTING + sweep.key).replace_strict(sweep.values, return_dtype=pl.Float64)
    return runs.with_columns(setting=value).sort("setting", maintain_order=True)


def heat_maps(family: Family, steps: Choice) -> Iterator[Chart | str]:
    """Yields maps of goodput gain, utilisation and retransmissions over the two swept numbers with
    the most values.
    """
    if len(family.sweeps) < 2 or len(family.sweeps[0].values) < LEAST_FOR_MAP:
        return
    x, y, *others = family.sweeps
    runs = family.groups.with_columns(
        x=pl.col(SETTING + x.key).replace_strict({text: x.label(text) for text in x.values}),
        y=pl.col(SETTING + y.key).replace_strict({text: y.label(text) for text in y.values}),
        rest=_rest([sweep.key for sweep in others]),
    )
    over = f"by {x.title} and {y.title}"
    gains = _gains(runs)
    for (cca, baseline), frame in gains.items():
        title = f"Goodput gain of {cca} over {baseline} {over}"
        measure = Measure("goodput gain", "+.0%")
        if (count := frame["panel"].n_unique()) > MOST_PANELS:
            yield too_large(title, family, f"{count} panels", MOST_PANELS)
        else:
            drawing = heat_map.gain_map(frame, x, y, (cca, baseline), measure, steps)
            yield _map(family, f"gain of {cca} over {baseline}", title, frame, measure, drawing)
    of_run = runs.unique(["case", "condition", "iteration"], maintain_order=True)
    case = pl.concat_str("case", "rest")
    group = (
        pl.when(pl.col("mix") == pl.col("cca"))
        .then(case)
        .otherwise(pl.concat_str(case, pl.lit(": "), "group"))
    )
    for rows, panel, column, measure in (
        (of_run, case, "utilisation", Measure("utilisation", ".0%", (0.0, 1.0))),
        (runs, group, "retransmission_rate", Measure("retransmission rate", ".2~p")),
    ):
        frame = rows.with_columns(panel=panel).drop_nulls(column)
        frame = frame.group_by("panel", "x", "y", maintain_order=True).agg(
            value=pl.col(column).mean()
        )
        title = f"{measure.title.capitalize()} {over}"
        if (count := frame["panel"].n_unique()) > MOST_PANELS:
            yield too_large(title, family, f"{count} panels", MOST_PANELS)
        elif count:
            drawing = heat_map.heat_map(frame, x, y, measure, "linear" if measure.limits else steps)
            yield _map(family, measure.title, title, frame, measure, drawing)


def _map(
    family: Family, name: str, title: str, frame: pl.DataFrame, measure: Measure, drawing: Part
) -> Chart:
    phrases = []
    for (panel,), own in frame.group_by("panel", maintain_order=True):
        least, most = own.sort("value").row(0, named=True), own.sort("value").row(-1, named=True)
        phrases.append(
            f"{panel}: from {format_share(least['value'])} at {least['x']} and {least['y']} to "
            f"{format_share(most['value'])} at {most['x']} and {most['y']}, "
            f"mean {format_share(float(own['value'].mean()))}"  # type: ignore[arg-type]
        )
    text = f"Heat map of the {measure.title}, mean over iterations. {first_phrases(phrases)}."
    count = min(heat_map.COLUMNS, frame["panel"].n_unique())
    return _chart(
        family, "heat-map", f"{name} {_entries(family)}", title, text, drawing, panels=count
    )


def format_share(value: float) -> str:
    return f"-{format_percent(-value)}" if value < 0 else format_percent(value)


def _rest(keys: list[str]) -> pl.Expr:
    """Returns ' loss=0.1%' for further swept numbers, '' without them."""
    if not keys:
        return pl.lit("")
    return pl.concat_str([pl.format(" {}={}", pl.lit(key), SETTING + key) for key in keys])


def _gains(runs: pl.DataFrame) -> dict[tuple[str, str], pl.DataFrame]:
    """Returns the gain of each CCA over CUBIC, or over the first CCA if there is no CUBIC: panel,
    x, y, value (1.0 is 100%).

    Compares the goodputs of cases with a single CCA, if these CCAs differ, and of competing flows,
    per flow.
    """
    by_pair: dict[tuple[str, str], list[pl.DataFrame]] = {}
    where = ["x", "y", "rest"]
    alone = runs.filter(pl.col("mix") == pl.col("cca"))
    if alone.select("case", "cca").unique().height == alone["cca"].n_unique() > 1:
        means = alone.group_by("cca", *where, maintain_order=True).agg(pl.col("goodput_bps").mean())
        for pair, frame in _of_pairs(means, where):
            by_pair.setdefault(pair, []).append(
                frame.with_columns(panel=pl.concat_str(pl.lit("each alone"), "rest"))
            )
    per_flow = pl.col("goodput_bps").sum() / pl.col("streams").sum()
    for (case,), mixed in runs.filter(pl.col("mix") != pl.col("cca")).group_by(
        "case", maintain_order=True
    ):
        means = mixed.group_by("cca", *where, maintain_order=True).agg(goodput_bps=per_flow)
        for pair, frame in _of_pairs(means, where):
            title = pl.concat_str(pl.lit(f"{case}, per flow"), "rest")
            by_pair.setdefault(pair, []).append(frame.with_columns(panel=title))
    return {pair: pl.concat(frames) for pair, frames in by_pair.items()}


def _of_pairs(
    means: pl.DataFrame, where: list[str]
) -> Iterator[tuple[tuple[str, str], pl.DataFrame]]:
    ccas = means["cca"].unique(maintain_order=True).to_list()
    baseline = BASELINE if BASELINE in ccas else ccas[0]
    of_baseline = means.filter(pl.col("cca") == baseline).select(*where, base="goodput_bps")
    for cca in ccas:
        if cca != baseline:
            both = means.filter(pl.col("cca") == cca).join(
                of_baseline, on=where, maintain_order="left"
            )
            gain = (pl.col("goodput_bps") - pl.col("base")) / pl.col("base")
            yield (cca, baseline), both.filter(pl.col("base") > 0).select(*where, value=gain)


def share_charts(family: Family) -> Iterator[Chart]:
    """Yields the chart of shares for each pair of CCAs that are mixed in changing numbers."""
    shared = family.groups.filter(pl.col("fair_share").is_not_null())
    for (mix,), own in shared.group_by("mix", maintain_order=True):
        ccas = own["cca"].unique(maintain_order=True).to_list()
        if len(ccas) != 2:
            continue
        first, second = sorted(ccas, key=cubic_first)
        run = ["entry", "dst", "condition", "iteration"]
        flows = own.group_by(*run, "cca", maintain_order=True).agg(
            pl.col("streams", "share", "fair_share").sum(),
            *(pl.col(SETTING + sweep.key).first() for sweep in family.sweeps),
        )
        counts = flows.pivot("cca", index=run, values="streams")
        label = pl.concat_str(first, pl.lit(" : "), second)
        labelled = flows.join(counts.with_columns(flows_of=label), on=run, maintain_order="left")
        swept = [sweep.key for sweep in family.sweeps if sweep.key != "streams"]
        shares = labelled.with_columns(panel=pl.concat_str("entry", _rest(swept))).sort(
            second, -pl.col(first), maintain_order=True
        )
        mixes = shares.group_by("panel").agg(pl.col("flows_of").n_unique())["flows_of"]
        if min(mixes) < LEAST_FOR_SHARES:
            continue
        title = f"Share of the goodput of {first} and {second} against their fair share"
        means = shares.filter(pl.col("cca") == second).group_by(
            "panel", "flows_of", maintain_order=True
        )
        phrases = [
            f"{row['panel']}, {row['flows_of']}: {format_percent(row['share'])}, "
            f"fair {format_percent(row['fair_share'])}"
            for row in means.agg(pl.col("share", "fair_share").mean()).iter_rows(named=True)
        ]
        yield _chart(
            family,
            "share",
            f"share {mix} {_entries(family)}",
            title,
            f"Share of {second}. {first_phrases(phrases)}.",
            share_against_fair_share(shares, f"flows of {first} : {second}"),
            panels=min(2, shares["panel"].n_unique()),
        )


def box_charts(family: Family) -> Iterator[Chart | str]:
    """Yields box plots of the goodput if there are many iterations."""
    runs = panels(family.groups)
    iterations = max(runs.group_by("case", "condition", "group").len()["len"], default=0)
    if iterations < LEAST_FOR_BOXES:
        return
    labelled = _by_settings(runs, family.sweeps)
    title = f"Goodput in {iterations} iterations"
    for count, most, what in (
        (labelled["x"].n_unique(), MOST_BOXES, "places for boxes"),
        (labelled["panel"].n_unique(), MOST_PANELS, "panels"),
    ):
        if count > most:
            yield too_large(title, family, f"{count} {what}", most)
            return
    medians = labelled.group_by("panel", "x", "group", maintain_order=True).agg(
        median=pl.col("goodput_bps").median(),
        least=pl.col("goodput_bps").min(),
        most=pl.col("goodput_bps").max(),
    )
    phrases = [
        f"{row['panel']}, {row['x']}, {row['group']}: median {shown('_bps', row['median'])} "
        f"({shown('_bps', row['least'])} to {shown('_bps', row['most'])})"
        for row in medians.iter_rows(named=True)
    ]
    x_title = ", ".join(sweep.title for sweep in family.sweeps)
    yield _chart(
        family,
        "box",
        f"boxes {_entries(family)}",
        title,
        f"Box plots of the goodput. {first_phrases(phrases)}.",
        distributions.boxes(labelled, x_title, goodput()),
        panels=min(3, labelled["panel"].n_unique()),
    )


def _by_settings(runs: pl.DataFrame, sweeps: list[SweptAxis]) -> pl.DataFrame:
    """Adds `x`, the swept numbers as text, and sorts the rows by them."""
    numbers = [
        pl.col(SETTING + sweep.key).replace_strict(sweep.values, return_dtype=pl.Float64)
        for sweep in sweeps
    ]
    if not numbers:
        return runs.with_columns(x=pl.lit("all"))
    labels = [
        pl.col(SETTING + sweep.key).replace_strict(
            {text: sweep.label(text) for text in sweep.values}
        )
        for sweep in sweeps
    ]
    return runs.with_columns(x=pl.concat_str(labels, separator=", ")).sort(
        numbers, maintain_order=True
    )


def table_charts(family: Family) -> Iterator[Chart | str]:
    """Yields the table of groups by conditions, unless it is too large to read."""
    sweeps = family.sweeps
    groups = family.groups
    conditions = (
        groups.select(SETTING + sweep.key for sweep in sweeps).unique().height if sweeps else 1
    )
    across = [
        sweep.key for sweep in (sweeps if conditions <= MOST_CONDITIONS_OF_TABLE else sweeps[:1])
    ]
    column = _pairs(across, ",") if across else pl.lit("goodput")
    rest = _rest([sweep.key for sweep in sweeps if sweep.key not in across])
    group = (
        pl.when(pl.col("mix") == pl.col("group"))
        .then(pl.lit(""))
        .otherwise(pl.format(": {}", "group"))
    )
    ordered = _by_settings(groups, sweeps)
    columns = ordered.select(column.alias("column"))["column"].unique(maintain_order=True).to_list()
    named = groups.with_columns(row=pl.concat_str("case", rest, group), column=column)
    means = named.group_by("row", "column", maintain_order=True).agg(pl.col("goodput_bps").mean())
    rows = means["row"].unique(maintain_order=True)
    if means.height < 4 or rows.len() < 2 or len(columns) < 2:
        return
    title = "Goodput by entry and condition"
    for count, most, what in (
        (rows.len(), MOST_ROWS, "rows"),
        (len(columns), MOST_COLUMNS, "columns"),
    ):
        if count > most:
            yield too_large(title, family, f"{count} {what}", most)
            return
    phrases = [
        f"{row}: "
        + ", ".join(
            f"{each['column']} {shown('_bps', each['goodput_bps'])}"
            for each in own.iter_rows(named=True)
        )
        for (row,), own in means.group_by("row", maintain_order=True)
    ]
    yield _chart(
        family,
        "table",
        f"table {_entries(family)}",
        title,
        f"Table of mean goodputs. {first_phrases(phrases)}.",
        goodput_table(means, rows.to_list(), columns),
        panels=2,
    )


def too_large(title: str, family: Family, size: str, most: int) -> str:
    """Returns the sentence for a chart that would be too large to read."""
    return (
        f"Not drawn: “{title}” of {_entries(family)}, which would have {size}: more than "
        f"{most} can't be read."
    )


def _pairs(keys: list[str], separator: str) -> pl.Expr:
    return pl.concat_str(
        [pl.format("{}={}", pl.lit(key), SETTING + key) for key in keys], separator=separator
    )


def _entries(family: Family) -> str:
    return ",".join(dict.fromkeys(result.run.entry for result in family.results))


def _chart(
    family: Family, kind: Kind, name: str, title: str, text: str, drawing: Part, panels: int
) -> Chart:
    return finished(
        kind,
        name,
        title,
        in_common(family.results),
        text,
        drawing,
        results=family.results,
        panels=panels,
    )
