"""Turns the JSON results of iperf3 into tables of a run's flows and intervals.

iperf3 may be patched by ccmix or not.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from ccmix.model import Traffic

# identify a flow of a run: the sending host, and its port
FLOW_KEY: dict[str, Any] = {"host": pl.String, "port": pl.Int64}
FLOW = list(FLOW_KEY)
FLOW_COLUMNS = FLOW_KEY | {
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
# which iperf3 sends, and waits for, at a time, unless --length says otherwise
BLOCK_BYTES = 128 * 1024
FEW_BLOCKS = 10
UDP_GROUP = "udp"  # of a test whose group is not known
REPORTED_COLUMNS = FLOW_KEY | {
    "data_segments": pl.Int64,
    "retransmitted_segments": pl.Int64,
    "rtts_s": pl.List(pl.Float64),
}
START_COLUMNS = FLOW_KEY | {"asked_s": pl.Float64, "used_s": pl.Float64}
INTERVAL_COLUMNS = {
    "time_s": pl.Float64,
    "seconds": pl.Float64,
    "omitted": pl.Boolean,
    **FLOW_KEY,
    "goodput_bps": pl.Float64,
    "retransmits": pl.Int64,
    "group": pl.String,
}


def join_tables(columns: Mapping[str, Any], tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Puts tables with these columns one below the other; without any table, returns an empty
    one.
    """
    return pl.concat([pl.DataFrame(schema=columns), *tables])


def by_flow(table: pl.DataFrame, column: str) -> dict[tuple[str, int], Any]:
    """Returns the values of a column by the flow of each row: its host and its port."""
    return {(host, port): value for host, port, value in table.select(*FLOW, column).iter_rows()}


def read_flows(
    traffic: Traffic, client: dict[str, Any], host: str, run_group_name: Callable[[str], str] = str
) -> pl.DataFrame:
    """Reads a test's flows from the JSON of its iperf3 client. Returns FLOW_COLUMNS, a row for each
    flow, in the order in which the client connects them.

    host: the host of the client
    run_group_name: turns the name of a group of this test into its name in the run, which may have
        several tests
    `begin_s` is the delay of the flow's group, or null if its group is not known. `reverse` says
    that the server sends to the client.

    Only patched iperf3 names a flow's group. Otherwise the group is the test's only group, the CCA
    that iperf3 reports, or UDP_GROUP. If a test sends in both directions at once, the flows from
    the server are a separate group, such as 'cubic back'.
    """
    ports = _ports_by_socket(client, "local_port")
    names = traffic.group_names
    streams = [_ends(stream, _share_of_udp_received(client)) for stream in client["end"]["streams"]]
    both_ways = len({ends["sender"].get("sender", True) for ends in streams}) > 1
    rows = []
    for number, (ends, stream) in enumerate(zip(streams, client["end"]["streams"], strict=True)):
        cca_used = ends["sender"].get("congestion") or client["end"].get("sender_tcp_congestion")
        only_group = 0 if len(names) == 1 else None
        group = stream["group"] - 1 if "group" in stream and names else only_group
        is_udp = "udp" in stream
        name_without_group = UDP_GROUP if is_udp else cca_used or "-"
        group_name = names[group] if group is not None else name_without_group
        reverse = not ends["sender"].get("sender", True)
        suffix = " back" if both_ways and reverse else ""
        rows.append(
            {
                "host": host,
                "port": ports[ends["sender"]["socket"]],
                "stream": number,
                "group": run_group_name(group_name) + suffix,
                "cca_asked": traffic.groups[group].cca if group is not None else None,
                "cca_used": cca_used,
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


def read_starts(client: dict[str, Any], host: str, planned_s: Sequence[float]) -> pl.DataFrame:
    """Compares the planned start of each stream with the one that iperf3 reports, to check that the
    streams' starts were spread as planned. Returns START_COLUMNS, in the order in which the client
    connects the streams.

    planned_s: how many seconds later than its group each stream was to start; streams without a
        value were to start with their group
    """
    connected = client["start"]["connected"]
    asked_s = [*planned_s, *[0.0] * len(connected)]
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


def _ends(stream: dict[str, Any], share_of_udp_received: float | None) -> dict[str, Any]:
    """Returns iperf3's records of a stream as {'sender': ..., 'receiver': ...}.

    The JSON of a TCP stream has both records. That of a UDP stream has only the sender's, so the
    receiver's rate is computed: the sender's rate times share_of_udp_received, or if that is None,
    times the share of packets that were not lost.
    """
    if "sender" in stream:
        return stream
    udp = stream["udp"]
    lost = udp.get("lost_packets", 0) / (udp.get("packets") or 1)
    received = 1 - lost if share_of_udp_received is None else share_of_udp_received
    return {"sender": udp, "receiver": udp | {"bits_per_second": udp["bits_per_second"] * received}}


def _share_of_udp_received(client: dict[str, Any]) -> float | None:
    """Returns the fraction of the UDP data that arrived: the rate of the receiver divided by that
    of the client, from the sums in the client's JSON. Returns None if the JSON lacks either sum.
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
    """Joins the goodput that the server received with the client's retransmissions, by interval and
    port. Returns INTERVAL_COLUMNS; times count from the client's start.

    client, server: the JSON of both ends. If the server's is missing (None), goodput is the
        client's rate; for UDP, it is the client's rate times the fraction of the data that was
        received.
    flows: as returned by read_flows()
    later_s: how much later than the client the server started, by the same clock. If it is known,
        the shorter interval at the end of the server's results is kept, too.
    """
    groups = flows.select("host", "port", "group")
    sent = _interval_rows(traffic, client, _ports_by_socket(client, "local_port"))
    if server is None:
        share = _share_of_udp_received(client)
        is_udp = any("udp" in stream for stream in client["end"]["streams"])
        received = sent.drop("retransmits").with_columns(
            pl.col("goodput_bps") * (share if is_udp and share else 1)
        )
    else:
        received = _interval_rows(
            traffic,
            server,
            _ports_by_socket(server, "remote_port"),
            keep_splinters=later_s is not None,
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


def merge_short_intervals(
    intervals: pl.DataFrame, flows: pl.DataFrame, block_bytes: int = BLOCK_BYTES
) -> pl.DataFrame:
    """Merges successive intervals of slow TCP flows, until each holds at least FEW_BLOCKS blocks of
    data. iperf3 counts only whole blocks of `block_bytes` (128 kB), so the goodput of an interval
    with few blocks is too coarse.

    Intervals that are left over at the end are merged into the last one. Intervals of UDP stay as
    they are.

    intervals: INTERVAL_COLUMNS
    flows: FLOW_COLUMNS
    """
    tcp = flows.filter(~pl.col("udp").fill_null(value=False)).select(FLOW)
    tcp_intervals = intervals.join(tcp, on=FLOW, how="semi", maintain_order="left")
    merged = [intervals.join(tcp, on=FLOW, how="anti", maintain_order="left")]
    for part in tcp_intervals.partition_by(*FLOW, "omitted", maintain_order=True):
        blocks = (part["goodput_bps"] * part["seconds"] / 8 / block_bytes).to_list()
        row, blocks_in_row, rows = 0, 0.0, []
        for count in blocks:
            rows.append(row)
            blocks_in_row += count
            if blocks_in_row >= FEW_BLOCKS:
                row, blocks_in_row = row + 1, 0.0
        last_row = max(0, row - 1) if blocks_in_row else row
        numbered = part.with_columns(row=pl.Series(rows).clip(0, last_row))
        bits = pl.col("goodput_bps") * pl.col("seconds")
        merged.append(
            numbered.group_by("row", maintain_order=True)
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
    return pl.concat(merged).sort("time_s", maintain_order=True)


def read_reported(client: dict[str, Any], host: str) -> pl.DataFrame:
    """Reads the segments, retransmissions and RTTs of each TCP flow from the JSON of iperf3's
    client. Used if no probe sampled the sockets. Returns REPORTED_COLUMNS, a row for each flow.

    The number of data segments is estimated from the bytes, as if all segments except the last were
    full. The RTTs are the smoothed ones that iperf3 reads from a socket at the end of each
    interval, without those of the omitted time.
    """
    ports = _ports_by_socket(client, "local_port")
    mss_bytes = client["start"].get("tcp_mss_default")
    rtts_s: dict[int, list[float]] = {port: [] for port in ports.values()}
    for interval in client["intervals"]:
        for stream in interval["streams"]:
            if stream.get("rtt") and not stream["omitted"]:
                rtts_s[ports[stream["socket"]]].append(stream["rtt"] / 1e6)
    rows = []
    for sender in (stream["sender"] for stream in client["end"]["streams"] if "sender" in stream):
        port, retransmitted = ports[sender["socket"]], sender.get("retransmits")
        new = math.ceil(sender["bytes"] / mss_bytes) if mss_bytes else None
        segments = None if new is None or retransmitted is None else new + retransmitted
        rows.append((host, port, segments, retransmitted, rtts_s[port]))
    return pl.DataFrame(rows, schema=REPORTED_COLUMNS, orient="row")


def with_udp_goodput(flows: pl.DataFrame, server: dict[str, Any]) -> pl.DataFrame:
    """Returns the flows of a UDP test (FLOW_COLUMNS) with goodput_bps replaced by the rate that its
    server received, because the client only knows what it sent.

    The rate is counted over the server's own intervals, without the omitted ones.
    """
    ports, received_bytes = _ports_by_socket(server, "remote_port"), Counter[int]()
    seconds = previous_end_s = 0.0
    for interval in server["intervals"]:
        if interval["sum"]["omitted"]:
            continue
        end_s = interval["sum"]["end"]
        seconds, previous_end_s = seconds + end_s - previous_end_s, end_s
        for stream in interval["streams"]:
            received_bytes[ports[stream["socket"]]] += stream["bytes"]
    if not seconds:
        return flows
    rates_bps = {port: count * 8 / seconds for port, count in received_bytes.items()}
    return flows.with_columns(
        goodput_bps=pl.col("port").replace_strict(rates_bps, default=0.0, return_dtype=pl.Float64)
    )


def start_s(client: dict[str, Any]) -> float | None:
    """Returns when the test started, in seconds since 1970 by the clock of its client; None if this
    version of iperf3 does not report it.
    """
    started = client["start"].get("test_start", {}).get("start_time")
    return float(started) if isinstance(started, int | float) else None


def _ports_by_socket(result: dict[str, Any], key: str) -> dict[int, int]:
    """Returns the local or the remote port of each stream, by the number of its socket, which
    identifies the stream in iperf3's JSON. `key` is 'local_port' or 'remote_port'.
    """
    return {stream["socket"]: stream[key] for stream in result["start"]["connected"]}


def _interval_rows(
    traffic: Traffic, result: dict[str, Any], ports: dict[int, int], *, keep_splinters: bool = False
) -> pl.DataFrame:
    """Returns a row for each interval and stream of one end's JSON: INTERVAL_COLUMNS except host
    and group.

    ports: of each stream, by its socket's number
    keep_splinters: keep intervals shorter than half of the usual length, such as the last one

    The length of an interval is computed from the `end` of two intervals, because iperf3 reports a
    wrong `seconds` and rate for the first interval after the omitted time. Its `end` and `bytes`
    are right; they count from 0 again when the omitted time is over.
    """
    rows = []
    for number, interval in enumerate(result["intervals"]):
        previous = result["intervals"][number - 1] if number else None
        omitted = interval["sum"]["omitted"]
        continues = previous is not None and previous["sum"]["omitted"] == omitted
        begin_s = previous["sum"]["end"] if previous and continues else 0.0
        seconds = interval["sum"]["end"] - begin_s
        if seconds <= (0.0 if keep_splinters else traffic.goodput_interval_s / 2):
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
    joined_later = ("host", "group")  # by the port
    schema = {name: dtype for name, dtype in INTERVAL_COLUMNS.items() if name not in joined_later}
    return pl.DataFrame(rows, schema=schema)
