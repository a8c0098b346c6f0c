"""`ccmix reproduce`: makes an experiment of a published paper in the lab, and puts the numbers side by side."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import options, status
from ccmix.cli.output import put

if TYPE_CHECKING:
    from ccmix.archive import Campaign
    from ccmix.cli.run import RunOptions
    from ccmix.model import Run
    from ccmix.papers.experiment import Experiment


@dataclass(frozen=True)
class ReproduceOptions:
    """Holds the options of `ccmix reproduce`; without a name, the experiments are listed."""

    name: str | None
    full: bool
    tried: bool
    outdir: Path | None
    jobs: int | None
    resume: bool
    statement: str | None
    ini: bool
    seed: int
    executor: str | None
    shared: Path | None

    @property
    def folder(self) -> Path:
        """Returns the folder for the results."""
        parts = (self.name, "full" * self.full, "tried" * self.tried, self.statement)
        return self.outdir or Path("results") / "-".join(filter(None, parts))

    @property
    def cores(self) -> int:
        """Returns how many runs are made at the same time."""
        return self.jobs or len(os.sched_getaffinity(0))


@click.command("reproduce", short_help="Make an experiment of a published paper again, beside its numbers.")
@click.argument("name", required=False)
@click.option("--full", is_flag=True, help="At the paper's own size  [default: reduced]")
@click.option("--tried", is_flag=True, help="Also other settings, by which one sees why a number differs")
@options.outdir("Folder for the results")
@options.jobs
@click.option("--resume", is_flag=True, help="Continue OUTDIR: keep finished runs, and make all others.")
@click.option("--statement", metavar="STATEMENT", help="Only the runs that this statement needs.")
@click.option("--ini", is_flag=True, help="Print the INI file of NAME instead, in the form that would run.")
@options.executor
@options.shared
@options.of_order
@options.collected(ReproduceOptions)
def reproduce(given: ReproduceOptions) -> None:
    """Make the experiment NAME of a published paper in the lab; list all of them without NAME.

    Prints what was measured beside what was published, and for each statement of the paper whether it holds here, with
    95% intervals. A statement that does not hold is a result: the exit status is 0 if all runs are valid.

    \b
    ccmix reproduce                    all experiments, with their cost
    ccmix reproduce dai-fig1           one, in its reduced form
    ccmix reproduce dai-fig1 --full    at the paper's own size
    ccmix reproduce dai-fig1 --ini     what would run, with its sources
    ccmix reproduce dai-fig1 --statement fair-at-300-ms
    ccmix reproduce gomez-fig7 --tried    also what was tried to explain
    ccmix reproduce dai-fig1 --full --executor dask://10.0.0.1:8786
    """
    if given.name is None:
        _list(given)
    else:
        sys.exit(_reproduce(_experiment(given.name, given.statement), given))


def _experiment(name: str, statement: str | None) -> Experiment:
    """Returns the experiment, with one statement alone where that is asked for. Raises BadParameter without either."""
    from ccmix.config.problems import nearest
    from ccmix.papers.registry import by_name

    experiments = by_name()
    if name not in experiments:
        message = f"'{name}' is no experiment{nearest(name, experiments)}: ccmix reproduce lists them"
        raise click.BadParameter(message, param_hint="NAME")
    if statement is None:
        return experiments[name]
    try:
        return experiments[name].only(statement)
    except KeyError:
        names = [each.name for each in experiments[name].statements]
        message = f"'{statement}' is no statement of {name}: write one of {', '.join(names)}"
        raise click.BadParameter(message, param_hint="--statement") from None


def _list(given: ReproduceOptions) -> None:
    from ccmix.papers.costs import costs
    from ccmix.papers.registry import EXPERIMENTS
    from ccmix.papers.terminal import listing

    put(listing((experiment, costs(experiment, given.seed, given.cores)) for experiment in EXPERIMENTS))


def _reproduce(experiment: Experiment, given: ReproduceOptions) -> int:
    """Runs the experiment and prints what came of it; returns the exit status."""
    from ccmix.cli.run import run_text
    from ccmix.papers.ini_text import form

    text = form(experiment.name, full=given.full)
    if given.ini:
        put(text)
        return status.GOOD
    return run_text(
        _run_options(experiment, given), text, lambda campaign, skipped: _show(experiment, campaign, skipped)
    )


def _run_options(experiment: Experiment, given: ReproduceOptions) -> RunOptions:
    from ccmix.cli.run import RunOptions
    from ccmix.config import Overrides
    from ccmix.papers.experiments_folder import ini_of
    from ccmix.papers.made_by import planned

    runs = planned(experiment.name, given.seed, full=given.full, tried=given.tried)
    return RunOptions(
        config=ini_of(experiment.name),
        outdir=given.folder,
        in_lab=True,
        jobs=given.jobs,
        only=tuple(dict.fromkeys(run.entry for run in runs)),
        named=tuple(run.name for run in _needed(experiment, given, runs)) if given.statement else (),
        overrides=Overrides(),
        resume=given.resume,
        seed=given.seed,
        executor=given.executor,
        shared=given.shared,
    )


def _needed(experiment: Experiment, given: ReproduceOptions, runs: Sequence[Run]) -> list[Run]:
    """Returns the runs that the experiment's statements need, and with --tried what was tried for them."""
    from ccmix.papers.measured import needed

    numbers = [number for statement in experiment.statements for number in statement.numbers]
    if given.tried:
        numbers += [number for statement in experiment.statements for number in statement.tried_numbers]
    return needed(numbers, runs)


def _show(experiment: Experiment, campaign: Campaign, skipped: int) -> int:
    from ccmix.cli.run import count_runs
    from ccmix.papers.outcome import reproduction
    from ccmix.papers.terminal import reproduction as shown

    results, all_valid = count_runs(campaign, skipped)
    if results:
        put(shown(reproduction(experiment, results.runs)))
    return status.GOOD if all_valid else status.BAD
