"""Says what the cache has: what each build script and each first use leaves there, by the names that they give it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KEY = "(?P<key>[0-9a-f]{16})"
UNKNOWN = "unknown"
LEFT_OVER = "left-over"
OBJECTS = "kernel's objects"  # which lie beside the kernel of the same key
USERLAND = "userland"
GUEST_CODE = "guest-code"  # lies beside a userland's root, and in the cache beside a userland elsewhere
REMOVED = ".removed-"  # in the name of what is being removed: nothing that is half removed has its whole name
BLOCK_BYTES = 512  # of st_blocks, stat(2)


@dataclass(frozen=True)
class CacheKind:
    """Describes what a folder of the cache has under names of a pattern.

    `extra`: no run needs it. Further builds or ccmix's own tests use it, or a cluster's client sends it again; a newer
    one does not replace it.
    """

    name: str
    pattern: str
    extra: bool = False


def _built(name: str) -> tuple[CacheKind, ...]:
    return CacheKind(name, f"{KEY}(--[a-z]+)?"), CacheKind(LEFT_OVER, r"build\..{6}")


def _unpacked(part: str) -> tuple[CacheKind, ...]:
    """Returns the kinds of a part of an installed package. The key has the part's name, as has that of its lock."""
    key = rf"(?P<key>{part}-[0-9a-f]{{16}})"
    return CacheKind(f"package's {part}", key), CacheKind(LEFT_OVER, rf"{key}\.new-.+")


KINDS = {  # by the folders of the cache
    "lab-kernel": (
        CacheKind("lab kernel", KEY),
        CacheKind(OBJECTS, rf"{KEY}\.tree"),
        CacheKind(LEFT_OVER, rf"{KEY}\.build-.{{6}}"),
    ),
    USERLAND: (CacheKind(USERLAND, KEY), CacheKind(LEFT_OVER, rf"{KEY}\.build-.{{6}}")),
    GUEST_CODE: (CacheKind("guest code", KEY), CacheKind(LEFT_OVER, rf"{KEY}\.[0-9a-z_]{{8}}")),
    "package": (*_unpacked("tools"), *_unpacked("lab")),
    "by-hash": (
        CacheKind("sent by a cluster's client", "[0-9a-f]{64}", extra=True),
        CacheKind(LEFT_OVER, r"[0-9a-f]{64}\.(partial|[0-9a-z_]{8})"),
    ),
    "slurm": (CacheKind("certificate of SLURM jobs", r"\.dask-jobqueue\.worker\..+", extra=True),),
    "toolchain": (CacheKind("compiler", KEY), CacheKind(LEFT_OVER, rf"{KEY}\.build-.{{6}}")),
    "iperf3": _built("iperf3"),
    "sockmon": _built("sockmon"),
    "capflow": _built("capflow"),
    "rtt": _built("rtt"),
    "confine": _built("confine"),
    "cca": (*_built("cca"), CacheKind("libbpf", f"libbpf-{KEY}")),
    "docker": (
        CacheKind("docker engine", "engine-.+", extra=True),
        CacheKind("docker layers", "data", extra=True),
        CacheKind("docker log", r"dockerd\.log", extra=True),
    ),
    "wheels": (CacheKind("Python packages", r"cp[0-9]+", extra=True),),
    "chroot": (CacheKind("chroot", r".+-python3(-.+)?\.tar(\.new)?", extra=True),),
    "elasticsearch": (CacheKind("elasticsearch", r"elasticsearch-[0-9.]+\.zip", extra=True),),
    "emulator": (CacheKind("emulator", rf"{KEY}(-[a-z]+)?", extra=True),),
    "older-kernel": (CacheKind("older kernel", rf"[a-z]+-{KEY}", extra=True),),
    "plugin": (CacheKind("plugin's package", r"pscheduler-tool-iperf3mix.+\.(deb|rpm)", extra=True),),
}
LOCKS = "locks"  # the folder of locks on what is beside it, by its name
KEPT = {("lab-kernel", "named"), (USERLAND, "keys"), ("by-hash", LOCKS)}  # folders of links and locks
_LOCK = re.compile(rf"lock|([a-z]+-)?{KEY}\.lock")
_REMOVED = re.compile(rf".+{re.escape(REMOVED)}[0-9]+")


@dataclass(frozen=True)
class CacheItem:
    """Describes something in the cache; `path` is relative to it. Times are in seconds since 1970."""

    path: Path
    kind: str
    key: str | None
    extra: bool
    size_bytes: int | None  # on the disk; None where not all of it can be read
    modified_s: float


def items(cache: Path) -> list[CacheItem]:
    """Returns what is in the cache, without locks and names. Nothing that a link names is looked at."""
    found = []
    for place in _entries(cache):
        if place.name in KINDS and place.is_dir(follow_symlinks=False):
            for entry in _entries(Path(place.path)):
                if not _is_kept(place.name, entry):
                    found += [*(_guest_code(cache, entry) if place.name == USERLAND else ()), _item(cache, entry)]
        else:
            found.append(_item(cache, place))
    return found


def _guest_code(cache: Path, userland: os.DirEntry[str]) -> list[CacheItem]:
    """Returns the guest code beside a userland."""
    folder = Path(userland.path) / GUEST_CODE
    if userland.is_symlink() or folder.is_symlink() or not folder.is_dir():
        return []
    return [_item(cache, entry) for entry in _entries(folder)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def _is_kept(place: str, entry: os.DirEntry[str]) -> bool:
    """Returns whether this is a lock, which others may wait for, or a folder of links or locks."""
    if entry.is_dir(follow_symlinks=False):
        return (place, entry.name) in KEPT
    return entry.is_file(follow_symlinks=False) and _LOCK.fullmatch(entry.name) is not None


def _item(cache: Path, entry: os.DirEntry[str]) -> CacheItem:
    path = Path(entry.path).relative_to(cache)
    kind, key = _recognised(path, entry)
    status = entry.stat(follow_symlinks=False)
    return CacheItem(path, kind.name, key, kind.extra, _size_bytes(entry), status.st_mtime)


def _recognised(path: Path, entry: os.DirEntry[str]) -> tuple[CacheKind, str | None]:
    """Returns the kind by the name, and the key within it; a link is no kind that is known."""
    if len(path.parts) > 1 and not entry.is_symlink():
        for kind in (*KINDS[path.parts[-2]], CacheKind(LEFT_OVER, _REMOVED.pattern)):
            if match := re.fullmatch(kind.pattern, path.name):
                return kind, match.groupdict().get("key")
    return CacheKind(UNKNOWN, ""), None


def _size_bytes(entry: os.DirEntry[str]) -> int | None:
    """Returns the room on the disk; None where a folder can't be read. A file with several names counts once."""
    blocks: dict[tuple[int, int], int] = {}
    try:
        for status in _walked(entry, GUEST_CODE):
            blocks[status.st_dev, status.st_ino] = status.st_blocks
    except OSError:
        return None
    return sum(blocks.values()) * BLOCK_BYTES


def _walked(entry: os.DirEntry[str], left_out: str = "") -> Iterator[os.stat_result]:
    """Yields the status of all that a folder has, but for one in it that is counted for itself."""
    status = entry.stat(follow_symlinks=False)
    yield status
    if stat.S_ISDIR(status.st_mode):
        with os.scandir(entry.path) as entries:
            for below in entries:
                if below.name != left_out:
                    yield from _walked(below)
