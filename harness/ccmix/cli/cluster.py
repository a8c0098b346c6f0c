"""Prepares the cluster that `ccmix run --executor` names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ccmix.cli.output import tell

if TYPE_CHECKING:
    from distributed import SpecCluster

    from ccmix.cli.run import RunOptions
    from ccmix.config.hostlist import HostRow
    from ccmix.model import Run
    from ccmix.run.executor import Executor

SCHEMES = {"dask": "tcp", "dask+tls": "tls"}  # and what Dask calls them
SSH, SLURM = "ssh:", "slurm"
PLACES = "dask://HOST:PORT, dask+tls://HOST:PORT, ssh:HOSTS.csv, slurm or slurm:JOBS"


def executor(runs: Sequence[Run], given: RunOptions, kernels: Mapping[str, Path]) -> Executor:
    """Returns what makes the runs on a cluster, when its scheduler has answered.

    Raises UsageError for options that don't go together, ConfigError for a file of hosts, ToolError, and ClusterError
    if no worker can be used.
    """
    from ccmix.cli import lacking_ccas, lacking_parameters

    start = _start(given)
    lacking_ccas.refuse_in_lab(runs)
    lacking_parameters.refuse_in_lab(runs)
    from ccmix.cli.running import emulation_programs
    from ccmix.cluster.connection import SchedulerConnection  # imports Dask
    from ccmix.cluster.executor import DaskExecutor
    from ccmix.cluster.sending import Lab
    from ccmix.cluster.shared_folder import SharedFolder
    from ccmix.tools import find_capflow, find_confine, find_userland

    programs = {**asdict(emulation_programs()), "capflow": find_capflow(), "confine": find_confine()}
    started = None
    if isinstance(start, str):
        address = start
    else:
        started = start()
        address = started.scheduler_address
    host_root = any(run.topology.host_root for run in runs)
    connection = SchedulerConnection(address, tell, host_root, started.security if started else None)
    try:
        asyncio.run(connection.check())
    except BaseException:
        if started:
            started.close()
        raise
    shared = SharedFolder(given.shared, given.folder) if given.shared else None
    return DaskExecutor(connection, Lab(kernels, programs, find_userland()), shared, started)


def _start(given: RunOptions) -> str | Callable[[], SpecCluster]:
    """Returns the scheduler's address as Dask has it, or what starts a cluster. Raises UsageError and ConfigError."""
    assert given.executor
    if not given.in_lab:
        raise click.UsageError("--executor makes runs of the lab: give --lab")
    if given.jobs:
        raise click.UsageError("-j is for this machine: each worker of a cluster has its own number of threads")
    if given.shared and not given.shared.is_dir():
        raise click.UsageError(
            f"--shared {given.shared}: is no folder here: give one that this machine and all workers see"
        )
    if given.executor.startswith(SSH):
        from ccmix.config.hostlist import read_hosts

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
    from ccmix.cluster.started import by_ssh  # imports Dask

    return by_ssh(rows, tell)


def _by_slurm(jobs: int) -> SpecCluster:
    from ccmix.cluster.started import by_slurm  # imports Dask

    return by_slurm(jobs, tell)
