"""Scores measured numbers against published ones. What counts as near was defined before any result was seen."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import spearmanr

from ccmix.papers.experiment import BesidePublished, Of, Tried
from ccmix.papers.judging import Judgement
from ccmix.papers.measured import MeasuredRuns, MeasuredSample
from ccmix.papers.published import PublishedNumber, of_series
from ccmix.units import parse_rate

APART = 0.05  # by which utilisations that agree may differ
TRIVIAL = 0.95  # the utilisation that is predicted without a measurement
RATE_KEY = "rate"


@dataclass(frozen=True)
class TriedCell:
    """Holds what another setting gave in a cell that is off, and whether it comes near enough to explain it."""

    setting: str
    sample: MeasuredSample
    explains: bool


@dataclass(frozen=True)
class CellPair:
    """Holds a published number and the runs that repeat it, both in the quantity that is compared.

    `rate_bps` is None where none is known. A number published as a mean over several values of a setting `lacks` the
    keys of which not all values were measured, each with those that were. `tried` has what other settings gave, of a
    cell that is off.
    """

    published: PublishedNumber
    value: float  # what was published, in the quantity that is compared
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
        """Returns by how much the two differ, at least 1; inf where one of them is 0."""
        return factor(self.measured, self.value)


@dataclass(frozen=True)
class Likeness:
    """Describes how like published numbers others are.

    `log_ratio` is the median of |ln(other / published)| over the cells where both are above 0, `rank` Spearman's
    correlation (None where all of one side are alike), `largest` the factor of the cell that is off most, `within` the
    fraction of cells whose utilisations are at most APART apart (None for other quantities).
    """

    cells: int
    log_ratio: float | None
    rank: float | None
    largest: float
    within: float | None


@dataclass(frozen=True)
class Score:
    """Holds how the runs of an entry compare with a series.

    Beside it stand the trivial prediction, of goodputs and utilisations only, and the ceiling: how like the series
    another published one is, over the cells that were measured and over all. `tried` has the scores of other settings
    that were tried in all of these cells; they explain, and do not change the outcome.
    """

    comparison: BesidePublished
    pairs: tuple[CellPair, ...]
    partial: tuple[CellPair, ...]  # that were measured in part, and don't count
    missing: int  # published numbers whose cells were not measured
    likeness: Likeness | None  # None: no cell was measured whole
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
        off = [pair for pair in self.pairs if _is_far(self.comparison, pair.measured, pair.value)]
        return tuple(sorted(off, key=lambda pair: -pair.factor))

    @property
    def unexplained(self) -> tuple[CellPair, ...]:
        """Returns those of the cells that are far off which nothing that was tried explains."""
        return tuple(pair for pair in self.far if not pair.explanations)

    @property
    def outcome(self) -> Judgement:
        """Returns whether all parts of the criterion are met; UNTOLD without one, or of too few cells for a part."""
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
        """Returns the scores of what was tried, where there is something to explain."""
        return self.tried if self.outcome is Judgement.FAILS else ()

    @property
    def met_if_tried(self) -> bool:
        """Returns whether the criterion is met with a setting that was tried, and not without."""
        return any(each.score.outcome is Judgement.HOLDS for each in self.explanations)


@dataclass(frozen=True)
class TriedScore:
    """Holds the score that another setting has in the same cells."""

    setting: str
    score: Score


def _is_far(comparison: BesidePublished, measured: float, published: float) -> bool:
    """Returns whether a cell is off by more than the criterion's factor, or by more than its difference."""
    criterion = comparison.criterion
    if criterion is None:
        return False
    by_factor = criterion.most_factor is not None and factor(measured, published) > criterion.most_factor
    return by_factor or (criterion.most_apart is not None and abs(measured - published) > criterion.most_apart)


def scores(
    comparisons: Sequence[BesidePublished], numbers: list[PublishedNumber], runs: MeasuredRuns, rate_bps: float | None
) -> list[Score]:
    """Returns a score for each comparison of which a cell was measured.

    `rate_bps` is that of the path where it is not swept.
    """
    made = (_score(comparison, numbers, runs, rate_bps) for comparison in comparisons)
    return [score for score in made if score]


def _score(
    comparison: BesidePublished, numbers: list[PublishedNumber], runs: MeasuredRuns, rate_bps: float | None
) -> Score | None:
    own = of_series(numbers, comparison)
    measured = [pair for number in own if (pair := _pair(comparison, number, runs, rate_bps))]
    if not measured:
        return None
    pairs = tuple(pair for pair in measured if not pair.lacks)
    return Score(
        comparison,
        pairs,
        tuple(pair for pair in measured if pair.lacks),
        len(own) - len(measured),
        _likeness_of_pairs(comparison, pairs, [pair.measured for pair in pairs]),
        _trivial(comparison, pairs),
        _ceiling(comparison, [pair.published for pair in pairs], numbers, rate_bps),
        _ceiling(comparison, own, numbers, rate_bps),
        tuple(_tried_scores(comparison, pairs, runs, rate_bps)),
    )


def _tried_scores(
    comparison: BesidePublished, own: Sequence[CellPair], runs: MeasuredRuns, rate_bps: float | None
) -> Iterator[TriedScore]:
    """Yields the scores of the settings that were tried in all of these cells."""
    alone = replace(comparison, tried=())
    for tried in comparison.tried:
        measured = [_pair(alone, pair.published, runs, rate_bps, tried) for pair in own]
        pairs = tuple(pair for pair in measured if pair and not pair.lacks)
        if pairs and len(pairs) == len(own):
            likeness = _likeness_of_pairs(alone, pairs, [pair.measured for pair in pairs])
            yield TriedScore(tried.setting, Score(alone, pairs, (), 0, likeness, None, None, None))


def _pair(
    comparison: BesidePublished,
    number: PublishedNumber,
    runs: MeasuredRuns,
    rate_bps: float | None,
    instead: Tried | None = None,
) -> CellPair | None:
    """Returns a published number beside its runs, or beside those of a setting that was tried."""
    of = Of(comparison.quantity, comparison.entry, number.cca, at=number.at)
    if instead:
        of = instead.number(of)
    sample = runs.sample(of)
    if sample.mean is None:
        return None
    value, rate = _compared(comparison, number, rate_bps), _rate_bps(number, rate_bps)
    pair = CellPair(number, value, sample.mean, sample, rate, runs.lacking(of))
    return replace(pair, tried=tuple(_tried(comparison, of, pair, runs)))


def _tried(comparison: BesidePublished, of: Of, pair: CellPair, runs: MeasuredRuns) -> Iterator[TriedCell]:
    """Yields what other settings gave if the cell is off by more than the criterion allows."""
    if not _is_far(comparison, pair.measured, pair.value):
        return
    for tried in comparison.tried:
        other = tried.number(of)
        sample = runs.sample(other)
        if sample.mean is not None and not runs.lacking(other):
            yield TriedCell(tried.setting, sample, not _is_far(comparison, sample.mean, pair.value))


def _rate_bps(number: PublishedNumber, rate_bps: float | None) -> float | None:
    swept = number.at.get(RATE_KEY)
    return parse_rate(swept) if swept else rate_bps


def _compared(comparison: BesidePublished, number: PublishedNumber, rate_bps: float | None) -> float:
    """Returns a published number in the quantity that is compared.

    Raises ValueError where a utilisation is asked for, and the rate is not known.
    """
    if comparison.quantity == number.quantity:
        return number.value
    rate = _rate_bps(number, rate_bps)
    if rate is None:
        raise ValueError(f"{comparison.series}: the rate of {dict(number.at)} is not known")
    return number.value / rate


def _trivial(comparison: BesidePublished, pairs: Sequence[CellPair]) -> Likeness | None:
    if comparison.quantity == "utilisation":
        return _likeness_of_pairs(comparison, pairs, [TRIVIAL] * len(pairs))
    known = [TRIVIAL * pair.rate_bps for pair in pairs if pair.rate_bps is not None]
    if comparison.quantity != "goodput_bps" or len(known) < len(pairs):
        return None
    return _likeness_of_pairs(comparison, pairs, known)


def _ceiling(
    comparison: BesidePublished, own: Sequence[PublishedNumber], numbers: list[PublishedNumber], rate_bps: float | None
) -> Likeness | None:
    """Returns how like these numbers those of the ceiling's series are, where it has the same cells."""
    others = {
        (other.cca, *sorted(other.at.items())): _compared(comparison, other, rate_bps)
        for other in of_series(numbers, replace(comparison, series=comparison.ceiling))
    }
    both = [
        (_compared(comparison, number, rate_bps), others[cell], _rate_bps(number, rate_bps))
        for number in own
        if (cell := (number.cca, *sorted(number.at.items()))) in others
    ]
    if not both:
        return None
    values, of_others, rates = zip(*both, strict=True)
    return likeness(values, of_others, _scales(comparison, rates))


def _likeness_of_pairs(
    comparison: BesidePublished, pairs: Sequence[CellPair], others: Sequence[float]
) -> Likeness | None:
    if not pairs:
        return None
    return likeness([pair.value for pair in pairs], others, _scales(comparison, [pair.rate_bps for pair in pairs]))


def _scales(comparison: BesidePublished, rates_bps: Sequence[float | None]) -> list[float] | None:
    """Returns by what each number is divided to be a utilisation; None where it can't be one."""
    if comparison.quantity == "utilisation":
        return [1.0] * len(rates_bps)
    known = [rate for rate in rates_bps if rate is not None]
    return known if comparison.quantity == "goodput_bps" and len(known) == len(rates_bps) else None


def likeness(published: Sequence[float], others: Sequence[float], scales: Sequence[float] | None) -> Likeness:
    """Returns how like published numbers others are, in the same order; over the scales they are utilisations."""
    ratios = [
        abs(math.log(other / value)) for other, value in zip(others, published, strict=True) if min(other, value) > 0
    ]
    return Likeness(
        cells=len(published),
        log_ratio=statistics.median(ratios) if ratios else None,
        rank=rank_correlation(published, others),
        largest=max(map(factor, others, published)),
        within=_within(published, others, scales) if scales else None,
    )


def factor(a: float, b: float) -> float:
    """Returns by how much two numbers differ, at least 1; inf where one of them is 0, and 1 where both are."""
    least, most = sorted((abs(a), abs(b)))
    if not most:
        return 1.0
    return most / least if least else math.inf


def _within(published: Sequence[float], others: Sequence[float], scales: Sequence[float]) -> float:
    near = [abs(other - value) <= APART * scale for other, value, scale in zip(others, published, scales, strict=True)]
    return sum(near) / len(near)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Returns Spearman's correlation, equal values with their mean rank; None of fewer than 3, or of one value, unless
    that is the same on both sides, as where nothing was retransmitted.
    """
    if len(a) < 3:
        return None
    if len(set(a)) == 1 or len(set(b)) == 1:
        return 1.0 if list(a) == list(b) else None
    return float(np.asarray(spearmanr(a, b).statistic))
