"""The index of a campaign, OUTDIR/index.parquet: a row for each finished run, so that tables, comparisons and pages of
a campaign with very many runs need not open each run.json. docs/reference/campaign-index.md describes its columns.

The index is a copy, and never decides. A row counts only while the run.json that it was made of has the same inode,
size and times; any other run is read from its run.json, and the index is then written anew. The kernel sets the time of
a change, which nobody can choose, so an edit shows even where a tool puts back the time of modification. The clock of a
file system ticks, though: a row that was made within SETTLES_NS of a change has no such stamp, and does not count.

For who has polars: it takes long to import.
"""

import contextlib
import itertools
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import polars as pl
from polars.exceptions import PanicException, PolarsError

from ccmix.archive import numbers
from ccmix.archive.campaign import INDEX, Campaign
from ccmix.archive.errors import ArchiveError
from ccmix.archive.folders import RunFolder
from ccmix.archive.held_folders import held
from ccmix.archive.inside import open_file, refuse_links
from ccmix.archive.replacing import replacing
from ccmix.model import Run, run_files
from ccmix.model.results import FinishedRun
from ccmix.version import version

SETTLES_NS = 2_000_000_000  # the coarsest clock of a file system that ccmix may meet
ROWS_AT_ONCE = 5000
_UNREADABLE = (PolarsError, PanicException, OSError, TypeError, ValueError, ArchiveError)
_MADE_BY = "ccmix"  # of the file's metadata: the version, of which another may have other numbers

_STAMP = {"bytes": pl.Int64, "inode": pl.UInt64, "modified_ns": pl.Int64, "changed_ns": pl.Int64}
SCHEMA = pl.Schema(
    {
        "folder": pl.String, "entry": pl.String, "condition": pl.String, "dst": pl.String, "iteration": pl.Int64,
        "status": pl.String, "goodput_bps": pl.Float64, "utilisation": pl.Float64, "fairness": pl.Float64,
        "retransmission_rate": pl.Float64, "rtt_median_s": pl.Float64, "queueing_delay_median_s": pl.Float64,
        "began_s": pl.Float64, "real_seconds": pl.Float64, "memory_bytes": pl.Int64, "measured_s": pl.Float64,
        "setup": pl.String, "numbers": pl.String, **_STAMP,
    }
)  # fmt: skip
_OF_METRICS = (
    "goodput_bps",
    "utilisation",
    "fairness",
    "retransmission_rate",
    "rtt_median_s",
    "queueing_delay_median_s",
)
_OF_EXECUTION = ("real_seconds", "memory_bytes", "measured_s")


@dataclass(frozen=True)
class _Stamp:
    """Tells one content of a file from another, without reading it."""

    bytes: int
    inode: int
    modified_ns: int
    changed_ns: int


class _Row(dict[str, object]):
    """Is a row of the table, by the names of SCHEMA."""


def finished(
    campaign: Campaign, wanted: Callable[[Run], bool], unread: Callable[[Run, ArchiveError], None] | None
) -> Iterator[tuple[FinishedRun, Path]]:
    """Yields what Campaign.finished(numbers_only=True) does, from the index where it knows the run.json.

    Brings the index up to date in the end, if the folder can be written to.
    """
    known = _Known(campaign)
    for run in filter(wanted, campaign.runs):
        name = known.name(run)
        if name in known.runs:
            yield known.runs.pop(name), campaign.outdir / name
            continue
        folder = RunFolder.of(campaign.outdir, run)
        try:
            whole = folder.read()
        except FileNotFoundError:
            continue
        except ArchiveError as error:
            if unread is None:
                raise
            unread(run, error)
        else:
            known.add(name, run, whole)
            yield numbers.of_whole(run, whole), folder.path
    known.write()


def update(
    campaign: Campaign,
    unread: Callable[[Run, ArchiveError], None] | None = None,
    ended: Callable[[], bool] = lambda: False,
) -> int:
    """Brings the index up to date, if the folder can be written to; returns how many runs had to be read.

    Calls `unread` for a run.json that can't be read. Gives up, and writes nothing, as soon as `ended` returns True.
    """
    known = _Known(campaign, decode=False)
    for run in campaign.runs:
        if ended():
            return known.added
        name = known.name(run)
        if name in known.fresh or (not unread and name not in known.stamps):
            continue
        try:
            known.add(name, run, RunFolder.of(campaign.outdir, run).read())
        except FileNotFoundError:
            continue
        except ArchiveError as error:
            if unread:
                unread(run, error)
    known.write()
    return known.added


class _Known:
    """Holds what an index knows of a campaign's finished runs, and what is added to it."""

    def __init__(self, campaign: Campaign, *, decode: bool = True) -> None:
        self._campaign = campaign
        self._clock_ns = _file_system_clock_ns(campaign.outdir)
        self.stamps = _stamps(campaign)
        self.runs: dict[str, FinishedRun] = {}
        self.fresh: set[str] = set()
        self._all_fresh, self._usable = False, True
        with contextlib.suppress(*_UNREADABLE), _opened(campaign.outdir) as rows:
            known = rows.select("folder", *_STAMP).collect()
            self.fresh = set(known.filter(_fresh(known, self.stamps))["folder"])
            self._all_fresh = len(self.fresh) == known.height
            if decode:
                self._decode(rows, known.height)
        self._new: list[pl.DataFrame] = []
        self._waiting: list[_Row] = []
        self.added = 0

    def name(self, run: Run) -> str:
        """Returns the folder of a run, relative to the campaign's."""
        return str(RunFolder.of(self._campaign.outdir, run).path.relative_to(self._campaign.outdir))

    def add(self, name: str, run: Run, whole: FinishedRun) -> None:
        """Takes a run that was read after its stamp."""
        if self._clock_ns is None:
            return
        before, now = self.stamps.get(name), _stamp(self._campaign.outdir / name)
        counts = before is not None and before == now and before.changed_ns + SETTLES_NS < self._clock_ns
        self._waiting.append(_row(name, run, whole, before if counts else None))
        self.added += 1
        if len(self._waiting) == ROWS_AT_ONCE:
            self._pack()

    def write(self) -> None:
        """Writes the index, unless it is as it was, or another process is writing it."""
        if self._clock_ns is None or (not self.added and self._all_fresh):
            return
        self._pack()
        with contextlib.suppress(*_UNREADABLE), held(self._campaign.outdir.resolve()) as ours:
            if ours:
                _write(pl.concat([self._kept(), *self._new]), self._campaign.outdir / INDEX)

    def _kept(self) -> pl.DataFrame:
        """Returns the rows that the index has now, and that are still fresh, without the runs that were added."""
        new = pl.concat([SCHEMA.to_frame(), *self._new])["folder"]
        with contextlib.suppress(*_UNREADABLE), _opened(self._campaign.outdir) as rows:
            every = rows.collect() if self._usable else SCHEMA.to_frame()
            return every.filter(_fresh(every, self.stamps) & ~every["folder"].is_in(new.implode()))
        return SCHEMA.to_frame()

    def _decode(self, rows: pl.LazyFrame, height: int) -> None:
        """Reads the runs of the fresh rows, some at a time: the texts of all take as much memory as the runs."""
        by_name = {self.name(run): run for run in self._campaign.runs}
        decoded: dict[str, FinishedRun] = {}
        try:
            for first in range(0, height, ROWS_AT_ONCE):
                some = rows.slice(first, ROWS_AT_ONCE).select("folder", "setup", "numbers").collect()
                decoded.update(_decoded(some.filter(some["folder"].is_in(self.fresh)), by_name))
        except (ValueError, TypeError):  # of another ccmix, or damaged
            self.fresh, self._all_fresh, self._usable = set(), False, False
        else:
            self.runs = decoded

    def _pack(self) -> None:
        self._new.append(pl.DataFrame(self._waiting, SCHEMA))
        self._waiting = []


def _stamps(campaign: Campaign) -> dict[str, _Stamp]:
    """Returns the stamp of each run.json, by its folder relative to the campaign's; follows no links."""
    outdir, found = campaign.outdir, {}
    for parent in dict.fromkeys(RunFolder.of(outdir, run).path.parent for run in campaign.runs):
        with contextlib.suppress(OSError, ArchiveError):
            refuse_links(outdir, parent)
            names = [entry.name for entry in os.scandir(parent) if entry.is_dir(follow_symlinks=False)]
            below = f"{parent.relative_to(outdir)}/"
            for name in names:
                if stamp := _stamp(parent / name):
                    found[below + name] = stamp
    return found


def _stamp(folder: Path) -> _Stamp | None:
    try:
        status = os.lstat(f"{folder}/{run_files.SUMMARY}")
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return _Stamp(status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def _file_system_clock_ns(outdir: Path) -> int | None:
    """Returns the time of the folder's file system, which may be another machine's; None if nothing can be written."""
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=outdir) as file:
        return os.fstat(file.fileno()).st_ctime_ns
    return None


@contextlib.contextmanager
def _opened(outdir: Path) -> Iterator[pl.LazyFrame]:
    """Yields the table of the index, to read within the context; one without rows if this ccmix has written none.

    Raises _UNREADABLE.
    """
    try:
        descriptor = open_file(outdir, outdir / INDEX)
    except FileNotFoundError:
        yield SCHEMA.to_frame().lazy()
        return
    try:
        file = f"/proc/self/fd/{descriptor}"
        ours = pl.read_parquet_metadata(file).get(_MADE_BY) == version().name and pl.read_parquet_schema(file) == SCHEMA
        yield pl.scan_parquet(file) if ours else SCHEMA.to_frame().lazy()
    finally:
        os.close(descriptor)


def _fresh(rows: pl.DataFrame, stamps: Mapping[str, _Stamp]) -> pl.Series:
    """Returns for each row whether its run.json is still the same."""
    written = rows.select("folder", *_STAMP).iter_rows()
    none = (None,) * len(_STAMP)
    now = ((astuple(stamps[folder]) if folder in stamps else none, tuple(stamp)) for folder, *stamp in written)
    return pl.Series([before == stamp != none for stamp, before in now], dtype=pl.Boolean)


def _decoded(rows: pl.DataFrame, by_name: Mapping[str, Run]) -> Iterator[tuple[str, FinishedRun]]:
    """Yields the runs of a table. Raises ValueError and TypeError."""
    every = numbers.decoded(rows["numbers"])
    for folder, setup, of_run in zip(rows["folder"], rows["setup"], every, strict=True):
        if folder in by_name:
            yield folder, of_run.finished(by_name[folder], numbers.facts_of(setup))


def _row(name: str, run: Run, whole: FinishedRun, stamp: _Stamp | None) -> _Row:
    setup, of_run = numbers.texts(whole)
    return _Row(
        folder=name,
        entry=run.entry,
        condition=json.dumps(run.condition),
        dst=run.dst,
        iteration=run.iteration,
        status=whole.verdict.status,
        began_s=whole.began_s,
        setup=setup,
        numbers=of_run,
        **{key: getattr(whole.metrics, key) for key in _OF_METRICS},
        **{key: getattr(whole.execution, key) for key in _OF_EXECUTION},
        **dict(zip(_STAMP, astuple(stamp) if stamp else itertools.repeat(None), strict=False)),
    )


def _write(table: pl.DataFrame, file: Path) -> None:
    with replacing(file, sync=False) as out:
        table.write_parquet(out, row_group_size=ROWS_AT_ONCE, metadata={_MADE_BY: version().name})
