"""Prints experiments and what came of them in the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from ccmix.analysis.cost import Cost
from ccmix.papers import score_text, text
from ccmix.papers.experiment import Experiment
from ccmix.papers.judging import JudgedBound, JudgedStatement
from ccmix.papers.outcome import Reproduction
from ccmix.papers.scores import Score
from ccmix.units import format_bytes

MOST_PAIRS = 80  # of a comparison that are listed


def listing(costs: Iterable[tuple[Experiment, Mapping[str, Cost]]]) -> str:
    """Returns for each experiment a line for each of its forms, with the cost."""
    rows = [("name", "shows", "form", "runs", "virtual", "real", "memory")]
    for experiment, of_forms in costs:
        begin = (experiment.name, f"{experiment.paper.author}: {experiment.shows}")
        for form, cost in of_forms.items():
            rows.append((*begin, form, *_cost(cost)))
            begin = ("", "")
    return _columns(rows)


def _cost(cost: Cost) -> tuple[str, str, str, str]:
    return str(cost.runs), _time(cost.virtual_s), _time(cost.real_s), format_bytes(cost.memory_bytes)


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def reproduction(made: Reproduction) -> str:
    """Returns measured beside published, each statement with its outcome, and last the verdict."""
    experiment = made.experiment
    parts = [
        f"{experiment.name}: {experiment.shows} of {experiment.paper.citation}\n",
        *map(_score, made.scores),
        *map(_statement, made.statements),
        f"{made.settling}\n".lstrip(),
        f"verdict: {made.verdict} ({made.runs} runs)\n",
    ]
    return "\n".join(filter(None, parts))


def _score(score: Score) -> str:
    pairs = score_text.cell_rows(score, (*score.pairs, *score.partial)[:MOST_PAIRS])
    cells = score_text.without_empty([score_text.CELLS, *pairs])
    rows = [("", *score_text.LIKENESS), *score_text.score_rows(score)]
    asked = f"{score_text.cells(score)}; asked: {score_text.asked(score)}"
    met = f": {score_text.met(score)}" if score.judged else ""
    last = f"{asked}{met}\n" + (score_text.unexplained(score) + "\n").lstrip()
    return f"{score_text.title(score)}\n{_columns(cells)}{_columns(rows)}{last}"


def _statement(judged: JudgedStatement) -> str:
    statement = judged.statement
    reading = f" ({statement.reading})" if statement.reading else ""
    bounds = [_bound(each) for each in judged.bounds]
    bounds += [_bound(each, tried.setting) for tried in judged.explaining for each in tried.judged.bounds]
    why = [text.why_untold(judged.judged), text.explained(judged)]
    outcome = "; ".join(filter(None, [text.outcome(judged.judged), *why]))
    head = f"{statement.name}: {outcome}\n  {text.section(statement)}: {statement.sentence}{reading}\n"
    return head + "".join(bounds)


def _bound(judged: JudgedBound, setting: str = "") -> str:
    what = (f"tried {setting}: " if setting else "") + text.what(judged.bound.number)
    return f"  {what}: {text.limits(judged.bound)}; here {text.seen(judged)}: {judged.outcome.value}\n"


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows
    )
