"""Puts what came from a worker into the archive, with the checks of an archive of others."""

import hashlib
import io
from dataclasses import replace
from pathlib import Path

from ccmix.archive import ArchiveError, codec
from ccmix.archive.inside import read_bytes
from ccmix.archive.packed import unpack_folder
from ccmix.cluster.messages import Reply
from ccmix.generators.results import GeneratorError
from ccmix.model import run_files
from ccmix.model.results import FinishedRun
from ccmix.run.executor import Attempt
from ccmix.units import format_bytes

MOST_SHARED_BYTES = 64 * 2**30


def arrived(attempt: Attempt, answer: Reply, shared: Path | None) -> FinishedRun:
    """Fills the run's folder; a failed run leaves its partial one, as on this machine.

    Raises GeneratorError for a run that failed, or what is not what its worker should have sent, and OSError.
    """
    place = attempt.folder.begin()
    try:
        content = _content(answer, shared)
        if content:
            unpack_folder(io.BytesIO(content), len(content), place)
        if answer.outcome == "failed":
            raise GeneratorError(answer.reason.replace(answer.folder, str(place)) if answer.folder else answer.reason)
        finished = codec.read(place, place / run_files.SUMMARY, codec.FINISHED_RUN)
    except (ArchiveError, FileNotFoundError) as error:
        raise GeneratorError(f"what {answer.worker} sent is no finished run: {error}") from error
    if finished.run != attempt.run:
        raise GeneratorError(f"{answer.worker} sent another run than {attempt.run.name}")
    finished = replace(finished, execution=replace(finished.execution, retries=attempt.failures))
    attempt.folder.finish(finished)
    return finished


def _content(answer: Reply, shared: Path | None) -> bytes:
    """Returns the packed files. Raises ArchiveError if the file in the shared folder is not the one that was meant."""
    if not answer.shared:
        return answer.files
    if shared is None or Path(answer.shared).name != answer.shared:
        raise ArchiveError(f"{answer.shared!r:.80}: is no file of the shared folder")
    file = shared / answer.shared
    content = read_bytes(shared, file, MOST_SHARED_BYTES)
    if hashlib.sha256(content).hexdigest() != answer.sha256:
        raise ArchiveError(f"{file}: has {format_bytes(len(content))} of another hash than its worker wrote")
    file.unlink()
    return content
