"""`ccmix demo`: runs the configuration that comes with ccmix, in the lab."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ccmix.cli import options


@click.command("demo", short_help="Run an example in the lab: how CUBIC and BBR share a path.")
@click.option("--quick", is_flag=True, help="One condition in a few seconds: a CUBIC flow beside a BBR flow.")
@click.option("-o", "--outdir", type=options.PathType(file_okay=False),
              help="A new folder for the results  [default: results/demo, of --quick results/demo-quick]")  # fmt: skip
@options.jobs
@click.option("--resume", is_flag=True, help="Continue OUTDIR: keep finished runs, and make all others.")
def demo(quick: bool, outdir: Path | None, jobs: int | None, resume: bool) -> None:
    """Run the demo in the lab, and print its table, its answer in sentences, and the path of its report.

    8 flows of CUBIC, BBR and BBRv2, each alone, and CUBIC beside each BBR, share 1 Gbit/s, with two delays, with and
    without loss: 60 runs in three to four minutes. It needs neither root nor a network. `ccmix init lab NAME` writes a
    file for a test of your own.

    \b
    ccmix demo --quick
    ccmix demo
    ccmix demo -o /tmp/demo -j 1
    """
    from ccmix.cli.run import RunOptions, run_campaign
    from ccmix.cli.samples import sample
    from ccmix.config import Overrides

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
