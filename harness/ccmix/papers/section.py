"""Writes the page's section on an experiment: what came of it, its figures, and the statements of the text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ccmix.analysis.results import Results
from ccmix.charts.draw import svg
from ccmix.papers import figure_text, score_text, text
from ccmix.papers.experiment import Experiment
from ccmix.papers.figure import Figure, PaperTable
from ccmix.papers.figure_data import Material
from ccmix.papers.figure_drawing import drawn
from ccmix.papers.judging import JudgedBound, JudgedStatement, Judgement
from ccmix.papers.made_by import made_by
from ccmix.papers.markdown import table, to_open
from ccmix.papers.outcome import Reproduction
from ccmix.papers.paper_table import paper_table
from ccmix.papers.scores import Score

MOST_PAIRS = 40  # of a comparison that are all listed; of more, those that are far off
MOST_FAR = 12
IMAGES = "images/papers"  # beside the page
WHYS = {
    "datta-fund": "A published testbed in the lab",
    "sender-queue": "The sender's queue",
    "cca": "BBRv2 and BBRv3 beside Google's",
    "gomez-path": "What the scripts of Gomez et al. set",
}  # titles of pages of docs/explanation


@dataclass(frozen=True)
class Made:
    """Holds an experiment whose archive is there, with what came of it."""

    reproduction: Reproduction
    results: Results
    material: Material
    archive: str  # file name

    @property
    def experiment(self) -> Experiment:
        return self.reproduction.experiment


@dataclass(frozen=True)
class PaperSection:
    """Holds the text of a section, and its charts by their files' names."""

    text: str
    charts: dict[str, str]


def section(made: Made) -> PaperSection:
    """Returns the section on an experiment."""
    charts: dict[str, str] = {}
    lines = [*_head(made), *_figures(made, charts), *_statements(made.reproduction)]
    return PaperSection("\n".join(lines) + "\n", charts)


def _head(made: Made) -> Iterator[str]:
    """Yields what came of the experiment, before any table, and how it was made."""
    experiment = made.experiment
    yield f"## {experiment.name}"
    yield f"{made.reproduction.sentence}\n"
    items = list(_items(made.reproduction))
    if items:
        yield "\n".join(items) + "\n"
    yield (
        f"{text.begun(experiment.shows)} of [{experiment.paper.citation}]({experiment.paper.link}). "
        f"{experiment.question} {_made_how(made)} {made.reproduction.settling} {_whys(experiment)}\n"
    )


def _items(made: Reproduction) -> Iterator[str]:
    """Yields items on the statements: those that hold together, each of the others with what was found."""
    for whole, begin in ((True, "Holds"), (False, "Holds as far as it was measured")):
        holding = [
            f"“{judged.statement.sentence}”"
            for judged in made.with_outcome(Judgement.HOLDS)
            if (judged.judged.measured == len(judged.bounds)) is whole
        ]
        if holding:
            yield f"- {begin}: {' '.join(holding)}"
    unmeasured = made.with_outcome(Judgement.UNMEASURED)
    differing = [*made.with_outcome(Judgement.FAILS), *made.with_outcome(Judgement.UNTOLD)]
    yield from map(_differing, (*differing, *(judged for judged in unmeasured if judged.tried)))
    if rest := [f"“{judged.statement.sentence}”" for judged in unmeasured if not judged.tried]:
        yield f"- Not measured: {' '.join(rest)}"


def _differing(judged: JudgedStatement) -> str:
    """Returns an item on a statement that does not hold, cannot be told or was not measured: what it says, what was
    found, and why.
    """
    statement = judged.statement
    source = "; ".join(filter(None, [statement.reading, text.section(statement)]))
    measured = f"; the lab: {text.found(judged.bounds)}" if judged.judged.measured else ""
    numbers = f"Asked: {text.asked(judged)}{measured}"
    why = "; ".join(filter(None, [text.why_untold(judged.judged), text.explained(judged)]))
    said = f"{text.begun(text.outcome(judged.judged))}: “{statement.sentence}” ({source})."
    return f"- {said} {numbers}{f'; {why}' if why else ''}."


def _whys(experiment: Experiment) -> str:
    links = text.listed([f"[{WHYS[name]}](explanation/{name}.md)" for name in experiment.whys])
    return f"More on what differs: {links}." if links else ""


def _made_how(made: Made) -> str:
    [campaign] = made.results.campaigns
    name, origin = made.experiment.name, campaign.origin
    executions = [result.finished.execution for result in made.results.runs]
    versions = dict.fromkeys(str(execution.ccmix or origin.ccmix) for execution in executions)
    return (
        f"{made_by(name, campaign)} made {made.reproduction.runs} of {made.results.planned} runs that count, seed "
        f"{origin.seed}, ccmix {text.listed([*versions])}. [configs/papers/{name}.ini](../configs/papers/{name}.ini) "
        f"has every setting with its source, [{made.archive}](../archive/papers/{made.archive}) the runs."
    )


def _figures(made: Made, charts: dict[str, str]) -> Iterator[str]:
    """Yields the figures with their scores; those of no figure come last."""
    left = list(made.reproduction.scores)
    for figure in made.experiment.figures:
        shown = list(_shown(figure, made, charts))
        if not shown:
            continue
        scores = figure_text.scores_of(figure, left)
        left = [score for score in left if score not in scores]
        yield f"### {figure.name}: {figure.title}"
        yield f"{figure_text.sentence(figure, scores, made.material)}\n"
        yield from shown
        yield from _scores(scores)
    if left:
        yield "### Further numbers"
        yield f"{score_text.sentence(left)}\n"
        yield from _scores(left)


def _shown(figure: Figure, made: Made, charts: dict[str, str]) -> Iterator[str]:
    """Yields the picture with its caption, or the table; nothing where the lab has measured nothing of it."""
    if isinstance(figure, PaperTable):
        yield from paper_table(figure, made.material)
    elif picture := drawn(figure, made.experiment.paper, made.material):
        name = f"{made.experiment.name}-{len(charts) + 1}.svg"
        charts[name] = svg(picture.spec)
        yield f"![{picture.alt_text}]({IMAGES}/{name})\n"
        yield f"*{picture.caption}*\n"


def _scores(scores: Sequence[Score]) -> Iterator[str]:
    """Yields a table of the scores, and the cells to open."""
    if not scores:
        return
    rows: list[tuple[str, ...]] = []
    for score in scores:
        named = (score_text.title(score), score_text.cells(score), score_text.asked(score), score_text.met(score))
        first, *others = list(score_text.score_rows(score)) or [("lab", *("–",) * len(score_text.LIKENESS))]
        rows.append((*named[:2], *first, *named[2:]))
        rows += [("", "", *other, "", "") for other in others]
    yield from table(("comparison", "cells", "", *score_text.LIKENESS, "asked", "outcome"), rows)
    lines = [line for score in scores for line in _cells(score)]
    if lines:
        yield from to_open("The cells", lines)


def _cells(score: Score) -> Iterator[str]:
    listed = (*score.pairs, *score.partial) if len(score.pairs) <= MOST_PAIRS else score.far[:MOST_FAR]
    if not listed:
        return
    yield f"{text.begun(score_text.title(score))}:\n"
    head, *rows = score_text.without_empty([score_text.CELLS, *score_text.cell_rows(score, listed)])
    yield from table(head, rows)
    if unexplained := score_text.unexplained(score):
        yield f"{unexplained}\n"


def _statements(made: Reproduction) -> Iterator[str]:
    """Yields a line for each statement, and all of their numbers to open."""
    if not made.statements:
        return
    yield "### Statements of the text"
    rows = [
        (judged.statement.section, _said(judged), text.asked(judged), text.found(judged.bounds), _outcome(judged))
        for judged in made.statements
    ]
    each = list(table(("section", "statement", "asked", "the lab's means", "outcome"), rows))
    yield from each if len(rows) <= MOST_SHOWN else to_open(f"All {len(rows)} statements", each)
    numbers = [row for judged in made.statements for row in _numbers(judged)]
    yield from to_open("Each number with its interval", list(table(NUMBERS, numbers)))


def _said(judged: JudgedStatement) -> str:
    statement = judged.statement
    return f"`{statement.name}`: {statement.sentence}{f' ({statement.reading})' if statement.reading else ''}"


def _outcome(judged: JudgedStatement) -> str:
    why = [text.why_untold(judged.judged), text.explained(judged)]
    return "; ".join(filter(None, [f"**{text.outcome(judged.judged)}**", *why]))


MOST_SHOWN = 16  # rows of a table that is not to be opened
NUMBERS = ("statement", "number", "limits", "lab", "outcome")


def _numbers(judged: JudgedStatement) -> Iterator[tuple[str, ...]]:
    name = f"`{judged.statement.name}`"
    yield from (_number(name, each) for each in judged.bounds)
    yield from (_number(name, each, tried.setting) for tried in judged.explaining for each in tried.judged.bounds)


def _number(name: str, judged: JudgedBound, setting: str = "") -> tuple[str, ...]:
    what = (f"tried {setting}: " if setting else "") + text.what(judged.bound.number)
    return name, what, text.limits(judged.bound), text.seen(judged), judged.outcome.value
