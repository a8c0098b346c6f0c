"""Data types for an experiment that repeats a paper: its statements, published numbers and figures.

Their fields are the keys of the TOML files in configs/papers. In a figure, `name` is the paper's
name for it, `title` says what it shows, and `note` is a sentence on differences from the paper's
figure.
"""

import math
from collections.abc import Mapping
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
    """Identifies a paper whose experiments are repeated in the lab."""

    author: str  # the first author, with which the names of its experiments begin
    citation: str
    link: str


@dataclass(frozen=True)
class RunNumber:
    """Says which runs to take, and which number of each: the `quantity` of the flows of a CCA or a
    host, or of the whole run if neither is given.

    `entry` is the section of the INI file that made the runs. With 'A or B' as an entry, the
    iterations of B are numbered after those of A. `at` has values of swept keys, as in the INI
    file, such as {'rtt': '10ms'}; 'A or B' pools several. Keys that it leaves out are pooled, too.
    `buffer_bdp` selects runs whose buffer in BDPs is at least the first number and below the
    second. The quantity 'variation' is the standard deviation of goodputs over their mean, over the
    pooled runs of an iteration.
    """

    quantity: Quantity
    entry: str
    cca: str | None = None
    host: str | None = None
    at: Mapping[str, str] = field(default_factory=dict)
    buffer_bdp: tuple[float, float] | None = None


@dataclass(frozen=True)
class Quotient:
    """Asks for `over` divided by `under`, both of the same iteration or the same run. Each side is
    the mean of its numbers, such as the rows of a table; usually it has only one number.
    """

    over: tuple[RunNumber, ...]
    under: tuple[RunNumber, ...]


Number = RunNumber | Quotient


@dataclass(frozen=True)
class Bound:
    """Limits the mean of a number over the runs, as a paper's statement claims; None: no limit."""

    number: Number
    least: float | None = None
    most: float | None = None

    @property
    def numbers(self) -> tuple[RunNumber, ...]:
        """Returns the numbers of runs that are limited: one, or those of both sides of a ratio."""
        number = self.number
        return (number,) if isinstance(number, RunNumber) else (*number.over, *number.under)


@dataclass(frozen=True)
class Tried:
    """Names an entry (a section of the INI file) whose runs differ by one setting from those of the
    judged entry, to explain a result that differs from the paper's.

    `setting` is the difference in a few words, such as 'offloads on'. The entry explains and never
    replaces a result. If it has only some CCAs, `ccas` names them, and the numbers of the other
    CCAs stay those of the judged entry. If several entries are judged, `entries` maps each of them
    to the entry to try. `values` translates values of swept keys, if the tried entry writes them
    differently: {key: {judged value: tried value}}, for example if its buffers count packets.
    """

    entry: str
    setting: str
    ccas: tuple[str, ...] = ()  # none: all
    entries: Mapping[str, str] = field(default_factory=dict)  # default: `entry`
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def instead_of(self, bound: Bound) -> Bound:
        """Returns the bound with the same limits, but for the number that the runs of the tried
        entry give.
        """
        number = bound.number
        if isinstance(number, RunNumber):
            return replace(bound, number=self.number(number))
        over, under = (tuple(map(self.number, side)) for side in (number.over, number.under))
        return replace(bound, number=Quotient(over, under))

    def number(self, judged: RunNumber) -> RunNumber:
        """Returns the same number (quantity, CCA and settings), but taken from the runs of the
        tried entry. If the tried entry does not have the number's CCA, the number is returned
        unchanged.
        """
        if self.ccas and judged.cca not in self.ccas:
            return judged
        at = {key: self.values.get(key, {}).get(value, value) for key, value in judged.at.items()}
        return replace(judged, entry=self.entries.get(judged.entry, self.entry), at=at)

    @property
    def names(self) -> frozenset[str]:
        """Returns the names of all entries that are tried; 'A or B' counts as two names."""
        entries = (self.entry, *self.entries.values())
        return frozenset(name for entry in entries for name in entry.split(ALTERNATIVES))


@dataclass(frozen=True)
class Statement:
    """Holds a statement that a paper makes in its text, and the bounds by which it is judged: it
    holds if all of them hold.

    `reading` says how a word such as "small" was turned into a number, before any result was seen.
    Entries in `tried` have another setting and are judged by the same bounds, to explain a failure.
    """

    name: str
    section: str
    sentence: str  # in our words
    bounds: tuple[Bound, ...]
    reading: str = ""
    tried: tuple[Tried, ...] = ()

    @property
    def numbers(self) -> tuple[RunNumber, ...]:
        """Returns all numbers of runs by which the statement is judged; those of both sides of a
        ratio.
        """
        return tuple(number for bound in self.bounds for number in bound.numbers)

    @property
    def tried_numbers(self) -> tuple[RunNumber, ...]:
        """Returns the numbers that would judge the statement by the entries in `tried`, which have
        another setting; of a ratio, those of both sides.
        """
        bounds = (tried.instead_of(bound) for tried in self.tried for bound in self.bounds)
        return tuple(number for bound in bounds for number in bound.numbers)


@dataclass(frozen=True)
class Criterion:
    """Says how close the lab's numbers must come to published ones, over all cells of a comparison;
    None: no limit. It was written down before any result was seen.
    """

    least_rank: float | None = None  # correlation of ranks
    most_factor: float | None = None  # by which an unexplained cell may be off
    # by which it may differ, in the quantity's own unit, such as shares
    most_apart: float | None = None
    # fraction of the cells whose utilisations are at most APART apart
    least_within: float | None = None


@dataclass(frozen=True)
class PublishedComparison:
    """Says which runs to compare with which published numbers: those of an entry with a series,
    which is the rows of the experiment's CSV file that have this name.

    Each row is a cell: one number for a CCA at given values of swept keys. Utilisations are
    compared with published goodputs, divided by the rate. A cell that is off by more than the
    criterion allows is explained if the same cell of an entry in `tried` is not.
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
        """Returns whether a measured number is too far from the published one: by more than the
        factor (`most_factor`) or by more than the difference (`most_apart`) that the criterion
        allows. Always False if the comparison has no criterion.
        """
        criterion = self.criterion or Criterion()
        most_factor, most_apart = criterion.most_factor, criterion.most_apart
        return (most_factor is not None and factor(measured, published) > most_factor) or (
            most_apart is not None and abs(measured - published) > most_apart
        )


def factor(a: float, b: float) -> float:
    """Returns the larger of two numbers divided by the smaller, which is at least 1. It is infinite
    if only one of them is 0, and 1 if both are 0.
    """
    least, most = sorted((abs(a), abs(b)))
    if not most:
        return 1.0
    return most / least if least else math.inf


@dataclass(frozen=True)
class MapRow:
    """Names the two heat maps of a CCA in one row: the numbers of a published series, and those of
    an entry's runs. With `over`, they show the gain in goodput over that CCA.
    """

    series: str
    entry: str
    cca: str
    over: str = ""


@dataclass(frozen=True)
class Maps:
    """Describes a figure of heat maps over two swept keys, `x` and `y`. In each row, the published
    map is on the left, and the lab's on the right.

    If rows show gains over another CCA, the quantity is the goodput.
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
    """Says what one panel of `Plots` shows: the runs of an entry at values of swept keys (as in
    `RunNumber`), and the numbers of a published series; '' if nothing was published.
    """

    title: str
    entry: str
    at: Mapping[str, str] = field(default_factory=dict)
    series: str = ""


@dataclass(frozen=True)
class Plots:
    """Describes a figure of plots, one below the other for each quantity, against a swept key, or
    by CCA if `x` is CCA.

    A number of the whole run has one line if several CCAs share a run. `ccas` are the drawn CCAs
    (none: all). If `hosts` is given, each host has its own line; it maps hosts to labels. `log`
    makes the scale of the quantities logarithmic. `columns` is the number of panels side by side.
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
    """Describes a panel of `OverBuffer`: the CCA `cca` is compared with the CCA `over`. `sources`
    has pairs of a published series and the entry with the lab's runs.
    """

    title: str
    cca: str
    over: str
    sources: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class OverBuffer:
    """Describes a figure of points: the gain in goodput over another CCA, the utilisation and the
    retransmission rate, against the buffer divided by the BDP.

    `rate` and `rtt` are the names of the swept keys from which the BDP is calculated; the buffer is
    that of the entry's runs. Flows send for `duration_s` in segments of `segment_bytes`, by which
    counts of retransmitted segments are turned into rates.
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
    """Describes a line of a paper's table: the words at its beginning, and the entry, the published
    series and the values of swept keys (`at`) from which its cells are filled.
    """

    heads: tuple[str, ...]
    entry: str
    series: str
    at: Mapping[str, str]


@dataclass(frozen=True)
class PaperTableColumn:
    """Describes a column of a paper's table: its head, its quantity, the CCA, and the values of
    swept keys (`at`) that its cells have in addition to those of their line.
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
    """Returns the sources of a figure's numbers, as pairs of a published series and the entry whose
    runs are compared with it. Each pair is returned once, in the figure's order. The series is ''
    for runs without published numbers.
    """
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
    """Returns the names of the published series that a figure shows; empty if nothing was
    published.
    """
    return list(dict.fromkeys(series for series, _ in sources(figure) if series))


def quantities(figure: Figure) -> tuple[Quantity, ...]:
    """Returns the quantities of a figure, such as 'utilisation', that are also compared with the
    published numbers and scored. Maps of the gain over another CCA and points over the buffer are
    only drawn, so they have none.
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
    """Describes an experiment that repeats a part of a paper in the lab. Its INI file and its table
    of published numbers have its name.

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
        """Returns the names of the entries whose runs only explain a result, because they try
        another setting. An entry by which something is also judged is not included.
        """
        tries = [each for statement in self.statements for each in statement.tried]
        tries += [each for comparison in self.comparisons for each in comparison.tried]
        return frozenset(name for each in tries for name in each.names) - self._judging

    @property
    def _judging(self) -> frozenset[str]:
        """Returns the names of the entries by which statements and comparisons are judged."""
        entries = [number.entry for statement in self.statements for number in statement.numbers]
        entries += [comparison.entry for comparison in self.comparisons if comparison.criterion]
        return frozenset(name for entry in entries for name in entry.split(ALTERNATIVES))

    def only(self, name: str) -> "Experiment":
        """Returns a copy of the experiment that has only the statement with this name, and no
        comparisons with published numbers. Raises KeyError if there is no such statement.
        """
        for statement in self.statements:
            if statement.name == name:
                return replace(self, statements=(statement,), comparisons=())
        raise KeyError(name)
