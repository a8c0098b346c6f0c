"""What a report is made of: the runs of one or more campaigns, and the rows of their table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.analysis.statistics import Row, table
from ccmix.archive import ArchiveError, Campaign
from ccmix.model import Run


@dataclass(frozen=True)
class Result:
    """A finished run: its plan, its run.json and its folder."""

    run: Run
    summary: dict[str, Any]
    folder: Path

    @property
    def valid(self) -> bool:
        return bool(self.summary["validity"]["status"] == "valid")


@dataclass(frozen=True)
class Results:
    """All finished runs of the campaigns, in the order of their plans, and how many runs were planned."""

    runs: tuple[Result, ...]
    planned: int

    @property
    def rows(self) -> list[Row]:
        return table((result.run, result.summary) for result in self.runs)

    @property
    def swept(self) -> list[str]:
        """Every swept key, in the order of the files."""
        return list(dict.fromkeys(key for result in self.runs for key in result.run.condition))


def load_results(outdirs: Sequence[Path]) -> Results:
    """Raises ArchiveError where a folder is no campaign, or none of its runs is finished."""
    campaigns = [Campaign.load(outdir) for outdir in outdirs]
    runs = tuple(Result(run, summary, folder) for campaign in campaigns for run, summary, folder in campaign.finished())
    if not runs:
        names = ", ".join(map(str, outdirs))
        raise ArchiveError(f"{names}: has no finished run: 'ccmix run CONFIG.ini -o {outdirs[0]} --resume' makes them")
    return Results(runs, sum(len(campaign.runs) for campaign in campaigns))
