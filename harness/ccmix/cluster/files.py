"""Keeps kernels, programs and userlands by the hashes of their content, so that each goes to a machine once."""

import contextlib
import functools
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Mapping
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
ROOT = "root"  # of a userland, beside BUILD
_OWN = (find_kernel, find_iperf3, find_sockmon, find_rtt, find_capflow, find_confine)


@functools.cache
def hash_of(file: Path) -> str:
    """Returns the SHA-256 of a file, which is read once."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def found(wanted: Iterable[str]) -> dict[str, Path]:
    """Returns those of the files with these hashes that this machine has: built here, or sent before."""
    own = _own()
    kept = {sha256: _place(sha256) for sha256 in wanted}
    return {
        sha256: own.get(sha256) or place
        for sha256, place in kept.items()
        if sha256 in own or (place.exists() and hash_of(place) == sha256)
    }


def keep(contents: Mapping[str, bytes]) -> None:
    """Keeps files that were sent. Raises ValueError if one has another hash, and OSError."""
    for sha256, content in contents.items():
        if hashlib.sha256(content).hexdigest() != sha256:
            raise ValueError(f"a file came with another hash than {sha256}")
        place = _place(sha256)
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as out:
            out.write(content)
            os.fchmod(out.fileno(), 0o755)
    hash_of.cache_clear()


def found_userland(sha256: str) -> Path | None:
    """Returns the root of the userland with this hash, built here or sent before; None if there is none."""
    with contextlib.suppress(ToolError, GuestError):
        if identify_userland(find_userland()).userland_sha256 == sha256:
            return find_userland()
    root = _place(sha256) / ROOT
    return root if root.is_dir() and _hash_of_tree(root) == sha256 else None


@functools.cache
def packed_userland(root: Path) -> bytes:
    """Returns a userland and what was noted of it, packed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as packed:
        packed.add(root.parent / BUILD, BUILD)
        packed.add(root, ROOT, filter=_without_owner)
    return out.getvalue()


def keep_userland(sha256: str, packed: bytes) -> None:
    """Keeps a userland that was sent. Raises ValueError if it has another hash, and OSError."""
    place = _place(sha256)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{sha256}.", dir=place.parent) as work:
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
        shutil.rmtree(place, ignore_errors=True)
        made.rename(place)
    _hash_of_tree.cache_clear()


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Lets all files be root's, or who unpacks them."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


@functools.cache
def _hash_of_tree(root: Path) -> str:
    return tree_sha256(root)


@functools.cache
def _own() -> dict[str, Path]:
    return {hash_of(file): file for file in _installed()}


def _installed() -> Iterable[Path]:
    for find in _OWN:
        try:
            yield find()
        except ToolError:
            continue
    yield from find_named_kernels().values()


def _place(sha256: str) -> Path:
    return cache_folder() / FOLDER / sha256
