"""The files below the paths that a user names, and what is found in them."""

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from polars.exceptions import PolarsError

from ccmix.importing.found import Found, LeftOut, SourceError, Told
from ccmix.importing.harness_folders import is_job
from ccmix.importing.kinds import HARNESS, KINDS, recognise
from ccmix.importing.text import writable

# what reading a file that its tool did not write, or not to the end, may raise
NOT_UNDERSTOOD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, PolarsError)


@dataclass(frozen=True)
class Source:
    """A file, its name as it was given or below the folder that was, its kind, and the entry that its runs are of."""

    file: Path
    name: str
    kind: str
    entry: str

    @property
    def digest(self) -> str:
        """SHA-256 of the content. Raises OSError."""
        if self.file.is_dir():
            files = sorted(file for file in self.file.iterdir() if file.is_file() and not file.is_symlink())
            names = [f"{file.name} {_digest(file)}\n" for file in files]
            return hashlib.sha256("".join(names).encode(errors="surrogateescape")).hexdigest()
        return _digest(self.file)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@dataclass(frozen=True)
class Listing:
    """All that is to be imported, and the names of files that are of no kind, each with the reason."""

    sources: tuple[Source, ...]
    left_out: tuple[str, ...]


def listing(paths: Sequence[Path], kind: str | None) -> Listing:
    """All files that are named or lie below a folder that is; `kind` is what the user says of those that are named.

    Links and what is no regular file are left out of folders. Raises SourceError where a file that is named is of no
    kind, or there is none.
    """
    if kind is not None and kind not in KINDS:
        raise SourceError(f"--as {kind}: there is no such kind: use one of {', '.join(KINDS)}")
    places = {path.resolve() for path in paths}
    if len(places) < len(paths) or any(folder in places for place in places for folder in place.parents):
        raise SourceError("a file or folder is named twice, or within another: its runs would count twice")
    sources, left_out = [], []
    for path in paths:
        if not path.exists():
            raise SourceError(f"{path}: there is no such file or folder")
        if path.is_dir():
            found, others = _folder(path, kind)
            sources += found
            left_out += others
        else:
            sources.append(_named(path, kind))
    if not sources:
        kinds = ", ".join(KINDS)
        raise SourceError(f"{', '.join(map(str, paths))}: has nothing that can be imported: kinds are {kinds}")
    return Listing(tuple(sources), tuple(left_out))


def _named(path: Path, kind: str | None) -> Source:
    if not stat.S_ISREG(path.stat().st_mode):
        raise SourceError(f"{path}: is no regular file")
    if kind == HARNESS:
        raise SourceError(f"{path}: is a file: name the folder of the job, or one above it")
    found = kind or recognise(path)
    if found is None:
        raise SourceError(f"{path}: is of no known kind: say it with --as, one of {', '.join(KINDS)}; unpack it first "
                          "if it is compressed")  # fmt: skip
    entry = path.stem if found == "table" else path.resolve().parent.name
    return Source(path, writable(path.name), found, entry)


def _folder(path: Path, kind: str | None) -> tuple[list[Source], list[str]]:
    sources, left_out = [], []
    top = path.resolve()
    for folder, folders, files in os.walk(top):
        folders.sort()
        if kind in (None, HARNESS) and is_job(files):
            place = Path(folder)
            name = writable(str(Path(top.name, place.relative_to(top))))
            sources.append(Source(place, name, HARNESS, place.name))
            continue
        for file in (Path(folder, name) for name in sorted(files)):
            name = writable(f"{top.name}/{file.relative_to(top)}")
            if file.is_symlink() or not file.is_file():
                left_out.append(f"{name}: is no regular file")
            elif (found := kind or recognise(file)) is None:
                left_out.append(f"{name}: is of no known kind")
            else:
                sources.append(Source(file, name, found, file.stem if found == "table" else Path(folder).name))
    return sources, left_out


@dataclass(frozen=True)
class Reading:
    """All runs that were found, each with its source, and what no run can be made of."""

    found: tuple[tuple[Source, Found], ...]
    left_out: tuple[LeftOut, ...]


def read(sources: Sequence[Source], told: Told, looked_at: Callable[[Source], None]) -> Reading:
    """All runs of all sources; `looked_at` is called after each. Raises SourceError, and OSError."""
    found: list[tuple[Source, Found]] = []
    left_out: list[LeftOut] = []
    for source in sources:
        try:
            for one in KINDS[source.kind].read(source.file, source.name, told):
                if isinstance(one, Found):
                    found.append((source, one))
                else:
                    left_out.append(one)
        except NOT_UNDERSTOOD as error:
            raise SourceError(
                f"{source.name}: can't be understood as {KINDS[source.kind].meaning}: {error!r:.200}: leave it out, "
                "or say with --as what it is"
            ) from error
        looked_at(source)
    if not found:
        reasons = "; ".join(f"{one.source}: {one.why}" for one in left_out[:3])
        raise SourceError(reasons or f"{sources[0].name}: has no result of a test")
    return Reading(tuple(found), tuple(left_out))
