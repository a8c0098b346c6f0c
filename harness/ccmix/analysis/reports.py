"""Reads what the programs that made a run's traffic (iperf3, curl, others) report about it.

The reports are compared with the configuration. They also have the completion time of each short
flow: an http request, or a flow of a workload.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.analysis.measured import percentiles
from ccmix.generators.http_requests import is_whole, read_answers
from ccmix.model import Command, HttpSource, Run, TrafficSource, WorkloadSource, run_files
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
    """Holds what iperf3 reports about a test, to compare it with the configuration."""

    protocol: str  # 'TCP' or 'UDP'
    streams: int
    duration_s: float
    omit_s: float
    lasted_s: float | None  # as counted; None if the result has no sum
    interval_s: float | None  # None: an iperf3 without ccmix's patches doesn't report it
    rate_bps: float  # of each stream of UDP
    connected_s: float | None  # when the client connected, in seconds since 1970
    groups: Mapping[int, int]  # number of the group, from 1, by port; empty without groups
    datagrams: int = 0  # of UDP, the two that connect each stream included


@dataclass(frozen=True)
class ServiceReport:
    """Holds what is known about the traffic of a source without iperf3 (http, a workload, or a
    command), to compare it with the configuration.

    flows: the flows of a workload that began. Each has its planned start, in seconds after the
        start of the source; its actual start, in seconds after the first flow; and its bytes
    connections: the number of connections to the source's server, or of a command; 0 if the probe
        cannot tell sockets apart
    """

    first_s: float | None  # when a socket was first seen to have sent data, by the wall clock
    ccas: frozenset[str]  # on its sockets
    clients: int = 0
    requests: int = 0  # that the clients were asked to make
    answers_bytes: frozenset[int] = frozenset()  # sizes of the whole answers
    flows: tuple[tuple[float, float, int], ...] = ()
    connections: int = 0


def iperf3_report(client: dict[str, Any]) -> Iperf3TestReport | None:
    """Reads what iperf3's client reports about its test, from its JSON. Returns None if the JSON
    lacks the parameters of the test. Raises KeyError, ValueError or TypeError if it is not what
    iperf3 writes.
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
    commands: Iterable[Command],
    sockets: pl.DataFrame,
    idle_bytes: int,
) -> ServiceReport:
    """Reports what a source without iperf3 (http, a workload, or a command) really did, from its
    sockets and the files of its programs.

    generators: the folder of these files
    commands: the commands that were run, with their roles, such as 'web clients'
    sockets: samples of the source's sockets
    idle_bytes: a socket that has sent no more than this has not sent any data

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
    source: HttpSource,
    generators: Path,
    commands: Iterable[Command],
    report: ServiceReport,
) -> ServiceReport:
    """Adds to the report how many curl clients ran, how many requests their command lines ask for,
    and the sizes of the answers with status 200.
    """
    service = run_files.http(source.label)
    outputs = sorted(generators.glob(f"{service}-client-*.txt"))
    answers = [answer for output in outputs for answer in read_answers(output)]
    lines = [executed.line for executed in commands if executed.role == f"{source.label} clients"]
    return replace(
        report,
        clients=len(outputs),
        requests=sum(int(count) for line in lines for count in _URLS.findall(line)),
        answers_bytes=frozenset(
            int(answer["size_download"]) for answer in answers if answer["http_code"] == "200"
        ),
    )


def _workload(source: WorkloadSource, generators: Path, report: ServiceReport) -> ServiceReport:
    """Adds to the report the planned start, the actual start and the bytes of each flow that began.
    They are read from the schedule (a line 'seconds bytes' for each flow) and from the client's
    output (a line 'number seconds' for each flow).
    """
    service = run_files.workload(source.label)
    schedule = _read_rows(generators / run_files.schedule(service))
    started = _read_rows(generators / run_files.client_output(service))
    first_s = float(started[0][1]) if started else 0.0
    flows = []
    for number, start_s in started:
        planned_s, size_bytes = schedule[int(number)]
        flows.append((float(planned_s), float(start_s) - first_s, int(size_bytes)))
    return replace(report, flows=tuple(flows))


def read_completions(run: Run, generators: Path) -> pl.DataFrame:
    """Reads how long each short flow of a run took: an http request, or a flow of a workload.
    Returns COLUMNS, a row for each flow that began. `generators` is the folder of their files.

    group: the name of the source's group in the run's metrics
    start_s: from the start of the traffic; a client of http begins a request as soon as the
        previous one has ended
    bytes: null if an http request was cut off
    seconds: the completion time, or null if the flow was cut off: for http from the start of the
        request, connection included, to the last byte (curl's time_total); for a workload from the
        start of the connection to the last byte at the receiver
    connect_s, first_byte_s: curl's time_connect and time_starttransfer; null for a workload

    Raises ValueError if a file is not what its program writes.
    """
    rows: list[dict[str, object]] = []
    for source in sources_of_short_flows(run):
        source_columns = {"group": run.group_name(source), "host": source.host}
        flows = (
            _http_completions(source, generators)
            if isinstance(source, HttpSource)
            else _workload_completions(source, generators)
        )
        rows += (source_columns | flow for flow in flows)
    return pl.DataFrame(rows, schema=COLUMNS)


def sources_of_short_flows(run: Run) -> list[HttpSource | WorkloadSource]:
    """Returns the traffic sources that send many short flows: the metrics treat all flows of such a
    source together, and do not list each of them.
    """
    return [
        source for source in run.traffic.sources if isinstance(source, HttpSource | WorkloadSource)
    ]


def _http_completions(source: HttpSource, generators: Path) -> Iterable[dict[str, object]]:
    """Returns the columns of each http request, client by client, from the output of curl.

    curl writes a line only for a request that has ended. A client with fewer lines than requests
    was ended during its next request, for which a row without a completion time is added.
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
    """Yields the columns of each flow of a workload that began, from the schedule and the outputs
    of its client and its server.
    """
    service = run_files.workload(source.label)
    files = (
        run_files.schedule(service),
        run_files.client_output(service),
        run_files.server_output(service),
    )
    schedule, started, received = (_read_rows(generators / file) for file in files)
    ends_s = {int(number): float(end_s) for number, _, end_s in received}
    for number_text, start_text in started:
        number, start_s = int(number_text), float(start_text)
        yield {
            "number": number,
            "start_s": source.start_s + float(schedule[number][0]),
            "bytes": int(schedule[number][1]),
            "seconds": ends_s[number] - start_s if number in ends_s else None,
        }


def _read_rows(file: Path) -> list[list[str]]:
    """Returns the words of each line of a file."""
    return [row.split() for row in file.read_text().splitlines()]


def completion_metrics(run: Run, completions: pl.DataFrame) -> tuple[CompletionMetrics, ...]:
    """Returns for each source of short flows how many of them began and completed, with the mean
    and percentiles (interpolated linearly) of their completion times in seconds.

    Flows that began in the omitted time are left out. `completions` is from read_completions().
    """
    metrics = []
    for source in sources_of_short_flows(run):
        flows = completions.filter(
            pl.col("group") == run.group_name(source), pl.col("start_s") >= run.traffic.omit_s
        )
        seconds = flows["seconds"].drop_nulls()
        mean_s = seconds.mean()
        metrics.append(
            CompletionMetrics(
                group=run.group_name(source),
                host=source.host,
                cca=source.cca,
                begun=flows.height,
                completed=seconds.len(),
                mean_s=mean_s if isinstance(mean_s, float) else None,
                **percentiles(seconds, "{}_s"),
            )
        )
    return tuple(metrics)
