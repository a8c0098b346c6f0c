"""Starts workers for one campaign, at hosts by OpenSSH or as jobs of SLURM, and a scheduler of Dask in this process."""

import asyncio
import logging
import random
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import dask
from distributed import Scheduler, Security, SpecCluster
from distributed.deploy.spec import ProcessInterface

from ccmix.cluster.errors import ClusterError
from ccmix.config.hostlist import HostRow
from ccmix.hosts.address import parse_host
from ccmix.hosts.launch import ssh_command

LOOPBACK = "127.0.0.1"
NO_PAGE = f"{LOOPBACK}:0"  # where Dask shows its dashboard: it has to listen somewhere
PRELOAD = ("--preload", "ccmix.cluster.worker")
PORTS = range(20_000, 32_000)  # below those that Linux gives to who asks for any
TRIES = 3  # with other ports, of which each may be taken
PYTHON = "python"  # a column of the file of hosts
NO_FORWARDING = "forward"  # is in what OpenSSH says of a port that it can't pass on
SUBMITTED_EACH_S = 0.05

Tell = Callable[[str], None]


def by_ssh(rows: Sequence[HostRow], tell: Tell) -> SpecCluster:
    """Returns a cluster with a worker at each host that could be reached; says which could not.

    OpenSSH carries what scheduler and workers say to each other, so all of them listen on loopback alone. Raises
    ClusterError if no worker has started.
    """
    _silence()
    failed: list[str] = []
    cluster = SpecCluster(
        workers={row.name: {"cls": SshWorker, "options": {"row": row, "failed": failed, "tell": tell}} for row in rows},
        scheduler={"cls": Scheduler, "options": {"host": LOOPBACK, "port": 0, "dashboard_address": NO_PAGE}},
        silence_logs=False,
    )
    return _with_workers(cluster, failed, len(rows), tell)


def by_slurm(jobs: int, tell: Tell) -> SpecCluster:
    """Returns a cluster whose workers come as SLURM starts so many jobs, as dask-jobqueue's configuration describes
    them. Raises ClusterError if none could be submitted.
    """
    from dask_jobqueue.slurm import SLURMCluster, SLURMJob  # noqa: PLC0415  # writes a file of its configuration

    _silence()
    failed: list[str] = []
    submitted: list[str] = []

    class SlurmJob(SLURMJob):
        async def start(self) -> None:
            try:
                await super().start()  # type: ignore[no-untyped-call]
                submitted.append(str(self.name))
            except (OSError, RuntimeError, ValueError) as error:
                failed.append(f"SLURM takes no job: {' '.join(str(error).split())}")
                await ProcessInterface.start(self)

        async def close(self) -> None:
            await super().close()  # type: ignore[no-untyped-call]
            await ProcessInterface.close(self)

    configured = dask.config.get("jobqueue.slurm")
    scheduler = {"dashboard_address": NO_PAGE, **(configured["scheduler-options"] or {})}
    if not (configured["interface"] or {"host", "interface"} & scheduler.keys()):
        raise ClusterError(
            "slurm: name the network interface over which the nodes reach this machine, jobqueue.slurm.interface, in "
            "~/.config/dask/jobqueue.yaml: nothing listens beyond loopback otherwise"
        )
    if not shutil.which(SlurmJob.submit_command):
        raise ClusterError(f"slurm: there is no {SlurmJob.submit_command} here: start ccmix where jobs are submitted")
    security = Security()
    try:
        cluster = SLURMCluster(
            job_cls=SlurmJob,  # type: ignore[arg-type]  # it says that it takes a job, and takes its class
            processes=configured["processes"] or 1,
            nanny=False,
            security=security if security.get_connection_args("client")["ssl_context"] else None,
            scheduler_options=scheduler,
            worker_extra_args=[*configured["worker-extra-args"], *PRELOAD, "--dashboard-address", NO_PAGE],
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ClusterError(f"slurm: {' '.join(str(error).split())}") from error
    cluster.scale(jobs=jobs)
    while len(submitted) + len(failed) < jobs:
        time.sleep(SUBMITTED_EACH_S)
    return _with_workers(cluster, failed, jobs, tell)


def _silence() -> None:
    """Keeps Dask from writing what concerns itself."""
    for name in ("distributed", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _with_workers(cluster: SpecCluster, failed: Sequence[str], asked: int, tell: Tell) -> SpecCluster:
    if len(failed) == asked:
        cluster.close()
        raise ClusterError(failed[0])
    for sentence in failed:
        tell(sentence)
    return cluster


class SshWorker(ProcessInterface):
    """Is a worker at a host, and the OpenSSH that passes its port and the scheduler's on."""

    def __init__(self, scheduler: str, name: str, row: HostRow, failed: list[str], tell: Tell) -> None:
        super().__init__(scheduler=scheduler, name=name)  # type: ignore[no-untyped-call]
        self._name = name
        self._scheduler = scheduler
        self._host = str(parse_host(row.address, row.user))
        self._python = dict(row.metadata).get(PYTHON) or str(Path(sys.executable))
        self._failed = failed
        self._tell = tell
        self._ssh: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._last = ""

    async def start(self) -> None:
        """Starts the worker, and waits until the scheduler has it; adds to `failed` if that fails."""
        for _ in range(TRIES):
            self._ssh = await self._started()
            if await self._registered(self._ssh):
                self._reading = asyncio.create_task(self._read(self._ssh))
                break
            if NO_FORWARDING not in self._last:
                break
        if not self._reading:
            self._failed.append(f"{self._name}: no worker starts there: {self._last or 'ssh ended without a word'}")
        await super().start()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        if self._reading:
            self._reading.cancel()
        if self._ssh and self._ssh.returncode is None:
            with suppress(ProcessLookupError):
                self._ssh.terminate()  # the worker ends with its scheduler
            await self._ssh.wait()
        await super().close()  # type: ignore[no-untyped-call]

    async def _started(self) -> asyncio.subprocess.Process:
        scheduler, there, here = random.sample(PORTS, 3)
        forwards = (
            "-R", f"{LOOPBACK}:{scheduler}:{self._scheduler.partition('://')[2]}",
            "-L", f"{LOOPBACK}:{here}:{LOOPBACK}:{there}",
        )  # fmt: skip
        worker = [
            self._python, "-m", "distributed.cli.dask_worker", f"tcp://{LOOPBACK}:{scheduler}",
            "--listen-address", f"tcp://{LOOPBACK}:{there}", "--contact-address", f"tcp://{LOOPBACK}:{here}",
            "--dashboard-address", NO_PAGE, "--no-nanny", "--name", self._name, *PRELOAD,
        ]  # fmt: skip
        return await asyncio.create_subprocess_exec(
            "setpriv", "--pdeathsig", "TERM", *ssh_command(forwards), self._host, f"exec {shlex.join(worker)}",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for ccmix, which ends it
        )  # fmt: skip

    async def _registered(self, ssh: asyncio.subprocess.Process) -> bool:
        assert ssh.stderr
        async for line in ssh.stderr:
            self._last = line.decode("utf-8", "replace").strip() or self._last
            if "Registered to" in self._last:
                return True
        return False

    async def _read(self, ssh: asyncio.subprocess.Process) -> None:
        """Reads on, so that the worker can write, and says so when it ends before the campaign."""
        assert ssh.stderr
        async for line in ssh.stderr:
            self._last = line.decode("utf-8", "replace").strip() or self._last
        self._tell(f"{self._name}: the worker there ended: {self._last}")
