"""Writes the pages on all experiments from their packed archives: an overview, a page per paper,
their charts and tables of cells. Nothing on them is typed by hand.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ccmix.analysis.results import Results, load_results
from ccmix.archive import Campaign
from ccmix.archive.packed import opened
from ccmix.charts.draw import svg
from ccmix.papers import score_text, text
from ccmix.papers.drawing import DrawnFigure, drawn, year
from ccmix.papers.experiment import (
    ALTERNATIVES,
    Experiment,
    Figure,
    MapRow,
    Maps,
    Of,
    OverBuffer,
    PaperTable,
    PaperTableColumn,
    PaperTableLine,
    Plots,
    published_series,
    quantities,
    sources,
)
from ccmix.papers.figure_data import UTILISATION, Material, map_cells, points_over_buffer
from ccmix.papers.forms import FORMS, costs, made_by, planned, real_s
from ccmix.papers.judging import JudgedStatement, MeasuredRuns
from ccmix.papers.outcome import Reproduction, reproduction
from ccmix.papers.reading import EXPERIMENTS, read_published
from ccmix.papers.scores import APART, TRIVIAL, Score
from ccmix.text.tables import Cell, csv_text
from ccmix.text.words import capitalised, listed, text_templates
from ccmix.units import format_count

ANY_SEED = 1  # the plan's conditions are the same with each
CORES = 2  # of the machine whose times the page gives
IMAGES = "images/papers"  # below docs
WHYS = {
    "datta-fund": "A published testbed in the lab",
    "sender-queue": "The sender's queue",
    "cca": "BBRv2 and BBRv3 compared with Google's",
    "gomez-path": "Settings in the scripts of Gomez et al.",
}  # titles of pages of docs/explanation
DIGITS = 6  # of numbers in tables of cells
MOST_SHOWN = 16  # rows of a table that is not folded
WIDTH = 100
AS_THEY_ARE = ("|", "#", "<")  # lines of tables, headings and HTML
MARKS = "abcdefgh"  # of cells that were measured in part
TEXT_ALONE = (
    "Only the text about this figure is available, not its numbers, so only the lab's are drawn."
)
NOT_THERE = "This figure is not in the paper: only the lab's numbers are drawn."
_COUNTED = re.compile(r"\b(clip|gradient_)\d+\b")


@dataclass(frozen=True)
class Page:
    """Holds the overview, and by their files' names the pages of papers, charts and CSV tables."""

    text: str
    papers: dict[str, str]
    charts: dict[str, str]
    tables: dict[str, str]


@dataclass(frozen=True)
class TableCells:
    """Holds a table of a paper; `in_part` has the marks of cells that were measured only in part,
    by a text on the measured part.
    """

    head: list[str]
    rows: list[list[str]]
    in_part: dict[str, str]


@dataclass(frozen=True)
class ShownFigure:
    """Holds a figure as a picture or a table, a sentence on the result, and the scores that belong
    to it.
    """

    figure: Figure
    drawing: DrawnFigure | TableCells
    file: str  # of the picture
    sentence: str
    scores: list[Score]


@dataclass(frozen=True)
class Made:
    """Holds an experiment that has an archive, with its results."""

    reproduction: Reproduction
    results: Results
    material: Material
    archive: str  # file name

    @property
    def experiment(self) -> Experiment:
        return self.reproduction.experiment

    @property
    def campaign(self) -> Campaign:
        [campaign] = self.results.campaigns
        return campaign

    @property
    def command(self) -> str:
        """Returns the command that makes the archive again."""
        return made_by(self.experiment.name, self.campaign)

    @property
    def versions(self) -> list[str]:
        """Returns the versions of ccmix that made the runs."""
        executions = (result.finished.execution for result in self.results.runs)
        return list(
            dict.fromkeys(
                str(execution.ccmix or self.campaign.origin.ccmix) for execution in executions
            )
        )

    @property
    def explanations(self) -> str:
        """Returns links to the pages that explain differences."""
        return listed(
            [f"[{WHYS[name]}](../explanation/{name}.md)" for name in self.experiment.whys]
        )

    @cached_property
    def figures(self) -> list[ShownFigure]:
        """Returns the figures for which the lab has a number; a score belongs to the first figure
        that shows it.
        """
        shown: list[ShownFigure] = []
        left = list(self.reproduction.scores)
        pictures = 0
        for figure in self.experiment.figures:
            if isinstance(figure, PaperTable):
                drawing: TableCells | DrawnFigure | None = paper_table(figure, self.material)
            else:
                drawing = drawn(figure, self.experiment.paper, self.material)
            if drawing is None:
                continue
            pictures += isinstance(drawing, DrawnFigure)
            scores = scores_of(figure, left)
            left = [score for score in left if score not in scores]
            said = sentence(figure, scores, self.material)
            shown.append(
                ShownFigure(figure, drawing, f"{self.experiment.name}-{pictures}.svg", said, scores)
            )
        return shown

    @property
    def further_scores(self) -> list[Score]:
        """Returns the scores that belong to no figure."""
        shown = [score for figure in self.figures for score in figure.scores]
        return [score for score in self.reproduction.scores if score not in shown]

    @property
    def tables(self) -> dict[str, str]:
        """Returns the cells of all comparisons and the numbers of all statements as CSV, by the
        names of their files.
        """
        name = self.experiment.name
        rows = {
            f"{name}-cells.csv": list(cell_rows(self.reproduction.scores)),
            f"{name}-numbers.csv": list(number_rows(self.reproduction.statements)),
        }
        return {file: csv_text(table) for file, table in rows.items() if len(table) > 1}

    @property
    def listed_tables(self) -> list[tuple[str, str]]:
        """Returns the names of these files, each with its contents in words."""
        whats = {"cells": "all cells", "numbers": "each number with its interval"}
        return [(file, whats[Path(file).stem.rpartition("-")[2]]) for file in self.tables]

    @cached_property
    def charts(self) -> dict[str, str]:
        """Returns the pictures as SVG by the names of their files."""
        return {
            shown.file: _numbered_anew(svg(shown.drawing.spec))
            for shown in self.figures
            if isinstance(shown.drawing, DrawnFigure)
        }


def page(archives: Path) -> Page:
    """Returns the pages of all experiments that have a packed archive in the folder. Raises
    ArchiveError.
    """
    files = {experiment.name: archives / f"{experiment.name}.zip" for experiment in EXPERIMENTS}
    made = {
        each.name: _made(each, files[each.name])
        for each in EXPERIMENTS
        if files[each.name].exists()
    }
    forms = {experiment.name: costs(experiment, ANY_SEED, CORES) for experiment in EXPERIMENTS}
    charts = {name: drawing for each in made.values() for name, drawing in each.charts.items()}
    tables = {name: table for each in made.values() for name, table in each.tables.items()}
    templates = text_templates("ccmix.papers")
    overview = templates.get_template("page.md.j2").render(
        **NAMES,
        experiments=EXPERIMENTS,
        made=made,
        times={
            name: {form: text.hours(real_s([of], form)) for form in FORMS}
            for name, of in forms.items()
        },
        all_times={form: text.hours(real_s(forms.values(), form)) for form in FORMS},
    )
    papers = {
        f"{paper.author}.md": wrapped(
            templates.get_template("paper.md.j2").render(
                **NAMES,
                paper=paper,
                made=[each for each in made.values() if each.experiment.paper == paper],
            )
        )
        for paper in dict.fromkeys(each.experiment.paper for each in made.values())
    }
    return Page(wrapped(overview), papers, charts, tables)


def _made(experiment: Experiment, file: Path) -> Made:
    with opened([file]) as folders:
        results = load_results(folders.folders)
    material = Material(
        tuple(read_published(experiment.name)),
        MeasuredRuns(tuple(result.finished for result in results.runs if result.valid)),
        planned(experiment.name, ANY_SEED, full=True),
    )
    return Made(reproduction(experiment, results.runs), results, material, file.name)


def _numbered_anew(drawing: str) -> str:
    """Returns the SVG with clipping paths and gradients numbered from 0: Vega counts them over all
    drawings of a process.
    """
    numbers: dict[str, int] = {}
    return _COUNTED.sub(
        lambda name: f"{name[1]}{numbers.setdefault(name[0], len(numbers))}", drawing
    )


def scores_of(figure: Figure, scores: Sequence[Score]) -> list[Score]:
    """Returns the scores that belong to a figure: those of its quantities, and of its pairs of
    series and entry.
    """
    pairs = sources(figure)
    return [
        score
        for score in scores
        if score.comparison.quantity in quantities(figure)
        and (score.comparison.series, score.comparison.entry) in pairs
    ]


def sentence(figure: Figure, scores: Sequence[Score], material: Material) -> str:
    """Describes the result of a figure by its scores, if they are not on the page already."""
    if scores:
        return score_text.sentence(scores)
    if not published_series(figure):
        return NOT_THERE if isinstance(figure, Plots) and figure.ours else TEXT_ALONE
    match figure:
        case Maps():
            return (
                "Range over the cells that both have: "
                f"{'; '.join(_both(figure, row, material) for row in figure.rows)}."
            )
        case OverBuffer():
            points = [
                point
                for point in points_over_buffer(figure, material)
                if point.number == UTILISATION
            ]
            published = sum(point.published for point in points)
            own = len(points) - published
            return (
                f"The figure has {published} published utilisations and {own} of the lab, with "
                "gains and retransmissions."
            )
        case _:
            return "The scores of these numbers are above."


def _both(figure: Maps, row: MapRow, material: Material) -> str:
    """Returns the ranges of a map and of the lab's over the cells that both have."""
    there, here = (
        map_cells(figure, row, material, published=published) for published in (True, False)
    )
    pairs = [
        (cell.value, own.value)
        for cell, own in zip(there, here, strict=True)
        if cell.value is not None and own.value is not None
    ]
    what = f"gain of {row.cca} over {row.over}" if row.over else row.cca
    if not pairs:
        return f"{what}, none"
    published, lab = (_range(figure, row, [pair[side] for pair in pairs]) for side in (0, 1))
    cells = format_count(len(pairs), "cell")
    return f"{what} in {cells}, {published} published ({row.series}) and {lab} in the lab"


def _range(figure: Maps, row: MapRow, values: Sequence[float]) -> str:
    if not row.over:
        return " to ".join(
            text.of_quantity(figure.quantity, value) for value in (min(values), max(values))
        )
    least, most = (
        round(value, 2) + 0.0 for value in (min(values), max(values))
    )  # + 0.0: no minus before a zero
    return f"{least:+,.0%} to {most:+,.0%}"


def paper_table(figure: PaperTable, material: Material) -> TableCells:
    """Returns a table in the paper's layout, whose cells are 'published / lab'."""
    in_part: dict[str, str] = {}
    rows = [
        [*line.heads, *(_cell(line, column, material, in_part) for column in figure.columns)]
        for line in figure.lines
    ]
    return TableCells([*figure.heads, *(column.head for column in figure.columns)], rows, in_part)


def _cell(
    line: PaperTableLine, column: PaperTableColumn, material: Material, in_part: dict[str, str]
) -> str:
    at = {**line.at, **column.at}
    of = Of(column.quantity, line.entry, column.cca, at=at)
    published = material.published_at(line.series, column.cca, column.quantity, at)
    lab = material.runs.sample(of).mean
    mark = ""
    if lab is not None and (lacking := material.runs.lacking(of)):
        what = "; ".join(
            f"the lab measured only {key} {', '.join(there)} of "
            f"{at[key].replace(ALTERNATIVES, ', ')}"
            for key, there in lacking.items()
        )
        mark = f"<sup>{in_part.setdefault(what, MARKS[len(in_part)])}</sup>"
    return f"{_number(published, column)} / {_number(lab, column)}{mark}"


def _number(value: float | None, column: PaperTableColumn) -> str:
    return "–" if value is None else text.without_exponent(f"{value / column.unit_size:#.3g}")


def cell_rows(scores: Sequence[Score]) -> Iterator[tuple[Cell, ...]]:
    """Yields a head and a row for each cell of each comparison, in SI units."""
    yield ("comparison", "cell", "published", "lab", "factor", "lab with interval", "explained by")
    for score in scores:
        pairs = (*score.pairs, *score.partial)
        rows = score_text.cell_table(score, pairs)[1:]
        for pair, (cell, _, lab, *explained) in zip(pairs, rows, strict=True):
            numbers = (f"{each:.{DIGITS}g}" for each in (pair.value, pair.measured, pair.factor))
            yield score_text.title(score), cell, *numbers, lab, *(explained or [""])


def number_rows(statements: Sequence[JudgedStatement]) -> Iterator[tuple[Cell, ...]]:
    """Yields a head, and a row for each number of each statement, also for settings that were
    tried.
    """
    yield ("statement", "tried", "number", "limits", "lab", "outcome")
    for judged in statements:
        tries = ((each.setting, each.judged.bounds) for each in judged.explaining)
        for setting, bounds in (("", judged.bounds), *tries):
            for bound in bounds:
                yield (
                    judged.statement.name,
                    setting,
                    text.what(bound.bound.number),
                    text.limits(bound.bound),
                    text.seen(bound),
                    bound.outcome.value,
                )


def wrapped(markdown: str) -> str:
    """Returns the text with prose of at most WIDTH columns; tables, headings and HTML stay
    as they are.
    """
    blocks = ("\n".join(_lines(block)) for block in re.split(r"\n\n+", markdown))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _lines(block: str) -> Iterator[str]:
    prose: list[str] = []
    for line in block.splitlines():
        if line.startswith((*AS_THEY_ARE, "- ")):
            yield from _filled(prose)
            prose = []
        if line.startswith(AS_THEY_ARE):
            yield line
        else:
            prose.append(line)
    yield from _filled(prose)


def _filled(prose: Sequence[str]) -> list[str]:
    words = " ".join(prose).split()
    indent = "  " if words[:1] == ["-"] else ""
    return textwrap.wrap(
        " ".join(words),
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


NAMES = {
    "text": text,
    "score_text": score_text,
    "listed": listed,
    "capitalised": capitalised,
    "year": year,
    "apart": APART,
    "trivial": TRIVIAL,
    "cores": CORES,
    "images": IMAGES,
    "most_shown": MOST_SHOWN,
}
"""The names that templates use."""
