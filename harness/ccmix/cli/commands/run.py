"""`ccmix run`: its options and help."""

import sys
from pathlib import Path

import click

from ccmix.cli import options
from ccmix.config.overrides import Overrides


@click.command("run", short_help="Run the entries of an INI file, and print the table of results.")
@options.config
@options.outdir("Folder for the results")
@click.option(
    "--lab", "in_lab", is_flag=True, help="In the lab: real Linux kernels in virtual time, as ordinary processes."
)
@click.option("-j", "--jobs", type=click.IntRange(1), help="Runs at the same time, in the lab  [default: cores]")
@options.only
@click.option("--run", "named", metavar="NAME", multiple=True,
              help="Only the run of this name in `ccmix plan`; may be given several times.")  # fmt: skip
@options.hosts
@options.nic
@options.netem_at
@click.option("--resume", is_flag=True, help="Go on with OUTDIR: finished runs stay, all others are made.")
@options.seed
def run(
    config: Path,
    outdir: Path | None,
    in_lab: bool,
    jobs: int | None,
    only: tuple[str, ...],
    named: tuple[str, ...],
    hosts: Path | None,
    nic: str | None,
    netem_at: str | None,
    resume: bool,
    seed: int,
) -> None:
    """Run the entries of CONFIG, an INI file, and print the table of results.

    Without --lab, topologies are built in network namespaces of this machine, which needs root and a kernel with netem;
    whatever is changed is put back, and `ccmix restore` puts it back after a crash.

    \b
    ccmix run my-test.ini --lab                 in the lab, on all cores
    ccmix run my-test.ini --lab --resume        goes on after Ctrl-C or a crash
    ccmix run my-test.ini --lab --only mixed    one entry of several
    ccmix run my-test.ini -i eth0 -H hosts.csv  to each host of a list
    """
    from ccmix.cli import start  # noqa: PLC0415

    chosen = start.Options(
        outdir=outdir or Path("results") / config.stem, in_lab=in_lab, jobs=jobs, only=only, named=named,
        resume=resume, seed=seed, overrides=Overrides(hosts, nic, netem_at),
    )  # fmt: skip
    sys.exit(start.campaign(config, chosen))
