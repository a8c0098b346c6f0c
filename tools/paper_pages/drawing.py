"""Draws a paper's figure with Vega-Lite: published and the lab's numbers on the same axes."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import polars as pl

from ccmix.analysis import path_text
from ccmix.charts.encodings import PERCENT_AXIS, RATE_AXIS, Part, titled
from ccmix.charts.heat_map import MapLayout, Measure, gain_map, heat_map
from ccmix.charts.published import PlottedNumber, SideBySide, published_next_to_lab
from ccmix.model import Topology
from ccmix.model.results import FinishedRun
from ccmix.papers.experiment import (
    MapRow,
    Maps,
    OverBuffer,
    Paper,
    Plots,
    Quantity,
    published_series,
    sources,
)
from ccmix.text.words import listed
from ccmix.units import format_bytes
from paper_pages.figure_data import (
    GAIN,
    RETRANSMISSION_RATE,
    UTILISATION,
    FigureData,
    PlotAxis,
    PlottedPoint,
    is_measured,
    is_row_measured,
    map_cells,
    plot_axis,
    plotted_points,
    points_over_buffer,
)

WITHOUT_TEXTS = {
    "aria": False
}  # of each mark: they make the file twice as large, and an <img> shows none
INTERVALS = "the lab's means with 95% intervals"
MOST_BUFFERS = 4  # that are all named
CELL_WIDTH, CELL_HEIGHT = 48, 24
MAP_COLUMNS = 2  # published, lab
SCHEMA = {"panel": pl.String, "x": pl.String, "y": pl.String, "value": pl.Float64}
MEASURES: dict[Quantity, Measure] = {
    "utilisation": Measure("utilisation", ".0%", (0.0, 1.0)),
    "retransmits": Measure("segments", ".3~s"),
}
GAIN_MEASURE = Measure("goodput gain", "+.0%", ticks=(-10.0, -1.0, 0.0, 1.0, 10.0))
FRACTION_AXIS = {"format": ".0%", "tickCount": 5}
PLAIN_AXIS = {"tickCount": 5}
TO_ONE = {"domain": [0, 1]}
PLOTTED: dict[Quantity, tuple[str, Part, Part]] = {
    "goodput_bps": ("goodput (bit/s)", RATE_AXIS, {}),
    "variation": ("coefficient of variation", PLAIN_AXIS, {}),
    "utilisation": ("utilisation", FRACTION_AXIS, TO_ONE),
    "share": ("share of the goodput", FRACTION_AXIS, TO_ONE),
    "fairness": ("Jain's index", PLAIN_AXIS, TO_ONE),
    "retransmits": ("retransmitted segments", RATE_AXIS, {}),  # thousands have the same letter
    "retransmission_rate": ("retransmission rate", PERCENT_AXIS, {}),
    "convergence_s": ("time to converge (s)", PLAIN_AXIS, {}),
    "queue_mean_bdp": ("mean queue (BDP)", PLAIN_AXIS, {}),
    "queue_p95_bdp": ("95th perc. of queue", PLAIN_AXIS, {}),
    "rtt_p95_s": ("95th perc. of RTT (s)", PLAIN_AXIS, {}),
}
PERCENTS = {"labelExpr": "format(datum.value * 100, '~g') + '%'"}
OVER_BUFFER = (
    PlottedNumber(
        GAIN,
        "goodput gain",
        PERCENTS | {"values": [-0.5, 0, 0.5, 2, 5, 10, 25]},
        {"type": "symlog", "constant": 0.2, "domain": [-0.5, 30]},
    ),
    PlottedNumber(UTILISATION, "utilisation", FRACTION_AXIS, {"domain": [0, 1.05]}),
    PlottedNumber(
        RETRANSMISSION_RATE,
        "retransmission rate",
        PERCENTS | {"values": [0, 0.0001, 0.001, 0.01, 0.1]},
        {"type": "symlog", "constant": 0.00002, "domain": [0, 0.2]},
    ),
)
STEPS = (1.0, 2.0, 5.0)  # of a decade, if there is room for them
MOST_STEPS = 8
AROUND = 1.5  # times the largest of a logarithmic axis is its end


@dataclass(frozen=True)
class DrawnFigure:
    """Holds a picture as a Vega-Lite specification, the text for those who can't see it, and the
    caption, which has the lab's settings.
    """

    spec: Part
    alt_text: str
    caption: str


def drawn(figure: Maps | Plots | OverBuffer, paper: Paper, data: FigureData) -> DrawnFigure | None:
    """Draws a figure of a paper: published numbers next to the lab's (from `data`), with a caption.
    Returns None if the lab has measured none of the figure's numbers.
    """
    runs = data.of_entries(entry for _, entry in sources(figure))
    if not runs or not is_measured(figure, data):
        return None
    published = (
        f"published ({'; '.join(published_series(figure))})" if published_series(figure) else ""
    )
    match figure:
        case Maps():
            drawing, columns = maps(figure, data), MAP_COLUMNS
            marks = f"Left: {published}. Right: the lab's means."
        case Plots():
            drawing, columns, mark = plots(figure, data)
            marks = (f"Diamonds: {published}. " if published else "") + f"{mark}: {INTERVALS}."
        case OverBuffer():
            drawing, columns = over_buffer(figure, data), len(figure.panels)
            marks = f"Diamonds: {published}. Points: the lab's means."
    legend = f"{marks} Lab: {lab_settings(runs)}."
    title = f"{paper.author.capitalize()} {year(paper)}, {figure.name}: {figure.title}"
    caption = " ".join(filter(None, [f"{figure.name}, {figure.title}. {legend}", figure.note]))
    spec = titled(title, legend, "", drawing, columns)
    spec["config"] |= WITHOUT_TEXTS
    return DrawnFigure(spec, title, caption)


def year(paper: Paper) -> str:
    """Returns the year that the paper's citation ends with; '' if it does not end with one."""
    found = re.search(r"\d{4}$", paper.citation)
    return found[0] if found else ""


def lab_settings(runs: Sequence[FinishedRun]) -> str:
    """Describes the settings of the runs for a caption: 'entry shallow, buffer 102 kB, queue
    discipline bfifo at the bottleneck and fq at the sender, offloads off, Linux 6.12'. If runs have
    different values of a setting, these are joined by 'or'.
    """
    paths = [run.run.path for run in runs if isinstance(run.run.path, Topology)]
    queues = _either(str(path.queue) for path in paths)
    sender_queues = _either(
        path_text.sender_queue(sender) for path in paths for sender in path.senders
    )
    offloads = _either("on" if path.offloads else "off" for path in paths)
    kernels = _either(run.facts.kernel for run in runs)
    entries = list(dict.fromkeys(run.run.entry for run in runs))
    return (
        f"{'entries' if entries[1:] else 'entry'} {listed(entries)}, buffer {_buffers(paths)}, "
        f"queue discipline {queues} at the bottleneck and {sender_queues} at the sender, offloads "
        f"{offloads}, Linux {kernels}"
    )


def _either(words: Iterable[str]) -> str:
    """Joins words by 'or', such as 'on or off', and leaves out repetitions."""
    return " or ".join(dict.fromkeys(words))


def _buffers(paths: Iterable[Topology]) -> str:
    """Returns the buffers of the paths as text: '102 kB', or '1 or 4 BDP' if the INI file has them
    as multiples of the BDP. More than four buffers are written as '0.1 to 100 BDP'.
    """
    in_bdp = sorted({path.buffer.amount for path in paths if path.buffer.kind == "bdp"})
    sizes = sorted({path.buffer_bytes for path in paths if path.buffer.kind != "bdp"})
    amounts = (
        ([f"{amount:g}" for amount in in_bdp], " BDP"),
        ([format_bytes(size) for size in sizes], ""),
    )
    return " or ".join(_few(texts) + unit for texts, unit in amounts if texts)


def _few(words: Sequence[str]) -> str:
    """Joins up to four words by 'or'; of more words, only the first and the last: '0.1 to 100'."""
    return " or ".join(words) if len(words) <= MOST_BUFFERS else f"{words[0]} to {words[-1]}"


def maps(figure: Maps, data: FigureData) -> Part:
    """Draws the heat maps of a figure, a row for each CCA: the published map on the left, the lab's
    on the right. A row is left out if the lab has measured none of its cells.

    Maps of the gain of one CCA over another are drawn row by row, because the colours of each row
    are those of its two CCAs.
    """
    rows = [row for row in figure.rows if is_row_measured(figure, row, data)]
    if not figure.rows[0].over:
        measure = MEASURES[figure.quantity]
        frame, layout = _map_frame(figure, rows, data)
        return heat_map(
            frame, figure.x, figure.y, measure, "linear" if measure.limits else "log", layout
        )
    drawn = []
    for row in rows:
        frame, layout = _map_frame(figure, [row], data)
        drawn.append(
            gain_map(frame, figure.x, figure.y, (row.cca, row.over), GAIN_MEASURE, "log", layout)
        )
    return {"vconcat": drawn, "spacing": 24, "resolve": {"scale": {"color": "independent"}}}


def _map_frame(
    figure: Maps, rows: Sequence[MapRow], data: FigureData
) -> tuple[pl.DataFrame, MapLayout]:
    """Returns the data of heat maps, and the layout of their panels. The data has a row for each
    cell, with the columns panel, x, y (the labels of the cell's settings) and value. Each of the
    figure's `rows` gives two panels: the published map, and the lab's.
    """
    cells: list[tuple[str | float | None, ...]] = []
    panels: list[str] = []
    for row in rows:
        ccas = f"{row.cca} over {row.over}" if row.over else row.cca
        lab = f"lab, entry {row.entry}: {ccas}"
        lab = f"{lab}, next to {row.series}" if lab in panels else lab
        for panel, published in ((f"published, {row.series}: {ccas}", True), (lab, False)):
            panels.append(panel)
            cells += [
                (panel, *astuple(cell))
                for cell in map_cells(figure, row, data, published=published)
            ]
    layout = MapLayout(MAP_COLUMNS, CELL_WIDTH, CELL_HEIGHT, tuple(panels))
    return pl.DataFrame(cells, schema=SCHEMA, orient="row"), layout


def plots(figure: Plots, data: FigureData) -> tuple[Part, int, str]:
    """Draws the plots of a figure: bars or points if the x axis has names, and lines if it has
    numbers.

    Returns three values: the Vega-Lite drawing, the number of panels side by side, and the word for
    how the lab's numbers are drawn ('Bars', 'Lines' or 'Points'), for the caption.
    """
    axis = plot_axis(figure, data)
    frame = _frame(plotted_points(figure, axis, data))
    numbers = [_plotted(quantity, figure, frame) for quantity in figure.quantities]
    with_points = frame["panel"].unique().to_list()
    panels = tuple(panel.title for panel in figure.panels if panel.title in with_points)
    named = axis.swept is None or axis.swept.spacing == "even"
    layout = SideBySide(
        panels,
        columns=min(figure.columns, len(panels)),
        bars=named and not figure.log,
        lined=not named,
        dashed=tuple(figure.hosts.values()),
    )
    marks = "Bars" if layout.bars else "Lines" if layout.lined else "Points"
    return published_next_to_lab(frame, _channel(axis), numbers, layout), layout.columns, marks


def over_buffer(figure: OverBuffer, data: FigureData) -> Part:
    """Draws gain, utilisation and retransmission rate as points, against the buffer divided by the
    BDP on a logarithmic axis.
    """
    frame = _frame(points_over_buffer(figure, data))
    domain = _around(frame["setting"].to_list())
    x: Part = {
        "field": "setting",
        "type": "quantitative",
        "title": "buffer over BDP",
        "axis": {"format": "~g", "values": _ticks(*domain), "grid": False},
        "scale": {"type": "log", "domain": domain, "nice": False},
    }
    panels = tuple(panel.title for panel in figure.panels)
    return published_next_to_lab(
        frame, x, OVER_BUFFER, SideBySide(panels, len(panels), lined=False)
    )


def _frame(points: Iterable[PlottedPoint]) -> pl.DataFrame:
    """Returns a table with a row for each point; its columns are the fields of PlottedPoint."""
    return pl.DataFrame(list(points), infer_schema_length=None)


def _plotted(quantity: Quantity, figure: Plots, frame: pl.DataFrame) -> PlottedNumber:
    """Returns the title, the axis and the scale with which a quantity, such as 'goodput_bps', is
    drawn. If the figure is logarithmic, the scale spans all means of this quantity in `frame` (rows
    of PlottedPoint).
    """
    title, axis, scale = PLOTTED[quantity]
    if not figure.log:
        return PlottedNumber(quantity, title, axis, scale)
    means = frame.filter(pl.col("number") == quantity)["mean"].to_list()
    domain = _around([mean for mean in means if mean > 0])
    return PlottedNumber(
        quantity, title, axis | {"values": _ticks(*domain)}, {"type": "log", "domain": domain}
    )


def _around(numbers: Sequence[float]) -> list[float]:
    """Returns both ends of a logarithmic axis for these numbers: the smallest number divided by
    1.5, and the largest multiplied by 1.5.
    """
    return [min(numbers) / AROUND, max(numbers) * AROUND]


def _ticks(least: float, most: float) -> list[float]:
    """Returns the numbers to write at a logarithmic axis from `least` to `most`: 0.1, 0.2, 0.5, 1,
    2 and so on. If these are more than 8 (MOST_STEPS), only powers of ten are returned.
    """
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    each, few = (
        [
            tick
            for decade in decades
            for step in steps
            if least <= (tick := float(f"{step}e{decade}")) <= most
        ]
        for steps in (STEPS, STEPS[:1])
    )
    return each if len(each) <= MOST_STEPS else few


def _channel(axis: PlotAxis) -> Part:
    """Returns the x axis of a plot as a Vega-Lite channel, with numbers or with names. Numbers that
    span decades and include 0 are treated as names, because a logarithmic axis has no place for 0.
    """
    if axis.swept and axis.swept.spacing != "even":
        return axis.swept.channel()
    title = axis.swept.title if axis.swept else None
    scale = {"domain": list(axis.places.values()), "paddingInner": 0.3, "paddingOuter": 0.2}
    return {
        "field": "setting",
        "type": "ordinal",
        "title": title,
        "axis": {"labelAngle": 0},
        "scale": scale,
    }
