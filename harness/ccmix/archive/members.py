"""Says which files in a campaign's folder are ccmix's own, by their names relative to it."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ccmix.archive.campaign import FILE, INDEX
from ccmix.archive.errors import ArchiveError
from ccmix.model import run_files

REPORT = "report.html"
REPORTS = (REPORT, "report-charts")  # beside the entries' folders
RAW = (run_files.GENERATORS, run_files.LOGS, run_files.CAPTURE)  # in a run's folder
READ = tuple(f"{run_files.GENERATORS}/{name}" for name in (run_files.PSCHEDULER, run_files.SRC_COMMAND_OUTPUT))
RUN_DEPTH = 4  # <entry>/<condition>/<dst>/<NNN>
# Labels that users choose are part of many names: every kind of data that ccmix writes, and nothing that is a program
_OF_RUN = re.compile(
    r"run\.json|facts\.json|capture\.pcap\.zst|[^/]+\.parquet"
    r"|(generators|logs)/([^/]+\.(csv|err|jsonl?|log|out|pid|sockmon|txt)|([0-9]+-)?src-cmd)"
)


def folder_of_run(name: str) -> str | None:
    """Returns the run's folder that a file lies in; None for a file outside of all."""
    parts = name.split("/")
    return "/".join(parts[:RUN_DEPTH]) if len(parts) > RUN_DEPTH else None


def is_of_campaign(name: str, runs: set[str]) -> bool:
    """Returns whether ccmix writes a file of this name, or an empty folder within a run's; `runs` are their folders."""
    run = folder_of_run(name)
    if run is None:
        return name == FILE
    return run in runs and (name.endswith("/") or bool(_OF_RUN.fullmatch(name[len(run) + 1 :])))


def is_report(name: str) -> bool:
    return name.partition("/")[0] in REPORTS


def is_raw(name: str) -> bool:
    """Returns whether no reader of the archive needs a file: raw files, and the report, which can be made again."""
    parts = name.split("/")[RUN_DEPTH:]
    return is_report(name) or (bool(parts) and parts[0] in RAW and "/".join(parts) not in READ)


@dataclass(frozen=True)
class Selection:
    """Names relative to the campaign's folder; those of empty folders end with a slash."""

    members: list[str]
    unfinished: list[str]
    foreign: list[str]


def select(outdir: Path, finished: set[str], raw: bool) -> Selection:
    """Returns what to pack; `finished` are the folders of the finished runs. Raises ArchiveError as check_kind()."""
    selection = Selection([], [], [])
    for name in walk(outdir, ""):
        if name == INDEX:  # it can be made again
            continue
        run = folder_of_run(name)
        if run in finished:
            check_kind(outdir, name)
        if is_report(name) or is_of_campaign(name, finished):
            if raw or not is_raw(name):
                check_kind(outdir, name)
                selection.members.append(name)
        elif run and run.endswith(".partial"):
            if run not in selection.unfinished:
                selection.unfinished.append(run)
        elif not name.endswith("/"):
            selection.foreign.append(name)
    selection.members.sort(key=os.fsencode)
    return selection


def walk(outdir: Path, below: str) -> Iterator[str]:
    """Yields all files and empty folders; does not follow links."""
    with os.scandir(outdir / below) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    if not entries and below:
        yield below
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from walk(outdir, f"{below}{entry.name}/")
        else:
            yield f"{below}{entry.name}"


def check_kind(outdir: Path, name: str) -> None:
    """Raises ArchiveError unless it is a file or folder of a name that every system can restore."""
    mode = (outdir / name).lstat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "a link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
        raise ArchiveError(f"{outdir / name}: is {kind}, which a packed file can't hold: replace it by a file")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ArchiveError(f"{os.fsencode(outdir / name)!r}: is no UTF-8: give it another name") from error
