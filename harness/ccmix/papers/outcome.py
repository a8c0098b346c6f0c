"""Formats the result of repeating a paper: scores against its numbers, and judged statements."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ccmix.analysis.cost import Cost
from ccmix.analysis.counting import not_settled
from ccmix.analysis.results import Result
from ccmix.model import Topology
from ccmix.model.results import FinishedRun
from ccmix.papers import score_text, text
from ccmix.papers.experiment import Experiment
from ccmix.papers.judging import JudgedStatement, Judgement, judge
from ccmix.papers.measuring import MeasuredRuns
from ccmix.papers.reading import read_published
from ccmix.papers.scores import Score, scores
from ccmix.text.tables import aligned
from ccmix.text.words import text_templates
from ccmix.units import format_bytes, format_count

MOST_PAIRS = 80  # of a comparison that are printed
VERBS = {
    Judgement.HOLDS: ("holds", "hold"),
    Judgement.FAILS: ("does not hold", "do not hold"),
    Judgement.UNDECIDED: ("is undecided", "are undecided"),
    Judgement.UNMEASURED: ("was not measured", "were not measured"),
}  # for one statement and for several
MEETING = {
    Judgement.HOLDS: ("meets its criterion", "meet their criterion"),
    Judgement.FAILS: ("does not meet its criterion", "do not meet their criterion"),
    Judgement.UNDECIDED: ("is undecided", "are undecided"),
}  # for one comparison and for several


@dataclass(frozen=True)
class Reproduction:
    """Holds the result of an experiment: a score for each comparison with published numbers, and
    the judged statements of the paper.
    """

    experiment: Experiment
    scores: tuple[Score, ...]
    statements: tuple[JudgedStatement, ...]
    runs: int  # valid runs
    not_settled: int  # valid runs that have not settled

    @property
    def verdict(self) -> str:
        """Sums up the result for the terminal: how many statements hold, how many comparisons meet
        their criterion, and the names of all other statements and comparisons, with the reasons.
        """
        return " ".join([*self._statement_sentences(), *self._score_sentences()])

    @property
    def settling(self) -> str:
        """Returns a sentence on the runs that have not settled (their goodput was still changing at
        the end); '' if there are none, or if this can't be judged.
        """
        if not self.not_settled:
            return ""
        why = self.experiment.unsettled or "their results at the end of the maximum duration count"
        have = "has" if self.not_settled == 1 else "have"
        return f"{self.not_settled} of {self.runs} runs {have} not settled: {why}."

    def _statement_sentences(self) -> Iterator[str]:
        """Yields the sentences of the verdict on the paper's statements: 'Of 4 statements 2 hold, 1
        of these measured in part.' and '1 does not hold: fair-at-300-ms.'.
        """
        if not self.statements:
            return
        holding = self.with_outcome(Judgement.HOLDS)
        partly = sum(judged.judged.in_part for judged in holding)
        part = f", {partly} of these measured in part" if partly else ""
        count = format_count(len(self.statements), "statement")
        yield f"Of {count} {with_verb(VERBS, Judgement.HOLDS, len(holding))}{part}."
        for outcome in (Judgement.FAILS, Judgement.UNDECIDED, Judgement.UNMEASURED):
            if such := self.with_outcome(outcome):
                yield f"{with_verb(VERBS, outcome, len(such))}: {', '.join(map(_named, such))}."

    def _score_sentences(self) -> Iterator[str]:
        """Yields the verdict's sentences on comparisons with published numbers: 'Of 3 comparisons
        ... 1 meets its criterion.' and '1 is undecided: goodput ... (...).'.
        """
        if not self.judged:
            return
        count = format_count(self.judged, "comparison")
        met = with_verb(MEETING, Judgement.HOLDS, len(self.scores_with(Judgement.HOLDS)))
        yield f"Of {count} with published numbers {met}."
        for outcome in (Judgement.FAILS, Judgement.UNDECIDED):
            if such := self.scores_with(outcome):
                named = "; ".join(map(_compared, such))
                yield f"{with_verb(MEETING, outcome, len(such))}: {named}."

    @property
    def judged(self) -> int:
        """Returns how many comparisons with published numbers have a criterion to judge them by."""
        return sum(score.judged for score in self.scores)

    def with_outcome(self, outcome: Judgement) -> list[JudgedStatement]:
        """Returns the statements whose judgement has this outcome."""
        return [judged for judged in self.statements if judged.outcome is outcome]

    def scores_with(self, outcome: Judgement) -> list[Score]:
        """Returns the scores of the comparisons that have a criterion, and whose judgement has this
        outcome.
        """
        return score_text.with_outcome(self.scores, outcome)


def with_verb(words: dict[Judgement, tuple[str, str]], outcome: Judgement, count: int) -> str:
    """Returns a count with its verb in singular or plural, such as '1 holds' or '0 hold'. `words`
    maps each outcome to both forms of its verb.
    """
    one, several = words[outcome]
    return f"{count} {one if count == 1 else several}"


def _named(judged: JudgedStatement) -> str:
    """Returns the name of a statement for a list in the verdict. In brackets follow the reason why
    it is undecided, and the results of runs with other settings, if there are any.
    """
    why = text.reasons(judged)
    return judged.statement.name + (f" ({why})" if why else "")


def _compared(score: Score) -> str:
    """Returns the title of a comparison for a list in the verdict. In brackets follows the reason
    why its criterion is not met or is undecided.
    """
    return (
        f"{score_text.title(score)} "
        f"({score_text.why_not_met(score) or score_text.why_undecided(score)})"
    )


def reproduction(experiment: Experiment, results: Sequence[Result]) -> Reproduction:
    """Compares the valid runs of an experiment with the paper that it repeats: scores their numbers
    against the published ones, and judges the paper's statements.
    """
    valid = tuple(result.finished for result in results if result.valid)
    runs = MeasuredRuns(valid)
    made = scores(experiment.comparisons, read_published(experiment.name), runs, _rate_bps(valid))
    unsettled = sum(map(not_settled, valid))
    return Reproduction(
        experiment, tuple(made), tuple(judge(experiment.statements, runs)), len(valid), unsettled
    )


def _rate_bps(runs: Sequence[FinishedRun]) -> float | None:
    """Returns the rate of the bottleneck if all runs have the same one; otherwise, and without
    runs, None.
    """
    rates = {run.run.path.rate_bps for run in runs if isinstance(run.run.path, Topology)}
    return rates.pop() if len(rates) == 1 else None


def listing(costs: Iterable[tuple[Experiment, Mapping[str, Cost]]]) -> str:
    """Returns the table of experiments that `ccmix reproduce` shows if it is called without a name.
    Each experiment has a line for each of its forms (reduced, tried, full), with the number of
    runs, the times and the memory.
    """
    rows = [("name", "shows", "form", "runs", "virtual", "real", "memory")]
    for experiment, cost_by_form in costs:
        first_columns = (experiment.name, f"{experiment.paper.author}: {experiment.shows}")
        for form, cost in cost_by_form.items():
            rows.append((*first_columns, form, *_cost_columns(cost)))
            first_columns = ("", "")  # an experiment is named only in its first line
    return aligned(rows)


def _cost_columns(cost: Cost) -> tuple[str, str, str, str]:
    """Returns the texts for a table: number of runs, time in the lab, real time, and memory."""
    return (
        str(cost.runs),
        _time(cost.virtual_s),
        _time(cost.real_s),
        format_bytes(cost.memory_bytes),
    )


def _time(seconds: float) -> str:
    """Writes a duration in the form '1:23:45'."""
    return str(timedelta(seconds=round(seconds)))


def printed(made: Reproduction) -> str:
    """Returns the output of `ccmix reproduce NAME` after the runs: measured and published numbers
    side by side, each statement with its outcome, and at the end the verdict.
    """
    template = text_templates("ccmix.papers").get_template("terminal.txt.j2")
    return template.render(
        made=made, text=text, score_text=score_text, columns=aligned, most_pairs=MOST_PAIRS
    )
