"""Reads tables of results as CSV. A line is a test, or one CCA of a test."""

import contextlib
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ccmix.importing import times
from ccmix.importing.values import (
    JSON_DECODER,
    MOST_RATE_BPS,
    MOST_TIME_S,
    ForeignRun,
    GroupSums,
    LeftOut,
    SourceError,
    is_missing,
    read_number,
    writable,
)
from ccmix.model import Group
from ccmix.model.group_grammar import DEFAULT_CCA
from ccmix.model.results import ImportOverrides

# A role is what a column means for ccmix, such as goodput. These are the names that a column may
# have in each role, without the unit.
ROLES = {
    "dst": ("dst", "host", "destination", "receiver"),
    "src": ("src", "source", "sender"),
    "entry": ("entry",),
    "test": ("test",),
    "streams": ("streams", "parallel", "flows"),
    "cca": ("cca", "cc", "congestion"),
    "goodput": ("goodput", "goodput_mean", "receiver_throughput"),
    "throughput": ("throughput", "throughput_mean", "sender_throughput"),
    "retransmission_rate": ("retransmission_rate", "retransmit_rate"),
    "rtt": ("rtt",),
    "duration": ("duration",),
    "began": ("timestamp", "began", "began_at"),
}
RATES_BPS = {"bps": 1.0, "kbps": 1e3, "mbps": 1e6, "gbps": 1e9, "tbps": 1e12}
TIMES_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


class _Quantity(NamedTuple):
    """Describes the numbers of a role whose columns have a unit in their names."""

    units: Mapping[str, float]  # factors to SI units, by the unit's name
    maximum: float  # in SI units


_QUANTITIES = {
    "goodput": _Quantity(RATES_BPS, MOST_RATE_BPS),
    "throughput": _Quantity(RATES_BPS, MOST_RATE_BPS),
    "rtt": _Quantity(TIMES_S, MOST_TIME_S),
    "duration": _Quantity(TIMES_S, MOST_TIME_S),
}
MOST_STREAMS = 100_000
MOST_COLUMNS = 2000
UNCLEAR = (
    "consecutive lines differ only in CCA and results, and have no 'test': each counts as a test "
    "of its own; if CCAs ran at the same time, give their lines the same value in a column 'test'"
)
_WORD = re.compile(
    r"[A-Za-z][A-Za-z0-9_.:/+-]{0,23}|\d+(?:\.\d+)?[A-Za-z/%]+"
)  # such as fq_codel, 1gbit or 20ms
_LIKE_SETTINGS = (
    "rate",
    "bandwidth",
    "bw",
    "buffer",
    "bdp",
    "loss",
    "delay",
    "latency",
    "base_rtt",
    "mtu",
    "mss",
    "pacing",
    "qdisc",
    "aqm",
    "queue",
)
_DELIMITERS = ",;\t"
# As utils/result_parser.py of the ESnet harness orders them: throughput of the sender, median RTT,
# reordered segments
HARNESS_COLUMNS = (
    "host",
    "test",
    "streams",
    "cca",
    "throughput_Gbps",
    "retransmit_rate",
    "reordering",
    "rtt_ms",
)
_ROWS = re.compile(r"\s*\[\s*\[")


class Column(NamedTuple):
    """Says where the values of a role are: the position of the column in a line, and the factor
    that turns its numbers into SI units.
    """

    position: int
    factor: float


@dataclass(frozen=True)
class Columns:
    """Says what the columns of a table mean. `by_role` has the column of each role, such as
    goodput; `names` are the names of all columns in the header, and `settings` the indexes of the
    columns that the user names with --setting.
    """

    by_role: Mapping[str, Column]
    names: tuple[str, ...]
    settings: tuple[int, ...]


@dataclass(frozen=True)
class ForeignLine:
    """Holds a line of the table: the results of one CCA in a test. Lines with the same `identity`
    may belong to one test.
    """

    number: int  # in the file, from 1
    text: tuple[str, ...]
    test: str | None
    identity: tuple[str | None, ...]  # dst, src, entry, test, streams, duration and settings
    group: GroupSums
    duration_s: float
    began_s: float | None  # since 1970


def find_columns(header: Sequence[str]) -> Mapping[str, Column] | None:
    """Returns the column of each role (such as goodput) that the header of a table has, found by
    the names in ROLES: 'throughput_Gbps' gives {'throughput': Column(index, 1e9)}.

    Returns None if no column has a rate, which every table of results has.
    """
    column_by_role: dict[str, Column] = {}
    for index, name in enumerate(header):
        for role, names in ROLES.items():
            units = _QUANTITIES[role].units if role in _QUANTITIES else None
            factor = _unit_factor(name, names, units)
            if role not in column_by_role and factor is not None:
                column_by_role[role] = Column(index, factor)
    return column_by_role if column_by_role.keys() & {"goodput", "throughput"} else None


def _unit_factor(
    name: str, names: Sequence[str], units: Mapping[str, float] | None
) -> float | None:
    """Returns the factor of the unit at the end of a column's name, such as 1e6 for 'goodput_Mbps'.
    Returns None if the part before the unit is not one of `names`, or the unit is unknown.

    `units` has the factors by the unit's name; None if such a column has no unit, whose factor is
    then 1.
    """
    plain_name = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
    if units is None:
        return 1.0 if plain_name in names else None
    name_without_unit, _, unit = plain_name.rpartition("_")
    return units.get(unit) if name_without_unit in names else None


def delimiter_of(header: str) -> str:
    """Returns the delimiter of a CSV table: comma, semicolon or tab, whichever occurs most often
    in its header.
    """
    return max(_DELIMITERS, key=header.count)


def read_table(text: str, name: str, overrides: ImportOverrides) -> Iterator[ForeignRun | LeftOut]:
    """Yields the tests in a table, and the lines without a rate. `name` is the file's name for
    messages. Raises SourceError.

    A line is a test. But consecutive lines with the same value in a column 'test' that differ only
    in CCA and results are one test, in which each CCA occurs once. Its column 'streams' is the
    number of streams of the whole test, which its CCAs share evenly, in their order.
    """
    is_json = is_json_rows(text)
    if is_json:
        text = json_rows_to_csv(text, name, overrides.columns)
    header = text.partition("\n")[0]
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(header))
    try:
        header_cells = next(lines, [])
        if overrides.columns is not None and not is_json:
            header_cells = rename_columns(header_cells, name, overrides.columns)
        columns = _assign_columns(header_cells, name, overrides)
        test_lines: list[ForeignLine] = []
        unclear = False
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            line = _read_line(cells, columns, f"{name}:{lines.line_num}", lines.line_num)
            if isinstance(line, LeftOut):
                yield line
                continue
            differs_only_in_cca = bool(test_lines) and _continues_test(test_lines, line)
            if test_lines and not (differs_only_in_cca and line.test is not None):
                yield _foreign_run(
                    test_lines, columns, name, overrides, unclear or differs_only_in_cca
                )
                test_lines, unclear = [], differs_only_in_cca
            test_lines.append(line)
        if test_lines:
            yield _foreign_run(test_lines, columns, name, overrides, unclear)
    except csv.Error as error:
        raise SourceError(
            f"{name}:{lines.line_num}: is not CSV: {error}: fix or remove this line"
        ) from error


def _assign_columns(header: Sequence[str], name: str, overrides: ImportOverrides) -> Columns:
    """Returns the meaning of the table's columns. Raises SourceError if none is a rate, a name
    occurs twice, or a column of --setting is missing.
    """
    if len(header) > MOST_COLUMNS:
        raise SourceError(
            f"{name}:1: has {len(header)} columns, but at most {MOST_COLUMNS} are read: remove "
            "those that are neither results nor settings"
        )
    column_by_role = find_columns(header)
    names = tuple(cell.strip() for cell in header)
    if column_by_role is None:
        raise SourceError(
            f"{name}:1: no column has a rate: name a column goodput_Gbps or throughput_Gbps (or "
            "_Mbps, _bps), or map it with --columns 'RATE=goodput_mbps'; the columns are "
            f"{writable(', '.join(names))[:200]}"
        )
    if duplicate := next((column for column in names if column and names.count(column) > 1), None):
        raise SourceError(
            f"{name}:1: several columns are named '{duplicate[:40]}': rename or remove all but one"
        )
    for setting in overrides.settings:
        if setting not in names:
            raise SourceError(
                f"{name}:1: has no column '{setting}' for --setting; it has "
                f"{', '.join(names)[:200]}"
            )
    return Columns(
        column_by_role, names, tuple(names.index(setting) for setting in overrides.settings)
    )


def _read_line(
    cells: Sequence[str], columns: Columns, location: str, number: int
) -> ForeignLine | LeftOut:
    """Reads a line of the table as results of one CCA. Returns LeftOut for a line without a rate.
    `location` is 'FILE:LINE' for messages. Raises SourceError for a wrong number of cells or a
    wrong value.
    """
    if len(cells) != len(columns.names):
        raise SourceError(
            f"{location}: has {len(cells)} columns and the header {len(columns.names)}: fix this "
            "line or take it out"
        )

    def cell(role: str) -> str | None:
        """Returns the text of this line in the column of a role, such as 'goodput'; None if the
        text is empty or the table has no such column.
        """
        column = columns.by_role.get(role)
        return (cells[column.position].strip() or None) if column else None

    def number_of(role: str, maximum: float | None = None) -> float | None:
        """Returns the number of this line in the column of a role, such as 'goodput', in SI units;
        None if it is missing. Raises SourceError for other text, and for numbers above `maximum`,
        which only roles without a unit need; for the others, _QUANTITIES has it.
        """
        text = cell(role)
        if text is None or is_missing(text):
            return None
        column = columns.by_role[role]
        try:
            return read_number(text, maximum or _QUANTITIES[role].maximum, column.factor)
        except ValueError as error:
            raise SourceError(
                f"{location}: {columns.names[column.position]}: '{text[:40]}' {error}: fix it, or "
                "leave it empty if it is unknown"
            ) from error

    streams = number_of("streams", MOST_STREAMS)
    if streams is not None and (streams < 1 or streams != int(streams)):
        raise SourceError(
            f"{location}: streams: {streams:g} is not a number of streams: write 1 or more"
        )
    goodput_bps, throughput_bps = number_of("goodput"), number_of("throughput")
    received_bps = throughput_bps if goodput_bps is None else goodput_bps
    if received_bps is None:
        return LeftOut(location, "has neither goodput nor throughput")
    return ForeignLine(
        number=number,
        text=tuple(cells),
        test=cell("test"),
        identity=(
            *(cell(role) for role in ("dst", "src", "entry", "test", "streams", "duration")),
            *(cells[index].strip() for index in columns.settings),
        ),
        group=GroupSums(
            cca=writable(cell("cca") or DEFAULT_CCA),
            streams=int(streams or 0),
            goodput_bps=received_bps,
            throughput_bps=throughput_bps,
            retransmission_rate=number_of("retransmission_rate", 1.0),
            rtt_median_s=number_of("rtt"),
            goodput_estimated=goodput_bps is None,
        ),
        duration_s=number_of("duration") or 0.0,
        began_s=_moment_s(cell("began")),
    )


def _moment_s(text: str | None) -> float | None:
    """Reads a time as seconds since 1970: from ISO 8601 (UTC if it has no zone), or from a number
    of such seconds. Returns None for other text.
    """
    moment = times.iso_s(text or "")
    if moment is None:
        with contextlib.suppress(ValueError):
            moment = read_number(text or "", times.MOST_CLOCK_S)
    return moment or None


def _continues_test(test_lines: Sequence[ForeignLine], line: ForeignLine) -> bool:
    """Returns whether a line may belong to the test of the lines before: it has a new CCA, and
    differs from them only in CCA and results.
    """
    ccas = {previous.group.cca for previous in test_lines}
    return test_lines[-1].identity == line.identity and line.group.cca not in ccas


def _possible_settings(line: ForeignLine, columns: Columns) -> dict[str, str]:
    """Returns the values of a line that may be settings instead of results, by column: values that
    are words, such as 'fq_codel', and those of columns that have names like settings, such as
    'buffer'. Columns with a role, and those of --setting, are left out.
    """
    known_indexes = {column.position for column in columns.by_role.values()} | set(columns.settings)
    return {
        name: text.strip()
        for index, (name, text) in enumerate(zip(columns.names, line.text, strict=True))
        if index not in known_indexes
        and name
        and (_WORD.fullmatch(text.strip()) or name.lower() in _LIKE_SETTINGS)
    }


def _foreign_run(
    lines: Sequence[ForeignLine],
    columns: Columns,
    name: str,
    overrides: ImportOverrides,
    unclear: bool,
) -> ForeignRun:
    """Makes a run of the lines of one test, which have one CCA each. With `unclear`, the lines
    before or after them may belong to the same test, and a diagnostic of the run says this.
    """
    first = lines[0]
    dst, src, entry = first.identity[:3]
    streams_of_ccas = [  # the streams of the test, shared as evenly as possible
        first.group.streams // len(lines) + (number < first.group.streams % len(lines))
        for number in range(len(lines))
    ]
    if first.group.streams and not all(streams_of_ccas):
        raise SourceError(
            f"{name}:{first.number}: {first.group.streams} streams can't have {len(lines)} CCAs"
        )
    ccas = [line.group.cca for line in lines]
    if overrides.cca and ccas == [DEFAULT_CCA]:
        ccas = [overrides.cca]
    results = tuple(
        replace(line.group, cca=cca, streams=streams)
        for cca, streams, line in zip(ccas, streams_of_ccas, lines, strict=True)
    )
    rtts_s = {sums.rtt_median_s for sums in results}
    return ForeignRun(
        kind="table",
        source=f"{name}:{first.number}",
        results=results,
        groups=tuple(map(Group, ccas)),
        streams=first.group.streams,
        entry=entry,
        settings={columns.names[index]: first.text[index].strip() for index in columns.settings},
        src=src,
        dst=dst,
        duration_s=first.duration_s,
        unclear=_possible_settings(first, columns),
        began_s=first.began_s,
        ended_s=first.began_s + first.duration_s if first.began_s is not None else None,
        rtt_median_s=rtts_s.pop() if len(rtts_s) == 1 else None,
        details={"rows": [dict(zip(columns.names, line.text, strict=True)) for line in lines]},
        diagnostics=(f"{name}: {UNCLEAR}",) if unclear else (),
        missing=(
            "a table has no series",
            *(() if first.duration_s else ("the duration is not known",)),
        ),
        estimated=("goodput_bps",) if any(sums.goodput_estimated for sums in results) else (),
    )


def is_json_rows(head: str) -> bool:
    """Returns whether a text begins as a JSON list of lists, as the ESnet harness prints its
    results.
    """
    return _ROWS.match(head) is not None


def json_rows_to_csv(text: str, name: str, columns: str | None) -> str:
    """Turns a JSON list of rows into CSV. `columns` are the names of the columns that the user
    gives with --columns; if None, the columns are HARNESS_COLUMNS.

    Ignores the text after the list, because the harness prints the same rows there as CSV. Raises
    SourceError.
    """
    try:
        rows, _ = JSON_DECODER.raw_decode(text.lstrip())
    except json.JSONDecodeError as error:
        raise SourceError(f"{name}: is not valid JSON: {error}: fix it, or remove it") from error
    except RecursionError as error:
        raise SourceError(f"{name}: is nested too deeply for a table: remove it") from error
    except ValueError as error:
        raise SourceError(f"{name}: has a number with too many digits: remove it") from error
    header = _read_column_names(columns) if columns is not None else HARNESS_COLUMNS
    csv_text = io.StringIO()
    writer = csv.writer(csv_text, lineterminator="\n")
    writer.writerow(header)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, list) or not all(
            isinstance(cell, str | int | float | None) for cell in row
        ):
            raise SourceError(f"{name}: row {number} is not a list of values: remove it")
        if len(row) != len(header):
            raise SourceError(
                f"{name}: row {number} has {len(row)} values for {len(header)} columns, "
                f"{', '.join(header)[:200]}: name the columns with --columns, such as "
                "'host,cca,goodput_gbps'"
            )
        writer.writerow(" ".join(str(cell).split()) if cell is not None else "" for cell in row)
    return csv_text.getvalue()


def _read_column_names(columns: str) -> tuple[str, ...]:
    """Splits the names of columns, 'host,cca,goodput_gbps', for rows without a header."""
    names = tuple(name.strip() for name in columns.split(","))
    if any("=" in name or not name for name in names):
        raise SourceError(
            f"--columns {writable(columns)[:100]}: rows without a header need only the names: "
            "write for instance 'host,cca,goodput_gbps'"
        )
    return names


def rename_columns(header: Sequence[str], name: str, columns: str) -> list[str]:
    """Renames columns of the header as the user says with --columns 'THEIRS=OURS,...'. Raises
    SourceError if the header has no such column.
    """
    new_names: dict[str, str] = {}
    for pair in columns.split(","):
        old_name, equals, new_name = (part.strip() for part in pair.rpartition("="))
        if not equals or not old_name or not new_name:
            raise SourceError(
                f"--columns {writable(columns)[:100]}: '{writable(pair)[:40]}' is not THEIRS=OURS: "
                "write for instance 'throughput=goodput_mbps,algorithm=cca'"
            )
        new_names[old_name] = new_name
    old_header = [cell.strip() for cell in header]
    if missing := next((column for column in new_names if column not in old_header), None):
        raise SourceError(
            f"{name}:1: has no column '{writable(missing)[:40]}' for --columns; it has "
            f"{writable(', '.join(old_header))[:300]}"
        )
    taken = {new_name.lower() for new_name in new_names.values()}
    return [new_names.get(cell) or _unless_taken(cell, taken) for cell in old_header]


def _unless_taken(cell: str, taken: set[str]) -> str:
    """Returns the name of a column that keeps its name; 'NAME (theirs)' if another column was
    renamed to NAME. `taken` has the new names of renamed columns in small letters.
    """
    return f"{cell} (theirs)" if cell.lower() in taken else cell
