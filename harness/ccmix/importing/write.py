"""Writes an archive of imported runs: whole or not at all, and never over another archive."""

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ccmix.analysis.tables import RunTables
from ccmix.archive import ArchiveError, Campaign, RunFolder
from ccmix.archive.staging import staged
from ccmix.importing.beside import beside
from ccmix.importing.runs import Imported, finished_run
from ccmix.importing.sources import Listing
from ccmix.model import run_files
from ccmix.model.results import CampaignOrigin, CampaignPlan, ImportedFile, ImportIdentity, ImportOverrides
from ccmix.version import version

MOST_ALONE = 5000  # runs that one process writes
TOLD_AT_ONCE = 100  # runs, since drawing the progress takes as long as writing a run


def import_identity(listing: Listing, overrides: ImportOverrides) -> ImportIdentity:
    """Returns what identifies an import: its files and the user's overrides."""
    files = tuple(ImportedFile(source.name, source.kind, source.digest) for source in listing.sources)
    return ImportIdentity(files, overrides)


def same_import(outdir: Path, identity: ImportIdentity) -> bool:
    """Returns whether OUTDIR has this import already. Raises ArchiveError if something else is there."""
    if not outdir.exists() or (outdir.is_dir() and not any(outdir.iterdir())):
        return False
    if not outdir.is_dir():
        raise ArchiveError(f"{outdir}: is no folder: give another one with -o")
    try:
        kept = Campaign.load(outdir).origin.imported
    except ArchiveError as error:
        raise ArchiveError(f"{outdir}: is not empty: give another folder with -o") from error
    if kept is None:
        raise ArchiveError(f"{outdir}: has runs that ccmix made, and an import adds none to them: give another folder")
    if kept != identity:
        raise ArchiveError(
            f"{outdir}: has another import, of other files or with other options: give another folder with -o "
            "(report, compare and index take several)"
        )
    return True


def origin_of_this_import(imported: ImportIdentity) -> CampaignOrigin:
    """Returns what campaign.json says about an import that is made now by the command of sys.argv."""
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
    """Writes the archive beside its place and moves it there; tells `written` now and then how many more runs it has.

    Raises OSError, and ArchiveError if the place was taken meanwhile.
    """
    with staged(outdir, "import") as made:
        made.mkdir()
        Campaign.write_staged(made, CampaignPlan(origin, "", tuple(imported.run for imported in runs)))
        with contextlib.ExitStack() as stack:
            own = runs
            if len(runs) > MOST_ALONE and not any(isinstance(run.foreign.results, RunTables) for run in runs):
                own, others = runs[::2], runs[1::2]
                stack.enter_context(beside(lambda: _write_runs(made, others, overrides, lambda _: None)))
            _write_runs(made, own, overrides, lambda count: written(count * len(runs) // len(own)))


def _write_runs(
    folder: Path, runs: Sequence[Imported], overrides: ImportOverrides, written: Callable[[int], None]
) -> None:
    for first in range(0, len(runs), TOLD_AT_ONCE):
        some = runs[first : first + TOLD_AT_ONCE]
        for imported in some:
            _write_run(RunFolder.of(folder, imported.run), imported, overrides)
        written(len(some))


def _write_run(folder: RunFolder, imported: Imported, overrides: ImportOverrides) -> None:
    folder.path.mkdir(parents=True)
    if imported.foreign.raw:
        (folder.path / run_files.GENERATORS).mkdir()
    for name, content in imported.foreign.raw.items():
        (folder.path / run_files.GENERATORS / name).write_bytes(content)
    if isinstance(imported.foreign.results, RunTables):
        imported.foreign.results.write(folder.path)
    folder.write_staged(finished_run(imported, overrides))
