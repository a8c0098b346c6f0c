"""Turns results of iperf3, patched or not, and of pScheduler's throughput test by any tool, into a
run's flows and intervals.

pScheduler's results without iperf3's own JSON have no ports, and often only the sum of the
receiver. ccmix's own tool, iperf3mix, identifies a stream by 'ID:CCA:GROUP', with groups counted
from 1.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from ccmix.model import Traffic

FLOW = ["host", "port"]  # identify a flow of a run: the sending host, and its port
FLOW_COLUMNS = {
    "host": pl.String,
    "port": pl.Int64,
    "stream": pl.Int64,
    "group": pl.String,
    "cca_asked": pl.String,
    "cca_used": pl.String,
    "goodput_bps": pl.Float64,
    "throughput_bps": pl.Float64,
    "retransmits": pl.Int64,
    "bytes_sent": pl.Int64,
    "begin_s": pl.Float64,
    "end_s": pl.Float64,
    "reverse": pl.Boolean,
    "udp": pl.Boolean,
}
BLOCK_BYTES = (
    128 * 1024
)  # which iperf3 sends, and waits for, at a time, unless --length says otherwise
FEW_BLOCKS = 10
UDP_GROUP = "udp"  # of a test whose group is not known
REPORTED_COLUMNS: dict[str, Any] = {
    "host": pl.String,
    "port": pl.Int64,
    "data_segments": pl.Int64,
    "retransmitted_segments": pl.Int64,
    "rtts_s": pl.List(pl.Float64),
}
START_COLUMNS = {"host": pl.String, "port": pl.Int64, "asked_s": pl.Float64, "used_s": pl.Float64}
INTERVAL_COLUMNS = {
    "time_s": pl.Float64,
    "seconds": pl.Float64,
    "omitted": pl.Boolean,
    "host": pl.String,
    "port": pl.Int64,
    "goodput_bps": pl.Float64,
    "retransmits": pl.Int64,
    "group": pl.String,
}
SUM_OF_GROUP = "SUM:"  # identifies what iperf3mix adds to the streams for pScheduler's text output


def read_flows(
    traffic: Traffic, client: dict[str, Any], host: str, named: Callable[[str], str] = str
) -> pl.DataFrame:
    """Returns a row for each flow, in the order in which the client connects them: FLOW_COLUMNS.

    `begin_s` is the delay of its group; null if the group of a stream is not known. If `reverse`,
    the other end sends.

    `named` turns the name of one of the test's groups into that of a group of the run.

    Unpatched iperf3 does not name a flow's group: it is then the only group, or the CCA that iperf3
    names for all flows, or UDP_GROUP. If a test sends in both directions at once, the flows back
    are a separate group.
    """
    ports = _ports(client, "local_port")
    names = traffic.group_names
    streams = [_ends(stream, _udp_arrived(client)) for stream in client["end"]["streams"]]
    both_ways = len({ends["sender"].get("sender", True) for ends in streams}) > 1
    rows = []
    for number, (ends, stream) in enumerate(zip(streams, client["end"]["streams"], strict=True)):
        used = ends["sender"].get("congestion") or client["end"].get("sender_tcp_congestion")
        group = (
            stream["group"] - 1 if "group" in stream and names else 0 if len(names) == 1 else None
        )
        is_udp = "udp" in stream
        group_name = names[group] if group is not None else UDP_GROUP if is_udp else used or "-"
        reverse = not ends["sender"].get("sender", True)
        back = " back" if both_ways and reverse else ""
        rows.append(
            {
                "host": host,
                "port": ports[ends["sender"]["socket"]],
                "stream": number,
                "group": named(group_name) + back,
                "cca_asked": traffic.groups[group].cca if group is not None else None,
                "cca_used": used,
                "goodput_bps": float(ends["receiver"]["bits_per_second"]),
                "throughput_bps": float(ends["sender"]["bits_per_second"]),
                "retransmits": ends["sender"].get("retransmits"),
                "bytes_sent": ends["sender"].get("bytes", 0),
                "begin_s": traffic.groups[group].delay_s if group is not None else None,
                "reverse": reverse,
                "udp": is_udp,
            }
        )
    return pl.DataFrame(rows, schema=FLOW_COLUMNS)


def read_starts(client: dict[str, Any], host: str, starts_s: Sequence[float]) -> pl.DataFrame:
    """Returns for each stream that the client sends how much later than its group it was to start,
    and the delay that iperf3 reports: START_COLUMNS, in the order in which the client connects
    them.
    """
    connected = client["start"]["connected"]
    asked_s = [*starts_s, *[0.0] * len(connected)]
    rows = [
        {
            "host": host,
            "port": stream["local_port"],
            "asked_s": start_s,
            "used_s": float(stream.get("stream_delay", 0)),
        }
        for stream, start_s in zip(connected, asked_s, strict=False)
    ]
    return pl.DataFrame(rows, schema=START_COLUMNS)


def _ends(stream: dict[str, Any], udp_arrived: float | None) -> dict[str, Any]:
    """Returns the reports of both ends about a stream. UDP has a single record with the sender's
    rate, from which lost packets are subtracted for the receiver.
    """
    if "sender" in stream:
        return stream
    udp = stream["udp"]
    lost = udp.get("lost_packets", 0) / (udp.get("packets") or 1)
    arrived = 1 - lost if udp_arrived is None else udp_arrived
    return {"sender": udp, "receiver": udp | {"bits_per_second": udp["bits_per_second"] * arrived}}


def _udp_arrived(client: dict[str, Any]) -> float | None:
    """Returns the rate of UDP that the receiver counted over its own time, as a share of what was
    sent; None if the result does not have it.
    """
    sent, received = (
        client["end"].get(name, {}).get("bits_per_second") for name in ("sum_sent", "sum_received")
    )
    return received / sent if sent and received is not None else None


def read_intervals(
    traffic: Traffic,
    client: dict[str, Any],
    server: dict[str, Any] | None,
    flows: pl.DataFrame,
    later_s: float | None = None,
) -> pl.DataFrame:
    """Joins goodput that the receiver counts with the sender's retransmissions, by interval and
    port: INTERVAL_COLUMNS.

    Times count from the client's start. Without the server's JSON, goodput is the client's own
    count; for UDP, the part of it that arrived.
    later_s: how much later the server started, by the same clock. If that is known, the server's
        count after its last whole interval is kept.
    """
    groups = flows.select("host", "port", "group")
    sent = _interval_rows(traffic, client, _ports(client, "local_port"))
    if server is None:
        arrived = _udp_arrived(client)
        is_udp = any("udp" in stream for stream in client["end"]["streams"])
        received = sent.drop("retransmits").with_columns(
            pl.col("goodput_bps") * (arrived if is_udp and arrived else 1)
        )
    else:
        received = _interval_rows(
            traffic, server, _ports(server, "remote_port"), splinters=later_s is not None
        )
        received = received.drop("retransmits").with_columns(pl.col("time_s") + (later_s or 0.0))
    # the timers of both ends differ a little, and either end may miss the interval at the end of
    # the omitted time
    nearest = received.sort("time_s").join_asof(
        sent.select("time_s", "port", "retransmits").sort("time_s"),
        on="time_s",
        by="port",
        strategy="nearest",
        tolerance=traffic.goodput_interval_s / 2,
        check_sortedness=False,
    )
    return nearest.join(groups, on="port", maintain_order="left").select(*INTERVAL_COLUMNS)


def whole_blocks(
    intervals: pl.DataFrame, flows: pl.DataFrame, block_bytes: int = BLOCK_BYTES
) -> pl.DataFrame:
    """Joins intervals of TCP with those after them until each has FEW_BLOCKS, because iperf3 counts
    whole blocks. Intervals left over at the end are joined to the last one.
    """
    tcp = flows.filter(~pl.col("udp").fill_null(value=False)).select(FLOW)
    own = intervals.join(tcp, on=FLOW, how="semi", maintain_order="left")
    joined = [intervals.join(tcp, on=FLOW, how="anti", maintain_order="left")]
    for part in own.partition_by(*FLOW, "omitted", maintain_order=True):
        blocks = (part["goodput_bps"] * part["seconds"] / 8 / block_bytes).to_list()
        number, held, of_row = 0, 0.0, []
        for count in blocks:
            of_row.append(number)
            held += count
            if held >= FEW_BLOCKS:
                number, held = number + 1, 0.0
        last = max(0, number - 1) if held else number
        of_rows = part.with_columns(row=pl.Series(of_row).clip(0, last))
        bits = pl.col("goodput_bps") * pl.col("seconds")
        joined.append(
            of_rows.group_by("row", maintain_order=True)
            .agg(
                pl.col("time_s").last(),
                pl.col("seconds").sum(),
                pl.col("omitted", *FLOW, "group").first(),
                goodput_bps=bits.sum() / pl.col("seconds").sum(),
                retransmits=pl.when(pl.col("retransmits").is_not_null().all()).then(
                    pl.col("retransmits").sum()
                ),
            )
            .select(intervals.columns)
        )
    return pl.concat(joined).sort("time_s", maintain_order=True)


def read_reported(client: dict[str, Any], host: str) -> pl.DataFrame:
    """Returns the report of the sender's iperf3 about its sockets: REPORTED_COLUMNS, a row for each
    flow. It is used if no probe sampled the sockets.

    The number of data segments is an estimate from bytes, as if all but the last were full. RTTs
    are the smoothed ones that iperf3 reads from each socket at the end of an interval, without
    those of the omitted time.
    """
    ports, mss_bytes = _ports(client, "local_port"), client["start"].get("tcp_mss_default")
    rtts_s: dict[int, list[float]] = {port: [] for port in ports.values()}
    for interval in client["intervals"]:
        for stream in interval["streams"]:
            if stream.get("rtt") and not stream["omitted"]:
                rtts_s[ports[stream["socket"]]].append(stream["rtt"] / 1e6)
    rows = []
    for sender in (stream["sender"] for stream in client["end"]["streams"] if "sender" in stream):
        port, again = ports[sender["socket"]], sender.get("retransmits")
        first = math.ceil(sender["bytes"] / mss_bytes) if mss_bytes else None
        segments = None if first is None or again is None else first + again
        rows.append((host, port, segments, again, rtts_s[port]))
    return pl.DataFrame(rows, schema=REPORTED_COLUMNS, orient="row")


def with_arrived(flows: pl.DataFrame, server: dict[str, Any]) -> pl.DataFrame:
    """Returns the flows of a test over UDP with the goodput that its server counted, over the
    server's own time.
    """
    ports, received, seconds = _ports(server, "remote_port"), Counter[int](), 0.0
    before_s = 0.0
    for interval in server["intervals"]:
        if interval["sum"]["omitted"]:
            continue
        seconds, before_s = seconds + interval["sum"]["end"] - before_s, interval["sum"]["end"]
        for stream in interval["streams"]:
            received[ports[stream["socket"]]] += stream["bytes"]
    if not seconds:
        return flows
    rates = {port: count * 8 / seconds for port, count in received.items()}
    return flows.with_columns(
        goodput_bps=pl.col("port").replace_strict(rates, default=0.0, return_dtype=pl.Float64)
    )


def start_s(client: dict[str, Any]) -> float | None:
    """Returns when the test started, by the wall clock of its client; None if this iperf3 does not
    report it.
    """
    started = client["start"].get("test_start", {}).get("start_time")
    return float(started) if isinstance(started, int | float) else None


def _ports(result: dict[str, Any], key: str) -> dict[int, int]:
    return {stream["socket"]: stream[key] for stream in result["start"]["connected"]}


def _interval_rows(
    traffic: Traffic, result: dict[str, Any], ports: dict[int, int], *, splinters: bool = False
) -> pl.DataFrame:
    """Returns a row for each interval and stream.

    iperf3 counts time and bytes from 0 again when the omitted time is over, but takes the first
    interval after that for one that began in the omitted time. The `seconds` and rate of that
    interval are wrong, its `end` and `bytes` are right.
    """
    rows = []
    for number, interval in enumerate(result["intervals"]):
        before = result["intervals"][number - 1] if number else None
        omitted = interval["sum"]["omitted"]
        continues = before is not None and before["sum"]["omitted"] == omitted
        begin_s = before["sum"]["end"] if before and continues else 0.0
        seconds = interval["sum"]["end"] - begin_s
        if seconds <= (0.0 if splinters else traffic.goodput_interval_s / 2):
            continue  # the last may be a splinter
        rows += [
            {
                "time_s": interval["sum"]["end"] + (0.0 if omitted else traffic.omit_s),
                "seconds": seconds,
                "omitted": omitted,
                "port": ports[stream["socket"]],
                "goodput_bps": stream["bytes"] * 8 / seconds,
                "retransmits": stream.get("retransmits"),
            }
            for stream in interval["streams"]
        ]
    of_flow = ("host", "group")  # which the port identifies
    return pl.DataFrame(
        rows, schema={name: kind for name, kind in INTERVAL_COLUMNS.items() if name not in of_flow}
    )


def pscheduler_flows(traffic: Traffic, throughput: Mapping[str, Any], host: str) -> pl.DataFrame:
    """Returns a row of FLOW_COLUMNS for each stream; `port` is the stream's number, counted from 0.

    Goodput is the receiver's rate of the stream. If the result lacks that, it is the sender's rate
    times the share of the data of all streams that the receiver got.
    """
    summary = throughput["summary"]
    got = _share_received(summary.get("summary", {}))
    rows = []
    streams = [
        stream
        for stream in summary["streams"]
        if not str(stream.get("stream-id")).startswith(SUM_OF_GROUP)
    ]
    for number, stream in enumerate(streams):
        used, group = _cca_and_group(
            traffic, str(stream.get("stream-id")), summary.get("congestion", {})
        )
        received_bps = stream.get("receiver-throughput-bits")
        rows.append(
            {
                "host": host,
                "port": number,
                "stream": number,
                "group": used or "-" if group is None else traffic.group_names[group],
                "cca_asked": None if group is None else traffic.groups[group].cca,
                "cca_used": used,
                "goodput_bps": float(
                    stream["throughput-bits"] * got if received_bps is None else received_bps
                ),
                "throughput_bps": float(stream["throughput-bits"]),
                "retransmits": stream.get("retransmits"),
                "bytes_sent": int(stream.get("throughput-bytes") or 0),
                "begin_s": None if group is None else traffic.groups[group].delay_s,
            }
        )
    return pl.DataFrame(rows, schema=FLOW_COLUMNS)


def pscheduler_intervals(
    traffic: Traffic, throughput: Mapping[str, Any], flows: pl.DataFrame
) -> pl.DataFrame:
    """Returns the sender's rates and retransmissions by interval and stream: INTERVAL_COLUMNS."""
    rows = [
        {
            "time_s": stream["end"] + (0.0 if stream.get("omitted") else traffic.omit_s),
            "seconds": stream["end"] - stream["start"],
            "omitted": bool(stream.get("omitted")),
            "host": flows["host"][number],
            "port": number,
            "goodput_bps": float(stream["throughput-bits"]),
            "retransmits": stream.get("retransmits"),
            "group": flows["group"][number],
        }
        for interval in throughput.get("intervals", ())
        for number, stream in enumerate(interval.get("streams", ())[: flows.height])
    ]
    return pl.DataFrame(rows, schema=INTERVAL_COLUMNS)


def _share_received(whole: Mapping[str, Any]) -> float:
    sent, received = whole.get("throughput-bits"), whole.get("receiver-throughput-bits")
    return received / sent if sent and received is not None else 1.0


def _cca_and_group(
    traffic: Traffic, identity: str, ccas: Mapping[str, str]
) -> tuple[str | None, int | None]:
    """Returns a stream's CCA and group, as far as the result reports them."""
    bare, cca, number = (*identity.split(":"), "", "")[:3]
    used = ccas.get(identity) or ccas.get(bare) or cca or None
    if number.isdecimal() and 0 < int(number) <= len(traffic.groups):
        return used, int(number) - 1
    return used, _group(traffic, used)


def _group(traffic: Traffic, used: str | None) -> int | None:
    """Returns the group of a stream if its CCA identifies the group."""
    if len(traffic.groups) == 1:
        return 0
    alike = [number for number, group in enumerate(traffic.groups) if group.cca == used]
    return alike[0] if len(alike) == 1 else None
