"""Finds the files to import, recognises each one's format by its content, and reads its runs."""

import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polars.exceptions import PolarsError

from ccmix.archive.campaign import FILE
from ccmix.importing import (
    harness_folders,
    iperf3_documents,
    iperf3_tests,
    pscheduler_results,
    ss_logs,
    tables,
)
from ccmix.importing.values import (
    JSON_LINE,
    MOST_BYTES,
    NEXT_JSON,
    RESULT_KEY,
    TOO_LARGE,
    ForeignRun,
    LeftOut,
    SourceError,
    encoding_of,
    numeric_order,
    opened,
    read_documents,
    read_text,
    writable,
)
from ccmix.model.results import ImportOverrides

JSON = "json"
HARNESS = "harness"  # a folder, not a file
SS = "ss"  # a log, which is read in parts
HEAD_BYTES = 65536  # from which a file's kind is recognised
MOST_DIGITS = 15
MOST_LINES_BEFORE = 40  # that other programs printed before the JSON of a test
LEAST_SHARE = 0.25  # of the lines of a log that are those of its program
CODE_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)  # in a page with examples
NOT_REGULAR = "is not a regular file"
NOT_KNOWN = "is of an unknown kind"
# exceptions of reading a file that is incomplete, or not from this tool
PARSING_ERRORS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    PolarsError,
)
IGNORED = "_"  # the name of a field that may occur several times, and is not kept
MOST_PATTERN_LETTERS = 500
# Numbers in file names count the files if they span at most this many numbers per file
MOST_CONSECUTIVE = 2
_FIELD = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T_ -]?\d\d[-:._]?\d\d(?:[-:._]?\d\d)?)?|\d{8}[T_-]?\d{4,6}|\d{9,}"
)
_NUMBER = re.compile(r"\d+")
LONGEST_PREFIX = 500  # letters of a line that are searched for what its program writes
IPERF3_LINE = re.compile(
    r"\[ {0,4}(?:\d{1,4}|ID|SUM)\]|^(?:[- ]{9,}|iperf|Linux |Control connection|Time: |Connecting "
    r"to|Accepted |Server |Reverse mode| *Cookie: | *TCP MSS|Starting Test|Test Complete|"
    r"Summary Results|CPU Utilization|(?:snd|rcv)_tcp_congestion)"
)
SS_LINE = re.compile(r"\d+ +\d+ +\S+:\S+ +\S+:\S+|\brto:\d|Recv-Q|^\W*[Tt\d]")


@dataclass(frozen=True)
class ForeignKind:
    """Describes a format of files that can be imported. `meaning` is its name for people.

    `recognised` tells by the beginning of a file's text whether the file has this format. `read`
    takes the file, its name for messages, and facts that the user gives; it yields the runs, and
    the results that can't become runs.
    """

    meaning: str
    recognised: Callable[[str], bool]
    read: Callable[[Path, str, ImportOverrides], Iterator[ForeignRun | LeftOut]]


def _is_table(head: str) -> bool:
    """Returns whether a text begins as a CSV table with a column for a rate, or as rows in JSON."""
    header = head.partition("\n")[0]
    return (
        tables.is_json_rows(head)
        or tables.find_columns(header.split(tables.delimiter_of(header))) is not None
    )


def _read_table(
    file: Path, name: str, overrides: ImportOverrides
) -> Iterator[ForeignRun | LeftOut]:
    """Yields the runs of a table of results."""
    return tables.read_table(read_text(file, name), name, overrides)


def _is_json(head: str) -> bool:
    """Returns whether a text is JSON, or lines that other programs printed before the JSON of a
    test.
    """
    if NEXT_JSON.match(head):
        return not tables.is_json_rows(head)
    begins = JSON_LINE.search(head)
    return (
        begins is not None
        and head.count("\n", 0, begins.start()) <= MOST_LINES_BEFORE
        and RESULT_KEY.search(head, begins.start()) is not None
        and not CODE_FENCE.search(head)
    )


def _is_iperf3_text(head: str) -> bool:
    """Returns whether a text is what iperf3 prints for people, and not a text with examples of
    it.
    """
    return iperf3_documents.is_text(head) and _is_log(head, IPERF3_LINE)


def _is_ss(head: str) -> bool:
    """Returns whether a text is a log of ss, and not a text with examples of it."""
    return ss_logs.is_log(head) and _is_log(head, SS_LINE)


def _is_log(head: str, line: "re.Pattern[str]") -> bool:
    """Returns whether enough lines of a text match, and the text does not quote them as code."""
    lines = head.split("\n")
    matching = sum(line.search(text[:LONGEST_PREFIX]) is not None for text in lines)
    return matching >= LEAST_SHARE * sum(
        map(bool, map(str.strip, lines))
    ) and not CODE_FENCE.search(head)


def _read_json(file: Path, name: str, overrides: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    """Yields the runs of iperf3 or pScheduler in a file of JSON, each with its own JSON text to
    keep.
    """
    for document in read_documents(read_text(file, name), name, pscheduler_results.is_known):
        if isinstance(document, LeftOut):
            yield document
            continue
        result = pscheduler_results.read_test(document, overrides)
        if isinstance(result, ForeignRun):
            result = replace(result, raw={f"{result.kind}.json": document.text.encode()})
            if result.kind == "iperf3" and "end" not in document.content:
                cut = result.ended_early or "before --json-stream wrote its end"
                result = replace(result, ended_early=cut)
            if document.keys:
                note = f"{name}: its results are under the key {writable(document.keys)}"
                result = replace(result, diagnostics=(*result.diagnostics, note))
        yield result


def _read_iperf3_text(
    file: Path, name: str, overrides: ImportOverrides
) -> Iterator[ForeignRun | LeftOut]:
    """Yields the runs in the text that iperf3 prints for people, each with its part of the text to
    keep.
    """
    for document in iperf3_documents.read_tests(read_text(file, name), name):
        result = iperf3_tests.read_run(
            document.content, document.location, overrides, "iperf3-text"
        )
        if isinstance(result, ForeignRun):
            missing = (*result.missing, "its numbers have three digits, and it has no RTTs")
            result = replace(result, raw={"iperf3.txt": document.text.encode()}, missing=missing)
        yield result


def _refuse_iperf2(_: Path, name: str, __: ImportOverrides) -> Iterator[LeftOut]:
    yield LeftOut(name, iperf3_documents.IPERF2_REFUSED)


def _read_ss(file: Path, name: str, _: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    return ss_logs.read_log(file, name)


KINDS: Mapping[str, ForeignKind] = {
    JSON: ForeignKind("JSON of iperf3 or pScheduler", _is_json, _read_json),
    "iperf2": ForeignKind("output of iperf 2", iperf3_documents.is_iperf2, _refuse_iperf2),
    "iperf3-text": ForeignKind("text of iperf3", _is_iperf3_text, _read_iperf3_text),
    SS: ForeignKind("a log of ss", _is_ss, _read_ss),
    HARNESS: ForeignKind(
        "a job's folder of the ESnet harness", lambda _: False, harness_folders.read_job
    ),
    "table": ForeignKind("a table of results as CSV, or rows as JSON", _is_table, _read_table),
}


def recognise(file: Path, name: str) -> str | None:
    """Returns the format of a file by the first 64 KiB of its content, as a key of KINDS; None if
    it is unknown. `name` is for messages. Raises SourceError and OSError.
    """
    with opened(file, name) as content:
        first_bytes = content.read(HEAD_BYTES)
    text = first_bytes.decode(encoding_of(first_bytes), errors="replace")
    return next((name for name, kind in KINDS.items() if kind.recognised(text)), None)


@dataclass(frozen=True)
class ForeignFile:
    """Holds a file to import, or a job's folder of the ESnet harness. `kind` is its format, a key
    of KINDS.

    `name` is for messages: as given by the user, or the path below the given folder. `entry` is the
    name of the entry that its runs get by default.
    """

    file: Path
    name: str
    kind: str
    entry: str

    @functools.cached_property
    def digest(self) -> str:
        """The SHA-256 of the content, to know copies and a repeated import. Raises OSError."""
        if self.file.is_dir():
            files = sorted(
                file for file in self.file.iterdir() if file.is_file() and not file.is_symlink()
            )
            names = [f"{file.name} {_digest(file)}\n" for file in files]
            return hashlib.sha256("".join(names).encode(errors="surrogateescape")).hexdigest()
        return _digest(self.file)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@dataclass(frozen=True)
class Listing:
    """Lists all files to import, and the files and folders that are left out."""

    sources: tuple[ForeignFile, ...]
    left_out: tuple[LeftOut, ...]


def listing(paths: Sequence[Path], kind: str | None) -> Listing:
    """Lists all named files, and all files below named folders. `kind` is the format that the user
    states with --as; None: recognise it by the content.

    Leaves out links, unknown files, hidden folders and archives of ccmix. Raises SourceError if a
    named file does not exist or is named twice.
    """
    if kind is not None and kind not in KINDS:
        raise SourceError(f"--as {kind}: unknown kind: use one of {', '.join(KINDS)}")
    resolved = {path.resolve() for path in paths}
    if len(resolved) < len(paths) or any(
        folder in resolved for place in resolved for folder in place.parents
    ):
        raise SourceError(
            "a file or folder is named twice, or within another: its runs would count twice"
        )
    found: list[ForeignFile | LeftOut] = []
    for path in paths:
        if not path.exists():
            raise SourceError(f"{path}: there is no such file or folder")
        if not path.is_dir() and kind == HARNESS:
            raise SourceError(
                f"{path}: is a file: name the folder of the job, or a folder above it"
            )
        if path.is_dir():
            found += _files_in_folder(path.resolve(), kind)
        else:
            found.append(_classify_file(path, path.name, kind))
    return Listing(
        tuple(item for item in found if isinstance(item, ForeignFile)),
        tuple(item for item in found if isinstance(item, LeftOut)),
    )


def _files_in_folder(top: Path, kind: str | None) -> Iterator[ForeignFile | LeftOut]:
    """Yields the files below a folder in order, and for a file that can't be imported the reason. A
    job's folder of the ESnet harness is one item, without its files; its subfolders are searched.

    kind: the format of all files, if the user has named it; None: each file's content shows it
    """
    unreadable: list[OSError] = []
    for name, folders, files in os.walk(top, onerror=unreadable.append):
        folder = Path(name)
        name_below = writable(str(Path(top.name, folder.relative_to(top))))
        if FILE in files:
            folders.clear()
            yield LeftOut(
                name_below, "is an archive of ccmix, which report, compare and index read"
            )
            continue
        hidden = sorted(name for name in folders if name.startswith("."))
        yield from (
            LeftOut(f"{name_below}/{writable(name)}", "is a hidden folder") for name in hidden
        )
        folders[:] = sorted(set(folders) - set(hidden), key=numeric_order)
        if kind in (None, HARNESS) and harness_folders.is_job(files):
            yield ForeignFile(folder, name_below, HARNESS, folder.name)
            continue
        for file in (folder / name for name in sorted(files, key=numeric_order)):
            name_of_file = f"{name_below}/{file.name}"
            yield (
                LeftOut(writable(name_of_file), NOT_REGULAR)
                if file.is_symlink()
                else _classify_file(file, name_of_file, kind)
            )
    yield from (LeftOut(str(error.filename), str(error.strerror)) for error in unreadable)


def _classify_file(file: Path, name: str, kind: str | None) -> ForeignFile | LeftOut:
    """Returns a file with its format, or the reason why it can't be imported. `kind` is the format
    if the user states it; None: recognise it by the content.
    """
    name = writable(name)
    if not file.is_file():
        return LeftOut(name, NOT_REGULAR)
    try:
        kind = kind or recognise(file, name)
        if kind is None:
            return LeftOut(name, NOT_KNOWN)
        if kind != SS and file.stat().st_size > MOST_BYTES:
            return LeftOut(name, TOO_LARGE)
    except (SourceError, OSError) as error:
        return _unreadable(name, error)
    return ForeignFile(
        file, name, kind, file.stem if kind == "table" else file.resolve().parent.name
    )


def _unreadable(name: str, error: Exception) -> LeftOut:
    """Returns the reason why the file `name` can't be read. The text of a SourceError begins with
    the place in the file.
    """
    if isinstance(error, SourceError):
        return LeftOut(*str(error).split(": ", 1))
    return LeftOut(name, getattr(error, "strerror", None) or str(error))


@dataclass(frozen=True)
class Reading:
    """Holds all runs that were read, each with its file, and the results that can't become runs."""

    runs: tuple[tuple[ForeignFile, ForeignRun], ...]
    left_out: tuple[LeftOut, ...]


def read(
    sources: Sequence[ForeignFile],
    overrides: ImportOverrides,
    on_read: Callable[[ForeignFile], None],
) -> Reading:
    """Reads the runs of all files, and sorts them by the iteration that the name of their file
    states. A file that is a copy of another one, or that can't be read in its format, is left out.

    Calls `on_read` after each file, to show progress. Raises SourceError for a wrong pattern.
    """
    runs: list[tuple[ForeignFile, ForeignRun]] = []
    left_out: list[LeftOut] = []
    pattern = name_pattern(overrides.name_pattern) if overrides.name_pattern is not None else None
    originals = _originals(sources)
    for source in sources:
        fields = pattern.fields_of(source.file) if pattern else {}
        if source in originals or fields is None:
            copy = f"is a copy of {originals[source].name}" if source in originals else None
            left_out.append(
                LeftOut(
                    source.name,
                    copy or f"its name does not match the pattern {overrides.name_pattern}",
                )
            )
            on_read(source)
            continue
        known = replace(overrides, cca=fields.get("cca", overrides.cca))
        try:
            results = list(KINDS[source.kind].read(source.file, source.name, known))
        except (SourceError, OSError) as error:
            results = [_unreadable(source.name, error)]
        except PARSING_ERRORS as error:
            why = f"can't be understood as {KINDS[source.kind].meaning}: {error!r:.200}"
            results = [LeftOut(source.name, why)]
        left_out += (result for result in results if isinstance(result, LeftOut))
        runs += (
            (source, replace(result, name_fields=fields) if fields else result)
            for result in results
            if isinstance(result, ForeignRun)
        )
        on_read(source)
    return Reading(tuple(sorted(runs, key=lambda run: _iteration(run[1]))), tuple(left_out))


def _originals(sources: Sequence[ForeignFile]) -> dict[ForeignFile, ForeignFile]:
    """Maps each file that repeats the content of an earlier one to that earlier one, because its
    tests were made only once.

    JSON is left out here: its documents are compared one by one in experiments.without_copies().
    Raises OSError.
    """
    firsts: dict[tuple[str, str], ForeignFile] = {}
    originals: dict[ForeignFile, ForeignFile] = {}
    for source in sources:
        if (
            source.kind != JSON
            and (first := firsts.setdefault((source.kind, source.digest), source)) is not source
        ):
            originals[source] = first
    return originals


def _iteration(run: ForeignRun) -> int:
    """Returns the iteration that the file's name states (by --name-pattern); 0 if it
    states none.
    """
    text = run.name_fields.get("iteration", "")
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else 0


@dataclass(frozen=True)
class NamePattern:
    """Holds a pattern of file names such as '{rate}_{cca}.json' as a regular expression. `fields`
    names its groups; `parts` is how many of the last parts of a file's path it describes.
    """

    text: str
    expression: "re.Pattern[str]"
    fields: tuple[str, ...]
    parts: int

    def fields_of(self, file: Path) -> Mapping[str, str] | None:
        """Returns the fields in a file's name, such as {'cca': 'bbr'}; None if the name does not
        match.
        """
        name = "/".join(file.resolve().parts[-self.parts :])
        match = self.expression.fullmatch(writable(name))
        return (
            {field: match[number] for number, field in enumerate(self.fields, 1)} if match else None
        )


def name_pattern(text: str) -> NamePattern:
    """Turns the text of --name-pattern, such as '{rate}_{rtt}_{iteration}_{cca}.json', into a
    pattern. A field named IGNORED matches any text, which is not kept. Raises SourceError if the
    text is not a valid pattern.
    """

    def error(reason: str) -> SourceError:
        """Returns the error to raise, with the pattern and an example."""
        return SourceError(
            f"--name-pattern {writable(text)[:100]}: {reason}: "
            "write for instance '{rate}_{rtt}_{iteration}_{cca}.json'"
        )

    if len(text) > MOST_PATTERN_LETTERS:
        raise error(f"is longer than {MOST_PATTERN_LETTERS} letters")
    pieces = _FIELD.split(text)  # literal, field, literal, field, ..., literal
    literals, names = pieces[::2], pieces[1::2]
    if any(brace in literal for literal in literals for brace in "{}"):
        raise error("has a brace without its counterpart")
    for name in names:
        if not _NAME.fullmatch(name):
            raise error(f"{{{name}}} is not a field name, which has letters, digits, - and _")
    kept_names = tuple(name for name in names if name != IGNORED)
    if not kept_names:
        raise error("has no field")
    if duplicate := next((name for name in kept_names if kept_names.count(name) > 1), None):
        raise error(f"has {{{duplicate}}} twice")
    if "" in literals[1:-1]:
        raise error("has two fields with nothing between them, so the end of the first is unknown")
    expression = re.escape(literals[0])
    for name, literal in zip(names, literals[1:], strict=True):
        expression += ("[^/]+?" if name == IGNORED else "([^/]+?)") + re.escape(literal)
    # The pattern describes as many of the last parts of a path as it has parts itself
    return NamePattern(text, re.compile(expression), kept_names, text.count("/") + 1)


def differ_in_more_than_a_number(names: Sequence[str]) -> bool:
    """Returns whether file names differ in more than a date or a running number, so that they may
    contain settings, such as 'bbr_10ms.json' and 'cubic_20ms.json'.
    """
    names_without_dates = [_DATE.sub("", name) for name in names]
    if len({_NUMBER.sub("0", name) for name in names_without_dates}) > 1:
        return True
    differing = {
        numbers
        for numbers in zip(*map(_NUMBER.findall, names_without_dates), strict=True)
        if len(set(numbers)) > 1
    }
    if len(differing) != 1:
        return bool(differing)
    running_numbers = sorted(map(int, differing.pop()))
    return running_numbers[-1] - running_numbers[0] >= MOST_CONSECUTIVE * len(names)
