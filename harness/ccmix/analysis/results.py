"""Loads the data of a report: the runs of one or more campaigns, and the rows of their table."""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.analysis.counting import counts
from ccmix.analysis.statistics import BUCKET, RTT_KEYS, Row, table
from ccmix.archive import ArchiveError, Campaign
from ccmix.archive.campaign import RunFolder, campaign_folder
from ccmix.model import HostPath, Run
from ccmix.model.results import FinishedRun

MANY_RUNS = 500  # which would take much memory with all of their details


@dataclass(frozen=True)
class Result:
    """Holds a finished run and its folder. With numbers_only, the run has only the parts that
    tables of results need, which saves memory if there are many runs.
    """

    finished: FinishedRun
    folder: Path
    numbers_only: bool = False

    @property
    def run(self) -> Run:
        return self.finished.run

    @property
    def outdir(self) -> Path:
        """Returns the folder of the run's campaign."""
        return campaign_folder(self.folder)

    @property
    def valid(self) -> bool:
        """Returns whether tables count the run."""
        return counts(self.finished)

    def whole(self) -> FinishedRun:
        """Returns the run with all of its parts, which are read again if this result has only those
        for tables. Raises ArchiveError if its run.json can't be read any more.
        """
        if not self.numbers_only:
            return self.finished
        try:
            whole = RunFolder.of(self.outdir, self.run).read_as_planned(self.run)
        except FileNotFoundError as error:
            raise ArchiveError(f"{self.folder}: its run.json was removed meanwhile") from error
        return replace(whole, verdict=self.finished.verdict)


@dataclass(frozen=True)
class Results:
    """Holds all finished runs of one or more campaigns, which a report is made from.

    Runs are in the order of the configuration files: entry by entry, and each entry condition by
    condition.
    """

    runs: tuple[Result, ...]
    planned: int  # runs
    rtt_buckets: bool = False  # rows pool all base RTTs below 30 ms, and all from 30 ms on
    campaigns: tuple[Campaign, ...] = ()
    unread: tuple[
        str, ...
    ] = ()  # a sentence for each run that is left out because its run.json can't be used

    @functools.cached_property
    def rows(self) -> list[Row]:
        """Returns the rows of the result table: a row for each entry, condition and group."""
        return table((result.finished for result in self.runs), self.rtt_buckets)

    @functools.cached_property
    def _unknown(self) -> dict[Path, dict[str, tuple[str, ...]]]:
        """Returns, for each campaign and entry, the swept keys that stand for unknown properties of
        the path (see unknown_of()).
        """
        return {campaign.outdir: campaign.plan.unknown for campaign in self.campaigns}

    def unknown_of(self, result: Result) -> tuple[str, ...]:
        """Returns the swept keys of a run's entry that stand for unknown properties of its path:
        properties of a real path that were not measured, so that its emulated twin sweeps them.
        """
        return self._unknown.get(result.outdir, {}).get(result.run.entry, ())

    @property
    def ccmix_versions(self) -> tuple[str, ...]:
        """Returns the versions of ccmix that made the runs, each once."""
        return tuple({name: 0 for each in self.campaigns for name in self.versions_of(each)})

    def versions_of(self, campaign: Campaign) -> dict[str, int]:
        """Returns how many of a campaign's runs each version of ccmix has made."""
        return Counter(
            campaign.version_of(result.finished)
            for result in self.runs
            if result.outdir == campaign.outdir
        )

    @functools.cached_property
    def between_hosts(self) -> bool:
        """Returns whether any run was made between real hosts."""
        return any(isinstance(result.run.path, HostPath) for result in self.runs)

    @functools.cached_property
    def swept(self) -> list[str]:
        """Returns the keys that any of the runs' entries sweeps, such as 'rate', in the order of
        the files. With rtt_buckets, one key for the bucket replaces the keys of the RTT.
        """
        keys = list(dict.fromkeys(key for result in self.runs for key in result.run.condition))
        return [*(key for key in keys if key not in RTT_KEYS), BUCKET] if self.rtt_buckets else keys


def _in_file_order(campaign: Campaign, unread: list[str], numbers_only: bool) -> list[Result]:
    """Loads a campaign's finished runs, in the order of their conditions in the configuration file.

    Runs whose run.json is damaged are left out, and the reasons are appended to `unread`. With
    numbers_only, runs have only the parts that tables of results need.
    """
    positions: dict[tuple[str, str, str], int] = {}
    for run in campaign.runs_in_file_order:
        positions.setdefault(run.repeated_key, len(positions))
    finished_runs = campaign.finished(
        unread=lambda _, error: unread.append(str(error)), numbers_only=numbers_only
    )
    return sorted(
        (Result(finished, folder, numbers_only) for finished, folder in finished_runs),
        key=lambda result: positions[result.run.repeated_key],
    )


def load_results(
    outdirs: Sequence[Path], *, numbers_only: bool = False, numbers_of_many: bool = False
) -> Results:
    """Loads the finished runs of the campaigns in these folders, for a report or a comparison.
    Leaves out runs whose run.json is damaged; Results.unread has a sentence for each of them.

    numbers_only: load only the parts of runs that tables of results need, which saves memory
    numbers_of_many: the same, but only for campaigns of at least MANY_RUNS runs

    Raises ArchiveError if a folder is not a campaign or is named twice, or if no run is finished.
    """
    resolved = [outdir.resolve() for outdir in outdirs]
    for outdir, path in zip(outdirs, resolved, strict=True):
        if resolved.count(path) > 1:
            raise ArchiveError(
                f"{outdir}: is named twice, and its runs would count twice: name it once"
            )
    campaigns = [Campaign.load(outdir) for outdir in outdirs]
    unread: list[str] = []
    runs = tuple(
        result
        for campaign in campaigns
        for result in _in_file_order(
            campaign,
            unread,
            numbers_only or (numbers_of_many and len(campaign.runs) >= MANY_RUNS),
        )
    )
    if not runs:
        names = ", ".join(map(str, outdirs))
        if unread:
            raise ArchiveError("\n".join(unread))
        raise ArchiveError(
            f"{names}: has no finished run: 'ccmix run CONFIG.ini -o {outdirs[0]} --resume' "
            "makes them"
        )
    return Results(
        runs,
        sum(len(campaign.runs) for campaign in campaigns),
        campaigns=tuple(campaigns),
        unread=tuple(unread),
    )
