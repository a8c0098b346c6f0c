"""Loads the data of a report: the runs of one or more campaigns, and the rows of their table."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.analysis.counting import counts
from ccmix.analysis.statistics import BUCKET, OF_GROUP, OF_RUN, RTT_KEYS, Row, metric, table
from ccmix.archive import ArchiveError, Campaign
from ccmix.archive.campaign import RunFolder, campaign_folder
from ccmix.model import HostPath, ImportFacts, Run
from ccmix.model.results import FinishedRun, GroupMetrics, Metrics

MANY_RUNS = 500  # which would take much memory with all of their details


@dataclass(frozen=True)
class Result:
    """Holds a finished run and its folder; with numbers_only, only the parts of the run that
    archive/campaign.py keeps.
    """

    finished: FinishedRun
    folder: Path
    numbers_only: bool = False

    @property
    def run(self) -> Run:
        return self.finished.run

    @property
    def outdir(self) -> Path:
        """Returns the folder of its campaign."""
        return campaign_folder(self.folder)

    @property
    def valid(self) -> bool:
        """Returns whether tables count the run."""
        return counts(self.finished)

    def whole(self) -> FinishedRun:
        """Returns the complete run. Raises ArchiveError if its run.json can't be read any more."""
        if not self.numbers_only:
            return self.finished
        try:
            whole = RunFolder.of(self.outdir, self.run).read_as_planned(self.run)
        except FileNotFoundError as error:
            raise ArchiveError(f"{self.folder}: its run.json was removed meanwhile") from error
        return replace(whole, verdict=self.finished.verdict)


@dataclass(frozen=True)
class Results:
    """Holds all finished runs of the campaigns, and how many runs were planned.

    Runs are in the order of their files: entry by entry, and each entry condition by condition.

    With rtt_buckets, the rows pool all base RTTs below 30 ms, and all from 30 ms on.
    """

    runs: tuple[Result, ...]
    planned: int
    rtt_buckets: bool = False
    campaigns: tuple[Campaign, ...] = ()
    unread: tuple[
        str, ...
    ] = ()  # a sentence for each run that is left out because its run.json can't be used

    @functools.cached_property
    def rows(self) -> list[Row]:
        return table((result.finished for result in self.runs), self.rtt_buckets)

    @functools.cached_property
    def _unknown(self) -> dict[Path, dict[str, tuple[str, ...]]]:
        return {campaign.outdir: campaign.plan.unknown for campaign in self.campaigns}

    def unknown_of(self, result: Result) -> tuple[str, ...]:
        """Returns the swept keys of a run's entry that represent unknown properties of its path."""
        return self._unknown.get(result.outdir, {}).get(result.run.entry, ())

    @functools.cached_property
    def between_hosts(self) -> bool:
        """Returns whether any run was made between real hosts."""
        return any(isinstance(result.run.path, HostPath) for result in self.runs)

    @functools.cached_property
    def swept(self) -> list[str]:
        """Returns every swept key, in the order of the files; with RTT buckets, the bucket instead
        of the keys of the RTT.
        """
        keys = list(dict.fromkeys(key for result in self.runs for key in result.run.condition))
        return [*(key for key in keys if key not in RTT_KEYS), BUCKET] if self.rtt_buckets else keys


LARGEST_NUMBER = 1e30  # of any metric: sums of larger squares would not be finite


def _check_magnitudes(finished: FinishedRun, folder: Path) -> None:
    """Raises ArchiveError if a metric is too large to be a measurement."""
    metrics, source = finished.metrics, finished.facts.imported
    _check_of(metrics, OF_RUN, folder)
    for group in metrics.groups:
        _check_of(group, (*OF_GROUP, "fair_share"), folder)
    if source:
        _check_of(source, ("base_rtt_s", "rate_bps"), folder)


def _check_of(
    numbers: Metrics | GroupMetrics | ImportFacts, names: Sequence[str], folder: Path
) -> None:
    for name in names:
        value = metric(numbers, name)
        if value is not None and abs(value) > LARGEST_NUMBER:
            raise ArchiveError(f"{folder}: run.json has no plausible {name}: {value:g}")


def _in_file_order(campaign: Campaign, unread: list[str], numbers_only: bool) -> list[Result]:
    """Loads the finished runs in the order of the conditions in the file, not of their completion.

    Adds to `unread` the reasons why runs are left out. With numbers_only, it leaves out the parts
    of runs that tables of results don't need.
    """
    places: dict[tuple[str, str, str], int] = {}
    for run in campaign.runs_in_file_order:
        places.setdefault((run.entry, run.condition_name, run.dst), len(places))
    results = []
    read = campaign.finished(
        unread=lambda _, error: unread.append(str(error)), numbers_only=numbers_only
    )
    for finished, folder in read:
        try:
            _check_magnitudes(finished, folder)
        except ArchiveError as error:
            unread.append(str(error))
        else:
            results.append(Result(finished, folder, numbers_only))
    return sorted(
        results,
        key=lambda result: places[result.run.entry, result.run.condition_name, result.run.dst],
    )


def load_results(
    outdirs: Sequence[Path], *, numbers_only: bool = False, numbers_of_many: bool = False
) -> Results:
    """Loads campaigns. Leaves out runs whose run.json is damaged, and says so in `unread`.

    With numbers_only, runs have only the parts that tables of results need (archive/campaign.py),
    which saves memory; with numbers_of_many, only runs of campaigns of at least MANY_RUNS do.

    Raises ArchiveError if a folder is not a campaign, or if none of its runs is finished.
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
