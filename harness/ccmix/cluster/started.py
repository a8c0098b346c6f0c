"""Starts workers for one campaign, at hosts by OpenSSH or as jobs of SLURM, and a scheduler of Dask in this process."""

import asyncio
import logging
import random
import shlex
import shutil
import subprocess
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
from ccmix.isolated import module_command
from ccmix.temporary import temporary_folder
from ccmix.tools import cache_folder

LOOPBACK = "127.0.0.1"
NO_PAGE = f"{LOOPBACK}:0"  # where Dask shows its dashboard: it has to listen somewhere
PRELOAD = ("--preload", "ccmix.cluster.worker")
PORTS = range(20_000, 32_000)  # below those that Linux gives to who asks for any
TRIES = 3  # with other ports, of which each may be taken
PYTHON = "python"  # a column of the file of hosts
NO_FORWARDING = "forward"  # is in what OpenSSH says of a port that it can't pass on
SUBMITTED_EACH_S = 0.05
REGISTERS_WITHIN_S = 60.0
CERTIFIED_DAYS = 365  # of a certificate for one campaign
CERTIFIED_WITHIN_S = 60.0

Tell = Callable[[str], None]


class _Failures:
    """Collects why workers don't start, and says it of those that are started anew later."""

    def __init__(self, tell: Tell) -> None:
        self.at_start: list[str] = []
        self.tell = tell
        self.is_start = True

    def add(self, sentence: str) -> None:
        if self.is_start:
            self.at_start.append(sentence)
        else:
            self.tell(sentence)


def by_ssh(rows: Sequence[HostRow], tell: Tell) -> SpecCluster:
    """Returns a cluster with a worker at each host that could be reached; says which could not.

    OpenSSH carries what scheduler and workers say to each other, so all of them listen on loopback alone. Raises
    ClusterError if no worker has started.
    """
    _silence()
    failures = _Failures(tell)
    cluster = SpecCluster(
        workers={row.name: {"cls": SshWorker, "options": {"row": row, "failures": failures}} for row in rows},
        scheduler={"cls": Scheduler, "options": {"host": LOOPBACK, "port": 0, "dashboard_address": NO_PAGE}},
        silence_logs=False,
    )
    return _with_workers(cluster, failures, len(rows))


def by_slurm(jobs: int, tell: Tell) -> SpecCluster:
    """Returns a cluster whose workers come as SLURM starts so many jobs, as dask-jobqueue's configuration describes
    them. Raises ClusterError if none could be submitted.
    """
    from dask_jobqueue.slurm import SLURMCluster, SLURMJob  # noqa: PLC0415  # writes a file of its configuration

    _silence()
    failures = _Failures(tell)
    submitted: list[str] = []

    class SlurmJob(SLURMJob):
        async def start(self) -> None:
            try:
                await super().start()  # type: ignore[no-untyped-call]
                submitted.append(str(self.name))
            except (OSError, RuntimeError, ValueError) as error:
                failures.add(f"SLURM takes no job: {' '.join(str(error).split())}")
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
    if not security.get_connection_args("client")["ssl_context"]:
        security = temporary_security()
    certificates = Path(dask.config.get("jobqueue.slurm.shared-temp-directory", None) or cache_folder() / "slurm")
    try:
        certificates.mkdir(parents=True, exist_ok=True)
        cluster = SLURMCluster(
            job_cls=SlurmJob,  # type: ignore[arg-type]  # it says that it takes a job, and takes its class
            processes=configured["processes"] or 1,
            python=f"{configured['python'] or sys.executable} -I",  # jobs begin in the working directory
            nanny=False,
            security=security,
            shared_temp_directory=str(certificates),
            scheduler_options=scheduler,
            worker_extra_args=[*configured["worker-extra-args"], *PRELOAD, "--dashboard-address", NO_PAGE],
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ClusterError(f"slurm: {' '.join(str(error).split())}") from error
    cluster.scale(jobs=jobs)
    while len(submitted) + len(failures.at_start) < jobs:
        time.sleep(SUBMITTED_EACH_S)
    return _with_workers(cluster, failures, jobs)


def temporary_security() -> Security:
    """Returns a certificate for one campaign, by which its parts know each other. Raises ClusterError."""
    with temporary_folder() as folder:
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=ccmix"]
        argv += ["-days", str(CERTIFIED_DAYS), "-keyout", str(key), "-out", str(certificate)]
        try:
            subprocess.run(argv, check=True, capture_output=True, timeout=CERTIFIED_WITHIN_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise ClusterError(
                f"slurm: openssl makes no certificate ({error}), and without TLS who reaches the scheduler can run "
                "commands as you: install openssl, or configure distributed.comm.tls"
            ) from error
        own, secret = certificate.read_text(), key.read_text()
    roles = {
        f"tls_{role}_{part}": content
        for role in ("client", "scheduler", "worker")
        for part, content in (("cert", own), ("key", secret))
    }
    return Security(require_encryption=True, tls_ca_file=own, **roles)


def _silence() -> None:
    """Keeps Dask from writing what concerns itself."""
    for name in ("distributed", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _with_workers(cluster: SpecCluster, failures: _Failures, asked: int) -> SpecCluster:
    failures.is_start = False
    if len(failures.at_start) == asked:
        cluster.close()
        raise ClusterError(failures.at_start[0])
    for sentence in failures.at_start:
        failures.tell(sentence)
    return cluster


class SshWorker(ProcessInterface):
    """Is a worker at a host, and the OpenSSH that passes its port and the scheduler's on."""

    def __init__(self, scheduler: str, name: str, row: HostRow, failures: _Failures) -> None:
        super().__init__(scheduler=scheduler, name=name)  # type: ignore[no-untyped-call]
        self._name = name
        self._scheduler = scheduler
        self._host = str(parse_host(row.address, row.user))
        self._python = dict(row.metadata).get(PYTHON) or str(Path(sys.executable))
        self._failures = failures
        self._ssh: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._last = ""

    async def start(self) -> None:
        """Starts the worker, and waits until the scheduler has it; adds to the failures if that fails."""
        for _ in range(TRIES):
            self._ssh = await self._started()
            try:
                registered = await asyncio.wait_for(self._registered(self._ssh), REGISTERS_WITHIN_S)
            except TimeoutError:
                self._last = f"it did not reach the scheduler within {REGISTERS_WITHIN_S:g} s: {self._last}"
                await self._end()
                break
            if registered:
                self._reading = asyncio.create_task(self._read(self._ssh))
                break
            await self._ssh.wait()
            if NO_FORWARDING not in self._last:
                break
        if not self._reading:
            self._failures.add(f"{self._name}: no worker starts there: {self._last or 'ssh ended without a word'}")
        await super().start()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        if self._reading:
            self._reading.cancel()
        await self._end()  # the worker ends with its scheduler
        await super().close()  # type: ignore[no-untyped-call]

    async def _end(self) -> None:
        if self._ssh and self._ssh.returncode is None:
            with suppress(ProcessLookupError):
                self._ssh.terminate()
            await self._ssh.wait()

    async def _started(self) -> asyncio.subprocess.Process:
        scheduler, there, here = random.sample(PORTS, 3)
        forwards = (
            "-R", f"{LOOPBACK}:{scheduler}:{self._scheduler.partition('://')[2]}",
            "-L", f"{LOOPBACK}:{here}:{LOOPBACK}:{there}",
        )  # fmt: skip
        worker = module_command(
            "distributed.cli.dask_worker", f"tcp://{LOOPBACK}:{scheduler}",
            "--listen-address", f"tcp://{LOOPBACK}:{there}", "--contact-address", f"tcp://{LOOPBACK}:{here}",
            "--dashboard-address", NO_PAGE, "--no-nanny", "--name", self._name, *PRELOAD,
            python=self._python, folder=None, site=True,
        )  # fmt: skip
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
        self._failures.tell(f"{self._name}: the worker there ended: {self._last}")
