"""`ccmix plan`: prints what a configuration would run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import options
from ccmix.cli.output import put, tell

if TYPE_CHECKING:
    from ccmix.config import Overrides
    from ccmix.model import Run

KEYS = ("entry", "condition", "dst", "iteration")


@dataclass(frozen=True)
class PlanOptions:
    """Holds the options of `ccmix plan`."""

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
        return self.with_cost or self.cost_from is not None

    @property
    def cores(self) -> int:
        """Returns how many runs would be made at the same time."""
        return self.jobs or len(os.sched_getaffinity(0))


@click.command("plan", short_help="List what would run, where, in which order, and for how long.")
@options.config
@options.only
@options.overrides
@options.of_order
@options.form("table", "json")
@click.option("--cost", "with_cost", is_flag=True, help="Also the real time and memory that the runs take in the lab.")
@options.jobs
@click.option("--cost-from", type=options.PathType(completes=options.ARCHIVES), metavar="OUTDIR",
              help="Correct the real time by how long the finished runs of this campaign took.")  # fmt: skip
@options.collected(PlanOptions)
def plan(given: PlanOptions) -> None:
    """Print what `ccmix run CONFIG` would run, in its order, and for how long. Nothing is started.

    Of each entry: its destinations, commands, and what will be set on which host; then its runs.

    \b
    ccmix plan my-test.ini
    ccmix plan my-test.ini --only mixed -i eth0 -H hosts.csv
    ccmix plan my-test.ini --format json
    ccmix plan my-test.ini --cost -j 16
    """
    from ccmix.analysis.cost import cost
    from ccmix.analysis.lengths import warnings
    from ccmix.analysis.validity.foreseen import unknown_for_sure
    from ccmix.cli import lacking_ccas, lacking_parameters
    from ccmix.cli.lab_kernels import refuse_unknown
    from ccmix.config import load, select
    from ccmix.plan import make_plan, span
    from ccmix.report import plan_text

    loaded = load(given.config, overrides=given.overrides)
    entries = select(loaded.entries, given.only, given.config)
    runs = make_plan(entries, given.seed)
    for notice in loaded.notices:
        tell(notice)
    refuse_unknown(runs)
    for lacking in (lacking_ccas, lacking_parameters):
        if warning := lacking.warn_of_lab(runs):
            tell(warning)
    if given.form == "json":
        rows = [{key: getattr(run, key) for key in KEYS} | {"seconds": run.seconds or 0.0} for run in runs]
        of_cost = _costs(runs, given) if given.shows_cost else [{}] * len(runs)
        put(json.dumps([row | costs for row, costs in zip(rows, of_cost, strict=True)]) + "\n")
        return
    put(plan_text.render(entries, runs))
    for warning in (*unknown_for_sure(runs), *warnings(runs)):
        tell(warning)
    tell(plan_text.total(span(runs)))
    tell(plan_text.to_write(runs))
    if given.shows_cost:
        tell(plan_text.cost(cost(runs, given.cores, _faster(given)), given.cores))


def _costs(runs: Sequence[Run], given: PlanOptions) -> Iterator[dict[str, float | None]]:
    """Yields what each run costs alone: None where that is not known, and of memory where it needs no guest."""
    from ccmix.analysis.cost import run_seconds
    from ccmix.lab.memory import guest_memory_bytes
    from ccmix.model import Topology

    faster = _faster(given)
    for run in runs:
        emulated, real_s = isinstance(run.path, Topology), run_seconds(run)
        yield {
            "real_seconds": None if real_s is None else round(real_s / (faster if emulated else 1.0), 2),
            "memory_bytes": guest_memory_bytes(run.topology) if emulated else None,
        }


def _faster(given: PlanOptions) -> float:
    """Returns how many times as fast as the model's a machine is, by the runs of --cost-from. Raises ArchiveError."""
    from ccmix.analysis.cost import times_as_fast
    from ccmix.archive import Campaign
    from ccmix.archive.packed import opened

    if given.cost_from is None:
        return 1.0
    with opened([given.cost_from]) as archives:
        return times_as_fast(finished for finished, _ in Campaign.load(archives.folders[0]).finished())
