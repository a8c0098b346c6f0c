"""Names columns of tables that have other names, or none: rows as JSON, such as the ESnet harness's .dat files."""

import csv
import io
import json
import re
from collections.abc import Sequence

from ccmix.importing.foreign_run import SourceError
from ccmix.importing.foreign_text import writable

# As utils/result_parser.py of the ESnet harness orders them: throughput of the sender, median RTT, reordered segments
OF_HARNESS = ("host", "test", "streams", "cca", "throughput_Gbps", "retransmit_rate", "reordering", "rtt_ms")
_ROWS = re.compile(r"\s*\[\s*\[")


def has_rows(head: str) -> bool:
    """Returns whether a list of lists begins."""
    return _ROWS.match(head) is not None


def table_of_rows(text: str, name: str, columns: str | None) -> str:
    """Returns a list of rows in JSON as CSV, with the columns that the user names, or those of the harness.

    What follows the list is left out: the harness prints the same rows as CSV there. Raises SourceError.
    """
    try:
        rows, _ = json.JSONDecoder(parse_constant=lambda _: None).raw_decode(text.lstrip())
    except json.JSONDecodeError as error:
        raise SourceError(f"{name}: is no JSON: {error}: mend it, or take it out") from error
    except RecursionError as error:
        raise SourceError(f"{name}: is nested too deeply for a table: take it out") from error
    except ValueError as error:
        raise SourceError(f"{name}: has a number with too many digits: take it out") from error
    header = _names(columns) if columns is not None else OF_HARNESS
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(header)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, list) or not all(isinstance(cell, str | int | float | None) for cell in row):
            raise SourceError(f"{name}: row {number} is no list of values: take it out")
        if len(row) != len(header):
            raise SourceError(
                f"{name}: row {number} has {len(row)} values, and there are {len(header)} columns, "
                f"{', '.join(header)[:200]}: name the columns with --columns, such as 'host,cca,goodput_gbps'"
            )
        writer.writerow(" ".join(str(cell).split()) if cell is not None else "" for cell in row)
    return made.getvalue()


def _names(columns: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in columns.split(","))
    if any("=" in name or not name for name in names):
        raise SourceError(
            f"--columns {writable(columns)[:100]}: rows without a header need the names alone: "
            "write for instance 'host,cca,goodput_gbps'"
        )
    return names


def renamed(header: Sequence[str], name: str, columns: str) -> list[str]:
    """Returns the header with the names that the user gives: 'THEIRS=OURS,...'. Raises SourceError."""
    ours: dict[str, str] = {}
    for pair in columns.split(","):
        theirs, equals, own = (part.strip() for part in pair.rpartition("="))
        if not equals or not theirs or not own:
            raise SourceError(
                f"--columns {writable(columns)[:100]}: '{writable(pair)[:40]}' is not THEIRS=OURS: "
                "write for instance 'throughput=goodput_mbps,algorithm=cca'"
            )
        ours[theirs] = own
    theirs_there = [cell.strip() for cell in header]
    if missing := next((column for column in ours if column not in theirs_there), None):
        raise SourceError(
            f"{name}:1: has no column '{writable(missing)[:40]}' for --columns; it has "
            f"{writable(', '.join(theirs_there))[:300]}"
        )
    taken = {own.lower() for own in ours.values()}
    return [ours.get(cell) or _free(cell, taken) for cell in theirs_there]


def _free(cell: str, taken: set[str]) -> str:
    """Returns a column's own name, marked if another column was given it."""
    return f"{cell} (theirs)" if cell.lower() in taken else cell
