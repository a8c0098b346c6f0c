"""Types of an experiment: its paper, what was published about it, and the statements of the text."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ccmix.papers.figure import Figure

Quantity = Literal[
    "goodput_bps", "variation", "utilisation", "share", "retransmits", "retransmission_rate", "fairness",
    "convergence_s", "queue_mean_bdp", "queue_p95_bdp", "rtt_p95_s",
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
    'A or B' as an entry counts the iterations of B on from those of A.
    `buffer_bdp` selects runs whose buffer has at least so many BDPs, and fewer than so many. A variation is the
    standard deviation of goodputs over their mean, of the pooled runs of an iteration.
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
    """Says between which limits the mean of a number lies; None: no limit."""

    number: Number
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Tried:
    """Names an entry that differs by one setting from the one that is judged, to find why that one differs.

    `setting` says in a few words what differs, such as 'offloads on'. It explains and never replaces a result. Where
    the entry has some CCAs alone, `ccas` names them, and the numbers of the others stay those of their own entry.
    `entries` names the entry for each one that is judged, where these are several. `values` has, by key, what the entry
    calls a value that is judged, as where its buffers count packets.
    """

    entry: str
    setting: str
    ccas: tuple[str, ...] = ()  # none: all
    entries: Mapping[str, str] = field(default_factory=dict)  # `entry` for those that it leaves out
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
        """Returns the number of this entry, or the same number where the entry has none of its CCA."""
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

    @property
    def numbers(self) -> tuple[Of, ...]:
        """Returns each number that the statement is about, all parts of means and ratios."""
        return _of_bounds(self.bounds)

    @property
    def tried_numbers(self) -> tuple[Of, ...]:
        """Returns those of what was tried."""
        return _of_bounds(tried.instead_of(bound) for tried in self.tried for bound in self.bounds)


def _of_bounds(bounds: Iterable[Bound]) -> tuple[Of, ...]:
    return tuple(part for bound in bounds for part in parts(bound.number))


def parts(number: Number) -> Iterator[Of]:
    """Yields the numbers of which means and ratios are made."""
    if isinstance(number, Quotient):
        yield from (*parts(number.over), *parts(number.under))
    elif isinstance(number, MeanOf):
        yield from number.numbers
    else:
        yield number


@dataclass(frozen=True)
class Criterion:
    """Says how near measured numbers must come to published ones; None: not asked for."""

    least_rank: float | None = 0.95  # correlation of ranks
    most_factor: float | None = 2.0  # by which a cell may be off that nothing tried explains
    most_apart: float | None = None  # by which it may differ, in the quantity's own unit, as shares do
    least_within: float | None = None  # fraction of the cells whose utilisations are at most APART apart


@dataclass(frozen=True)
class BesidePublished:
    """Puts the runs of an entry beside a published series, which has a CSV file's rows of this name.

    Utilisations are beside published goodputs, over the rate. A cell that is off by more than the criterion allows is
    explained if the same cell of an entry in `tried` is not. `ceiling` is a series of the same table with the same
    cells: as far as the two differ, the lab may differ. Without a criterion, the two are shown beside each other and
    not judged.
    """

    series: str
    entry: str
    quantity: Quantity
    criterion: Criterion | None = Criterion()
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
    figures: tuple[Figure, ...] = ()  # in the order of the page
    whys: tuple[str, ...] = ()  # pages of docs/explanation that hold reasons for what differs
    unsettled: str = ""

    @property
    def tried(self) -> frozenset[str]:
        """Returns the names of the entries that explain, and judge nothing."""
        tries = [each for statement in self.statements for each in statement.tried]
        tries += [each for comparison in self.comparisons for each in comparison.tried]
        return frozenset(name for each in tries for name in each.names) - self._judging

    @property
    def _judging(self) -> frozenset[str]:
        entries = [number.entry for statement in self.statements for number in statement.numbers]
        entries += [comparison.entry for comparison in self.comparisons if comparison.criterion]
        return frozenset(name for entry in entries for name in entry.split(ALTERNATIVES))

    def only(self, name: str) -> "Experiment":
        """Returns the experiment with one statement alone. Raises KeyError with a name that none has."""
        for statement in self.statements:
            if statement.name == name:
                return replace(self, statements=(statement,), comparisons=())
        raise KeyError(name)
