"""Decides which files of a campaign are packed into one ZIP file, and which are safe to unpack.

Names are relative to the campaign's folder, with slashes.
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
MOST_FOLDERS = 32  # one below the other; ccmix needs six
LONGEST_NAME_BYTES = 255  # between two slashes, as in file systems of Linux
ENCRYPTED = 0x1

REPORT = "report.html"
REPORTS = (REPORT, "report-charts")  # next to the entries' folders
RAW = (run_files.GENERATORS, run_files.LOGS, run_files.CAPTURE)  # in a run's folder
READ_RAW = tuple(  # raw files that readers of the archive need
    f"{run_files.GENERATORS}/{name}"
    for name in (run_files.PSCHEDULER, run_files.SRC_COMMAND_OUTPUT)
)
RUN_DEPTH = 4  # <entry>/<condition>/<dst>/<NNN>
# Users' labels are part of many names, so this allows every kind of data that ccmix writes, but no
# programs
_FILE_OF_RUN = re.compile(
    r"run\.json|facts\.json|capture\.pcap\.zst|[^/]+\.parquet"
    r"|(generators|logs)/([^/]+\.(csv|err|jsonl?|log|out|pid|sockmon|txt)|([0-9]+-)?src-cmd)"
)


def run_folder_of(name: str) -> str | None:
    """Returns the run's folder that has the file of this name; None if the file is not in a run's
    folder.
    """
    parts = name.split("/")
    return "/".join(parts[:RUN_DEPTH]) if len(parts) > RUN_DEPTH else None


def belongs_to_campaign(name: str, runs: set[str]) -> bool:
    """Returns whether ccmix writes a file of this name in a campaign, or an empty folder (its name
    ends with a slash) in a run. `runs` are the names of the runs' folders.
    """
    run = run_folder_of(name)
    if run is None:
        return name == FILE
    return run in runs and (
        name.endswith("/") or bool(_FILE_OF_RUN.fullmatch(name[len(run) + 1 :]))
    )


def is_report(name: str) -> bool:
    return name.partition("/")[0] in REPORTS


def is_raw(name: str) -> bool:
    """Returns whether a packed campaign can do without this file. That holds for the programs' raw
    outputs, which no reader of the archive needs, and for the report, which can be made again.
    """
    parts = name.split("/")[RUN_DEPTH:]
    return is_report(name) or (bool(parts) and parts[0] in RAW and "/".join(parts) not in READ_RAW)


@dataclass(frozen=True)
class Selection:
    """Lists which files of a campaign are packed, and which are not: those of `unfinished` runs
    (folders) and `foreign` ones. Names of empty folders end with a slash.
    """

    members: list[str]
    unfinished: list[str]
    foreign: list[str]


def select(outdir: Path, finished: set[str], raw: bool) -> Selection:
    """Decides which files of the campaign folder `outdir` to pack. `finished` are the names of the
    finished runs' folders; raw files are included only if `raw`. Raises ArchiveError for a file
    that can't be packed, such as a link.
    """
    selection = Selection([], [], [])
    for name in list_files(outdir, ""):
        run = run_folder_of(name)
        if run in finished:
            check_packable(outdir, name)
        if is_report(name) or belongs_to_campaign(name, finished):
            if raw or not is_raw(name):
                check_packable(outdir, name)
                selection.members.append(name)
        elif run and run.endswith(".partial"):
            if run not in selection.unfinished:
                selection.unfinished.append(run)
        elif not name.endswith("/"):
            selection.foreign.append(name)
    selection.members.sort(key=os.fsencode)
    return selection


def list_files(outdir: Path, below: str) -> Iterator[str]:
    """Yields the names of all files and empty folders of the campaign that are in the folder
    `below`: its name with a slash at the end, or '' for all. Does not follow links. A folder below
    MOST_FOLDERS others counts as a file, which does not belong to the campaign.
    """
    with os.scandir(outdir / below) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    if not entries and below:
        yield below
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and below.count("/") < MOST_FOLDERS:
            yield from list_files(outdir, f"{below}{entry.name}/")
        else:
            yield f"{below}{entry.name}"


def check_packable(outdir: Path, name: str) -> None:
    """Raises ArchiveError unless this is a regular file or folder, with a name that every system
    can restore.
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
    """Raises ArchiveError unless all members of a packed file are safe to unpack: within the
    folder, of a usual kind, and not so large that they are meant to fill the disk.

    `size` is the size of the packed file, and `file` its name for messages.
    """
    if len(members) > MOST_MEMBERS:
        raise ArchiveError(
            f"{file}: has {len(members)} members, but at most {MOST_MEMBERS} are unpacked"
        )
    for info in members:
        if reason := _reason_to_refuse(info):
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


def _reason_to_refuse(info: zipfile.ZipInfo) -> str:
    """Returns why a member is not unpacked; '' if it is safe."""
    parts = info.filename.removesuffix("/").split("/")
    if len(parts) > MOST_FOLDERS or any(part in ("", ".", "..") for part in parts):
        return f"is not a path within a folder, or within more than {MOST_FOLDERS}"
    if any(len(os.fsencode(part)) > LONGEST_NAME_BYTES for part in parts):
        return f"has a name of more than {LONGEST_NAME_BYTES} bytes"
    file_type = stat.S_IFMT(info.external_attr >> 16)
    expected_type = stat.S_IFDIR if info.is_dir() else stat.S_IFREG
    if info.create_system == UNIX and file_type not in (0, expected_type):
        return "is neither a file nor a folder"
    if info.flag_bits & ENCRYPTED:
        return "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is not compressed by deflate"
    return ""
