"""Turns the files of the steps of an entry of type path into flows and intervals. Each step is a
group with its name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from ccmix import foreign_json
from ccmix.analysis.iperf3_tables import FLOW_COLUMNS, INTERVAL_COLUMNS, read_flows, read_intervals
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
    """Holds a step with both ends' JSON, or with the results of its trains; fields are None if the
    step has none, or failed.
    """

    step: Step
    client: dict[str, Any] | None = None
    server: dict[str, Any] | None = None
    gaps: pl.DataFrame | None = None
    bursts: pl.DataFrame | None = None

    @property
    def interval_s(self) -> float:
        """Returns the interval of the step's iperf3."""
        return (
            UDP_INTERVAL_S if self.step.offered_bps and self.step.streams == 1 else TCP_INTERVAL_S
        )


def read_steps(generators: Path) -> list[StepResult]:
    """Reads the steps in their order. Raises GeneratorError if a file is not what it should be."""
    try:
        steps = [
            Step(**fields)
            for fields in foreign_json.loads((generators / run_files.STEPS).read_text())
        ]
    except (OSError, ValueError, TypeError) as error:
        raise GeneratorError(f"{run_files.STEPS} can't be read: {error}") from error
    return [_result(step, generators) for step in steps]


def _result(step: Step, generators: Path) -> StepResult:
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
    """Reads how far apart the answers to trains of packets arrived.

    Returns a row for each packet, from the third of its train on, if both its own answer and that
    of the packet before it came: `arrived_s` (since 1970), `gap_s`. The first two packets may pass
    a token bucket at once. Raises GeneratorError if the file is not ccmix-rtt's.
    """
    table = _answers(output)
    follows = pl.col("sequence").diff() == 1
    behind = pl.col("sequence") % TRAIN_PACKETS >= BUCKET_PACKETS
    gaps = (
        table.with_columns(gap_ns=pl.col("arrived_ns").diff()).filter(follows, behind).drop_nulls()
    )
    return gaps.select(arrived_s=pl.col("arrived_ns") / 1e9, gap_s=pl.col("gap_ns") / 1e9)


def bursts_of(output: Path) -> pl.DataFrame:
    """Reads the result of each long train of packets.

    Returns a row for each train: `sent_s` (since 1970), `seconds` from the arrival of the second
    packet that came to that of the last (0 if fewer than three came), `lost`, and how many packets
    came `before_loss` and `after_loss`: before the first and after the last lost packet. Raises
    GeneratorError if the file is not ccmix-rtt's.
    """
    table = _answers(output)
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


def _answers(output: Path) -> pl.DataFrame:
    """Reads ccmix-rtt's output, in order: sequence, sent_ns and arrived_ns (since 1970; null if no
    answer came).

    Raises GeneratorError.
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
    """Returns STEP_COLUMNS: a row for each interval of a step, by the receiver's count, or a single
    row for a step without intervals.

    `time_s` is the interval's end; times begin at `start_s`. `packets` and `lost_packets` are those
    of UDP: the sent packets that the receiver knows of, and those of them that it lacks.
    `packet_bytes` is the size with all headers.

    For trains there is a row for each gap of gaps_of(), at the time when the answer to its packet
    arrived at the sender; for bursts, a row for each train of bursts_of(), at the time when it was
    sent.
    """
    return pl.concat(
        [pl.DataFrame(schema=STEP_COLUMNS), *(_rows(result, start_s) for result in results)]
    )


def _rows(result: StepResult, start_s: float) -> pl.DataFrame:
    step, server, client = result.step, result.server or {}, result.client or {}
    ended = [
        stream["udp"] for stream in server.get("end", {}).get("streams", ()) if "udp" in stream
    ]
    payload = step.datagram_bytes
    of_step = {
        "step": step.name,
        "cca": step.cca,
        "streams": step.streams,
        "offered_bps": _sent_bps(step, client),
        "packet_bytes": payload and on_wire_bytes(payload),
        "mss_bytes": client.get("start", {}).get("tcp_mss_default"),
        "out_of_order": sum(stream.get("out_of_order", 0) for stream in ended) if ended else None,
        "begin_s": step.began_s - start_s,
        "asked_s": float(step.seconds),
        "end_s": step.ended_s - start_s,
        "failed": step.failed,
    }
    sums = [interval["sum"] for interval in server.get("intervals", ())]
    intervals = [
        {
            "time_s": step.began_s - start_s + each["end"],
            "seconds": each["seconds"],
            "received_bytes": each["bytes"],
            "packets": each.get("packets"),
            "lost_packets": each.get("lost_packets"),
        }
        for each in sums
        if each["seconds"] >= result.interval_s / 2  # the last may be a splinter
    ]
    if result.gaps is not None:
        intervals = [
            {
                "time_s": at_s - start_s,
                "seconds": gap_s,
                "received_bytes": payload,
                "packets": 1,
                "lost_packets": 0,
            }
            for at_s, gap_s in result.gaps.iter_rows()
        ]
    if result.bursts is not None:
        intervals = [
            {
                "time_s": each["sent_s"] - start_s,
                "seconds": each["seconds"],
                "received_bytes": (BURST_PACKETS - each["lost"]) * (payload or 0),
                "packets": BURST_PACKETS,
                "lost_packets": each["lost"],
                "before_loss": each["before_loss"],
                "after_loss": each["after_loss"],
            }
            for each in result.bursts.iter_rows(named=True)
        ]
    return pl.DataFrame([of_step | interval for interval in intervals or [{}]], schema=STEP_COLUMNS)


def _sent_bps(step: Step, client: dict[str, Any]) -> float | None:
    """Returns the rate with all headers at which a step of UDP sent, by its sender's count; if no
    sender counted, the rate that was asked for.
    """
    sent = client.get("end", {}).get("sum_sent", {})
    if not step.offered_bps or not step.datagram_bytes or not sent.get("seconds"):
        return step.offered_bps
    on_wire = on_wire_bytes(step.datagram_bytes) / step.datagram_bytes
    return float(sent["bytes"]) * 8 / float(sent["seconds"]) * on_wire


def flows_and_intervals(
    results: list[StepResult], traffic: Traffic, host: str, start_s: float
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns flows and intervals like those of any test; rates of flows refer to the time of their
    step.
    """
    every = list(_tables(results, traffic, host, start_s))
    return (
        pl.concat([pl.DataFrame(schema=FLOW_COLUMNS), *(flows for flows, _ in every)]),
        pl.concat([pl.DataFrame(schema=INTERVAL_COLUMNS), *(intervals for _, intervals in every)]),
    )


def _tables(
    results: list[StepResult], traffic: Traffic, host: str, start_s: float
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    for result in results:
        if result.client is None:
            continue
        step = result.step
        own = _traffic(result, traffic, host)
        begin_s = step.began_s - start_s
        flows = read_flows(own, result.client, host).with_columns(
            group=pl.lit(step.name), begin_s=pl.lit(begin_s), end_s=pl.lit(begin_s + step.seconds)
        )
        intervals = read_intervals(own, result.client, result.server, flows)
        yield flows, intervals.with_columns(pl.col("time_s") + step.began_s - start_s)


def _traffic(result: StepResult, traffic: Traffic, host: str) -> Traffic:
    """Returns the traffic of a single step."""
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
