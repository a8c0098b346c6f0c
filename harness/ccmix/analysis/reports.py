"""Reads what the traffic's own programs report that they did, to compare it with what they were asked for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.generators.http_requests import read_answers
from ccmix.model import HttpSource, TrafficSource, WorkloadSource, run_files

_URLS = re.compile(r"/\[1-(\d+)\]")  # as generators.http_requests.curl() asks for


@dataclass(frozen=True)
class Iperf3TestReport:
    """Holds what iperf3 reports about a test. Times of its own start are of the wall clock."""

    protocol: str  # 'TCP' or 'UDP'
    streams: int
    duration_s: float
    omit_s: float
    lasted_s: float | None  # as counted; None where the result has no sum
    interval_s: float | None  # None: an iperf3 without ccmix's patches doesn't report it
    rate_bps: float  # of each stream of UDP
    connected_s: float | None
    groups: Mapping[int, int]  # number of the group, from 1, by port; empty without groups
    datagrams: int = 0  # of UDP, the two that connect each stream included


@dataclass(frozen=True)
class ServiceReport:
    """Holds what is left of a source that iperf3 did not make. Times are of the wall clock.

    flows: of a workload, when each was to begin after the start, when it began after the first, and its bytes
    connections: that led to its server, or of a command, as far as the probe tells sockets apart
    """

    first_s: float | None  # the first sample of a socket that had sent data
    ccas: frozenset[str]  # on its sockets
    clients: int = 0
    requests: int = 0  # that the clients were asked to make
    answers_bytes: frozenset[int] = frozenset()  # sizes of the whole answers
    flows: tuple[tuple[float, float, int], ...] = ()
    connections: int = 0


def iperf3_report(client: dict[str, Any]) -> Iperf3TestReport | None:
    """Reads a client's JSON; None where it doesn't say what the test was. Raises KeyError, ValueError or TypeError."""
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
        groups={stream["local_port"]: stream["group"] for stream in start["connected"] if "group" in stream},
        datagrams=2 * test["num_streams"] * (test["protocol"] == "UDP")
        + sum(stream.get("packets", 0) for interval in client["intervals"] for stream in interval["streams"]),
    )


def service_report(
    source: TrafficSource, generators: Path, commands: Mapping[str, list[str]], sockets: pl.DataFrame, idle_bytes: int
) -> ServiceReport:
    """Reads the files of a source that is not iperf3's. `sockets` are its own; `commands` are by their role.

    Raises ValueError or OSError where a file is not what its program writes.
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
        answers_bytes=frozenset(int(answer["size_download"]) for answer in answers if answer["http_code"] == "200"),
    )


def _workload(source: WorkloadSource, generators: Path, report: ServiceReport) -> ServiceReport:
    service = run_files.workload(source.label)
    schedule = [line.split() for line in (generators / run_files.schedule(service)).read_text().splitlines()]
    begun = [line.split() for line in (generators / run_files.client_output(service)).read_text().splitlines()]
    first_s = float(begun[0][1]) if begun else 0.0
    flows = tuple(
        (float(schedule[int(number)][0]), float(began_s) - first_s, int(schedule[int(number)][1]))
        for number, began_s in begun
    )
    return replace(report, flows=flows)
