"""Types of an experiment: its paper, the statements of its text, its published numbers, and its
figures.

Their fields are the keys of the TOML files in configs/papers. In a figure, `name` is the paper's
name for it, `title` says what it shows, and `note` is a sentence on differences from the paper's
figure.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ccmix.charts.frames import SweptAxis

Quantity = Literal[
    "goodput_bps",
    "variation",
    "utilisation",
    "share",
    "retransmits",
    "retransmission_rate",
    "fairness",
    "convergence_s",
    "queue_mean_bdp",
    "queue_p95_bdp",
    "rtt_p95_s",
]
ALTERNATIVES = " or "  # between alternative values of a setting
CCA = "cca"  # the x axis of names of CCAs


@dataclass(frozen=True)
class Paper:
    """Identifies a paper."""

    author: str  # the first author, with which the names of its experiments begin
    citation: str
    link: str


@dataclass(frozen=True)
class Of:
    """Selects one number of each run: of the flows of a CCA or a host, or of the whole run if
    neither is given.

    `at` has values of swept keys, as in the INI file; 'A or B' pools several. Keys that it leaves
    out are pooled, too. With 'A or B' as an entry, the iterations of B are numbered after those of
    A. `buffer_bdp` selects runs whose buffer in BDPs is at least the first number and below the
    second. A variation is the standard deviation of goodputs over their mean, over the pooled runs
    of an iteration.
    """

    quantity: Quantity
    entry: str
    cca: str | None = None
    host: str | None = None
    at: Mapping[str, str] = field(default_factory=dict)
    buffer_bdp: tuple[float, float] | None = None


@dataclass(frozen=True)
class MeanOf:
    """Takes the mean of several numbers of the same iteration, such as the rows of a table."""

    numbers: tuple[Of, ...]


@dataclass(frozen=True)
class Quotient:
    """Divides two numbers of the same iteration, or of the same run."""

    over: Of | MeanOf
    under: Of | MeanOf


Number = Of | MeanOf | Quotient


@dataclass(frozen=True)
class Bound:
    """Gives the limits for the mean of a number; None: no limit."""

    number: Number
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Tried:
    """Names an entry that differs by one setting from the judged entry, to explain a result.

    `setting` is the difference in a few words, such as 'offloads on'. The entry explains and never
    replaces a result. If it has only some CCAs, `ccas` names them, and the numbers of the other
    CCAs stay those of the judged entry. If several entries are judged, `entries` names the entry
    to try for each of them. `values` has, by key, the entry's own values for the judged values, for
    example if its buffers count packets.
    """

    entry: str
    setting: str
    ccas: tuple[str, ...] = ()  # none: all
    entries: Mapping[str, str] = field(default_factory=dict)  # default: `entry`
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def instead_of(self, bound: Bound) -> Bound:
        """Returns the bound with the numbers of this entry."""
        return replace(bound, number=self._number(bound.number))

    def _number(self, number: Number) -> Number:
        if isinstance(number, Quotient):
            return Quotient(self._part(number.over), self._part(number.under))
        return self._part(number)

    def _part(self, number: Of | MeanOf) -> Of | MeanOf:
        if isinstance(number, MeanOf):
            return MeanOf(tuple(map(self.number, number.numbers)))
        return self.number(number)

    def number(self, of: Of) -> Of:
        """Returns the number of this entry, or the same number if the entry does not have its
        CCA.
        """
        if self.ccas and of.cca not in self.ccas:
            return of
        at = {key: self.values.get(key, {}).get(value, value) for key, value in of.at.items()}
        return replace(of, entry=self.entries.get(of.entry, self.entry), at=at)

    @property
    def names(self) -> frozenset[str]:
        """Returns the names of the entries."""
        entries = (self.entry, *self.entries.values())
        return frozenset(name for entry in entries for name in entry.split(ALTERNATIVES))


@dataclass(frozen=True)
class Statement:
    """Describes a statement of a paper in words, and its bounds. It holds if all of them hold.

    `reading` says how a word such as "small" was turned into a number, before any result was seen.
    `tried` entries are judged by the same bounds.
    """

    name: str
    section: str
    sentence: str  # in our words
    bounds: tuple[Bound, ...]
    reading: str = ""
    tried: tuple[Tried, ...] = ()

    @property
    def numbers(self) -> tuple[Of, ...]:
        """Returns all numbers of the statement, including the parts of means and ratios."""
        return _of_bounds(self.bounds)

    @property
    def tried_numbers(self) -> tuple[Of, ...]:
        """Returns the numbers of the entries that were tried."""
        return _of_bounds(tried.instead_of(bound) for tried in self.tried for bound in self.bounds)


def _of_bounds(bounds: Iterable[Bound]) -> tuple[Of, ...]:
    return tuple(part for bound in bounds for part in parts(bound.number))


def parts(number: Number) -> Iterator[Of]:
    """Yields the numbers in means and ratios."""
    if isinstance(number, Quotient):
        yield from (*parts(number.over), *parts(number.under))
    elif isinstance(number, MeanOf):
        yield from number.numbers
    else:
        yield number


@dataclass(frozen=True)
class Criterion:
    """Says how close measured numbers must be to published ones; None: no limit."""

    least_rank: float | None = None  # correlation of ranks
    most_factor: float | None = None  # by which an unexplained cell may be off
    # by which it may differ, in the quantity's own unit, such as shares
    most_apart: float | None = None
    # fraction of the cells whose utilisations are at most APART apart
    least_within: float | None = None


@dataclass(frozen=True)
class PublishedComparison:
    """Compares the runs of an entry with a published series: the rows of the CSV file that have
    this name.

    Utilisations are compared with published goodputs, divided by the rate. A cell that is off by
    more than the criterion allows is explained if the same cell of an entry in `tried` is not.
    `ceiling` is another series of the same table with the same cells: the lab may differ by as much
    as these two series. Without a criterion, the numbers are only shown, and not judged.
    """

    series: str
    entry: str
    quantity: Quantity
    criterion: Criterion | None = None
    ccas: tuple[str, ...] = ()  # none: all of the series
    tried: tuple[Tried, ...] = ()
    ceiling: str = ""

    def is_far(self, measured: float, published: float) -> bool:
        """Returns whether a cell is off by more than the factor or the difference that the
        criterion allows.
        """
        criterion = self.criterion or Criterion()
        most_factor, most_apart = criterion.most_factor, criterion.most_apart
        return (most_factor is not None and factor(measured, published) > most_factor) or (
            most_apart is not None and abs(measured - published) > most_apart
        )


def factor(a: float, b: float) -> float:
    """Returns the factor between two numbers, at least 1; inf if one of them is 0, and 1 if both
    are.
    """
    least, most = sorted((abs(a), abs(b)))
    if not most:
        return 1.0
    return most / least if least else math.inf


@dataclass(frozen=True)
class MapRow:
    """Names a map of one CCA, for a published series and an entry; with `over`, it is a map of the
    gain over that CCA.
    """

    series: str
    entry: str
    cca: str
    over: str = ""


@dataclass(frozen=True)
class Maps:
    """Describes heat maps over two swept numbers: a row for each map, published on the left, the
    lab's on the right.

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
    """Names the runs of a panel, by an entry and values of swept keys as in `Of`, and the published
    series in it.
    """

    title: str
    entry: str
    at: Mapping[str, str] = field(default_factory=dict)
    series: str = ""


@dataclass(frozen=True)
class Plots:
    """Describes plots of quantities, one below the other, against a swept key, or by CCA if `x` is
    CCA.

    A number of the whole run has one line if several CCAs share a run. `ccas` are the drawn CCAs
    (none: all); with `hosts`, there is a line for each host, and `hosts` has their labels. `log` is
    the scale of the quantities, `columns` is the number of panels side by side.
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
    """Names a CCA that is drawn against the buffer, the CCA that it is compared with, and the pairs
    of series and entry.
    """

    title: str
    cca: str
    over: str
    sources: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class OverBuffer:
    """Describes points of gain, utilisation and retransmissions against the buffer over the BDP.

    The swept keys `rate` and `rtt` make the BDP; the buffer is that of the entry's runs. Flows send
    for `duration_s` in segments of `segment_bytes`, by which retransmitted segments become a rate.
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
    """Names a column of a table: its head, its quantity, the CCA, and values of swept keys as in
    `Of`.
    """

    head: str
    quantity: Quantity
    cca: str
    at: Mapping[str, str]
    unit_size: float = 1.0  # by which numbers are divided


@dataclass(frozen=True)
class PaperTable:
    """Describes a table in the layout of the paper; each cell has the published number and
    the lab's.
    """

    name: str
    title: str
    heads: tuple[str, ...]  # of the lines' heads
    lines: tuple[PaperTableLine, ...]
    columns: tuple[PaperTableColumn, ...]
    note: str = ""


Figure = Maps | Plots | OverBuffer | PaperTable


def sources(figure: Figure) -> list[tuple[str, str]]:
    """Returns the pairs of series and entry that a figure compares, each once, in its order."""
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
    """Returns the series that a figure shows; none if nothing was published."""
    return list(dict.fromkeys(series for series, _ in sources(figure) if series))


def quantities(figure: Figure) -> tuple[Quantity, ...]:
    """Returns the quantities of a figure that are compared with published numbers. Maps of the
    gain over another CCA and points over the buffer are not compared so, and have none.
    """
    match figure:
        case Plots():
            return figure.quantities
        case Maps():
            return () if figure.rows[0].over else (figure.quantity,)
        case PaperTable():
            return tuple(dict.fromkeys(column.quantity for column in figure.columns))
        case OverBuffer():
            return ()


@dataclass(frozen=True)
class Experiment:
    """Describes an experiment. Its INI file and its table of published numbers have its name.

    `unsettled` says why runs count that have not settled: the duration is that of the paper, or the
    experiment is about convergence.
    """

    name: str
    paper: Paper
    shows: str  # which tables and figures
    question: str
    statements: tuple[Statement, ...]
    comparisons: tuple[PublishedComparison, ...] = ()
    figures: tuple[Figure, ...] = ()  # in the order of the page
    whys: tuple[str, ...] = ()  # pages of docs/explanation that explain differences
    unsettled: str = ""

    @property
    def tried(self) -> frozenset[str]:
        """Returns the names of the entries that only explain, and are not judged."""
        tries = [each for statement in self.statements for each in statement.tried]
        tries += [each for comparison in self.comparisons for each in comparison.tried]
        return frozenset(name for each in tries for name in each.names) - self._judging

    @property
    def _judging(self) -> frozenset[str]:
        entries = [number.entry for statement in self.statements for number in statement.numbers]
        entries += [comparison.entry for comparison in self.comparisons if comparison.criterion]
        return frozenset(name for entry in entries for name in entry.split(ALTERNATIVES))

    def only(self, name: str) -> "Experiment":
        """Returns the experiment with only one statement. Raises KeyError if no statement has this
        name.
        """
        for statement in self.statements:
            if statement.name == name:
                return replace(self, statements=(statement,), comparisons=())
        raise KeyError(name)
