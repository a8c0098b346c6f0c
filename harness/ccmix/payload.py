"""Unpacks what a wheel of ccmix brings along: programs, the lab's kernel and the guest's userland.

packaging/dist puts archives into the package, and a manifest with their SHA-256. An archive is unpacked into the cache
at its first use, by one process at a time. A clone has no manifest.
"""

import contextlib
import errno
import fcntl
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

FOLDER = Path(__file__).parent / "programs"
MANIFEST = "manifest.json"
COMPLETE = "complete"
"""Is the name of the file that is written last; the folder's lock is beside the folder."""


class PayloadError(Exception):
    """Says why what the package brings along can't be used, and what to do."""


@dataclass(frozen=True)
class PackedFile:
    """Describes a file as it must be when it is unpacked."""

    mode: int
    bytes: int
    sha256: str


@dataclass(frozen=True, eq=False)
class PackedPart:
    """Describes an archive and what is in it. Paths are relative to the folder where it is unpacked."""

    archive: str
    sha256: str
    programs: Mapping[str, str]  # path by name
    files: Mapping[str, PackedFile]
    links: Mapping[str, str]

    def folder(self, cache: Path) -> Path:
        """Returns where the part is unpacked, whether it is there or not."""
        return cache / "package" / f"{self.archive.partition('.')[0]}-{self.sha256[:16]}"

    @property
    def unpacked_bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


@functools.cache
def parts() -> tuple[PackedPart, ...]:
    """Returns what the manifest lists, and nothing in a clone. Raises PayloadError if it can't be read."""
    try:
        listed = json.loads((FOLDER / MANIFEST).read_text(encoding="utf-8"))
        return tuple(_part(**part) for part in listed)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError) as error:
        raise PayloadError(f"{FOLDER / MANIFEST} can't be read ({error}): install ccmix again") from error


def manifest_sha256() -> str | None:
    """Returns what names the installed package with all that it brings along; None where it brings nothing."""
    try:
        return _sha256(FOLDER / MANIFEST)
    except FileNotFoundError:
        return None


def _part(files: Mapping[str, tuple[int, int, str]], **fields: object) -> PackedPart:
    return PackedPart(files={path: PackedFile(*file) for path, file in files.items()}, **fields)  # type: ignore[arg-type]


def find(name: str, cache: Path) -> Path | None:
    """Returns a program that the package brings along, unpacked below `cache`; None if it brings none of this name.

    Raises PayloadError if it can't be unpacked.
    """
    for part in parts():
        if name in part.programs:
            return unpacked(part, cache) / part.programs[name]
    return None


@functools.cache
def unpacked(part: PackedPart, cache: Path) -> Path:
    """Returns the folder in which the part is, and unpacks it if it is not there or is damaged. Raises PayloadError.

    Until this process ends, others leave the folder alone. Only sizes and modes are compared here: `mended` reads the
    content.
    """
    folder = part.folder(cache)
    if _complete(part, folder) and _hold(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _refuse_noexec(folder.parent)
        with _locked(folder):
            if not (_complete(part, folder) and _hold(folder)):
                _replace(part, folder)
    except OSError as error:
        raise PayloadError(_sentence(error, part, folder.parent)) from error
    return folder


def mended(part: PackedPart, cache: Path) -> list[Path]:
    """Reads all files of a part, and returns those that were not as in the package, which was then unpacked again.

    Raises PayloadError if it can't be unpacked.
    """
    folder = unpacked(part, cache)
    found = _damaged(part, folder)
    if found:
        try:
            with _locked(folder):
                if _damaged(part, folder):  # still: another process may have mended it
                    _replace(part, folder)
        except OSError as error:
            raise PayloadError(_sentence(error, part, folder)) from error
    return found


def _damaged(part: PackedPart, folder: Path) -> list[Path]:
    return [folder / path for path, file in part.files.items() if _sha256(folder / path) != file.sha256]


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
def _locked(folder: Path) -> Iterator[None]:
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


held: dict[Path, int] = {}
"""Has the descriptor of each folder's mark, by whose lock this process keeps others from replacing the folder."""


def _hold(folder: Path) -> bool:
    """Locks the mark of the folder against those who would replace it. Returns whether the folder is still there."""
    try:
        mark = os.open(folder / COMPLETE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(mark, fcntl.LOCK_SH)
    try:
        here = os.path.samestat(os.fstat(mark), (folder / COMPLETE).stat())
    except FileNotFoundError:
        here = False
    if here:
        let_go(folder)
        held[folder] = mark
    else:
        os.close(mark)
    return here


def let_go(folder: Path) -> None:
    """Ends this process's use of the folder."""
    if folder in held:
        os.close(held.pop(folder))


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keeps others from beginning to use the folder. Raises PayloadError if a process uses it."""
    let_go(folder)
    try:
        mark = (folder / COMPLETE).open("r+b")
    except FileNotFoundError:
        yield
        return
    with mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PayloadError(
                f"{folder} is damaged, and another process uses it: end that, or set CCMIX_CACHE to another folder"
            ) from error
        yield


def _replace(part: PackedPart, folder: Path) -> None:
    """Unpacks the part in place of what is there, and holds it; the caller has the lock."""
    with _alone(folder):
        _unpack(part, folder)
    _hold(folder)


def _unpack(part: PackedPart, folder: Path) -> None:
    """Puts the whole folder in its place at once; the caller has the lock, and nobody uses the folder."""
    archive = FOLDER / part.archive
    if _sha256(archive) != part.sha256:
        raise PayloadError(f"{archive} is damaged: install ccmix again")
    for left in folder.parent.glob(f"{folder.name}.new-*"):  # by a process that was killed: we have the lock
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
    """Makes the folders, files and links of an archive whose content is known: no path in it leads out of `folder`."""
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
            f"{folder} is mounted noexec, so no program in it can run: set CCMIX_CACHE to another folder"
        )


def _sentence(error: OSError, part: PackedPart, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        mib = -(-part.unpacked_bytes >> 20)
        return (
            f"{folder}: no room for ccmix's programs ({mib} MiB): make room there, or set CCMIX_CACHE to another folder"
        )
    reason = error.strerror or str(error)
    where = error.filename or folder
    return (
        f"{where}: ccmix's programs can't be unpacked there: {reason}: set CCMIX_CACHE to a folder that can be written"
    )
