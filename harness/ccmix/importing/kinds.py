"""The kinds of sources, recognised by what is in them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ccmix.importing import tables
from ccmix.importing.found import Found, Told
from ccmix.importing.text import encoding_of, read_text

HEAD_BYTES = 65536  # by which a file's kind is told


@dataclass(frozen=True)
class Kind:
    """How a file of this kind is recognised by its begin, and read; `read` is given the file and its name."""

    meaning: str
    recognised: Callable[[str], bool]
    read: Callable[[Path, str, Told], Iterator[Found]]


def _is_table(head: str) -> bool:
    header = head.partition("\n")[0]
    return tables.columns_of(header.split(tables.delimiter_of(header))) is not None


def _read_table(file: Path, name: str, told: Told) -> Iterator[Found]:
    return tables.read_table(read_text(file, name), name, told)


KINDS: Mapping[str, Kind] = {
    "table": Kind("a table of results as CSV", _is_table, _read_table),
}


def recognise(file: Path) -> str | None:
    """The kind of a file, None where it is none of them. Raises OSError."""
    with file.open("rb") as opened:
        begin = opened.read(HEAD_BYTES)
    head = begin.decode(encoding_of(begin), errors="replace")
    return next((name for name, kind in KINDS.items() if kind.recognised(head)), None)
