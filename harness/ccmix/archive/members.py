"""Says which files in a campaign's folder are ccmix's own, by their names relative to the folder,
and which members of a packed file are safe to unpack.
"""

import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ccmix.archive.campaign import FILE
from ccmix.files import ArchiveError
from ccmix.model import run_files

UNIX = 3  # the system on which a member of a ZIP file was made
# Limits against files that are made to fill the disk when they are unpacked
MOST_MEMBERS = 1_000_000
MOST_RATIO = 100  # of the content's size to the file's; deflated campaigns reach 20
ALWAYS_ALLOWED_BYTES = 64 * 2**20
LONGEST_NAME_BYTES = 255  # between two slashes, as in file systems of Linux
ENCRYPTED = 0x1

REPORT = "report.html"
REPORTS = (REPORT, "report-charts")  # next to the entries' folders
RAW = (run_files.GENERATORS, run_files.LOGS, run_files.CAPTURE)  # in a run's folder
READ = tuple(
    f"{run_files.GENERATORS}/{name}"
    for name in (run_files.PSCHEDULER, run_files.SRC_COMMAND_OUTPUT)
)
RUN_DEPTH = 4  # <entry>/<condition>/<dst>/<NNN>
# Users' labels are part of many names, so this allows every kind of data that ccmix writes, but no
# programs
_OF_RUN = re.compile(
    r"run\.json|facts\.json|capture\.pcap\.zst|[^/]+\.parquet"
    r"|(generators|logs)/([^/]+\.(csv|err|jsonl?|log|out|pid|sockmon|txt)|([0-9]+-)?src-cmd)"
)


def folder_of_run(name: str) -> str | None:
    """Returns the run's folder of a file; None if the file is outside of all runs."""
    parts = name.split("/")
    return "/".join(parts[:RUN_DEPTH]) if len(parts) > RUN_DEPTH else None


def is_of_campaign(name: str, runs: set[str]) -> bool:
    """Returns whether ccmix writes a file of this name, or an empty folder in that of a run; `runs`
    are the runs' folders.
    """
    run = folder_of_run(name)
    if run is None:
        return name == FILE
    return run in runs and (name.endswith("/") or bool(_OF_RUN.fullmatch(name[len(run) + 1 :])))


def is_report(name: str) -> bool:
    return name.partition("/")[0] in REPORTS


def is_raw(name: str) -> bool:
    """Returns whether no reader of the archive needs a file. These are raw files, and the report,
    which can be made again.
    """
    parts = name.split("/")[RUN_DEPTH:]
    return is_report(name) or (bool(parts) and parts[0] in RAW and "/".join(parts) not in READ)


@dataclass(frozen=True)
class Selection:
    """Lists names relative to the campaign's folder; those of empty folders end with a slash."""

    members: list[str]
    unfinished: list[str]
    foreign: list[str]


def select(outdir: Path, finished: set[str], raw: bool) -> Selection:
    """Returns the files to pack; `finished` are the folders of the finished runs. Raises
    ArchiveError as check_kind() does.
    """
    selection = Selection([], [], [])
    for name in walk(outdir, ""):
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
    """Raises ArchiveError unless it is a file or folder with a name that every system can
    restore.
    """
    mode = (outdir / name).lstat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "a link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
        raise ArchiveError(
            f"{outdir / name}: is {kind}, which a packed file can't hold: replace it by a file"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ArchiveError(
            f"{os.fsencode(outdir / name)!r}: is not valid UTF-8: give it another name"
        ) from error


def check_members(members: Sequence[zipfile.ZipInfo], size: int, file: Path) -> None:
    """Raises ArchiveError, which names `file`, unless the members are safe to unpack; `size` is
    that of the file.
    """
    if len(members) > MOST_MEMBERS:
        raise ArchiveError(
            f"{file}: has {len(members)} members, but at most {MOST_MEMBERS} are unpacked"
        )
    for info in members:
        if reason := _refusal(info):
            raise ArchiveError(
                f"{file}: {info.filename!r:.300}: {reason}: 'ccmix archive pack' does not write "
                "that"
            )
    names = Counter(info.filename.removesuffix("/") for info in members)
    files = {info.filename for info in members if not info.is_dir()}
    for name, times in names.items():
        if times > 1 or any(str(parent) in files for parent in PurePosixPath(name).parents):
            raise ArchiveError(
                f"{file}: {name!r:.300}: appears twice: 'ccmix archive pack' does not write that"
            )
    total = sum(info.file_size for info in members)
    if total > max(ALWAYS_ALLOWED_BYTES, MOST_RATIO * size):
        raise ArchiveError(
            f"{file}: {size} bytes would become {total}, more than {MOST_RATIO} times as many: "
            "refused"
        )


def _refusal(info: zipfile.ZipInfo) -> str:
    """Returns why a member is not unpacked; '' if it can be."""
    parts = info.filename.removesuffix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "is not a path within a folder"
    if any(len(os.fsencode(part)) > LONGEST_NAME_BYTES for part in parts):
        return f"has a name of more than {LONGEST_NAME_BYTES} bytes"
    if info.create_system == UNIX and stat.S_IFMT(info.external_attr >> 16) not in (
        0,
        stat.S_IFDIR if info.is_dir() else stat.S_IFREG,
    ):
        return "is neither a file nor a folder"
    if info.flag_bits & ENCRYPTED:
        return "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is not compressed by deflate"
    return ""
