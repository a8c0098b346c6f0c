"""Lists the kinds of sources, and recognises each by its content."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.importing import harness_folders, iperf3_tests, iperf3_text, pscheduler_results, ss_logs, ss_samples, tables
from ccmix.importing.columns import has_rows
from ccmix.importing.documents import joined_events, read_documents
from ccmix.importing.foreign_run import ForeignRun, LeftOut
from ccmix.importing.foreign_text import encoding_of, read_text
from ccmix.model.results import ImportOverrides

JSON = "json"
HARNESS = "harness"  # a folder, and no file
SS = "ss"  # a log, which is read in parts
HEAD_BYTES = 65536  # from which a file's kind is recognised


@dataclass(frozen=True)
class ForeignKind:
    """Recognises a file of this kind by its begin, and reads it; `read` is given the file and its name."""

    meaning: str
    recognised: Callable[[str], bool]
    read: Callable[[Path, str, ImportOverrides], Iterator[ForeignRun | LeftOut]]


def _is_table(head: str) -> bool:
    header = head.partition("\n")[0]
    return has_rows(head) or tables.columns_of(header.split(tables.delimiter_of(header))) is not None


def _read_table(file: Path, name: str, overrides: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    return tables.read_table(read_text(file, name), name, overrides)


def _is_json(head: str) -> bool:
    """Returns whether an object or a list begins, perhaps after lines of other programs."""
    begin = re.search(r"^[ \t]*[{\[][ \t\r]*([\"{}\[\]]|$)", head, re.MULTILINE)
    return begin is not None and not has_rows(head)


def _read_json(file: Path, name: str, overrides: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    for document in joined_events(read_documents(read_text(file, name), name)):
        if iperf3_tests.is_test(document.content):
            yield _with_raw(iperf3_tests.read_run(document.content, document.where, overrides, "iperf3"),
                            {"iperf3.json": document.text.encode()})  # fmt: skip
        elif pscheduler_results.is_result(document.content):
            yield _with_raw(pscheduler_results.read_run(document.content, document.where, overrides),
                            {"pscheduler.json": document.text.encode()})  # fmt: skip
        else:
            yield LeftOut(document.where, "is no result of a test")


def _with_raw(result: ForeignRun | LeftOut, raw: dict[str, bytes]) -> ForeignRun | LeftOut:
    return replace(result, raw=raw) if isinstance(result, ForeignRun) else result


def _read_iperf3_text(file: Path, name: str, overrides: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    for line, text, document in iperf3_text.read_tests(read_text(file, name)):
        result = iperf3_tests.read_run(document, f"{name}:{line}", overrides, "iperf3-text")
        if isinstance(result, ForeignRun):
            missing = (*result.missing, "its numbers have three digits, and it has no RTTs")
            result = replace(result, raw={"iperf3.txt": text.encode()}, missing=missing)
        yield result


def _read_ss(file: Path, name: str, _: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    return ss_logs.read_log(file, name)


KINDS: Mapping[str, ForeignKind] = {
    JSON: ForeignKind("JSON of iperf3 or pScheduler", _is_json, _read_json),
    "iperf3-text": ForeignKind("text of iperf3", iperf3_text.is_text, _read_iperf3_text),
    SS: ForeignKind("a log of ss", ss_samples.is_log, _read_ss),
    HARNESS: ForeignKind("a job's folder of the ESnet harness", lambda _: False, harness_folders.read_job),
    "table": ForeignKind("a table of results as CSV, or rows as JSON", _is_table, _read_table),
}


def recognise(file: Path) -> str | None:
    """Returns the kind of a file, None if it is none of them. Raises OSError."""
    with file.open("rb") as opened:
        begin = opened.read(HEAD_BYTES)
    head = begin.decode(encoding_of(begin), errors="replace")
    return next((name for name, kind in KINDS.items() if kind.recognised(head)), None)
