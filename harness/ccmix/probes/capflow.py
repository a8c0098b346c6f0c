"""Turns a packet capture into tables with ccmix-capflow. probes/capflow/README.md defines every column.

packets, connections = convert(Path("capture.pcap"), interval_s=0.1)
packets.write_parquet("packets.parquet")
connections.table.write_parquet("connections.parquet")
"""

import csv
import io
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ccmix import tools

VERSION = 1  # of the summary's format
USUAL_INTERVAL_S = 0.1  # of packets.parquet
DIRECTIONS = {"a2b": ("a", "b"), "b2a": ("b", "a")}  # from which end to which

# The columns of the series, in their order. An empty value is not known, and becomes null.
SERIES: Mapping[str, type[pl.DataType]] = {
    "connection": pl.Int64,
    "direction": pl.String,
    "time_s": pl.Float64,
    "packets": pl.Int64,
    "data_packets": pl.Int64,
    "payload_bytes": pl.Int64,
    "retransmitted_packets": pl.Int64,
    "retransmitted_bytes": pl.Int64,
    "out_of_order_packets": pl.Int64,
    "out_of_order_bytes": pl.Int64,
    "ect_packets": pl.Int64,
    "ce_packets": pl.Int64,
    "cwr_packets": pl.Int64,
    "acked_bytes": pl.Int64,
    "duplicate_acks": pl.Int64,
    "sack_packets": pl.Int64,
    "sack_blocks": pl.Int64,
    "ece_packets": pl.Int64,
    "receive_window_min_bytes": pl.Int64,
    "receive_window_last_bytes": pl.Int64,
    "in_flight_max_bytes": pl.Int64,
    "in_flight_last_bytes": pl.Int64,
    "ack_rtt_samples": pl.Int64,
    "ack_rtt_min_s": pl.Float64,
    "ack_rtt_mean_s": pl.Float64,
    "ack_rtt_max_s": pl.Float64,
    "timestamp_rtt_samples": pl.Int64,
    "timestamp_rtt_min_s": pl.Float64,
    "timestamp_rtt_mean_s": pl.Float64,
    "timestamp_rtt_max_s": pl.Float64,
}
# The columns that packets.parquet has before these, from the connections.
ENDS: Mapping[str, type[pl.DataType]] = {
    "source_address": pl.String,
    "source_port": pl.Int64,
    "destination_address": pl.String,
    "destination_port": pl.Int64,
}

# A value of the summary's JSON: a connection has two objects, one per direction.
Value = int | float | bool | str | None | dict[str, "Value"]


class CaptureError(Exception):
    """Says why a capture, or the output of ccmix-capflow, can't be read."""


@dataclass(frozen=True)
class CaptureCounts:
    """Counts the packets of a whole capture by kind, and its connections; the times are None if it has no packets."""

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
class Connections:
    """Holds the connections of a capture: `table` has a row per connection and direction."""

    table: pl.DataFrame
    capture: CaptureCounts
    problem: str | None = None  # why the capture's end is missing; the packets before it count


def command(capture: str, interval_s: float, series: Path, summary: Path) -> list[str]:
    """Returns the command that writes both files; `capture` is a file, or "-". Raises tools.ToolError."""
    binary = str(tools.find_capflow())
    interval = f"--interval={interval_s * 1e3:g}ms"
    return [binary, interval, f"--series={series}", f"--summary-json={summary}", "--", capture]


def convert(capture: Path, interval_s: float = USUAL_INTERVAL_S) -> tuple[pl.DataFrame, Connections]:
    """Returns the packets table and the connections of a capture, which zstd may have compressed (.zst).

    Raises CaptureError, tools.ToolError.
    """
    with tempfile.TemporaryDirectory(prefix="ccmix-capture-") as folder:
        series, summary = Path(folder, "series.csv"), Path(folder, "summary.json")
        if capture.suffix == ".zst":
            done = _run_decompressed(capture, command("-", interval_s, series, summary))
        else:
            argv = command(str(capture), interval_s, series, summary)
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        problem = done.stderr.strip()
        # 1: the capture is cut or damaged, and the results are those of the packets before that place
        if done.returncode not in {0, 1} or not summary.exists():
            raise CaptureError(problem or f"ccmix-capflow ended with status {done.returncode}")
        connections = read_connections(summary, problem=problem or None)
        return read_packets(series, connections), connections


def _run_decompressed(capture: Path, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        zstd = subprocess.Popen(
            ["zstd", "-dcq", "--", str(capture)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise CaptureError(f"{capture}: zstd: {error.strerror}: install the package zstd") from error
    with zstd:
        assert zstd.stdout is not None
        assert zstd.stderr is not None
        done = subprocess.run(argv, stdin=zstd.stdout, capture_output=True, text=True, check=False)
        zstd.stdout.close()  # so that zstd ends, even if it has more to write
        zstd_error = zstd.stderr.read().decode(errors="replace").strip()
    # The packets that could be decompressed count, like those of a capture that is cut
    status = done.returncode or int(bool(zstd_error))
    return subprocess.CompletedProcess(argv, status, stderr="; ".join(filter(None, (done.stderr.strip(), zstd_error))))


def read_connections(summary: Path, problem: str | None = None) -> Connections:
    """Reads a --summary-json file and returns its connections. Raises CaptureError."""
    try:
        document = json.loads(summary.read_text())
        if document["version"] != VERSION:
            raise CaptureError(f"{summary}: version {document['version']}, not {VERSION}")
        rows = [row for connection in document["connections"] for row in _rows(connection)]
        table = pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame(schema=_no_connections())
        return Connections(_typed(table), CaptureCounts(**document["capture"]), problem)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CaptureError(f"{summary}: not a summary of ccmix-capflow: {error!r}") from error


def read_packets(series: Path, connections: Connections) -> pl.DataFrame:
    """Reads a --series file and returns the packets table, ordered by connection, direction and time.

    Leaves out a last line that a crash has cut short. Raises CaptureError.
    """
    try:
        text = series.read_bytes()
        text = text[: text.rfind(b"\n") + 1]
        header = next(csv.reader(io.StringIO(text.partition(b"\n")[0].decode())), [])
        if header != list(SERIES):
            raise CaptureError(f"{series}: not the columns of ccmix-capflow's series")
        table = pl.read_csv(io.BytesIO(text), schema=dict(SERIES))
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise CaptureError(f"{series}: not a series of ccmix-capflow: {error}") from error
    ends = connections.table.select("connection", "direction", *ENDS)
    return (
        table.join(ends, on=["connection", "direction"], how="left", maintain_order="left")
        .select(*ENDS, *SERIES)
        .sort("connection", "direction", "time_s", maintain_order=True)
    )


def _rows(connection: Mapping[str, Value]) -> Sequence[dict[str, Value]]:
    common = {key: connection[key] for key in ("connection", "first_time_s", "last_time_s", "complete")}
    rows = []
    for direction, (source, destination) in DIRECTIONS.items():
        ends = {
            "source_address": connection[f"{source}_address"],
            "source_port": connection[f"{source}_port"],
            "destination_address": connection[f"{destination}_address"],
            "destination_port": connection[f"{destination}_port"],
        }
        of_direction = connection[direction]
        assert isinstance(of_direction, dict)
        rows.append({**ends, "direction": direction, **common, **of_direction})
    return rows


def _no_connections() -> dict[str, type[pl.DataType]]:
    return {
        **ENDS,
        "direction": pl.String,
        "connection": pl.Int64,
        "first_time_s": pl.Float64,
        "last_time_s": pl.Float64,
        "complete": pl.Boolean,
    }


def _typed(table: pl.DataFrame) -> pl.DataFrame:
    """Makes a column without any value one of numbers, like the others."""
    empty = [name for name, kind in table.schema.items() if kind == pl.Null]
    return table.with_columns(pl.col(name).cast(pl.Float64 if name.endswith("_s") else pl.Int64) for name in empty)
