"""A campaign's folder: what was planned, from which text, with which seed and versions."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.archive.folders import RunFolder
from ccmix.model import Run

SCHEMA = 1  # of campaign.json and run.json; raised when a reader of the old one would go wrong
FILE = "campaign.json"


class CampaignError(Exception):
    """A folder that is not a campaign, or not the one that is meant; the message says what to do."""


@dataclass(frozen=True)
class Campaign:
    """A campaign on disk."""

    outdir: Path
    runs: tuple[Run, ...]
    ini: str
    about: dict[str, Any]  # seed, versions, command line, start time

    @classmethod
    def create(cls, outdir: Path, runs: Sequence[Run], ini: str, about: dict[str, Any]) -> "Campaign":
        """Makes the folder. Raises CampaignError where there is something in it, OSError where it can't be made."""
        if outdir.exists() and any(outdir.iterdir()):
            raise CampaignError(f"{outdir}: is not empty: give another folder with -o, or --resume to go on with it")
        outdir.mkdir(parents=True, exist_ok=True)
        data = {"schema": SCHEMA, "about": about, "ini": ini, "runs": [run.to_json() for run in runs]}
        part = outdir / (FILE + ".partial")
        with part.open("w") as file:
            json.dump(data, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.rename(outdir / FILE)
        return cls(outdir, tuple(runs), ini, about)

    @classmethod
    def load(cls, outdir: Path) -> "Campaign":
        """Raises CampaignError where the folder holds no campaign that this version can read."""
        try:
            data = json.loads((outdir / FILE).read_text())
            if (schema := data["schema"]) == SCHEMA:
                return cls(outdir, tuple(map(Run.from_json, data["runs"])), data["ini"], data["about"])
        except FileNotFoundError as error:
            raise CampaignError(f"{outdir}: has no {FILE}: name the folder that ccmix run wrote") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CampaignError(f"{outdir / FILE}: can't be read: {error!r}") from error
        raise CampaignError(f"{outdir / FILE}: is of schema {schema}, and this ccmix reads {SCHEMA}")

    def finished(self) -> Iterator[tuple[Run, dict[str, Any], Path]]:
        """Each finished run in the order of the plan, with its run.json and its folder."""
        for run in self.runs:
            folder = RunFolder.of(self.outdir, run)
            if folder.finished:
                yield run, folder.summary(), folder.path
