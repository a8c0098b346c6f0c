"""What a report is made of: the runs of one or more campaigns, and the rows of their table."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.analysis.counting import counts
from ccmix.analysis.statistics import BUCKET, OF_GROUP, OF_RUN, RTT_KEYS, Row, found_in, table
from ccmix.archive import ArchiveError, Campaign
from ccmix.archive.types import check
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


MOST = 1e30  # of any metric: beyond, sums of squares are no numbers any more


def _check_number(value: Any, name: str) -> None:
    check(value, float | None, name)
    if value is not None and abs(value) > MOST:
        raise ValueError(f"{name}: {value:g} is no measure of anything")


def _checked(summary: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same, where it has what a report reads."""
    try:
        metrics, facts, validity = summary["metrics"], summary["facts"], summary["validity"]
        for group in metrics["groups"]:
            check(group["goodput_bps"], float, "goodput_bps")
            for name, kind in (("group", str), ("cca", str), ("streams", int)):
                check(group[name], kind, name)
            for name in (*OF_GROUP, "fair_share"):
                _check_number(group.get(name), name)
            _ = group["retransmission_rate"], group["rtt_median_s"]
        _ = metrics["fairness"]
        for name in OF_RUN:
            _check_number(found_in(metrics, name), name)
        check(validity["status"], str, "status")
        for finding in validity["findings"]:
            check(finding["detail"], str, "detail")
            check(finding["accepted"], bool, "accepted")
            check(finding.get("kind", ""), str, "kind")
        for name in ("kernel", "iperf3"):
            check(facts[name], str, name)
        check(summary["where"]["machine"], str, "machine")
        _check_what_is_known_of_the_path(summary)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArchiveError(f"{folder}: run.json lacks what a report needs: {error!r}") from error
    return summary


def _check_what_is_known_of_the_path(summary: dict[str, Any]) -> None:
    """Raises TypeError, ValueError and AttributeError."""
    imported = summary["facts"].get("imported") or {}
    for name in ("base_rtt_s", "rate_bps"):
        _check_number(imported.get(name), name)
    pings = summary.get("ping_rtt_s") or []
    for of_host in pings.values() if isinstance(pings, dict) else [pings]:
        check(tuple(of_host), tuple[float, ...], "ping_rtt_s")


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
