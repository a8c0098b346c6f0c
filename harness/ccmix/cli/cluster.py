"""Prepares the cluster for `ccmix run --executor`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli import lacking
from ccmix.cli.options import RunOptions
from ccmix.cli.output import tell
from ccmix.config.hostlist import HostRow, read_hosts
from ccmix.model import Run
from ccmix.run.campaign import Executor
from ccmix.tools import find_userland

if TYPE_CHECKING:
    from distributed import SpecCluster


SCHEMES = {"dask": "tcp", "dask+tls": "tls"}  # and the names that Dask uses
SSH, SLURM = "ssh:", "slurm"
PLACES = "dask://HOST:PORT, dask+tls://HOST:PORT, ssh:HOSTS.csv, slurm or slurm:JOBS"


def executor(runs: Sequence[Run], given: RunOptions, kernels: Mapping[str, Path]) -> Executor:
    """Waits for the cluster's scheduler, and returns the executor of the runs.

    Raises UsageError for options that can't be combined, ConfigError for mistakes in the file of
    hosts, ToolError, and ClusterError if no worker can be used.
    """
    start = _start(given)
    lacking.refuse_in_lab(runs)
    from ccmix.cluster import messages  # noqa: PLC0415  # Dask is slow
    from ccmix.cluster.executor import DaskExecutor, SchedulerConnection  # noqa: PLC0415  # Dask is slow

    for find in (*messages.PROGRAMS.values(), find_userland):
        find()
    needed = messages.parts() | {
        name: sha256
        for name, sha256 in messages.kernel_parts().items()
        if name.removeprefix(messages.NAMED_KERNEL) in kernels
    }
    if any(run.topology.host_root for run in runs):
        needed |= messages.host_parts()
    started = None
    if isinstance(start, str):
        address = start
    else:
        started = start()
        address = started.scheduler_address
    connection = SchedulerConnection(address, tell, needed, started.security if started else None)
    try:
        asyncio.run(connection.check())
    except BaseException:
        if started:
            started.close()
        raise
    return DaskExecutor(connection, given.shared, given.folder, started)


def _start(given: RunOptions) -> str | Callable[[], SpecCluster]:
    """Returns the scheduler's address in Dask's form, or a function that starts a cluster. Raises
    UsageError and ConfigError.
    """
    assert given.executor
    if not given.in_lab:
        raise click.UsageError("--executor needs --lab: a cluster makes only runs in the lab")
    if given.jobs:
        raise click.UsageError(
            "-j is for this machine: leave it out, because each worker of a cluster has its own "
            "number of threads"
        )
    if given.shared and not given.shared.is_dir():
        raise click.UsageError(
            f"--shared {given.shared}: is not a folder on this machine: give one that this machine "
            "and all workers see"
        )
    if given.executor.startswith(SSH):
        rows = read_hosts(Path(given.executor.removeprefix(SSH)))
        return lambda: _by_ssh(rows)
    kind, _, jobs = given.executor.partition(":")
    if kind == SLURM and (given.executor == SLURM or (jobs.isdecimal() and int(jobs) > 0)):
        return lambda: _by_slurm(int(jobs or 1))
    scheme, _, place = given.executor.partition("://")
    if scheme not in SCHEMES or not place.rpartition(":")[2].isdecimal():
        raise click.UsageError(f"--executor {given.executor}: give {PLACES}")
    return f"{SCHEMES[scheme]}://{place}"


def _by_ssh(rows: Sequence[HostRow]) -> SpecCluster:
    from ccmix.cluster.started import by_ssh  # noqa: PLC0415  # Dask is slow

    return by_ssh(rows, tell)


def _by_slurm(jobs: int) -> SpecCluster:
    from ccmix.cluster.started import by_slurm  # noqa: PLC0415  # Dask is slow

    return by_slurm(jobs, tell)
