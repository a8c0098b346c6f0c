"""A campaign's folder: what was planned, from which text, with which seed and versions."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ccmix.archive import codec, many, plans
from ccmix.archive.errors import ArchiveError
from ccmix.archive.folders import RunFolder
from ccmix.archive.replacing import PARTIAL, open_new, replacing
from ccmix.failures import naming
from ccmix.model import Run
from ccmix.model.results import CampaignOrigin, CampaignPlan, FinishedRun

FILE = "campaign.json"
INDEX = "index.parquet"  # see campaign_index.py
INDEXED_FROM = 500  # runs; of fewer, each run.json is read before Polars would be imported


@dataclass(frozen=True)
class Campaign:
    """Reads and writes a campaign on disk."""

    outdir: Path
    plan: CampaignPlan

    @property
    def runs(self) -> tuple[Run, ...]:
        return self.plan.runs

    @property
    def runs_in_file_order(self) -> tuple[Run, ...]:
        """Returns the runs in the order of the INI file, as far as the plan knows it."""
        order = self.plan.file_order
        return (
            self.runs
            if len(order) != len(self.runs)
            else tuple(run for _, run in sorted(zip(order, self.runs, strict=True), key=lambda placed: placed[0]))
        )

    @property
    def indexed(self) -> bool:
        """Returns whether the campaign has so many runs that it has an index."""
        return len(self.runs) >= INDEXED_FROM

    @property
    def origin(self) -> CampaignOrigin:
        return self.plan.origin

    @property
    def ini(self) -> str:
        return self.plan.ini

    @classmethod
    def create(cls, outdir: Path, plan: CampaignPlan) -> "Campaign":
        """Makes the folder.

        Raises ArchiveError if there is something in it, and OSError if the folder can't be made.
        """
        file = _named(outdir) / FILE
        if outdir.exists() and any(entry.name != FILE + PARTIAL for entry in outdir.iterdir()):
            raise ArchiveError(f"{outdir}: is not empty: give another folder with -o, or --resume to go on with it")
        outdir.mkdir(parents=True, exist_ok=True)
        if len(plan.runs) < INDEXED_FROM:
            codec.write(file, codec.CAMPAIGN_PLAN, plan)
        else:
            with replacing(file) as out:
                many.write_plan(out, plan)
        return cls(outdir, plan)

    @staticmethod
    def write_staged(folder: Path, plan: CampaignPlan) -> None:
        """Writes the plan into a folder that staging.staged() will move to its place, with all of its runs."""
        with naming(folder / FILE), open_new(folder / FILE) as out:
            many.write_plan(out, plan)

    @classmethod
    def load(cls, outdir: Path) -> "Campaign":
        """Raises ArchiveError if the folder holds no campaign that this version can read."""
        if outdir.exists() and not outdir.is_dir():
            raise ArchiveError(f"{outdir}: is no folder: name the one that ccmix run wrote")
        try:
            return cls(outdir, plans.read(_named(outdir), outdir / FILE))
        except FileNotFoundError as error:
            problem = f"has no {FILE}" if outdir.exists() else "is not there"
            raise ArchiveError(f"{outdir}: {problem}: name the folder that ccmix run wrote") from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the campaign for the one process that adds runs. Raises ArchiveError if another one does."""
        with (self.outdir / FILE).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ArchiveError(f"{self.outdir}: another ccmix run is at work in it: wait for its end") from error
            yield

    def check(self) -> None:
        """Raises ArchiveError if the folder has been removed, or is another campaign's by now."""
        if not (self.outdir / FILE).exists():
            raise ArchiveError(f"{self.outdir}: its {FILE} was removed: nothing is written there any more")

    def finished(
        self,
        wanted: Callable[[Run], bool] = lambda _: True,
        unread: Callable[[Run, ArchiveError], None] | None = None,
        *,
        numbers_only: bool = False,
    ) -> Iterator[tuple[FinishedRun, Path]]:
        """Yields each finished run that is wanted, in the order of the plan, and its folder; reads no others.

        With numbers_only, runs have only what archive/numbers.py keeps, of many runs from the campaign's index.

        Calls `unread` for a run.json that can't be read; without `unread`, raises its ArchiveError.
        """
        if numbers_only and self.indexed:
            from ccmix.archive import campaign_index  # noqa: PLC0415  # slow to import

            yield from campaign_index.finished(self, wanted, unread)
            return
        for run in filter(wanted, self.runs):
            folder = RunFolder.of(self.outdir, run)
            try:
                finished = folder.read_as_planned(run, numbers_only=numbers_only)
            except FileNotFoundError:
                continue
            except ArchiveError as error:
                if unread is None:
                    raise
                unread(run, error)
            else:
                yield finished, folder.path

    def damaged(self) -> list[tuple[Run, ArchiveError]]:
        """Returns the runs whose run.json can't be read, each with the reason.

        Reads all others, too, but for those of which the campaign's index has what was read before.
        """
        damaged: list[tuple[Run, ArchiveError]] = []
        if self.indexed:
            from ccmix.archive import campaign_index  # noqa: PLC0415  # slow to import

            campaign_index.update(self, lambda run, error: damaged.append((run, error)))
            return damaged
        for _ in self.finished(unread=lambda run, error: damaged.append((run, error))):
            pass
        return damaged


def _named(outdir: Path) -> Path:
    """Returns the folder. Raises ArchiveError if Polars could not read below it."""
    try:
        str(outdir).encode()
    except UnicodeEncodeError as error:
        raise ArchiveError(f"{os.fsencode(outdir)!r}: is no UTF-8: give a folder of another name") from error
    return outdir
