"""Turns a packet capture into tables of its TCP connections, with the program ccmix-capflow.

probes/capflow/README.md defines every column.

connections = convert(Path("capture.pcap"), Path("packets.parquet"), Path("connections.parquet"),
interval_s=0.1)

Both files are written a part at a time, because even a small compressed capture can expand to more
than the memory holds.
"""

import contextlib
import csv
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

import polars as pl

from ccmix import tools
from ccmix.agent.deadline import Deadline
from ccmix.archive import parquet
from ccmix.hosts.output_text import last_line
from ccmix.model import ConversionLimits
from ccmix.temporary import TemporaryFolderError, temporary_folder
from ccmix.units import format_bytes, format_time

VERSION = 2  # of the summary's format
USUAL_INTERVAL_S = 0.1  # of packets.parquet
KEY = ("connection", "direction")
DIRECTIONS = {"a2b": ("a", "b"), "b2a": ("b", "a")}  # from which end to which


def _type_of(name: str) -> type[pl.DataType]:
    """Returns a column's type by its name: times and means are floats, other numbers integers."""
    if name == "direction":
        return pl.String
    return pl.Float64 if name.endswith("_s") or "_mean_" in name else pl.Int64


# The columns of the series, in their order. An empty value is unknown, and becomes null.
_SERIES = (
    "connection direction time_s packets data_packets payload_bytes retransmitted_packets "
    "retransmitted_bytes out_of_order_packets out_of_order_bytes ect_packets ce_packets "
    "cwr_packets acked_bytes duplicate_acks sack_packets sack_blocks ece_packets "
    "receive_window_min_bytes receive_window_last_bytes in_flight_max_bytes in_flight_last_bytes "
    "ack_rtt_samples ack_rtt_min_s ack_rtt_mean_s ack_rtt_max_s timestamp_rtt_samples "
    "timestamp_rtt_min_s timestamp_rtt_mean_s timestamp_rtt_max_s"
)
SERIES = {name: _type_of(name) for name in _SERIES.split()}
OTHERS = "others"  # the direction of the row that counts connections without rows of their own
LONGEST_LINE_BYTES = 2**16  # of the summary; ccmix-capflow's longest has some 4,000
ROWS_AT_ONCE = 2_000  # read before they become columns
ROWS_WRITTEN = 2**15  # of a long table, at a time
PART_BYTES = 2**21  # of a series, converted to a table at a time
SORTS_BYTES = 2**26  # in memory
# Exceptions from reading a file that ccmix-capflow did not write, or did not finish
NOT_UNDERSTOOD = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    StopIteration,
    pl.exceptions.PolarsError,
)
LOOK_S = 0.1  # between two checks of a conversion's limits
ENDS_WITHIN_S = 120.0  # after SIGTERM, while it still writes the connections that it has
# The columns that packets.parquet takes from the connections, before those of the series.
ENDS = {
    f"{end}_{what}": kind
    for end in ("source", "destination")
    for what, kind in (("address", pl.String), ("port", pl.Int64))
}
_OF_CONNECTIONS = "direction connection first_time_s last_time_s"
NO_CONNECTIONS = ENDS | {name: _type_of(name) for name in _OF_CONNECTIONS.split()}
NO_CONNECTIONS["complete"] = pl.Boolean

# A value of the summary's JSON: a connection has two objects, one per direction.
Value = int | float | bool | str | None | dict[str, "Value"]


class CaptureError(Exception):
    """Explains why a capture, or the output of ccmix-capflow, can't be read."""


@dataclass(frozen=True)
class CaptureCounts:
    """Counts the packets of a whole capture by kind, and its connections.

    The times are None if the capture is empty.
    """

    packets: int
    tcp_packets: int
    other_packets: int
    fragments: int
    header_cut_packets: int
    malformed_packets: int
    filtered_packets: int
    backwards_packets: int
    connections: int
    first_time_s: float | None
    last_time_s: float | None


@dataclass(frozen=True)
class OtherConnections:
    """Counts the packets of the connections that have no rows because there are too many.

    ccmix-capflow describes only the first connections of a capture, up to its limit.
    """

    packets: int
    syn_packets: int
    payload_bytes: int
    first_time_s: float | None
    last_time_s: float | None


@dataclass(frozen=True)
class Connections:
    """Describes the connections of a capture, and how its conversion ended.

    `ends` has the addresses and ports (ENDS) of each connection and direction.
    """

    ends: pl.DataFrame
    capture: CaptureCounts
    others: OtherConnections
    problem: str | None = None  # why the capture's end is missing; the packets before it count
    cut: str | None = None  # which limit ended the conversion; the packets before it count

    @property
    def shortened(self) -> tuple[str, ...]:
        """Returns sentences on the packets that are not in the tables because of the conversion's
        limits: the packets after the one at which a limit ended the conversion (`cut`), and the
        packets of connections beyond the maximum number (`others`). Empty if the tables have all.
        """
        reasons = [self.cut] if self.cut else []
        if self.others.packets:
            reasons.append(
                f"{self.others.packets} packets belong to connections beyond the first "
                f"{self.capture.connections}, "
                "and are counted together"
            )
        return tuple(reasons)


def command(capture: str, interval_s: float, series: Path, summary: Path) -> list[str]:
    """Returns the command of ccmix-capflow that writes both files from a capture.

    `capture` is a file, or '-' for standard input. Raises tools.ToolError.
    """
    binary = str(tools.find_capflow())
    interval = f"--interval={interval_s * 1e3:g}ms"
    return [binary, interval, f"--series={series}", f"--summary-json={summary}", "--", capture]


def convert(
    capture: Path,
    packets: Path,
    connections: Path,
    interval_s: float = USUAL_INTERVAL_S,
    limits: ConversionLimits | None = None,
) -> Connections:
    """Writes two tables of a capture, which zstd, gzip or another program may have compressed.

    `packets` has a row per connection, direction and interval; `connections` has one per connection
    and direction. If there were too many connections, the last row of `connections`, whose
    direction is OTHERS, counts the rest. Raises CaptureError, tools.ToolError, and OSError for a
    table that can't be written.
    """
    try:
        with temporary_folder() as folder, tempfile.TemporaryDirectory(dir=packets.parent) as parts:
            series, summary = folder / "series.csv", folder / "summary.json"
            ended = _run_capflow(capture, interval_s, limits or ConversionLimits(), series, summary)
            described = write_connections(
                summary, parquet.Parts(Path(parts), "connections", ROWS_WRITTEN), connections
            )
            write_packets(
                series, described.ends, parquet.Parts(Path(parts), "packets", ROWS_WRITTEN), packets
            )
    except TemporaryFolderError as error:
        raise CaptureError(str(error)) from error
    return replace(described, problem=ended.problem, cut=ended.cut)


def _run_capflow(
    capture: Path, interval_s: float, limits: ConversionLimits, series: Path, summary: Path
) -> "_Ending":
    """Runs ccmix-capflow on a capture.

    ccmix-capflow writes `series` (CSV) and `summary` (JSON lines). Returns how the conversion
    ended. Raises CaptureError.
    """
    errors = series.with_name("capflow")
    argv = command(str(capture), interval_s, series, summary)
    status, cut = _run_with_limits(argv, errors, series, limits)
    problem = last_line(errors) or None
    # 1: the capture is cut or damaged, and the results cover the packets before that place
    if status not in {0, 1} or not summary.exists():
        raise CaptureError(problem or f"ccmix-capflow ended with status {status}")
    return _Ending(problem, cut)


@dataclass(frozen=True)
class _Ending:
    """How a conversion ended: the fields `problem` and `cut` of Connections."""

    problem: str | None
    cut: str | None


def _run_with_limits(
    argv: Sequence[str],
    errors: Path,
    series: Path,
    limits: ConversionLimits,
) -> tuple[int, str | None]:
    """Runs ccmix-capflow, and asks it to end if it reaches a limit of time or size.

    The time and the size of the file `series` are limited. If ccmix-capflow is asked to end, it
    still writes the results of the packets that it has read. Returns its exit status, and the limit
    that was reached, as text (None: no limit). Its messages go to the file `errors`. Raises
    CaptureError.
    """
    limit = None
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr
        )
    try:
        deadline = Deadline(limits.within_s)
        while process.poll() is None:
            limit = _limit_reached(deadline, series, limits)
            if limit:
                process.terminate()
                process.wait(ENDS_WITHIN_S)
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_S)
    except subprocess.TimeoutExpired as error:
        raise CaptureError(
            f"{limit}, and ccmix-capflow did not end within {ENDS_WITHIN_S:g} s"
        ) from error
    finally:
        process.kill()
        process.wait()
    return process.returncode, limit


def _limit_reached(deadline: Deadline, series: Path, limits: ConversionLimits) -> str | None:
    """Returns the limit that a running conversion has reached, as text; None if none."""
    if deadline.expired:
        return f"making them took longer than {format_time(limits.within_s)} (tcpdump-convert-time)"
    if series.exists() and series.stat().st_size > limits.most_bytes:
        return (
            f"its series are larger than {format_bytes(limits.most_bytes)} (tcpdump-convert-size)"
        )
    return None


def write_connections(summary: Path, parts: parquet.Parts, file: Path) -> Connections:
    """Writes the table of connections, from the summary of ccmix-capflow, to `file`.

    Returns the addresses and ports of the connections, and the counts of the whole capture. `parts`
    keeps the parts of the table on disk until they are joined. Raises CaptureError, and OSError if
    the table can't be written.
    """
    ends = []
    for table in _connection_tables(summary):
        parts.add(table)
        ends.append(table.select(*KEY, *ENDS))
    parts.write(file)
    try:
        with summary.open("rb") as lines:
            lines.seek(max(0, lines.seek(0, os.SEEK_END) - LONGEST_LINE_BYTES))
            last = json.loads(lines.read().splitlines()[-1])
        return Connections(
            pl.concat(ends), CaptureCounts(**last["capture"]), OtherConnections(**last["others"])
        )
    except NOT_UNDERSTOOD as error:
        raise _not_a_summary(summary, error) from error


def _connection_tables(summary: Path) -> Iterator[pl.DataFrame]:
    """Yields the connections of a summary in one or more tables. Raises CaptureError."""
    try:
        with summary.open("rb") as file:
            lines = map(json.loads, _summary_lines(file))
            if (version := next(lines)["version"]) != VERSION:
                raise CaptureError(f"{summary}: version {version}, not {VERSION}")
            rows: list[dict[str, Value]] = []
            while "capture" not in (line := next(lines)):
                rows += _direction_rows(line)
                if len(rows) >= ROWS_AT_ONCE:
                    yield _typed_table(rows)
                    rows.clear()
            others = OtherConnections(**line["others"])
        yield _typed_table(rows)
        if others.packets:
            yield _typed_table([_others_row(others)])
    except NOT_UNDERSTOOD as error:
        raise _not_a_summary(summary, error) from error


def _not_a_summary(summary: Path, error: Exception) -> CaptureError:
    return CaptureError(f"{summary}: not a summary of ccmix-capflow: {error!r}")


def _summary_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yields the lines of a summary.

    Raises ValueError for a line that ccmix-capflow can't have written: it has no end or is too
    long.
    """
    while line := file.readline(LONGEST_LINE_BYTES):
        if not line.endswith(b"\n"):
            raise ValueError(f"a line without an end, or of more than {LONGEST_LINE_BYTES} bytes")
        yield line


def write_packets(series: Path, ends: pl.DataFrame, parts: parquet.Parts, file: Path) -> None:
    """Writes the table of packets, from the series of ccmix-capflow (CSV), to `file`.

    Each row gets the addresses and ports of its connection from `ends`. The table is ordered by
    connection, direction and time. An incomplete last line of the series, which a crash leaves, is
    dropped. Raises CaptureError, and OSError if the table can't be written.
    """
    for table in _packet_tables(series):
        joined = table.join(ends, on=[*KEY], how="left", maintain_order="left")
        parts.add(joined.select(*ENDS, *SERIES))
    parts.write(file)


def _packet_tables(series: Path) -> Iterator[pl.DataFrame]:
    """Yields a series, ordered as in packets.parquet, in one or more tables.

    Cuts an incomplete last line off the file. Raises CaptureError.
    """
    try:
        with series.open("r+b", buffering=0) as file:
            first = file.read(LONGEST_LINE_BYTES)
            header = next(csv.reader([first[: first.find(b"\n") + 1].decode()]), [])
            if header != list(SERIES):
                raise CaptureError(f"{series}: not the columns of ccmix-capflow's series")
            begin = max(0, file.seek(0, os.SEEK_END) - LONGEST_LINE_BYTES)
            file.seek(begin)
            file.truncate(begin + file.read().rfind(b"\n") + 1)
            file.seek(first.find(b"\n") + 1)
            with _sorted_rows(file, series.parent) as lines:
                while text := lines.read(PART_BYTES) + lines.readline():
                    yield pl.read_csv(text, schema=dict(SERIES), has_header=False)
            yield pl.DataFrame(schema=dict(SERIES))
    except (OSError, ValueError, csv.Error, pl.exceptions.PolarsError) as error:
        raise CaptureError(f"{series}: not a series of ccmix-capflow: {error}") from error


@contextlib.contextmanager
def _sorted_rows(rows: IO[bytes], folder: Path) -> Iterator[IO[bytes]]:
    """Yields the CSV rows ordered by connection, direction and time.

    sort(1) does it because it uses the disk when its memory is full. Raises OSError.
    """
    argv = [
        "sort",
        "--stable",
        f"--buffer-size={SORTS_BYTES}b",
        f"--temporary-directory={folder}",
        "--field-separator=,",
    ]
    keys = ["--key=1,1n", "--key=2,2", "--key=3,3n"]
    environment = {**os.environ, "LC_ALL": "C"}
    with subprocess.Popen(
        [*argv, *keys], stdin=rows, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as sort:
        assert sort.stdout is not None
        assert sort.stderr is not None
        try:
            yield sort.stdout
        finally:
            sort.stdout.close()  # so that it ends
            reason = sort.stderr.read().decode(errors="replace").strip()
        if sort.wait():
            raise OSError(f"sort: {reason or sort.returncode}")


def _direction_rows(connection: Mapping[str, Value]) -> Sequence[dict[str, Value]]:
    """Returns the two rows of a connection, one for each direction.

    The summary has the ends as 'a_address', 'b_port' and so on, and an object per direction.
    """
    common = {
        key: connection[key] for key in ("connection", "first_time_s", "last_time_s", "complete")
    }
    rows = []
    for direction, (source, destination) in DIRECTIONS.items():
        ends = {
            f"{role}_{part}": connection[f"{end}_{part}"]
            for role, end in (("source", source), ("destination", destination))
            for part in ("address", "port")
        }
        of_direction = connection[direction]
        assert isinstance(of_direction, dict)
        rows.append({**ends, "direction": direction, **common, **of_direction})
    return rows


def _others_row(others: OtherConnections) -> dict[str, Value]:
    """Returns the row that counts the packets of all connections beyond the limit."""
    return {**dict.fromkeys(NO_CONNECTIONS), "direction": OTHERS, **asdict(others)}


def _typed_table(rows: Iterable[Mapping[str, Value]]) -> pl.DataFrame:
    """Returns rows as a table, in which even a column without any value has its usual type."""
    table = pl.DataFrame(rows, infer_schema_length=None)
    empty = [name for name, kind in table.schema.items() if kind == pl.Null]
    typed = table.with_columns(
        pl.col(name).cast(NO_CONNECTIONS.get(name, _type_of(name))) for name in empty
    )
    return pl.concat([pl.DataFrame(schema=NO_CONNECTIONS), typed], how="diagonal")
