"""`ccmix doctor` checks whether hosts are fit for a test; `ccmix restore` undoes what a run has
left.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ccmix.agent import left_journals
from ccmix.cli import options, output
from ccmix.cli.output import put, tell
from ccmix.config import Overrides, load, select
from ccmix.doctor import report
from ccmix.doctor.checks import DoctorOptions
from ccmix.doctor.examine import examine
from ccmix.doctor.report import failed
from ccmix.generators.pscheduler.ledger import cancel_left
from ccmix.hosts.address import parse_host
from ccmix.hosts.pool import Hosts, connect
from ccmix.model import HostPath
from ccmix.plan import make_plan
from ccmix.tools import outdated


@click.command("doctor")
@click.argument("config", type=options.PathType(completes=options.INI), required=False)
@options.only
@options.overrides
@options.outdir("Folder for the results of the planned run")
@options.in_lab("Check for runs in the lab, as with `ccmix run --lab`.")
@options.form("table", "json")
def doctor(
    config: Path | None,
    only: tuple[str, ...],
    overrides: Overrides,
    outdir: Path | None,
    in_lab: bool,
    form: str,
) -> None:
    """Check whether the hosts are fit for the entries of CONFIG. Without CONFIG, say what this
    machine can be used for.

    Each check is ok, warn, fail (an entry needs something that the host lacks) or unknown. It shows
    what was found, why it matters, and the command that fixes it. Nothing is changed, and only
    pings are sent.

    \b
    ccmix doctor
    ccmix doctor my-test.ini -i eth0 -H hosts.csv
    ccmix doctor my-test.ini --lab
    """
    sys.exit(_examine(config, overrides, outdir, only, in_lab, form))


def _examine(
    config: Path | None,
    overrides: Overrides,
    outdir: Path | None,
    only: tuple[str, ...],
    in_lab: bool,
    form: str,
) -> int:
    """Prints the doctor's report on this machine and on the hosts of the INI file `config`.

    `only` are the names of the entries (sections) to look at; empty means all. `in_lab` checks for
    runs in the lab. Agents examine the hosts with the same login, PATH and temporary folder as runs
    have. Returns the exit status: 1 if a check failed. Raises ConfigError.
    """
    if outdated_programs := outdated():
        tell(outdated_programs)
    runs = None
    if config:
        runs = make_plan(select(load(config, overrides=overrides).entries, only, config), 0)
        outdir = outdir or Path("results") / config.stem
    doctor_options = DoctorOptions(runs, outdir, in_lab)
    if any(isinstance(run.path, HostPath) for run in runs or ()):
        with Hosts(f"ccmix doctor on {socket.gethostname()}", onlooker=True, tell=tell) as hosts:
            reports = examine(doctor_options, lambda name: hosts.get(parse_host(name)))
    else:
        reports = examine(doctor_options)
    if form == "json":
        put(report.to_json(reports) + "\n")
    else:
        put(report.render(reports))
        tell(report.summary(reports))
    return output.BAD if failed(reports) else output.GOOD


@click.command("restore")
@click.argument("hosts", nargs=-1)
def restore(hosts: tuple[str, ...]) -> None:
    """Undo the changes that a killed run has left on this machine, or on HOSTS.

    A host is netns:NAME, or [USER@]HOST as for ssh. Before a run changes a host, it writes the
    command that undoes the change to the disk of that host. After a reboot there is nothing to
    undo. Without HOSTS, pScheduler tasks that a campaign on this machine has left are cancelled,
    too.

    \b
    ccmix restore
    ccmix restore dtn@dtn1.example.org netns:lab
    """
    sys.exit(_restore(hosts))


def _restore(names: Sequence[str]) -> int:
    """Undoes what killed runs have left on these hosts (without names: on this machine).

    Without names, also cancels pScheduler tasks that this machine has posted. Prints a line for
    each change. Returns the exit status: 1 if any change could not be undone.

    Raises BadParameter or ConnectError.
    """
    if names:
        restored, cancelled = list(_restore_hosts(names)), []
    else:
        restored = [(undo.what, reason) for undo, reason in left_journals.restore()]
        cancelled = list(cancel_left())
    for change, reason in restored:
        tell(f"{change}: {reason or 'restored'}")
    for change, reason in cancelled:
        tell(f"{change}: {reason or 'cancelled'}")
    if not restored and not cancelled:
        tell("nothing to restore")
    return output.BAD if any(reason for _, reason in (*restored, *cancelled)) else output.GOOD


def _restore_hosts(names: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Restores the hosts one after the other: an agent does this when it starts on a host.

    Yields for each change its description, and the reason why undoing failed (None if it is
    undone).
    """
    try:
        addresses = [parse_host(name) for name in names]
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    for address in addresses:
        host = connect(address, "ccmix restore", tell=tell)
        try:
            yield from host.hello["restored"]
        finally:
            host.close()
