"""Connects `ccmix run --executor` to a Dask cluster, whose workers then make the runs."""

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
    """Returns the object that makes the runs of `ccmix run --executor` on a Dask cluster.

    Connects to a running cluster or starts one, and waits until its scheduler answers. `kernels`
    maps names to the files of the lab's kernels that the runs use.

    Raises UsageError for options that can't be combined, ConfigError for mistakes in the file of
    hosts, ToolError, and ClusterError if no worker can be used.
    """
    address_or_start = _address_or_start(given)
    lacking.refuse_in_lab(runs)
    from ccmix.cluster import messages  # noqa: PLC0415  # Dask is slow
    from ccmix.cluster.executor import DaskExecutor, SchedulerConnection  # noqa: PLC0415  # Dask is slow

    for find_program in (*messages.PROGRAMS.values(), find_userland):
        find_program()  # raises ToolError if it is missing here
    # What each worker must have: programs and kernels by name, with their hashes
    needed_parts = messages.parts() | {
        name: sha256
        for name, sha256 in messages.kernel_parts().items()
        if name.removeprefix(messages.NAMED_KERNEL) in kernels
    }
    if any(run.topology.host_root for run in runs):
        needed_parts |= messages.host_parts()
    started_cluster = None
    if isinstance(address_or_start, str):
        address = address_or_start
    else:
        started_cluster = address_or_start()
        address = started_cluster.scheduler_address
    connection = SchedulerConnection(
        address, tell, needed_parts, started_cluster.security if started_cluster else None
    )
    try:
        asyncio.run(connection.check())
    except BaseException:
        if started_cluster:
            started_cluster.close()
        raise
    return DaskExecutor(connection, given.shared, given.folder, started_cluster)


def _address_or_start(given: RunOptions) -> str | Callable[[], SpecCluster]:
    """Reads --executor: returns the address of a running scheduler, such as 'tcp://HOST:PORT', or a
    function that starts a cluster by ssh or Slurm.

    Raises UsageError for options that don't fit, and ConfigError for mistakes in the file of hosts.
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
        return lambda: _start_by_ssh(rows)
    scheduler, _, jobs = given.executor.partition(":")
    if scheduler == SLURM and (given.executor == SLURM or (jobs.isdecimal() and int(jobs) > 0)):
        return lambda: _start_by_slurm(int(jobs or 1))
    scheme, _, host_and_port = given.executor.partition("://")
    if scheme not in SCHEMES or not host_and_port.rpartition(":")[2].isdecimal():
        raise click.UsageError(f"--executor {given.executor}: give {PLACES}")
    return f"{SCHEMES[scheme]}://{host_and_port}"


def _start_by_ssh(rows: Sequence[HostRow]) -> SpecCluster:
    from ccmix.cluster.started import cluster_by_ssh  # noqa: PLC0415  # Dask is slow

    return cluster_by_ssh(rows, tell)


def _start_by_slurm(jobs: int) -> SpecCluster:
    from ccmix.cluster.started import cluster_by_slurm  # noqa: PLC0415  # Dask is slow

    return cluster_by_slurm(jobs, tell)
