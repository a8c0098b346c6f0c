"""Writes the documentation's pages on all repeated papers from the archives of their runs.

There is an overview, and a page per paper, with charts and tables of cells. Nothing on them is
typed by hand.
"""

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ccmix.analysis.cost import Cost
from ccmix.analysis.results import Results, load_results
from ccmix.archive import Campaign
from ccmix.archive.packed import opened
from ccmix.charts.draw import svg
from ccmix.papers import score_text, text
from ccmix.papers.experiment import (
    ALTERNATIVES,
    Experiment,
    Figure,
    MapRow,
    Maps,
    OverBuffer,
    PaperTable,
    PaperTableColumn,
    PaperTableLine,
    Plots,
    RunNumber,
    published_series,
    quantities,
    sources,
)
from ccmix.papers.forms import FULL, REDUCED, TRIED, costs, planned
from ccmix.papers.judging import JudgedStatement
from ccmix.papers.measuring import MeasuredRuns
from ccmix.papers.outcome import Reproduction, reproduction
from ccmix.papers.reading import EXPERIMENTS, read_published
from ccmix.papers.scores import APART, TRIVIAL, Score
from ccmix.text.tables import Cell, csv_text
from ccmix.text.words import capitalised, listed, text_templates
from ccmix.units import format_count
from paper_pages import summaries
from paper_pages.drawing import DrawnFigure, drawn, year
from paper_pages.figure_data import UTILISATION, FigureData, map_cells, points_over_buffer

ANY_SEED = 1  # the plan's conditions are the same with each
CORES = 2  # of the machine whose times the page gives
IMAGES = "images/papers"  # below docs
WHYS = {
    "datta-fund": "A published testbed in the lab",
    "sender-queue": "The sender's queue",
    "cca": "BBRv2 and BBRv3 compared with Google's",
    "gomez-path": "Settings in the scripts of Gomez et al.",
}  # titles of pages of docs/explanation
FORMS = (REDUCED, TRIED, FULL)
OLDER = "An older form of the experiment"
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
    """Holds the text of all files that are written: the overview, and by file name the pages of
    papers (Markdown), the charts (SVG) and the tables (CSV).
    """

    text: str
    papers: dict[str, str]
    charts: dict[str, str]
    tables: dict[str, str]


@dataclass(frozen=True)
class TableCells:
    """Holds a table in the layout of the paper, as text. `in_part` maps a text on what was measured
    to the footnote mark ('a', 'b', ...) of the cells that were measured only in part.
    """

    head: list[str]
    rows: list[list[str]]
    in_part: dict[str, str]


@dataclass(frozen=True)
class ShownFigure:
    """Holds what the page shows of a figure: a picture or a table, a sentence on the result, and
    the scores of the comparisons whose numbers it shows.
    """

    figure: Figure
    drawing: DrawnFigure | TableCells
    file: str  # of the picture
    sentence: str
    scores: list[Score]


@dataclass(frozen=True)
class MeasuredExperiment:
    """Holds an experiment whose runs are in an archive, with their results. The properties are what
    the templates of the pages show of it.
    """

    reproduction: Reproduction
    results: Results
    data: FigureData
    archive: str  # file name

    @property
    def experiment(self) -> Experiment:
        """Returns the description of the experiment."""
        return self.reproduction.experiment

    @property
    def campaign(self) -> Campaign:
        """Returns the campaign in the archive, which has only one."""
        [campaign] = self.results.campaigns
        return campaign

    @property
    def command(self) -> str:
        """Returns the `ccmix reproduce` command that makes the runs of the archive again."""
        return made_by(self.experiment.name, self.campaign)

    @property
    def explanations(self) -> str:
        """Returns links (Markdown) to the pages that explain why the lab's results differ from the
        paper's.
        """
        return listed(
            [f"[{WHYS[name]}](../explanation/{name}.md)" for name in self.experiment.whys]
        )

    @cached_property
    def figures(self) -> list[ShownFigure]:
        """Returns the figures for which the lab has measured at least one number, in the order of
        the page. Each figure comes with the scores of the comparisons whose numbers it shows. If
        several figures show these numbers, the score is at the first of them.
        """
        shown: list[ShownFigure] = []
        remaining = list(self.reproduction.scores)  # scores that no figure shows yet
        pictures = 0
        for figure in self.experiment.figures:
            if isinstance(figure, PaperTable):
                drawing: TableCells | DrawnFigure | None = paper_table(figure, self.data)
            else:
                drawing = drawn(figure, self.experiment.paper, self.data)
            if drawing is None:
                continue
            pictures += isinstance(drawing, DrawnFigure)
            scores = scores_of(figure, remaining)
            remaining = [score for score in remaining if score not in scores]
            result = sentence(figure, scores, self.data)
            file = f"{self.experiment.name}-{pictures}.svg"
            shown.append(ShownFigure(figure, drawing, file, result, scores))
        return shown

    @property
    def further_scores(self) -> list[Score]:
        """Returns the scores of comparisons whose numbers no figure shows."""
        shown = [score for figure in self.figures for score in figure.scores]
        return [score for score in self.reproduction.scores if score not in shown]

    @cached_property
    def tables(self) -> dict[str, str]:
        """Returns the CSV tables of the experiment, by file name. NAME-cells.csv has the cells of
        all comparisons with published numbers, and NAME-numbers.csv the numbers of all statements.
        A table without rows is left out.
        """
        name = self.experiment.name
        rows = {
            f"{name}-cells.csv": list(cell_rows(self.reproduction.scores)),
            f"{name}-numbers.csv": list(number_rows(self.reproduction.statements)),
        }
        return {file: csv_text(table) for file, table in rows.items() if len(table) > 1}

    @property
    def listed_tables(self) -> list[tuple[str, str]]:
        """Returns the CSV tables for the page's links: pairs of a file name and its contents in
        words, such as 'all cells'.
        """
        contents = {"cells": "all cells", "numbers": "each number with its interval"}
        return [(file, contents[Path(file).stem.rpartition("-")[2]]) for file in self.tables]

    @cached_property
    def charts(self) -> dict[str, str]:
        """Draws the figures that are pictures; returns SVG texts by file name."""
        return {
            shown.file: _renumbered(svg(shown.drawing.spec))
            for shown in self.figures
            if isinstance(shown.drawing, DrawnFigure)
        }


def made_by(name: str, campaign: Campaign) -> str:
    """Returns the command that plans exactly the runs of a campaign's archive, such as '`ccmix
    reproduce NAME --full`'. Returns OLDER if no command does, because the experiment has been
    changed since the runs were made.

    Only the runs are compared, so a changed comment in the INI file does not matter.
    """
    seed = campaign.origin.seed
    for full, tried in itertools.product((False, True), repeat=2):
        if seed is not None and planned(name, seed, full=full, tried=tried) == campaign.runs:
            return f"`ccmix reproduce {name}{' --full' * full}{' --tried' * tried}`"
    return OLDER


def real_s(costs_by_form: Iterable[Mapping[str, Cost]], form: str) -> float:
    """Returns the seconds of real time that several experiments take in one form, one after the
    other. An experiment that lacks this form counts with its reduced form.

    costs_by_form: for each experiment, its cost by form, as costs() returns it
    """
    return sum(forms.get(form, forms[REDUCED]).real_s for forms in costs_by_form)


def page(archives: Path) -> Page:
    """Returns the overview of all experiments, and the pages, charts and tables of those whose runs
    are in the folder `archives`, in a packed archive NAME.zip. Raises ArchiveError.
    """
    files = {experiment.name: archives / f"{experiment.name}.zip" for experiment in EXPERIMENTS}
    made = {
        each.name: _measured(each, files[each.name])
        for each in EXPERIMENTS
        if files[each.name].exists()
    }
    forms = {experiment.name: costs(experiment, ANY_SEED, CORES) for experiment in EXPERIMENTS}
    charts = {name: drawing for each in made.values() for name, drawing in each.charts.items()}
    tables = {name: table for each in made.values() for name, table in each.tables.items()}
    templates = text_templates("paper_pages")
    overview = templates.get_template("page.md.j2").render(
        **NAMES,
        experiments=EXPERIMENTS,
        made=made,
        times={
            name: {form: summaries.hours(real_s([cost_by_form], form)) for form in FORMS}
            for name, cost_by_form in forms.items()
        },
        all_times={form: summaries.hours(real_s(forms.values(), form)) for form in FORMS},
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


def _measured(experiment: Experiment, file: Path) -> MeasuredExperiment:
    """Reads the runs of an experiment from its packed archive, and compares them with the paper."""
    with opened([file]) as folders:
        results = load_results(folders.folders)
    data = FigureData(
        tuple(read_published(experiment.name)),
        MeasuredRuns(tuple(result.finished for result in results.runs if result.valid)),
        planned(experiment.name, ANY_SEED, full=True),
    )
    return MeasuredExperiment(reproduction(experiment, results.runs), results, data, file.name)


def _renumbered(drawing: str) -> str:
    """Renumbers the clipping paths and gradients of an SVG from 0. Vega counts them over all
    drawings of a process; without this, the same figure would give another file each time.
    """
    numbers: dict[str, int] = {}
    return _COUNTED.sub(
        lambda name: f"{name[1]}{numbers.setdefault(name[0], len(numbers))}", drawing
    )


def scores_of(figure: Figure, scores: Sequence[Score]) -> list[Score]:
    """Returns those scores of comparisons with published numbers whose numbers a figure shows. The
    figure must show the comparison's quantity, published series and entry.
    """
    pairs = sources(figure)
    return [
        score
        for score in scores
        if score.comparison.quantity in quantities(figure)
        and (score.comparison.series, score.comparison.entry) in pairs
    ]


def sentence(figure: Figure, scores: Sequence[Score], data: FigureData) -> str:
    """Returns the sentence below a figure that sums up its result.

    If comparisons of the figure's numbers were scored (`scores`), it gives their outcome. Without
    scores, it says that nothing was published (NOT_THERE or TEXT_ALONE), or it gives the ranges of
    heat maps (Maps), or the number of points of a figure over the buffer (OverBuffer). For another
    figure, an earlier figure of the page already has the scores of the same numbers.
    """
    if scores:
        return summaries.sentence_on_scores(scores)
    if not published_series(figure):
        return NOT_THERE if isinstance(figure, Plots) and figure.ours else TEXT_ALONE
    match figure:
        case Maps():
            return (
                "Range over the cells that both have: "
                f"{'; '.join(_ranges(figure, row, data) for row in figure.rows)}."
            )
        case OverBuffer():
            points = [
                point for point in points_over_buffer(figure, data) if point.number == UTILISATION
            ]
            published = sum(point.published for point in points)
            measured = len(points) - published
            return (
                f"The figure has {published} published utilisations and {measured} of the lab, "
                "with gains and retransmissions."
            )
        case _:
            return "The scores of these numbers are above."


def _ranges(figure: Maps, row: MapRow, data: FigureData) -> str:
    """Returns the text of two ranges, that of the published heat map of a row and that of the
    lab's, over the cells that have both numbers: 'cubic in 9 cells, 10% to 80% published (100 KB)
    and 12% to 78% in the lab'.
    """
    published_cells, lab_cells = (
        map_cells(figure, row, data, published=published) for published in (True, False)
    )
    pairs = [
        (cell.value, lab_cell.value)
        for cell, lab_cell in zip(published_cells, lab_cells, strict=True)
        if cell.value is not None and lab_cell.value is not None
    ]
    quantity = f"gain of {row.cca} over {row.over}" if row.over else row.cca
    if not pairs:
        return f"{quantity}, none"
    published, lab = (_range(figure, row, [pair[side] for pair in pairs]) for side in (0, 1))
    cells = format_count(len(pairs), "cell")
    return f"{quantity} in {cells}, {published} published ({row.series}) and {lab} in the lab"


def _range(figure: Maps, row: MapRow, values: Sequence[float]) -> str:
    """Returns the smallest and the largest value of a heat map as text: '10% to 80%', for gains
    '-5% to +20%'.
    """
    if not row.over:
        return " to ".join(
            text.of_quantity(figure.quantity, value) for value in (min(values), max(values))
        )
    # + 0.0: no minus before a zero
    least, most = (round(value, 2) + 0.0 for value in (min(values), max(values)))
    return f"{least:+,.0%} to {most:+,.0%}"


def paper_table(figure: PaperTable, data: FigureData) -> TableCells:
    """Returns a table in the layout of the paper. Each cell has the published number and the lab's:
    'published / lab'.

    If a cell was measured only in part, it has a mark such as 'a'. The result maps the text of each
    footnote, which says what was measured, to its mark.
    """
    in_part: dict[str, str] = {}  # mark by footnote; _cell() adds to it
    rows = [
        [*line.heads, *(_cell(line, column, data, in_part) for column in figure.columns)]
        for line in figure.lines
    ]
    return TableCells([*figure.heads, *(column.head for column in figure.columns)], rows, in_part)


def _cell(
    line: PaperTableLine, column: PaperTableColumn, data: FigureData, in_part: dict[str, str]
) -> str:
    """Returns the text of a table's cell, 'published / lab', with a dash for a missing number. If
    the lab has measured only some of the runs that the cell is the mean of, a footnote mark
    follows.

    in_part: the mark ('a', 'b', ...) of each footnote's text so far; a new one is added
    """
    at = {**line.at, **column.at}
    number = RunNumber(column.quantity, line.entry, column.cca, at=at)
    published = data.published_at(line.series, column.cca, column.quantity, at)
    lab = data.runs.sample(number).mean
    mark = ""
    if lab is not None and (lacking := data.runs.lacking(number)):
        footnote = "; ".join(
            f"the lab measured only {key} {', '.join(measured)} of "
            f"{at[key].replace(ALTERNATIVES, ', ')}"
            for key, measured in lacking.items()
        )
        mark = f"<sup>{in_part.setdefault(footnote, MARKS[len(in_part)])}</sup>"
    return f"{_number(published, column)} / {_number(lab, column)}{mark}"


def _number(value: float | None, column: PaperTableColumn) -> str:
    """Writes a number of a paper's table with three digits, in the unit of the column; a dash for
    None.
    """
    return "–" if value is None else text.without_exponent(f"{value / column.unit_size:#.3g}")


def cell_rows(scores: Sequence[Score]) -> Iterator[tuple[Cell, ...]]:
    """Yields the rows of NAME-cells.csv: the head, and then a row for each cell (one CCA at one
    combination of settings) of each comparison, with the published and the measured number in SI
    units.
    """
    yield ("comparison", "cell", "published", "lab", "factor", "lab with interval", "explained by")
    for score in scores:
        pairs = (*score.pairs, *score.partial)
        rows = score_text.cell_table(score, pairs)[1:]
        for pair, (cell, _, lab, *explained) in zip(pairs, rows, strict=True):
            numbers = (f"{each:.{DIGITS}g}" for each in (pair.value, pair.measured, pair.factor))
            yield score_text.title(score), cell, *numbers, lab, *(explained or [""])


def number_rows(statements: Sequence[JudgedStatement]) -> Iterator[tuple[Cell, ...]]:
    """Yields the rows of NAME-numbers.csv: the head, and then a row for each number by which a
    statement is judged. If the statement does not hold, rows follow with the numbers of runs with
    other settings; the column 'tried' names the setting.
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
    """Wraps the paragraphs and list items of a Markdown text at WIDTH columns. Tables, headings and
    HTML are not changed.
    """
    blocks = ("\n".join(_lines(block)) for block in re.split(r"\n\n+", markdown))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _lines(block: str) -> Iterator[str]:
    """Yields the lines of a block of Markdown (text between empty lines), with its prose wrapped. A
    list item begins a new line; a line of a table, a heading or HTML is kept.
    """
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
    """Wraps the lines of one paragraph or list item at WIDTH columns. The second and later lines of
    a list item are indented.
    """
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
    "summaries": summaries,
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
