"""Judges the statements of a paper by the runs of an experiment."""

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ccmix.papers.experiment import Bound, Statement
from ccmix.papers.measured import MeasuredRuns, MeasuredSample


class Judgement(enum.Enum):
    """Says what the lab's numbers say to a bound or a statement."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNTOLD = "cannot be told"
    UNMEASURED = "not measured"


@dataclass(frozen=True)
class JudgedBound:
    """Holds what was measured of a bound."""

    bound: Bound
    sample: MeasuredSample

    @property
    def outcome(self) -> Judgement:
        """Returns HOLDS or FAILS only where the whole interval is on one side of the limits."""
        if not self.sample.runs:
            return Judgement.UNMEASURED
        interval = self.sample.interval
        if interval is None:
            return Judgement.UNTOLD
        low, high = interval
        least = -float("inf") if self.bound.least is None else self.bound.least
        most = float("inf") if self.bound.most is None else self.bound.most
        if least <= low and high <= most:
            return Judgement.HOLDS
        return Judgement.FAILS if high < least or low > most else Judgement.UNTOLD


@dataclass(frozen=True)
class JudgedBounds:
    """Holds the judged bounds of a statement, in its own entry or in one that was tried."""

    bounds: tuple[JudgedBound, ...]

    @property
    def measured(self) -> int:
        """Returns how many of the bounds were measured."""
        return sum(bound.outcome is not Judgement.UNMEASURED for bound in self.bounds)

    @property
    def outcome(self) -> Judgement:
        """Returns HOLDS if all bounds hold that were measured, FAILS if one does not."""
        outcomes = {bound.outcome for bound in self.bounds} - {Judgement.UNMEASURED}
        if not outcomes:
            return Judgement.UNMEASURED
        if Judgement.FAILS in outcomes:
            return Judgement.FAILS
        return Judgement.HOLDS if outcomes == {Judgement.HOLDS} else Judgement.UNTOLD


@dataclass(frozen=True)
class JudgedTry:
    """Holds what the bounds of a statement are with a setting that was tried."""

    setting: str
    judged: JudgedBounds


@dataclass(frozen=True)
class JudgedStatement:
    """Holds a statement with its judged bounds, and what was tried; that explains, and does not change the outcome."""

    statement: Statement
    judged: JudgedBounds
    tried: tuple[JudgedTry, ...] = ()  # those that were measured

    @property
    def bounds(self) -> tuple[JudgedBound, ...]:
        return self.judged.bounds

    @property
    def outcome(self) -> Judgement:
        return self.judged.outcome

    @property
    def explaining(self) -> tuple[JudgedTry, ...]:
        """Returns what was tried, where there is something to explain."""
        return () if self.outcome is Judgement.HOLDS else self.tried

    @property
    def holds_if_tried(self) -> bool:
        """Returns whether the statement holds with a setting that was tried, and not without."""
        return any(each.judged.outcome is Judgement.HOLDS for each in self.explaining)


def judge(statements: Sequence[Statement], runs: MeasuredRuns) -> list[JudgedStatement]:
    """Returns the statements in their order, with what the runs say to them."""
    return [
        JudgedStatement(statement, _judged_all(statement.bounds, runs), tuple(_tries(statement, runs)))
        for statement in statements
    ]


def _tries(statement: Statement, runs: MeasuredRuns) -> Iterator[JudgedTry]:
    for tried in statement.tried:
        judged = _judged_all(map(tried.instead_of, statement.bounds), runs)
        if judged.measured:
            yield JudgedTry(tried.setting, judged)


def _judged_all(bounds: Iterable[Bound], runs: MeasuredRuns) -> JudgedBounds:
    return JudgedBounds(tuple(JudgedBound(bound, runs.sample(bound.number)) for bound in bounds))
