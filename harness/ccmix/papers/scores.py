"""Scores how close the lab's numbers come to a paper's published numbers, cell by cell.

The criteria were defined before any result was seen.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from ccmix.papers.experiment import PublishedComparison, RunNumber, Tried, factor
from ccmix.papers.judging import Judgement
from ccmix.papers.measuring import MeasuredRuns, MeasuredSample
from ccmix.papers.reading import PublishedNumber, of_series
from ccmix.units import parse_rate

APART = 0.05  # by which utilisations that agree may differ
TRIVIAL = 0.95  # the utilisation that is predicted without a measurement
RATE_KEY = "rate"


@dataclass(frozen=True)
class TriedCell:
    """Holds what runs with another setting (`setting` in words) measured in a cell that is too far
    from the published number. `explains` is True if they are close enough to it.
    """

    setting: str
    sample: MeasuredSample
    explains: bool


@dataclass(frozen=True)
class CellPair:
    """Holds a cell: a published number with the runs of the lab that have the same CCA and
    settings, both in the quantity that is compared.

    `rate_bps` is None if the rate is not known. If a number was published as a mean over several
    values of a key, and not all of them were measured, `lacks` has the key with the measured
    values. `tried` has the results of other settings, for a cell that is off.
    """

    published: PublishedNumber
    value: float  # the published number, in the quantity that is compared
    measured: float  # mean
    sample: MeasuredSample
    rate_bps: float | None
    lacks: Mapping[str, tuple[str, ...]]
    tried: tuple[TriedCell, ...] = ()

    @property
    def explanations(self) -> tuple[TriedCell, ...]:
        """Returns the results of runs with another setting that are close enough to the published
        number to explain why the judged runs differ from it.
        """
        return tuple(each for each in self.tried if each.explains)

    @property
    def factor(self) -> float:
        """Returns the larger of the measured and the published number, divided by the smaller;
        infinite if only one of them is 0.
        """
        return factor(self.measured, self.value)


@dataclass(frozen=True)
class Likeness:
    """Describes how similar the numbers of the lab, or of another source, are to published ones.

    `log_ratio` is the median of |ln(other / published)| over the cells in which both are above 0,
    `rank` is Spearman's correlation (None if all numbers of one side are equal), `largest` is the
    factor of the cell that is off most, and `within` is the fraction of cells whose utilisations
    are at most APART apart (None for other quantities).
    """

    cells: int
    log_ratio: float | None
    rank: float | None
    largest: float
    within: float | None


@dataclass(frozen=True)
class Score:
    """Holds how similar the runs of an entry are to a published series.

    To put this into perspective, it has the likeness of the trivial prediction (95% utilisation;
    only for goodputs and utilisations) and the ceiling: the likeness of another published series,
    for example with another kernel, over the measured cells and over all cells.
    `tried` has the scores of other settings that were tried in all of these cells; they explain,
    and do not change the outcome.
    """

    comparison: PublishedComparison
    pairs: tuple[CellPair, ...]
    partial: tuple[CellPair, ...]  # cells measured only in part, which don't count
    missing: int  # published numbers whose cells were not measured
    likeness: Likeness | None  # None: no cell was measured completely
    trivial: Likeness | None
    ceiling: Likeness | None
    ceiling_of_all: Likeness | None
    tried: tuple["TriedScore", ...] = ()

    @property
    def judged(self) -> bool:
        """Returns whether a criterion says how close the lab must come; without one, the numbers
        are only shown.
        """
        return self.comparison.criterion is not None

    @property
    def far(self) -> tuple[CellPair, ...]:
        """Returns the cells whose measured number differs from the published one by more than the
        criterion allows, the worst first.
        """
        off = [pair for pair in self.pairs if self.comparison.is_far(pair.measured, pair.value)]
        return tuple(sorted(off, key=lambda pair: -pair.factor))

    @property
    def unexplained(self) -> tuple[CellPair, ...]:
        """Returns the cells whose number differs from the published one by more than the criterion
        allows, even with each of the other settings that were tried.
        """
        return tuple(pair for pair in self.far if not pair.explanations)

    @property
    def outcome(self) -> Judgement:
        """Judges the comparison: FAILS if a part of its criterion is not met, and HOLDS if all
        parts are met. UNDECIDED if there is no criterion, or if there are too few cells to judge a
        part.
        """
        criterion, likeness = self.comparison.criterion, self.likeness
        if likeness is None or criterion is None:
            return Judgement.UNDECIDED
        all_parts = (
            (likeness.rank, criterion.least_rank),
            (likeness.within, criterion.least_within),
        )
        parts = [(value, least) for value, least in all_parts if least is not None]
        if self.unexplained or any(value is not None and value < least for value, least in parts):
            return Judgement.FAILS
        return Judgement.UNDECIDED if any(value is None for value, _ in parts) else Judgement.HOLDS

    @property
    def explanations(self) -> tuple["TriedScore", ...]:
        """Returns the scores of runs with other settings, which may explain why the criterion is
        not met; empty if it is met or undecided.
        """
        return self.tried if self.outcome is Judgement.FAILS else ()

    @property
    def met_if_tried(self) -> bool:
        """Returns whether the criterion is not met by the judged runs, but by runs with another
        setting that was tried.
        """
        return any(each.score.outcome is Judgement.HOLDS for each in self.explanations)


@dataclass(frozen=True)
class TriedScore:
    """Holds the score in the same cells of runs with another setting (`setting` in words)."""

    setting: str
    score: Score


def scores(
    comparisons: Sequence[PublishedComparison],
    numbers: list[PublishedNumber],
    runs: MeasuredRuns,
    rate_bps: float | None,
) -> list[Score]:
    """Returns a score for each comparison of which at least one cell was measured.

    `numbers` are all published numbers of the experiment. `rate_bps` is the rate of the path if it
    is not swept; it turns goodputs into utilisations.
    """
    all_scores = (
        _Scorer(comparison, numbers, runs, rate_bps).score() for comparison in comparisons
    )
    return [score for score in all_scores if score]


@dataclass(frozen=True)
class _Scorer:
    """Calculates the score of one comparison from all published numbers and runs of its experiment.

    `path_rate_bps` is the rate of the path; None if it is swept.
    """

    comparison: PublishedComparison
    numbers: list[PublishedNumber]
    runs: MeasuredRuns
    path_rate_bps: float | None

    def score(self) -> Score | None:
        """Returns the score of the comparison; None if none of its cells was measured."""
        published = of_series(self.numbers, self.comparison)
        measured = [pair for number in published if (pair := self.pair(number))]
        if not measured:
            return None
        pairs = tuple(pair for pair in measured if not pair.lacks)
        return Score(
            self.comparison,
            pairs,
            tuple(pair for pair in measured if pair.lacks),
            len(published) - len(measured),
            self.likeness_of(pairs, [pair.measured for pair in pairs]),
            self.trivial(pairs),
            self.ceiling([pair.published for pair in pairs]),
            self.ceiling(published),
            tuple(self.tried_scores(pairs)),
        )

    def tried_scores(self, cells: Sequence[CellPair]) -> Iterator[TriedScore]:
        """Yields a score for each other setting that was tried, to explain why the lab's numbers
        differ from the paper's. A setting is left out if its runs don't have all of the cells: its
        score could not be compared.

        Such a score has only the likeness: no cells measured in part, none missing, and neither the
        trivial prediction nor the ceilings.
        """
        without_tries = replace(self, comparison=replace(self.comparison, tried=()))
        for tried in self.comparison.tried:
            measured = [without_tries.pair(cell.published, tried) for cell in cells]
            pairs = tuple(pair for pair in measured if pair and not pair.lacks)
            if pairs and len(pairs) == len(cells):
                likeness = self.likeness_of(pairs, [pair.measured for pair in pairs])
                score = Score(without_tries.comparison, pairs, (), 0, likeness, None, None, None)
                yield TriedScore(tried.setting, score)

    def pair(self, number: PublishedNumber, tried: Tried | None = None) -> CellPair | None:
        """Returns the cell of a published number: this number together with the lab's number at the
        same settings. The lab's number comes from the runs of the comparison's entry, or from those
        of the entry `tried` if that is given. Returns None if the lab has no such runs.
        """
        comparison = self.comparison
        wanted = RunNumber(comparison.quantity, comparison.entry, number.cca, at=number.at)
        wanted = tried.number(wanted) if tried else wanted
        sample = self.runs.sample(wanted)
        if sample.mean is None:
            return None
        value, rate_bps = self.value(number), self.rate_bps(number)
        pair = CellPair(number, value, sample.mean, sample, rate_bps, self.runs.lacking(wanted))
        far = comparison.is_far(sample.mean, value)
        return replace(pair, tried=tuple(self.tried_cells(wanted, value))) if far else pair

    def tried_cells(self, number: RunNumber, published: float) -> Iterator[TriedCell]:
        """Yields for each other setting that was tried the result of its runs in a cell. They may
        explain why the number of the judged runs is far from the published one.

        number: the number of the judged runs
        published: the published number
        """
        for tried in self.comparison.tried:
            other = tried.number(number)
            sample = self.runs.sample(other)
            if sample.mean is not None and not self.runs.lacking(other):
                near = not self.comparison.is_far(sample.mean, published)
                yield TriedCell(tried.setting, sample, near)

    def rate_bps(self, number: PublishedNumber) -> float | None:
        """Returns the path's rate at the settings of a published number; None if it is not
        known.
        """
        swept = number.at.get(RATE_KEY)
        return parse_rate(swept) if swept else self.path_rate_bps

    def value(self, number: PublishedNumber) -> float:
        """Returns a published number in the quantity that is compared. If utilisations are compared
        and the paper has published a goodput, utilisation = goodput / rate. Raises ValueError if
        the rate is not known.
        """
        if self.comparison.quantity == number.quantity:
            return number.value
        rate_bps = self.rate_bps(number)
        if rate_bps is None:
            series = self.comparison.series
            raise ValueError(f"{series}: the rate of {dict(number.at)} is not known")
        return number.value / rate_bps

    def trivial(self, pairs: Sequence[CellPair]) -> Likeness | None:
        """Returns how similar a prediction without any measurement is to the published numbers:
        that every cell has 95% utilisation. None if the quantity is neither a goodput nor a
        utilisation.
        """
        if self.comparison.quantity == "utilisation":
            return self.likeness_of(pairs, [TRIVIAL] * len(pairs))
        known = [TRIVIAL * pair.rate_bps for pair in pairs if pair.rate_bps is not None]
        if self.comparison.quantity != "goodput_bps" or len(known) < len(pairs):
            return None
        return self.likeness_of(pairs, known)

    def ceiling(self, published: Sequence[PublishedNumber]) -> Likeness | None:
        """Returns how similar another series of the paper (`comparison.ceiling`) is to these
        published numbers, in the cells that both have; None if there are none. The lab can't be
        expected to come closer to the paper than the paper's own series are to each other.
        """
        ceiling = replace(self.comparison, series=self.comparison.ceiling)
        others = {_cell_key(each): self.value(each) for each in of_series(self.numbers, ceiling)}
        both = [number for number in published if _cell_key(number) in others]
        if not both:
            return None
        other_values = [others[_cell_key(number)] for number in both]
        scales = self.scales([self.rate_bps(number) for number in both])
        return likeness([self.value(number) for number in both], other_values, scales)

    def likeness_of(self, pairs: Sequence[CellPair], others: Sequence[float]) -> Likeness | None:
        """Returns how similar other numbers are to the published ones; None if there are no cells.
        `others` has one number for each of the cells in `pairs`.
        """
        if not pairs:
            return None
        scales = self.scales([pair.rate_bps for pair in pairs])
        return likeness([pair.value for pair in pairs], others, scales)

    def scales(self, rates_bps: Sequence[float | None]) -> list[float] | None:
        """Returns for each cell the divisor that turns its number into a utilisation: the rate
        (from rates_bps) if goodputs are compared, and 1 if utilisations are. None for another
        quantity, or if a rate is not known.
        """
        if self.comparison.quantity == "utilisation":
            return [1.0] * len(rates_bps)
        known = [rate_bps for rate_bps in rates_bps if rate_bps is not None]
        of_goodputs = self.comparison.quantity == "goodput_bps"
        return known if of_goodputs and len(known) == len(rates_bps) else None


def _cell_key(number: PublishedNumber) -> tuple[object, ...]:
    """Returns a key by which the same cell (CCA and settings) is found in another published
    series.
    """
    return number.cca, *sorted(number.at.items())


def likeness(
    published: Sequence[float], others: Sequence[float], scales: Sequence[float] | None
) -> Likeness:
    """Returns how similar other numbers, for example the lab's, are to published ones. All
    arguments have one value for each cell, in the same order.

    scales: the divisors that turn the numbers into utilisations; None for quantities for which
        there are no utilisations, such as retransmissions
    """
    ratios = [
        abs(math.log(other / value))
        for other, value in zip(others, published, strict=True)
        if min(other, value) > 0
    ]
    return Likeness(
        cells=len(published),
        log_ratio=statistics.median(ratios) if ratios else None,
        rank=rank_correlation(published, others),
        largest=max(map(factor, others, published)),
        within=_within(published, others, scales) if scales else None,
    )


def _within(published: Sequence[float], others: Sequence[float], scales: Sequence[float]) -> float:
    """Returns the fraction of the cells in which the published and the other utilisation (a number
    divided by its scale) differ by at most APART, 0.05.
    """
    near = [
        abs(other - value) <= APART * scale
        for other, value, scale in zip(others, published, scales, strict=True)
    ]
    return sum(near) / len(near)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Returns Spearman's rank correlation of two equally long sequences; None for fewer than 3
    values. Equal values have their mean rank.

    If all values of one sequence are equal, there are no ranks: the result is 1 if both sequences
    are the same, for example because nothing was retransmitted, and None otherwise.
    """
    if len(a) < 3:
        return None
    if len(set(a)) == 1 or len(set(b)) == 1:
        return 1.0 if list(a) == list(b) else None
    return float(pl.select(pl.corr(pl.Series(a), pl.Series(b), method="spearman")).item())
