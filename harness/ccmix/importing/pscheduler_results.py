"""Turns results of pScheduler's throughput tests into runs: of its command, REST interface, archivers, and ccmix's.

If a participant's diagnostics have iperf3's own JSON, that is read; else the result in pScheduler's format.
"""

import math
import re
from dataclasses import replace
from typing import Any

import polars as pl

from ccmix.analysis.iperf3_tables import REPORTED_COLUMNS
from ccmix.analysis.pscheduler_tables import read_flows, read_intervals
from ccmix.analysis.series import SRC, read_series
from ccmix.analysis.tables import RunTables
from ccmix.generators.pscheduler.task import timestamp_s
from ccmix.generators.results import embedded, sentence
from ccmix.importing import asked_times, iperf3_tests
from ccmix.importing.foreign_run import ForeignRun, LeftOut
from ccmix.importing.foreign_text import writable
from ccmix.importing.json_types import Object, Row
from ccmix.importing.numbers import (
    MOST_CLOCK_S,
    MOST_RATE_BPS,
    MOST_TIME_S,
    known,
    known_count,
)
from ccmix.importing.values import object_in, objects_in, text_in
from ccmix.model import Group, ImportedSource, Traffic
from ccmix.model.group_grammar import DEFAULT_CCA
from ccmix.model.results import ImportOverrides

KIND = "pscheduler"
MOST_RTT_US = 1e9
# Of a test's specification: what a run has besides, and what is no setting of the traffic
_NO_OPTIONS = (
    "schema", "source", "source-node", "dest", "dest-node", "duration", "interval", "omit", "parallel", "congestion",
    "bandwidth", "reverse", "link-rtt",
)  # fmt: skip
_DURATION = re.compile(
    r"P(?:(?P<days>\d{1,5})D)?(?:T(?:(?P<hours>\d{1,6})H)?(?:(?P<minutes>\d{1,8})M)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?"
)


def is_result(document: Object) -> bool:
    run = document.get("run")
    of_run = run if isinstance(run, dict) else document
    return bool(of_run.keys() & {"result-merged", "result-full"}) or isinstance(document.get("succeeded"), bool)


def read_run(document: Object, where: str, overrides: ImportOverrides) -> ForeignRun | LeftOut:
    """Returns the run of a result. Raises SourceError for iperf3's part."""
    run = object_in(document.get("run")) or document
    test = object_in(document.get("test")) or object_in(object_in(document.get("task")).get("test"))
    kind = test.get("type", "throughput")
    merged = object_in(run.get("result-merged")) or object_in(document.get("result")) or object_in(document)
    if kind != "throughput":
        return LeftOut(where, f"is pScheduler's result of {sentence(kind)}, and only those of throughput are imported")
    if not merged.get("succeeded"):
        why = merged.get("error") or run.get("errors") or merged.get("diags") or "it gives no reason"
        return LeftOut(where, f"the run failed: {sentence(why)}")
    spec = object_in(test.get("spec"))
    asked = text_in(spec.get("congestion"))
    known_cca = replace(overrides, cca=asked) if asked else overrides
    result = _of_iperf3(run, merged, where, known_cca) or _of_summary(spec, merged, where, known_cca)
    if isinstance(result, LeftOut):
        return result
    participants = document.get("participants") or run.get("participants")
    first = participants[0] if isinstance(participants, list) and participants else None
    src, dst = (text_in(name) for name in (spec.get("source") or first, spec.get("dest")))
    if spec.get("reverse"):
        src, dst = dst, src
    began_s = _moment_s(run.get("start-time")) or result.began_s
    of_spec = {name: value for name, value in spec.items() if name not in _NO_OPTIONS}
    options = {writable(name): writable(str(value)) for name, value in of_spec.items() if isinstance(value, str | int)}
    bitrate_bps = known(spec.get("bandwidth"), MOST_RATE_BPS) or result.bitrate_bps
    return replace(
        result,
        bitrate_bps=bitrate_bps if result.udp_bps is None else None,
        options={**result.options, **options},
        src=src or result.src,
        dst=dst or result.dst,
        dst_address=None if dst else result.dst_address,
        began_s=began_s,
        ended_s=_moment_s(run.get("end-time")) or result.ended_s,
    )


def _of_iperf3(run: Object, merged: Object, where: str, overrides: ImportOverrides) -> ForeignRun | LeftOut | None:
    full, diags = run.get("result-full"), merged.get("diags")
    texts = [part.get("diags") for part in full if isinstance(part, dict)] if isinstance(full, list) else []
    if not any(texts) and isinstance(diags, str):
        texts = [*diags.split("\nParticipant ")]
    documents = [own for text in texts if isinstance(text, str) and (own := embedded(text))]
    clients = [document for document in documents if "connecting_to" in document["start"]]
    servers = [document for document in documents if "accepted_connection" in document["start"]]
    if not clients:
        return None
    result = iperf3_tests.read_run(clients[0], where, overrides, KIND, servers[0] if servers else None)
    return replace(result, document=None) if isinstance(result, ForeignRun) else result


def _of_summary(spec: Object, merged: Object, where: str, overrides: ImportOverrides) -> ForeignRun | LeftOut:
    """Reads pScheduler's own format, which all of its tools share."""
    result = _OwnFormat(merged)
    if not result.streams:
        return LeftOut(where, "the result has no throughput")
    omit_s, duration_s = (_seconds(spec.get(name)) for name in ("omit", "duration"))
    duration_s = duration_s or asked_times.duration_s(max(stream["end"] or 0.0 for stream in result.streams))
    traffic = Traffic((ImportedSource("", SRC, (), None),), duration_s, omit_s, result.interval_s)
    throughput = {
        "summary": {"streams": result.streams, "summary": result.sums, "congestion": result.ccas},
        "intervals": result.intervals,
    }
    flows = read_flows(traffic, throughput, SRC)
    if overrides.cca and "," not in overrides.cca:
        flows = flows.with_columns(
            pl.col("cca_used").fill_null(overrides.cca),
            group=pl.when(pl.col("group") == DEFAULT_CCA).then(pl.lit(overrides.cca)).otherwise("group"),
        )
    received = "receiver-throughput-bits" in result.sums or all(
        "receiver-throughput-bits" in stream for stream in result.streams
    )
    return ForeignRun(
        kind=KIND,
        source=where,
        results=RunTables(
            flows=flows,
            intervals=read_intervals(traffic, throughput, flows),
            series=read_series(()),
            began_s=0.0,
            reported=result.reported(),
        ),
        groups=tuple(map(Group, dict.fromkeys(flows["group"]))),
        streams=flows.height,
        duration_s=duration_s,
        omit_s=omit_s,
        interval_s=result.interval_s,
        missing=("iperf3's own JSON is not there",) if result.intervals else ("it has no intervals",),
        estimated=(
            *(() if received else ("goodput_bps",)),
            *(("goodput_bps of intervals",) if result.intervals else ()),
        ),
    )


class _OwnFormat:
    """Reads a throughput test's result; a value that is no possible number is a gap."""

    def __init__(self, merged: Object) -> None:
        summary = object_in(merged.get("summary"))
        whole = object_in(summary.get("summary"))
        streams = [_stream(stream) for stream in objects_in(summary.get("streams")) or [whole]]
        self.streams = [stream for stream in streams if stream is not None][: iperf3_tests.MOST_STREAMS]
        self.sums = {
            name: rate
            for name in ("throughput-bits", "receiver-throughput-bits")
            if (rate := known(whole.get(name), MOST_RATE_BPS)) is not None
        }
        congestion = object_in(summary.get("congestion"))
        self.ccas = {str(name): writable(cca) for name, cca in congestion.items() if isinstance(cca, str) and cca}
        self.mss_bytes = known_count(merged.get("mss"))
        self.intervals = self._intervals(merged)
        lengths = [stream["end"] - stream["start"] for interval in self.intervals for stream in interval["streams"][:1]]
        self.interval_s = asked_times.interval_s(lengths)

    def _intervals(self, merged: Object) -> list[Row]:
        intervals = []
        for interval in objects_in(merged.get("intervals")):
            streams = [_stream(stream) for stream in objects_in(interval.get("streams"))]
            there = [
                stream | {"start": stream["start"] or 0.0}
                for stream in streams
                if stream is not None and stream["end"] and stream["end"] > (stream["start"] or 0.0)
            ]
            if len(there) == len(streams) == len(self.streams):
                intervals.append({"streams": there})
        return intervals

    def reported(self) -> pl.DataFrame:
        """Returns REPORTED_COLUMNS: segments as if each but the last were full, and the RTTs of the intervals."""
        rows = []
        for number, stream in enumerate(self.streams):
            size, again = stream["throughput-bytes"], stream["retransmits"]
            segments = None
            if self.mss_bytes and size is not None and again is not None:
                segments = math.ceil(size / self.mss_bytes) + again
            rtts_s = [
                interval["streams"][number]["rtt"] / 1e6
                for interval in self.intervals
                if interval["streams"][number]["rtt"] and not interval["streams"][number]["omitted"]
            ]
            rows.append((SRC, number, segments, again, rtts_s))
        return pl.DataFrame(rows, schema=REPORTED_COLUMNS, orient="row")


def _stream(stream: Object) -> Row | None:
    rate_bps = known(stream.get("throughput-bits"), MOST_RATE_BPS)
    received_bps = known(stream.get("receiver-throughput-bits"), MOST_RATE_BPS)
    if rate_bps is None:
        return None
    row = {
        "stream-id": writable(str(stream.get("stream-id"))),
        "throughput-bits": rate_bps,
        "throughput-bytes": known_count(stream.get("throughput-bytes")),
        "retransmits": known_count(stream.get("retransmits")),
        "rtt": known(stream.get("rtt"), MOST_RTT_US),
        "start": known(stream.get("start"), MOST_TIME_S),
        "end": known(stream.get("end"), MOST_TIME_S),
        "omitted": bool(stream.get("omitted")),
    }
    return row if received_bps is None else row | {"receiver-throughput-bits": received_bps}


def _moment_s(value: Any) -> float | None:
    try:
        return known(timestamp_s(value), MOST_CLOCK_S) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def _seconds(value: Any) -> float:
    """Returns the seconds of an ISO 8601 duration, 'PT1M30S'; 0 if there is none."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not match:
        return 0.0
    factors = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
    return known(sum(float(match[name] or 0) * factor for name, factor in factors.items()), MOST_TIME_S) or 0.0
