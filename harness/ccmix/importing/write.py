"""Writes an archive of imported runs, completely or not at all, and never over another."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import polars as pl

from ccmix.analysis.metrics import run_metrics
from ccmix.analysis.series import SRC
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity.hosts import window_limits
from ccmix.archive import ArchiveError, Campaign, RunFolder
from ccmix.files import staged
from ccmix.flattening import flattened
from ccmix.importing.runs import UNKNOWN, Imported
from ccmix.importing.sources import Listing
from ccmix.importing.values import ForeignRun, GroupSums, writable
from ccmix.model import Facts, ImportFacts, Run, run_files
from ccmix.model.results import (
    CampaignOrigin,
    CampaignPlan,
    Execution,
    Finding,
    FinishedRun,
    GroupMetrics,
    ImportedFile,
    ImportIdentity,
    ImportOverrides,
    Metrics,
    Verdict,
)
from ccmix.terms import ENDED_EARLY, IMPORTED, LIMITS
from ccmix.version import version

MACHINE: Literal["imported"] = "imported"  # what made the run, in its file run.json
RUNS_PER_UPDATE = 100  # of the progress display; drawing it takes as long as writing a run


def import_identity(listing: Listing, overrides: ImportOverrides) -> ImportIdentity:
    """Returns the identity of an import: the digests of its files, and the facts that the user
    states.
    """
    files = tuple(
        ImportedFile(source.name, source.kind, source.digest) for source in listing.sources
    )
    return ImportIdentity(files, overrides)


def same_import(outdir: Path, identity: ImportIdentity) -> bool:
    """Returns whether OUTDIR already has this import, so that there is nothing to do. Raises
    ArchiveError if it has anything else; False for a new or empty folder.
    """
    if not outdir.exists() or (outdir.is_dir() and not any(outdir.iterdir())):
        return False
    if not outdir.is_dir():
        raise ArchiveError(f"{outdir}: is not a folder: give another one with -o")
    try:
        existing = Campaign.load(outdir).origin.imported
    except ArchiveError as error:
        raise ArchiveError(f"{outdir}: is not empty: give another folder with -o") from error
    if existing is None:
        raise ArchiveError(
            f"{outdir}: has runs that ccmix made, to which an import can't add runs: give another "
            "folder"
        )
    if existing != identity:
        raise ArchiveError(
            f"{outdir}: has another import, of other files or with other options: give another "
            "folder with -o "
            "(report, compare and index take several)"
        )
    return True


def origin_of_this_import(imported: ImportIdentity) -> CampaignOrigin:
    """Returns the origin of a new import for campaign.json: this version of ccmix, this command
    line, and the imported files.
    """
    return CampaignOrigin(
        ccmix=version().name,
        python=sys.version.split()[0],
        command=tuple(sys.argv),
        lab=False,
        started_s=time.time(),
        imported=imported,
    )


def write(
    outdir: Path,
    runs: Sequence[Imported],
    overrides: ImportOverrides,
    origin: CampaignOrigin,
    written: Callable[[int], None],
) -> None:
    """Writes the archive next to `outdir` and then moves it there, so that an interrupted import
    leaves nothing. Calls `written` with the number of newly written runs, to show progress.

    Raises OSError, and ArchiveError if the place was taken meanwhile.
    """
    with staged(outdir, "import") as staged_folder:
        Campaign.create(staged_folder, CampaignPlan(origin, "", tuple(each.run for each in runs)))
        for first in range(0, len(runs), RUNS_PER_UPDATE):
            batch = runs[first : first + RUNS_PER_UPDATE]
            for imported in batch:
                _write_run(RunFolder.of(staged_folder, imported.run), imported, overrides)
            written(len(batch))


def _write_run(folder: RunFolder, imported: Imported, overrides: ImportOverrides) -> None:
    """Writes a run's folder: its part of the imported file under generators/, tables, and
    results.
    """
    folder.path.mkdir(parents=True)
    if imported.foreign.raw:
        (folder.path / run_files.GENERATORS).mkdir()
    for name, content in imported.foreign.raw.items():
        (folder.path / run_files.GENERATORS / name).write_bytes(content)
    if isinstance(imported.foreign.results, RunTables):
        imported.foreign.results.write(folder.path)
    folder.write_staged(finished_run(imported, overrides))


def finished_run(imported: Imported, overrides: ImportOverrides) -> FinishedRun:
    """Returns the run with its metrics and verdict, as far as its source reports the values for
    them.
    """
    run, foreign = imported.run, imported.foreign
    if isinstance(foreign.results, RunTables):
        base_rtts_s = foreign.pings_s or ((foreign.base_rtt_s,) if foreign.base_rtt_s else ())
        metrics = without_unreported_sums(
            run_metrics(run, foreign.results, {SRC: tuple(base_rtts_s)}), foreign.results.flows
        )
    else:
        metrics = summary_metrics(foreign.results, foreign.rtt_median_s)
    rate_bps = overrides.rate_bps or foreign.rate_bps
    if rate_bps:
        metrics = replace(metrics, utilisation=metrics.goodput_bps / rate_bps)
    if foreign.ended_early:
        metrics = replace(metrics, settling=None)  # the requested time would be judged
    return FinishedRun(
        run=run,
        execution=Execution(MACHINE, diagnostics=tuple(_diagnostics(foreign))),
        facts=Facts(
            kernel=foreign.kernel or UNKNOWN,
            iperf3=foreign.version,
            generator=foreign.kind,
            sysctls={},
            hosts={},
            imported=ImportFacts(
                kind=foreign.kind,
                source=foreign.source,
                missing=foreign.missing,
                estimated=foreign.estimated,
                base_rtt_s=foreign.base_rtt_s,
                rate_bps=rate_bps,
                details=tuple(flattened(dict(foreign.details))) if foreign.details else (),
            ),
        ),
        started_s=foreign.began_s,
        began_s=foreign.began_s,
        ended_s=foreign.ended_s,
        ping_rtt_s={SRC: foreign.pings_s} if foreign.pings_s else {},
        metrics=metrics,
        verdict=verdict(run, foreign),
    )


def _diagnostics(foreign: ForeignRun) -> Iterator[str]:
    """Yields notes for the reader about the run's values."""
    yield from foreign.diagnostics
    if "goodput_bps" in foreign.estimated:
        yield "goodput is the sender's throughput: the source does not report what was received"


def verdict(run: Run, foreign: ForeignRun) -> Verdict:
    """Returns 'limited' if the test ended early, or if sockets of the source show that the hosts
    limited it. Otherwise returns 'unknown', because ccmix did not observe the hosts.
    """
    limits: list[Finding] = []
    if foreign.ended_early:
        limits.append(Finding(ENDED_EARLY, f"the test ended {foreign.ended_early}", accepted=False))
    if isinstance(foreign.results, RunTables) and not foreign.results.sockets.is_empty():
        limits += (
            Finding(kind, f"{LIMITS[kind]}: {detail}", accepted=False)
            for kind, detail in window_limits(run, foreign.results)
        )
    detail = f"imported from {foreign.source}: no probe observed the hosts"
    if foreign.missing:
        detail += f"; {', '.join(foreign.missing)}"
    unobserved = Finding(IMPORTED, writable(detail), accepted=True)
    return Verdict("limited" if limits else UNKNOWN, (*limits, unobserved), foreign.open_questions)


def summary_metrics(groups: Sequence[GroupSums], rtt_median_s: float | None) -> Metrics:
    """Returns the metrics of a run for which the source only reports sums of groups, not single
    flows. Values that need single flows are None.
    """
    goodput_bps = sum(group.goodput_bps for group in groups)
    streams = sum(group.streams for group in groups)
    rates = {group.retransmission_rate for group in groups}
    return Metrics(
        goodput_bps=goodput_bps,
        utilisation=None,
        bytes_sent=None,
        fairness=None,
        fairness_of_groups=None,
        retransmission_rate=rates.pop()
        if len(groups) == 1
        else None,  # segments of several flows are not reported
        rtt_median_s=rtt_median_s,
        convergence_s=None,
        netem_loss=None,
        groups=tuple(
            GroupMetrics(
                group=group.cca,
                host="src",
                cca=group.cca,
                streams=group.streams,
                goodput_bps=group.goodput_bps,
                throughput_bps=group.throughput_bps,
                retransmission_rate=group.retransmission_rate,
                share=group.goodput_bps / goodput_bps if goodput_bps else None,
                fair_share=group.streams / streams if streams else None,
                rtt_median_s=group.rtt_median_s,
            )
            for group in groups
        ),
    )


def without_unreported_sums(metrics: Metrics, flows: pl.DataFrame) -> Metrics:
    """Returns the metrics with None for each sum over flows if no flow reports the value. The sum
    would otherwise be 0, as if nothing was sent.
    """

    def is_unreported(column: str, rows: pl.DataFrame) -> bool:
        """Returns whether all of these flows lack the value of a column."""
        return rows[column].null_count() == rows.height

    groups = tuple(
        replace(group, throughput_bps=None)
        if is_unreported("throughput_bps", flows.filter(pl.col("group") == group.group))
        else group
        for group in metrics.groups
    )
    return replace(
        metrics,
        groups=groups,
        bytes_sent=None if is_unreported("bytes_sent", flows) else metrics.bytes_sent,
    )
