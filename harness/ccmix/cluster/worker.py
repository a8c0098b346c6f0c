"""The part of ccmix at a worker of Dask, which is started with `--preload ccmix.cluster.worker`."""

import asyncio
import functools
import hashlib
import io
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from distributed import Worker, WorkerPlugin, get_worker

from ccmix.archive import ArchiveError, RunFolder
from ccmix.archive.packed import pack_folder
from ccmix.cluster import files
from ccmix.cluster.identity import fingerprint, parts
from ccmix.cluster.messages import (
    ENDLESS,
    IDENTITY,
    MEMORY,
    MOST_THROUGH_DASK_BYTES,
    Job,
    Reply,
    encoded,
)
from ccmix.failures import located
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError
from ccmix.lab import GuestError
from ccmix.lab.host import available_memory_bytes
from ccmix.model import STOCK_KERNEL
from ccmix.run.executor import concluded, in_thread
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.temporary import temporary_folder
from ccmix.units import format_bytes

OURS = "ccmix"  # the plugin's name
LEFT_TO_OTHERS = 0.1  # of the memory that is available: tables are made beside the guests
UNFIT = ("start", "out of memory")  # reasons of GuestError for which another worker is tried
FOUND_BY = {"capflow": "CCMIX_CAPFLOW", "confine": "CCMIX_CONFINE"}  # programs that no lab is given
FULL_BYTES = 2**20  # less than that is left on a full disk


async def dask_setup(worker: Worker) -> None:
    """Gives the worker, before it is announced to the scheduler, the resources that ccmix asks for."""
    identities = {IDENTITY + fingerprint(parts(host_root)): ENDLESS for host_root in (False, True)}
    for name, quantity in {**identities, MEMORY: _memory_bytes(worker)}.items():
        for resources in (worker.state.total_resources, worker.state.available_resources):
            resources.setdefault(name, quantity)
    await worker.plugin_add(_RunsInProgress(), name=OURS)


def identity(host_root: bool) -> dict[str, str]:
    """Returns what this machine has, as parts() does."""
    return parts(host_root)


def keep(contents: Mapping[str, bytes], userlands: Mapping[str, bytes]) -> str:
    """Keeps files and packed userlands that a job lacked. Returns why they could not be kept, or nothing."""
    try:
        files.keep(contents)
        for sha256, packed in userlands.items():
            files.keep_userland(sha256, packed)
    except (OSError, ValueError, ArchiveError, GuestError) as error:
        return located(error) if isinstance(error, OSError) else str(error)
    return ""


class _RunsInProgress(WorkerPlugin):
    """Ends the guest of a run whose result nobody waits for any more."""

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[Reply]] = {}

    def transition(self, key: object, start: str, finish: str, **_: object) -> None:
        if finish == "cancelled" and (task := self.tasks.get(str(key))):
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
    found = await asyncio.to_thread(files.found, job.hashes)
    userland = await asyncio.to_thread(files.found_userland, job.userland)
    lacks = sorted(job.hashes - found.keys()) + ([] if userland else [job.userland])
    if not userland or lacks:
        return Reply("lacks", worker.address, lacks=tuple(lacks))
    worker.log_event(job.topic, {"began": job.key, "worker": worker.address})
    try:
        with temporary_folder() as place:
            return await _made(job, worker.address, found, userland, RunFolder(place / "run"))
    except OSError as error:
        return Reply("unfit", worker.address, located(error))


async def _made(job: Job, address: str, found: Mapping[str, Path], userland: Path, folder: RunFolder) -> Reply:
    answer = Reply("finished", address, folder=str(folder.partial))
    made = folder.path
    try:
        machine = _machine(
            tuple((name, found[sha256]) for name, sha256 in job.kernels.items()),
            tuple((name, found[sha256]) for name, sha256 in job.programs.items()),
            userland,
        )
        measured = await machine.measure(job.run, folder.begin(), None)
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
    return await asyncio.to_thread(_with_files, answer, made, job.shared)


def _is_full(folder: Path) -> bool:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize < FULL_BYTES


def _with_files(answer: Reply, folder: Path, shared: str | None) -> Reply:
    """Returns the answer with the folder's files. Raises OSError."""
    out = io.BytesIO()
    pack_folder(folder, out)
    content = out.getvalue()
    if len(content) <= MOST_THROUGH_DASK_BYTES:
        return replace(answer, files=content)
    if not shared:
        reason = f"the run's files have {format_bytes(len(content))}, and through Dask go at most "
        reason += f"{format_bytes(MOST_THROUGH_DASK_BYTES)}: give a folder that all workers see by --shared"
        return replace(answer, outcome="failed", reason=reason)
    with tempfile.NamedTemporaryFile(prefix="ccmix-", suffix=".zip", dir=shared, delete=False) as file:
        try:
            file.write(content)
        except OSError:
            Path(file.name).unlink()
            raise
    return replace(answer, shared=Path(file.name).name, sha256=hashlib.sha256(content).hexdigest())


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
