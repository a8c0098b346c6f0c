"""Types of an experiment: its paper, what was published about it, and the statements of the text."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ccmix.charts.chart import Kind
from ccmix.charts.sweep import SweptAxis

Quantity = Literal[
    "goodput_bps", "utilisation", "share", "retransmits", "retransmission_rate", "fairness", "convergence_s",
    "queue_mean_bdp", "rtt_p95_s",
]  # fmt: skip
ALTERNATIVES = " or "  # between the values of a setting of which each will do


@dataclass(frozen=True)
class Paper:
    """Identifies a paper."""

    author: str  # the first one, as the names of its experiments begin
    citation: str
    link: str


@dataclass(frozen=True)
class Of:
    """Selects one number of each run: of the flows of a CCA or a host, or of the whole run where neither is given.

    `at` has values of swept keys, as in the INI file; 'A or B' pools several. Keys that it leaves out are pooled, too.
    """

    quantity: Quantity
    entry: str
    cca: str | None = None
    host: str | None = None
    at: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Quotient:
    """Divides two numbers of the same iteration, or of the same run."""

    over: Of
    under: Of


@dataclass(frozen=True)
class Bound:
    """Says between which limits the mean of a number lies; None: no limit."""

    number: Of | Quotient
    least: float | None = None
    most: float | None = None


def in_entry(bound: Bound, entry: str) -> Bound:
    """Returns the bound of the same numbers in another entry."""
    number = bound.number
    if isinstance(number, Of):
        return replace(bound, number=replace(number, entry=entry))
    return replace(bound, number=Quotient(replace(number.over, entry=entry), replace(number.under, entry=entry)))


@dataclass(frozen=True)
class Tried:
    """Names an entry that differs by one setting from the one that is judged, to find why that one differs.

    `setting` says in a few words what differs, such as 'offloads on'. It explains and never replaces a result.
    """

    entry: str
    setting: str


@dataclass(frozen=True)
class Statement:
    """Describes what a paper says in words, and the bounds that all hold if it holds here, too.

    `reading` says how a word such as "small" was turned into a number, before any result was seen. `tried` are judged
    by the same bounds, in their own entry.
    """

    name: str
    section: str
    sentence: str  # in our words
    bounds: tuple[Bound, ...]
    reading: str = ""
    tried: tuple[Tried, ...] = ()


@dataclass(frozen=True)
class Criterion:
    """Says how near measured numbers must come to published ones; None: not asked for."""

    least_rank: float | None = 0.95  # correlation of ranks
    most_factor: float | None = 2.0  # by which a cell may be off that nothing tried explains
    least_within: float | None = None  # fraction of the cells whose utilisations are at most APART apart


@dataclass(frozen=True)
class BesidePublished:
    """Puts the runs of an entry beside a published series, which has a CSV file's rows of this name.

    Utilisations are beside published goodputs, over the rate. A cell that is off by more than the criterion's factor is
    explained if the same cell of an entry in `tried` is not. `ceiling` is a series of the same table with the same
    cells: as far as the two differ, the lab may differ.
    """

    series: str
    entry: str
    quantity: Quantity
    criterion: Criterion = Criterion()
    ccas: tuple[str, ...] = ()  # none: all of the series
    tried: tuple[Tried, ...] = ()
    ceiling: str = ""


@dataclass(frozen=True)
class Experiment:
    """Describes an experiment. Its INI file and its table of published numbers have its name.

    `unsettled` says why runs count that have not settled, where the duration is the paper's own, or convergence is what
    it asks for.
    """

    name: str
    paper: Paper
    shows: str  # which tables and figures
    question: str
    statements: tuple[Statement, ...]
    comparisons: tuple[BesidePublished, ...] = ()
    charts: tuple[Kind, ...] = ("setting",)
    axes: tuple[SweptAxis, ...] = ()  # those of the paper's figures; none: all swept numbers
    unsettled: str = ""

    def only(self, name: str) -> "Experiment":
        """Returns the experiment with one statement alone. Raises KeyError with a name that none has."""
        for statement in self.statements:
            if statement.name == name:
                return replace(self, statements=(statement,), comparisons=())
        raise KeyError(name)
