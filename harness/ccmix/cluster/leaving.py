"""Packs the files of a run for their way to the client: through Dask, or through a folder that both see."""

import hashlib
import io
import uuid
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ccmix.archive.packed import pack_folder
from ccmix.archive.replacing import PARTIAL
from ccmix.cluster.messages import MOST_THROUGH_DASK_BYTES, Reply
from ccmix.failures import located
from ccmix.run.executor import in_thread
from ccmix.units import format_bytes


async def with_files(answer: Reply, folder: Path, shared: str | None) -> Reply:
    """Returns the answer with the folder's files. A cancelled call leaves nothing in the shared folder.

    An error of the shared folder fails the run, since other workers would meet it, too. Raises OSError for all others.
    """
    file = Path(shared or folder.parent, f"{uuid.uuid4().hex}.zip")
    kept = False
    try:
        packed = await in_thread(partial(_with_files, answer, folder, file, bool(shared)))
        kept = bool(packed.shared)
    except OSError as error:
        if not shared or folder in Path(error.filename or "").parents:
            raise
        packed = replace(answer, outcome="failed", reason=f"--shared can't be used: {located(error, file)}")
    finally:
        for left in (_partial(file), *(() if kept else (file,))):
            with suppress(OSError):
                left.unlink()
    return packed


def _with_files(answer: Reply, folder: Path, file: Path, is_shared: bool) -> Reply:
    if _size_bytes(folder) <= MOST_THROUGH_DASK_BYTES:
        out = io.BytesIO()
        pack_folder(folder, out)
        return replace(answer, files=out.getvalue())
    part = _partial(file)
    with part.open("xb") as packed:
        pack_folder(folder, packed)
    size = part.stat().st_size
    if size <= MOST_THROUGH_DASK_BYTES:
        return replace(answer, files=part.read_bytes())
    if not is_shared:
        reason = f"the run's files have {format_bytes(size)}, and through Dask go at most "
        reason += f"{format_bytes(MOST_THROUGH_DASK_BYTES)}: give a folder that all workers see by --shared"
        return replace(answer, outcome="failed", reason=reason)
    with part.open("rb") as written:
        sha256 = hashlib.file_digest(written, "sha256").hexdigest()
    part.rename(file)
    return replace(answer, shared=file.name, sha256=sha256)


def _size_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _partial(file: Path) -> Path:
    return file.with_name(file.name + PARTIAL)
