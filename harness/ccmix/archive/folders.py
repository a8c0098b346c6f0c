"""The folder of a run in the archive: <entry>/<condition>/<dst>/<NNN>, and NNN.partial until it is finished."""

import functools
import itertools
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from ccmix.archive import codec, many, numbers
from ccmix.archive.errors import ArchiveError
from ccmix.archive.inside import refuse_links
from ccmix.model import Run, run_files
from ccmix.model.results import FinishedRun


@dataclass(frozen=True)
class RunFolder:
    """Names and fills the folder of one run."""

    path: Path
    outdir: Path | None = None  # the campaign's folder, below which links are refused; None: they are not looked for

    @classmethod
    def of(cls, outdir: Path, run: Run) -> "RunFolder":
        return cls(_of_iterations(outdir, run.entry, run.condition_name, run.dst) / f"{run.iteration:03d}", outdir)

    @property
    def partial(self) -> Path:
        return self.path.with_name(self.path.name + ".partial")

    @property
    def finished(self) -> bool:
        return (self.path / run_files.SUMMARY).exists()

    def begin(self) -> Path:
        """Makes an empty partial folder, without what an earlier try left. Raises ArchiveError if the name is taken."""
        self._refuse_links(self.partial.parent)
        if self.partial.is_symlink():
            self.partial.unlink()
        if self.path.is_symlink() or self.path.exists():
            raise ArchiveError(
                f"{self.path}: has no {run_files.SUMMARY}, so is no finished run: remove it, or put it back"
            )
        shutil.rmtree(self.partial, ignore_errors=True)
        self.partial.mkdir(parents=True)
        return self.partial

    def finish(self, finished: FinishedRun) -> None:
        """Writes run.json last, and gives the folder its final name."""
        codec.write(self.partial / run_files.SUMMARY, codec.FINISHED_RUN, finished)
        self.partial.rename(self.path)

    def write_staged(self, finished: FinishedRun) -> None:
        """Writes run.json into a folder that staging.staged() will move to its place, with all of its runs."""
        many.write_finished(self.path / run_files.SUMMARY, finished)

    def discard(self) -> None:
        """Removes the partial folder of a run that was abandoned."""
        shutil.rmtree(self.partial, ignore_errors=True)

    def put_aside(self) -> Path:
        """Renames the folder of a damaged run, so that the run can be made again; returns the new name."""
        self._refuse_links(self.path.parent)
        names = (self.path.with_name(f"{self.path.name}.damaged-{number}") for number in itertools.count(1))
        aside = next(name for name in names if not (name.is_symlink() or name.exists()))
        self.path.rename(aside)
        return aside

    def read(self) -> FinishedRun:
        """Reads run.json. Raises ArchiveError if it is damaged, or links lead to it."""
        return codec.read(self.outdir or self.path, self.path / run_files.SUMMARY, codec.FINISHED_RUN)

    def read_as_planned(self, run: Run, *, numbers_only: bool) -> FinishedRun:
        """Reads run.json of this run of a plan. Raises ArchiveError, and FileNotFoundError if it is not finished."""
        file = self.path / run_files.SUMMARY
        if numbers_only:
            return numbers.read(self.outdir or self.path, file, run)
        return replace(self.read(), run=run)

    def _refuse_links(self, folder: Path) -> None:
        if self.outdir:
            refuse_links(self.outdir, folder)


def campaign_folder(run_folder: Path) -> Path:
    """Returns the folder of the campaign that a run's folder, or its partial one, belongs to."""
    return run_folder.parents[3]


@functools.lru_cache(maxsize=4096)
def _of_iterations(outdir: Path, *names: str) -> Path:
    """Returns the folder of the runs of an entry, a condition and a destination."""
    return outdir.joinpath(*map(file_name, names))


@functools.lru_cache(maxsize=4096)
def file_name(name: str) -> str:
    """Returns a readable file name, unique to each name and never another folder; unquote() gives the name back."""
    if not name.strip("."):
        return name.replace(".", "%2E")
    return quote(re.sub("%(?=[0-9A-Fa-f]{2})", "%25", name), safe=" =,.:+@%")
