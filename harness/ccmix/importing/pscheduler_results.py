"""Turns results of pScheduler's throughput tests into imported runs.

They come from its command, its REST interface, its archivers, and from ccmix. If a participant's
diagnostics have iperf3's own JSON, reads the JSON; otherwise reads the result in pScheduler's
format.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Self

import polars as pl
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from ccmix.analysis.iperf3_tables import REPORTED_COLUMNS
from ccmix.analysis.pscheduler_tables import pscheduler_flows, pscheduler_intervals
from ccmix.analysis.series import SRC, read_series
from ccmix.analysis.tables import RunTables
from ccmix.generators.pscheduler import task
from ccmix.generators.results import embedded, sentence
from ccmix.importing import iperf3_tests, times
from ccmix.importing.iperf3_documents import is_test
from ccmix.importing.values import (
    Count,
    Document,
    Flag,
    ForeignObject,
    ForeignRun,
    Items,
    LeftOut,
    Maybe,
    Microseconds,
    NeededRate,
    NeededSeconds,
    Object,
    Part,
    Rate,
    Row,
    Seconds,
    Text,
    writable,
)
from ccmix.model import Group, ImportedSource, Traffic
from ccmix.model.group_grammar import DEFAULT_CCA
from ccmix.model.results import ImportOverrides

KIND = "pscheduler"
Moment = Maybe[
    Annotated[float, BeforeValidator(lambda text: times.iso_s(str(text)))]
]  # seconds since 1970
Duration = Maybe[Annotated[NeededSeconds, BeforeValidator(lambda text: task.duration_s(str(text)))]]


class PschedulerObject(ForeignObject):
    """Models a JSON object of pScheduler, whose names have hyphens instead of underscores."""

    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))


class PschedulerStream(PschedulerObject):
    """The counts of a stream, or of all streams, during the test or an interval. `rtt` is in
    microseconds, `start` and `end` in seconds since the test began. `sent` and `lost` are datagrams
    of UDP.
    """

    stream_id: Annotated[str, BeforeValidator(lambda value: writable(str(value)))] = ""
    throughput_bits: NeededRate
    receiver_throughput_bits: Rate
    throughput_bytes: Count
    retransmits: Count
    sent: Count
    lost: Count
    rtt: Microseconds
    start: Seconds
    end: Seconds
    omitted: Flag

    @model_validator(mode="after")
    def _without_lost_datagrams(self) -> Self:
        """Computes the receiver's rate of UDP, which only counts lost datagrams."""
        if self.receiver_throughput_bits is None and self.sent and self.lost is not None:
            self.receiver_throughput_bits = self.throughput_bits * max(0, 1 - self.lost / self.sent)
        return self

    @property
    def received_bits(self) -> float:
        """The receiver's rate in bit/s; if it is not known, that of the sender."""
        received_bps = self.receiver_throughput_bits
        return self.throughput_bits if received_bps is None else received_bps


class PschedulerSummary(PschedulerObject):
    """The counts during the test; `congestion` has the CCAs by stream_id."""

    streams: Items[PschedulerStream]
    summary: Maybe[PschedulerStream]
    congestion: Maybe[dict[str, Text]]


class PschedulerInterval(PschedulerObject):
    """The counts during an interval."""

    streams: Items[PschedulerStream]


class PschedulerResult(PschedulerObject):
    """A throughput test's result, in the format that all of its tools share."""

    succeeded: Any = None
    error: Any = None
    diags: Maybe[str]
    mss: Count
    summary: Part[PschedulerSummary]
    intervals: Items[PschedulerInterval]


class PschedulerSpec(PschedulerObject):
    """The settings of the test. All other fields are options of the traffic."""

    model_config = ConfigDict(extra="allow")

    schema_number: Any = Field(None, alias="schema")
    source: Text
    source_node: Any = None
    dest: Text
    dest_node: Any = None
    duration: Duration
    interval: Any = None
    omit: Duration
    parallel: Any = None
    congestion: Text
    bandwidth: Rate
    udp: Flag
    reverse: Flag
    link_rtt: Any = None


class PschedulerTest(PschedulerObject):
    """The test that a task makes."""

    type: Any = "throughput"
    spec: Part[PschedulerSpec]


class PschedulerPlan(PschedulerObject):
    """The task of a run."""

    test: Maybe[PschedulerTest]


class PschedulerRun(PschedulerObject):
    """A run of a task, as the REST interface has it. `result_full` has a result for each
    participant, `result_merged` that of the test.
    """

    result_merged: Maybe[PschedulerResult]
    result_full: Items[PschedulerResult]
    errors: Any = None
    participants: Maybe[list[Text]]
    start_time: Moment
    end_time: Moment


class PschedulerDocument(PschedulerRun):
    """Any document with a result: a run, or a document that contains a run."""

    test: Maybe[PschedulerTest]
    task: Part[PschedulerPlan]
    run: Maybe[PschedulerRun]
    result: Maybe[PschedulerResult]


def is_known(document: Object) -> bool:
    """Returns whether a JSON object is a document of iperf3 or pScheduler."""
    return is_test(document) or is_result(document)


def is_result(document: Object) -> bool:
    """Returns whether a JSON object is a result of pScheduler, or contains one."""
    run = document.get("run")
    run_or_document = run if isinstance(run, dict) else document
    return bool(run_or_document.keys() & {"result-merged", "result-full"}) or isinstance(
        document.get("succeeded"), bool
    )


def read_test(
    document: Document, overrides: ImportOverrides, server: Object | None = None
) -> ForeignRun | LeftOut:
    """Makes a run of a JSON document of iperf3 or pScheduler, or says why it can't be one. `server`
    is the document of the iperf3 test's server, if known. Raises SourceError.
    """
    if is_test(document.content):
        return iperf3_tests.read_run(
            document.content, document.location, overrides, "iperf3", server
        )
    if is_result(document.content):
        return read_run(document.content, document.location, overrides)
    return LeftOut(document.location, "is not the result of a test")


def read_run(content: Object, location: str, overrides: ImportOverrides) -> ForeignRun | LeftOut:
    """Makes a run of a result of pScheduler, or says why it can't be one. `location` is 'FILE:LINE'
    for messages. Raises SourceError if iperf3's JSON in it is wrong.
    """
    document = PschedulerDocument.model_validate(content)
    run = document.run or document
    test = document.test or document.task.test or PschedulerTest.model_validate({})
    merged = run.result_merged or document.result or PschedulerResult.model_validate(content)
    if test.type != "throughput":
        reason = (
            f"is pScheduler's result of {sentence(test.type)}, and only those of "
            "throughput are imported"
        )
        return LeftOut(location, reason)
    if not merged.succeeded:
        error = merged.error or run.errors or merged.diags or "it gives no reason"
        return LeftOut(location, f"the run failed: {sentence(error)}")
    spec = test.spec
    known_cca = replace(overrides, cca=spec.congestion) if spec.congestion else overrides
    result = _run_from_iperf3_json(run, merged, location, known_cca) or _run_from_summary(
        spec, merged, location, known_cca
    )
    if isinstance(result, LeftOut):
        return result
    participants = document.participants or run.participants
    src, dst = spec.source or (participants[0] if participants else None), spec.dest
    if spec.reverse:
        src, dst = dst, src
    options = {
        writable(name): writable(str(value))
        for name, value in (spec.model_extra or {}).items()
        if isinstance(value, str | int)
    }
    return replace(
        result,
        bitrate_bps=spec.bandwidth or result.bitrate_bps if result.udp_bps is None else None,
        options={**result.options, **options},
        src=src or result.src,
        dst=dst or result.dst,
        dst_address=None if dst else result.dst_address,
        began_s=run.start_time or result.began_s,
        ended_s=run.end_time or result.ended_s,
    )


def _run_from_iperf3_json(
    run: PschedulerRun, merged: PschedulerResult, location: str, overrides: ImportOverrides
) -> ForeignRun | LeftOut | None:
    """Makes a run of iperf3's own JSON in the diagnostics of the participants, which has more than
    pScheduler's format. Returns None if the diagnostics do not have the JSON of iperf3's client.

    Results from archivers have no diagnostics of single participants, only one text of them all.
    """
    texts = [result.diags for result in run.result_full if result.diags]
    if not texts and merged.diags:
        texts = merged.diags.split("\nParticipant ")
    documents = [document for text in texts if (document := embedded(text))]
    clients = [document for document in documents if "connecting_to" in document["start"]]
    servers = [document for document in documents if "accepted_connection" in document["start"]]
    if not clients:
        return None
    result = iperf3_tests.read_run(
        clients[0], location, overrides, KIND, servers[0] if servers else None
    )
    return replace(result, document=None) if isinstance(result, ForeignRun) else result


def _run_from_summary(
    spec: PschedulerSpec, merged: PschedulerResult, location: str, overrides: ImportOverrides
) -> ForeignRun | LeftOut:
    """Makes a run of the result in pScheduler's own format, which all of its tools share."""
    summary = merged.summary
    streams = summary.streams or ([summary.summary] if summary.summary else [])
    streams = streams[: iperf3_tests.MOST_STREAMS]
    if not streams:
        return LeftOut(location, "the result has no throughput")
    intervals = _complete_intervals(merged, len(streams))
    interval_s = times.interval_s(
        [interval[0]["end"] - interval[0]["start"] for interval in intervals]
    )
    omitted_ends_s = [row["end"] for rows in intervals for row in rows if row["omitted"]]
    omit_s = times.omit_s(spec.omit, omitted_ends_s)
    duration_s = spec.duration
    duration_s = duration_s or times.duration_s(max(stream.end or 0.0 for stream in streams))
    traffic = Traffic((ImportedSource("", SRC, (), None),), duration_s, omit_s, interval_s)
    throughput = {
        "summary": {
            "streams": [stream.model_dump(by_alias=True) for stream in streams],
            "summary": summary.summary.model_dump(by_alias=True) if summary.summary else {},
            "congestion": summary.congestion or {},
        },
        "intervals": [{"streams": interval} for interval in intervals],
    }
    flows = pscheduler_flows(traffic, throughput, SRC)
    udp = spec.udp or any(stream.lost is not None for stream in streams)
    if udp:
        flows = flows.with_columns(
            group=pl.lit(iperf3_tests.UDP),
            cca_used=pl.lit(None, pl.String),
            retransmits=pl.lit(None, pl.Int64),
            udp=pl.lit(value=True),
        )
    elif overrides.cca and "," not in overrides.cca:
        flows = flows.with_columns(
            pl.col("cca_used").fill_null(overrides.cca),
            group=pl.when(pl.col("group") == DEFAULT_CCA)
            .then(pl.lit(overrides.cca))
            .otherwise("group"),
        )
    totals = (
        [summary.summary]
        if summary.summary and summary.summary.receiver_throughput_bits is not None
        else streams
    )
    has_goodput = all(stream.receiver_throughput_bits is not None for stream in totals)
    return ForeignRun(
        kind=KIND,
        source=location,
        results=RunTables(
            flows=flows,
            intervals=pscheduler_intervals(traffic, throughput, flows),
            series=read_series(()),
            began_s=0.0,
            reported=None if udp else _socket_report(streams, intervals, merged.mss),
        ),
        groups=tuple(map(Group, dict.fromkeys(flows["group"]))),
        streams=flows.height,
        udp_bps=(spec.bandwidth or 0.0) if udp else None,
        duration_s=duration_s,
        omit_s=omit_s,
        interval_s=interval_s,
        missing=("iperf3's own JSON is missing",) if intervals else ("it has no intervals",),
        estimated=(
            *(() if has_goodput else ("goodput_bps",)),
            *(("goodput_bps of intervals",) if intervals else ()),
        ),
    )


def _complete_intervals(merged: PschedulerResult, streams: int) -> list[list[Row]]:
    """Returns for each interval the records of its `streams` streams. Leaves out intervals in which
    a stream or a time is missing.
    """
    intervals = []
    for interval in merged.intervals:
        rows = [
            stream.model_dump(by_alias=True)
            | {"start": stream.start or 0.0, "throughput-bits": stream.received_bits}
            for stream in interval.streams
            if stream.end and stream.end > (stream.start or 0.0)
        ]
        if len(rows) == len(interval.streams) == streams:
            intervals.append(rows)
    return intervals


def _socket_report(
    streams: Sequence[PschedulerStream], intervals: Sequence[Sequence[Row]], mss_bytes: int | None
) -> pl.DataFrame:
    """Returns a table with REPORTED_COLUMNS and a row for each stream: the retransmissions, the
    RTTs of the intervals, and an estimate of the sent segments.

    The estimate is sent bytes / `mss_bytes`, rounded up, plus the retransmissions. It is missing if
    `mss_bytes` is None.
    """
    rows = []
    for index, stream in enumerate(streams):
        sent_bytes, retransmits = stream.throughput_bytes, stream.retransmits
        segments = None
        if mss_bytes and sent_bytes is not None and retransmits is not None:
            segments = math.ceil(sent_bytes / mss_bytes) + retransmits
        in_intervals = [interval[index] for interval in intervals]
        rtts_s = [row["rtt"] / 1e6 for row in in_intervals if row["rtt"] and not row["omitted"]]
        rows.append((SRC, index, segments, retransmits, rtts_s))
    return pl.DataFrame(rows, schema=REPORTED_COLUMNS, orient="row")
