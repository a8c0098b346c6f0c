"""Scores measured numbers against published ones. The criteria were defined before any result was
seen.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import spearmanr

from ccmix.papers.experiment import Of, PublishedComparison, Tried, factor
from ccmix.papers.judging import Judgement, MeasuredRuns, MeasuredSample
from ccmix.papers.reading import PublishedNumber, of_series
from ccmix.units import parse_rate

APART = 0.05  # by which utilisations that agree may differ
TRIVIAL = 0.95  # the utilisation that is predicted without a measurement
RATE_KEY = "rate"


@dataclass(frozen=True)
class TriedCell:
    """Holds the result of another setting in a cell that is off, and whether it is close enough to
    explain the difference.
    """

    setting: str
    sample: MeasuredSample
    explains: bool


@dataclass(frozen=True)
class CellPair:
    """Holds a published number and the runs that repeat it, both in the quantity that is compared.

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
        return tuple(each for each in self.tried if each.explains)

    @property
    def factor(self) -> float:
        """Returns the factor between the two, at least 1; inf if only one of them is 0."""
        return factor(self.measured, self.value)


@dataclass(frozen=True)
class Likeness:
    """Describes how similar other numbers are to published ones.

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
    """Holds how the runs of an entry compare with a series.

    For comparison, it has the trivial prediction (only for goodputs and utilisations) and the
    ceiling: how similar another published series is, over the measured cells and over all cells.
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
        """Returns whether there is a criterion."""
        return self.comparison.criterion is not None

    @property
    def far(self) -> tuple[CellPair, ...]:
        """Returns the cells that are off by more than the criterion allows, the worst first."""
        off = [pair for pair in self.pairs if self.comparison.is_far(pair.measured, pair.value)]
        return tuple(sorted(off, key=lambda pair: -pair.factor))

    @property
    def unexplained(self) -> tuple[CellPair, ...]:
        """Returns the cells that are far off and that no tried setting explains."""
        return tuple(pair for pair in self.far if not pair.explanations)

    @property
    def outcome(self) -> Judgement:
        """Returns whether all parts of the criterion are met; UNTOLD without a criterion, or if
        there are too few cells for a part.
        """
        criterion, likeness = self.comparison.criterion, self.likeness
        if likeness is None or criterion is None:
            return Judgement.UNTOLD
        asked = ((likeness.rank, criterion.least_rank), (likeness.within, criterion.least_within))
        parts = [(value, least) for value, least in asked if least is not None]
        if self.unexplained or any(value is not None and value < least for value, least in parts):
            return Judgement.FAILS
        return Judgement.UNTOLD if any(value is None for value, _ in parts) else Judgement.HOLDS

    @property
    def explanations(self) -> tuple["TriedScore", ...]:
        """Returns the scores of tried settings, if the criterion is not met without them."""
        return self.tried if self.outcome is Judgement.FAILS else ()

    @property
    def met_if_tried(self) -> bool:
        """Returns whether the criterion is met only with a setting that was tried."""
        return any(each.score.outcome is Judgement.HOLDS for each in self.explanations)


@dataclass(frozen=True)
class TriedScore:
    """Holds the score that another setting has in the same cells."""

    setting: str
    score: Score


def scores(
    comparisons: Sequence[PublishedComparison],
    numbers: list[PublishedNumber],
    runs: MeasuredRuns,
    rate_bps: float | None,
) -> list[Score]:
    """Returns a score for each comparison that has a measured cell.

    `rate_bps` is the rate of the path if it is not swept.
    """
    made = (_Scorer(comparison, numbers, runs, rate_bps).score() for comparison in comparisons)
    return [score for score in made if score]


@dataclass(frozen=True)
class _Scorer:
    """Compares the runs of a comparison with its published numbers."""

    comparison: PublishedComparison
    numbers: list[PublishedNumber]
    runs: MeasuredRuns
    path_rate_bps: float | None

    def score(self) -> Score | None:
        own = of_series(self.numbers, self.comparison)
        measured = [pair for number in own if (pair := self.pair(number))]
        if not measured:
            return None
        pairs = tuple(pair for pair in measured if not pair.lacks)
        return Score(
            self.comparison,
            pairs,
            tuple(pair for pair in measured if pair.lacks),
            len(own) - len(measured),
            self.likeness_of(pairs, [pair.measured for pair in pairs]),
            self.trivial(pairs),
            self.ceiling([pair.published for pair in pairs]),
            self.ceiling(own),
            tuple(self.tried_scores(pairs)),
        )

    def tried_scores(self, own: Sequence[CellPair]) -> Iterator[TriedScore]:
        """Yields the scores of the settings that were tried in all of these cells."""
        alone = replace(self, comparison=replace(self.comparison, tried=()))
        for tried in self.comparison.tried:
            measured = [alone.pair(pair.published, tried) for pair in own]
            pairs = tuple(pair for pair in measured if pair and not pair.lacks)
            if pairs and len(pairs) == len(own):
                likeness = self.likeness_of(pairs, [pair.measured for pair in pairs])
                score = Score(alone.comparison, pairs, (), 0, likeness, None, None, None)
                yield TriedScore(tried.setting, score)

    def pair(self, number: PublishedNumber, instead: Tried | None = None) -> CellPair | None:
        """Returns a published number with its runs, or with the runs of a setting that was
        tried.
        """
        comparison = self.comparison
        of = Of(comparison.quantity, comparison.entry, number.cca, at=number.at)
        of = instead.number(of) if instead else of
        sample = self.runs.sample(of)
        if sample.mean is None:
            return None
        value, rate_bps = self.value(number), self.rate_bps(number)
        pair = CellPair(number, value, sample.mean, sample, rate_bps, self.runs.lacking(of))
        far = comparison.is_far(sample.mean, value)
        return replace(pair, tried=tuple(self.tried_cells(of, value))) if far else pair

    def tried_cells(self, of: Of, published: float) -> Iterator[TriedCell]:
        """Yields the results of other settings in a cell."""
        for tried in self.comparison.tried:
            other = tried.number(of)
            sample = self.runs.sample(other)
            if sample.mean is not None and not self.runs.lacking(other):
                near = not self.comparison.is_far(sample.mean, published)
                yield TriedCell(tried.setting, sample, near)

    def rate_bps(self, number: PublishedNumber) -> float | None:
        swept = number.at.get(RATE_KEY)
        return parse_rate(swept) if swept else self.path_rate_bps

    def value(self, number: PublishedNumber) -> float:
        """Returns a published number in the quantity that is compared.

        Raises ValueError if the quantity is a utilisation and the rate is not known.
        """
        if self.comparison.quantity == number.quantity:
            return number.value
        rate_bps = self.rate_bps(number)
        if rate_bps is None:
            series = self.comparison.series
            raise ValueError(f"{series}: the rate of {dict(number.at)} is not known")
        return number.value / rate_bps

    def trivial(self, pairs: Sequence[CellPair]) -> Likeness | None:
        if self.comparison.quantity == "utilisation":
            return self.likeness_of(pairs, [TRIVIAL] * len(pairs))
        known = [TRIVIAL * pair.rate_bps for pair in pairs if pair.rate_bps is not None]
        if self.comparison.quantity != "goodput_bps" or len(known) < len(pairs):
            return None
        return self.likeness_of(pairs, known)

    def ceiling(self, own: Sequence[PublishedNumber]) -> Likeness | None:
        """Returns how similar the numbers of the ceiling's series are to these, in the cells that
        both have.
        """
        ceiling = replace(self.comparison, series=self.comparison.ceiling)
        others = {_cell(each): self.value(each) for each in of_series(self.numbers, ceiling)}
        both = [number for number in own if _cell(number) in others]
        if not both:
            return None
        of_others = [others[_cell(number)] for number in both]
        scales = self.scales([self.rate_bps(number) for number in both])
        return likeness([self.value(number) for number in both], of_others, scales)

    def likeness_of(self, pairs: Sequence[CellPair], others: Sequence[float]) -> Likeness | None:
        if not pairs:
            return None
        scales = self.scales([pair.rate_bps for pair in pairs])
        return likeness([pair.value for pair in pairs], others, scales)

    def scales(self, rates_bps: Sequence[float | None]) -> list[float] | None:
        """Returns the divisors that turn the numbers into utilisations; None if they can't be
        utilisations.
        """
        if self.comparison.quantity == "utilisation":
            return [1.0] * len(rates_bps)
        known = [rate_bps for rate_bps in rates_bps if rate_bps is not None]
        of_goodputs = self.comparison.quantity == "goodput_bps"
        return known if of_goodputs and len(known) == len(rates_bps) else None


def _cell(number: PublishedNumber) -> tuple[object, ...]:
    return number.cca, *sorted(number.at.items())


def likeness(
    published: Sequence[float], others: Sequence[float], scales: Sequence[float] | None
) -> Likeness:
    """Returns how similar other numbers are to published ones, in the same order; divided by the
    scales, they are utilisations.
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
    near = [
        abs(other - value) <= APART * scale
        for other, value, scale in zip(others, published, scales, strict=True)
    ]
    return sum(near) / len(near)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Returns Spearman's correlation, in which equal values have their mean rank; None for fewer
    than 3 values. If all values of a side are equal, it is 1 if both sides are the same, for
    example because nothing was retransmitted, and None otherwise.
    """
    if len(a) < 3:
        return None
    if len(set(a)) == 1 or len(set(b)) == 1:
        return 1.0 if list(a) == list(b) else None
    return float(np.asarray(spearmanr(a, b).statistic))
