"""`ccmix demo` runs an example in the lab; `ccmix reproduce` repeats a paper's experiment there.

It prints the measured and the published numbers side by side.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ccmix.archive import Campaign
from ccmix.cli import options, output
from ccmix.cli.init import sample
from ccmix.cli.options import RunOptions
from ccmix.cli.output import put
from ccmix.cli.report import count_runs
from ccmix.cli.run import run_campaign, run_text
from ccmix.config import Overrides
from ccmix.config.problems import nearest
from ccmix.lab.limits import guests_at_a_time
from ccmix.model import Run
from ccmix.papers.experiment import Experiment
from ccmix.papers.forms import costs, form, planned
from ccmix.papers.measuring import needed
from ccmix.papers.outcome import listing, printed, reproduction
from ccmix.papers.reading import EXPERIMENTS, by_name, ini_of


@click.command("demo")
@click.option(
    "--quick", is_flag=True, help="One condition in a few seconds: CUBIC competes with BBR."
)
@click.option(
    "-o",
    "--outdir",
    type=options.PathType(file_okay=False),
    help="A new folder for the results  [default: results/demo; with --quick: results/demo-quick]",
)
@options.jobs
@options.resume
def demo(quick: bool, outdir: Path | None, jobs: int | None, resume: bool) -> None:
    """Run the demo in the lab, and print its table, its answer in sentences, and the path of its
    report.

    8 flows share 1 Gbit/s: all of CUBIC, all of BBR, all of BBRv2, or CUBIC competing with each
    BBR. With two delays, with and without loss, these are 60 runs, which take three to four
    minutes. The demo needs neither root nor a network. `ccmix init lab NAME` writes a file for
    your own test.

    \b
    ccmix demo --quick
    ccmix demo
    ccmix demo -o /tmp/demo -j 1
    """
    name = "demo-quick" if quick else "demo"
    given = RunOptions(
        config=sample(name),
        outdir=outdir,
        in_lab=True,
        jobs=jobs,
        only=(),
        named=(),
        overrides=Overrides(),
        resume=resume,
        seed=options.DEFAULT_SEED,
        sentences=True,
    )
    sys.exit(run_campaign(given))


@dataclass(frozen=True)
class ReproduceOptions:
    """Holds the options of `ccmix reproduce`; if `name` is None, the experiments are listed.

    `full` runs at the paper's own size; `tried` also runs settings that may explain differences;
    `statement` limits the runs to those that one statement of the paper needs.
    """

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
        """The folder for the results; by default its name has the experiment and the options."""
        parts = (self.name, "full" * self.full, "tried" * self.tried, self.statement)
        return self.outdir or Path("results") / "-".join(filter(None, parts))

    @property
    def cores(self) -> int:
        """The number of simultaneous runs."""
        return self.jobs or guests_at_a_time()


@click.command("reproduce")
@click.argument("name", required=False)
@click.option("--full", is_flag=True, help="Run at the paper's own size  [default: reduced]")
@click.option(
    "--tried", is_flag=True, help="Also run other settings, which explain why a number differs."
)
@options.outdir("Folder for the results")
@options.jobs
@options.resume
@click.option(
    "--statement", metavar="STATEMENT", help="Make only the runs that this statement needs."
)
@click.option("--ini", is_flag=True, help="Instead, print the INI file of NAME as it would run.")
@options.executor
@options.shared
@options.of_order
@options.collected(ReproduceOptions)
def reproduce(given: ReproduceOptions) -> None:
    """Repeat the experiment NAME of a published paper in the lab. Without NAME, list all
    experiments.

    Prints measured and published numbers side by side, and says for each statement of the paper
    whether it holds here, with 95% intervals. A statement that does not hold is a result, too: the
    exit status is 0 if all runs are valid.

    \b
    ccmix reproduce                    all experiments, with their cost
    ccmix reproduce dai-fig1           one experiment, reduced in size
    ccmix reproduce dai-fig1 --full    at the paper's own size
    ccmix reproduce dai-fig1 --ini     what would run, with its sources
    ccmix reproduce dai-fig1 --statement fair-at-300-ms
    ccmix reproduce gomez-fig7 --tried    also tries to explain differences
    ccmix reproduce dai-fig1 --full --executor dask+tls://10.0.0.1:8786
    """
    if given.name is None:
        _print_experiments(given)
    else:
        sys.exit(_reproduce(_experiment(given.name, given.statement), given))


def _experiment(name: str, statement: str | None) -> Experiment:
    """Returns the experiment of this name, limited to one statement of the paper if that is given.

    Raises BadParameter if there is no such experiment or statement.
    """
    experiments = by_name()
    if name not in experiments:
        raise click.BadParameter(
            f"'{name}' is not an experiment{nearest(name, experiments)}: 'ccmix reproduce' lists "
            "all",
            param_hint="NAME",
        )
    if statement is None:
        return experiments[name]
    try:
        return experiments[name].only(statement)
    except KeyError:
        names = [known.name for known in experiments[name].statements]
        raise click.BadParameter(
            f"'{statement}' is not a statement of {name}: write one of {', '.join(names)}",
            param_hint="--statement",
        ) from None


def _print_experiments(given: ReproduceOptions) -> None:
    """Prints the list of all experiments, each with what it costs to run it on this machine."""
    put(
        listing(
            (experiment, costs(experiment, given.seed, given.cores)) for experiment in EXPERIMENTS
        )
    )


def _reproduce(experiment: Experiment, given: ReproduceOptions) -> int:
    """Runs the experiment, and prints measured and published numbers; returns the exit status.

    With --ini, only prints the INI file that would run.
    """
    ini_text = form(experiment.name, full=given.full)
    if given.ini:
        put(ini_text)
        return output.GOOD
    return run_text(
        _run_options(experiment, given),
        ini_text,
        lambda campaign, skipped: _print_comparison(experiment, campaign, skipped),
    )


def _run_options(experiment: Experiment, given: ReproduceOptions) -> RunOptions:
    """Returns the options of `ccmix run` that make the runs of the experiment.

    With --statement, only the runs that this statement needs.
    """
    runs = planned(experiment.name, given.seed, full=given.full, tried=given.tried)
    return RunOptions(
        config=ini_of(experiment.name),
        outdir=given.folder,
        in_lab=True,
        jobs=given.jobs,
        only=tuple(dict.fromkeys(run.entry for run in runs)),
        named=tuple(run.name for run in _needed_runs(experiment, given, runs))
        if given.statement
        else (),
        overrides=Overrides(),
        resume=given.resume,
        seed=given.seed,
        executor=given.executor,
        shared=given.shared,
    )


def _needed_runs(experiment: Experiment, given: ReproduceOptions, runs: Sequence[Run]) -> list[Run]:
    """Returns the runs among the planned `runs` that the experiment's statements need.

    With --tried, also returns the runs that try to explain why a statement does not hold.
    """
    numbers = [number for statement in experiment.statements for number in statement.numbers]
    if given.tried:
        numbers += [
            number for statement in experiment.statements for number in statement.tried_numbers
        ]
    return needed(numbers, runs)


def _print_comparison(experiment: Experiment, campaign: Campaign, skipped: int) -> int:
    """Prints measured and published numbers side by side; returns the exit status.

    Is called when the campaign has ended; `skipped` is the number of runs that were not tried.
    """
    results, all_valid = count_runs(campaign, skipped)
    if results:
        put(printed(reproduction(experiment, results.runs)))
    return output.GOOD if all_valid else output.BAD
