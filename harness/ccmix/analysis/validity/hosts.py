"""Judges the hosts: windows, buffers, memory, their own queues, and processors."""

from collections.abc import Iterator

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import measured
from ccmix.analysis.qdiscs import grown_by, root_qdisc
from ccmix.analysis.tables import RunTables
from ccmix.model import Measurement, Run
from ccmix.probes.stream.format import CORE_TIMES
from ccmix.units import format_percent

LEAST_IDLE = 0.02  # of a core's time
LIMITED_FRACTION = 0.02  # of the time that a flow had data to send
LEAST_LIMITED_S = 0.02  # two jiffies, in which the kernel counts such times, where it has the fewest: 100 a second


def limits(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    yield from window_limits(run, tables)
    for host, text in measurement.after.netstat.items():
        before = measurement.before.netstat[host]
        if pressures := _netstat(text, "TCPMemoryPressures") - _netstat(before, "TCPMemoryPressures"):
            yield "tcp-memory", f"{host} came under memory pressure {pressures} times"
    for device in measurement.after.qdiscs:
        is_netem = root_qdisc(measurement.after.qdiscs[device]).kind == "netem"  # it loses what it is asked to lose
        if device.startswith("sender-queue") and not is_netem and (dropped := grown_by(measurement, device, "drops")):
            of_limit = _flow_limit_drops(tables, device)
            by_limit = f", {of_limit} of them by flow_limit" if of_limit else ""
            yield "sender-queue", f"it dropped {dropped} packets{by_limit}"
    for host, text in measurement.after.softnet.items():
        if dropped := _softnet_drops(text) - _softnet_drops(measurement.before.softnet[host]):
            yield "host-backlog", f"{host} dropped {dropped} packets"


def window_limits(run: Run, tables: RunTables) -> Iterator[tuple[str, str]]:
    """Yields kinds and details of the limits by windows and buffers of the hosts that the flows' sockets counted."""
    in_time = measured(run, tables.sockets).sort("time_s").group_by(FLOW)
    columns = ("busy_s", "receiver_window_limited_s", "send_buffer_limited_s")
    grown = in_time.agg(pl.col(name).last() - pl.col(name).first() for name in columns)
    for kind, column in (("receiver-window", "receiver_window_limited_s"), ("send-buffer", "send_buffer_limited_s")):
        busy_s, limited_s = float(grown["busy_s"].sum()), float(grown[column].sum())
        if limited_s > LEAST_LIMITED_S and limited_s / busy_s > LIMITED_FRACTION:
            yield kind, f"{format_percent(limited_s / busy_s)} of the busy time"


def _flow_limit_drops(tables: RunTables, place: str) -> int:
    """Returns the flow_limit drops of all fq on that sending device; 0 if tc sampled them, which does not report it."""
    queues = tables.series.queues
    if "flow_limit_drops" not in queues.columns:
        return 0
    counter = pl.col("flow_limit_drops")
    of_each = queues.filter(pl.col("place") == place).sort("time_s").group_by("queue")
    return int(of_each.agg(counter.last() - counter.first())["flow_limit_drops"].sum())


def _netstat(text: str, counter: str) -> int:
    """Returns a TcpExt counter of /proc/net/netstat: a line of names, then one of values."""
    lines = [line.split() for line in text.splitlines() if line.startswith("TcpExt:")]
    return int(dict(zip(*lines, strict=True))[counter])


def _softnet_drops(text: str) -> int:
    """Returns packets dropped for a full backlog: the second column, hexadecimal, of /proc/net/softnet_stat, summed."""
    return sum(int(line.split()[1], 16) for line in text.splitlines())


def processors(run: Run, tables: RunTables) -> Iterator[tuple[str, str]]:
    """Yields cores that were never idle: they limit what runs on them, a single stream or the interrupts of a queue."""
    if tables.series.cpu.is_empty():
        return
    spent = (pl.col(name).last() - pl.col(name).first() for name in CORE_TIMES)
    cores = measured(run, tables.series.cpu).sort("time_s").group_by("host", "core", maintain_order=True).agg(spent)
    cores = cores.with_columns(all_s=pl.sum_horizontal(CORE_TIMES)).filter(pl.col("all_s") > 0)
    idle = cores.select("host", "core", idle=(pl.col("idle_s") + pl.col("iowait_s")) / pl.col("all_s"))
    for host, core, share in idle.filter(pl.col("idle") < LEAST_IDLE).iter_rows():
        yield "cpu", f"core {core} of {host} was idle {format_percent(share)} of the time"
