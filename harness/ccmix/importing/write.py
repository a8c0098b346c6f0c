"""An archive of imported runs: written whole or not at all, and never over anybody else's."""

import contextlib
import errno
import fcntl
import glob
import importlib.metadata
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ccmix.analysis.tables import RunTables
from ccmix.archive import ArchiveError, Campaign, RunFolder
from ccmix.importing.found import Told
from ccmix.importing.runs import Imported, summary

TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)  # what rename(2) says of a place with something in it
IMPORTED = "imported"  # of campaign.json's `about`


def same_import(outdir: Path, identity: Mapping[str, Any]) -> bool:
    """Whether OUTDIR is this import's already. Raises ArchiveError where something else is there."""
    if not outdir.exists() or (outdir.is_dir() and not any(outdir.iterdir())):
        return False
    if not outdir.is_dir():
        raise ArchiveError(f"{outdir}: is no folder: give another one with -o")
    try:
        about = Campaign.load(outdir).about
    except ArchiveError as error:
        raise ArchiveError(f"{outdir}: is not empty: give another folder with -o") from error
    if IMPORTED not in about:
        raise ArchiveError(f"{outdir}: has runs that ccmix made, and an import adds none to them: give another folder")
    if about[IMPORTED] != identity:
        raise ArchiveError(
            f"{outdir}: has another import, of other files or with other options: give another folder with -o "
            "(report, compare and index take several)"
        )
    return True


def write(
    outdir: Path, runs: Sequence[Imported], told: Told, identity: Mapping[str, Any], written: Callable[[], None]
) -> None:
    """Writes the archive beside its place and moves it there; `written` is called after each run.

    Raises OSError, and ArchiveError where the place was taken meanwhile.
    """
    with _beside(outdir) as folder:
        about = {
            "ccmix": importlib.metadata.version("ccmix"),
            "python": sys.version.split()[0],
            "command": sys.argv,
            "lab": False,
            "started_s": time.time(),
            IMPORTED: identity,
        }
        made = folder / "archive"
        Campaign.create(made, [one.run for one in runs], "", about)
        for one in runs:
            _write_run(RunFolder.of(made, one.run), one, told)
            written()
        try:
            made.rename(outdir)
        except OSError as error:
            if error.errno not in TAKEN:
                raise
            raise ArchiveError(f"{outdir}: something was put there meanwhile: give another folder with -o") from error


def _write_run(folder: RunFolder, one: Imported, told: Told) -> None:
    place = folder.begin()
    if one.found.raw:
        (place / "generators").mkdir()
    for name, content in one.found.raw.items():
        (place / "generators" / name).write_bytes(content)
    if isinstance(one.found.results, RunTables):
        one.found.results.write(place)
    folder.finish(summary(one, told))


@contextlib.contextmanager
def _beside(outdir: Path) -> Iterator[Path]:
    """A folder on the same file system, which is removed afterwards; and so are those that dead imports left."""
    outdir.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{outdir.name}.import-"
    for left in outdir.parent.glob(f"{glob.escape(prefix)}*"):
        with _lock(left) as ours:
            if ours:
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=outdir.parent))
    with _lock(folder):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Whether nobody else holds the folder; if so, it is held in this context."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(opened)
