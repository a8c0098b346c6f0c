"""Makes runs at a Dask worker, which is started with `--preload ccmix.cluster.worker`, and brings
their files to the client, which checks them.
"""

import asyncio
import contextlib
import functools
import hashlib
import io
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from distributed import Worker, WorkerPlugin, get_worker

from ccmix.archive import ArchiveError, RunFolder, codec
from ccmix.archive.packed import pack_folder, unpack_folder
from ccmix.cluster.messages import (
    ABOUT,
    ENDLESS,
    KERNEL,
    MEMORY,
    MOST_THROUGH_DASK_BYTES,
    NAMED_KERNEL,
    USERLAND,
    Job,
    Reply,
    encoded,
    host_parts,
    kernel_parts,
    parts,
    resources,
)
from ccmix.failures import located
from ccmix.files import open_file, replacing
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError
from ccmix.lab import GuestError
from ccmix.lab.host import available_memory_bytes, locked_folder
from ccmix.model import STOCK_KERNEL, run_files
from ccmix.model.results import FinishedRun
from ccmix.run.campaign import Attempt, concluded, in_thread
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.temporary import temporary_place
from ccmix.tools import (
    ToolError,
    find_kernel,
    hold,
    named_kernels,
)
from ccmix.units import format_bytes

MOST_SHARED_BYTES = 64 * 2**30


class WrongReplyError(Exception):
    """Says that a reply is not what its worker should have sent."""


async def with_files(answer: Reply, folder: Path, shared: str | None) -> Reply:
    """Returns the answer with the folder's files. A cancelled call leaves nothing in the shared
    folder.

    An error of the shared folder fails the run, because other workers would meet it, too. Raises
    OSError for all other errors.
    """
    packed = folder.with_name("packed.zip")
    await in_thread(partial(_pack, folder, packed))
    size = packed.stat().st_size
    if size <= MOST_THROUGH_DASK_BYTES:
        return replace(answer, files=packed.read_bytes())
    if not shared:
        reason = f"the run's files have {format_bytes(size)}, and through Dask go at most "
        reason += (
            f"{format_bytes(MOST_THROUGH_DASK_BYTES)}: give a folder that all workers see "
            "by --shared"
        )
        return replace(answer, outcome="failed", reason=reason)
    file = Path(f"{shared}{uuid.uuid4().hex}.zip")
    try:
        sha256 = await in_thread(partial(_copy, packed, file))
    except asyncio.CancelledError:
        file.unlink(missing_ok=True)
        raise
    except OSError as error:
        return replace(
            answer, outcome="failed", reason=f"--shared can't be used: {located(error, file)}"
        )
    return replace(answer, shared=file.name, sha256=sha256)


def _pack(folder: Path, packed: Path) -> None:
    with packed.open("wb") as out:
        pack_folder(folder, out)


def _copy(packed: Path, file: Path) -> str:
    with packed.open("rb") as content, replacing(file) as out:
        shutil.copyfileobj(content, out)
        content.seek(0)
        return hashlib.file_digest(content, "sha256").hexdigest()


def arrived(
    attempt: Attempt, needed: Mapping[str, str], answer: Reply, shared: Path | None
) -> FinishedRun:
    """Fills the run's folder; a failed run leaves its partial folder, as on this machine. `needed`
    are the client's parts.

    Raises GeneratorError for a run that failed, WrongReplyError, and OSError.
    """
    place = attempt.folder.begin()
    try:
        with _packed(answer, shared) as content:
            size = content.seek(0, os.SEEK_END)
            content.seek(0)
            if size:
                unpack_folder(content, size, place)
        if answer.outcome == "failed":
            raise GeneratorError(
                answer.reason.replace(answer.folder, str(place)) if answer.folder else answer.reason
            )
        finished = codec.read(place, place / run_files.SUMMARY, codec.FINISHED_RUN)
    except (ArchiveError, FileNotFoundError) as error:
        raise WrongReplyError(
            f"the reply of {answer.worker} is not a finished run: {error}"
        ) from error
    _check(attempt, needed, answer.worker, finished)
    finished = replace(finished, execution=replace(finished.execution, retries=attempt.failures))
    attempt.folder.finish(finished)
    return finished


def _check(attempt: Attempt, needed: Mapping[str, str], worker: str, finished: FinishedRun) -> None:
    """Raises WrongReplyError unless this is the submitted run, made with the client's kernel and
    programs.
    """
    if finished.run != attempt.run:
        raise WrongReplyError(f"{worker} sent another run than {attempt.run.name}")
    topology, facts = attempt.run.topology, finished.facts
    kernel = KERNEL if topology.kernel == STOCK_KERNEL else NAMED_KERNEL + topology.kernel
    root = None if topology.host_root else needed[USERLAND]
    for what, made_with, here in (
        ("kernel", facts.lab_kernel.sha256 if facts.lab_kernel else None, needed[kernel]),
        ("root of the guest", facts.guest_root.userland_sha256 if facts.guest_root else "", root),
        *((name, sha256, needed.get(name)) for name, sha256 in (facts.lab_programs or {}).items()),
    ):
        if made_with != here:
            raise WrongReplyError(
                f"{worker} made the run with another {what}: {made_with}, not {here}"
            )


@contextlib.contextmanager
def _packed(answer: Reply, shared: Path | None) -> Iterator[IO[bytes]]:
    """Yields the packed files. Then removes the file in the shared folder, unless the context
    raised.

    Raises ArchiveError if the file in the shared folder is not the one that the worker wrote.
    """
    if not answer.shared:
        yield io.BytesIO(answer.files)
        return
    if shared is None or Path(answer.shared).name != answer.shared:
        raise ArchiveError(f"{answer.shared!r:.80}: is not a file of the shared folder")
    file = shared / answer.shared
    with os.fdopen(open_file(shared, file), "rb") as content:
        size = os.fstat(content.fileno()).st_size
        if size > MOST_SHARED_BYTES:
            raise ArchiveError(
                f"{file}: has {format_bytes(size)}, but at most "
                f"{format_bytes(MOST_SHARED_BYTES)} may be"
            )
        if hashlib.file_digest(content, "sha256").hexdigest() != answer.sha256:
            raise ArchiveError(
                f"{file}: has {format_bytes(size)} with another hash than its worker wrote"
            )
        yield content
    file.unlink()


PLUGIN = "ccmix"
LEFT_TO_OTHERS = 0.1  # of the available memory: tables are made at the same time as guests
UNFIT = ("start",)  # reasons of GuestError after which another worker is tried
FULL_BYTES = 2**20  # a disk with less space counts as full


async def dask_setup(worker: Worker) -> None:
    """Tells the scheduler the worker's parts, before the worker is announced."""
    have = parts() | kernel_parts()
    with_host = have | host_parts()
    offered = dict.fromkeys(resources(have) | resources(with_host), ENDLESS) | {
        MEMORY: _memory_bytes(worker)
    }
    for name, quantity in offered.items():
        for state in (worker.state.total_resources, worker.state.available_resources):
            state.setdefault(name, quantity)
    worker.startup_information[ABOUT] = lambda worker: {"id": str(worker.id), "parts": with_host}
    await worker.plugin_add(_RunsInProgress(), name=PLUGIN)


class _RunsInProgress(WorkerPlugin):
    """Ends the guest of a run whose result is not needed any more."""

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[Reply]] = {}

    def transition(self, key: object, start: str, finish: str, **_: object) -> None:
        """Cancels a run whose task is released. Dask only forgets the task, and lets its
        coroutine run on.
        """
        if (start, finish) == ("executing", "released") and (task := self.tasks.get(str(key))):
            task.cancel()


async def make_run(job: Job) -> bytes:
    """Makes the run of a job. Returns an encoded Reply."""
    worker = get_worker()
    running = worker.plugins[PLUGIN]
    assert isinstance(running, _RunsInProgress)
    task = running.tasks[job.key] = asyncio.ensure_future(_answer(job, worker))
    try:
        return encoded(await task)
    finally:
        del running.tasks[job.key]


async def _answer(job: Job, worker: Worker) -> Reply:
    answer = Reply("unfit", worker.address, worker.id)
    worker.log_event(job.topic, {"began": job.key, "worker": worker.address, "id": worker.id})
    try:
        with locked_folder(temporary_place(), "folder for a run") as place:
            return await _made(job, answer, RunFolder(place / "run"))
    except OSError as error:
        return replace(answer, reason=located(error))
    except (ToolError, GuestError) as error:
        return replace(answer, reason=str(error))
    except Exception as error:  # an unforeseen error may not occur at other workers
        return replace(answer, reason=repr(error))


async def _made(job: Job, answer: Reply, folder: RunFolder) -> Reply:
    answer = replace(answer, outcome="finished", folder=str(folder.partial))
    made = folder.path
    try:
        measured = await _machine().measure(job.run, folder.begin())
        execution = replace(measured.execution, measured_s=time.time())
        await in_thread(lambda: concluded(job.run, folder, measured.measurement, execution))
    except (GuestError, GeneratorError, CommandError, ArchiveError) as error:
        can_try_elsewhere = isinstance(error, GuestError) and error.reason in UNFIT
        answer = replace(
            answer, outcome="unfit" if can_try_elsewhere else "failed", reason=str(error)
        )
        made = folder.partial
    if answer.outcome == "failed" and shutil.disk_usage(folder.partial).free < FULL_BYTES:
        answer = replace(answer, outcome="unfit", reason=f"its disk is full: {answer.reason}")
    return answer if answer.outcome == "unfit" else await with_files(answer, made, job.shared)


@functools.cache
def _machine() -> LabMachine:
    """Returns the worker's lab: its runs share the memory."""
    kernels = named_kernels()
    for kernel in kernels.values():
        hold(kernel)
    return LabMachine(find_kernel(), EmulationPrograms.find(), kernels)


def _memory_bytes(worker: Worker) -> float:
    limit, available = worker.memory_manager.memory_limit, available_memory_bytes()
    known = [limit] if limit else []
    return (
        min(known + ([(1 - LEFT_TO_OTHERS) * available] if available else []))
        if known or available
        else ENDLESS
    )
