"""Tests the remains of a run at a worker: in the shared folder and in the temporary folder."""

import asyncio
import contextlib
import hashlib
import io
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from ccmix.archive.packed import unpack_folder
from ccmix.cluster import worker
from ccmix.cluster.messages import Reply
from ccmix.cluster.worker import attach_files
from ccmix.files import replacing

ANSWER = Reply("finished")
SIZE = 5000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder with a file that can't be compressed."""
    made = tmp_path / "job" / "run"
    made.mkdir(parents=True)
    (made / "capture").write_bytes(random.Random(7).randbytes(SIZE))
    return made


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shared folder for which more than 1000 bytes are large."""
    monkeypatch.setattr(worker, "MOST_THROUGH_DASK_BYTES", 1000)
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def test_a_large_run_goes_through_the_shared_folder(
    folder: Path, shared: Path, tmp_path: Path
) -> None:
    reply = asyncio.run(attach_files(ANSWER, folder, f"{shared}/of-this-"))
    (file,) = shared.iterdir()
    content = file.read_bytes()
    assert (reply.outcome, reply.files, reply.shared) == ("finished", b"", file.name)
    assert reply.sha256 == hashlib.sha256(content).hexdigest()
    (tmp_path / "here").mkdir()
    unpack_folder(io.BytesIO(content), len(content), tmp_path / "here")
    assert (tmp_path / "here" / "capture").read_bytes() == (folder / "capture").read_bytes()


def test_what_is_small_when_packed_goes_through_dask(folder: Path, shared: Path) -> None:
    (folder / "capture").write_bytes(bytes(SIZE))
    for place in (f"{shared}/of-this-", None):
        reply = asyncio.run(attach_files(ANSWER, folder, place))
        assert 0 < len(reply.files) < 1000
        assert not reply.shared
    assert not list(shared.iterdir())


@pytest.mark.usefixtures("shared")
def test_a_large_run_without_a_shared_folder_fails(folder: Path) -> None:
    reply = asyncio.run(attach_files(ANSWER, folder, None))
    assert reply.outcome == "failed"
    assert "give a folder that all workers see by --shared" in reply.reason


def test_a_shared_folder_that_can_t_be_used_fails_the_run(folder: Path, shared: Path) -> None:
    """Expects no message about the worker, which would get no more runs."""
    reply = asyncio.run(attach_files(ANSWER, folder, str(shared / "none" / "of-this-")))
    assert (reply.outcome, reply.files) == ("failed", b"")
    assert f"--shared can't be used: {shared}/none/" in reply.reason


def test_nothing_is_left_of_a_run_that_nobody_waits_for(
    folder: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancels while the run is written to the shared folder."""
    writing, cancelled = threading.Event(), threading.Event()

    @contextlib.contextmanager
    def slowly(file: Path) -> Iterator[IO[bytes]]:
        with replacing(file) as out:
            writing.set()
            cancelled.wait(60)
            yield out

    monkeypatch.setattr(worker, "replacing", slowly)

    async def cancel() -> None:
        task = asyncio.create_task(attach_files(ANSWER, folder, f"{shared}/of-this-"))
        await asyncio.to_thread(writing.wait, 60)
        assert list(shared.iterdir())
        task.cancel()
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert not list(shared.iterdir())
