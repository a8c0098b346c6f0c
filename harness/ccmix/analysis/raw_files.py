"""Reads the raw files of a run as tables, and finds the times that its traffic really had.

emulated_tables.py reads those of runs on emulated paths, this module those of runs between hosts.
"""

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.analysis import connections
from ccmix.analysis.emulated_tables import read_emulated
from ccmix.analysis.iperf3_tables import (
    FLOW,
    INTERVAL_COLUMNS,
    read_flows,
    read_intervals,
    read_reported,
)
from ccmix.analysis.iperf3_tables import start_s as iperf3_start_s
from ccmix.analysis.pscheduler_tables import pscheduler_flows, pscheduler_intervals
from ccmix.analysis.reports import iperf3_report
from ccmix.analysis.series import SRC, read_series, recorded, sampled
from ccmix.analysis.step_tables import (
    connections_of_steps,
    flows_and_intervals,
    read_steps,
    step_rows,
)
from ccmix.analysis.tables import (
    NO_DATA_BYTES,
    RunTables,
    flows_of_sockets,
    make_tables,
    with_counters,
)
from ccmix.archive import ArchiveError
from ccmix.generators import command, iperf3
from ccmix.generators.results import GeneratorError, GeneratorResult, load_json
from ccmix.model import HostPath, Iperf3Source, Measurement, Run, run_files
from ccmix.model.results import FinishedRun


def read_tables(run: Run, folder: Path, measurement: Measurement) -> RunTables:
    """Reads the raw files of a run (iperf3's JSON, recordings of the probes) into tables; `folder`
    is the run's folder.

    Raises GeneratorError, ValueError, KeyError or TypeError if a file is not what its tool writes.
    """
    if isinstance(run.path, HostPath):
        return _read_between_hosts(run, run.path, folder, measurement)
    return read_emulated(run, folder, measurement)


def _read_between_hosts(
    run: Run, path: HostPath, folder: Path, measurement: Measurement
) -> RunTables:
    """Reads the tables of a run between hosts. The flows are those that iperf3 reports. Without
    iperf3's report, they are the connections of the sampled sockets, or if ccmix has no shell on
    the hosts, the flows that pScheduler reports.

    Sockets that existed before the run do not count, unless a command runs on from run to run.
    Raises the errors of read_tables().
    """
    generators, logs = folder / run_files.GENERATORS, folder / run_files.LOGS
    if run.traffic.steps:
        return _read_steps_between_hosts(run, path, folder, measurement)
    traffic, result = run.traffic, _read_result(run, generators)
    client, throughput = result.client, result.throughput
    runs_on = traffic.command and traffic.command.kept
    foreign_ports = () if runs_on else measurement.ports_before
    parts = functools.partial(recorded, logs, measurement, ("src", "dst"), path.mpstat_cores)
    series = read_series(parts())
    new_sockets = series.sockets.filter(~pl.col("port").is_in(list(foreign_ports)))
    intervals = named_connections = None
    if client is not None:
        flows = read_flows(traffic, client, SRC)
        intervals = read_intervals(traffic, client, result.server, flows)
        named_connections = connections.stream_connections(client, SRC)
    elif throughput is not None and measurement.facts.hosts_unseen:
        flows = pscheduler_flows(traffic, throughput, SRC)
        intervals = pscheduler_intervals(traffic, throughput, flows)
    else:
        flows = flows_of_sockets(sampled(new_sockets))
    select_flows = functools.partial(
        connections.flow_samples_between_hosts, flows=flows, reported=named_connections
    )
    flow_sockets = select_flows(new_sockets)
    start_s = _start_between_hosts_s(measurement, client, sampled(flow_sockets))
    if intervals is None:  # the flows are those of sockets, with times by the wall clock
        intervals = pl.DataFrame(schema=INTERVAL_COLUMNS)
        begin_s = pl.col("begin_s") - start_s if runs_on else 0.0
        flows = flows.with_columns(begin_s=begin_s, end_s=pl.col("end_s") - start_s)
    tables = make_tables(
        flows, intervals, replace(series, sockets=flow_sockets), parts, start_s, select_flows
    )
    if client is not None:
        report = iperf3_report(client) if isinstance(traffic.test, Iperf3Source) else None
        tests = {traffic.test.label: report} if traffic.test and report else {}
        tables = replace(tables, tests=tests, reported=read_reported(client, SRC))
    end_s = traffic.seconds or float(flows["end_s"].max() or 0.0)  # type: ignore[arg-type]
    return with_counters(traffic, tables, tables.series.sockets, end_s)


def _start_between_hosts_s(
    measurement: Measurement, client: dict[str, Any] | None, samples: pl.DataFrame
) -> float:
    """Returns when the traffic began, by the clock of this machine.

    The patched iperf3 says when its test started. Otherwise the start of each socket is estimated
    from its first sample with data: it is the time of that sample minus the growth of
    tcpi_busy_time since the previous sample, but not before the previous sample. The earliest of
    these starts is returned.

    client: the JSON of iperf3's client; None without iperf3
    samples: of the senders' established sockets
    """
    if client is not None and (start_s := iperf3_start_s(client)) is not None:
        return start_s - measurement.clocks_s.get(SRC, 0.0)
    sending = samples.sort("time_s", maintain_order=True).with_columns(
        before_s=pl.col("time_s").shift(1).over(FLOW),
        busy_before_s=pl.col("busy_s").shift(1).over(FLOW),
    )
    first = sending.filter(pl.col("bytes_sent") > NO_DATA_BYTES).unique(
        FLOW, keep="first", maintain_order=True
    )
    busy_s = pl.col("busy_s") - pl.col("busy_before_s").fill_null(0.0)
    starts_s = first.select(pl.max_horizontal(pl.col("time_s") - busy_s, "before_s"))["time_s"]
    return float(starts_s.min()) if starts_s.len() else measurement.started_s  # type: ignore[arg-type]


def _read_steps_between_hosts(
    run: Run, path: HostPath, folder: Path, measurement: Measurement
) -> RunTables:
    """Reads the tables of a run that measures a path between hosts in steps, one after the other.
    time_s is 0 when the first step begins.
    """
    logs = folder / run_files.LOGS
    parts = functools.partial(recorded, logs, measurement, ("src", "dst"), path.mpstat_cores)
    results = read_steps(folder / run_files.GENERATORS)
    start_s = results[0].step.began_s
    flows, intervals = flows_and_intervals(results, run.traffic, SRC, start_s)
    series = read_series(parts())
    new_sockets = series.sockets.filter(~pl.col("port").is_in(list(measurement.ports_before)))
    select_flows = functools.partial(
        connections.flow_samples_between_hosts,
        flows=flows,
        reported=connections_of_steps(results, SRC),
    )
    flow_series = replace(series, sockets=select_flows(new_sockets))
    tables = make_tables(flows, intervals, flow_series, parts, start_s, select_flows)
    return replace(tables, steps=step_rows(results, start_s))


def _read_result(run: Run, generators: Path) -> GeneratorResult:
    """Reads the results of the program that made the traffic between hosts: ccmix's iperf3, a
    user's command, or pScheduler. `generators` is the folder of its files. Raises GeneratorError if
    a file is missing or damaged.
    """
    if run.traffic.command:
        return command.read_src_command_result(generators, run.traffic)
    if run.traffic.task:
        return command.read_pscheduler_result(generators)
    client = load_json(generators / run_files.iperf3_client(iperf3.LABEL))
    server_file = generators / run_files.iperf3_server(iperf3.LABEL)
    server = load_json(server_file) if server_file.exists() else client.get("server_output_json")
    return GeneratorResult("iperf3", client, server)


def as_measured(run: Run, folder: Path, settled_after_s: float | None) -> Run:
    """Returns the run with its actual times, which may differ from the plan in two cases: the run
    was ended because it had settled, or a user's command or pScheduler called iperf3 with another
    omitted time, duration and interval.

    settled_after_s: the measured time of a run that was ended because it had settled; otherwise
        None
    folder: the run's folder. If it has no raw files, only settled_after_s is applied.
    """
    if settled_after_s is not None:
        run = replace(run, traffic=replace(run.traffic, duration_s=settled_after_s))
    generators = folder / run_files.GENERATORS
    if (
        not isinstance(run.path, HostPath)
        or not (run.traffic.command or run.traffic.task)
        or not generators.exists()
    ):
        return run
    client = _read_result(run, generators).client
    if client is None:
        return run
    test_start = client["start"].get("test_start", {})
    iperf3_duration_s = float(test_start.get("duration", 0.0)) if settled_after_s is None else 0.0
    traffic = replace(
        run.traffic,
        omit_s=float(test_start.get("omit", 0.0)),
        interval_s=float(test_start.get("interval") or run.traffic.interval_s),
        duration_s=iperf3_duration_s or run.traffic.duration_s,
    )
    return replace(run, traffic=traffic)


def as_archived(finished: FinishedRun, folder: Path) -> Run:
    """Returns a finished run of an archive with its actual times, which may differ from the plan:
    see as_measured(). Raises ArchiveError if its raw files are damaged.
    """
    try:
        return as_measured(finished.run, folder, finished.settled_after_s)
    except (GeneratorError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ArchiveError(
            f"{folder / run_files.GENERATORS}: can't be understood: {error}"
        ) from error
