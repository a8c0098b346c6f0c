"""Makes charts that compare all conditions (combinations of swept values) of a family of entries.

A sentence replaces a chart that fits but would be too large to read.
"""

from collections.abc import Iterator

import polars as pl

from ccmix.analysis.statistics import shown
from ccmix.charts import distributions, heat_map
from ccmix.charts.encodings import (
    Chart,
    Kind,
    Part,
    finished,
    first_phrases,
    goodput,
    names_in_order,
)
from ccmix.charts.frames import (
    SETTING,
    Family,
    SweptAxis,
    cubic_first,
    entry_names,
    further_settings,
    gain_tables,
    panels,
)
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
GAIN = Measure("goodput gain", "+.0%")


def settings_charts(family: Family) -> Iterator[Chart | str]:
    """Yields the chart of goodput, retransmissions and fairness against the number that the family
    sweeps (varies). Yields nothing unless exactly one swept key has numbers, and at least one panel
    has several of them.
    """
    if len(family.sweeps) != 1:
        return
    [sweep] = family.sweeps
    runs = panels(family.groups).with_columns(setting=sweep.numbers)
    runs = runs.sort("setting", maintain_order=True).filter(
        pl.col("setting").n_unique().over("panel") > 1
    )
    if runs.is_empty():
        return
    title = f"Goodput, retransmissions and fairness by {sweep.title}"
    if sentence := too_large(title, family, (runs["panel"].n_unique(), "panels", MOST_PANELS)):
        yield sentence
        return
    means = runs.group_by("panel", "group", "setting", maintain_order=True).agg(
        pl.col("goodput_bps").mean()
    )
    descriptions = []
    for (panel, group), rows in means.group_by("panel", "group", maintain_order=True):
        first = rows.sort("setting").row(0, named=True)
        last = rows.sort("setting").row(-1, named=True)
        descriptions.append(
            f"{panel}: {group} from {shown('_bps', first['goodput_bps'])} at {first['setting']} to "
            f"{shown('_bps', last['goodput_bps'])} at {last['setting']}"
        )
    yield _chart(
        family,
        "setting",
        f"by {sweep.key}",
        title,
        f"Lines with 95% bands over {sweep.title}. Goodput: {first_phrases(descriptions)}.",
        against_setting(runs, sweep),
        panels=min(3, runs["panel"].n_unique()),
    )


def heat_maps(family: Family, steps: Choice) -> Iterator[Chart | str]:
    """Yields heat maps of goodput gain, utilisation and retransmissions over two swept numbers. If
    the family sweeps more than two, those with the most values are the axes. Yields nothing if
    there are fewer than two.

    steps: whether the colours have linear or logarithmic steps; "auto": by the values
    """
    if len(family.sweeps) < 2 or len(family.sweeps[0].values) < LEAST_FOR_MAP:
        return
    x, y, *other_sweeps = family.sweeps
    runs = family.groups.with_columns(
        x=x.labels_of_runs,
        y=y.labels_of_runs,
        rest=further_settings([sweep.key for sweep in other_sweeps]),
    )
    maps: list[tuple[str, pl.DataFrame, Measure, tuple[str, str] | None]] = [
        (f"Goodput gain of {cca} over {baseline}", frame, GAIN, (cca, baseline))
        for (cca, baseline), frame in gain_tables(runs).items()
    ]
    rows_of_runs = runs.unique(["case", "condition", "iteration"], maintain_order=True)
    case_name = pl.concat_str("case", "rest")
    group_name = (
        pl.when(pl.col("mix") == pl.col("cca"))
        .then(case_name)
        .otherwise(pl.concat_str(case_name, pl.lit(": "), "group"))
    )
    for rows, panel, column, measure in (
        (rows_of_runs, case_name, "utilisation", Measure("utilisation", ".0%", (0.0, 1.0))),
        (runs, group_name, "retransmission_rate", Measure("retransmission rate", ".2~p")),
    ):
        frame = rows.with_columns(panel=panel).drop_nulls(column)
        cells = frame.group_by("panel", "x", "y", maintain_order=True)
        means = cells.agg(value=pl.col(column).mean())
        maps.append((measure.title.capitalize(), means, measure, None))
    for subject, frame, measure, ccas in maps:
        title = f"{subject} by {x.title} and {y.title}"
        count = frame["panel"].n_unique()
        if sentence := too_large(title, family, (count, "panels", MOST_PANELS)):
            yield sentence
        elif ccas:
            drawing = heat_map.gain_map(frame, x, y, ccas, measure, steps)
            yield _map_chart(
                family, f"gain of {' over '.join(ccas)}", title, frame, measure, drawing
            )
        elif count:
            drawing = heat_map.heat_map(frame, x, y, measure, "linear" if measure.limits else steps)
            yield _map_chart(family, measure.title, title, frame, measure, drawing)


def _map_chart(
    family: Family, name: str, title: str, frame: pl.DataFrame, measure: Measure, drawing: Part
) -> Chart:
    """Returns the finished chart of a heat map. Its alternative text has the range and the mean of
    each panel.

    name: begins the name of the chart
    frame: a row per cell: panel, x and y (the labels of the settings), value
    drawing: the Vega-Lite specification of the heat map
    """
    descriptions = []
    for (panel,), cells in frame.group_by("panel", maintain_order=True):
        ascending = cells.sort("value")
        low, high = ascending.row(0, named=True), ascending.row(-1, named=True)
        descriptions.append(
            f"{panel}: from {format_share(low['value'])} at {low['x']} and {low['y']} to "
            f"{format_share(high['value'])} at {high['x']} and {high['y']}, "
            f"mean {format_share(float(cells['value'].mean()))}"  # type: ignore[arg-type]
        )
    text = f"Heat map of the {measure.title}, mean over iterations. {first_phrases(descriptions)}."
    count = min(heat_map.COLUMNS, frame["panel"].n_unique())
    return _chart(family, "heat-map", name, title, text, drawing, panels=count)


def format_share(value: float) -> str:
    """Returns a share, which may be negative, as a percentage: '-12%'."""
    return f"-{format_percent(-value)}" if value < 0 else format_percent(value)


def share_charts(family: Family) -> Iterator[Chart]:
    """Yields a chart for each pair of CCAs that compete in changing numbers of flows. It shows the
    share of the goodput that each CCA gets, and its fair share, which is its share of the flows.
    """
    shared = family.groups.filter(pl.col("fair_share").is_not_null())
    for (mix,), mix_rows in shared.group_by("mix", maintain_order=True):
        ccas = names_in_order(mix_rows, "cca")
        if len(ccas) != 2:
            continue
        first, second = sorted(ccas, key=cubic_first)
        # a row per run and CCA, with the numbers of flows of both CCAs as text: '9 : 1'
        run_key = ["entry", "dst", "condition", "iteration"]
        flows = mix_rows.group_by(*run_key, "cca", maintain_order=True).agg(
            pl.col("streams", "share", "fair_share").sum(),
            *(pl.col(SETTING + sweep.key).first() for sweep in family.sweeps),
        )
        counts = flows.pivot("cca", index=run_key, values="streams")
        flows_text = pl.concat_str(first, pl.lit(" : "), second)
        labelled = flows.join(
            counts.with_columns(flows_of=flows_text), on=run_key, maintain_order="left"
        )
        # a panel per entry and further settings, sorted by the numbers of flows
        swept = [sweep.key for sweep in family.sweeps if sweep.key != "streams"]
        shares = labelled.with_columns(panel=pl.concat_str("entry", further_settings(swept))).sort(
            second, -pl.col(first), maintain_order=True
        )
        mixes = shares.group_by("panel").agg(pl.col("flows_of").n_unique())["flows_of"]
        if min(mixes) < LEAST_FOR_SHARES:
            continue
        title = f"Share of the goodput of {first} and {second} against their fair share"
        means_of_second = shares.filter(pl.col("cca") == second).group_by(
            "panel", "flows_of", maintain_order=True
        )
        descriptions = [
            f"{row['panel']}, {row['flows_of']}: {format_percent(row['share'])}, "
            f"fair {format_percent(row['fair_share'])}"
            for row in means_of_second.agg(pl.col("share", "fair_share").mean()).iter_rows(
                named=True
            )
        ]
        yield _chart(
            family,
            "share",
            f"share {mix}",
            title,
            f"Share of {second}. {first_phrases(descriptions)}.",
            share_against_fair_share(shares, f"flows of {first} : {second}"),
            panels=min(2, shares["panel"].n_unique()),
        )


def box_charts(family: Family) -> Iterator[Chart | str]:
    """Yields box plots of the goodput over iterations. Yields nothing if there are fewer than 5
    iterations, and a sentence if the chart would be too large.
    """
    runs = panels(family.groups)
    iterations = max(runs.group_by("case", "condition", "group").len()["len"], default=0)
    if iterations < LEAST_FOR_BOXES:
        return
    # each combination of swept numbers is a place on the x axis
    labelled = _labelled_by_settings(runs, family.sweeps)
    title = f"Goodput in {iterations} iterations"
    if sentence := too_large(
        title,
        family,
        (labelled["x"].n_unique(), "places for boxes", MOST_BOXES),
        (labelled["panel"].n_unique(), "panels", MOST_PANELS),
    ):
        yield sentence
        return
    medians = labelled.group_by("panel", "x", "group", maintain_order=True).agg(
        median=pl.col("goodput_bps").median(),
        least=pl.col("goodput_bps").min(),
        most=pl.col("goodput_bps").max(),
    )
    descriptions = [
        f"{row['panel']}, {row['x']}, {row['group']}: median {shown('_bps', row['median'])} "
        f"({shown('_bps', row['least'])} to {shown('_bps', row['most'])})"
        for row in medians.iter_rows(named=True)
    ]
    x_title = ", ".join(sweep.title for sweep in family.sweeps)
    yield _chart(
        family,
        "box",
        "boxes",
        title,
        f"Box plots of the goodput. {first_phrases(descriptions)}.",
        distributions.boxes(labelled, x_title, goodput()),
        panels=min(3, labelled["panel"].n_unique()),
    )


def _labelled_by_settings(runs: pl.DataFrame, sweeps: list[SweptAxis]) -> pl.DataFrame:
    """Adds the column `x` to a table of runs: a text with the swept numbers, such as '10, 1.5'. The
    rows are then sorted by these numbers.
    """
    if not sweeps:
        return runs.with_columns(x=pl.lit("all"))
    labels = pl.concat_str([sweep.labels_of_runs for sweep in sweeps], separator=", ")
    numbers = [sweep.numbers for sweep in sweeps]
    return runs.with_columns(x=labels).sort(numbers, maintain_order=True)


def table_charts(family: Family) -> Iterator[Chart | str]:
    """Yields a table of mean goodputs, with a row for each group of flows and a column for each
    condition (combination of swept values). If there are more than 8 conditions, only the sweep
    with the most values has columns, and the other sweeps are in the rows. Yields a sentence
    instead if the table would be too large.
    """
    sweeps = family.sweeps
    groups = family.groups
    # the swept keys whose values are columns; the values of the others are in the rows' names
    conditions = (
        groups.select(SETTING + sweep.key for sweep in sweeps).unique().height if sweeps else 1
    )
    column_keys = [
        sweep.key for sweep in (sweeps if conditions <= MOST_CONDITIONS_OF_TABLE else sweeps[:1])
    ]
    column = _settings_text(column_keys, ",") if column_keys else pl.lit("goodput")
    row_settings = further_settings([sweep.key for sweep in sweeps if sweep.key not in column_keys])
    group_text = (
        pl.when(pl.col("mix") == pl.col("group"))
        .then(pl.lit(""))
        .otherwise(pl.format(": {}", "group"))
    )
    in_order = _labelled_by_settings(groups, sweeps)
    columns = names_in_order(in_order.select(column=column), "column")
    named = groups.with_columns(row=pl.concat_str("case", row_settings, group_text), column=column)
    means = named.group_by("row", "column", maintain_order=True).agg(pl.col("goodput_bps").mean())
    rows = names_in_order(means, "row")
    if means.height < 4 or len(rows) < 2 or len(columns) < 2:
        return
    title = "Goodput by entry and condition"
    if sentence := too_large(
        title, family, (len(rows), "rows", MOST_ROWS), (len(columns), "columns", MOST_COLUMNS)
    ):
        yield sentence
        return
    descriptions = [
        f"{row}: "
        + ", ".join(
            f"{each['column']} {shown('_bps', each['goodput_bps'])}"
            for each in row_means.iter_rows(named=True)
        )
        for (row,), row_means in means.group_by("row", maintain_order=True)
    ]
    yield _chart(
        family,
        "table",
        "table",
        title,
        f"Table of mean goodputs. {first_phrases(descriptions)}.",
        goodput_table(means, rows, columns),
        panels=2,
    )


def too_large(title: str, family: Family, *sizes: tuple[int, str, int]) -> str | None:
    """Returns the sentence that replaces a chart that would be too large to read; None if it is not
    too large. Each of `sizes` is a number, of what in words, such as 'panels', and the largest
    readable number.
    """
    for count, what, most in sizes:
        if count > most:
            return (
                f"Not drawn: “{title}” of {entry_names(family.results)}, which would have "
                f"{count} {what}: more than {most} can't be read."
            )
    return None


def _settings_text(keys: list[str], separator: str) -> pl.Expr:
    """Returns a Polars expression for a text such as 'rate=10mbit,loss=1%', which has the values of
    these swept keys.
    """
    return pl.concat_str(
        [pl.format("{}={}", pl.lit(key), SETTING + key) for key in keys], separator=separator
    )


def _chart(
    family: Family, kind: Kind, name: str, title: str, text: str, drawing: Part, panels: int
) -> Chart:
    """Returns the finished chart of a family's runs. `name` begins the chart's name, which ends
    with the names of the entries. `text` is the alternative text, and `panels` the number of panels
    side by side.
    """
    return finished(
        kind,
        f"{name} {entry_names(family.results)}",
        title,
        in_common(family.results),
        text,
        drawing,
        results=family.results,
        panels=panels,
    )
