"""Flows that end by themselves, http's requests and workloads' flows: how long each took."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.generators.lines import HTTP_COLUMNS, beside, client_file
from ccmix.model import Flows, HttpFlows, Run, WorkloadFlows

FILE = "completions.parquet"
COLUMNS = {
    "group": pl.String, "host": pl.String, "number": pl.Int64, "start_s": pl.Float64, "bytes": pl.Int64,
    "seconds": pl.Float64, "connect_s": pl.Float64, "first_byte_s": pl.Float64,
}  # fmt: skip


def read_completions(run: Run, generators: Path) -> pl.DataFrame:
    """One row a flow that was begun; COLUMNS.

    seconds: http: from the start of the request, its connection included, to the last byte (curl's time_total);
             workload: from the start of the connection to the last byte at the receiver; null where it was cut off
    start_s: of a workload's flow, after the line's first; null for http, which begins one request after the other
    connect_s, first_byte_s: curl's time_connect and time_starttransfer
    Raises ValueError where a file is not what its program writes.
    """
    rows: list[dict[str, Any]] = []
    for line in run.traffic.flows:
        if isinstance(line.what, HttpFlows):
            rows += _http(line, line.what, generators / f"{line.label}-http")
        elif isinstance(line.what, WorkloadFlows):
            rows += _workload(line, generators / f"{line.label}-workload")
    return pl.DataFrame(rows, schema=COLUMNS)


def _http(line: Flows, what: HttpFlows, stem: Path) -> Iterable[dict[str, Any]]:
    """Client after client. A request that was not answered with 200, or not to its end, has no time."""
    told = [client_file(stem, number).read_text().splitlines() for number in range(what.parallel)]
    for number, text in enumerate(itertools.chain(*told)):
        said = dict(zip(HTTP_COLUMNS, text.split(), strict=True))
        whole = said["http_code"] == "200" and int(said["size_download"]) == what.size_bytes
        yield {
            "group": line.name, "host": line.host, "number": number, "bytes": int(said["size_download"]),
            "seconds": float(said["time_total"]) if whole else None, "connect_s": float(said["time_connect"]),
            "first_byte_s": float(said["time_starttransfer"]),
        }  # fmt: skip


def _workload(line: Flows, stem: Path) -> Iterable[dict[str, Any]]:
    schedule = [row.split() for row in beside(stem, "schedule.txt").read_text().splitlines()]
    begun = [row.split() for row in client_file(stem, 0).read_text().splitlines()]
    received = [row.split() for row in beside(stem, "server.txt").read_text().splitlines()]
    ends_s = {int(number): float(end_s) for number, _, end_s in received}
    first_s = float(begun[0][1]) if begun else 0.0
    for text, start in begun:
        number, start_s = int(text), float(start)
        yield {
            "group": line.name, "host": line.host, "number": number, "start_s": start_s - first_s,
            "bytes": int(schedule[number][1]), "seconds": ends_s[number] - start_s if number in ends_s else None,
        }  # fmt: skip


def completion_metrics(run: Run, completions: pl.DataFrame) -> list[dict[str, Any]]:
    """By line: flows begun, and those through; of the latter their times in seconds, interpolated linearly."""
    found = []
    for name in completions["group"].unique(maintain_order=True):
        own = completions.filter(pl.col("group") == name)
        through = own.drop_nulls("seconds")
        seconds = through["seconds"]
        found.append(
            {
                "group": name,
                "cca": _cca(run, name),
                "begun": own.height,
                "completed": through.height,
                "goodput_bps": int(through["bytes"].sum()) * 8 / run.traffic.seconds,
                "mean_s": seconds.mean(),
                **{
                    f"{quantile}_s": seconds.quantile(share, "linear")
                    for quantile, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99))
                },
            }
        )
    return found


def _cca(run: Run, name: str) -> str:
    for line in run.traffic.flows:
        match line.what:
            case HttpFlows(http_cca=cca) | WorkloadFlows(workload_cca=cca) if line.name == name:
                return cca
    return "-"
