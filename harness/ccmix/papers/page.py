"""Writes the page on all experiments from their packed archives, with its charts. Nothing on it is typed by hand."""

import re
from dataclasses import dataclass
from pathlib import Path

from ccmix.analysis.results import load_results
from ccmix.archive.packed import opened
from ccmix.papers import text
from ccmix.papers.costs import FORMS, costs, real_s
from ccmix.papers.experiment import Experiment
from ccmix.papers.figure_data import Material
from ccmix.papers.made_by import planned
from ccmix.papers.markdown import table, wrapped
from ccmix.papers.measured import MeasuredRuns
from ccmix.papers.outcome import reproduction
from ccmix.papers.published import read_published
from ccmix.papers.registry import EXPERIMENTS
from ccmix.papers.scores import APART, TRIVIAL
from ccmix.papers.section import Made, section

ANY_SEED = 1  # the plan's conditions are the same with each
CORES = 2  # of the machine whose times the page gives
HEADS = ("reduced", "`--tried`", "`--full`")
_COUNTED = re.compile(r"\b(clip|gradient_)\d+\b")
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
- A statement that does not hold is a result, and no reason to tune. What is not measured here, `--full` measures.

Pictures have the axes and the order of the paper's, at the paper's own size: a cell or a place without a number was not
measured.
"""
COST = """\
The last three columns are what `ccmix reproduce` estimates for {cores} cores. All reduced forms take {reduced}, and
{tried} with `--tried`, which makes besides what was tried to explain differences, as for this page. At the papers' own
size they take {full}, without what was tried.
"""


@dataclass(frozen=True)
class Page:
    """Holds the text of the page, and its charts by their files' names."""

    text: str
    charts: dict[str, str]


def page(archives: Path) -> Page:
    """Returns the page of all experiments that have a packed archive in the folder. Raises ArchiveError."""
    parts, rows = [], []
    charts: dict[str, str] = {}
    of_all = [costs(experiment, ANY_SEED, CORES) for experiment in EXPERIMENTS]
    for experiment, forms in zip(EXPERIMENTS, of_all, strict=True):
        file = archives / f"{experiment.name}.zip"
        name, outcome = experiment.name, "not yet made"
        if file.exists():
            made = _made(experiment, file)
            written = section(made)
            parts.append(written.text)
            charts |= {name: _numbered_anew(drawing) for name, drawing in written.charts.items()}
            name, outcome = f"[{experiment.name}](#{experiment.name})", made.reproduction.short
        times = [text.hours(real_s([forms], form)) for form in FORMS]
        rows.append((name, experiment.paper.author, experiment.shows, outcome, *times))
    overview = "\n".join(table(("experiment", "first author", "shows", "outcome", *HEADS), rows))
    cost = COST.format(cores=CORES, **{form: text.hours(real_s(of_all, form)) for form in FORMS})
    return Page(wrapped("\n".join([INTRODUCTION, overview, cost, *parts])), charts)


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
    """Returns an SVG whose clipping paths and gradients are numbered from 0: Vega counts them over all drawings of a
    process.
    """
    numbers: dict[str, int] = {}
    return _COUNTED.sub(lambda name: f"{name[1]}{numbers.setdefault(name[0], len(numbers))}", drawing)
