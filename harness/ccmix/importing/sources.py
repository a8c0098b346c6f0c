"""Lists the files below the paths that a user names, and reads their runs."""

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polars.exceptions import PolarsError

from ccmix.importing.foreign_run import ForeignRun, LeftOut, SourceError
from ccmix.importing.foreign_text import TOO_LARGE, too_large, writable
from ccmix.importing.harness_folders import is_job
from ccmix.importing.kinds import HARNESS, JSON, KINDS, SS, recognise
from ccmix.importing.name_patterns import name_pattern
from ccmix.model.results import ImportOverrides

MOST_DIGITS = 15
# exceptions of reading a file that its tool did not write, or not to the end
NOT_UNDERSTOOD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, PolarsError)


@dataclass(frozen=True)
class ForeignFile:
    """Names a file, as it was given or below the folder that was, its kind, and the entry of its runs."""

    file: Path
    name: str
    kind: str
    entry: str

    @property
    def digest(self) -> str:
        """Returns the SHA-256 of the content. Raises OSError."""
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
    """Lists all that is to be imported, and the names of files of no known kind, each with the reason."""

    sources: tuple[ForeignFile, ...]
    left_out: tuple[str, ...]


def listing(paths: Sequence[Path], kind: str | None) -> Listing:
    """Lists all files that are named or lie below a named folder; `kind` is the kind that the user gives with --as.

    Leaves links and other irregular files out of folders. Raises SourceError if a named file is of no known kind, or
    there is no file.
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
            files, others = _folder(path, kind)
            sources += files
            left_out += others
        else:
            sources.append(_named(path, kind))
    if not sources:
        kinds = ", ".join(KINDS)
        raise SourceError(f"{', '.join(map(str, paths))}: has nothing that can be imported: kinds are {kinds}")
    return Listing(tuple(sources), tuple(left_out))


def _named(path: Path, kind: str | None) -> ForeignFile:
    if not stat.S_ISREG(path.stat().st_mode):
        raise SourceError(f"{path}: is no regular file")
    if kind == HARNESS:
        raise SourceError(f"{path}: is a file: name the folder of the job, or one above it")
    known_kind = kind or recognise(path)
    if known_kind is None:
        raise SourceError(f"{path}: is of no known kind: say it with --as, one of {', '.join(KINDS)}; unpack it first "
                          "if it is compressed")  # fmt: skip
    if known_kind != SS and too_large(path):
        raise SourceError(f"{path}: {TOO_LARGE}")
    entry = path.stem if known_kind == "table" else path.resolve().parent.name
    return ForeignFile(path, writable(path.name), known_kind, entry)


def _folder(path: Path, kind: str | None) -> tuple[list[ForeignFile], list[str]]:
    sources, left_out = [], []
    top = path.resolve()
    for folder, folders, files in os.walk(top):
        folders.sort()
        if kind in (None, HARNESS) and is_job(files):
            place = Path(folder)
            name = writable(str(Path(top.name, place.relative_to(top))))
            sources.append(ForeignFile(place, name, HARNESS, place.name))
            continue
        for file in (Path(folder, name) for name in sorted(files)):
            name = writable(f"{top.name}/{file.relative_to(top)}")
            if file.is_symlink() or not file.is_file():
                left_out.append(f"{name}: is no regular file")
            elif (known_kind := kind or recognise(file)) is None:
                left_out.append(f"{name}: is of no known kind")
            elif known_kind != SS and too_large(file):
                left_out.append(f"{name}: {TOO_LARGE}")
            else:
                sources.append(
                    ForeignFile(file, name, known_kind, file.stem if known_kind == "table" else Path(folder).name)
                )
    return sources, left_out


@dataclass(frozen=True)
class Reading:
    """Holds all runs, each with its source, and the results that can't become runs."""

    runs: tuple[tuple[ForeignFile, ForeignRun], ...]
    left_out: tuple[LeftOut, ...]


def read(sources: Sequence[ForeignFile], overrides: ImportOverrides, on_read: Callable[[ForeignFile], None]) -> Reading:
    """Reads all runs of all sources; calls `on_read` after each source. Raises SourceError, and OSError."""
    runs: list[tuple[ForeignFile, ForeignRun]] = []
    left_out: list[LeftOut] = []
    pattern = name_pattern(overrides.name_pattern) if overrides.name_pattern is not None else None
    originals = _originals(sources)
    for source in sources:
        if original := originals.get(source):
            left_out.append(LeftOut(source.name, f"is a copy of {original.name}"))
            on_read(source)
            continue
        of_name = pattern.fields_of(source.file) if pattern else {}
        if of_name is None:
            left_out.append(LeftOut(source.name, f"its name is not of the pattern {overrides.name_pattern}"))
            on_read(source)
            continue
        known = replace(overrides, cca=of_name.get("cca", overrides.cca))
        try:
            for result in KINDS[source.kind].read(source.file, source.name, known):
                if isinstance(result, ForeignRun):
                    runs.append((source, replace(result, of_name=of_name) if of_name else result))
                else:
                    left_out.append(result)
        except NOT_UNDERSTOOD as error:
            raise SourceError(
                f"{source.name}: can't be understood as {KINDS[source.kind].meaning}: {error!r:.200}: leave it out, "
                "or say with --as what it is"
            ) from error
        on_read(source)
    if not runs:
        reasons = "; ".join(f"{result.source}: {result.why}" for result in left_out[:3])
        raise SourceError(reasons or f"{sources[0].name}: has no result of a test")
    return Reading(tuple(sorted(runs, key=lambda run: _iteration(run[1]))), tuple(left_out))


def _originals(sources: Sequence[ForeignFile]) -> dict[ForeignFile, ForeignFile]:
    """Returns for each file or folder with the content of an earlier one that earlier one: its tests were made once.

    Of JSON each document is compared by itself, in pairs.without_copies(). Raises OSError.
    """
    alike: dict[tuple[str, int], list[ForeignFile]] = {}
    for source in sources:
        if source.kind != JSON:
            size = 0 if source.kind == HARNESS else source.file.stat().st_size
            alike.setdefault((source.kind, size), []).append(source)
    originals: dict[ForeignFile, ForeignFile] = {}
    for of_a_size in alike.values():
        first: dict[str, ForeignFile] = {}
        for source in of_a_size if len(of_a_size) > 1 else ():
            if (original := first.setdefault(source.digest, source)) is not source:
                originals[source] = original
    return originals


def _iteration(run: ForeignRun) -> int:
    """Returns the iteration that the name of a run's file says; 0 if it says none."""
    text = run.of_name.get("iteration", "")
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else 0
