"""Where a run lies in the archive: <entry>/<condition>/<dst>/<NNN>, and NNN.partial until it is finished."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ccmix.archive import documents
from ccmix.model import Run

SUMMARY = "run.json"


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @classmethod
    def of(cls, outdir: Path, run: Run) -> "RunFolder":
        names = (run.entry, run.condition_name, run.dst)
        return cls(outdir.joinpath(*map(file_name, names), f"{run.iteration:03d}"))

    @property
    def partial(self) -> Path:
        return self.path.with_name(self.path.name + ".partial")

    @property
    def finished(self) -> bool:
        return (self.path / SUMMARY).exists()

    def begin(self) -> Path:
        """An empty partial folder; what an earlier try left is removed. Raises ArchiveError where its name is taken."""
        if self.path.is_symlink() or self.path.exists():
            raise documents.ArchiveError(
                f"{self.path}: has no {SUMMARY}, so is no finished run: remove it, or put it back"
            )
        shutil.rmtree(self.partial, ignore_errors=True)
        self.partial.mkdir(parents=True)
        return self.partial

    def finish(self, summary: dict[str, Any]) -> None:
        """Writes run.json last, and gives the folder its final name."""
        documents.write(self.partial / SUMMARY, summary)
        self.partial.rename(self.path)

    def discard(self) -> None:
        """Removes the partial folder of a run that was abandoned."""
        shutil.rmtree(self.partial, ignore_errors=True)

    def summary(self) -> dict[str, Any]:
        """run.json. Raises ArchiveError where it is damaged."""
        return documents.read(self.path / SUMMARY)


def file_name(name: str) -> str:
    """Readable, a file name of its own for each name, and never another folder: unquote() gives the name back."""
    if not name.strip("."):
        return name.replace(".", "%2E")
    return quote(re.sub("%(?=[0-9A-Fa-f]{2})", "%25", name), safe=" =,.:+@%")
