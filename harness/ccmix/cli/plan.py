"""`ccmix plan`: prints which runs an INI file would make, in which order, and for how long."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ccmix.analysis.cost import cost, machine_speed, run_seconds
from ccmix.analysis.lengths import too_short_warnings
from ccmix.archive import Campaign
from ccmix.archive.packed import opened
from ccmix.cli import lacking, options
from ccmix.cli.output import put, tell
from ccmix.config import Overrides, load, select
from ccmix.lab import limits
from ccmix.lab.host import guest_memory_bytes
from ccmix.model import Run, Topology
from ccmix.plan import make_plan, span

KEYS = ("entry", "condition", "dst", "iteration")


@dataclass(frozen=True)
class PlanOptions:
    """Holds the options of `ccmix plan`.

    `cost_from` is a campaign whose runs show how fast this machine is; `jobs` is the number of
    simultaneous runs (None: one for each core).
    """

    config: Path
    only: tuple[str, ...]
    overrides: Overrides
    seed: int
    form: str
    with_cost: bool
    jobs: int | None
    cost_from: Path | None

    @property
    def shows_cost(self) -> bool:
        """Whether time and memory are printed, because --cost or --cost-from is given."""
        return self.with_cost or self.cost_from is not None

    @property
    def cores(self) -> int:
        """The number of simultaneous runs."""
        return self.jobs or limits.guests_at_a_time()


@click.command("plan")
@options.config
@options.only
@options.overrides
@options.of_order
@options.form("table", "json")
@click.option(
    "--cost",
    "with_cost",
    is_flag=True,
    help="Also print the real time and memory that the runs take in the lab.",
)
@options.jobs
@click.option(
    "--cost-from",
    type=options.PathType(completes=options.ARCHIVES),
    metavar="OUTDIR",
    help="Correct the real time by the times of the finished runs of this campaign.",
)
@options.collected(PlanOptions)
def plan(given: PlanOptions) -> None:
    """Print what `ccmix run CONFIG` would run, in which order, and for how long. Nothing is
    started.

    For each entry, prints its destinations, its commands, the settings on each host, and then its
    runs.

    \b
    ccmix plan my-test.ini
    ccmix plan my-test.ini --only mixed -i eth0 -H hosts.csv
    ccmix plan my-test.ini --format json
    ccmix plan my-test.ini --cost -j 16
    """
    from ccmix.analysis.validity.verdict import unknown_for_sure  # noqa: PLC0415  # NumPy is slow: not for wrong input
    from ccmix.report import plan_text  # noqa: PLC0415  # NumPy is slow: not for wrong input

    loaded = load(given.config, overrides=given.overrides)
    entries = select(loaded.entries, given.only, given.config)
    runs = make_plan(entries, given.seed)
    for notice in loaded.notices:
        tell(notice)
    lacking.refuse_unknown(runs)
    for warning in lacking.warnings_of_lab(runs):
        tell(warning)
    if given.form == "json":
        rows = [
            {key: getattr(run, key) for key in KEYS} | {"seconds": run.seconds or 0.0}
            for run in runs
        ]
        cost_of_runs = _cost_of_each_run(runs, given) if given.shows_cost else [{}] * len(runs)
        put(json.dumps([row | costs for row, costs in zip(rows, cost_of_runs, strict=True)]) + "\n")
        return
    put(plan_text.render(entries, runs))
    warnings = (
        *plan_text.rounded_values(runs),
        *unknown_for_sure(runs),
        *too_short_warnings(runs),
    )
    for warning in warnings:
        tell(warning)
    tell(plan_text.total(span(runs)))
    tell(plan_text.to_write(runs))
    if given.shows_cost:
        tell(plan_text.cost(cost(runs, given.cores, _relative_speed(given)), given.cores))


def _cost_of_each_run(runs: Sequence[Run], given: PlanOptions) -> Iterator[dict[str, float | None]]:
    """Yields for each run its estimated real time and the guest's memory, for --format json.

    The time is None if it is not known. The memory is None for a run between real hosts, which
    needs no guest. The time of such a run does not depend on the speed of the machine, so
    --cost-from does not change it.
    """
    relative_speed = _relative_speed(given)
    for run in runs:
        emulated, real_s = isinstance(run.path, Topology), run_seconds(run)
        yield {
            "real_seconds": None
            if real_s is None
            else round(real_s / (relative_speed if emulated else 1.0), 2),
            "memory_bytes": guest_memory_bytes(run.topology) if emulated else None,
        }


def _relative_speed(given: PlanOptions) -> float:
    """Returns the speed of the machine that made the campaign of --cost-from, as a multiple of the
    speed that the cost model assumes; 1.0 without --cost-from.

    Raises ArchiveError if that campaign can't be read.
    """
    if given.cost_from is None:
        return 1.0
    with opened([given.cost_from]) as archives:
        return machine_speed(
            finished for finished, _ in Campaign.load(archives.folders[0]).finished()
        )
