"""Unpacks the programs in a wheel of ccmix, including the lab's kernel and the guest's userland.

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
from ccmix.files import hold, let_go, locked, try_lock

FOLDER = Path(__file__).parent / "programs"
MANIFEST = "manifest.json"
COMPLETE = "complete"
"""The name of the file that is written last. The folder's lock is next to the folder."""


class PayloadError(WrongInput):
    """Says why a part of the package can't be used, and what to do."""


@dataclass(frozen=True)
class PackedFile:
    """Describes a file as it must be when it is unpacked."""

    mode: int
    bytes: int
    sha256: str


@dataclass(frozen=True, eq=False)
class PackedPart:
    """Describes an archive and its contents. Paths are relative to the folder into which it is
    unpacked.
    """

    archive: str
    sha256: str
    programs: Mapping[str, str]  # path by name
    files: Mapping[str, PackedFile]
    links: Mapping[str, str]

    def folder(self, cache: Path) -> Path:
        """Returns the folder into which the part is unpacked, whether it exists or not."""
        return cache / "package" / f"{self.archive.partition('.')[0]}-{self.sha256[:16]}"

    @property
    def unpacked_bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


@functools.cache
def parts() -> tuple[PackedPart, ...]:
    """Returns the parts in the manifest; () in a clone. Raises PayloadError if the manifest can't
    be read.
    """
    try:
        listed = json.loads((FOLDER / MANIFEST).read_text(encoding="utf-8"))
        return tuple(_part(**part) for part in listed)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError) as error:
        raise PayloadError(
            f"{FOLDER / MANIFEST} can't be read ({error}): install ccmix again"
        ) from error


def manifest_sha256() -> str | None:
    """Returns the hash of the manifest, which identifies the installed package with all of its
    parts; None if it has no parts.
    """
    try:
        return _sha256(FOLDER / MANIFEST)
    except FileNotFoundError:
        return None


def _part(files: Mapping[str, tuple[int, int, str]], **fields: object) -> PackedPart:
    return PackedPart(files={path: PackedFile(*file) for path, file in files.items()}, **fields)  # type: ignore[arg-type]


def find(name: str, cache: Path) -> Path | None:
    """Returns a program of the package, unpacked below `cache`; None if the package has no program
    of this name.

    Raises PayloadError if it can't be unpacked.
    """
    for part in parts():
        if name in part.programs:
            return unpacked(part, cache) / part.programs[name]
    return None


@functools.cache
def unpacked(part: PackedPart, cache: Path) -> Path:
    """Returns the folder of the part. Unpacks the part first if it is missing or damaged. Raises
    PayloadError.

    Until this process ends, other processes don't change the folder. Only sizes and modes are
    compared here; `repaired` reads the content.
    """
    folder = part.folder(cache)
    if _complete(part, folder) and hold(folder / COMPLETE):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _refuse_noexec(folder.parent)
        with locked(folder.with_suffix(".lock")):
            if not (_complete(part, folder) and hold(folder / COMPLETE)):
                _replace(part, folder)
    except OSError as error:
        raise PayloadError(_sentence(error, part, folder.parent)) from error
    return folder


def repaired(part: PackedPart, cache: Path) -> list[Path]:
    """Reads all files of a part, and returns those that differ from the package. If there are any,
    unpacks the part again.

    Raises PayloadError if it can't be unpacked.
    """
    folder = unpacked(part, cache)
    found = _damaged(part, folder)
    if found:
        try:
            with locked(folder.with_suffix(".lock")):
                if _damaged(part, folder):  # still: another process may have repaired it
                    _replace(part, folder)
        except OSError as error:
            raise PayloadError(_sentence(error, part, folder)) from error
    return found


def _damaged(part: PackedPart, folder: Path) -> list[Path]:
    return [
        folder / path for path, file in part.files.items() if _sha256(folder / path) != file.sha256
    ]


def _complete(part: PackedPart, folder: Path) -> bool:
    return (
        (folder / COMPLETE).exists()
        and all(_same_size(folder / path, file) for path, file in part.files.items())
        and all(_links_to(folder / path, target) for path, target in part.links.items())
    )


def _same_size(path: Path, file: PackedFile) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return (found.st_mode, found.st_size) == (stat.S_IFREG | file.mode, file.bytes)


def _links_to(path: Path, target: str) -> bool:
    try:
        return os.readlink(path) == target  # noqa: PTH115 - Path would drop a slash at the end
    except OSError:
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keeps other processes from starting to use the folder. Raises PayloadError if one uses it."""
    let_go(folder / COMPLETE)
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


def _replace(part: PackedPart, folder: Path) -> None:
    """Replaces the folder by the unpacked part, and holds it; the caller has the lock."""
    with _alone(folder):
        _unpack(part, folder)
    hold(folder / COMPLETE)


def _unpack(part: PackedPart, folder: Path) -> None:
    """Puts the complete folder in place at once; the caller has the lock, and nobody uses the
    folder.
    """
    archive = FOLDER / part.archive
    if _sha256(archive) != part.sha256:
        raise PayloadError(f"{archive} is damaged: install ccmix again")
    for left in folder.parent.glob(
        f"{folder.name}.new-*"
    ):  # of a killed process, since this process has the lock
        shutil.rmtree(left)
    new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.new-", dir=folder.parent))
    try:
        _extract(archive, new)
        (new / COMPLETE).write_text(f"{part.sha256}\n", encoding="ascii")
        new.chmod(0o755)
        if folder.exists():
            folder.rename(new.with_name(f"{new.name}-old"))
        new.rename(folder)
    finally:
        for left in folder.parent.glob(f"{folder.name}.new-*"):
            shutil.rmtree(left, ignore_errors=True)


def _extract(archive: Path, folder: Path) -> None:
    """Makes the folders, files and links of an archive. Its content is known, so no path in it
    leads out of `folder`.
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
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise PayloadError(
            f"{folder} is mounted noexec, so no program in it can run: set CCMIX_CACHE to "
            "another folder"
        )


def _sentence(error: OSError, part: PackedPart, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        mib = -(-part.unpacked_bytes >> 20)
        return (
            f"{folder}: no room for ccmix's programs ({mib} MiB): make room there, or set "
            "CCMIX_CACHE to another folder"
        )
    reason = error.strerror or str(error)
    where = error.filename or folder
    return (
        f"{where}: ccmix's programs can't be unpacked there: {reason}: set CCMIX_CACHE to a "
        "folder that can be written"
    )
