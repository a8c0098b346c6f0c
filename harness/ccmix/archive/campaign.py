"""A campaign's folder: what was planned, from which text, with which seed and versions."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.archive import documents
from ccmix.archive.documents import ArchiveError
from ccmix.archive.folders import RunFolder
from ccmix.archive.types import check
from ccmix.model import Run

FILE = "campaign.json"


@dataclass(frozen=True)
class Campaign:
    """A campaign on disk."""

    outdir: Path
    runs: tuple[Run, ...]
    ini: str
    about: dict[str, Any]  # seed, versions, command line, start time

    @classmethod
    def create(cls, outdir: Path, runs: Sequence[Run], ini: str, about: dict[str, Any]) -> "Campaign":
        """Makes the folder. Raises ArchiveError where there is something in it, OSError where it can't be made."""
        file = _named(outdir) / FILE
        if outdir.exists() and any(found.name != FILE + documents.PARTIAL for found in outdir.iterdir()):
            raise ArchiveError(f"{outdir}: is not empty: give another folder with -o, or --resume to go on with it")
        outdir.mkdir(parents=True, exist_ok=True)
        documents.write(file, {"about": about, "ini": ini, "runs": [run.to_json() for run in runs]})
        return cls(outdir, tuple(runs), ini, about)

    @classmethod
    def load(cls, outdir: Path) -> "Campaign":
        """Raises ArchiveError where the folder holds no campaign that this version can read."""
        try:
            data = documents.read(_named(outdir) / FILE)
            runs = tuple([Run.from_json(one) for one in data["runs"]])  # no map(), which a StopIteration would end
            for number, run in enumerate(runs, 1):
                check(run, Run, f"run {number}")
            check(data["ini"], str, "ini")
            check(data["about"], dict, "about")
            return cls(outdir, runs, data["ini"], data["about"])
        except FileNotFoundError as error:
            raise ArchiveError(f"{outdir}: has no {FILE}: name the folder that ccmix run wrote") from error
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, StopIteration) as error:
            raise ArchiveError(f"{outdir / FILE}: can't be read: {error!r}") from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """For the one process that adds runs. Raises ArchiveError where another one does."""
        with (self.outdir / FILE).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ArchiveError(f"{self.outdir}: another ccmix run is at work in it: wait for its end") from error
            yield

    def check(self) -> None:
        """Raises ArchiveError where the folder has been removed, or is another campaign's by now."""
        if not (self.outdir / FILE).exists():
            raise ArchiveError(f"{self.outdir}: its {FILE} was removed: nothing is written there any more")

    def finished(
        self, wanted: Callable[[Run], bool] = lambda _: True, unread: Callable[[Run, ArchiveError], None] | None = None
    ) -> Iterator[tuple[Run, dict[str, Any], Path]]:
        """Each finished run that is wanted, in the order of the plan, with its run.json and its folder.

        Of others nothing is read. A run.json that can't be read is told to `unread`; without one, raises its
        ArchiveError.
        """
        for run in filter(wanted, self.runs):
            folder = RunFolder.of(self.outdir, run)
            if not folder.finished:
                continue
            try:
                summary = folder.summary()
            except ArchiveError as error:
                if unread is None:
                    raise
                unread(run, error)
            else:
                yield run, summary, folder.path


def _named(outdir: Path) -> Path:
    """Raises ArchiveError where Polars could not read below it."""
    try:
        str(outdir).encode()
    except UnicodeEncodeError as error:
        raise ArchiveError(f"{os.fsencode(outdir)!r}: is no UTF-8: give a folder of another name") from error
    return outdir
