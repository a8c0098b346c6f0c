"""Puts together what an experiment's runs say: scores beside published numbers, and judged statements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ccmix.analysis.results import Result
from ccmix.analysis.settling_text import not_settled
from ccmix.model import Topology
from ccmix.model.results import FinishedRun
from ccmix.papers import score_text, text
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
SHORTLY = {
    Judgement.FAILS: ("does not", "do not"),
    Judgement.UNTOLD: VERBS[Judgement.UNTOLD],
    Judgement.UNMEASURED: VERBS[Judgement.UNMEASURED],
}  # after the statements that hold
MEETING = {
    Judgement.HOLDS: ("is as near as was asked", "are as near as was asked"),
    Judgement.FAILS: ("is not as near", "are not as near"),
    Judgement.UNTOLD: ("cannot be told", "cannot be told"),
}  # of one comparison and of several


@dataclass(frozen=True)
class Reproduction:
    """Holds an experiment with its scores and its judged statements."""

    experiment: Experiment
    scores: tuple[Score, ...]
    statements: tuple[JudgedStatement, ...]
    runs: int  # that count
    not_settled: int  # of these

    @property
    def short(self) -> str:
        """Returns '6 of 8 statements hold, 1 more with a setting that was tried; 5 of 18 comparisons met'."""
        holding, met = len(self.with_outcome(Judgement.HOLDS)), len(self.scores_with(Judgement.HOLDS))
        parts = []
        if self.statements:
            explained = sum(judged.holds_if_tried for judged in self.statements)
            more = f", {explained} more with a setting that was tried" if explained else ""
            of_all = text.counted(len(self.statements), "statement", "statements")
            parts.append(f"{holding} of {of_all} {'holds' if holding == 1 else 'hold'}{more}")
        if self.judged:
            explained = sum(score.met_if_tried for score in self.scores)
            more = f", {explained} more with a setting that was tried" if explained else ""
            parts.append(f"{met} of {text.counted(self.judged, 'comparison', 'comparisons')} met{more}")
        return "; ".join(parts)

    @property
    def sentence(self) -> str:
        """Returns '6 of the paper's 8 statements hold in the lab and 2 do not; of 4 comparisons ... 3 are near ...'."""
        return text.begun("; ".join(filter(None, [self._on_statements(), self._on_scores()]))) + "."

    def _on_statements(self) -> str:
        count = len(self.statements)
        if count == 1:
            return f"the paper's statement {VERBS[self.statements[0].outcome][0]} in the lab"
        parts = [_verb(SHORTLY, outcome, len(such)) for outcome in SHORTLY if (such := self.with_outcome(outcome))]
        holding = len(self.with_outcome(Judgement.HOLDS))
        if holding == count:
            return f"all {count} statements of the paper hold in the lab" if count else ""
        first = f"{holding} of the paper's {count} statements {VERBS[Judgement.HOLDS][holding != 1]} in the lab"
        return text.listed([first, *parts])

    def _on_scores(self) -> str:
        parts = [_verb(MEETING, outcome, len(such)) for outcome in MEETING if (such := self.scores_with(outcome))]
        count = text.counted(self.judged, "comparison", "comparisons")
        return f"of {count} with published numbers {text.listed(parts)}" if parts else ""

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
        why = self.experiment.unsettled or "they count as they were when the longest time was over that they have"
        have = "has" if self.not_settled == 1 else "have"
        return f"{self.not_settled} of {self.runs} runs {have} not settled: {why}."

    def _of_statements(self) -> Iterator[str]:
        """Yields 'Of 4 statements 2 hold, 1 of these measured in part.' and '1 does not hold: fair-at-300-ms.'."""
        if not self.statements:
            return
        holding = self.with_outcome(Judgement.HOLDS)
        partly = sum(judged.judged.measured < len(judged.bounds) for judged in holding)
        part = f", {partly} of these measured in part" if partly else ""
        count = text.counted(len(self.statements), "statement", "statements")
        yield f"Of {count} {_verb(VERBS, Judgement.HOLDS, len(holding))}{part}."
        for outcome in (Judgement.FAILS, Judgement.UNTOLD, Judgement.UNMEASURED):
            if such := self.with_outcome(outcome):
                yield f"{_verb(VERBS, outcome, len(such))}: {', '.join(map(_named, such))}."

    def _of_scores(self) -> Iterator[str]:
        """Yields 'Of 3 comparisons ... 1 meets the criterion.' and '1 cannot be told: goodput ... (...).'."""
        if not self.judged:
            return
        count = text.counted(self.judged, "comparison", "comparisons")
        met = _verb(MEETING, Judgement.HOLDS, len(self.scores_with(Judgement.HOLDS)))
        yield f"Of {count} with published numbers {met}."
        for outcome in (Judgement.FAILS, Judgement.UNTOLD):
            if such := self.scores_with(outcome):
                yield f"{_verb(MEETING, outcome, len(such))}: {'; '.join(map(_compared, such))}."

    @property
    def judged(self) -> int:
        """Returns how many scores have a criterion."""
        return sum(score.judged for score in self.scores)

    def with_outcome(self, outcome: Judgement) -> list[JudgedStatement]:
        return [judged for judged in self.statements if judged.outcome is outcome]

    def scores_with(self, outcome: Judgement) -> list[Score]:
        return score_text.with_outcome(self.scores, outcome)


def _verb(words: dict[Judgement, tuple[str, str]], outcome: Judgement, count: int) -> str:
    """Returns '1 holds' or '0 hold'."""
    one, several = words[outcome]
    return f"{count} {one if count == 1 else several}"


def _named(judged: JudgedStatement) -> str:
    """Returns the statement's name, with why it cannot be told and what was found by other settings in brackets."""
    why = "; ".join(filter(None, [text.why_untold(judged.judged), text.explained(judged)]))
    return judged.statement.name + (f" ({why})" if why else "")


def _compared(score: Score) -> str:
    """Returns what is compared, with why the criterion is not met or cannot be told."""
    return f"{score_text.title(score)} ({score_text.why_not_met(score) or score_text.why_untold(score)})"


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
