"""Packs a campaign into one ZIP file, which can be mailed and cited, and unpacks it.

docs/reference/packed-archives.md describes the format.
"""

import contextlib
import filecmp
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from ccmix.archive.campaign import FILE, Campaign, RunFolder
from ccmix.archive.members import (
    UNIX,
    belongs_to_campaign,
    check_members,
    check_packable,
    is_raw,
    list_files,
    select,
)
from ccmix.failures import naming
from ccmix.files import ArchiveError, folder_next_to, open_file, staged
from ccmix.model import run_files
from ccmix.temporary import temporary_folder

SUFFIX = ".zip"
COMPRESSED = (".gz", ".png", ".zip", ".zst")  # deflating them again would save nothing

# The same for every campaign, so that the same campaign gives the same bytes
TIMESTAMP = (1980, 1, 1, 0, 0, 0)
FILE_MODE, FOLDER_MODE = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755
DOS_FOLDER = 0x10

DAMAGED = (  # errors of zipfile
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
)
CHUNK_BYTES = 2**20

Progress = Callable[[int, int], None]  # takes the bytes done so far, and all bytes


def _no_progress(_done: int, _total: int) -> None:
    pass


@dataclass(frozen=True)
class Packing:
    """Describes what was packed: the numbers of planned and of readable finished runs and of files,
    and the parts of the campaign's folder that were left out.
    """

    planned: int
    runs: int
    files: int
    damaged: tuple[str, ...]  # a sentence for each packed run.json that can't be read
    unfinished: tuple[str, ...]  # folders of runs that did not finish, relative to the campaign's
    foreign: tuple[str, ...]  # files that do not belong to the campaign


@dataclass(frozen=True)
class OpenedArchives:
    """Holds the folders of opened campaigns, in the order in which the user named them."""

    folders: tuple[Path, ...]
    packed: dict[Path, Path]  # by temporary folder, the packed file that was unpacked into it

    def rename(self, message: str) -> str:
        """Returns a message in which temporary folders are replaced by the packed files that were
        unpacked into them.
        """
        for folder, file in self.packed.items():
            message = message.replace(str(folder), str(file))
        return message


def pack(outdir: Path, file: Path, raw: bool = True, progress: Progress = _no_progress) -> Packing:
    """Writes a campaign and its finished runs into one file; raw outputs of programs and the report
    only if `raw`. The same campaign always gives the same bytes.

    Does nothing if the file exists with the same bytes. Raises ArchiveError if the folder has no
    campaign or contains something that a packed file can't hold, or if the file exists with other
    bytes, and OSError.
    """
    campaign = Campaign.load(outdir)
    folders = (RunFolder.of(outdir, run) for run in campaign.runs)
    finished = [folder.path for folder in folders if folder.finished]
    selection = select(outdir, {_relative_name(outdir, folder) for folder in finished}, raw)
    _check_not_behind_links(outdir, finished, selection.members)
    with _create_when_done(file) as out:
        _write_zip(outdir, selection.members, out, progress)
    files = sum(not name.endswith("/") for name in selection.members)
    damaged = tuple(str(error) for _, error in campaign.read_all()[1])
    readable = len(finished) - len(damaged)
    return Packing(
        len(campaign.runs),
        readable,
        files,
        damaged,
        tuple(selection.unfinished),
        tuple(selection.foreign),
    )


def unpack(
    file: Path,
    outdir: Path,
    progress: Progress = _no_progress,
    leave_out: Callable[[str], object] = lambda _: None,
) -> Campaign:
    """Restores the folder of a packed campaign, completely or not at all, and returns the campaign.

    Calls `leave_out` with the name of each file that is not restored: the report, and files that
    ccmix did not write. Raises ArchiveError if the file is not a packed campaign or is damaged, or
    if there is something at `outdir`, and OSError.
    """
    if outdir.is_symlink() or outdir.exists():
        if not outdir.is_dir():
            raise ArchiveError(f"{outdir}: is not a folder: give a folder with -o")
        if any(outdir.iterdir()):
            raise ArchiveError(f"{outdir}: is not empty: give another folder with -o")
    with _open_zip(file) as packed:
        members = _checked_members(packed, file)
        with staged(outdir, "unpack") as folder, _name_file_in_errors(folder, file):
            _extract_campaign(packed, members, folder, progress, leave_out)
    return Campaign.load(outdir)


def pack_folder(folder: Path, out: IO[bytes]) -> None:
    """Writes all files of a folder, such as that of a run, in the format of a packed campaign.
    Raises ArchiveError, and OSError.
    """
    names = sorted(list_files(folder, ""), key=os.fsencode)
    for name in names:
        check_packable(folder, name)
    _write_zip(folder, names, out, _no_progress)


def unpack_folder(source: IO[bytes], size: int, folder: Path) -> None:
    """Unpacks what pack_folder() wrote into an empty folder, with the same checks as for a packed
    campaign. `size` is the number of bytes of `source`.

    Raises ArchiveError, which names files below `folder`, and OSError.
    """
    try:
        packed = zipfile.ZipFile(source)
    except DAMAGED as error:
        raise ArchiveError(f"{folder}: the packed file for it is damaged: {error}") from error
    with packed:
        members = packed.infolist()
        check_members(members, size, folder)
        _extract(packed, members, folder, _no_progress)


@contextlib.contextmanager
def opened(paths: Sequence[Path]) -> Iterator[OpenedArchives]:
    """Yields the folder of each campaign; `paths` are folders and packed files. A packed file is
    unpacked into a temporary folder, without its raw files. If it is named twice, it is unpacked
    only once.

    Raises ArchiveError if a file is not a packed campaign or is damaged. An ArchiveError from
    within the context names packed files instead of temporary folders.
    """
    by_file: dict[Path, Path] = {}
    folders: list[Path] = []
    with contextlib.ExitStack() as temporary:
        for path in paths:
            # Path.is_file() raises if a folder above can't be read
            if not os.path.isfile(path):  # noqa: PTH113
                folders.append(path)
                continue
            file = path.resolve()
            if file not in by_file:
                by_file[file] = temporary.enter_context(_unpack_temporarily(path))
                temporary.enter_context(_name_file_in_errors(by_file[file], path))
            folders.append(by_file[file])
        yield OpenedArchives(
            tuple(folders),
            {folder: path for folder, path in zip(folders, paths, strict=True) if folder != path},
        )


def folder_name(file: Path) -> str:
    """Returns the name of the folder into which a packed file is unpacked by default: the file's
    name without its suffix.
    """
    name = file.name.removesuffix(SUFFIX)
    return name if name.strip(".") else file.name.replace(".", "_")


@contextlib.contextmanager
def _unpack_temporarily(file: Path) -> Iterator[Path]:
    """Unpacks a packed campaign, without its raw files, into a temporary folder, and yields that
    folder.
    """
    try:
        str(file).encode()
    except UnicodeEncodeError as error:
        raise ArchiveError(
            f"{os.fsencode(file)!r}: is not valid UTF-8: give the file another name"
        ) from error
    with temporary_folder() as parent:
        folder = parent / folder_name(file)
        with _open_zip(file) as packed:
            members = [info for info in _checked_members(packed, file) if not is_raw(info.filename)]
            with _name_file_in_errors(folder, file):
                _extract_campaign(packed, members, folder, _no_progress)
        yield folder


@contextlib.contextmanager
def _name_file_in_errors(folder: Path, file: Path) -> Iterator[None]:
    """Replaces the name of the folder by that of the packed file in an ArchiveError that leaves the
    context, because the user does not know the folder.
    """
    try:
        yield
    except ArchiveError as error:
        raise ArchiveError(str(error).replace(str(folder), str(file))) from error


def _relative_name(outdir: Path, path: Path) -> str:
    """Returns the name of a path in a packed file: relative to the campaign's folder,
    with slashes.
    """
    return str(PurePosixPath(path.relative_to(outdir)))


def _check_not_behind_links(outdir: Path, finished: Iterable[Path], members: Iterable[str]) -> None:
    """Raises ArchiveError if a finished run is missing in the names `members`. It is behind a link
    then, because list_files() does not follow links.
    """
    present = set(members)
    for folder in finished:
        if _relative_name(outdir, folder / run_files.SUMMARY) not in present:
            raise ArchiveError(
                f"{folder}: is behind a link, which a packed file can't hold: move it into {outdir}"
            )


def _write_zip(outdir: Path, members: Sequence[str], out: IO[bytes], progress: Progress) -> None:
    """Writes the files and empty folders with these names as a ZIP file. Calls `progress` with the
    bytes done so far, and all bytes.
    """
    total = sum((outdir / name).stat().st_size for name in members if not name.endswith("/"))
    done = 0
    with zipfile.ZipFile(out, "w") as packed:
        for name in members:
            info = zipfile.ZipInfo(name, TIMESTAMP)
            info.create_system = UNIX
            if name.endswith("/"):
                info.external_attr = FOLDER_MODE << 16 | DOS_FOLDER
                packed.writestr(info, b"")
                continue
            info.external_attr = FILE_MODE << 16
            if not name.endswith(COMPRESSED):
                info.compress_type = zipfile.ZIP_DEFLATED
            with os.fdopen(open_file(outdir, outdir / name), "rb") as source:
                info.file_size = os.fstat(source.fileno()).st_size  # decides on ZIP64
                with packed.open(info, "w") as member:
                    for chunk in iter(lambda: source.read(CHUNK_BYTES), b""):
                        member.write(chunk)
                        done += len(chunk)
                        progress(done, total)


@contextlib.contextmanager
def _create_when_done(file: Path) -> Iterator[IO[bytes]]:
    """Yields a new file, which gets the name `file` if the context ends without an error.

    Raises ArchiveError if the name is taken by a file with other content or by something that is
    not a regular file, and OSError.
    """
    if (file.is_symlink() or file.exists()) and not file.is_file():
        raise ArchiveError(f"{file}: is not a regular file: give another name with -o")
    with folder_next_to(file, "pack") as folder:
        part = folder / file.name
        with naming(part), part.open("xb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if not file.exists():
            part.rename(file)
        elif not filecmp.cmp(part, file, shallow=False):
            raise ArchiveError(
                f"{file}: already exists with other content: remove it, or give another with -o"
            )


@contextlib.contextmanager
def _open_zip(file: Path) -> Iterator[zipfile.ZipFile]:
    """Opens a packed file, which is a ZIP file. Raises ArchiveError if it is not."""
    try:
        if file.exists() and not file.is_file():  # a FIFO would block forever
            raise ArchiveError(
                f"{file}: is not a regular file: name a file that 'ccmix archive pack' wrote"
            )
        packed = zipfile.ZipFile(file)
    except FileNotFoundError as error:
        raise ArchiveError(
            f"{file}: is not there: name a file that 'ccmix archive pack' wrote"
        ) from error
    except DAMAGED as error:
        raise ArchiveError(
            f"{file}: is not a packed archive, or is damaged ({error}): name a file that 'ccmix "
            "archive pack' wrote, or a folder that 'ccmix run' wrote"
        ) from error
    except OSError as error:
        raise ArchiveError(f"{file}: can't be read: {error.strerror}") from error
    with packed:
        yield packed


def _checked_members(packed: zipfile.ZipFile, file: Path) -> list[zipfile.ZipInfo]:
    """Returns all members of a packed file. Raises ArchiveError unless they are safe to unpack, and
    include a campaign.json.
    """
    members = packed.infolist()
    check_members(members, file.stat().st_size, file)
    if all(info.filename != FILE for info in members):
        raise ArchiveError(f"{file}: has no {FILE}: name a file that 'ccmix archive pack' wrote")
    return members


def _extract_campaign(
    packed: zipfile.ZipFile,
    members: Sequence[zipfile.ZipInfo],
    folder: Path,
    progress: Progress,
    leave_out: Callable[[str], object] = lambda _: None,
) -> None:
    """Extracts the members that belong to the campaign. The others are only checked for damage, and
    their names are passed to `leave_out`.
    """
    _extract(packed, [info for info in members if info.filename == FILE], folder, _no_progress)
    runs = {
        _relative_name(folder, RunFolder.of(folder, run).path) for run in Campaign.load(folder).runs
    }
    others = [info for info in members if info.filename != FILE]
    left_out = dict.fromkeys(
        info.filename for info in others if not belongs_to_campaign(info.filename, runs)
    )
    _extract(packed, others, folder, progress, left_out)
    for name in left_out:
        leave_out(name)


def _extract(
    packed: zipfile.ZipFile,
    members: Sequence[zipfile.ZipInfo],
    folder: Path,
    progress: Progress,
    not_written: Collection[str] = (),
) -> None:
    """Extracts the members to a folder. Those named in `not_written` are only read, to find damage.
    Raises ArchiveError if a member is damaged, and OSError.
    """
    total = sum(info.file_size for info in members)
    done = 0
    folder.mkdir(exist_ok=True)
    for info in members:
        target = folder / info.filename
        if info.filename in not_written:
            for chunk in _read_member(packed, info, target):
                done += len(chunk)
            continue
        if info.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with naming(target), target.open("xb") as out:
            for chunk in _read_member(packed, info, target):
                out.write(chunk)
                done += len(chunk)
                progress(done, total)


def _read_member(packed: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> Iterator[bytes]:
    """Yields the content of a member in parts, never more than the size that the packed file states
    for it. `target` is its name for messages. Raises ArchiveError if it is damaged.
    """
    missing_bytes = info.file_size
    try:
        with packed.open(info) as member:
            while chunk := member.read(CHUNK_BYTES):
                missing_bytes -= len(chunk)
                yield chunk
    except (*DAMAGED, OSError) as error:
        raise ArchiveError(f"{target}: is damaged: {error}: get the packed file again") from error
    if missing_bytes:
        raise ArchiveError(
            f"{target}: is damaged: {missing_bytes} bytes are missing: get the packed file again"
        )
