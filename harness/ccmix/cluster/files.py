"""Keeps kernels, programs and userlands by the hashes of their content, so that each goes to a machine once.

Workers may share the folder, on a machine or by NFS, and guests of one may run from what another is sent.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import io
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from ccmix.archive.replacing import replacing
from ccmix.lab.errors import GuestError
from ccmix.lab.userlands import BUILD, identify_userland, tree_sha256
from ccmix.tools import (
    ToolError,
    cache_folder,
    find_capflow,
    find_confine,
    find_iperf3,
    find_kernel,
    find_rtt,
    find_sockmon,
    find_userland,
)
from ccmix.tools import named_kernels as find_named_kernels

FOLDER = "by-hash"
LOCKS = "locks"  # in that folder
ROOT = "root"  # of a userland, beside BUILD
_OWN = (find_kernel, find_iperf3, find_sockmon, find_rtt, find_capflow, find_confine)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)  # of a file system without them


def hash_of(file: Path) -> str:
    """Returns the SHA-256 of a file, which is read once until it changes. Raises OSError."""
    return _hash_of_file(file, _state(file))


def found(wanted: Iterable[str]) -> dict[str, Path]:
    """Returns those of the files with these hashes that this machine has: built here, or sent before."""
    own = {hash_of(file): file for file in _installed()}
    return {sha256: own.get(sha256) or _place(sha256) for sha256 in wanted if sha256 in own or _is_kept(sha256)}


def keep(sha256: str, content: bytes) -> None:
    """Keeps a file that was sent. Raises ValueError if it has another hash, and OSError."""
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"a file came with another hash than {sha256}")
    with _locked(sha256):
        if _is_kept(sha256):
            return
        with replacing(_place(sha256)) as out:
            out.write(content)
            os.fchmod(out.fileno(), 0o755)


def found_userland(sha256: str) -> Path | None:
    """Returns the root of the userland with this hash, built here or sent before; None if there is none."""
    with contextlib.suppress(ToolError, GuestError):
        if identify_userland(find_userland()).userland_sha256 == sha256:
            return find_userland()
    root = _place(sha256) / ROOT
    return root if _is_tree(root, sha256) else None


@functools.cache
def packed_userland(root: Path) -> bytes:
    """Returns a userland and what was noted of it, packed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as packed:
        packed.add(root.parent / BUILD, BUILD)
        packed.add(root, ROOT, filter=_without_owner)
    return out.getvalue()


def keep_userland(sha256: str, packed: bytes) -> None:
    """Keeps a userland that was sent, unless it is there. Raises ValueError if it has another hash, and OSError."""
    place = _place(sha256)
    with _locked(sha256), tempfile.TemporaryDirectory(prefix=f"{sha256}.", dir=place.parent) as work:
        if _is_tree(place / ROOT, sha256):
            return  # another worker was sent it meanwhile, and its guests may run from it
        made = Path(work, "made")
        made.mkdir()
        try:
            with tarfile.open(fileobj=io.BytesIO(packed)) as members:
                members.extraction_filter = lambda member, _: member  # its hash is checked, links and modes with it
                members.extractall(made)
        except (tarfile.TarError, zlib.error, EOFError) as error:
            raise ValueError(f"a userland came damaged: {error}") from error
        if tree_sha256(made / ROOT) != sha256 or identify_userland(made / ROOT).userland_sha256 != sha256:
            raise ValueError(f"a userland came with another hash than {sha256}")
        if place.exists():
            place.rename(Path(work, "changed"))
        try:
            made.rename(place)
        except OSError:
            if not _is_tree(place / ROOT, sha256):  # where locks don't work, another may have been as fast
                raise


@contextlib.contextmanager
def _locked(sha256: str) -> Iterator[None]:
    """Lets one process at a time keep what has this hash. Raises OSError."""
    locks = cache_folder() / FOLDER / LOCKS
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / sha256).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Makes root the owner of a packed file; unpacked by somebody else, it is theirs."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _is_kept(sha256: str) -> bool:
    place = _place(sha256)
    return place.is_file() and hash_of(place) == sha256


def _is_tree(root: Path, sha256: str) -> bool:
    return root.is_dir() and _hash_of_tree(root, _state(root)) == sha256


def _state(path: Path) -> tuple[int, ...]:
    """Returns what changes with a file's content, or with another folder at its place. Raises OSError."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@functools.cache
def _hash_of_file(file: Path, _: tuple[int, ...]) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@functools.cache
def _hash_of_tree(root: Path, _: tuple[int, ...]) -> str:
    return tree_sha256(root)


def _installed() -> Iterable[Path]:
    for find in _OWN:
        try:
            yield find()
        except ToolError:
            continue
    yield from find_named_kernels().values()


def _place(sha256: str) -> Path:
    return cache_folder() / FOLDER / sha256
