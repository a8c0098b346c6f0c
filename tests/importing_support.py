"""`ccmix import` into a folder of the test's, and what came of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ccmix.archive import Campaign
from support import REPOSITORY, Ccmix

DATA = REPOSITORY / "tests" / "data" / "importing"
Import = Callable[..., "Outcome"]


class Outcome:
    """Of an import that went well."""

    def __init__(self, outdir: Path, stderr: str) -> None:
        self.outdir = outdir
        self.stderr = stderr
        self.summaries: list[dict[str, Any]] = [summary for _, summary, _ in Campaign.load(outdir).finished()]
        self.folders: list[Path] = [folder for _, _, folder in Campaign.load(outdir).finished()]

    def files(self) -> dict[str, bytes]:
        """All files by their names within the archive."""
        return {
            str(file.relative_to(self.outdir)): file.read_bytes() for file in self.outdir.rglob("*") if file.is_file()
        }


def rows(ccmix: Ccmix, outdir: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ccmix("report", outdir, "--format", "json").stdout)
    return found
