"""Makes results of the `throughput` test from iperf3's JSON: of one participant, and of both.

The test's schema allows further keys only in `summary` and in an interval. So a stream's identifier
includes its CCA and group, "ID:CCA:GROUP", and `summary` has

    congestion  {stream-id: CCA} of every stream
    groups      of each group: group (its position, from 1), congestion, streams (their number),
                throughput-bits, throughput-bytes and retransmits of the sender,
                receiver-throughput-bits and receiver-throughput-bytes (the goodput), start, end

In the merged result, `summary.streams` also has the sum of each group, with the identifier
"SUM:CCA:GROUP", because pScheduler's text output shows only the records of streams. Every interval
has `groups` with the same keys, as far as the reporting side knows them. As in the stock tool,
times are in seconds, `rtt` in microseconds and `tcp-window-size` in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import group_grammar
from .iperf3 import connected
from .spec import Request

Result = dict[str, Any]
SUM = "SUM"  # for a group, instead of a stream's number; pScheduler sorts it after the numbers


class OutputError(ValueError):
    """Reports that output of iperf3 is not a result of the test."""


def failure(error: str, diags: str = "") -> Result:
    return {"succeeded": False, "error": error, "diags": diags, "intervals": [], "summary": {}}


def of_run(output: Mapping[str, Any], request: Request, *, sends: bool, diags: str) -> Result:
    """Returns one participant's result of a successful test; raises OutputError if the output isn't
    such a result.
    """
    try:
        end = output["end"]
        width = len(str(max(stream["id"] for stream in end["streams"])))
        result: Result = {
            "succeeded": True,
            "diags": diags,
            "intervals": [_interval(interval, width) for interval in output["intervals"]],
            "summary": {
                "streams": [
                    _stream_summary(stream, width, sends=sends) for stream in end["streams"]
                ],
                "summary": _sums(end["sum_sent"], end["sum_received"], sends=sends),
                "congestion": {
                    _identifier(stream, width): stream["congestion"] for stream in end["streams"]
                },
                "groups": [_group_summary(group, sends=sends) for group in end["groups"]],
            },
        }
        mss = output["start"].get("tcp_mss_default", 0)
        _check_algorithms(end["groups"], request)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(
            f"the output of iperf3 lacks what was expected: {type(error).__name__} {error}"
        ) from None
    return result | ({"mss": mss} if isinstance(mss, int) and mss > 0 else {})


def merge(test: object, results: object) -> Result:
    """Merges the participants' results, any of which may be missing or wrong, into the run's
    result.
    """
    spec = test.get("spec") if isinstance(test, dict) else None
    spec = spec if isinstance(spec, dict) else {}
    expected = 1 if "single-ended" in spec else 2
    given = list(results) if isinstance(results, list) else []
    if len(given) > expected:
        return failure(
            f"the run has {len(given)} results, and {expected} participants", _all_diags(given)
        )
    given += [None] * (expected - len(given))
    diags = _all_diags(given)
    problems = [_problem(result) for result in given]
    client = given[0]
    if problems[0] is not None:
        return failure(_errors(problems, spec), diags)
    if spec.get("reverse") is True and expected == 2 and problems[1] is None:
        client = _with_senders_view(client, given[1])
    # The client knows the sums of both sides, so they don't depend on the server's result
    return {**client, "summary": _with_sums_of_groups(client["summary"]), "diags": diags}


def _with_sums_of_groups(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Adds a record for each group to the streams, because pScheduler's text output shows only the
    streams.

    As in iperf3's output of sums, only groups with several streams get a record. The schema has no
    receiver-throughput-bytes in it.
    """
    groups, streams = summary["groups"], summary["streams"]
    if len(streams) == len(groups):
        return dict(summary)
    keys = (
        "start",
        "end",
        "throughput-bits",
        "throughput-bytes",
        "retransmits",
        "receiver-throughput-bits",
    )
    sums = [
        {"stream-id": f"{SUM}:{group.get('congestion')}:{group['group']}"}
        | {key: group[key] for key in keys if key in group}
        for group in groups
    ]
    return {**summary, "streams": [*streams, *sums]}


def _errors(problems: list[str | None], spec: Mapping[str, Any]) -> str:
    """Returns the failure of each participant; one sentence if both report the same."""
    if len(problems) > 1 and problems[0] == problems[1]:
        return f"both participants: {problems[0]}"
    hosts = [f"source {spec.get('source', '')}".strip(), f"dest {spec.get('dest', '')}".strip()]
    return "; ".join(
        f"participant {number} ({host}): {problem}"
        for number, (problem, host) in enumerate(zip(problems, hosts))
        if problem is not None
    )


def _with_senders_view(client: Result, server: Result) -> Result:
    """Returns the result of a reverse test: intervals and streams of the server, which sends, and
    the client's goodput.
    """
    received, sent = client["summary"], server["summary"]
    name = _names_of_client(client, server)
    if {stream["stream-id"] for stream in received["streams"]} != {
        name(s["stream-id"]) for s in sent["streams"]
    }:
        return client  # without the same streams, the client's result stays
    streams = {stream["stream-id"]: stream for stream in received["streams"]}
    by_group = {group["group"]: group for group in received["groups"]}
    sending = [{**stream, "stream-id": name(stream["stream-id"])} for stream in sent["streams"]]
    summary = {
        **sent,
        "streams": [_with_goodput(stream, streams[stream["stream-id"]]) for stream in sending],
        "summary": _with_goodput(sent["summary"], received["summary"]),
        "congestion": received.get("congestion", {}),
        "groups": [
            _with_goodput(group, by_group.get(group["group"], {})) for group in sent["groups"]
        ],
    }
    intervals = [
        {
            **interval,
            "streams": [{**s, "stream-id": name(s["stream-id"])} for s in interval["streams"]],
        }
        for interval in server["intervals"]
    ]
    return {**client, "intervals": intervals, "summary": summary}


def _with_goodput(summary: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("receiver-throughput-bits", "receiver-throughput-bytes")
    return {**summary, **{key: other[key] for key in keys if key in other}}


def _names_of_client(client: Result, server: Result) -> Callable[[str], str]:
    """Returns a function from the server's identifier of a stream to the client's, because each end
    counts in a different order.

    The ports identify the stream. If the path translates ports, streams with the same number are
    taken as the same stream.
    """
    of_client = {
        _number(stream["stream-id"]): stream["stream-id"] for stream in client["summary"]["streams"]
    }
    by_port = {
        stream["local_port"]: of_client.get(str(stream["id"]))
        for stream in connected(client.get("diags"))
    }
    ports = {str(stream["id"]): stream["remote_port"] for stream in connected(server.get("diags"))}

    def name(identifier: str) -> str:
        return by_port.get(ports.get(_number(identifier), 0)) or identifier

    return name


def _number(identifier: str) -> str:
    """Returns iperf3's number of a stream, without leading zeros."""
    return identifier.partition(":")[0].lstrip("0")


def _problem(result: object) -> str | None:
    """Returns why a participant has no good result; None if it has one."""
    if result is None:
        return "there is no result"
    if not isinstance(result, dict):
        return f"its result is {str(result)[:200]!r}"
    if result.get("succeeded") is not True:
        return str(result.get("error") or "failed without an error message")
    if not _has_measurements(result):
        return "its result is not one of this tool"
    return None


def _has_measurements(result: Mapping[str, Any]) -> bool:
    """Returns whether a result has all fields that merging reads."""
    summary, intervals = result.get("summary"), result.get("intervals")
    return (
        isinstance(summary, dict)
        and _is_measured(summary.get("summary"))
        and _are(summary.get("streams"), "stream-id", str)
        and _are(summary.get("groups"), "group", int)
        and isinstance(intervals, list)
        and all(
            isinstance(each, dict) and _are(each.get("streams"), "stream-id", str)
            for each in intervals
        )
    )


def _are(records: object, name: str, kind: type) -> bool:
    """Returns whether this is a list of measured records whose key `name` has a value of
    this kind.
    """
    return isinstance(records, list) and all(
        _is_measured(record) and isinstance(record.get(name), kind) for record in records
    )


def _is_measured(record: object) -> bool:
    keys = ("start", "end", "throughput-bits", "throughput-bytes")
    return isinstance(record, dict) and all(
        isinstance(record.get(key), (int, float)) for key in keys
    )


def _all_diags(results: list[Any]) -> str:
    text = ""
    for number, result in enumerate(results):
        diags = result.get("diags") if isinstance(result, dict) else result
        text += f"Participant {number}:\n{diags or 'no diagnostics'}\n"
    return text


def _interval(interval: Mapping[str, Any], width: int) -> dict[str, Any]:
    return {
        "streams": [_stream(stream, width) for stream in interval["streams"]],
        "summary": _measured(interval["sum"]),
        "groups": [_named(group) | _measured(group) for group in interval.get("groups", [])],
    }


def _stream(stream: Mapping[str, Any], width: int) -> dict[str, Any]:
    """Returns the record of one stream in one interval."""
    return {"stream-id": _identifier(stream, width)} | _measured(stream)


def _stream_summary(stream: Mapping[str, Any], width: int, *, sends: bool) -> dict[str, Any]:
    """Returns the record of one stream over the whole test. Only its sender knows its RTT."""
    record = {"stream-id": _identifier(stream, width)} | _sums(
        stream["sender"], stream["receiver"], sends=sends
    )
    record.pop("receiver-throughput-bytes", None)  # the schema has none
    if sends and "mean_rtt" in stream["sender"]:
        record["rtt"] = stream["sender"]["mean_rtt"]
    return record


def _group_summary(group: Mapping[str, Any], *, sends: bool) -> dict[str, Any]:
    receiver = group["receiver"]
    sums = _sums(group["sender"], receiver, sends=sends)
    goodput = (
        {"receiver-throughput-bytes": receiver["bytes"]}
        if "receiver-throughput-bits" in sums
        else {}
    )
    return _named(group) | sums | goodput


def _sums(sender: Mapping[str, Any], receiver: Mapping[str, Any], *, sends: bool) -> dict[str, Any]:
    """Returns the known sums of both sides: a client knows both, a server only its own."""
    if sender["bytes"] == 0 and not sends:
        return _measured(receiver) | {"receiver-throughput-bits": receiver["bits_per_second"]}
    sums = _measured(sender)
    if receiver["bytes"] > 0 or sender["bytes"] == 0:
        sums["receiver-throughput-bits"] = receiver["bits_per_second"]
    return sums


def _measured(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a record that the test's schema has, under the schema's names."""
    names = {
        "start": "start",
        "end": "end",
        "bits_per_second": "throughput-bits",
        "bytes": "throughput-bytes",
        "retransmits": "retransmits",
        "rtt": "rtt",
        "snd_cwnd": "tcp-window-size",
        "omitted": "omitted",
    }
    return {name: record[key] for key, name in names.items() if key in record}


def _named(group: Mapping[str, Any]) -> dict[str, Any]:
    return {key: group[key] for key in ("group", "congestion", "streams")}


def _identifier(stream: Mapping[str, Any], width: int) -> str:
    """Returns the identifier of a stream, whose number is zero-padded because pScheduler sorts
    identifiers as text.
    """
    return f"{stream['id']:0{width}d}:{stream['congestion']}:{stream['group']}"


def _check_algorithms(measured: list[Mapping[str, Any]], request: Request) -> None:
    """Raises OutputError if a group's sockets did not have the requested CCA."""
    if len(measured) != len(request.groups):
        raise OutputError(
            f"iperf3 reports {len(measured)} groups, but {len(request.groups)} were requested"
        )
    for number, (asked, group) in enumerate(zip(request.groups, measured), start=1):
        if asked.cca not in (group_grammar.DEFAULT_CCA, group["congestion"]):
            raise OutputError(f"{request.group_name(number)} was sent with {group['congestion']}")
