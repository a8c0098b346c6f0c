"""Turns samples of sockets by ss into runs: a test consists of flows to one host that overlap in time."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from ccmix.analysis.counters import FlowCounters, count_flows
from ccmix.analysis.iperf3_tables import FLOW, INTERVAL_COLUMNS
from ccmix.analysis.series import NEEDED, SRC, Series, earlier
from ccmix.analysis.tables import (
    LEAST_SHARE_OF_A_FLOW,
    NO_DATA_BYTES,
    RunTables,
    flows_of_sockets,
    intervals_of_sockets,
)
from ccmix.importing import asked_times
from ccmix.importing.foreign_run import ForeignRun, LeftOut
from ccmix.importing.ss_samples import NoTimesError, read_samples
from ccmix.importing.time_lines import LEAST_CLOCK_S
from ccmix.model import Group
from ccmix.model.group_grammar import DEFAULT_CCA

UNSEEN = "the log of ss doesn't show all of its flows"


def read_log(file: Path, name: str) -> Iterator[ForeignRun | LeftOut]:
    """Yields the tests in a log. Raises SourceError and OSError."""
    samples = samples_of(file, name)
    if isinstance(samples, LeftOut):
        yield samples
    else:
        yield from tests_in(samples, name)


def samples_of(file: Path, name: str) -> pl.DataFrame | LeftOut:
    """Returns the samples in a log, or why it has none: its times are missing. Raises SourceError and OSError."""
    try:
        return read_samples(file, name)
    except NoTimesError as error:
        return LeftOut(name, str(error).removeprefix(f"{name}: "))


def tests_in(samples: pl.DataFrame, name: str) -> Iterator[ForeignRun | LeftOut]:
    """Yields the tests that samples show."""
    if samples.is_empty():
        yield LeftOut(name, "no socket was there")
        return
    if samples["bytes_acked"].null_count():
        yield LeftOut(name, "this ss shows no bytes_acked: the bytes that arrived are unknown")
        return
    tests = list(_tests(samples))
    if not tests:
        yield LeftOut(name, "no socket sent data")
    for number, test in enumerate(tests, 1):
        yield _foreign_run(test, f"{name} #{number}" if len(tests) > 1 else name)


def _tests(samples: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yields the samples of the flows of each test, in the order of time."""
    ends = ["local_address", "local_port", "remote_address", "remote_port"]
    ours = _since_last_begin(samples.sort("time_s"), ends)
    of_socket = ours.group_by(ends, maintain_order=True)
    flows = of_socket.agg(
        acked=pl.col("bytes_acked").last() - pl.col("bytes_acked").first(),
        begin_s=pl.col("time_s").first(),
        end_s=pl.col("time_s").last(),
    ).filter(pl.col("acked") > LEAST_SHARE_OF_A_FLOW * pl.col("acked").max(), pl.col("end_s") > pl.col("begin_s"))
    for (_, *_), to_host in flows.sort("begin_s").group_by("local_address", "remote_address", maintain_order=True):
        ended_s = pl.col("end_s").cum_max().shift(1, fill_value=float("inf"))
        numbered = to_host.with_columns(test=(pl.col("begin_s") > ended_s).cum_sum())
        for _, together in numbered.group_by("test", maintain_order=True):
            yield ours.join(together.select(ends), on=ends, how="semi", maintain_order="left")


def _since_last_begin(samples: pl.DataFrame, ends: list[str]) -> pl.DataFrame:
    """Drops samples from before a socket's counters began again, for another socket of the same ports; keeps one
    sample of a socket at a time.
    """
    samples = samples.unique([*ends, "time_s"], keep="last", maintain_order=True)
    again = (pl.col("bytes_acked").diff() < 0).fill_null(value=False).cum_sum().over(ends)
    return samples.with_columns(life=again).filter(pl.col("life") == pl.col("life").max().over(ends)).drop("life")


def with_sockets(run: ForeignRun, samples: pl.DataFrame) -> ForeignRun:
    """Returns the run with ss's samples of its flows, matched by their ports, unless some flows have no samples."""
    if not isinstance(run.results, RunTables) or samples.is_empty() or samples["data_segs_out"].null_count():
        return replace(run, missing=(*run.missing, UNSEEN))
    results, flows = run.results, run.results.flows
    ends = ["local_address", "local_port", "remote_address", "remote_port"]
    table = _of_series(_since_last_begin(samples.sort("time_s"), ends))
    table = table.join(flows.select(*FLOW, "group"), on=FLOW, maintain_order="left")
    sending = table.filter(pl.col("bytes_sent") > NO_DATA_BYTES)
    if sending["port"].n_unique() < flows.height:
        return replace(run, missing=(*run.missing, UNSEEN))
    begun_s = sending["time_s"].min()
    began_s = begun_s if isinstance(begun_s, float) else 0.0
    table = earlier({"sockets": table}, began_s)["sockets"]
    return replace(
        run,
        results=replace(
            results,
            series=Series(sockets=table.select(_needed(table))),
            counters=_sent_counters(table),
            reported=None,
            recorded=lambda: [{"sockets": table}],
        ),
        began_s=began_s,
        ended_s=began_s + run.omit_s + run.duration_s,
    )


def _of_series(samples: pl.DataFrame) -> pl.DataFrame:
    """Returns the samples with the columns that tables of a measured run have."""
    return samples.with_columns(
        bytes_sent=pl.coalesce("bytes_sent", "bytes_acked"),
        final=pl.lit(value=False),
        state=pl.lit("established"),
        end=pl.lit("sender"),
        host=pl.lit(SRC),
        port="local_port",
    )


def _needed(table: pl.DataFrame) -> list[str]:
    return [column for column in NEEDED["sockets"] if column in table.columns]


def _sent_counters(table: pl.DataFrame) -> FlowCounters:
    """Returns the senders' counters; goodput stays what the import says, over its own time."""
    return FlowCounters(samples=count_flows(table, pl.DataFrame(schema=INTERVAL_COLUMNS), {}).samples)


def _foreign_run(samples: pl.DataFrame, source: str) -> ForeignRun:
    table = _of_series(samples)
    begun_s = table.filter(pl.col("bytes_sent") > NO_DATA_BYTES)["time_s"].min()
    began_s = float(begun_s if isinstance(begun_s, float) else table["time_s"][0])
    of_all = {name: pl.lit(None, pl.Float64) for name in ("begin_s", "end_s")}  # rates are over the time of all samples
    flows = flows_of_sockets(table).with_columns(pl.col("group").fill_null(DEFAULT_CCA), **of_all)
    table = table.join(flows.select(*FLOW, "group"), on=FLOW, maintain_order="left")
    table = earlier({"sockets": table}, began_s)["sockets"]
    missing = ["sockets of the sender are all that there is"]
    if samples["bytes_sent"].null_count():
        flows = flows.with_columns(throughput_bps=pl.lit(None, pl.Float64), bytes_sent=pl.lit(None, pl.Int64))
        missing.append("this ss shows no bytes_sent")
    interval_s = asked_times.sampling_interval_s(table["time_s"].unique().sort().diff().drop_nulls().to_list())
    ccas = [cca or DEFAULT_CCA for cca in dict.fromkeys(flows["cca_used"])]
    address = str(table["remote_address"][0])
    base_rtt = table["min_rtt_s"].min()
    last_s = table["time_s"].max()
    duration_s = float(last_s if isinstance(last_s, float) else 0.0)
    return ForeignRun(
        kind="ss",
        source=source,
        results=RunTables(
            flows=flows,
            intervals=intervals_of_sockets(table),
            series=Series(sockets=table.select(_needed(table))),
            began_s=began_s,
            counters=_sent_counters(table),
            recorded=lambda: [{"sockets": table}],
        ),
        groups=tuple(map(Group, ccas)),
        streams=flows.height,
        src=str(table["local_address"][0]),
        dst=address,
        dst_address=address,
        duration_s=asked_times.sampled_duration_s(duration_s, interval_s),
        interval_s=interval_s,
        began_s=began_s if began_s >= LEAST_CLOCK_S else None,
        ended_s=began_s + duration_s if began_s >= LEAST_CLOCK_S else None,
        base_rtt_s=base_rtt if isinstance(base_rtt, float) else None,
        missing=tuple(missing),
        estimated=("base_rtt_s",),
    )
