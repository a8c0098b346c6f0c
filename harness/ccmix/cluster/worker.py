"""Makes runs in a Dask worker, and stores their files at the client, which checks them.

A worker loads this module because it is started with `--preload ccmix.cluster.worker`.
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
    check_encrypted,
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
    """Reports that a worker's reply is not what it should have sent, such as another run."""


async def attach_files(reply: Reply, folder: Path, shared: str | None) -> Reply:
    """Returns the reply with the files of the run's folder: packed into the reply itself or, if
    they are too large for Dask, into a file of the shared folder. `shared` is the beginning of that
    file's path; None without such a folder.

    An error of the shared folder fails the run, because other workers would have the same error.
    Raises OSError for all other errors. If the call is cancelled, it leaves nothing in the shared
    folder.
    """
    packed = folder.with_name("packed.zip")
    await in_thread(partial(_pack, folder, packed))
    size = packed.stat().st_size
    if size <= MOST_THROUGH_DASK_BYTES:
        return replace(reply, files=packed.read_bytes())
    if not shared:
        reason = f"the run's files have {format_bytes(size)}, and through Dask go at most "
        reason += (
            f"{format_bytes(MOST_THROUGH_DASK_BYTES)}: give a folder that all workers see "
            "by --shared"
        )
        return replace(reply, outcome="failed", reason=reason)
    file = Path(f"{shared}{uuid.uuid4().hex}.zip")
    try:
        sha256 = await in_thread(partial(_copy_with_hash, packed, file))
    except asyncio.CancelledError:
        file.unlink(missing_ok=True)
        raise
    except OSError as error:
        return replace(
            reply, outcome="failed", reason=f"--shared can't be used: {located(error, file)}"
        )
    return replace(reply, shared=file.name, sha256=sha256)


def _pack(folder: Path, packed: Path) -> None:
    with packed.open("wb") as out:
        pack_folder(folder, out)


def _copy_with_hash(packed: Path, file: Path) -> str:
    """Copies the packed file into the shared folder, and returns its SHA-256."""
    with packed.open("rb") as content, replacing(file) as out:
        shutil.copyfileobj(content, out)
        content.seek(0)
        return hashlib.file_digest(content, "sha256").hexdigest()


def store_reply(
    attempt: Attempt, needed: Mapping[str, str], reply: Reply, shared: Path | None
) -> FinishedRun:
    """Fills the run's folder at the client with the files of a worker's reply, checks them, and
    returns the finished run. A failed run leaves its partial folder, as a run on this machine does.

    `needed` has the version or hash of each part of the client on which the bytes of a run's files
    depend, such as the kernel; `shared` is the shared folder. Raises GeneratorError for a run that
    failed, WrongReplyError, and OSError.
    """
    partial_folder = attempt.folder.begin()
    try:
        with _open_packed_files(reply, shared) as content:
            size = content.seek(0, os.SEEK_END)
            content.seek(0)
            if size:
                unpack_folder(content, size, partial_folder)
        if reply.outcome == "failed":
            raise GeneratorError(
                reply.reason.replace(reply.folder, str(partial_folder))
                if reply.folder
                else reply.reason
            )
        finished = codec.read(
            partial_folder, partial_folder / run_files.SUMMARY, codec.FINISHED_RUN
        )
    except (ArchiveError, FileNotFoundError) as error:
        raise WrongReplyError(f"its reply is not a finished run: {error}") from error
    _check_run(attempt, needed, finished)
    finished = replace(finished, execution=replace(finished.execution, retries=attempt.failures))
    attempt.folder.finish(finished)
    return finished


def _check_run(attempt: Attempt, needed: Mapping[str, str], finished: FinishedRun) -> None:
    """Raises WrongReplyError unless this is the submitted run, made with the kernel and programs
    that the client needs.
    """
    if finished.run != attempt.run:
        raise WrongReplyError(f"it sent another run than {attempt.run.name}")
    topology, facts = attempt.run.topology, finished.facts
    kernel = KERNEL if topology.kernel == STOCK_KERNEL else NAMED_KERNEL + topology.kernel
    # a guest whose root is the host's file system has no userland
    root = None if topology.host_root else needed[USERLAND]
    for part, used_there, needed_here in (
        ("kernel", facts.lab_kernel.sha256 if facts.lab_kernel else None, needed[kernel]),
        ("root of the guest", facts.guest_root.userland_sha256 if facts.guest_root else "", root),
        *((name, sha256, needed.get(name)) for name, sha256 in (facts.lab_programs or {}).items()),
    ):
        if used_there != needed_here:
            raise WrongReplyError(
                f"it made the run with another {part}: {used_there}, not {needed_here}"
            )


@contextlib.contextmanager
def _open_packed_files(reply: Reply, shared: Path | None) -> Iterator[IO[bytes]]:
    """Yields the reply's packed files, from the reply itself or from the shared folder. A file in
    the shared folder is removed afterwards, unless the context raised an error.

    Raises ArchiveError if that file is not the one that the worker wrote.
    """
    if not reply.shared:
        yield io.BytesIO(reply.files)
        return
    if shared is None or Path(reply.shared).name != reply.shared:
        raise ArchiveError(f"{reply.shared!r:.80}: is not a file of the shared folder")
    file = shared / reply.shared
    with os.fdopen(open_file(shared, file), "rb") as content:
        size = os.fstat(content.fileno()).st_size
        if size > MOST_SHARED_BYTES:
            raise ArchiveError(
                f"{file}: has {format_bytes(size)}, but at most "
                f"{format_bytes(MOST_SHARED_BYTES)} may be"
            )
        if hashlib.file_digest(content, "sha256").hexdigest() != reply.sha256:
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
    """Offers the worker's memory and parts as Dask resources, and tells the scheduler its parts.
    Dask calls this before the worker is announced. Raises ClusterError if the worker listens beyond
    loopback without TLS, because anyone who reaches it could run commands as this user.
    """
    check_encrypted(worker.address)
    check_encrypted(worker.scheduler.address)
    own_parts = parts() | kernel_parts()
    with_host = own_parts | host_parts()
    offered = dict.fromkeys(resources(own_parts) | resources(with_host), ENDLESS) | {
        MEMORY: _memory_bytes(worker)
    }
    for name, quantity in offered.items():
        for state in (worker.state.total_resources, worker.state.available_resources):
            state.setdefault(name, quantity)
    worker.startup_information[ABOUT] = lambda worker: {"id": str(worker.id), "parts": with_host}
    await worker.plugin_add(_RunsInProgress(), name=PLUGIN)


class _RunsInProgress(WorkerPlugin):
    """Ends the guest of a run whose result is no longer needed, for example after Ctrl-C at the
    client.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[Reply]] = {}

    def transition(self, key: object, start: str, finish: str, **_: object) -> None:
        """Cancels a run whose task is released. Dask calls this for each change of a task's state,
        but otherwise lets a released task's coroutine run on.
        """
        if (start, finish) == ("executing", "released") and (task := self.tasks.get(str(key))):
            task.cancel()


async def make_run(job: Job) -> bytes:
    """Makes the run of a job in this worker. It is Dask's task: the client submits it. Returns an
    encoded Reply.
    """
    worker = get_worker()
    running = worker.plugins[PLUGIN]
    assert isinstance(running, _RunsInProgress)
    task = running.tasks[job.key] = asyncio.ensure_future(_reply_to(job, worker))
    try:
        return encoded(await task)
    finally:
        del running.tasks[job.key]


async def _reply_to(job: Job, worker: Worker) -> Reply:
    """Makes the run of a job in a temporary folder, and returns the reply. Errors that another
    worker may not have give the reply "unfit".
    """
    worker.log_event(job.topic, {"began": job.key})
    try:
        with locked_folder(temporary_place(), "folder for a run") as place:
            return await _make_and_pack(job, RunFolder(place / "run"))
    except OSError as error:
        return Reply("unfit", located(error))
    except (ToolError, GuestError) as error:
        return Reply("unfit", str(error))
    except Exception as error:  # an unforeseen error may not occur at other workers
        return Reply("unfit", repr(error))


async def _make_and_pack(job: Job, folder: RunFolder) -> Reply:
    """Makes the run of a job in this folder, and returns the reply with the outcome and the
    files.
    """
    reply = Reply("finished", folder=str(folder.partial))
    folder_to_pack = folder.path
    try:
        measured = await _machine().measure(job.run, folder.begin())
        execution = replace(measured.execution, measured_s=time.time())
        await in_thread(lambda: concluded(job.run, folder, measured.measurement, execution))
    except (GuestError, GeneratorError, CommandError, ArchiveError) as error:
        can_try_elsewhere = isinstance(error, GuestError) and error.reason in UNFIT
        reply = replace(
            reply, outcome="unfit" if can_try_elsewhere else "failed", reason=str(error)
        )
        folder_to_pack = folder.partial
    if reply.outcome == "failed" and shutil.disk_usage(folder.partial).free < FULL_BYTES:
        reply = replace(reply, outcome="unfit", reason=f"its disk is full: {reply.reason}")
    if reply.outcome == "unfit":
        return reply
    return await attach_files(reply, folder_to_pack, job.shared)


@functools.cache
def _machine() -> LabMachine:
    """Returns the lab of this worker, in which all of its runs share the memory. The kernels must
    not be removed from the cache meanwhile.
    """
    kernels = named_kernels()
    for kernel in kernels.values():
        hold(kernel)
    return LabMachine(find_kernel(), EmulationPrograms.find(), kernels)


def _memory_bytes(worker: Worker) -> float:
    """Returns how much memory the worker offers to guests. It is the smaller of two values: Dask's
    limit for the worker, and 90% of the memory that is available on this machine.
    """
    limit, available = worker.memory_manager.memory_limit, available_memory_bytes()
    limits: list[float] = [limit] if limit else []
    if available:
        limits.append((1 - LEFT_TO_OTHERS) * available)
    return min(limits, default=ENDLESS)
