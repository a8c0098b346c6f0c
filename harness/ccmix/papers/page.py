"""Writes the page on all experiments from their packed archives, with its charts. Nothing on it is typed by hand."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccmix.analysis.results import Results, load_results
from ccmix.archive.packed import opened
from ccmix.charts.chart import Chart
from ccmix.charts.choose import choose
from ccmix.charts.draw import svg
from ccmix.papers import text
from ccmix.papers.experiment import Experiment
from ccmix.papers.ini_text import form
from ccmix.papers.judging import JudgedBound, JudgedStatement
from ccmix.papers.outcome import Reproduction, reproduction
from ccmix.papers.registry import EXPERIMENTS
from ccmix.papers.scores import APART, TRIVIAL, Score

WIDTH = 100  # of prose
_COUNTED = re.compile(r"\b(clip|gradient_)\d+\b")
MOST_PAIRS = 40  # of a comparison that are all listed; of more, those that are far off
MOST_FAR = 12
IMAGES = "images/papers"  # beside the page
INTRODUCTION = f"""\
# The papers, reproduced

Experiments of published papers, made again in the lab. `ccmix reproduce` lists them, and `ccmix reproduce NAME` makes
one of them. [Add a paper](howto/add-a-paper.md) says how one more is added. `python -m ccmix.papers` writes this page
from the archives in `archive/papers`, which `ccmix verify` repeats.

What counts was defined before any result was seen:

- A statement of a paper's text holds here if the 95% intervals of all its numbers are within its limits. It does not
  hold if one of these intervals is beyond them. Else it cannot be told, as from fewer than three runs. What a word such
  as "small" was taken for stands in brackets.
- Published numbers are compared by the median of |ln(lab / published)| and by Spearman's correlation of ranks;
  goodputs also by how many cells have utilisations at most {APART} apart. Beside the lab stands the trivial prediction,
  {TRIVIAL} times the rate: what it gets right too is easy. Where the same cells were published of a second kernel, it
  stands there, too, as a ceiling: no nearer can the lab be expected to come.
- A cell that is off by more than its factor is explained if it is not with another setting, which was tried to find
  out why. Such settings explain, and count in no score.
- A statement that does not hold is a result, and no reason to tune.
"""


@dataclass(frozen=True)
class Page:
    """Holds the text of the page, and its charts by their files' names."""

    text: str
    charts: dict[str, str]


@dataclass(frozen=True)
class Made:
    """Holds an experiment whose archive is there, with what came of it."""

    reproduction: Reproduction
    results: Results
    archive: str  # file name

    @property
    def experiment(self) -> Experiment:
        return self.reproduction.experiment


def page(archives: Path) -> Page:
    """Returns the page of all experiments that have a packed archive in the folder. Raises ArchiveError."""
    parts, rows = [INTRODUCTION], []
    charts: dict[str, str] = {}
    for experiment in EXPERIMENTS:
        file = archives / f"{experiment.name}.zip"
        if not file.exists():
            rows.append((experiment.name, experiment.paper.author, experiment.shows, "not yet made"))
            continue
        with opened([file]) as folders:
            results = load_results(folders.folders)
            made = Made(reproduction(experiment, results.runs), results, file.name)
            drawn = list(_charts(made))
            charts |= {name: _numbered_anew(svg(chart.spec)) for name, chart in drawn}
        link = f"[{experiment.name}](#{experiment.name})"
        rows.append((link, experiment.paper.author, experiment.shows, made.reproduction.verdict))
        parts.append("\n".join(_section(made, drawn)) + "\n")
    parts.insert(1, "\n".join(_table(("experiment", "first author", "shows", "outcome"), rows)) + "\n")
    return Page("\n".join(_wrapped(part) for part in parts), charts)


def _numbered_anew(drawing: str) -> str:
    """Returns an SVG whose clipping paths and gradients are numbered from 0: Vega counts them over all drawings of a
    process.
    """
    numbers: dict[str, int] = {}
    return _COUNTED.sub(lambda name: f"{name[1]}{numbers.setdefault(name[0], len(numbers))}", drawing)


def _charts(made: Made) -> Iterator[tuple[str, Chart]]:
    """Yields each chart with its file's name."""
    experiment = made.experiment
    chosen = choose(made.results, experiment.charts, axes=experiment.axes)
    for number, chart in enumerate(chosen.charts, start=1):
        yield f"{experiment.name}-{number}.svg", chart


def _section(made: Made, charts: Sequence[tuple[str, Chart]]) -> Iterator[str]:
    experiment = made.experiment
    yield f"## {experiment.name}"
    yield f"{_begun(experiment.shows)} of [{experiment.paper.citation}]({experiment.paper.link})."
    yield f"{experiment.question} {_made_how(made)} {made.reproduction.settling}\n"
    for score in made.reproduction.scores:
        yield from _score(score)
    for name, chart in charts:
        yield f"![{chart.title}]({IMAGES}/{name})\n"
    if made.reproduction.statements:
        yield from _statements(made.reproduction)
    yield f"\nVerdict: {made.reproduction.verdict}"


def _begun(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _made_how(made: Made) -> str:
    [campaign] = made.results.campaigns
    name, origin = made.experiment.name, campaign.origin
    forms = {form(name, full=full): full for full in (True, False)}
    how = {True: f"`ccmix reproduce {name} --full`", False: f"`ccmix reproduce {name}`"}
    ini = f"[configs/papers/{name}.ini](../configs/papers/{name}.ini)"
    command = how[forms[campaign.ini]] if campaign.ini in forms else "An older form of the experiment"
    return (
        f"{command} made {made.reproduction.runs} of {made.results.planned} runs that count, seed {origin.seed}, ccmix "
        f"{origin.ccmix}. {ini} has every setting with its source, "
        f"[{made.archive}](../archive/papers/{made.archive}) the runs."
    )


def _score(score: Score) -> Iterator[str]:
    yield f"{_begun(text.title(score))}, {text.cells(score)}. Asked: {text.met(score)}.\n"
    if rows := list(text.score_rows(score)):
        yield from _table(text.SCORES, rows)
        yield ""
    listed = (*score.pairs, *score.partial) if len(score.pairs) <= MOST_PAIRS else score.far[:MOST_FAR]
    if listed:
        if len(listed) < len(score.pairs):
            yield f"{len(score.far)} cells are off by more than that:\n"
        head, *cells = text.cell_rows(score, listed)
        yield from _table(head, cells)
        yield ""
    if sentence := text.unexplained(score):
        yield f"{sentence}\n"


def _statements(made: Reproduction) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    for judged in made.statements:
        statement = judged.statement
        reading = f" ({statement.reading})" if statement.reading else ""
        said = f"`{statement.name}`: {statement.sentence}{reading}"
        rows.append((statement.section, said, "", "", _outcome(judged)))
        rows += [_bound(each) for each in judged.bounds]
        rows += [_bound(each, tried.setting) for tried in judged.explaining for each in tried.judged.bounds]
    yield from _table(("section", "statement", "limits", "lab", "outcome"), rows)


def _outcome(judged: JudgedStatement) -> str:
    return "; ".join(filter(None, [f"**{text.outcome(judged.judged)}**", text.explained(judged)]))


def _bound(judged: JudgedBound, setting: str = "") -> tuple[str, ...]:
    what = (f"tried {setting}: " if setting else "") + text.what(judged.bound.number)
    return "", what, text.limits(judged.bound), text.seen(judged), judged.outcome.value


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', 'or') for cell in row)} |"


def _wrapped(markdown: str) -> str:
    """Returns the text with prose of at most WIDTH columns; tables, headings and images stay as they are."""
    lines: list[str] = []
    for block in markdown.split("\n\n"):
        if block.lstrip().startswith(("|", "#", "![", "-")):
            lines.append("\n".join(_wrapped_lines(block)))
        else:
            lines.append(textwrap.fill(" ".join(block.split()), WIDTH, break_long_words=False, break_on_hyphens=False))
    return "\n\n".join(lines) + "\n"


def _wrapped_lines(block: str) -> Iterator[str]:
    """Yields the lines of a block of which some are items, headings or rows of tables."""
    prose: list[str] = []
    for line in block.splitlines():
        if line.startswith(("|", "#", "![", "- ")):
            yield from _filled(prose)
            prose = []
        if line.startswith(("|", "#", "![")):
            yield line
        else:
            prose.append(line)
    yield from _filled(prose)


def _filled(prose: Sequence[str]) -> list[str]:
    if not prose:
        return []
    indent = "  " if prose[0].startswith("- ") else ""
    return textwrap.wrap(
        " ".join(line.strip() for line in prose), WIDTH, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
