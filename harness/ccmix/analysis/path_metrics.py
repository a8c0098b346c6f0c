"""Computes metrics of the path and the hosts: RTTs and queueing delays, netem's losses, the queue
and utilisation of the bottleneck, packets that left the sender's own queue, processor time."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ccmix.analysis.counters import growth, root_qdisc
from ccmix.analysis.dynamics import added
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import JITTER_S, measured
from ccmix.analysis.series import SRC
from ccmix.analysis.tables import RunTables
from ccmix.model import Measurement, PingRtts, Run, Topology
from ccmix.model.results import BottleneckMetrics, DelayMetrics, PolicerMetrics
from ccmix.probes.stream.format import CORE_TIMES

PERCENTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99}
DELAYS = {
    **{
        f"rtt_{name}_s": pl.col("rtt_s").quantile(share, "linear")
        for name, share in PERCENTILES.items()
    },
    **{
        f"queueing_delay_{name}_s": pl.col("queueing_s").quantile(share, "linear")
        for name, share in PERCENTILES.items()
    },
}
BEFORE_ALL_S = -1e9
_COUNTERS = ("packets", "bytes", "drops")
BITS_PER_GBIT = 1e9


def rtt_samples(
    run: Run, tables: RunTables, flows: pl.DataFrame, ping_rtt_s: PingRtts
) -> pl.DataFrame:
    """Returns the RTT samples of dynamics.active_flows(): host, port, group, time_s, rtt_s, and
    queueing_s.

    rtt_s is the smoothed RTT (tcpi_rtt). queueing_s is rtt_s minus the base RTT, at least 0. The
    base RTT is the configured one of the flow's sender at that moment; between hosts, it is the
    smallest RTT of any socket or of the pings before the traffic.
    """
    every = pl.concat([tables.series.sockets, tables.short_sockets], how="diagonal")
    sockets = every.filter(
        pl.col("end") == "sender", ~pl.col("final")
    )  # one that is closing gets ACKs, too
    spans = flows.select(*FLOW, "group", "begin_s", "end_s")
    samples = new_rtts(sockets, spans).select(*FLOW, "group", "time_s", "rtt_s")
    if tables.reported is not None:
        seen = sockets.select(FLOW).unique()
        unseen = (
            tables.reported.join(seen, on=FLOW, how="anti").join(spans, on=FLOW).explode("rtts_s")
        )
        reported = unseen.select(
            *FLOW, "group", time_s=pl.lit(None, pl.Float64), rtt_s="rtts_s"
        ).drop_nulls("rtt_s")
        samples = pl.concat([samples, reported])
    samples = samples.sort("time_s")
    if isinstance(run.path, Topology):
        bases = _configured(run.path)
        based = samples.join_asof(bases, on="time_s", by="host", check_sortedness=False)
    else:
        of_sockets = (
            samples["rtt_s"] if tables.sockets.is_empty() else tables.sockets["min_rtt_s"]
        ).drop_nulls()
        base_s = min([*of_sockets.to_list(), *ping_rtt_s.get(SRC, ())], default=None)
        based = samples.with_columns(base_s=pl.lit(base_s, pl.Float64))
    return based.with_columns(queueing_s=(pl.col("rtt_s") - pl.col("base_s")).clip(0)).drop(
        "base_s"
    )


def new_rtts(sockets: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Returns the samples within the spans of their flows that an ACK has updated since the sample
    before.

    sockets: samples of the senders
    spans: host, port, begin_s, end_s and other columns, which the result has, too
    """
    arrivals = next(
        (name for name in ("segs_in", "bytes_acked") if name in sockets.columns), "time_s"
    )
    ordered = sockets.drop("group", strict=False).sort("time_s", maintain_order=True)
    before = (
        pl.col(arrivals)
        .shift(1)
        .over([*FLOW, *(["cookie"] if "cookie" in sockets.columns else [])])
    )
    return (
        ordered.filter((pl.col(arrivals) != before).fill_null(value=True))
        .join(spans, on=FLOW, maintain_order="left")
        .filter(
            pl.col("time_s").is_between(pl.col("begin_s") - JITTER_S, pl.col("end_s") + JITTER_S)
        )
    )


def _configured(path: Topology) -> pl.DataFrame:
    """Returns the base RTTs of each sender, each with the moment from which on it holds."""
    rows: list[dict[str, object]] = [
        {"host": sender.name, "time_s": at_s or BEFORE_ALL_S, "base_s": sender.base_rtt_s}
        for at_s, phase in path.phases
        for sender in phase.senders
    ]
    return pl.DataFrame(rows).sort("time_s")


def delays(samples: pl.DataFrame) -> DelayMetrics:
    """Returns percentiles over all of these samples."""
    return DelayMetrics(**samples.select(**DELAYS).row(0, named=True))


def left_device(
    run: Run, tables: RunTables, begin_s: float, end_s: float
) -> dict[str, tuple[float, float]]:
    """Returns the packets and bytes that left the device of each host whose own queue dropped
    packets in that time.
    """
    hosts = (
        [sender.name for sender in run.path.senders] if isinstance(run.path, Topology) else ["src"]
    )
    left = {}
    for host in hosts:
        samples = tables.queue(f"sender-queue {host}" if len(hosts) > 1 else "sender-queue")
        if samples.height > 1:
            grown = growth(samples, begin_s, end_s, _COUNTERS)
            if grown["drops"] >= 1:
                left[host] = grown["packets"], grown["bytes"]
    return left


def without_refused(flows: pl.DataFrame, left: dict[str, tuple[float, float]]) -> pl.DataFrame:
    """Returns flows whose data_segments, retransmitted_segments and throughput_bps count only
    packets that left the device.

    `flows` have the columns sent and acked: the bytes that went to the queue, and those that the
    receiver acknowledged. Acknowledged bytes are taken as first transmissions, and all other
    packets that left as retransmissions, of which each flow of a host gets its part.
    """
    packets = pl.col("host").replace_strict(
        {host: each[0] for host, each in left.items()}, default=None
    )
    first = pl.col("acked") * pl.col("data_segments") / pl.col("sent")
    again = (packets - first.sum().over("host")).clip(0.0)
    share = pl.col("retransmitted_segments") / pl.col("retransmitted_segments").sum().over("host")
    own = pl.min_horizontal("retransmitted_segments", (again * share.fill_nan(0.0)).round())
    refused = packets.is_not_null() & pl.col("acked").is_not_null()
    return flows.with_columns(
        data_segments=pl.when(refused).then(first.round() + own).otherwise("data_segments"),
        retransmitted_segments=pl.when(refused).then(own).otherwise("retransmitted_segments"),
        throughput_bps=pl.when(refused & (pl.col("active_s") > 0))
        .then(pl.col("acked") * 8 / pl.col("active_s"))
        .otherwise("throughput_bps"),
    )


def mean_rate_bps(run: Run, begin_s: float, end_s: float) -> float:
    """Returns the mean rate of the bottleneck over a part of the run, in which the rate
    may change.
    """
    phases = run.topology.phases
    ends_s = [*(at_s for at_s, _ in phases[1:]), end_s]
    bits = added(
        phase.rate_bps * max(0.0, min(until_s, end_s) - max(at_s, begin_s))
        for (at_s, phase), until_s in zip(phases, ends_s, strict=True)
    )
    return bits / (end_s - begin_s)


def netem_loss(run: Run, measurement: Measurement | None) -> float | None:
    """Returns the packets that netem lost over the packets that it was given, in the data direction
    during the traffic, by its own count.

    Returns None if there is no netem, or if it counts several joined packets as one (offloads).
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
    joined = (
        run.path.offloads
        if isinstance(run.path, Topology)
        else any((measurement.facts.offloads or {}).values())
    )
    return lost / offered if offered and not joined else None


def bottleneck(run: Run, tables: RunTables) -> BottleneckMetrics | None:
    """Returns the metrics of the emulated bottleneck's samples in the measured time; None if they
    are fewer than two.

    The bytes that it passed include headers and retransmissions.
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
        f"backlog_{name}_bytes": backlog.quantile(share, "linear")
        for name, share in PERCENTILES.items()
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


def _segments_dropped(
    run: Run, tables: RunTables, begin_s: float, end_s: float, changes: Mapping[str, float]
) -> float:
    """Returns the segments that the bottleneck dropped.

    With offloads, queues count a packet of several segments as one drop, but count all its segments
    when it leaves (qdisc_bstats_update()). So the dropped segments are those that left netem, but
    neither left the bottleneck nor are queued there.
    """
    path = run.topology
    places = [path.device_name("data-delay", sender) for sender in path.senders]
    arriving = [tables.queue(place) for place in places]
    if not path.offloads or path.policer or any(samples.is_empty() for samples in arriving):
        return changes["drops"]
    arrived = added(
        growth(samples, begin_s, end_s, ("packets",))["packets"] for samples in arriving
    )
    return max(
        changes["drops"],
        arrived - changes["packets"] - _queued_segments(tables, begin_s, end_s, path),
    )


def _queued_segments(tables: RunTables, begin_s: float, end_s: float, path: Topology) -> float:
    """Returns by how many full segments the bottleneck's queue grew."""
    samples = tables.bottleneck.select("time_s", "backlog_bytes").sort("time_s")
    queued = [
        samples.filter(pl.col("time_s") <= at_s + JITTER_S)["backlog_bytes"].tail(1)
        for at_s in (begin_s, end_s)
    ]
    first, last = (int(backlog[0]) if backlog.len() else 0 for backlog in queued)
    return (last - first) / path.packet_bytes


def policer(run: Run, tables: RunTables) -> PolicerMetrics | None:
    """Returns the drops of the policer in the measured time; None without a policer, or with fewer
    than two samples.

    The kernel counts packets and drops where the policer's filter is (tc_run() in net/core/dev.c):
    packets are all that reached it.
    """
    if not isinstance(run.path, Topology) or run.path.policer is None:
        return None
    if measured(run, tables.policer).height < 2:
        return None
    grown = growth(tables.policer, run.traffic.omit_s, run.traffic.total_s, ("packets", "drops"))
    packets, drops = round(grown["packets"]), round(grown["drops"])
    return PolicerMetrics(drops=drops, drop_rate=drops / packets if packets else None)


def receiver_window_limited(run: Run, tables: RunTables) -> float | None:
    """Returns the share of all flows' busy time in which the receiver's window limited them, as
    their kernel counts it; None if no window is configured.
    """
    if not isinstance(run.path, Topology) or all(
        sender.receiver_window_bytes is None for sender in run.path.senders
    ):
        return None
    by_flow = measured(run, tables.sockets).sort("time_s").group_by(FLOW, maintain_order=True)
    names = ("busy_s", "receiver_window_limited_s")
    times = by_flow.agg(pl.col(name).last() - pl.col(name).first() for name in names)
    busy_s, limited_s = (float(times[name].sum()) for name in names)
    return limited_s / busy_s if busy_s else None


def cpu_s_per_gbit(run: Run, tables: RunTables, goodput_bps: float) -> dict[str, float]:
    """Returns for each host how long its cores (with mpstat-cores, only those) were busy per
    gigabit of the run's goodput.

    Everything that the host did in that time counts. A host without busy time has no entry: in the
    lab, computing takes no time.
    """
    if tables.series.cpu.is_empty() or not goodput_bps:
        return {}
    cores = measured(run, tables.series.cpu).sort("time_s")
    spent = [pl.col(name).last() - pl.col(name).first() for name in CORE_TIMES]
    length_s = pl.col("time_s").last() - pl.col("time_s").first()
    per_core = cores.group_by("host", "core", maintain_order=True).agg(*spent, length_s=length_s)
    busy_s = pl.sum_horizontal(CORE_TIMES) - pl.col("idle_s") - pl.col("iowait_s")
    hosts = per_core.group_by("host", maintain_order=True).agg(
        busy_s=busy_s.sum(), length_s=pl.col("length_s").max()
    )
    return {
        host: busy / (goodput_bps * seconds / BITS_PER_GBIT)
        for host, busy, seconds in hosts.sort("host").iter_rows()
        if busy and seconds
    }
