"""Puts together what an experiment's runs say: scores beside published numbers, and judged statements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ccmix.analysis.results import Result
from ccmix.analysis.settling_text import not_settled
from ccmix.model import Topology
from ccmix.model.results import FinishedRun
from ccmix.papers import text
from ccmix.papers.experiment import Experiment
from ccmix.papers.judging import JudgedStatement, Judgement, judge
from ccmix.papers.measured import MeasuredRuns
from ccmix.papers.published import read_published
from ccmix.papers.scores import Score, scores

VERBS = {
    Judgement.HOLDS: ("holds", "hold"),
    Judgement.FAILS: ("does not hold", "do not hold"),
    Judgement.UNTOLD: ("cannot be told", "cannot be told"),
    Judgement.UNMEASURED: ("was not measured", "were not measured"),
}  # of one statement and of several


@dataclass(frozen=True)
class Reproduction:
    """Holds an experiment with its scores and its judged statements."""

    experiment: Experiment
    scores: tuple[Score, ...]
    statements: tuple[JudgedStatement, ...]
    runs: int  # that count
    not_settled: int  # of these

    @property
    def verdict(self) -> str:
        """Returns sentences: how many statements hold, and which do not; how many scores meet what was asked, and which
        do not.
        """
        return " ".join([*self._of_statements(), *self._of_scores()])

    @property
    def settling(self) -> str:
        """Returns a sentence on the runs that have not settled; nothing if all have, or it can't be judged."""
        if not self.not_settled:
            return ""
        why = f": {self.experiment.unsettled}" if self.experiment.unsettled else ""
        have = "has" if self.not_settled == 1 else "have"
        return f"{self.not_settled} of {self.runs} runs {have} not settled{why}."

    def _of_statements(self) -> Iterator[str]:
        """Yields 'Of 4 statements 2 hold, 1 of these measured in part.' and '1 does not hold: fair-at-300-ms.'."""
        if not self.statements:
            return
        holding = self._with(Judgement.HOLDS)
        partly = sum(judged.judged.measured < len(judged.bounds) for judged in holding)
        part = f", {partly} of these measured in part" if partly else ""
        yield f"Of {len(self.statements)} statements {_verb(Judgement.HOLDS, len(holding))}{part}."
        for outcome in (Judgement.FAILS, Judgement.UNTOLD, Judgement.UNMEASURED):
            if such := self._with(outcome):
                yield f"{_verb(outcome, len(such))}: {', '.join(map(_named, such))}."

    def _of_scores(self) -> Iterator[str]:
        judged = [score for score in self.scores if score.judged]
        if not judged:
            return
        met = sum(score.outcome is Judgement.HOLDS for score in judged)
        yield f"{met} of {len(judged)} comparisons with published numbers meet the criterion."
        for word, outcome in (("Not met", Judgement.FAILS), ("Cannot be told", Judgement.UNTOLD)):
            if such := [text.title(score) for score in judged if score.outcome is outcome]:
                yield f"{word}: {'; '.join(such)}."

    def _with(self, outcome: Judgement) -> list[JudgedStatement]:
        return [judged for judged in self.statements if judged.outcome is outcome]


def _verb(outcome: Judgement, count: int) -> str:
    """Returns '1 holds' or '0 hold'."""
    one, several = VERBS[outcome]
    return f"{count} {one if count == 1 else several}"


def _named(judged: JudgedStatement) -> str:
    """Returns the statement's name, with what was found by other settings in brackets."""
    explained = text.explained(judged)
    return judged.statement.name + (f" ({explained})" if explained else "")


def reproduction(experiment: Experiment, results: Sequence[Result]) -> Reproduction:
    """Returns what the valid runs of an experiment say."""
    valid = tuple(result.finished for result in results if result.valid)
    runs = MeasuredRuns(valid)
    made = scores(experiment.comparisons, read_published(experiment.name), runs, _rate_bps(valid))
    unsettled = sum(map(not_settled, valid))
    return Reproduction(experiment, tuple(made), tuple(judge(experiment.statements, runs)), len(valid), unsettled)


def _rate_bps(runs: Sequence[FinishedRun]) -> float | None:
    """Returns the rate of the paths where all have one."""
    rates = {run.run.path.rate_bps for run in runs if isinstance(run.run.path, Topology)}
    return rates.pop() if len(rates) == 1 else None
