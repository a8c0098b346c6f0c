"""Starts a Dask cluster for one campaign: workers over OpenSSH or as SLURM jobs, and a scheduler.

The scheduler runs in this process.
"""

import asyncio
import logging
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import dask
from distributed import Scheduler, Security, SpecCluster
from distributed.deploy.spec import ProcessInterface

from ccmix import files
from ccmix.cluster.messages import ClusterError
from ccmix.config.hostlist import HostRow
from ccmix.hosts.address import parse_host, ssh_command
from ccmix.isolated import module_command
from ccmix.temporary import temporary_folder
from ccmix.tools import cache_folder

LOOPBACK = "127.0.0.1"
NO_PAGE = f"{LOOPBACK}:0"  # for Dask's dashboard, which has to listen somewhere
PRELOAD = ("--preload", "ccmix.cluster.worker")
PORTS = range(20_000, 32_000)  # below the ports that Linux chooses itself
TRIES = 3  # with other ports, because each port may be in use
PYTHON = "python"  # a column of the file of hosts
NO_FORWARDING = "forward"  # in OpenSSH's message on a port that it can't forward
SUBMITTED_EACH_S = 0.05
REGISTERS_WITHIN_S = 60.0
CERTIFIED_DAYS = 365  # of a certificate for a campaign
CERTIFIED_WITHIN_S = 60.0

Tell = Callable[[str], None]


def cluster_by_ssh(rows: Sequence[HostRow], tell: Tell) -> SpecCluster:
    """Returns a cluster with a worker at each of these hosts that can be reached. Raises
    ClusterError if there is none.

    OpenSSH carries the messages between scheduler and workers, so all of them listen only on
    loopback.
    """
    _silence_dask()
    cluster = SpecCluster(
        workers={
            row.name: {"cls": SshWorker, "options": {"row": row, "tell": tell}} for row in rows
        },
        scheduler={
            "cls": Scheduler,
            "options": {"host": LOOPBACK, "port": 0, "dashboard_address": NO_PAGE},
        },
        silence_logs=False,
    )
    return _check_workers(cluster, any(worker.registered for worker in cluster.workers.values()))


def cluster_by_slurm(jobs: int, tell: Tell) -> SpecCluster:
    """Returns a cluster whose workers run in SLURM jobs, as dask-jobqueue's configuration describes
    them. Raises ClusterError if none could be submitted.
    """
    from dask_jobqueue.slurm import SLURMCluster, SLURMJob  # noqa: PLC0415  # writes a file of its configuration

    _silence_dask()
    submitted: list[bool] = []

    class SlurmJob(SLURMJob):
        """Represents a job with workers. Unlike its base class, it does not raise an error if SLURM
        refuses the job, but tells the user.
        """

        async def start(self) -> None:
            """Submits the job, and notes in `submitted` whether SLURM accepted it."""
            try:
                await super().start()  # type: ignore[no-untyped-call]
                submitted.append(True)
            except (OSError, RuntimeError, ValueError) as error:
                tell(f"SLURM accepts no job: {' '.join(str(error).split())}")
                submitted.append(False)
                await ProcessInterface.start(self)

        async def close(self) -> None:
            await super().close()  # type: ignore[no-untyped-call]
            await ProcessInterface.close(self)

    configured = dask.config.get("jobqueue.slurm")
    scheduler = {"dashboard_address": NO_PAGE, **(configured["scheduler-options"] or {})}
    if not (configured["interface"] or {"host", "interface"} & scheduler.keys()):
        raise ClusterError(
            "slurm: name the network interface over which the nodes reach this machine, "
            "jobqueue.slurm.interface, in "
            "~/.config/dask/jobqueue.yaml: nothing listens beyond loopback otherwise"
        )
    if not shutil.which(SlurmJob.submit_command):
        raise ClusterError(
            f"slurm: there is no {SlurmJob.submit_command} here: start ccmix where jobs are "
            "submitted"
        )
    security = Security()
    if not security.get_connection_args("client")["ssl_context"]:
        security = temporary_security()
    certificates = Path(
        dask.config.get("jobqueue.slurm.shared-temp-directory", None) or cache_folder() / "slurm"
    )
    try:
        certificates.mkdir(parents=True, exist_ok=True)
        files.hold(certificates)
        cluster = SLURMCluster(
            # annotated as a job, but takes its class
            job_cls=SlurmJob,  # type: ignore[arg-type]
            processes=configured["processes"] or 1,
            # jobs begin in the working directory
            python=f"{configured['python'] or sys.executable} -I",
            nanny=False,
            security=security,
            shared_temp_directory=str(certificates),
            scheduler_options=scheduler,
            worker_extra_args=[
                *configured["worker-extra-args"],
                *PRELOAD,
                "--dashboard-address",
                NO_PAGE,
            ],
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ClusterError(f"slurm: {' '.join(str(error).split())}") from error
    cluster.scale(jobs=jobs)
    while len(submitted) < jobs:
        time.sleep(SUBMITTED_EACH_S)
    return _check_workers(cluster, any(submitted))


def temporary_security() -> Security:
    """Returns a new TLS certificate by which the parts of a campaign's cluster recognise each
    other. Raises ClusterError.
    """
    with temporary_folder() as folder:
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ccmix"]
        argv += ["-days", str(CERTIFIED_DAYS), "-keyout", str(key), "-out", str(certificate)]
        try:
            subprocess.run(argv, check=True, capture_output=True, timeout=CERTIFIED_WITHIN_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise ClusterError(
                f"slurm: openssl makes no certificate ({error}), and without TLS who reaches the "
                "scheduler can run "
                "commands as you: install openssl, or configure distributed.comm.tls"
            ) from error
        content = {"cert": certificate.read_text(), "key": key.read_text()}
    roles = {
        f"tls_{role}_{part}": content[part]
        for role in ("client", "scheduler", "worker")
        for part in content
    }
    return Security(require_encryption=True, tls_ca_file=content["cert"], **roles)


def _silence_dask() -> None:
    """Suppresses Dask's log messages, which are about Dask itself. ccmix tells the user what
    matters.
    """
    for name in ("distributed", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _check_workers(cluster: SpecCluster, has_workers: bool) -> SpecCluster:
    """Returns the cluster if it has workers; otherwise closes it and raises ClusterError."""
    if not has_workers:
        cluster.close()
        raise ClusterError("no worker could be started")
    return cluster


class SshWorker(ProcessInterface):
    """Runs a worker at a host through OpenSSH, which also forwards its port and the scheduler's.
    Dask's SpecCluster starts and closes it.
    """

    def __init__(self, scheduler: str, name: str, row: HostRow, tell: Tell) -> None:
        """Takes the scheduler's address, the worker's name, and the host's row in the file of
        hosts. `tell` gets sentences for the user.
        """
        super().__init__(scheduler=scheduler, name=name)  # type: ignore[no-untyped-call]
        self._name = name
        self._scheduler = scheduler
        self._host = str(parse_host(row.address, row.user))
        self._python = dict(row.metadata).get(PYTHON) or str(Path(sys.executable))
        self._tell = tell
        self._ssh: asyncio.subprocess.Process | None = None
        self._reading_task: asyncio.Task[None] | None = None
        self._last_line = ""
        self.registered = False

    async def start(self) -> None:
        """Starts the worker, and waits until it has registered at the scheduler. Tries other ports
        if OpenSSH can't forward one. Tells the user why if it fails.
        """
        for _ in range(TRIES):
            self._ssh = await self._start_ssh()
            try:
                self.registered = await asyncio.wait_for(
                    self._wait_for_registration(self._ssh), REGISTERS_WITHIN_S
                )
            except TimeoutError:
                self._last_line = (
                    f"it did not reach the scheduler within {REGISTERS_WITHIN_S:g} s: "
                    f"{self._last_line}"
                )
                await self._end_ssh()
                break
            if self.registered:
                self._reading_task = asyncio.create_task(self._read_output(self._ssh))
                break
            await self._ssh.wait()
            if NO_FORWARDING not in self._last_line:
                break
        if not self.registered:
            self._tell(
                f"{self._name}: no worker starts there: "
                f"{self._last_line or 'ssh ended without a word'}"
            )
        await super().start()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Ends the worker, with its OpenSSH."""
        if self._reading_task:
            self._reading_task.cancel()
        await self._end_ssh()  # the worker ends with its scheduler
        await super().close()  # type: ignore[no-untyped-call]

    async def _end_ssh(self) -> None:
        """Ends OpenSSH, if it is running. The worker ends when it has lost its scheduler."""
        if self._ssh and self._ssh.returncode is None:
            with suppress(ProcessLookupError):
                self._ssh.terminate()
            await self._ssh.wait()

    async def _start_ssh(self) -> asyncio.subprocess.Process:
        """Starts OpenSSH with the worker as its command.

        On the host, the worker reaches the scheduler at a port of loopback that OpenSSH forwards to
        here (-R). The scheduler reaches the worker at a port of loopback here, forwarded to there
        (-L).
        """
        scheduler_port, worker_port, local_port = random.sample(PORTS, 3)
        forwards = (
            "-R",
            f"{LOOPBACK}:{scheduler_port}:{self._scheduler.partition('://')[2]}",
            "-L",
            f"{LOOPBACK}:{local_port}:{LOOPBACK}:{worker_port}",
        )
        worker = module_command(
            "distributed.cli.dask_worker",
            f"tcp://{LOOPBACK}:{scheduler_port}",
            "--listen-address",
            f"tcp://{LOOPBACK}:{worker_port}",
            "--contact-address",
            f"tcp://{LOOPBACK}:{local_port}",
            "--dashboard-address",
            NO_PAGE,
            "--no-nanny",
            "--name",
            self._name,
            *PRELOAD,
            python=self._python,
            folder=None,
            site=True,
        )
        return await asyncio.create_subprocess_exec(
            "setpriv",
            "--pdeathsig",
            "TERM",
            *ssh_command(forwards),
            self._host,
            f"exec {shlex.join(worker)}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C goes only to ccmix, which ends it
        )

    async def _wait_for_registration(self, ssh: asyncio.subprocess.Process) -> bool:
        """Returns whether the worker says that it has registered at the scheduler; False if it ends
        before.
        """
        async for line in self._error_lines(ssh):
            if "Registered to" in line:
                return True
        return False

    async def _read_output(self, ssh: asyncio.subprocess.Process) -> None:
        """Goes on reading the worker's messages, so that the worker is not blocked. Tells the user
        if it ends before the campaign.
        """
        async for _ in self._error_lines(ssh):
            pass
        self._tell(f"{self._name}: the worker there ended: {self._last_line}")

    async def _error_lines(self, ssh: asyncio.subprocess.Process) -> AsyncIterator[str]:
        """Yields the lines of standard error of OpenSSH and the worker, and keeps the last for
        messages.
        """
        assert ssh.stderr
        async for line in ssh.stderr:
            self._last_line = line.decode("utf-8", "replace").strip() or self._last_line
            yield self._last_line
