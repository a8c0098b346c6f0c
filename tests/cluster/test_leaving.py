"""Tests what a worker leaves of a run: in the shared folder and in the one for temporary files."""

import asyncio
import hashlib
import io
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from ccmix.archive.packed import pack_folder, unpack_folder
from ccmix.cluster import leaving, workplace
from ccmix.cluster.leaving import with_files
from ccmix.cluster.messages import Reply
from support import wait_for

ANSWER = Reply("finished", "tcp://10.0.0.7:4711", "id")
SIZE = 5000
KILLED = """
from ccmix.cluster.workplace import job_folder
with job_folder() as place:
    print(place, flush=True)
    input()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder with a file that can't be compressed."""
    made = tmp_path / "job" / "run"
    made.mkdir(parents=True)
    (made / "capture").write_bytes(random.Random(7).randbytes(SIZE))
    return made


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shared folder, where more than 1000 bytes are large."""
    monkeypatch.setattr(leaving, "MOST_THROUGH_DASK_BYTES", 1000)
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def test_a_large_run_goes_through_the_shared_folder(folder: Path, shared: Path, tmp_path: Path) -> None:
    reply = asyncio.run(with_files(ANSWER, folder, str(shared)))
    (file,) = shared.iterdir()
    content = file.read_bytes()
    assert (reply.outcome, reply.files, reply.shared) == ("finished", b"", file.name)
    assert reply.sha256 == hashlib.sha256(content).hexdigest()
    (tmp_path / "here").mkdir()
    unpack_folder(io.BytesIO(content), len(content), tmp_path / "here")
    assert (tmp_path / "here" / "capture").read_bytes() == (folder / "capture").read_bytes()


def test_what_is_small_when_packed_goes_through_dask(folder: Path, shared: Path) -> None:
    (folder / "capture").write_bytes(bytes(SIZE))
    for place in (str(shared), None):
        reply = asyncio.run(with_files(ANSWER, folder, place))
        assert 0 < len(reply.files) < 1000
        assert not reply.shared
    assert not list(shared.iterdir())
    assert [file.name for file in folder.parent.iterdir()] == ["run"]


@pytest.mark.usefixtures("shared")
def test_a_large_run_without_a_shared_folder_fails(folder: Path) -> None:
    reply = asyncio.run(with_files(ANSWER, folder, None))
    assert reply.outcome == "failed"
    assert "give a folder that all workers see by --shared" in reply.reason
    assert [file.name for file in folder.parent.iterdir()] == ["run"]


def test_a_shared_folder_that_can_t_be_used_fails_the_run(folder: Path, shared: Path) -> None:
    """Expects no word on the worker, which would get no more runs."""
    reply = asyncio.run(with_files(ANSWER, folder, str(shared / "none")))
    assert (reply.outcome, reply.files) == ("failed", b"")
    assert f"--shared can't be used: {shared}/none/" in reply.reason


def test_nothing_is_left_of_a_run_that_nobody_waits_for(
    folder: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancels while the run is packed."""
    packing, cancelled = threading.Event(), threading.Event()

    def slowly(place: Path, out: IO[bytes]) -> None:
        packing.set()
        cancelled.wait(60)
        pack_folder(place, out)

    monkeypatch.setattr(leaving, "pack_folder", slowly)

    async def cancel() -> None:
        task = asyncio.create_task(with_files(ANSWER, folder, str(shared)))
        await asyncio.to_thread(packing.wait, 60)
        assert list(shared.iterdir())
        task.cancel()
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert not list(shared.iterdir())


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, where this process has no folder yet, as a worker that begins."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    own_folder = getattr(workplace, "_own_folder")  # noqa: B009
    own_folder.cache_clear()
    yield tmp_path
    own_folder.cache_clear()


def test_what_a_killed_worker_left_is_removed_by_the_next(temporary: Path) -> None:
    """Leaves the folder of a worker that lives."""
    environment = os.environ | {"TMPDIR": str(temporary)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(2)
    ]
    try:
        places = []
        for worker in workers:
            assert worker.stdout
            places.append(Path(worker.stdout.readline().strip()))
        workers[0].kill()
        workers[0].wait()
        assert all(place.is_dir() for place in places)
        with workplace.job_folder() as own:
            assert not places[0].parent.exists()
            assert places[1].is_dir()
            assert own.is_dir()
        workplace.remove_own()
        assert [*temporary.iterdir()] == [places[1].parent]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    wait_for(lambda: all(worker.poll() is not None for worker in workers), 60, "the end of the workers")
