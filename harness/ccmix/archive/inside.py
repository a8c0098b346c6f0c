"""Reads files of a campaign's folder, which others may have made: through no link, from no pipe, and not without end.

The folder itself may be a link; who names it on the command line means what it points to.
"""

import os
import stat
from pathlib import Path

from ccmix.archive.errors import ArchiveError
from ccmix.units import format_bytes

LINK = "is a link, and ccmix follows none within a campaign's folder"
IRREGULAR = "is no regular file"


def refuse_links(outdir: Path, path: Path) -> None:
    """Raises ArchiveError if `path`, or a folder between `outdir` and it, is a link."""
    way = outdir
    for part in path.relative_to(outdir).parts:
        way /= part
        if way.is_symlink():
            raise ArchiveError(f"{way}: {LINK}: put what it points to in its place")


def check_regular(file: Path) -> None:
    """Raises ArchiveError if something else than a file is there."""
    try:
        mode = file.lstat().st_mode
    except OSError:
        return  # reading it says why it can't be read
    if reason := _irregular(mode):
        raise ArchiveError(f"{file}: can't be read: it {reason}")


def read_bytes(file: Path, most_bytes: int) -> bytes:
    """Returns the content of a file. Raises ArchiveError unless it is a regular file of at most so many bytes, and
    OSError.
    """
    check_regular(file)
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as content:
        status = os.fstat(opened)
        if reason := _irregular(status.st_mode):
            raise ArchiveError(f"{file}: can't be read: it {reason}")
        if status.st_size > most_bytes:
            size, most = format_bytes(status.st_size), format_bytes(most_bytes)
            raise ArchiveError(f"{file}: can't be read: it has {size}, and ccmix writes at most {most}")
        return content.read(most_bytes)


def _irregular(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return LINK
    return "" if stat.S_ISREG(mode) else IRREGULAR
