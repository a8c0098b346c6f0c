"""A run's raw files to tables: flows, goodput and retransmissions per interval, sockets, queues."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.generators.iperf3 import load_json
from ccmix.model import Run
from ccmix.probes import sockets
from ccmix.probes.sampler import read_samples
from ccmix.terms import CCAS


@dataclass(frozen=True)
class RunTables:
    """The tables of a run; time_s is 0 when the test's traffic starts, the omitted time included.

    flows: port, stream, group, cca_asked, cca_used, goodput_bps, throughput_bps, retransmits (omitted time left out)
    intervals: time_s (end), seconds, port, group, omitted, goodput_bps, retransmits
    sockets: time_s, port, group, and the fields of probes.sockets.Socket
    queues: time_s, bytes, packets, drops, overlimits, backlog_bytes, backlog_packets of the bottleneck
    """

    flows: pl.DataFrame
    intervals: pl.DataFrame
    sockets: pl.DataFrame
    queues: pl.DataFrame

    def write(self, folder: Path) -> None:
        for name in ("intervals", "sockets", "queues"):
            getattr(self, name).write_parquet(folder / f"{name}.parquet")


def read_tables(run: Run, folder: Path) -> RunTables:
    """Raises GeneratorError, ValueError or KeyError where a raw file is not what its tool writes."""
    client = load_json(folder / "generators" / "h1-iperf3-client.json")
    server = load_json(folder / "generators" / "h1-iperf3-server.json")
    flows = _flows(run, client)
    groups = flows.select("port", "group")
    samples = _sockets(folder / "logs" / "sockets.jsonl", groups)
    start_s = _start_of_traffic_s(samples)
    return RunTables(
        flows=flows,
        intervals=_intervals(run, client, server, groups),
        sockets=samples.with_columns(pl.col("time_s") - start_s),
        queues=_queues(folder / "logs" / "queues.jsonl").with_columns(pl.col("time_s") - start_s),
    )


def _flows(run: Run, client: dict[str, Any]) -> pl.DataFrame:
    """One row a flow, in the order in which the client connects them."""
    ports = {stream["socket"]: stream["local_port"] for stream in client["start"]["connected"]}
    names = run.traffic.group_names
    rows = []
    for number, stream in enumerate(client["end"]["streams"]):
        group = stream["group"] - 1
        rows.append(
            {
                "port": ports[stream["sender"]["socket"]],
                "stream": number,
                "group": names[group],
                "cca_asked": run.traffic.groups[group].cca,
                "cca_used": stream["sender"].get("congestion"),
                "goodput_bps": float(stream["receiver"]["bits_per_second"]),
                "throughput_bps": float(stream["sender"]["bits_per_second"]),
                "retransmits": stream["sender"]["retransmits"],
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _intervals(run: Run, client: dict[str, Any], server: dict[str, Any], groups: pl.DataFrame) -> pl.DataFrame:
    """Goodput as the receiver counts it, retransmissions as the sender does, joined by interval and port."""
    client_ports = {stream["socket"]: stream["local_port"] for stream in client["start"]["connected"]}
    server_ports = {stream["socket"]: stream["remote_port"] for stream in server["start"]["connected"]}
    received = _interval_rows(run, server, server_ports).select(
        "time_s", "seconds", "omitted", "port", goodput_bps="bits_per_second"
    )
    sent = _interval_rows(run, client, client_ports).select("time_s", "port", "retransmits")
    # both ends' timers are a little apart, and either may miss the interval at the end of the omitted time
    nearest = received.sort("time_s").join_asof(
        sent.sort("time_s"),
        on="time_s",
        by="port",
        strategy="nearest",
        tolerance=run.traffic.interval_s / 2,
        check_sortedness=False,
    )
    return nearest.join(groups, on="port", maintain_order="left")


def _interval_rows(run: Run, result: dict[str, Any], ports: dict[int, int]) -> pl.DataFrame:
    """One row per interval and stream.

    iperf3 counts time and bytes from 0 again when the omitted time is over, but takes the first interval after that for
    one that began in the omitted time: its `seconds` and rate are wrong, its `end` and `bytes` are right.
    """
    rows = []
    for number, interval in enumerate(result["intervals"]):
        before = result["intervals"][number - 1] if number else None
        omitted = interval["sum"]["omitted"]
        continues = before is not None and before["sum"]["omitted"] == omitted
        begin_s = before["sum"]["end"] if before and continues else 0.0
        seconds = interval["sum"]["end"] - begin_s
        if seconds < run.traffic.interval_s / 2:
            continue  # the last may be a splinter
        rows += [
            {
                "time_s": interval["sum"]["end"] + (0.0 if omitted else run.traffic.omit_s),
                "seconds": seconds,
                "omitted": omitted,
                "port": ports[stream["socket"]],
                "bits_per_second": stream["bytes"] * 8 / seconds,
                "retransmits": stream.get("retransmits"),
            }
            for stream in interval["streams"]
        ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _sockets(file: Path, groups: pl.DataFrame) -> pl.DataFrame:
    """All samples of the data connections; the control connection is not a flow."""
    rows = [
        {"time_s": sample.time_s, "port": socket.local_port} | asdict(socket)
        for sample in read_samples(file)
        for socket in sockets.parse(sample.output, CCAS)
    ]
    if not rows:
        raise ValueError("no sample of a socket")
    return pl.DataFrame(rows, infer_schema_length=None).join(groups, on="port").drop("local_port")


def _start_of_traffic_s(samples: pl.DataFrame) -> float:
    """The wall clock when the first sample with sent data was taken, less than a sampling interval after the start.

    iperf3's own time stamp is that of its control connection, before the streams connect one after the other.
    """
    times = samples.filter(pl.col("data_segs_out") > 0)["time_s"].to_list()
    if not times:
        raise ValueError("no sample of a socket that sent data")
    return float(min(times))


def _queues(file: Path) -> pl.DataFrame:
    rows = []
    for sample in read_samples(file):
        root = next((qdisc for qdisc in json.loads(sample.output) if qdisc.get("root")), None)
        if root is None:
            raise ValueError(f"a sample of the bottleneck without a root qdisc: {sample.output!r}")
        rows.append(
            {
                "time_s": sample.time_s,
                "bytes": root["bytes"],
                "packets": root["packets"],
                "drops": root["drops"],
                "overlimits": root["overlimits"],
                "backlog_bytes": root["backlog"],
                "backlog_packets": root["qlen"],
            }
        )
    if not rows:
        raise ValueError("no sample of the bottleneck's queue")
    return pl.DataFrame(rows, infer_schema_length=None)
