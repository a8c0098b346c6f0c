"""Unpacks the programs in an installed wheel of ccmix, such as the lab's kernel, when first used.

packaging/dist puts archives into the package, and a manifest with their SHA-256. An archive is
unpacked into the cache when it is first used, by one process at a time. A clone has no manifest.
"""

import contextlib
import errno
import functools
import hashlib
import json
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ccmix.failures import WrongInput
from ccmix.files import hold, locked, release, try_lock

FOLDER = Path(__file__).parent / "programs"
MANIFEST = "manifest.json"
COMPLETE = "complete"
"""The name of the file that is written last into an unpacked folder. Processes that use the folder
lock this file.
"""


class PayloadError(WrongInput):
    """Says why programs of the installed package can't be used, and what to do."""


@dataclass(frozen=True)
class PackedFile:
    """Describes a file as it must be when it is unpacked; `mode` has its permissions."""

    mode: int
    bytes: int
    sha256: str


@dataclass(frozen=True, eq=False)
class PackedPart:
    """Describes an archive in the package, such as that of the lab's kernel, and what it contains.

    Paths are relative to the folder into which it is unpacked. `links` has the targets of symbolic
    links by path.
    """

    archive: str
    sha256: str
    programs: Mapping[str, str]  # path by name
    files: Mapping[str, PackedFile]
    links: Mapping[str, str]

    def folder(self, cache: Path) -> Path:
        """Returns the folder of the cache into which the part is unpacked; it may not exist yet."""
        return cache / "package" / f"{self.archive.partition('.')[0]}-{self.sha256[:16]}"

    @property
    def unpacked_bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


@functools.cache
def parts() -> tuple[PackedPart, ...]:
    """Returns the parts (archives of programs, such as the lab's kernel) that the package's
    manifest lists. In a clone, which has no manifest, there are none: ().

    Raises PayloadError if the manifest can't be read.
    """
    try:
        listed = json.loads((FOLDER / MANIFEST).read_text(encoding="utf-8"))
        return tuple(_part_from_manifest(**part) for part in listed)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError) as error:
        raise PayloadError(
            f"{FOLDER / MANIFEST} can't be read ({error}): install ccmix again"
        ) from error


def manifest_sha256() -> str | None:
    """Returns the hash of the manifest; None in a clone.

    It identifies the package with all of its programs, because the manifest has their hashes.
    """
    try:
        return _sha256(FOLDER / MANIFEST)
    except FileNotFoundError:
        return None


def _part_from_manifest(files: Mapping[str, tuple[int, int, str]], **fields: object) -> PackedPart:
    """Makes a part from its entry in the manifest; `files` has mode, size and hash by path."""
    return PackedPart(files={path: PackedFile(*file) for path, file in files.items()}, **fields)  # type: ignore[arg-type]


def find(name: str, cache: Path) -> Path | None:
    """Returns the path of a program of the package; unpacks it below `cache` if necessary.

    None if the package has no program of this name. Raises PayloadError if it can't be unpacked.
    """
    for part in parts():
        if name in part.programs:
            return unpacked(part, cache) / part.programs[name]
    return None


@functools.cache
def unpacked(part: PackedPart, cache: Path) -> Path:
    """Returns the folder of an unpacked part; unpacks the part if it is missing or damaged.

    Until this process ends, other processes can't change the folder. Only sizes and modes are
    compared here, because that is fast; repaired() reads the content. Raises PayloadError.
    """
    folder = part.folder(cache)
    if _is_complete(part, folder) and hold(folder / COMPLETE):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _refuse_noexec(folder.parent)
        with locked(folder.with_suffix(".lock")):
            if not (_is_complete(part, folder) and hold(folder / COMPLETE)):
                _unpack_again(part, folder)
    except OSError as error:
        raise PayloadError(_unpacking_error_text(error, part, folder.parent)) from error
    return folder


def repaired(part: PackedPart, cache: Path) -> list[Path]:
    """Compares all files of a part with the package, and returns those that differ.

    If there are any, unpacks the part again. Raises PayloadError if it can't be unpacked.
    """
    folder = unpacked(part, cache)
    damaged = _damaged_files(part, folder)
    if damaged:
        try:
            with locked(folder.with_suffix(".lock")):
                if _damaged_files(part, folder):  # still: another process may have repaired it
                    _unpack_again(part, folder)
        except OSError as error:
            raise PayloadError(_unpacking_error_text(error, part, folder)) from error
    return damaged


def _damaged_files(part: PackedPart, folder: Path) -> list[Path]:
    """Reads all unpacked files, and returns those whose hash differs from the package's."""
    return [
        folder / path for path, file in part.files.items() if _sha256(folder / path) != file.sha256
    ]


def _is_complete(part: PackedPart, folder: Path) -> bool:
    """Returns whether all files and links of the part are unpacked, by their sizes and modes."""
    return (
        (folder / COMPLETE).exists()
        and all(_has_size_and_mode(folder / path, file) for path, file in part.files.items())
        and all(_links_to(folder / path, target) for path, target in part.links.items())
    )


def _has_size_and_mode(path: Path, file: PackedFile) -> bool:
    """Returns whether the path is a regular file with the size and mode that the package has."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return (status.st_mode, status.st_size) == (stat.S_IFREG | file.mode, file.bytes)


def _links_to(path: Path, target: str) -> bool:
    """Returns whether the path is a symbolic link with exactly this target."""
    try:
        return os.readlink(path) == target  # noqa: PTH115 - Path would drop a slash at the end
    except OSError:
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextlib.contextmanager
def _without_other_users(folder: Path) -> Iterator[None]:
    """Makes sure in this context that no other process uses the folder, so that it can be replaced.

    Each process that uses it has locked its file COMPLETE. Raises PayloadError if this file is
    locked.
    """
    release(folder / COMPLETE)
    try:
        mark = (folder / COMPLETE).open("r+b")
    except FileNotFoundError:
        yield
        return
    with mark:
        if not try_lock(mark):
            raise PayloadError(
                f"{folder} is damaged, but another process uses it: end that process, or set "
                "CCMIX_CACHE to another folder"
            )
        yield


def _unpack_again(part: PackedPart, folder: Path) -> None:
    """Replaces the folder by a newly unpacked one, and keeps others from changing it.

    The caller has locked the folder's lock file.
    """
    with _without_other_users(folder):
        _unpack(part, folder)
    hold(folder / COMPLETE)


def _unpack(part: PackedPart, folder: Path) -> None:
    """Unpacks the part into a new folder, and renames it to `folder` when it is complete.

    The caller has the lock, and nobody uses the old folder. Raises PayloadError if the archive is
    damaged, and OSError.
    """
    archive = FOLDER / part.archive
    if _sha256(archive) != part.sha256:
        raise PayloadError(f"{archive} is damaged: install ccmix again")
    for leftover in folder.parent.glob(
        f"{folder.name}.new-*"
    ):  # of a killed process, since this process has the lock
        shutil.rmtree(leftover)
    new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.new-", dir=folder.parent))
    try:
        _extract(archive, new)
        (new / COMPLETE).write_text(f"{part.sha256}\n", encoding="ascii")
        new.chmod(0o755)
        if folder.exists():
            folder.rename(new.with_name(f"{new.name}-old"))
        new.rename(folder)
    finally:
        for leftover in folder.parent.glob(f"{folder.name}.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _extract(archive: Path, folder: Path) -> None:
    """Extracts folders, files and links of an archive, with their modes and times.

    The archive's hash is known, so no path in it leads out of `folder`.
    """
    with tarfile.open(archive) as members:
        for member in members:
            path = folder / member.name
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
                path.chmod(member.mode)
            elif member.issym():
                path.symlink_to(member.linkname)
            elif content := members.extractfile(member):
                with path.open("xb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
                path.chmod(member.mode)
                os.utime(path, (member.mtime, member.mtime))


def _refuse_noexec(folder: Path) -> None:
    """Raises PayloadError if the folder is mounted noexec, so that no program in it can run."""
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise PayloadError(
            f"{folder} is mounted noexec, so no program in it can run: set CCMIX_CACHE to "
            "another folder"
        )


def _unpacking_error_text(error: OSError, part: PackedPart, folder: Path) -> str:
    """Returns the message for an OSError while a part was unpacked, with what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        mib = -(-part.unpacked_bytes >> 20)
        return (
            f"{folder}: no room for ccmix's programs ({mib} MiB): make room there, or set "
            "CCMIX_CACHE to another folder"
        )
    reason = error.strerror or str(error)
    file = error.filename or folder
    return (
        f"{file}: ccmix's programs can't be unpacked there: {reason}: set CCMIX_CACHE to a "
        "folder that can be written"
    )
