"""A run's raw files to tables: flows, goodput and retransmissions per interval, sockets, queues, processors."""

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.analysis.completions import read_completions
from ccmix.analysis.iperf3_tables import FLOW, FLOW_COLUMNS, INTERVAL_COLUMNS, read_flows, read_intervals
from ccmix.generators import command, iperf3
from ccmix.generators.results import load_json
from ccmix.model import CommandFlows, Flows, HostPath, Iperf3Flows, Run, UdpFlows
from ccmix.probes import processors, sockets
from ccmix.probes.sampler import read_samples
from ccmix.terms import CCAS

NO_DATA_BYTES = 1000  # iperf3's cookie has 37 bytes, and may be sent again; its first block fills ten segments
LEAST_SHARE_OF_A_FLOW = 0.01  # of the largest: a connection that carries less, as a control connection does, is no flow
SRC = "src"  # the sending host of a path between hosts
QUEUE_COLUMNS = {
    "time_s": pl.Float64, "bytes": pl.Int64, "packets": pl.Int64, "drops": pl.Int64, "overlimits": pl.Int64,
    "backlog_bytes": pl.Int64, "backlog_packets": pl.Int64,
}  # fmt: skip
PROCESSOR_COLUMNS: dict[str, Any] = {"time_s": pl.Float64, "host": pl.String, "core": pl.Int64} | dict.fromkeys(
    processors.SHARES, pl.Float64
)


@dataclass(frozen=True)
class RunTables:
    """The tables of a run; time_s is 0 when the test's traffic starts, the omitted time included.

    flows: host, port, stream, group, cca_asked, cca_used, goodput_bps, throughput_bps, retransmits, bytes_sent; the
           omitted time left out; host is the sender's name, 'src' between hosts
    intervals: time_s (end), seconds, host, port, group, omitted, goodput_bps, retransmits
    sockets: time_s, host, port, group, and the fields of probes.sockets.Socket
    queues: time_s, bytes, packets, drops, overlimits, backlog_bytes, backlog_packets of an emulated bottleneck
    completions: see completions.read_completions()
    processors: time_s, host, core, and the shares of probes.processors.SHARES; host is 'src' or 'dst'
    """

    flows: pl.DataFrame
    intervals: pl.DataFrame
    sockets: pl.DataFrame
    queues: pl.DataFrame
    processors: pl.DataFrame
    completions: pl.DataFrame = field(default_factory=pl.DataFrame)

    def write(self, folder: Path) -> None:
        """A file for each series that has rows."""
        for name in ("intervals", "sockets", "queues", "processors", "completions"):
            table: pl.DataFrame = getattr(self, name)
            if not table.is_empty():
                table.write_parquet(folder / f"{name}.parquet")


def read_tables(run: Run, folder: Path) -> RunTables:
    """Raises GeneratorError, ValueError, KeyError or TypeError where a raw file is not what its tool writes."""
    if isinstance(run.path, HostPath):
        return _between_hosts(run, run.path, folder)
    return _emulated(run, folder)


def _emulated(run: Run, folder: Path) -> RunTables:
    generators, logs = folder / "generators", folder / "logs"
    tests = [_iperf3(run, line, generators) for line in run.flows if isinstance(line.what, Iperf3Flows | UdpFlows)]
    flows = pl.concat([pl.DataFrame(schema=FLOW_COLUMNS), *(flows for flows, _ in tests)])
    senders = [sender.name for sender in run.topology.senders]
    of_hosts = [
        _samples(logs / f"{'sockets' if len(senders) == 1 else f'sockets-{name}'}.jsonl", name) for name in senders
    ]
    seen = pl.concat(of_hosts, how="vertical_relaxed")
    of_commands = [_of_command(line, seen, flows) for line in run.flows if isinstance(line.what, CommandFlows)]
    flows = pl.concat([flows, *of_commands])
    samples = seen.join(flows.select(*FLOW, "group"), on=FLOW)
    start_s = _start_of_traffic_s(samples, otherwise=_asked_to_start_s(folder) if run.traffic.flows else None)
    return RunTables(
        flows=flows,
        intervals=pl.concat([pl.DataFrame(schema=INTERVAL_COLUMNS), *(intervals for _, intervals in tests)]),
        sockets=samples.with_columns(pl.col("time_s") - start_s),
        queues=_queues(logs / "queues.jsonl").with_columns(pl.col("time_s") - start_s),
        processors=pl.DataFrame(schema=PROCESSOR_COLUMNS),
        completions=read_completions(run, generators),
    )


def _asked_to_start_s(folder: Path) -> float:
    return float(json.loads((folder / "facts.json").read_text())["started_s"])


def _of_command(line: Flows, seen: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """The flows of a command, whatever it is: its host's connections that carried data, and are nobody else's."""
    own = seen.filter(pl.col("host") == line.host, ~_of_ccmix()).join(others.select(FLOW), on=FLOW, how="anti")
    return _flows_of_sockets(own).with_columns(group=pl.lit(line.name))


def _of_ccmix() -> pl.Expr:
    """Connections of ccmix's own servers, one end of which has one of their ports."""
    of_server = [
        pl.col(port).is_between(iperf3.PORT, iperf3.PORT + iperf3.MOST_PORTS) for port in ("port", "remote_port")
    ]
    return pl.any_horizontal(of_server)


def _iperf3(run: Run, line: Flows, generators: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Flows and intervals of a line that iperf3 made."""
    client = load_json(generators / iperf3.client_file(line.label))
    server = load_json(generators / iperf3.server_file(line.label))
    traffic = run.traffic.of_line(line)
    flows = read_flows(traffic, client, line.host, line.name)
    intervals = read_intervals(traffic, client, server, flows)
    return flows, intervals.with_columns(pl.col("time_s") + line.start_s)


def as_measured(run: Run, folder: Path) -> Run:
    """The run with the omitted time and the interval that the iperf3 of a src-cmd was really given."""
    if not isinstance(run.path, HostPath) or not run.path.commands.src:
        return run
    client = command.result_of(folder / "generators").client
    if client is None:
        return run
    given = client["start"].get("test_start", {})
    omit_s, interval_s = float(given.get("omit", 0.0)), float(given.get("interval") or run.traffic.interval_s)
    return replace(run, traffic=replace(run.traffic, omit_s=omit_s, interval_s=interval_s))


def _between_hosts(run: Run, path: HostPath, folder: Path) -> RunTables:
    """Flows by iperf3's own word where it was there to give one, else as the source's sockets show them."""
    generators, logs = folder / "generators", folder / "logs"
    if path.commands.src:
        result = command.result_of(generators)
        client, server = result.client, result.server
    else:
        client = load_json(generators / iperf3.client_file())
        server_file = generators / iperf3.server_file()
        server = load_json(server_file) if server_file.exists() else client.get("server_output_json")
    facts = json.loads((folder / "facts.json").read_text())
    foreign = () if path.commands.src_once else facts["ports_before"]
    seen = _samples(logs / "sockets.jsonl", SRC).filter(~pl.col("port").is_in(list(foreign)))
    flows = _flows_of_sockets(seen) if client is None else read_flows(run.traffic, client, SRC)
    samples = seen.join(flows.select(*FLOW, "group"), on=FLOW)
    start_s = _start_of_traffic_s(samples, otherwise=facts["started_s"])
    if client is None:
        intervals = _intervals_of_sockets(samples.with_columns(pl.col("time_s") - start_s))
    else:
        intervals = read_intervals(run.traffic, client, server, flows)
    cores = [
        {"host": host} | row
        for host in ("src", "dst")
        if (file := logs / f"processors-{host}.jsonl").exists()
        for row in processors.read(read_samples(file), path.mpstat_cores)
    ]
    return RunTables(
        flows=flows,
        intervals=intervals,
        sockets=samples.with_columns(pl.col("time_s") - start_s),
        queues=pl.DataFrame(schema=QUEUE_COLUMNS),
        processors=pl.DataFrame(cores, schema=PROCESSOR_COLUMNS).with_columns(pl.col("time_s") - start_s),
    )


def _samples(file: Path, host: str) -> pl.DataFrame:
    """All samples of all sockets of a host, with their `port`."""
    rows = [
        {"time_s": sample.time_s, "host": host, "port": socket.local_port} | asdict(socket)
        for sample in read_samples(file)
        for socket in sockets.parse(sample.output, CCAS)
    ]
    if not rows:
        kinds = {"time_s": pl.Float64, "host": pl.String, "port": pl.Int64} | {
            part.name: pl.Float64 if part.type in (float, float | None) else pl.String if part.type is str else pl.Int64
            for part in fields(sockets.Socket)
        }
        return pl.DataFrame(schema=kinds).drop("local_port")
    return pl.DataFrame(rows, infer_schema_length=None).drop("local_port")


def _start_of_traffic_s(samples: pl.DataFrame, otherwise: float | None = None) -> float:
    """The wall clock when the first sample with sent data was taken, less than a sampling interval after the start.

    iperf3's own time stamp is that of its control connection, before the streams connect one after the other; and what
    each of them sends first, its cookie, is no traffic.
    `otherwise` is for a source whose sockets send nothing, as in a test of the other direction.
    """
    times = samples.filter(pl.col("bytes_sent") > NO_DATA_BYTES)["time_s"].to_list()
    if not times and otherwise is None:
        raise ValueError("no sample of a socket that sent data")
    return float(min(times)) if times else float(otherwise or 0)


def bytes_sampled(folder: Path) -> int:
    """What the sockets of a run, also of a failed one, had sent at their last samples; 0 where nothing can be read."""
    try:
        samples = _samples(folder / "logs" / "sockets.jsonl", SRC)
    except (OSError, ValueError, LookupError, TypeError):
        return 0
    return bytes_sent(samples)


def bytes_sent(samples: pl.DataFrame) -> int:
    """By all sockets, each until its last sample."""
    return int(samples.group_by(FLOW).agg(pl.col("bytes_sent").max())["bytes_sent"].sum())


def _flows_of_sockets(samples: pl.DataFrame) -> pl.DataFrame:
    """The connections that carried data, each with what the destination acknowledged.

    All over the same time, from the first sample of any of them to the last: so flows one after the other don't add up
    to more than passed.
    """
    seen = (
        samples.sort("time_s")
        .group_by(FLOW, maintain_order=True)
        .agg(
            acked=pl.col("bytes_acked").last() - pl.col("bytes_acked").first(),
            sent=pl.col("bytes_sent").last() - pl.col("bytes_sent").first(),
            begin_s=pl.col("time_s").first(),
            end_s=pl.col("time_s").last(),
            cca=pl.col("cca").last(),
            retransmits=pl.col("retransmits").last() - pl.col("retransmits").first(),
            bytes_sent=pl.col("bytes_sent").last(),
        )
        .filter((pl.col("end_s") > pl.col("begin_s")) & (pl.col("acked") > 0))
    )
    carried = (
        seen.filter(pl.col("acked") >= LEAST_SHARE_OF_A_FLOW * pl.col("acked").max())
        .with_row_index("stream")
        .with_columns(seconds=pl.col("end_s").max() - pl.col("begin_s").min())
    )
    return carried.select(
        *FLOW,
        pl.col("stream").cast(pl.Int64),
        group="cca",
        cca_asked=pl.lit(None, pl.String),
        cca_used="cca",
        goodput_bps=pl.col("acked") * 8 / pl.col("seconds"),
        throughput_bps=pl.col("sent") * 8 / pl.col("seconds"),
        retransmits="retransmits",
        bytes_sent="bytes_sent",
    ).cast(FLOW_COLUMNS)  # type: ignore[arg-type]


def _intervals_of_sockets(samples: pl.DataFrame) -> pl.DataFrame:
    """Between two samples of a flow: what the destination acknowledged, and what was sent again."""
    return (
        samples.sort(*FLOW, "time_s")
        .select(
            "time_s",
            pl.col("time_s").diff().over(FLOW).alias("seconds"),
            pl.lit(value=False).alias("omitted"),
            *FLOW,
            (pl.col("bytes_acked").diff() * 8 / pl.col("time_s").diff()).over(FLOW).alias("goodput_bps"),
            pl.col("retransmits").diff().over(FLOW).alias("retransmits"),
            "group",
        )
        .drop_nulls("seconds")
        .cast(INTERVAL_COLUMNS)  # type: ignore[arg-type]
    )


def _queues(file: Path) -> pl.DataFrame:
    rows = []
    for sample in read_samples(file):
        root: dict[str, Any] | None = next((qdisc for qdisc in json.loads(sample.output) if qdisc.get("root")), None)
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
    return pl.DataFrame(rows, schema=QUEUE_COLUMNS)
