"""pScheduler's results of throughput tests to runs: of its command, its REST interface, its archivers, and ccmix's own.

Where a participant's diagnostics have iperf3's own JSON, that is what is read; else the result in pScheduler's format.
"""

import math
import re
from dataclasses import replace
from typing import Any

import polars as pl

from ccmix.analysis.iperf3_tables import TOLD_COLUMNS
from ccmix.analysis.pscheduler_tables import read_flows, read_intervals
from ccmix.analysis.series import SRC, read_series
from ccmix.analysis.tables import RunTables
from ccmix.generators.pscheduler.task import timestamp_s
from ccmix.generators.results import embedded, sentence
from ccmix.importing import iperf3_tests
from ccmix.importing.found import Found, LeftOut, Told
from ccmix.importing.numbers import (
    LEAST_INTERVAL_S,
    MOST_CLOCK_S,
    MOST_RATE_BPS,
    MOST_TIME_S,
    known,
    known_count,
)
from ccmix.importing.text import writable
from ccmix.importing.values import Object, object_in, objects_in, text_in
from ccmix.model import Group, Traffic
from ccmix.model.traffic import DEFAULT_CCA

KIND = "pscheduler"
MOST_RTT_US = 1e9
_DURATION = re.compile(
    r"P(?:(?P<days>\d{1,5})D)?(?:T(?:(?P<hours>\d{1,6})H)?(?:(?P<minutes>\d{1,8})M)?(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?"
)


def is_result(document: Object) -> bool:
    run = document.get("run")
    of_run = run if isinstance(run, dict) else document
    return bool(of_run.keys() & {"result-merged", "result-full"}) or isinstance(document.get("succeeded"), bool)


def found_in(document: Object, where: str, told: Told) -> Found | LeftOut:
    """Raises SourceError for iperf3's part."""
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
    known_cca = replace(told, cca=asked) if asked else told
    found = _of_iperf3(run, merged, where, known_cca) or _of_summary(spec, merged, where, known_cca)
    if isinstance(found, LeftOut):
        return found
    participants = document.get("participants") or run.get("participants")
    first = participants[0] if isinstance(participants, list) and participants else None
    src, dst = (text_in(name) for name in (spec.get("source") or first, spec.get("dest")))
    if spec.get("reverse"):
        src, dst = dst, src
    began_s = _moment_s(run.get("start-time")) or found.began_s
    return replace(
        found,
        src=src or found.src,
        dst=dst or found.dst,
        dst_address=None if dst else found.dst_address,
        began_s=began_s,
        ended_s=_moment_s(run.get("end-time")) or found.ended_s,
    )


def _of_iperf3(run: Object, merged: Object, where: str, told: Told) -> Found | LeftOut | None:
    full, diags = run.get("result-full"), merged.get("diags")
    texts = [one.get("diags") for one in full if isinstance(one, dict)] if isinstance(full, list) else []
    if not any(texts) and isinstance(diags, str):
        texts = [*diags.split("\nParticipant ")]
    documents = [own for text in texts if isinstance(text, str) and (own := embedded(text))]
    clients = [one for one in documents if "connecting_to" in one["start"]]
    servers = [one for one in documents if "accepted_connection" in one["start"]]
    if not clients:
        return None
    found = iperf3_tests.found_in(clients[0], where, told, KIND, servers[0] if servers else None)
    return replace(found, document=None) if isinstance(found, Found) else found


def _of_summary(spec: Object, merged: Object, where: str, told: Told) -> Found | LeftOut:
    """By pScheduler's own format, of any of its tools."""
    result = _Result(merged)
    if not result.streams:
        return LeftOut(where, "the result has no throughput")
    omit_s, duration_s = (_seconds(spec.get(name)) for name in ("omit", "duration"))
    duration_s = duration_s or max(stream["end"] or 0.0 for stream in result.streams)
    traffic = Traffic((), 0, duration_s, omit_s, result.interval_s)
    throughput = {
        "summary": {"streams": result.streams, "summary": result.sums, "congestion": result.ccas},
        "intervals": result.intervals,
    }
    flows = read_flows(traffic, throughput, SRC)
    if told.cca and "," not in told.cca:
        flows = flows.with_columns(
            pl.col("cca_used").fill_null(told.cca),
            group=pl.when(pl.col("group") == DEFAULT_CCA).then(pl.lit(told.cca)).otherwise("group"),
        )
    received = "receiver-throughput-bits" in result.sums or all(
        "receiver-throughput-bits" in stream for stream in result.streams
    )
    return Found(
        kind=KIND,
        source=where,
        results=RunTables(
            flows=flows,
            intervals=read_intervals(traffic, throughput, flows),
            series=read_series(()),
            began_s=0.0,
            told=result.told(),
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


class _Result:
    """A throughput test's result, with what is no possible number taken for a gap."""

    def __init__(self, merged: Object) -> None:
        summary = object_in(merged.get("summary"))
        whole = object_in(summary.get("summary"))
        told = [_stream(one) for one in objects_in(summary.get("streams")) or [whole]]
        self.streams = [stream for stream in told if stream is not None][: iperf3_tests.MOST_STREAMS]
        self.sums = {
            name: rate
            for name in ("throughput-bits", "receiver-throughput-bits")
            if (rate := known(whole.get(name), MOST_RATE_BPS)) is not None
        }
        congestion = object_in(summary.get("congestion"))
        self.ccas = {str(name): writable(cca) for name, cca in congestion.items() if isinstance(cca, str) and cca}
        self.mss_bytes = known_count(merged.get("mss"))
        self.intervals = self._intervals(merged)
        lengths = [one["end"] - one["start"] for interval in self.intervals for one in interval["streams"][:1]]
        median_s = sorted(lengths)[len(lengths) // 2] if lengths else 0.0
        self.interval_s = max(round(median_s, 3), LEAST_INTERVAL_S) if lengths else 0.0

    def _intervals(self, merged: Object) -> list[dict[str, Any]]:
        found = []
        for interval in objects_in(merged.get("intervals")):
            streams = [_stream(one) for one in objects_in(interval.get("streams"))]
            there = [
                one | {"start": one["start"] or 0.0}
                for one in streams
                if one is not None and one["end"] and one["end"] > (one["start"] or 0.0)
            ]
            if len(there) == len(streams) == len(self.streams):
                found.append({"streams": there})
        return found

    def told(self) -> pl.DataFrame:
        """TOLD_COLUMNS: segments as if each but the last were full, and the RTTs at the end of each interval."""
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
        return pl.DataFrame(rows, schema=TOLD_COLUMNS, orient="row")


def _stream(stream: Object) -> dict[str, Any] | None:
    rate_bps = known(stream.get("throughput-bits"), MOST_RATE_BPS)
    received_bps = known(stream.get("receiver-throughput-bits"), MOST_RATE_BPS)
    if rate_bps is None:
        return None
    found = {
        "stream-id": writable(str(stream.get("stream-id"))),
        "throughput-bits": rate_bps,
        "throughput-bytes": known_count(stream.get("throughput-bytes")),
        "retransmits": known_count(stream.get("retransmits")),
        "rtt": known(stream.get("rtt"), MOST_RTT_US),
        "start": known(stream.get("start"), MOST_TIME_S),
        "end": known(stream.get("end"), MOST_TIME_S),
        "omitted": bool(stream.get("omitted")),
    }
    return found if received_bps is None else found | {"receiver-throughput-bits": received_bps}


def _moment_s(value: Any) -> float | None:
    try:
        return known(timestamp_s(value), MOST_CLOCK_S) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def _seconds(value: Any) -> float:
    """Of an ISO 8601 duration, 'PT1M30S'; 0 where there is none."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not match:
        return 0.0
    factors = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
    return known(sum(float(match[name] or 0) * factor for name, factor in factors.items()), MOST_TIME_S) or 0.0
