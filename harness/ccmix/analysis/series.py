"""Reads the recordings of a run's probes: ccmix-sockmon's streams, or samples of ss, tc and /proc.

Columns, their names and types are those of the stream (probes/sockmon/README.md). ss, tc and /proc
give only some of them.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ccmix.archive import parquet
from ccmix.hosts.caps import MOST_SOCKET_SAMPLES
from ccmix.hosts.output_text import last_line, output_lines
from ccmix.model import Measurement, ProbeReport, run_files
from ccmix.probes import rtt, sampler, sockets, sockmon
from ccmix.probes.sampler import Sample, read_samples, sample_parts
from ccmix.probes.stream.format import CPU_TIMES
from ccmix.probes.stream.reader import Stream, stream_parts
from ccmix.probes.stream.socket_columns import SOCKET_COLUMNS
from ccmix.terms import CCAS

SRC = "src"  # the sending host of a path between hosts
# of several senders 'sockets-NAME.jsonl'
SOCKETS_BY_SS, QUEUES_BY_TC = "sockets.jsonl", "queues.jsonl"
_SS_COLUMNS: dict[str, Any] = {
    part.name: pl.Int64 if part.type is int else pl.String if part.type is str else pl.Float64
    for part in fields(sockets.Socket)
} | {
    part.name: pl.Series(np.empty(0, SOCKET_COLUMNS[part.name].dtype)).dtype
    for part in fields(sockets.Socket)
    if part.name in SOCKET_COLUMNS
}
_TC_COLUMNS: dict[str, Any] = {
    "kind": pl.String,
    "handle": pl.String,
    "parent": pl.String,
    "bytes": pl.UInt64,
    "packets": pl.UInt64,
    "drops": pl.UInt32,
    "overlimits": pl.UInt32,
    "requeues": pl.UInt32,
    "backlog_bytes": pl.UInt32,
    "backlog_packets": pl.UInt32,
    "least_backlog_bytes": pl.UInt32,
}
TC_COUNTERS = ("bytes", "packets", "drops", "overlimits", "requeues")
SAMPLED_LINES = 5000  # that become a table at a time: each takes some kB until then
IPV4_IN_IPV6 = "::ffff:"
PEER: dict[str, Any] = {"peer_port": pl.Int64, "peer_address": pl.Categorical}  # see with_peers()
_SAMPLE: dict[str, Any] = {"time_s": pl.Float64, "took_s": pl.Float64}
_FAILURES = ("lost_replies", "lost_events", "truncated")  # counts of a report that should be 0
# by name, and so in files: sockets, queues, counters, cpu, processes, rtt
Tables = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Part:
    """A part of a run's recordings, because all of them may not fit into memory. Tables have all
    columns; `probes` and `diagnostics` are as in Series.
    """

    tables: Tables
    probes: Mapping[str, ProbeReport] = field(default_factory=dict)
    diagnostics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """Holds the columns of recorded tables that metrics and verdicts need (NEEDED). An empty table
    may lack columns.

    sockets: `end` is 'sender' or 'receiver', `host` and `port` the sender's; host is 'src' between
        hosts; PEER
    queues: `place` as in facts.json's qdiscs, such as 'bottleneck' or 'sender-queue h2'
    counters: of the ends' namespaces, those that COUNTED names
    cpu: `host` is 'src' or 'dst', or 'localhost' on an emulated path
    processes: `host` as in cpu; a row whose `threads` is 0 is of one thread of the process
        `parent_pid`
    rtt: a row for each question of ccmix-rtt; rtt_s is null if no answer came
    probes: a report on each probe, as in facts.json's `probes`: samples, missed, failed (why, or
        None), longest_delay_s
    diagnostics: other messages of the probes
    """

    sockets: pl.DataFrame
    queues: pl.DataFrame = field(default_factory=pl.DataFrame)
    counters: pl.DataFrame = field(default_factory=pl.DataFrame)
    cpu: pl.DataFrame = field(default_factory=pl.DataFrame)
    processes: pl.DataFrame = field(default_factory=pl.DataFrame)
    rtt: pl.DataFrame = field(default_factory=pl.DataFrame)
    probes: Mapping[str, ProbeReport] = field(default_factory=dict)
    diagnostics: tuple[str, ...] = ()


_NEEDED = {
    "sockets": (
        "time_s end host port peer_port peer_address cookie age_s final state cca rtt_s min_rtt_s "
        "bytes_sent bytes_retransmitted bytes_acked bytes_received segs_in segs_out data_segs_out "
        "retransmits busy_s receiver_window_limited_s send_buffer_limited_s send_window_bytes "
        "app_limited unsent_bytes sacked ecn max_pacing_rate_bps"
    ),
    "queues": (
        "time_s took_s place parent queue bytes packets drops overlimits backlog_bytes "
        "backlog_packets least_backlog_bytes flow_limit_drops"
    ),
    "counters": ("time_s took_s netns name value"),
    "cpu": " ".join(("time_s", "host", "core", *CPU_TIMES)),
    "processes": ("time_s host pid parent_pid name started_s threads user_s system_s"),
    "rtt": ("time_s rtt_s"),
}
NEEDED = {name: columns.split() for name, columns in _NEEDED.items()}

# Counters of packets, in segments
COUNTED = (
    "Tcp.OutSegs Tcp.RetransSegs Udp.OutDatagrams Icmp.OutMsgs IpExt.InNoECTPkts IpExt.InECT0Pkts "
    "IpExt.InECT1Pkts IpExt.InCEPkts TcpExt.TCPSynRetrans Ip.OutDiscards Udp.SndbufErrors"
)


def recorded(
    logs: Path, measurement: Measurement, hosts: Sequence[str], cores: str | None
) -> Iterator[Part]:
    """Yields all recordings in a run's folder logs/, in parts that fit into memory. time_s is by
    this machine's wall clock.

    `hosts`: ('localhost',) on an emulated path, otherwise ('src', 'dst'). `cores`: the cores whose
    load is wanted, such as '4-5'; None: all. Raises ValueError if a file is not what a probe
    writes.
    """
    for host, name in zip(
        hosts, (run_files.SOCKMON_STREAM, run_files.SOCKMON_DESTINATION_STREAM), strict=False
    ):
        if (file := logs / name).exists():
            yield from _read_sockmon(file, host, measurement)
    for host, name in _ss_files(measurement).items():
        if (file := logs / name).exists():
            yield from (Part({"sockets": table}) for table in _read_ss_samples(file, host))
    if (file := logs / QUEUES_BY_TC).exists():
        yield Part({"queues": _queue_table(read_samples(file))})
    for host in hosts:
        if (file := logs / f"processors-{host}.jsonl").exists():
            yield from (
                Part({"cpu": _cpu_table(samples, host, cores)})
                for samples in sample_parts(file, SAMPLED_LINES)
            )
    if (logs / run_files.RTT_SAMPLES).exists():
        yield _read_rtt_probe(logs, measurement.clocks_s.get(hosts[0], 0.0))


def _ss_files(measurement: Measurement) -> dict[str, str]:
    """Returns the name of the file with ss's samples, for each sending host."""
    senders = list((measurement.series.senders or {"": SRC}).values())
    return {
        host: SOCKETS_BY_SS if len(senders) == 1 else f"sockets-{host}.jsonl" for host in senders
    }


def read_series(parts: Iterable[Part]) -> Series:
    """Joins the parts of the recordings into whole tables that keep only the columns and counters
    that metrics need (NEEDED, COUNTED).
    """
    tables: dict[str, list[pl.DataFrame]] = {name: [] for name in NEEDED}
    probes: dict[str, ProbeReport] = {}
    diagnostics: list[str] = []
    for part in parts:
        for name in NEEDED:
            if name in part.tables:
                tables[name].append(_needed_part(name, part.tables[name]))
        probes |= part.probes
        diagnostics += part.diagnostics
    if not tables["sockets"]:
        tables["sockets"].append(_needed_part("sockets", _socket_table([], SRC)))
    joined_tables = {
        name: pl.concat(parts_of_table, how="diagonal")
        for name, parts_of_table in tables.items()
        if parts_of_table
    }
    return Series(**joined_tables, probes=probes, diagnostics=tuple(diagnostics))


def _needed_part(name: str, table: pl.DataFrame) -> pl.DataFrame:
    """Returns the columns and counters of a recorded table that metrics need (NEEDED, COUNTED)."""
    if name == "sockets":
        table = with_peers(table)
    elif name == "counters":
        table = table.filter(pl.col("name").is_in(COUNTED.split()))
    return table.select(column for column in NEEDED[name] if column in table.columns)


def write_tables(parts: Iterable[Tables], folder: Path) -> None:
    """Writes NAME.parquet for each table that has rows, joined over all parts. Parts go to
    temporary files first, because all of them may not fit into memory. Raises OSError.
    """
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        files: dict[str, parquet.Parts] = {}
        for tables in parts:
            for name, table in tables.items():
                if not table.is_empty():
                    files.setdefault(name, parquet.Parts(Path(temporary), name)).add(table)
        for name, rows in files.items():
            rows.write(folder / f"{name}.parquet")


def read_sockets(logs: Path) -> Iterator[pl.DataFrame]:
    """Yields the samples of all sockets of a run as tables. Also reads runs that failed. Raises
    OSError or ValueError if the recordings are missing or damaged.
    """
    if (stream := logs / run_files.SOCKMON_STREAM).exists():
        yield from (part.sockets for part in stream_parts(stream))
    else:
        for file in sorted(logs.glob("sockets*.jsonl")):
            yield from _read_ss_samples(file, file.stem)


def with_peers(sockets: pl.DataFrame) -> pl.DataFrame:
    """Adds peer_port and peer_address: the port and the address of the receiving end of the
    connection, whichever end was sampled.
    """
    at_sender = pl.col("end") == "sender"
    port = pl.when(at_sender).then("remote_port").otherwise("local_port")
    address = pl.when(at_sender).then("remote_address").otherwise("local_address")
    return sockets.with_columns(
        peer_port=port.cast(pl.Int64),
        peer_address=address.str.strip_prefix(IPV4_IN_IPV6).cast(pl.Categorical),
    )


def sampled(table: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of a socket table that are samples of the senders' established sockets.
    These are the ones that both ss and ccmix-sockmon see, so metrics don't depend on the tool.
    """
    if table.is_empty():
        return table
    return table.filter(
        pl.col("end") == "sender", ~pl.col("final"), pl.col("state") == "established"
    )


def earlier(tables: Tables, by_s: float) -> dict[str, pl.DataFrame]:
    """Returns the tables with time_s reduced by `by_s`: to count from the start of the traffic, or
    to correct a clock.
    """
    return {
        name: table.with_columns(pl.col("time_s") - by_s)
        for name, table in tables.items()
        if table.width
    }


def _read_sockmon(file: Path, host: str, measurement: Measurement) -> Iterator[Part]:
    """Yields the parts of a stream of ccmix-sockmon. The stream names network namespaces, devices
    and addresses; the columns end, host, port and place are added, which say what these names mean
    in the run.

    `measurement.series` has the meanings, and `measurement.clocks_s` says by how much the clock of
    `host` is ahead of this machine's.
    """
    at_destination = measurement.series.senders is None and host != SRC
    ends = {
        netns: "receiver" if at_destination else end
        for netns, end in measurement.series.sockets.items()
    }
    end = pl.col("netns").replace_strict(ends, default=None, return_dtype=pl.String)
    device = pl.concat_str("netns", pl.lit("/"), "device")
    names = measurement.series.queues
    place_name = device.replace_strict(names, default=None, return_dtype=pl.String)
    host_column = pl.lit(host).alias("host")
    probe_name = "sockmon" if host == "localhost" else f"sockmon-{host}"
    port = pl.when(end == "sender").then("local_port").otherwise("remote_port")
    address = pl.when(end == "sender").then("local_address").otherwise("remote_address")
    senders = measurement.series.senders
    sender = address.str.strip_prefix(IPV4_IN_IPV6).replace_strict(
        senders or {}, default=None, return_dtype=pl.String
    )
    sending_host = pl.lit(SRC) if senders is None else sender
    ahead_s = measurement.clocks_s.get(host, 0.0)
    if not file.stat().st_size:  # the probe could not even start
        yield Part({}, {probe_name: _report_early_end(file)})
        return
    for stream in stream_parts(file):
        tables = {
            "sockets": stream.sockets.with_columns(end=end, host=sending_host, port=port),
            "queues": stream.queues.with_columns(place=place_name),
            "counters": stream.counters.with_columns(host_column),
            "cpu": stream.cpu.with_columns(host_column),
            "processes": stream.processes.with_columns(host_column),
        }
        diagnostics = tuple(f"{probe_name}: {note}" for note in stream.notes)
        yield Part(earlier(tables, ahead_s), {probe_name: _probe_report(stream, file)}, diagnostics)


def _read_rtt_probe(logs: Path, ahead_s: float) -> Part:
    """Reads the RTTs that ccmix-rtt measured, and reports whether it worked to its end. `ahead_s`
    says by how much the clock of its host is ahead of this machine's.
    """
    stderr_line = last_line(logs / run_files.RTT_ERRORS)
    try:
        samples = rtt.read(logs / run_files.RTT_SAMPLES)
    except rtt.RttError as error:
        return Part({}, {"rtt": ProbeReport(0, 0, stderr_line or str(error))})
    report = ProbeReport(samples.table.height, samples.missed, stderr_line or None)
    return Part(earlier({"rtt": samples.table}, ahead_s), {"rtt": report})


def _report_early_end(file: Path) -> ProbeReport:
    """Reports that ccmix-sockmon ended too early. Its stream then lacks the final counts, so the
    number of samples is not known.
    """
    stderr_line = last_line(sockmon.errors_of(file))
    why = f": {stderr_line}" if stderr_line else ""
    return ProbeReport(None, None, f"it ended before its time{why}")


def _probe_report(stream: Stream, file: Path) -> ProbeReport:
    """Reports how ccmix-sockmon worked, from the final counts in its stream: samples, missed and
    lost ones.
    """
    if stream.report is None:
        return _report_early_end(file)
    failures = [
        f"{name.replace('_', ' ')}: {count}" for name in _FAILURES if (count := stream.report[name])
    ]
    return ProbeReport(
        samples=stream.report["samples"],
        missed=stream.report["missed"],
        failed=", ".join(failures) or None,
        longest_delay_s=stream.report["longest_delay_ns"] / 1e9,
    )


def _read_ss_samples(file: Path, host: str) -> Iterator[pl.DataFrame]:
    """Yields socket tables from the samples of ss in a file, some thousand samples at a time.
    Raises ValueError if ss printed too many lines to be read.
    """
    rows = 0
    for samples in sample_parts(file, SAMPLED_LINES):
        rows += sum(1 for sample in samples for _ in output_lines(sample.output))
        if rows > MOST_SOCKET_SAMPLES:
            raise ValueError(f"{file}: ss printed more than {MOST_SOCKET_SAMPLES} lines")
        yield _socket_table(samples, host)


def _socket_table(samples: Sequence[Sample], host: str) -> pl.DataFrame:
    """Parses samples of ss into a table like ccmix-sockmon's. ss runs on the sending host and
    prints only established sockets, so `state`, `end` and `host` are the same in all rows.
    """
    rows = [
        {"time_s": sample.time_s, "took_s": sample.seconds} | asdict(socket)
        for sample in samples
        for socket in sockets.parse(sample.output, CCAS)
    ]
    return pl.DataFrame(rows, schema=_SAMPLE | _SS_COLUMNS).with_columns(
        final=False,
        state=pl.lit("established"),
        end=pl.lit("sender"),
        host=pl.lit(host),
        port="local_port",
    )


def _queue_table(samples: Sequence[Sample]) -> pl.DataFrame:
    """Parses samples of `tc -s -j qdisc show` at the bottleneck into a table like
    ccmix-sockmon's.
    """
    rows = [
        {
            "time_s": sample.time_s,
            "took_s": sample.seconds,
            "kind": qdisc["kind"],
            "handle": qdisc["handle"],
            "parent": "root" if qdisc.get("root") else qdisc["parent"],
            "backlog_bytes": qdisc["backlog"],
            "backlog_packets": qdisc["qlen"],
            **{name: qdisc[name] for name in TC_COUNTERS},
        }
        for sample in samples
        for qdisc in json.loads(sample.output)
    ]
    return pl.DataFrame(rows, schema=_SAMPLE | _TC_COLUMNS).with_columns(place=pl.lit("bottleneck"))


def _cpu_table(samples: Sequence[Sample], host: str, cores: str | None) -> pl.DataFrame:
    """Parses samples of /proc/stat into a table like ccmix-sockmon's: a row for each core and
    sample.
    """
    rows = [
        {"time_s": sample.time_s, "took_s": sample.seconds, "host": host, "core": core}
        | dict(zip(CPU_TIMES, spent_s, strict=False))
        for sample in samples
        for core, spent_s in sampler.parse_proc_stat(sample.output, cores).items()
    ]
    times = dict.fromkeys(CPU_TIMES, pl.Float64)
    return pl.DataFrame(rows, schema=_SAMPLE | {"host": pl.String, "core": pl.UInt32} | times)
