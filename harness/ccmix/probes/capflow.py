"""What ccmix-capflow makes of a packet capture, as tables. probes/capflow/README.md defines every column.

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
from typing import Any

import polars as pl

from ccmix import tools

VERSION = 1  # of the summary's format
DIRECTIONS = {"a2b": ("a", "b"), "b2a": ("b", "a")}  # of which end to which

# The columns of the series, in their order. Empty is null: not known.
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
# What packets.parquet has before them, from the connections.
ENDS: Mapping[str, type[pl.DataType]] = {
    "source_address": pl.String,
    "source_port": pl.Int64,
    "destination_address": pl.String,
    "destination_port": pl.Int64,
}


class CaptureError(Exception):
    """A capture can't be read, or what capflow wrote can't be."""


@dataclass(frozen=True)
class Connections:
    """`table` has a row per connection and direction; `capture` says what was in the capture."""

    table: pl.DataFrame
    capture: Mapping[str, Any]
    problem: str | None = None  # why the capture's end is missing; what stands before it counts


def command(capture: str, interval_s: float, series: Path, summary: Path) -> list[str]:
    """The command that writes both files; `capture` is a file or "-", standard input. Raises tools.ToolError."""
    binary = str(tools.find_capflow())
    interval = f"--interval={interval_s * 1e3:g}ms"
    return [binary, interval, f"--series={series}", f"--summary-json={summary}", "--", capture]


def convert(capture: Path, interval_s: float = 0.1) -> tuple[pl.DataFrame, Connections]:
    """The packets table and the connections of a capture, which zstd may have compressed (.zst).

    Raises CaptureError, tools.ToolError.
    """
    with tempfile.TemporaryDirectory(prefix="ccmix-capture-") as folder:
        series, summary = Path(folder, "series.csv"), Path(folder, "summary.json")
        if capture.suffix == ".zst":
            done = _run_decompressed(capture, command("-", interval_s, series, summary))
        else:
            argv = command(str(capture), interval_s, series, summary)
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        said = done.stderr.strip()
        # 1: the capture is cut or damaged, and results are there
        if done.returncode not in {0, 1} or not summary.exists():
            raise CaptureError(said or f"ccmix-capflow ended with status {done.returncode}")
        connections = read_connections(summary, problem=said or None)
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
        zstd.stdout.close()  # so that it ends, whatever it still has
        said = zstd.stderr.read().decode(errors="replace").strip()
    # What could be decompressed counts, as of a capture that is cut
    status = done.returncode or int(bool(said))
    return subprocess.CompletedProcess(argv, status, stderr="; ".join(filter(None, (done.stderr.strip(), said))))


def read_connections(summary: Path, problem: str | None = None) -> Connections:
    """The connections of a --summary-json file. Raises CaptureError."""
    try:
        document = json.loads(summary.read_text())
        if document["version"] != VERSION:
            raise CaptureError(f"{summary}: version {document['version']}, not {VERSION}")
        rows = [row for connection in document["connections"] for row in _rows(connection)]
        table = pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame(schema=_no_connections())
        return Connections(_typed(table), document["capture"], problem)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CaptureError(f"{summary}: not a summary of ccmix-capflow: {error!r}") from error


def read_packets(series: Path, connections: Connections) -> pl.DataFrame:
    """The packets table of a --series file, ordered by connection, direction and time. A last line that a crash has
    cut short is left out. Raises CaptureError."""
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


def _rows(connection: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    common = {key: connection[key] for key in ("connection", "first_time_s", "last_time_s", "complete")}
    rows = []
    for direction, (source, destination) in DIRECTIONS.items():
        ends = {
            "source_address": connection[f"{source}_address"],
            "source_port": connection[f"{source}_port"],
            "destination_address": connection[f"{destination}_address"],
            "destination_port": connection[f"{destination}_port"],
        }
        rows.append({**ends, "direction": direction, **common, **connection[direction]})
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
    """What no connection has a value for is a number all the same."""
    empty = [name for name, kind in table.schema.items() if kind == pl.Null]
    return table.with_columns(pl.col(name).cast(pl.Float64 if name.endswith("_s") else pl.Int64) for name in empty)
