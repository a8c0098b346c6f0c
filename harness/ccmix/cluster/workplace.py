"""Makes the folders of a worker's runs, and removes those that killed workers left on the machine."""

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ccmix.temporary import temporary_place

PREFIX = "ccmix-worker-"  # of a folder that a living worker has locked


@contextlib.contextmanager
def job_folder() -> Iterator[Path]:
    """Yields a new folder for a run, and removes it in the end. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=_own_folder(temporary_place())) as folder:
        yield Path(folder)


def remove_own() -> None:
    """Removes the folder of this process, unless another worker of the process makes a run there."""
    if _own_folder.cache_info().currsize:
        with contextlib.suppress(OSError):
            _own_folder(temporary_place()).rmdir()
            _own_folder.cache_clear()


@functools.cache
def _own_folder(parent: Path) -> Path:
    """Makes the folder of this process, and locks it until the process ends in whatever way."""
    _remove_stale(parent)
    made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent))
    try:
        fcntl.flock(os.open(made, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return made.rename(parent / made.name.removeprefix("."))  # nobody sees it before it is locked
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _remove_stale(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or a living worker's
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
