"""Reads a CSV file of hosts: a header, then one destination in each line; # begins a comment."""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ccmix.config import host_values
from ccmix.config.ini import read_text
from ccmix.config.problems import ConfigError, Problem, about, quoted
from ccmix.config.values import read_text as read_printable

KNOWN_COLUMNS = ("hostname", "alias", "profile")
_COMMENT = re.compile(r"#.*", re.DOTALL)


@dataclass(frozen=True)
class HostRow:
    """Describes one destination. `user` (None: no login) and `address` come from the column
    hostname; `name` is its alias, or its address if it has no alias.

    `line` is its number in the file, and `metadata` has all further columns as names and values.
    """

    line: int
    name: str
    user: str | None
    address: str
    profile: str | None
    metadata: tuple[tuple[str, str], ...]


def read_hosts(path: Path) -> tuple[HostRow, ...]:
    """Returns the destinations in the order of the file. Raises ConfigError with all mistakes."""
    reader = _HostListReader(path)
    rows = tuple(reader.rows(read_text(path).split("\n")))
    if not rows and not reader.problems:
        reader.problem(
            None,
            "lists no host: write a header such as hostname,alias,profile and a line for each host",
        )
    if reader.problems:
        raise ConfigError(reader.problems)
    return rows


class _HostListReader:
    """Reads the lines of a list of hosts, and collects all problems instead of stopping at the
    first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.problems: list[Problem] = []

    def problem(self, line: int | None, message: str, key: str | None = None) -> None:
        """Adds a mistake; `line` is None if it is about the whole file."""
        self.problems.append(Problem(self._path, message, line, key=key))

    def rows(self, lines: Iterable[str]) -> Iterable[HostRow]:
        """Yields the destinations that are right, and adds problems for lines that are wrong or
        repeat a name. A wrong header stops the reading.
        """
        header: list[str] | None = None
        names: dict[str, int] = {}
        for number, line in enumerate(lines, start=1):
            text = _COMMENT.sub("", line).strip()
            fields = self._fields(number, text) if text else None
            if fields is None:
                continue
            if header is None:
                header = [
                    field.lower() if field.lower() in KNOWN_COLUMNS else field for field in fields
                ]
                if not self._header_is_right(number, header):
                    return
            elif len(fields) > len(header):
                self.problem(number, f"has {len(fields)} fields, but the header has {len(header)}")
            elif row := self._row(number, dict(zip(header, fields, strict=False))):
                first = names.setdefault(row.name, number)
                if first != number:
                    self.problem(
                        number,
                        f"{quoted(row.name)} is also the name of the host in line {first}: give "
                        "one an alias",
                    )
                yield row

    def _fields(self, number: int, text: str) -> list[str] | None:
        """Returns the fields of a line of CSV. Adds a problem and returns None if it is not CSV."""
        try:
            fields = [field.strip() for field in next(csv.reader([text], strict=True))]
            for field in fields:
                read_printable(field)
        except (csv.Error, ValueError) as error:
            self.problem(number, f"is not a line of comma-separated values: {error}")
            return None
        return fields

    def _header_is_right(self, number: int, header: list[str]) -> bool:
        """Returns whether the header has the column hostname and no column twice; adds a problem
        otherwise.
        """
        duplicates = [name for name in header if header.count(name) > 1]
        if "hostname" not in header:
            self.problem(
                number,
                "is not a header: write the names of the columns, such as hostname,alias,profile",
            )
        elif duplicates:
            self.problem(number, f"names the column {quoted(duplicates[0])} twice")
        return "hostname" in header and not duplicates

    def _row(self, number: int, fields: dict[str, str]) -> HostRow | None:
        """Returns the destination in a line, whose fields are by column. Adds a problem and returns
        None if a field is wrong.
        """
        hostname, alias = fields["hostname"], fields.get("alias") or None
        key, value = "hostname", hostname
        try:
            if not hostname:
                self.problem(number, "is missing: write the host's name or address", "hostname")
                return None
            user, address = host_values.read_destination(hostname)
            if alias:
                key, value = "alias", alias
                host_values.read_alias(alias)
        except ValueError as error:
            self.problem(number, about(value, error), key)
            return None
        metadata = tuple(
            (name, value) for name, value in fields.items() if name not in KNOWN_COLUMNS
        )
        return HostRow(
            number, alias or address, user, address, fields.get("profile") or None, metadata
        )
