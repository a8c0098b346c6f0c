"""Judges the statements of a paper: compares the lab's numbers with the statements' limits."""

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ccmix.papers.experiment import (
    Bound,
    Statement,
)
from ccmix.papers.measuring import MeasuredRuns, MeasuredSample


class Judgement(enum.Enum):
    """Says whether the lab's numbers confirm a statement of a paper, or one of its bounds."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    UNMEASURED = "not measured"


@dataclass(frozen=True)
class JudgedBound:
    """Holds the limits for a number of a statement, with the values that the lab measured."""

    bound: Bound
    sample: MeasuredSample

    @property
    def outcome(self) -> Judgement:
        """Judges the bound by the 95% interval of the measured mean: HOLDS if the whole interval is
        within the limits, and FAILS if the whole interval is beyond one of them. Otherwise, and
        with fewer than 3 runs, the bound is UNDECIDED; without any run it is UNMEASURED.
        """
        if not self.sample.runs:
            return Judgement.UNMEASURED
        interval = self.sample.interval
        if interval is None:
            return Judgement.UNDECIDED
        low, high = interval
        least = -float("inf") if self.bound.least is None else self.bound.least
        most = float("inf") if self.bound.most is None else self.bound.most
        if least <= low and high <= most:
            return Judgement.HOLDS
        return Judgement.FAILS if high < least or low > most else Judgement.UNDECIDED


@dataclass(frozen=True)
class JudgedBounds:
    """Holds the judged bounds of a statement, all by runs of the entry that the statement is about,
    or all by runs of an entry that tries another setting.
    """

    bounds: tuple[JudgedBound, ...]

    @property
    def measured(self) -> int:
        """Returns how many of the bounds were measured."""
        return sum(bound.outcome is not Judgement.UNMEASURED for bound in self.bounds)

    @property
    def in_part(self) -> bool:
        """Returns whether only some of the bounds were measured."""
        return 0 < self.measured < len(self.bounds)

    @property
    def outcome(self) -> Judgement:
        """Returns HOLDS if all measured bounds hold, FAILS if at least one of them fails, and
        UNDECIDED otherwise; UNMEASURED if no bound was measured.
        """
        outcomes = {bound.outcome for bound in self.bounds} - {Judgement.UNMEASURED}
        if not outcomes:
            return Judgement.UNMEASURED
        if Judgement.FAILS in outcomes:
            return Judgement.FAILS
        return Judgement.HOLDS if outcomes == {Judgement.HOLDS} else Judgement.UNDECIDED


@dataclass(frozen=True)
class JudgedTry:
    """Holds the bounds of a statement, judged by runs with another setting (`setting` in words),
    to explain why the statement does not hold.
    """

    setting: str
    judged: JudgedBounds


@dataclass(frozen=True)
class JudgedStatement:
    """Holds a paper's statement with the result of judging its bounds by the lab's runs. Results
    with other settings, in `tried`, only explain it, and do not change the outcome.
    """

    statement: Statement
    judged: JudgedBounds
    tried: tuple[JudgedTry, ...] = ()  # only measured ones

    @property
    def bounds(self) -> tuple[JudgedBound, ...]:
        """Returns the statement's bounds, each with the values that the lab measured."""
        return self.judged.bounds

    @property
    def outcome(self) -> Judgement:
        """Returns whether the statement holds, by the runs of the entry that it is about."""
        return self.judged.outcome

    @property
    def explaining(self) -> tuple[JudgedTry, ...]:
        """Returns the results of runs with other settings, which may explain why the statement does
        not hold; empty if it holds.
        """
        return () if self.outcome is Judgement.HOLDS else self.tried

    @property
    def holds_if_tried(self) -> bool:
        """Returns whether the statement does not hold by itself, but holds in runs with another
        setting that was tried.
        """
        return any(each.judged.outcome is Judgement.HOLDS for each in self.explaining)


def judge(statements: Sequence[Statement], runs: MeasuredRuns) -> list[JudgedStatement]:
    """Judges each statement of a paper by the bounds that it sets on numbers of the runs. Runs with
    other settings that may explain a failure are judged by the same bounds. Returns the results in
    the order of the statements.
    """
    return [
        JudgedStatement(
            statement, _judged_bounds(statement.bounds, runs), tuple(_tries(statement, runs))
        )
        for statement in statements
    ]


def _tries(statement: Statement, runs: MeasuredRuns) -> Iterator[JudgedTry]:
    """Yields the results for a statement with each of the other settings (`statement.tried`) that
    may explain why it fails, as far as they were measured.
    """
    for tried in statement.tried:
        judged = _judged_bounds(map(tried.instead_of, statement.bounds), runs)
        if judged.measured:
            yield JudgedTry(tried.setting, judged)


def _judged_bounds(bounds: Iterable[Bound], runs: MeasuredRuns) -> JudgedBounds:
    """Returns the bounds of a statement, each with the values that were measured for its number.
    The outcome of a bound follows from both.
    """
    return JudgedBounds(tuple(JudgedBound(bound, runs.sample(bound.number)) for bound in bounds))
