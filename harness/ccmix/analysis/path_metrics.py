"""Computes metrics of the path and the hosts: netem's losses, the bottleneck's queue and its use, processor time."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ccmix.analysis.addition import added
from ccmix.analysis.counters import growth
from ccmix.analysis.delays import PERCENTILES
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import JITTER_S, measured
from ccmix.analysis.qdiscs import root_qdisc
from ccmix.analysis.tables import RunTables
from ccmix.model import Measurement, Run, Topology
from ccmix.model.results import BottleneckMetrics, PolicerMetrics
from ccmix.probes.stream.format import CORE_TIMES

BITS_PER_GBIT = 1e9


def mean_rate_bps(run: Run, begin_s: float, end_s: float) -> float:
    """Returns the mean rate of the bottleneck over a part of the run, in which the rate may change."""
    phases = run.topology.phases
    ends_s = [*(at_s for at_s, _ in phases[1:]), end_s]
    bits = added(
        phase.rate_bps * max(0.0, min(until_s, end_s) - max(at_s, begin_s))
        for (at_s, phase), until_s in zip(phases, ends_s, strict=True)
    )
    return bits / (end_s - begin_s)


def netem_loss(run: Run, measurement: Measurement | None) -> float | None:
    """Packets that netem lost / packets that it was given in the data direction, during the traffic, by its own count.

    None where there is no netem, or it counts packets that were joined to one (offloads).
    """
    if measurement is None:
        return None
    before, after = measurement.before.qdiscs, measurement.after.qdiscs
    lost = offered = 0
    for device in after:
        if not device.startswith("data-delay") or root_qdisc(after[device]).kind != "netem":
            continue
        first, last = root_qdisc(before[device]), root_qdisc(after[device])
        dropped = last.drops - first.drops
        lost += dropped
        offered += last.packets - first.packets + dropped
    joined = run.path.offloads if isinstance(run.path, Topology) else any((measurement.facts.offloads or {}).values())
    return lost / offered if offered and not joined else None


def bottleneck(run: Run, tables: RunTables) -> BottleneckMetrics | None:
    """Returns the metrics of the emulated bottleneck's samples in the measured time; None if they are fewer than two.

    Bytes that it passed include headers and retransmissions.
    """
    if not isinstance(run.path, Topology):
        return None
    samples = measured(run, tables.bottleneck).sort("time_s")
    if samples.height < 2:
        return None
    backlog = samples["backlog_bytes"]
    begin_s, end_s = run.traffic.omit_s, min(run.traffic.total_s, float(samples["time_s"][-1]))
    changes = growth(tables.bottleneck, begin_s, end_s, ("bytes", "packets", "drops"))
    changes = {**changes, "drops": _segments_dropped(run, tables, begin_s, end_s, changes)}
    offered = changes["packets"] + changes["drops"]
    mean_bytes = backlog.mean()
    assert isinstance(mean_bytes, float)
    percentiles: dict[str, Any] = {
        f"backlog_{name}_bytes": backlog.quantile(share, "linear") for name, share in PERCENTILES.items()
    }
    return BottleneckMetrics(
        backlog_mean_bytes=mean_bytes,
        **percentiles,
        backlog_max_bytes=int(backlog.max()),  # type: ignore[arg-type]
        occupancy_mean=mean_bytes / run.path.buffer_bytes,
        drops=round(changes["drops"]),
        drop_rate=changes["drops"] / offered if offered else None,
        utilisation=changes["bytes"] * 8 / (mean_rate_bps(run, begin_s, end_s) * (end_s - begin_s)),
    )


def _segments_dropped(run: Run, tables: RunTables, begin_s: float, end_s: float, changes: Mapping[str, float]) -> float:
    """Returns the segments that the bottleneck dropped.

    With offloads, queues count a packet of several segments as one drop, but by its segments when it leaves
    (qdisc_bstats_update()). So dropped is what left netem, and neither the bottleneck nor is queued there.
    """
    path = run.topology
    places = [path.device_name("data-delay", sender) for sender in path.senders]
    arriving = [tables.queue(place) for place in places]
    if not path.offloads or path.policer or any(samples.is_empty() for samples in arriving):
        return changes["drops"]
    arrived = added(growth(samples, begin_s, end_s, ("packets",))["packets"] for samples in arriving)
    return max(changes["drops"], arrived - changes["packets"] - _queued_segments(tables, begin_s, end_s, path))


def _queued_segments(tables: RunTables, begin_s: float, end_s: float, path: Topology) -> float:
    """Returns by how many full segments the bottleneck's queue grew."""
    samples = tables.bottleneck.select("time_s", "backlog_bytes").sort("time_s")
    queued = [samples.filter(pl.col("time_s") <= at_s + JITTER_S)["backlog_bytes"].tail(1) for at_s in (begin_s, end_s)]
    first, last = (int(backlog[0]) if backlog.len() else 0 for backlog in queued)
    return (last - first) / path.packet_bytes


def policer(run: Run, tables: RunTables) -> PolicerMetrics | None:
    """Returns what the policer dropped in the measured time; None without one, or of fewer than two samples.

    The kernel counts packets and drops where the policer's filter is (tc_run() in net/core/dev.c): packets are all that
    reached it.
    """
    if not isinstance(run.path, Topology) or run.path.policer is None:
        return None
    if measured(run, tables.policer).height < 2:
        return None
    grown = growth(tables.policer, run.traffic.omit_s, run.traffic.total_s, ("packets", "drops"))
    packets, drops = round(grown["packets"]), round(grown["drops"])
    return PolicerMetrics(drops=drops, drop_rate=drops / packets if packets else None)


def receiver_window_limited(run: Run, tables: RunTables) -> float | None:
    """Returns the share of all flows' busy time in which the receiver's window limited them, as their kernel counts it.

    None where no window is configured.
    """
    if not isinstance(run.path, Topology) or all(sender.receiver_window_bytes is None for sender in run.path.senders):
        return None
    by_flow = measured(run, tables.sockets).sort("time_s").group_by(FLOW, maintain_order=True)
    names = ("busy_s", "receiver_window_limited_s")
    times = by_flow.agg(pl.col(name).last() - pl.col(name).first() for name in names)
    busy_s, limited_s = (float(times[name].sum()) for name in names)
    return limited_s / busy_s if busy_s else None


def cpu_s_per_gbit(run: Run, tables: RunTables, goodput_bps: float) -> dict[str, float]:
    """By host, the time that its cores (with mpstat-cores: those) were not idle per gigabit of the run's goodput.

    Everything that the host did meanwhile counts. No entry where there was none, as in the lab, where computing takes
    none.
    """
    if tables.series.cpu.is_empty() or not goodput_bps:
        return {}
    cores = measured(run, tables.series.cpu).sort("time_s")
    spent = [pl.col(name).last() - pl.col(name).first() for name in CORE_TIMES]
    length_s = pl.col("time_s").last() - pl.col("time_s").first()
    per_core = cores.group_by("host", "core", maintain_order=True).agg(*spent, length_s=length_s)
    busy_s = pl.sum_horizontal(CORE_TIMES) - pl.col("idle_s") - pl.col("iowait_s")
    hosts = per_core.group_by("host", maintain_order=True).agg(busy_s=busy_s.sum(), length_s=pl.col("length_s").max())
    return {
        host: busy / (goodput_bps * seconds / BITS_PER_GBIT)
        for host, busy, seconds in hosts.sort("host").iter_rows()
        if busy and seconds
    }
