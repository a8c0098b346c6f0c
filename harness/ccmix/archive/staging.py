"""Make a folder whole or not at all: it is filled beside its place and moved there at the end."""

import contextlib
import errno
import glob
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ccmix.archive.errors import ArchiveError
from ccmix.archive.held_folders import held

MOST_SYNCED = 100  # files that are put on the disk one by one
TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)  # rename(2) where the place has something in it


@contextlib.contextmanager
def staged(outdir: Path, purpose: str) -> Iterator[Path]:
    """Yields a path to make a folder at; moves that folder to `outdir` if the context ends well, else removes it.

    All of it is on the disk before. Raises ArchiveError if something is at `outdir` in the end, and OSError.
    """
    with private_folder(outdir, purpose) as folder:
        made = folder / "archive"
        yield made
        _put_on_disk(made)
        try:
            made.rename(outdir)
        except OSError as error:
            if error.errno not in TAKEN:
                raise
            raise ArchiveError(f"{outdir}: something was put there meanwhile: give another folder with -o") from error


def _put_on_disk(folder: Path) -> None:
    """Puts all files of the folder on the disk: each by itself, or if they are many, together with all else."""
    found = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    files = list(itertools.islice(found, MOST_SYNCED + 1))
    if len(files) > MOST_SYNCED:
        os.sync()
        return
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


@contextlib.contextmanager
def private_folder(place: Path, purpose: str) -> Iterator[Path]:
    """Yields a new folder on the file system of `place`; removes it, and those of dead processes, in the end."""
    place.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{place.name}.{purpose}-"
    for left in place.parent.glob(f"{glob.escape(prefix)}*"):
        with contextlib.suppress(OSError), held(left) as ours:  # others may have made something of that name
            if ours:
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place.parent))
    with held(folder):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
