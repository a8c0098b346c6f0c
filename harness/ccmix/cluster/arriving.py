"""Puts what came from a worker into the archive, with the checks of an archive of others."""

import contextlib
import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from ccmix.archive import ArchiveError, codec
from ccmix.archive.inside import open_file
from ccmix.archive.packed import unpack_folder
from ccmix.cluster.messages import Job, Reply
from ccmix.generators.results import GeneratorError
from ccmix.model import run_files
from ccmix.model.results import FinishedRun
from ccmix.run.executor import Attempt
from ccmix.units import format_bytes

MOST_SHARED_BYTES = 64 * 2**30


class WrongReplyError(Exception):
    """Says that what came is not what its worker should have sent."""


def arrived(attempt: Attempt, job: Job, answer: Reply, shared: Path | None) -> FinishedRun:
    """Fills the run's folder; a failed run leaves its partial one, as on this machine.

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
            raise GeneratorError(answer.reason.replace(answer.folder, str(place)) if answer.folder else answer.reason)
        finished = codec.read(place, place / run_files.SUMMARY, codec.FINISHED_RUN)
    except (ArchiveError, FileNotFoundError) as error:
        raise WrongReplyError(f"what {answer.worker} sent is no finished run: {error}") from error
    _check(attempt, job, answer.worker, finished)
    finished = replace(finished, execution=replace(finished.execution, retries=attempt.failures))
    attempt.folder.finish(finished)
    return finished


def _check(attempt: Attempt, job: Job, worker: str, finished: FinishedRun) -> None:
    """Raises WrongReplyError unless it is the run that was asked for, made with the kernel and the root of the job."""
    if finished.run != attempt.run:
        raise WrongReplyError(f"{worker} sent another run than {attempt.run.name}")
    topology, facts = attempt.run.topology, finished.facts
    kernel = facts.lab_kernel.sha256 if facts.lab_kernel else None
    if kernel != job.kernels[topology.kernel]:
        raise WrongReplyError(
            f"{worker} made the run with another kernel: {kernel}, not {job.kernels[topology.kernel]}"
        )
    root = facts.guest_root.userland_sha256 if facts.guest_root else ""
    asked = None if topology.host_root else job.userland
    if root != asked:
        raise WrongReplyError(f"{worker} made the run with another root of the guest: {root}, not {asked}")


@contextlib.contextmanager
def _packed(answer: Reply, shared: Path | None) -> Iterator[IO[bytes]]:
    """Yields the packed files, and then removes the file in the shared folder, unless the context raised.

    Raises ArchiveError if the file in the shared folder is not the one that the worker wrote.
    """
    if not answer.shared:
        yield io.BytesIO(answer.files)
        return
    if shared is None or Path(answer.shared).name != answer.shared:
        raise ArchiveError(f"{answer.shared!r:.80}: is no file of the shared folder")
    file = shared / answer.shared
    with os.fdopen(open_file(shared, file), "rb") as content:
        size = os.fstat(content.fileno()).st_size
        if size > MOST_SHARED_BYTES:
            raise ArchiveError(
                f"{file}: has {format_bytes(size)}, and at most {format_bytes(MOST_SHARED_BYTES)} may be"
            )
        if hashlib.file_digest(content, "sha256").hexdigest() != answer.sha256:
            raise ArchiveError(f"{file}: has {format_bytes(size)} of another hash than its worker wrote")
        yield content
    file.unlink()
