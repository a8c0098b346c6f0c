"""Types of figures: what the page draws or prints of a figure of a paper, published beside the lab's.

`name` is what the paper calls it, `title` what it shows, `note` a sentence on what differs from the paper's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ccmix.charts.sweep import SweptAxis

if TYPE_CHECKING:
    from ccmix.papers.experiment import Quantity

CCA = "cca"  # the x axis of names of CCAs


@dataclass(frozen=True)
class MapRow:
    """Names a map of one CCA, of a published series and of an entry; with `over`, of its gain over that CCA."""

    series: str
    entry: str
    cca: str
    over: str = ""


@dataclass(frozen=True)
class Maps:
    """Describes heat maps over two swept numbers: a row for each map, published on the left, the lab's on the right.

    Maps of gains are of goodputs.
    """

    name: str
    title: str
    quantity: Quantity
    x: SweptAxis
    y: SweptAxis
    rows: tuple[MapRow, ...]
    note: str = ""


@dataclass(frozen=True)
class PlotPanel:
    """Names the runs of a panel, by an entry and values of swept keys as in `Of`, and the published series beside."""

    title: str
    entry: str
    at: Mapping[str, str] = field(default_factory=dict)
    series: str = ""


@dataclass(frozen=True)
class Plots:
    """Describes plots of quantities, one below the other, against a swept key, or by CCA where `x` is CCA.

    A number that is the whole run's has one line where several CCAs share a run. `ccas` are those that are drawn
    (none: all); with `hosts`, two lines are of hosts, by what they are called. `log` is the scale of the quantities,
    `columns` how many panels are side by side.
    """

    name: str
    title: str
    quantities: tuple[Quantity, ...]
    x: SweptAxis | str
    panels: tuple[PlotPanel, ...]
    ccas: tuple[str, ...] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)
    log: bool = False
    columns: int = 3
    ours: bool = False  # not in the paper
    note: str = ""


@dataclass(frozen=True)
class BufferPanel:
    """Names what is drawn against the buffer: a CCA and the one it is compared with, in pairs of series and entry."""

    title: str
    cca: str
    over: str
    sources: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class OverBuffer:
    """Describes points of gain, utilisation and retransmissions against the buffer over the BDP.

    The swept keys `rate` and `rtt` make the BDP; the buffer is that of the entry's runs. Flows send for `duration_s`
    in segments of `segment_bytes`, by which retransmitted segments become a rate.
    """

    name: str
    title: str
    rate: str
    rtt: str
    panels: tuple[BufferPanel, ...]
    duration_s: float
    segment_bytes: int
    note: str = ""


@dataclass(frozen=True)
class PaperTableLine:
    """Names a line of a table: its heads, and the runs and published numbers of its cells."""

    heads: tuple[str, ...]
    entry: str
    series: str
    at: Mapping[str, str]


@dataclass(frozen=True)
class PaperTableColumn:
    """Names a column of a table: its head, what its numbers are, the CCA, and values of swept keys as in `Of`."""

    head: str
    quantity: Quantity
    cca: str
    at: Mapping[str, str]
    unit_size: float = 1.0  # by which numbers are divided


@dataclass(frozen=True)
class PaperTable:
    """Describes a table in the layout of the paper; each cell has the published number and the lab's."""

    name: str
    title: str
    heads: tuple[str, ...]  # of the lines' heads
    lines: tuple[PaperTableLine, ...]
    columns: tuple[PaperTableColumn, ...]
    note: str = ""


Figure = Maps | Plots | OverBuffer | PaperTable


def sources(figure: Figure) -> list[tuple[str, str]]:
    """Returns the pairs of series and entry that a figure puts beside each other, each once, in its order."""
    match figure:
        case Maps():
            pairs = [(row.series, row.entry) for row in figure.rows]
        case Plots():
            pairs = [(panel.series, panel.entry) for panel in figure.panels]
        case OverBuffer():
            pairs = [pair for panel in figure.panels for pair in panel.sources]
        case PaperTable():
            pairs = [(line.series, line.entry) for line in figure.lines]
    return list(dict.fromkeys(pairs))


def published_series(figure: Figure) -> list[str]:
    """Returns the series that a figure shows; none where nothing was published."""
    return list(dict.fromkeys(series for series, _ in sources(figure) if series))


def quantities(figure: Figure) -> tuple[Quantity, ...]:
    """Returns the quantities whose scores belong to a figure; gains and points over the buffer have none."""
    match figure:
        case Plots():
            return figure.quantities
        case Maps():
            return () if figure.rows[0].over else (figure.quantity,)
        case PaperTable():
            return tuple(dict.fromkeys(column.quantity for column in figure.columns))
        case OverBuffer():
            return ()
