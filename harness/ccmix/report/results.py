"""What a report is made of: the runs of one or more campaigns, and the rows of their table."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.analysis.counting import counts
from ccmix.analysis.statistics import BUCKET, RTT_KEYS, Row, table
from ccmix.archive import ArchiveError, Campaign
from ccmix.model import HostPath, Run


@dataclass(frozen=True)
class Result:
    """A finished run: its plan, its run.json and its folder."""

    run: Run
    summary: dict[str, Any]
    folder: Path

    @property
    def outdir(self) -> Path:
        """The folder of its campaign."""
        return self.folder.parents[3]

    @property
    def valid(self) -> bool:
        """Whether tables count it."""
        return counts(self.summary)


@dataclass(frozen=True)
class Results:
    """All finished runs of the campaigns, in the order of their plans, and how many runs were planned.

    With rtt_buckets, the rows pool all base RTTs below 30 ms, and all others.
    """

    runs: tuple[Result, ...]
    planned: int
    rtt_buckets: bool = False
    campaigns: tuple[Campaign, ...] = ()

    @functools.cached_property
    def rows(self) -> list[Row]:
        return table(((result.run, result.summary) for result in self.runs), self.rtt_buckets)

    @property
    def between_hosts(self) -> bool:
        """Whether any run had a destination that there is."""
        return any(isinstance(result.run.path, HostPath) for result in self.runs)

    @property
    def swept(self) -> list[str]:
        """Every swept key, in the order of the files; of RTT buckets those that are left, and the bucket."""
        keys = list(dict.fromkeys(key for result in self.runs for key in result.run.condition))
        return [*(key for key in keys if key not in RTT_KEYS), BUCKET] if self.rtt_buckets else keys


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _checked(summary: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same, where it has what a report reads."""
    try:
        groups = summary["metrics"]["groups"]
        for group in groups:
            float(group["goodput_bps"])
            _ = group["group"], group["cca"], group["streams"]
            _ = _number(group["retransmission_rate"]), _number(group["rtt_median_s"])
        _ = _number(summary["metrics"]["fairness"]), summary["validity"]["status"]
        _ = [finding["detail"] + str(finding["accepted"]) for finding in summary["validity"]["findings"]]
        _ = summary["facts"]["kernel"] + summary["facts"]["iperf3"] + summary["where"]["machine"]
    except (KeyError, TypeError, ValueError) as error:
        raise ArchiveError(f"{folder}: run.json lacks what a report needs: {error!r}") from error
    return summary


def load_results(outdirs: Sequence[Path]) -> Results:
    """Raises ArchiveError where a folder is no campaign, or none of its runs is finished."""
    if len({outdir.resolve() for outdir in outdirs}) < len(outdirs):
        raise ArchiveError("a folder is named twice: its runs would count twice")
    campaigns = [Campaign.load(outdir) for outdir in outdirs]
    runs = tuple(
        Result(run, _checked(summary, folder), folder)
        for campaign in campaigns
        for run, summary, folder in campaign.finished()
    )
    if not runs:
        names = ", ".join(map(str, outdirs))
        raise ArchiveError(f"{names}: has no finished run: 'ccmix run CONFIG.ini -o {outdirs[0]} --resume' makes them")
    return Results(runs, sum(len(campaign.runs) for campaign in campaigns), campaigns=tuple(campaigns))
