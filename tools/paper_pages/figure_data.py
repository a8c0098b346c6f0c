"""Collects the numbers that a figure shows: published ones and those of the lab's runs."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ccmix.charts.frames import SweptAxis, swept_axis
from ccmix.charts.published import ALL_FLOWS
from ccmix.model import Run, Topology
from ccmix.model.results import FinishedRun
from ccmix.papers.experiment import (
    ALTERNATIVES,
    CCA,
    BufferPanel,
    MapRow,
    Maps,
    OverBuffer,
    PlotPanel,
    Plots,
    Quantity,
    RunNumber,
)
from ccmix.papers.measuring import MeasuredRuns, MeasuredSample
from ccmix.papers.reading import PUBLISHED_AS, PublishedNumber
from ccmix.papers.scores import RATE_KEY
from ccmix.units import parse_rate, parse_time

OF_WHOLE_RUN: tuple[Quantity, ...] = (
    "fairness",
    "convergence_s",
    "queue_mean_bdp",
    "queue_p95_bdp",
)
GAIN, UTILISATION, RETRANSMISSION_RATE = "gain", "utilisation", "retransmission_rate"


@dataclass(frozen=True)
class MapCell:
    """Holds a cell of a heat map: the labels of its column and row, and its number; None if it was
    not published or not measured.
    """

    x: str
    y: str
    value: float | None


@dataclass(frozen=True)
class PlottedPoint:
    """Holds a mean with its 95% interval (`low` to `high`), and its place in a chart: its panel,
    the name of the quantity (`number`), its place on the x axis (`setting`), and its line.

    `published` is False for a number that the lab measured.
    """

    panel: str
    number: str
    setting: float | str
    line: str
    cca: str
    published: bool
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class FigureData:
    """Holds all numbers that figures of an experiment may show: the published ones, the valid runs
    of the lab, and the runs that are planned at the full size of the paper.
    """

    published: tuple[PublishedNumber, ...]
    runs: MeasuredRuns
    full: tuple[Run, ...]

    def of_entries(self, entries: Iterable[str]) -> tuple[FinishedRun, ...]:
        """Returns the valid runs of these entries; 'A or B' means the runs of both."""
        wanted = {each for entry in entries for each in entry.split(ALTERNATIVES)}
        return tuple(run for run in self.runs.runs if run.run.entry in wanted)

    @cached_property
    def _by_cell(self) -> dict[tuple[str, ...], PublishedNumber]:
        """Returns the published numbers by their cell: series, CCA, quantity, and values of swept
        keys.
        """
        return {
            _cell_key(each.series, each.cca, each.quantity, each.at): each
            for each in self.published
        }

    def published_at(
        self, series: str, cca: str, quantity: Quantity, at: Mapping[str, str]
    ) -> float | None:
        """Returns the number that the paper has published in a series for a CCA and a quantity;
        None if there is none.

        `at` has the values of swept keys, such as {'rate': '1gbit'}. Papers publish goodputs
        instead of utilisations. A utilisation is therefore goodput / rate, and needs the rate in
        `at`.
        """
        cell = _cell_key(series, cca, PUBLISHED_AS.get(quantity, quantity), at)
        number = self._by_cell.get(cell)
        if number is None:
            return None
        return (
            number.value / parse_rate(at[RATE_KEY]) if quantity == "utilisation" else number.value
        )

    def mean(self, quantity: Quantity, entry: str, cca: str, at: Mapping[str, str]) -> float | None:
        """Returns the lab's mean of a quantity for a CCA, over the runs of an entry at these values
        of swept keys (`at`, such as {'rate': '1gbit'}); None if the lab has not measured it.
        """
        return self.runs.sample(RunNumber(quantity, entry, cca, at=at)).mean


def _cell_key(series: str, cca: str, quantity: str, at: Mapping[str, str]) -> tuple[str, ...]:
    """Returns a key by which a published number is found: series, CCA, quantity and the values of
    swept keys. The order of the keys in `at` does not matter.
    """
    return series, cca, quantity, *itertools.chain.from_iterable(sorted(at.items()))


def gain(goodput: float | None, other: float | None) -> float | None:
    """Returns the relative gain of a goodput over another: (goodput - other) / other, so 0.5 for
    50% more. Returns None if one of them is not known, or if the other is 0.
    """
    return None if goodput is None or not other else (goodput - other) / other


def map_cells(figure: Maps, row: MapRow, data: FigureData, *, published: bool) -> Iterator[MapCell]:
    """Yields the cells of one heat map, column by column: the published numbers, or the lab's
    means. If the row names a second CCA (`over`), a cell is the gain in goodput over that CCA.
    """

    def number(cca: str, at: Mapping[str, str]) -> float | None:
        """Returns the published or measured number of a CCA in the cell of these settings."""
        if published:
            return data.published_at(row.series, cca, figure.quantity, at)
        return data.mean(figure.quantity, row.entry, cca, at)

    for x, y in itertools.product(figure.x.values, figure.y.values):
        at = {figure.x.key: x, figure.y.key: y}
        value = number(row.cca, at)
        if row.over:
            value = gain(value, number(row.over, at))
        yield MapCell(figure.x.label(x), figure.y.label(y), value)


@dataclass(frozen=True)
class PlotAxis:
    """Holds the x axis of plots: the values of a swept key, or the names of CCAs.

    `places` maps the text in the INI file to the place on the axis, for example '10ms' to 0.01. The
    key is CCA if the axis has names of CCAs. `swept` is None if the places are names.
    """

    key: str
    places: Mapping[str, float | str]
    swept: SweptAxis | None


def plot_axis(figure: Plots, data: FigureData) -> PlotAxis:
    """Returns the x axis of a figure with plots. It has all values that the paper uses, even if the
    lab has measured only some of them, so that the picture resembles the paper's.
    """
    entries = {entry for panel in figure.panels for entry in panel.entry.split(ALTERNATIVES)}
    if figure.x == CCA:
        ccas = dict.fromkeys(cca for panel in figure.panels for cca in _ccas(figure, panel, data))
        return PlotAxis(CCA, {cca: cca for cca in figure.ccas or ccas if cca in ccas}, None)
    if isinstance(figure.x, SweptAxis):
        return PlotAxis(figure.x.key, figure.x.values, figure.x)
    runs = itertools.chain(data.full, (run.run for run in data.runs.runs))
    texts = dict.fromkeys(
        run.condition[figure.x]
        for run in runs
        if run.entry in entries and figure.x in run.condition
    )
    swept = swept_axis(figure.x, texts)
    return PlotAxis(figure.x, swept.values if swept else {text: text for text in texts}, swept)


def _ccas(figure: Plots, panel: PlotPanel, data: FigureData) -> list[str]:
    """Returns the CCAs that a panel can show, because they were measured or published."""
    measured = {group.cca for run in data.of_entries([panel.entry]) for group in run.metrics.groups}
    published = {number.cca for number in data.published if number.series == panel.series}
    known = measured | published
    return sorted(cca for cca in known if not figure.ccas or cca in figure.ccas)


def plotted_points(figure: Plots, axis: PlotAxis, data: FigureData) -> Iterator[PlottedPoint]:
    """Yields the points of all panels of a figure: the lab's means with their intervals, and the
    published numbers. A number that was not measured, or not published, gives no point.
    """
    for panel, quantity in itertools.product(figure.panels, figure.quantities):
        ccas = _ccas(figure, panel, data)
        for text, setting in axis.places.items():
            ccas_here = [cca for cca in ccas if axis.key != CCA or cca == text]
            at = panel.at if axis.key == CCA else {**panel.at, axis.key: text}
            for line, cca, number in _lines(figure, panel, quantity, ccas_here, at, data):
                sample = data.runs.sample(number)
                if sample.mean is not None:
                    yield PlottedPoint(
                        panel.title,
                        quantity,
                        setting,
                        line,
                        cca,
                        published=False,
                        **_spread(sample, sample.mean),
                    )
            for cca in ccas_here:
                known = data.published_at(panel.series, cca, quantity, at)
                if known is not None:
                    yield PlottedPoint(
                        panel.title, quantity, setting, cca, cca, True, known, known, known
                    )


def _lines(
    figure: Plots,
    panel: PlotPanel,
    quantity: Quantity,
    ccas: list[str],
    at: Mapping[str, str],
    data: FigureData,
) -> Iterator[tuple[str, str, RunNumber]]:
    """Yields the lines that show a quantity of the lab's runs in one panel. Each line is a triple:
    its name, its CCA, and the number of the runs at the settings `at`.

    There is a line for each CCA; if the figure names hosts, for each CCA and host. A quantity of
    the whole run, such as fairness, has a single line if several CCAs share a run.
    """
    whole = quantity in OF_WHOLE_RUN
    if whole and figure.x != CCA and _has_several_ccas(data.of_entries([panel.entry])):
        yield ALL_FLOWS, ALL_FLOWS, RunNumber(quantity, panel.entry, at=at)
        return
    for cca in ccas:
        if figure.hosts and not whole:
            for host, label in figure.hosts.items():
                yield label, cca, RunNumber(quantity, panel.entry, cca, host, at)
        else:
            yield (
                ALL_FLOWS if figure.hosts else cca,
                cca,
                RunNumber(quantity, panel.entry, cca, at=at),
            )


def _has_several_ccas(runs: Iterable[FinishedRun]) -> bool:
    """Returns whether several CCAs compete in one of the runs."""
    return any(len({group.cca for group in run.metrics.groups}) > 1 for run in runs)


def _spread(sample: MeasuredSample, mean: float) -> dict[str, float]:
    """Returns the fields mean, low and high of a PlottedPoint. low and high are the ends of the 95%
    interval. If there are fewer than 3 runs, they are the smallest and the largest value.
    """
    low, high = sample.interval or (min(sample.values), max(sample.values))
    return {"mean": mean, "low": low, "high": high}


def points_over_buffer(figure: OverBuffer, data: FigureData) -> Iterator[PlottedPoint]:
    """Yields the points of a figure whose x axis is buffer / BDP. The field `number` of a point is
    GAIN, UTILISATION or RETRANSMISSION_RATE.

    For each pair of rate and RTT that the paper has published, there is a point at each buffer of
    the lab's runs, both for the published numbers and for the lab's.
    """
    for panel in figure.panels:
        for series, entry in panel.sources:
            cells = {
                tuple(number.at.items()): number.at
                for number in data.published
                if number.series == series
            }
            for buffer_bytes, at in itertools.product(_buffers_bytes(data, entry), cells.values()):
                bdp_bytes = parse_rate(at[figure.rate]) * parse_time(at[figure.rtt]) / 8
                over_bdp = buffer_bytes / bdp_bytes
                for published in (True, False):
                    source = series if published else entry
                    for number, cca, mean in _cell_numbers(
                        figure, panel, source, at, data, published=published
                    ):
                        yield PlottedPoint(
                            panel.title, number, over_bdp, cca, cca, published, mean, mean, mean
                        )


def _buffers_bytes(data: FigureData, entry: str) -> set[int]:
    """Returns the sizes, in bytes, that the bottleneck's buffer has in the runs of an entry."""
    paths = (run.run.path for run in data.of_entries([entry]))
    return {path.buffer_bytes for path in paths if isinstance(path, Topology)}


def _cell_numbers(
    figure: OverBuffer,
    panel: BufferPanel,
    source: str,
    at: Mapping[str, str],
    data: FigureData,
    *,
    published: bool,
) -> Iterator[tuple[str, str, float]]:
    """Yields the numbers of one cell (a rate and an RTT, in `at`) for both CCAs of a panel: name of
    the number, CCA, and value. Numbers that are not known are left out.

    GAIN: the gain in goodput of the panel's first CCA over its second CCA
    UTILISATION: goodput / rate
    RETRANSMISSION_RATE: retransmitted segments / (retransmitted + delivered segments)

    `source` is the published series, or the entry of the lab's runs if `published` is False.
    """

    def number(quantity: Quantity, cca: str) -> float | None:
        """Returns the published or measured number of a CCA in this cell."""
        if published:
            return data.published_at(source, cca, quantity, at)
        return data.mean(quantity, source, cca, at)

    goodputs = {cca: number("goodput_bps", cca) for cca in (panel.cca, panel.over)}
    relative_gain = gain(goodputs[panel.cca], goodputs[panel.over])
    if relative_gain is not None:
        yield GAIN, panel.cca, relative_gain
    for cca, goodput_bps in goodputs.items():
        if goodput_bps is None:
            continue
        yield UTILISATION, cca, goodput_bps / parse_rate(at[figure.rate])
        retransmits = number("retransmits", cca)
        if retransmits is not None:
            delivered = goodput_bps * figure.duration_s / 8 / figure.segment_bytes
            yield RETRANSMISSION_RATE, cca, retransmits / (retransmits + delivered)


def is_measured(figure: Maps | Plots | OverBuffer, data: FigureData) -> bool:
    """Returns whether the lab has measured at least one number of the figure; a figure without any
    is not drawn.
    """
    match figure:
        case Maps():
            return any(is_row_measured(figure, row, data) for row in figure.rows)
        case Plots():
            points = plotted_points(figure, plot_axis(figure, data), data)
        case OverBuffer():
            points = points_over_buffer(figure, data)
    return any(not point.published for point in points)


def is_row_measured(figure: Maps, row: MapRow, data: FigureData) -> bool:
    """Returns whether the lab has measured at least one cell of this row's heat map."""
    return any(cell.value is not None for cell in map_cells(figure, row, data, published=False))
