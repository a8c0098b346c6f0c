"""Makes runs at a worker of Dask, which is started with `--preload ccmix.cluster.worker`."""

import asyncio
import functools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from distributed import Worker, WorkerPlugin, get_worker

from ccmix.archive import ArchiveError, RunFolder
from ccmix.cluster import files
from ccmix.cluster.identity import fingerprint, parts
from ccmix.cluster.leaving import with_files
from ccmix.cluster.messages import ENDLESS, IDENTITY, MEMORY, WORKER_ID, Job, Reply, SentFile, encoded
from ccmix.cluster.workplace import job_folder, remove_own
from ccmix.failures import located
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError
from ccmix.lab import GuestError
from ccmix.lab.host import available_memory_bytes
from ccmix.model import STOCK_KERNEL
from ccmix.run.executor import concluded, in_thread
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.tools import ToolError

OURS = "ccmix"  # the plugin's name
LEFT_TO_OTHERS = 0.1  # of the memory that is available: tables are made beside the guests
UNFIT = ("start",)  # reasons of GuestError for which another worker is tried
FOUND_BY = {"capflow": "CCMIX_CAPFLOW", "confine": "CCMIX_CONFINE"}  # programs that the lab finds by a variable
FULL_BYTES = 2**20  # a disk with less space than that counts as full


async def dask_setup(worker: Worker) -> None:
    """Gives the worker, before it is announced to the scheduler, the resources that ccmix asks for."""
    identities = {IDENTITY + fingerprint(parts(host_root)): ENDLESS for host_root in (False, True)}
    for name, quantity in {**identities, MEMORY: _memory_bytes(worker)}.items():
        for resources in (worker.state.total_resources, worker.state.available_resources):
            resources.setdefault(name, quantity)
    worker.startup_information[WORKER_ID] = _id
    await worker.plugin_add(_RunsInProgress(), name=OURS)


def dask_teardown(_: Worker) -> None:
    """Leaves nothing in the folder for temporary files."""
    remove_own()


def _id(worker: Worker) -> str:
    return str(worker.id)


def identity(host_root: bool) -> dict[str, str]:
    """Returns what this machine has, as parts() does."""
    return parts(host_root)


def keep(sent: Sequence[SentFile]) -> str:
    """Keeps what a job lacked. Returns why it could not be kept, or nothing."""
    try:
        for file in sent:
            content = Path(file.shared).read_bytes() if file.shared else file.content
            (files.keep_userland if file.is_userland else files.keep)(file.sha256, content)
    except (OSError, ValueError, ArchiveError, GuestError) as error:
        return located(error) if isinstance(error, OSError) else str(error)
    return ""


class _RunsInProgress(WorkerPlugin):
    """Ends the guest of a run whose result nobody waits for any more."""

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[Reply]] = {}

    def transition(self, key: object, start: str, finish: str, **_: object) -> None:
        """Cancels a run whose task is released. Dask only forgets the task, and lets its coroutine run on."""
        if (start, finish) == ("executing", "released") and (task := self.tasks.get(str(key))):
            task.cancel()


async def make_run(job: Job) -> bytes:
    """Makes the run of a job. Returns an encoded Reply."""
    worker = get_worker()
    running = worker.plugins[OURS]
    assert isinstance(running, _RunsInProgress)
    task = running.tasks[job.key] = asyncio.ensure_future(_answer(job, worker))
    try:
        return encoded(await task)
    finally:
        del running.tasks[job.key]


async def _answer(job: Job, worker: Worker) -> Reply:
    answer = Reply("unfit", worker.address, worker.id)
    try:
        found = await asyncio.to_thread(files.found, job.hashes)
        userland = await asyncio.to_thread(files.found_userland, job.userland)
        lacks = sorted(job.hashes - found.keys()) + ([] if userland else [job.userland])
        if not userland or lacks:
            return replace(answer, outcome="lacks", lacks=tuple(lacks))
        worker.log_event(job.topic, {"began": job.key, "worker": worker.address, "id": worker.id})
        with job_folder() as place:
            return await _made(job, answer, found, userland, RunFolder(place / "run"))
    except OSError as error:
        return replace(answer, reason=located(error))
    except (ToolError, GuestError) as error:
        return replace(answer, reason=str(error))
    except Exception as error:  # one that nobody foresaw says nothing of the other workers
        return replace(answer, reason=repr(error))


async def _made(job: Job, answer: Reply, found: Mapping[str, Path], userland: Path, folder: RunFolder) -> Reply:
    answer = replace(answer, outcome="finished", folder=str(folder.partial))
    made = folder.path
    try:
        machine = _machine(
            tuple((name, found[sha256]) for name, sha256 in job.kernels.items()),
            tuple((name, found[sha256]) for name, sha256 in job.programs.items()),
            userland,
        )
        measured = await machine.measure(job.run, folder.begin())
        execution = replace(measured.execution, measured_s=time.time())
        await in_thread(lambda: concluded(job.run, folder, measured.measurement, execution))
    except GuestError as error:
        answer = replace(answer, outcome="unfit" if error.reason in UNFIT else "failed", reason=str(error))
        made = folder.partial
    except (GeneratorError, CommandError, ArchiveError) as error:
        answer = replace(answer, outcome="failed", reason=str(error))
        made = folder.partial
    if answer.outcome == "failed" and _is_full(folder.partial):
        answer = replace(answer, outcome="unfit", reason=f"its disk is full: {answer.reason}")
    if answer.outcome == "unfit":
        return answer
    return await with_files(answer, made, job.shared)


def _is_full(folder: Path) -> bool:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize < FULL_BYTES


@functools.cache
def _machine(
    kernels: tuple[tuple[str, Path], ...], programs: tuple[tuple[str, Path], ...], userland: Path
) -> LabMachine:
    """Returns the lab of a campaign, of which each worker has one: its runs share the memory."""
    others, own = dict(kernels), dict(programs)
    for name, variable in FOUND_BY.items():
        os.environ[variable] = str(own.pop(name))
    return LabMachine(others.pop(STOCK_KERNEL), EmulationPrograms(**own), others, userland)


def _memory_bytes(worker: Worker) -> float:
    limit, available = worker.memory_manager.memory_limit, available_memory_bytes()
    known = [limit] if limit else []
    return min(known + ([(1 - LEFT_TO_OTHERS) * available] if available else [])) if known or available else ENDLESS
