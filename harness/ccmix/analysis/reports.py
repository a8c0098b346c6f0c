"""Reads the reports of the programs that made the traffic: what they did, to compare that with the
configuration, and how long each flow took that ends by itself."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.generators.http_requests import is_whole, read_answers
from ccmix.model import HttpSource, Run, TrafficSource, WorkloadSource, run_files
from ccmix.model.results import CompletionMetrics

_URLS = re.compile(r"/\[1-(\d+)\]")  # as generators.http_requests.curl() asks for
COLUMNS = {
    "group": pl.String,
    "host": pl.String,
    "number": pl.Int64,
    "start_s": pl.Float64,
    "bytes": pl.Int64,
    "seconds": pl.Float64,
    "connect_s": pl.Float64,
    "first_byte_s": pl.Float64,
}


@dataclass(frozen=True)
class Iperf3TestReport:
    """Holds the report of iperf3 about a test. Its start is by the wall clock."""

    protocol: str  # 'TCP' or 'UDP'
    streams: int
    duration_s: float
    omit_s: float
    lasted_s: float | None  # as counted; None if the result has no sum
    interval_s: float | None  # None: an iperf3 without ccmix's patches doesn't report it
    rate_bps: float  # of each stream of UDP
    connected_s: float | None
    groups: Mapping[int, int]  # number of the group, from 1, by port; empty without groups
    datagrams: int = 0  # of UDP, the two that connect each stream included


@dataclass(frozen=True)
class ServiceReport:
    """Holds the report about a source that is not iperf3's. Times are by the wall clock.

    flows: of a workload, when each was to begin after the start, when it began after the first, and
        its bytes
    connections: to its server, or of a command, as far as the probe tells sockets apart
    """

    first_s: float | None  # the first sample of a socket that had sent data
    ccas: frozenset[str]  # on its sockets
    clients: int = 0
    requests: int = 0  # that the clients were asked to make
    answers_bytes: frozenset[int] = frozenset()  # sizes of the whole answers
    flows: tuple[tuple[float, float, int], ...] = ()
    connections: int = 0


def iperf3_report(client: dict[str, Any]) -> Iperf3TestReport | None:
    """Reads a client's JSON. Returns None if it doesn't describe the test. Raises KeyError,
    ValueError or TypeError.
    """
    start, end = client["start"], client["end"]
    test = start.get("test_start")
    if not test:
        return None
    total = end.get("sum_sent") or end.get("sum") or {}
    milliseconds = start.get("timestamp", {}).get("timemillisecs")
    return Iperf3TestReport(
        protocol=test["protocol"],
        streams=test["num_streams"],
        duration_s=float(test["duration"]),
        omit_s=float(test["omit"]),
        lasted_s=total.get("seconds"),
        interval_s=test.get("interval"),
        rate_bps=float(test.get("target_bitrate", 0)),
        connected_s=None if milliseconds is None else milliseconds / 1e3,
        groups={
            stream["local_port"]: stream["group"]
            for stream in start["connected"]
            if "group" in stream
        },
        datagrams=2 * test["num_streams"] * (test["protocol"] == "UDP")
        + sum(
            stream.get("packets", 0)
            for interval in client["intervals"]
            for stream in interval["streams"]
        ),
    )


def service_report(
    source: TrafficSource,
    generators: Path,
    commands: Mapping[str, list[str]],
    sockets: pl.DataFrame,
    idle_bytes: int,
) -> ServiceReport:
    """Reads the files of a source that is not iperf3's. `sockets` are those of the source;
    `commands` are by their role.

    Raises ValueError or OSError if a file is not what its program writes.
    """
    sending = sockets.filter(pl.col("bytes_sent") > idle_bytes)
    first_s = sending["time_s"].min()
    report = ServiceReport(
        first_s=first_s if isinstance(first_s, float) else None,
        ccas=frozenset(cca for cca in sending["cca"].drop_nulls().unique() if cca),
        connections=sockets["cookie"].drop_nulls().n_unique() if "cookie" in sockets.columns else 0,
    )
    if isinstance(source, HttpSource):
        return _http(source, generators, commands, report)
    if isinstance(source, WorkloadSource):
        return _workload(source, generators, report)
    return report


def _http(
    source: HttpSource, generators: Path, commands: Mapping[str, list[str]], report: ServiceReport
) -> ServiceReport:
    service = run_files.http(source.label)
    outputs = sorted(generators.glob(f"{service}-client-*.txt"))
    answers = [answer for output in outputs for answer in read_answers(output)]
    lines = commands.get(f"{source.label} clients", [])
    return replace(
        report,
        clients=len(outputs),
        requests=sum(int(count) for line in lines for count in _URLS.findall(line)),
        answers_bytes=frozenset(
            int(answer["size_download"]) for answer in answers if answer["http_code"] == "200"
        ),
    )


def _workload(source: WorkloadSource, generators: Path, report: ServiceReport) -> ServiceReport:
    service = run_files.workload(source.label)
    schedule = [
        line.split() for line in (generators / run_files.schedule(service)).read_text().splitlines()
    ]
    begun = [
        line.split()
        for line in (generators / run_files.client_output(service)).read_text().splitlines()
    ]
    first_s = float(begun[0][1]) if begun else 0.0
    flows = tuple(
        (float(schedule[int(number)][0]), float(began_s) - first_s, int(schedule[int(number)][1]))
        for number, began_s in begun
    )
    return replace(report, flows=flows)


def read_completions(run: Run, generators: Path) -> pl.DataFrame:
    """Returns a row for each flow that began: COLUMNS. `group` is as in the run's metrics.

    seconds: for http from the start of the request, including its connection, to the last byte
        (curl's time_total); for a workload from the start of the connection to the last byte at the
        receiver; null if the flow was cut off
    start_s: from the start of the traffic; a client of http begins a request as soon as the
        previous one has ended
    bytes: null if an http request was cut off
    connect_s, first_byte_s: curl's time_connect and time_starttransfer

    Raises ValueError if a file is not what its program writes.
    """
    rows: list[dict[str, object]] = []
    for source in sources_of_short_flows(run):
        named = {"group": run.group_name(source), "host": source.host}
        completed = (
            _http_completions(source, generators)
            if isinstance(source, HttpSource)
            else _workload_completions(source, generators)
        )
        rows += (named | row for row in completed)
    return pl.DataFrame(rows, schema=COLUMNS)


def sources_of_short_flows(run: Run) -> list[HttpSource | WorkloadSource]:
    """Returns the sources whose flows are counted together, without a row for each flow in the
    tables.
    """
    return [
        source for source in run.traffic.sources if isinstance(source, HttpSource | WorkloadSource)
    ]


def _http_completions(source: HttpSource, generators: Path) -> Iterable[dict[str, object]]:
    """Yields the requests client by client. A client that was ended before its last request had
    already begun another request, which was cut off.
    """
    rows: list[dict[str, object]] = []
    for client, requests in enumerate(source.requests_of_clients):
        answers = read_answers(
            generators / run_files.client_output(run_files.http(source.label), client)
        )
        ends_s = [
            *accumulate((float(answer["time_total"]) for answer in answers), initial=source.start_s)
        ]
        rows += (
            {
                "start_s": start_s,
                "bytes": int(answer["size_download"]),
                "connect_s": float(answer["time_connect"]),
                "seconds": float(answer["time_total"]) if is_whole(answer, source) else None,
                "first_byte_s": float(answer["time_starttransfer"]),
            }
            for answer, start_s in zip(answers, ends_s, strict=False)
        )
        if len(answers) < requests:
            rows.append({"bytes": None, "start_s": ends_s[-1]})
    return [{"number": number} | row for number, row in enumerate(rows)]


def _workload_completions(source: WorkloadSource, generators: Path) -> Iterable[dict[str, object]]:
    service = run_files.workload(source.label)
    files = (
        run_files.schedule(service),
        run_files.client_output(service),
        run_files.server_output(service),
    )
    schedule, begun, received = (_rows_of(generators / file) for file in files)
    ends_s = {int(number): float(end_s) for number, _, end_s in received}
    for text, start in begun:
        number, start_s = int(text), float(start)
        yield {
            "number": number,
            "start_s": source.start_s + float(schedule[number][0]),
            "bytes": int(schedule[number][1]),
            "seconds": ends_s[number] - start_s if number in ends_s else None,
        }


def _rows_of(file: Path) -> list[list[str]]:
    return [row.split() for row in file.read_text().splitlines()]


def completion_metrics(run: Run, completions: pl.DataFrame) -> tuple[CompletionMetrics, ...]:
    """Returns for each source of short flows and host how many flows began and completed, and the
    times of the completed flows.

    Flows that began in the omitted time are left out. Percentiles are interpolated linearly.
    """
    metrics = []
    for source in sources_of_short_flows(run):
        own = completions.filter(
            pl.col("group") == run.group_name(source), pl.col("start_s") >= run.traffic.omit_s
        )
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
