"""Says what of the cache is in use: by links, names, locks, mounts and processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ccmix import payload
from ccmix.cli.cache_items import GUEST_CODE, LOCKS, CacheItem
from ccmix.tools import named_kernels

_PROC = Path("/proc")
_LINKS = ("exe", "cwd", "root")  # of a process, proc(5)


class Uses:
    """Knows why items are in use, by their paths relative to the cache."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._reasons: dict[Path, str] = {}
        for path, pid in _of_processes(cache):
            self._note(path, f"process {pid}")
        for path in _mounts():
            self._note(path, "mounted")
        for part in payload.parts():
            self._note(part.folder(cache), "this package")
        for name, kernel in named_kernels().items():
            self._note(kernel, f"kernel {name}")
        for name, target in (*_links(Path(sys.prefix) / "bin"), *_variables()):
            self._note(target, name)

    def reason(self, item: CacheItem) -> str:
        """Returns what uses the item, or ''."""
        if item.path in self._reasons:
            return self._reasons[item.path]
        with locked(self._cache, item, fcntl.LOCK_SH) as has_lock:
            return "" if has_lock else "locked"

    def _note(self, path: Path, reason: str) -> None:
        """Notes a use of what has the path within; links and names, which come last, are what people know."""
        if path.is_relative_to(self._cache):
            parts = path.relative_to(self._cache).parts
            self._reasons[Path(*parts[:2])] = reason
            if GUEST_CODE in parts[2:3]:
                self._reasons[Path(*parts[:4])] = reason


@contextlib.contextmanager
def locked(cache: Path, item: CacheItem, how: int = fcntl.LOCK_EX) -> Iterator[bool]:
    """Takes the locks by which builders and users of the item keep others off, as far as they exist; yields whether it
    has them.

    `how` is LOCK_SH for a look beside others that only look. A process that waits for a lock gets it afterwards.
    """
    place = cache / item.path.parts[0]
    locks = [
        place / "lock",
        *([place / f"{item.key}.lock"] if item.key else []),
        place / LOCKS / item.path.name,
        cache / item.path / payload.COMPLETE,
    ]
    with contextlib.ExitStack() as held:
        yield all(_take(lock, how, held) for lock in locks)


def _take(lock: Path, how: int, held: contextlib.ExitStack) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _links(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields each link of a folder: its name, and where it leads in the end."""
    with contextlib.suppress(OSError):
        for link in sorted(folder.iterdir()):
            if link.is_symlink():
                yield link.name, link.resolve()


def _variables() -> Iterator[tuple[str, Path]]:
    """Yields what the environment names instead of links, such as CCMIX_IPERF3."""
    for name, value in os.environ.items():
        if name.startswith("CCMIX_") and os.path.isabs(value):  # noqa: PTH117 - it may have any text
            yield name, Path(os.path.realpath(value))


def _mounts() -> Iterator[Path]:
    """Yields where file systems are mounted, as this process sees it."""
    with contextlib.suppress(OSError):
        for line in (_PROC / "self" / "mountinfo").read_text(errors="replace").splitlines():
            yield Path(line.split(" ")[4].replace("\\040", " "))


def _of_processes(cache: Path) -> Iterator[tuple[Path, int]]:
    """Yields what processes have open below the cache, run, map or work in; of other users' only root sees it."""
    begin = f"{cache}/"
    for process in _PROC.iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            for path in _open_paths(process):
                if path.startswith(begin):
                    yield Path(path.removesuffix(" (deleted)")), int(process.name)


def _open_paths(process: Path) -> Iterator[str]:
    links: list[Path] = [process / name for name in _LINKS]
    with contextlib.suppress(OSError):
        links += (process / "fd").iterdir()
    for link in links:
        with contextlib.suppress(OSError):
            yield os.readlink(link)  # noqa: PTH115 - of many files; it need not be a path
    with contextlib.suppress(OSError):
        yield from _mapped((process / "maps").read_text(errors="replace").splitlines())


def _mapped(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        _, slash, rest = line.partition("/")
        if slash:
            yield f"/{rest}"
