"""A real scheduler of Dask and real workers, as processes on loopback that end with the test."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.commands import wait_for
from support.ports import free_port

DASK = str(Path(sys.prefix, "bin", "dask"))
ON_LOOPBACK = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
ENDS_WITH_TEST = ("setpriv", "--pdeathsig", "KILL")
PRELOAD = ("--preload", "ccmix.cluster.worker")
STARTS_WITHIN_S = 120


@dataclass
class DaskCluster:
    """Starts and kills the scheduler and the workers. Each writes to a log in the folder."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()  # of all
    scheme: str = "tcp"
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def pids(self) -> list[int]:
        return [
            process.pid
            for process in (*self.workers, *([self.scheduler] if self.scheduler else []))
        ]

    def start_scheduler(self, environment: Mapping[str, str] | None = None) -> None:
        self.scheduler = self._start("scheduler", "--port", str(self.port), environment=environment)
        log = self.folder / "scheduler.log"
        wait_for(lambda: "Scheduler at" in log.read_text(), STARTS_WITHIN_S, "the scheduler")

    def kill_scheduler(self) -> None:
        assert self.scheduler
        self.scheduler.kill()
        self.scheduler.wait()

    def worker_address(self, number: int) -> str:
        """Returns the address by which Dask names a worker."""
        found = re.search(r"Start worker at: +(\S+)", self.log_of(number).read_text())
        assert found
        return found[1]

    def start_worker(
        self,
        *options: str,
        environment: Mapping[str, str] | None = None,
        preload: tuple[str, ...] = PRELOAD,
        dask: Sequence[str] = (DASK,),
    ) -> subprocess.Popen[bytes]:
        """Starts a worker of one thread by a command, and waits until it has registered."""
        local = ("--nthreads", "1", "--no-nanny", "--local-directory", str(self.folder))
        words = (self.address, *local, *preload, *options)
        started = self._start("worker", *words, environment=environment or {}, dask=dask)
        log = self.log_of(len(self.workers))
        self.workers.append(started)
        wait_for(lambda: "Registered to" in log.read_text(), STARTS_WITHIN_S, "a worker")
        return started

    def log_of(self, worker: int) -> Path:
        return self.folder / f"worker-{worker}.log"

    def kill_worker(self, number: int) -> None:
        """Kills a worker while it makes a run."""
        worker = self.workers[number]
        wait_for(lambda: children(worker.pid), STARTS_WITHIN_S, "a guest of the worker")
        worker.kill()
        worker.wait()

    def end(self) -> None:
        for process in (*self.workers, *([self.scheduler] if self.scheduler else [])):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()

    def _start(
        self,
        what: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        dask: Sequence[str] = (DASK,),
    ) -> subprocess.Popen[bytes]:
        log = self.folder / (
            f"worker-{len(self.workers)}.log" if what == "worker" else f"{what}.log"
        )
        argv = [*ENDS_WITH_TEST, *dask, what, *ON_LOOPBACK, *self.options, *arguments]
        with log.open("wb") as out:
            return subprocess.Popen(
                argv,
                stdout=out,
                stderr=out,
                env=os.environ | {"TMPDIR": str(self.folder)} | dict(environment or {}),
            )


def children(pid: int) -> list[int]:
    """Returns the processes that a process has started and that live."""
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").glob("*/children")
        for child in task.read_text().split()
    ]


def listening(pid: int) -> set[str]:
    """Returns the addresses of TCP on which a process listens."""
    argv = ["ss", "--tcp", "--listening", "--numeric", "--processes", "--no-header"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[3].rpartition(":")[0] for line in lines if f"pid={pid}," in line}


@contextlib.contextmanager
def dask_cluster(
    folder: Path, scheme: str = "tcp", options: tuple[str, ...] = ()
) -> Iterator[DaskCluster]:
    """Yields a cluster without workers, and ends it."""
    folder.mkdir()
    cluster = DaskCluster(folder, free_port(), options, scheme)
    try:
        cluster.start_scheduler()
        yield cluster
    finally:
        cluster.end()
