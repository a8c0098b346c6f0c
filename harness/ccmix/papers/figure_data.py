"""Finds the numbers of figures: published numbers, and those of an experiment's runs in the same
places.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ccmix.charts.frames import SweptAxis, numbers
from ccmix.charts.published import ALL_FLOWS
from ccmix.model import Run, Topology
from ccmix.model.results import FinishedRun
from ccmix.papers.experiment import (
    ALTERNATIVES,
    CCA,
    BufferPanel,
    MapRow,
    Maps,
    Of,
    OverBuffer,
    PlotPanel,
    Plots,
    Quantity,
)
from ccmix.papers.judging import MeasuredRuns, MeasuredSample
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
    """Holds the labels of a place in a map, and its number; None if there is no number."""

    x: str
    y: str
    value: float | None


@dataclass(frozen=True)
class PlottedPoint:
    """Holds a number with its 95% interval and its place in the drawing; `number` is its name,
    `setting` the place on the x axis.
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
class Material:
    """Holds the data of figures: published numbers, valid runs, and the plan at the size of the
    paper.
    """

    published: tuple[PublishedNumber, ...]
    runs: MeasuredRuns
    full: tuple[Run, ...]

    def of_entries(self, entries: Iterable[str]) -> tuple[FinishedRun, ...]:
        """Returns the runs of these entries; each may be 'A or B', as in Of."""
        wanted = {each for entry in entries for each in entry.split(ALTERNATIVES)}
        return tuple(run for run in self.runs.runs if run.run.entry in wanted)

    @cached_property
    def _by_cell(self) -> dict[tuple[str, ...], PublishedNumber]:
        return {
            _cell(each.series, each.cca, each.quantity, each.at): each for each in self.published
        }

    def published_at(
        self, series: str, cca: str, quantity: Quantity, at: Mapping[str, str]
    ) -> float | None:
        """Returns the published number of a cell in this quantity; None if nothing was published.

        A utilisation needs the swept rate.
        """
        number = self._by_cell.get(_cell(series, cca, PUBLISHED_AS.get(quantity, quantity), at))
        if number is None:
            return None
        return (
            number.value / parse_rate(at[RATE_KEY]) if quantity == "utilisation" else number.value
        )

    def mean(self, quantity: Quantity, entry: str, cca: str, at: Mapping[str, str]) -> float | None:
        """Returns the lab's mean of a cell; None if it was not measured."""
        return self.runs.sample(Of(quantity, entry, cca, at=at)).mean


def _cell(series: str, cca: str, quantity: str, at: Mapping[str, str]) -> tuple[str, ...]:
    return series, cca, quantity, *itertools.chain.from_iterable(sorted(at.items()))


def gain(own: float | None, other: float | None) -> float | None:
    """Returns the relative gain of a goodput over another; None if one of them is not known, or
    the other is 0.
    """
    return None if own is None or not other else (own - other) / other


def map_cells(
    figure: Maps, row: MapRow, material: Material, *, published: bool
) -> Iterator[MapCell]:
    """Yields all cells of a map, column by column."""

    def number(cca: str, at: Mapping[str, str]) -> float | None:
        if published:
            return material.published_at(row.series, cca, figure.quantity, at)
        return material.mean(figure.quantity, row.entry, cca, at)

    for x, y in itertools.product(figure.x.values, figure.y.values):
        at = {figure.x.key: x, figure.y.key: y}
        own = number(row.cca, at)
        value = gain(own, number(row.over, at)) if row.over else own
        yield MapCell(figure.x.label(x), figure.y.label(y), value)


@dataclass(frozen=True)
class PlotAxis:
    """Holds the x axis of plots: numbers of a swept key, or names, by their text in runs.

    The key is CCA if the names are those of CCAs.
    """

    key: str
    places: Mapping[str, float | str]  # by the text in the INI file
    swept: SweptAxis | None


def plot_axis(figure: Plots, material: Material) -> PlotAxis:
    """Returns the x axis with all values of the paper's full size."""
    entries = {entry for panel in figure.panels for entry in panel.entry.split(ALTERNATIVES)}
    if figure.x == CCA:
        ccas = dict.fromkeys(
            cca for panel in figure.panels for cca in _ccas(figure, panel, material)
        )
        return PlotAxis(CCA, {cca: cca for cca in figure.ccas or ccas if cca in ccas}, None)
    if isinstance(figure.x, SweptAxis):
        return PlotAxis(figure.x.key, figure.x.values, figure.x)
    runs = itertools.chain(material.full, (run.run for run in material.runs.runs))
    texts = dict.fromkeys(
        run.condition[figure.x]
        for run in runs
        if run.entry in entries and figure.x in run.condition
    )
    swept = numbers(figure.x, texts)
    return PlotAxis(figure.x, swept.values if swept else {text: text for text in texts}, swept)


def _ccas(figure: Plots, panel: PlotPanel, material: Material) -> list[str]:
    """Returns the CCAs that a panel may have, measured or published."""
    measured = {
        group.cca for run in material.of_entries([panel.entry]) for group in run.metrics.groups
    }
    there = measured | {
        number.cca for number in material.published if number.series == panel.series
    }
    return sorted(cca for cca in there if not figure.ccas or cca in figure.ccas)


def plotted_points(figure: Plots, axis: PlotAxis, material: Material) -> Iterator[PlottedPoint]:
    """Yields the points of all panels, those of the lab and the published ones."""
    for panel, quantity in itertools.product(figure.panels, figure.quantities):
        ccas = _ccas(figure, panel, material)
        for text, setting in axis.places.items():
            here = [cca for cca in ccas if axis.key != CCA or cca == text]
            at = panel.at if axis.key == CCA else {**panel.at, axis.key: text}
            for line, cca, of in _lines(figure, panel, quantity, here, at, material):
                sample = material.runs.sample(of)
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
            for cca in here:
                known = material.published_at(panel.series, cca, quantity, at)
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
    material: Material,
) -> Iterator[tuple[str, str, Of]]:
    """Yields the lines of a quantity: the name of each, its CCA, and the measured number."""
    whole = quantity in OF_WHOLE_RUN
    if whole and figure.x != CCA and _has_several_ccas(material.of_entries([panel.entry])):
        yield ALL_FLOWS, ALL_FLOWS, Of(quantity, panel.entry, at=at)
        return
    for cca in ccas:
        if figure.hosts and not whole:
            for host, called in figure.hosts.items():
                yield called, cca, Of(quantity, panel.entry, cca, host, at)
        else:
            yield ALL_FLOWS if figure.hosts else cca, cca, Of(quantity, panel.entry, cca, at=at)


def _has_several_ccas(runs: Iterable[FinishedRun]) -> bool:
    """Returns whether CCAs share a run."""
    return any(len({group.cca for group in run.metrics.groups}) > 1 for run in runs)


def _spread(sample: MeasuredSample, mean: float) -> dict[str, float]:
    """Returns the mean with its 95% interval, or with the range if there are fewer than 3 runs."""
    low, high = sample.interval or (min(sample.values), max(sample.values))
    return {"mean": mean, "low": low, "high": high}


def points_over_buffer(figure: OverBuffer, material: Material) -> Iterator[PlottedPoint]:
    """Yields means over the buffer in BDP; their names are GAIN, UTILISATION and
    RETRANSMISSION_RATE.
    """
    for panel in figure.panels:
        for series, entry in panel.sources:
            cells = {
                tuple(number.at.items()): number.at
                for number in material.published
                if number.series == series
            }
            for buffer_bytes, at in itertools.product(_buffers(material, entry), cells.values()):
                over_bdp = buffer_bytes / (
                    parse_rate(at[figure.rate]) * parse_time(at[figure.rtt]) / 8
                )
                for published in (True, False):
                    source = series if published else entry
                    for number, cca, mean in _of_cell(
                        figure, panel, source, at, material, published=published
                    ):
                        yield PlottedPoint(
                            panel.title, number, over_bdp, cca, cca, published, mean, mean, mean
                        )


def _buffers(material: Material, entry: str) -> set[int]:
    paths = (run.run.path for run in material.of_entries([entry]))
    return {path.buffer_bytes for path in paths if isinstance(path, Topology)}


def _of_cell(
    figure: OverBuffer,
    panel: BufferPanel,
    source: str,
    at: Mapping[str, str],
    material: Material,
    *,
    published: bool,
) -> Iterator[tuple[str, str, float]]:
    """Yields the known numbers of a cell, with their CCA."""

    def number(quantity: Quantity, cca: str) -> float | None:
        if published:
            return material.published_at(source, cca, quantity, at)
        return material.mean(quantity, source, cca, at)

    goodputs = {cca: number("goodput_bps", cca) for cca in (panel.cca, panel.over)}
    more = gain(goodputs[panel.cca], goodputs[panel.over])
    if more is not None:
        yield GAIN, panel.cca, more
    for cca, goodput_bps in goodputs.items():
        if goodput_bps is None:
            continue
        yield UTILISATION, cca, goodput_bps / parse_rate(at[figure.rate])
        retransmits = number("retransmits", cca)
        if retransmits is not None:
            delivered = goodput_bps * figure.duration_s / 8 / figure.segment_bytes
            yield RETRANSMISSION_RATE, cca, retransmits / (retransmits + delivered)


def is_measured(figure: Maps | Plots | OverBuffer, material: Material) -> bool:
    """Returns whether the lab has a number that the figure shows."""
    match figure:
        case Maps():
            return any(is_row_measured(figure, row, material) for row in figure.rows)
        case Plots():
            points = plotted_points(figure, plot_axis(figure, material), material)
        case OverBuffer():
            points = points_over_buffer(figure, material)
    return any(not point.published for point in points)


def is_row_measured(figure: Maps, row: MapRow, material: Material) -> bool:
    """Returns whether the lab has a cell of a map."""
    return any(cell.value is not None for cell in map_cells(figure, row, material, published=False))
