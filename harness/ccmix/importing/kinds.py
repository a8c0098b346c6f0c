"""The kinds of sources, recognised by what is in them."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.importing import harness_folders, iperf3_tests, iperf3_text, pscheduler_results, ss_logs, ss_samples, tables
from ccmix.importing.documents import joined_events, read_documents
from ccmix.importing.found import Found, LeftOut, Told
from ccmix.importing.text import encoding_of, read_text

HARNESS = "harness"  # a folder, and no file
HEAD_BYTES = 65536  # by which a file's kind is told


@dataclass(frozen=True)
class Kind:
    """How a file of this kind is recognised by its begin, and read; `read` is given the file and its name."""

    meaning: str
    recognised: Callable[[str], bool]
    read: Callable[[Path, str, Told], Iterator[Found | LeftOut]]


def _is_table(head: str) -> bool:
    header = head.partition("\n")[0]
    return tables.columns_of(header.split(tables.delimiter_of(header))) is not None


def _read_table(file: Path, name: str, told: Told) -> Iterator[Found | LeftOut]:
    return tables.read_table(read_text(file, name), name, told)


def _is_json(head: str) -> bool:
    """An object or a list, after lines of other programs if need be."""
    begin = re.search(r"^[ \t]*[{\[][ \t\r]*([\"{}\[\]]|$)", head, re.MULTILINE)
    return begin is not None


def _read_json(file: Path, name: str, told: Told) -> Iterator[Found | LeftOut]:
    for document in joined_events(read_documents(read_text(file, name), name)):
        if iperf3_tests.is_test(document.content):
            found = iperf3_tests.found_in(document.content, document.where, told, "iperf3")
            yield replace(found, raw={"iperf3.json": document.text.encode()}) if isinstance(found, Found) else found
        elif pscheduler_results.is_result(document.content):
            found = pscheduler_results.found_in(document.content, document.where, told)
            yield replace(found, raw={"pscheduler.json": document.text.encode()}) if isinstance(found, Found) else found
        else:
            yield LeftOut(document.where, "is no result of a test")


def _read_iperf3_text(file: Path, name: str, told: Told) -> Iterator[Found | LeftOut]:
    for line, text, document in iperf3_text.read_tests(read_text(file, name)):
        found = iperf3_tests.found_in(document, f"{name}:{line}", told, "iperf3-text")
        if isinstance(found, Found):
            missing = (*found.missing, "its numbers have three digits, and no RTTs are told")
            found = replace(found, raw={"iperf3.txt": text.encode()}, missing=missing)
        yield found


def _read_ss(file: Path, name: str, _: Told) -> Iterator[Found | LeftOut]:
    return ss_logs.read_log(file, name)


KINDS: Mapping[str, Kind] = {
    "json": Kind("JSON of iperf3 or pScheduler", _is_json, _read_json),
    "iperf3-text": Kind("text of iperf3", iperf3_text.is_text, _read_iperf3_text),
    "ss": Kind("a log of ss", ss_samples.is_log, _read_ss),
    HARNESS: Kind("a job's folder of the ESnet harness", lambda _: False, harness_folders.read_job),
    "table": Kind("a table of results as CSV", _is_table, _read_table),
}


def recognise(file: Path) -> str | None:
    """The kind of a file, None where it is none of them. Raises OSError."""
    with file.open("rb") as opened:
        begin = opened.read(HEAD_BYTES)
    head = begin.decode(encoding_of(begin), errors="replace")
    return next((name for name, kind in KINDS.items() if kind.recognised(head)), None)
