"""Reads the results of the steps (TCP and UDP tests, packet trains) that measure a path.

Each step becomes a group of flows with the step's name.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from ccmix import foreign_json
from ccmix.analysis.connections import CONNECTION_COLUMNS, stream_connections
from ccmix.analysis.iperf3_tables import (
    FLOW_COLUMNS,
    INTERVAL_COLUMNS,
    join_tables,
    read_flows,
    read_intervals,
)
from ccmix.generators.path_steps import (
    BURST_PACKETS,
    BURSTS,
    TCP_INTERVAL_S,
    TRAIN_PACKETS,
    TRAINS,
    UDP_INTERVAL_S,
    Step,
    on_wire_bytes,
)
from ccmix.generators.results import GeneratorError, load_json
from ccmix.model import Iperf3Source, Traffic, UdpSource, run_files
from ccmix.model.group_grammar import Group

BUCKET_PACKETS = 2  # of a train, that a token bucket may let pass at once
STEP_COLUMNS = {
    "step": pl.String,
    "cca": pl.String,
    "streams": pl.Int64,
    "offered_bps": pl.Float64,
    "packet_bytes": pl.Int64,
    "mss_bytes": pl.Int64,
    "out_of_order": pl.Int64,
    "begin_s": pl.Float64,
    "asked_s": pl.Float64,
    "end_s": pl.Float64,
    "failed": pl.String,
    "time_s": pl.Float64,
    "seconds": pl.Float64,
    "received_bytes": pl.Int64,
    "packets": pl.Int64,
    "lost_packets": pl.Int64,
    "before_loss": pl.Int64,
    "after_loss": pl.Int64,
}


@dataclass(frozen=True)
class StepResult:
    """A step that measured a path, with its results. A step with iperf3 has the JSON of both ends;
    a step with packet trains has `gaps` (see gaps_of()) or `bursts` (see bursts_of()). All are None
    if the step failed.
    """

    step: Step
    client: dict[str, Any] | None = None
    server: dict[str, Any] | None = None
    gaps: pl.DataFrame | None = None
    bursts: pl.DataFrame | None = None

    @property
    def interval_s(self) -> float:
        """Returns the interval at which iperf3 reported in this step."""
        return (
            UDP_INTERVAL_S if self.step.offered_bps and self.step.streams == 1 else TCP_INTERVAL_S
        )


def read_steps(generators: Path) -> list[StepResult]:
    """Reads the steps of a run, in their order, with their results. `generators` is the folder of
    these files. Raises GeneratorError if a file is missing or damaged.
    """
    try:
        steps = [
            Step(**fields)
            for fields in foreign_json.loads((generators / run_files.STEPS).read_text())
        ]
    except (OSError, ValueError, TypeError) as error:
        raise GeneratorError(f"{run_files.STEPS} can't be read: {error}") from error
    return [_read_result(step, generators) for step in steps]


def _read_result(step: Step, generators: Path) -> StepResult:
    """Reads the results of a step from the file of its kind: packet trains, bursts, or iperf3's
    JSON. Without results if the step failed.
    """
    if step.failed or not step.label:
        return StepResult(step)
    if step.name == TRAINS:
        return StepResult(step, gaps=gaps_of(generators / run_files.trains(step.label)))
    if step.name == BURSTS:
        return StepResult(step, bursts=bursts_of(generators / run_files.trains(step.label)))
    client = load_json(generators / run_files.iperf3_client(step.label))
    server_file = generators / run_files.iperf3_server(step.label)
    server = load_json(server_file) if server_file.exists() else client.get("server_output_json")
    return StepResult(step, client, server)


def gaps_of(output: Path) -> pl.DataFrame:
    """Reads the time between the answers to successive packets of a train, which shows the
    bottleneck's rate.

    Returns a row for each packet, `arrived_s` (since 1970) and `gap_s`, if the packet and the one
    before it were both answered. The first two packets of a train are left out, because they may
    pass a token bucket at once. Raises GeneratorError if the file is not ccmix-rtt's.
    """
    table = _read_trains(output)
    follows_predecessor = pl.col("sequence").diff() == 1
    past_bucket = pl.col("sequence") % TRAIN_PACKETS >= BUCKET_PACKETS
    gaps = (
        table.with_columns(gap_ns=pl.col("arrived_ns").diff())
        .filter(follows_predecessor, past_bucket)
        .drop_nulls()
    )
    return gaps.select(arrived_s=pl.col("arrived_ns") / 1e9, gap_s=pl.col("gap_ns") / 1e9)


def bursts_of(output: Path) -> pl.DataFrame:
    """Reads the result of each long train of packets, whose losses show how much a short queue or a
    policer holds.

    Returns a row for each train:
    sent_s: since 1970
    seconds: from the second to the last answer; 0 if fewer than three came
    lost: the number of lost packets
    before_loss, after_loss: how many packets precede the first lost one and follow the last lost
        one

    Raises GeneratorError if the file is not ccmix-rtt's.
    """
    table = _read_trains(output)
    lost, position = pl.col("arrived_ns").is_null(), pl.col("sequence") % BURST_PACKETS
    second_ns = pl.col("arrived_ns").drop_nulls().get(BUCKET_PACKETS - 1, null_on_oob=True)
    return (
        table.group_by(train=pl.col("sequence") // BURST_PACKETS, maintain_order=True)
        .agg(
            sent_s=pl.col("sent_ns").first() / 1e9,
            seconds=((pl.col("arrived_ns").max() - second_ns) / 1e9).fill_null(0.0),
            lost=lost.sum().cast(pl.Int64),
            before_loss=position.filter(lost).min().fill_null(BURST_PACKETS),
            after_loss=(BURST_PACKETS - 1 - position.filter(lost).max()).fill_null(BURST_PACKETS),
        )
        .drop("train")
    )


def _read_trains(output: Path) -> pl.DataFrame:
    """Reads ccmix-rtt's output, one row a packet: sequence, sent_ns and arrived_ns (nanoseconds
    since 1970; null if no answer came). Raises GeneratorError if it is not ccmix-rtt's.
    """
    try:
        table = pl.read_csv(
            output, schema=dict.fromkeys(("time_s", "sequence", "rtt_s"), pl.String)
        )
        # In nanoseconds: as a float, a time since 1970 in seconds would lose hundreds of them
        sent, rtt = (
            pl.col(name).str.replace(".", "", literal=True).cast(pl.Int64)
            for name in ("time_s", "rtt_s")
        )
        return table.select(
            pl.col("sequence").cast(pl.Int64), sent_ns=sent, arrived_ns=sent + rtt
        ).sort("sequence")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise GeneratorError(f"{output.name} can't be read: {error}") from error


def step_rows(results: list[StepResult], start_s: float) -> pl.DataFrame:
    """Returns the table steps.parquet (STEP_COLUMNS): a row for each interval of a step as its
    receiver counted, or one row for a step without intervals.

    `time_s` is the interval's end; times begin at `start_s`, by the wall clock. `packets` and
    `lost_packets` are UDP's: the packets that the receiver knows of, and those of them that it
    lacks. `packet_bytes` includes all headers.

    Packet trains have a row for each gap of gaps_of(), at the arrival of its answer; bursts have a
    row for each train of bursts_of(), at the time when it was sent.
    """
    rows = [
        _columns_of_step(result, start_s) | interval
        for result in results
        for interval in _intervals_of_step(result, start_s) or [{}]
    ]
    return pl.DataFrame(rows, schema=STEP_COLUMNS)


def _columns_of_step(result: StepResult, start_s: float) -> dict[str, object]:
    """Returns those of STEP_COLUMNS that have the same value in all rows of a step."""
    step, client, server = result.step, result.client or {}, result.server or {}
    udp_ends = [
        stream["udp"] for stream in server.get("end", {}).get("streams", ()) if "udp" in stream
    ]
    out_of_order = sum(stream.get("out_of_order", 0) for stream in udp_ends)
    return {
        "step": step.name,
        "cca": step.cca,
        "streams": step.streams,
        "offered_bps": _sent_bps(step, client),
        "packet_bytes": step.datagram_bytes and on_wire_bytes(step.datagram_bytes),
        "mss_bytes": client.get("start", {}).get("tcp_mss_default"),
        "out_of_order": out_of_order if udp_ends else None,
        "begin_s": step.began_s - start_s,
        "asked_s": float(step.seconds),
        "end_s": step.ended_s - start_s,
        "failed": step.failed,
    }


def _intervals_of_step(result: StepResult, start_s: float) -> list[dict[str, object]]:
    """Returns those of STEP_COLUMNS that belong to an interval, for each interval of a step: a gap
    between two packets of a train, a whole train (of bursts), or an interval of iperf3's server.
    """
    payload_bytes = result.step.datagram_bytes
    if result.gaps is not None:
        return [
            {
                "time_s": arrived_s - start_s,
                "seconds": gap_s,
                "received_bytes": payload_bytes,
                "packets": 1,
                "lost_packets": 0,
            }
            for arrived_s, gap_s in result.gaps.iter_rows()
        ]
    if result.bursts is not None:
        return [
            {
                "time_s": train["sent_s"] - start_s,
                "seconds": train["seconds"],
                "received_bytes": (BURST_PACKETS - train["lost"]) * (payload_bytes or 0),
                "packets": BURST_PACKETS,
                "lost_packets": train["lost"],
                "before_loss": train["before_loss"],
                "after_loss": train["after_loss"],
            }
            for train in result.bursts.iter_rows(named=True)
        ]
    totals = [interval["sum"] for interval in (result.server or {}).get("intervals", ())]
    return [
        {
            "time_s": result.step.began_s - start_s + total["end"],
            "seconds": total["seconds"],
            "received_bytes": total["bytes"],
            "packets": total.get("packets"),
            "lost_packets": total.get("lost_packets"),
        }
        for total in totals
        if total["seconds"] >= result.interval_s / 2  # the last may be a splinter
    ]


def _sent_bps(step: Step, client: dict[str, Any]) -> float | None:
    """Returns the rate, with all headers, at which a UDP step really sent, as iperf3's client
    counted. If the client did not count, returns the requested rate. Returns None for TCP.
    """
    sent = client.get("end", {}).get("sum_sent", {})
    if not step.offered_bps or not step.datagram_bytes or not sent.get("seconds"):
        return step.offered_bps
    wire_factor = on_wire_bytes(step.datagram_bytes) / step.datagram_bytes
    return float(sent["bytes"]) * 8 / float(sent["seconds"]) * wire_factor


def flows_and_intervals(
    results: list[StepResult], traffic: Traffic, host: str, start_s: float
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns the flows (FLOW_COLUMNS) and the intervals (INTERVAL_COLUMNS) of all steps with
    iperf3. A flow's rates refer only to the time of its step.

    traffic: the traffic of the whole run
    host: the sending host
    start_s: the start of the traffic by the wall clock, from which times count
    """
    all_flows, all_intervals = [], []
    for result in results:
        if result.client is None:
            continue
        step = result.step
        step_traffic = _traffic_of_step(result, traffic, host)
        begin_s = step.began_s - start_s
        flows = read_flows(step_traffic, result.client, host).with_columns(
            group=pl.lit(step.name), begin_s=begin_s, end_s=begin_s + step.seconds
        )
        intervals = read_intervals(step_traffic, result.client, result.server, flows)
        all_flows.append(flows)
        all_intervals.append(intervals.with_columns(pl.col("time_s") + step.began_s - start_s))
    return join_tables(FLOW_COLUMNS, all_flows), join_tables(INTERVAL_COLUMNS, all_intervals)


def _traffic_of_step(result: StepResult, traffic: Traffic, host: str) -> Traffic:
    """Returns the traffic that a run would have if it consisted only of this step."""
    step = result.step
    source: Iperf3Source | UdpSource
    if step.offered_bps:
        source = UdpSource("", host, step.offered_bps / step.streams, step.streams)
    else:
        source = Iperf3Source("", host, (Group(step.cca or ""),), step.streams)
    return replace(
        traffic,
        sources=(source,),
        duration_s=float(step.seconds),
        omit_s=0.0,
        interval_s=result.interval_s,
    )


def connections_of_steps(results: list[StepResult], host: str) -> pl.DataFrame:
    """Returns the TCP connections of all steps as CONNECTION_COLUMNS. `host` is the sender."""
    by_step = (stream_connections(result.client, host) for result in results if result.client)
    return join_tables(CONNECTION_COLUMNS, by_step).unique(maintain_order=True)
