"""Flows that end by themselves, http's requests and workloads' flows: how long each took."""

from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path

import polars as pl

from ccmix.generators.http_requests import is_whole, read_answers
from ccmix.model import HttpSource, Run, WorkloadSource, run_files
from ccmix.model.results import CompletionMetrics

COLUMNS = {
    "group": pl.String, "host": pl.String, "number": pl.Int64, "start_s": pl.Float64, "bytes": pl.Int64,
    "seconds": pl.Float64, "connect_s": pl.Float64, "first_byte_s": pl.Float64,
}  # fmt: skip


def read_completions(run: Run, generators: Path) -> pl.DataFrame:
    """Returns a row for each flow that was begun: COLUMNS. `group` as in the run's metrics.

    seconds: http: from the start of the request, its connection included, to the last byte (curl's time_total);
             workload: from the start of the connection to the last byte at the receiver; null where it was cut off
    start_s: from the start of the traffic; a client of http begins one request as soon as the one before has ended
    bytes: of an http request that was cut off null
    connect_s, first_byte_s: curl's time_connect and time_starttransfer
    Raises ValueError where a file is not what its program writes.
    """
    rows: list[dict[str, object]] = []
    for source in sources_of_short_flows(run):
        named = {"group": run.group_name(source), "host": source.host}
        completed = _http(source, generators) if isinstance(source, HttpSource) else _workload(source, generators)
        rows += (named | row for row in completed)
    return pl.DataFrame(rows, schema=COLUMNS)


def sources_of_short_flows(run: Run) -> list[HttpSource | WorkloadSource]:
    """Returns the sources whose flows are counted, and have no rows of their own in the tables of flows."""
    return [source for source in run.traffic.sources if isinstance(source, HttpSource | WorkloadSource)]


def _http(source: HttpSource, generators: Path) -> Iterable[dict[str, object]]:
    """Yields client after client; one that was ended before its last request had begun another."""
    rows: list[dict[str, object]] = []
    for client, requests in enumerate(source.requests_of_clients):
        answers = read_answers(generators / run_files.client_output(run_files.http(source.label), client))
        ends_s = [*accumulate((float(answer["time_total"]) for answer in answers), initial=source.start_s)]
        rows += (
            {
                "start_s": start_s,
                "bytes": int(answer["size_download"]), "connect_s": float(answer["time_connect"]),
                "seconds": float(answer["time_total"]) if is_whole(answer, source) else None,
                "first_byte_s": float(answer["time_starttransfer"]),
            }
            for answer, start_s in zip(answers, ends_s, strict=False)
        )  # fmt: skip
        if len(answers) < requests:
            rows.append({"bytes": None, "start_s": ends_s[-1]})
    return [{"number": number} | row for number, row in enumerate(rows)]


def _workload(source: WorkloadSource, generators: Path) -> Iterable[dict[str, object]]:
    service = run_files.workload(source.label)
    files = (run_files.schedule(service), run_files.client_output(service), run_files.server_output(service))
    schedule, begun, received = (_columns(generators / file) for file in files)
    ends_s = {int(number): float(end_s) for number, _, end_s in received}
    for text, start in begun:
        number, start_s = int(text), float(start)
        yield {
            "number": number, "start_s": source.start_s + float(schedule[number][0]), "bytes": int(schedule[number][1]),
            "seconds": ends_s[number] - start_s if number in ends_s else None,
        }  # fmt: skip


def _columns(file: Path) -> list[list[str]]:
    return [row.split() for row in file.read_text().splitlines()]


def completion_metrics(run: Run, completions: pl.DataFrame) -> tuple[CompletionMetrics, ...]:
    """Returns for each source of short flows and host: flows begun and completed, and the completed ones' times.

    Those that were begun in the omitted time are left out. Percentiles are interpolated linearly.
    """
    metrics = []
    for source in sources_of_short_flows(run):
        own = completions.filter(pl.col("group") == run.group_name(source), pl.col("start_s") >= run.traffic.omit_s)
        seconds = own["seconds"].drop_nulls()
        mean_s = seconds.mean()
        metrics.append(
            CompletionMetrics(
                group=run.group_name(source),
                host=source.host,
                cca=source.cca,
                begun=own.height,
                completed=seconds.len(),
                mean_s=mean_s if isinstance(mean_s, float) else None,
                median_s=seconds.quantile(0.5, "linear"),
                p95_s=seconds.quantile(0.95, "linear"),
                p99_s=seconds.quantile(0.99, "linear"),
            )
        )
    return tuple(metrics)
