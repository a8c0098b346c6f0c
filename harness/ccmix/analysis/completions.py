"""Flows that end by themselves, http's requests and workloads' flows: how long each took."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.generators.lines import beside, client_file, http_answers, is_whole
from ccmix.model import Flows, HttpFlows, Run, WorkloadFlows

FILE = "completions.parquet"
COLUMNS = {
    "group": pl.String, "host": pl.String, "number": pl.Int64, "start_s": pl.Float64, "bytes": pl.Int64,
    "seconds": pl.Float64, "connect_s": pl.Float64, "first_byte_s": pl.Float64,
}  # fmt: skip


def read_completions(run: Run, generators: Path) -> pl.DataFrame:
    """One row a flow that was begun; COLUMNS. `group` as in the run's metrics.

    seconds: http: from the start of the request, its connection included, to the last byte (curl's time_total);
             workload: from the start of the connection to the last byte at the receiver; null where it was cut off
    start_s: of a workload's flow, after the line's first; null for http, which begins one request after the other
    bytes: of an http request that was cut off null
    connect_s, first_byte_s: curl's time_connect and time_starttransfer
    Raises ValueError where a file is not what its program writes.
    """
    rows: list[dict[str, Any]] = []
    for line in lines_of_short_flows(run):
        named = {"group": run.group_name(line), "host": line.host}
        if isinstance(line.what, HttpFlows):
            found = _http(line.what, generators / f"{line.label}-http")
        else:
            found = _workload(generators / f"{line.label}-workload")
        rows += (named | row for row in found)
    return pl.DataFrame(rows, schema=COLUMNS)


def _cca(what: Any) -> str:
    return str(what.http_cca if isinstance(what, HttpFlows) else what.workload_cca)


def lines_of_short_flows(run: Run) -> list[Flows]:
    """Those whose flows are counted, and not told apart in the tables of flows."""
    return [line for line in run.traffic.flows if isinstance(line.what, HttpFlows | WorkloadFlows)]


def _http(what: HttpFlows, stem: Path) -> Iterable[dict[str, Any]]:
    """Client after client; one that was ended before its last request had begun another."""
    rows: list[dict[str, Any]] = []
    for client, requests in enumerate(what.requests_of_clients):
        answers = http_answers(client_file(stem, client))
        rows += (
            {
                "bytes": int(said["size_download"]), "connect_s": float(said["time_connect"]),
                "seconds": float(said["time_total"]) if is_whole(said, what) else None,
                "first_byte_s": float(said["time_starttransfer"]),
            }
            for said in answers
        )  # fmt: skip
        if len(answers) < requests:
            rows.append({"bytes": None})
    return [{"number": number} | row for number, row in enumerate(rows)]


def _workload(stem: Path) -> Iterable[dict[str, Any]]:
    schedule = [row.split() for row in beside(stem, "schedule.txt").read_text().splitlines()]
    begun = [row.split() for row in client_file(stem, 0).read_text().splitlines()]
    received = [row.split() for row in beside(stem, "server.txt").read_text().splitlines()]
    ends_s = {int(number): float(end_s) for number, _, end_s in received}
    first_s = float(begun[0][1]) if begun else 0.0
    for text, start in begun:
        number, start_s = int(text), float(start)
        yield {
            "number": number, "start_s": start_s - first_s, "bytes": int(schedule[number][1]),
            "seconds": ends_s[number] - start_s if number in ends_s else None,
        }  # fmt: skip


def completion_metrics(run: Run, completions: pl.DataFrame) -> list[dict[str, Any]]:
    """By line and host: flows begun, and those through; of the latter their times in seconds, interpolated linearly,
    None where none was through.
    """
    found = []
    for line in lines_of_short_flows(run):
        own = completions.filter(pl.col("group") == run.group_name(line))
        seconds = own["seconds"].drop_nulls()
        found.append(
            {
                "group": run.group_name(line),
                "host": line.host,
                "cca": _cca(line.what),
                "begun": own.height,
                "completed": seconds.len(),
                "mean_s": seconds.mean(),
                **{
                    f"{quantile}_s": seconds.quantile(share, "linear")
                    for quantile, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99))
                },
            }
        )
    return found
