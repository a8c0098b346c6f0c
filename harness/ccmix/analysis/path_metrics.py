"""Computes the metrics of a run that describe its path and its hosts, not its flows.

They are: RTTs and queueing delays, netem's losses, the queue and utilisation of the bottleneck,
packets that left the sender's own queue, and processor time.
"""

from collections.abc import Mapping

import polars as pl

from ccmix.analysis.counters import growth, root_qdisc
from ccmix.analysis.dynamics import sum_in_order
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import JITTER_S, increase, measured, percentiles
from ccmix.analysis.series import SRC
from ccmix.analysis.tables import RunTables
from ccmix.model import Measurement, PingRtts, Run, Topology
from ccmix.model.results import BottleneckMetrics, DelayMetrics, PolicerMetrics
from ccmix.probes.stream.format import CORE_TIMES

DELAYS = {
    **percentiles(pl.col("rtt_s"), "rtt_{}_s"),
    **percentiles(pl.col("queueing_s"), "queueing_delay_{}_s"),
}
BEFORE_ALL_S = -1e9
_COUNTERS = ("packets", "bytes", "drops")
BITS_PER_GBIT = 1e9


def rtt_samples(
    run: Run, tables: RunTables, flows: pl.DataFrame, ping_rtt_s: PingRtts
) -> pl.DataFrame:
    """Returns the RTT samples of the flows while they are active, with the columns host, port,
    group, time_s, rtt_s and queueing_s.

    rtt_s is the smoothed RTT (tcpi_rtt) of the sender's socket. If no probe sampled the socket, it
    is the RTT that iperf3 reports, and time_s is null. queueing_s = rtt_s - base RTT, at least 0.
    On an emulated path, the base RTT is the one configured for the flow's sender at that moment.
    Between real hosts, it is the smallest RTT of any socket or of the pings before the traffic
    (ping_rtt_s).

    flows: as returned by dynamics.active_flows()
    """
    all_sockets = pl.concat([tables.series.sockets, tables.short_sockets], how="diagonal")
    sockets = all_sockets.filter(
        pl.col("end") == "sender", ~pl.col("final")
    )  # one that is closing gets ACKs, too
    spans = flows.select(*FLOW, "group", "begin_s", "end_s")
    samples = new_rtts(sockets, spans).select(*FLOW, "group", "time_s", "rtt_s")
    if tables.reported is not None:
        sampled = sockets.select(FLOW).unique()
        not_sampled = (
            tables.reported.join(sampled, on=FLOW, how="anti")
            .join(spans, on=FLOW)
            .explode("rtts_s")
        )
        reported = not_sampled.select(
            *FLOW, "group", time_s=pl.lit(None, pl.Float64), rtt_s="rtts_s"
        ).drop_nulls("rtt_s")
        samples = pl.concat([samples, reported])
    samples = samples.sort("time_s")
    if isinstance(run.path, Topology):
        base_rtts = _configured_base_rtts(run.path)
        with_base = samples.join_asof(base_rtts, on="time_s", by="host", check_sortedness=False)
    else:
        socket_rtts_s = (
            samples["rtt_s"] if tables.sockets.is_empty() else tables.sockets["min_rtt_s"]
        ).drop_nulls()
        base_s = min([*socket_rtts_s.to_list(), *ping_rtt_s.get(SRC, ())], default=None)
        with_base = samples.with_columns(base_s=pl.lit(base_s, pl.Float64))
    queueing_s = (pl.col("rtt_s") - pl.col("base_s")).clip(0)
    return with_base.with_columns(queueing_s=queueing_s).drop("base_s")


def new_rtts(sockets: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Returns only those socket samples that have a new RTT, because an ACK has arrived since the
    previous sample of the connection. Samples outside the spans of their flows are left out, too.

    sockets: samples of the senders' sockets
    spans: a row for each flow: host, port, begin_s, end_s and other columns, which are added to the
        samples
    """
    ack_counter = next(
        (name for name in ("segs_in", "bytes_acked") if name in sockets.columns), "time_s"
    )
    ordered = sockets.drop("group", strict=False).sort("time_s", maintain_order=True)
    connection = [*FLOW, "cookie"] if "cookie" in sockets.columns else FLOW
    previous = pl.col(ack_counter).shift(1).over(connection)
    return (
        ordered.filter((pl.col(ack_counter) != previous).fill_null(value=True))
        .join(spans, on=FLOW, maintain_order="left")
        .filter(
            pl.col("time_s").is_between(pl.col("begin_s") - JITTER_S, pl.col("end_s") + JITTER_S)
        )
    )


def _configured_base_rtts(path: Topology) -> pl.DataFrame:
    """Returns the configured base RTTs of each sender as host, time_s and base_s. The path may
    change during a run: base_s is valid from time_s until the sender's next row. The first one is
    valid from long before the traffic.
    """
    rows: list[dict[str, object]] = [
        {"host": sender.name, "time_s": at_s or BEFORE_ALL_S, "base_s": sender.base_rtt_s}
        for at_s, phase in path.phases
        for sender in phase.senders
    ]
    return pl.DataFrame(rows).sort("time_s")


def delays(samples: pl.DataFrame) -> DelayMetrics:
    """Returns percentiles of the RTT and of the queueing delay over all of these samples.

    samples: rows of rtt_samples()
    """
    return DelayMetrics(**samples.select(**DELAYS).row(0, named=True))


def left_device(
    run: Run, tables: RunTables, begin_s: float, end_s: float
) -> dict[str, tuple[float, float]]:
    """Returns the packets and bytes that left the network device of each sending host between two
    moments, as {host: (packets, bytes)}, only for hosts whose own queue dropped packets in that
    time. TCP counts such packets as sent, although they never got onto the path.
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


def without_local_drops(flows: pl.DataFrame, left: dict[str, tuple[float, float]]) -> pl.DataFrame:
    """Corrects data_segments, retransmitted_segments and throughput_bps of flows whose host's own
    queue dropped packets, so that they count only packets that left the host's device.

    Acknowledged bytes count as first transmissions. All other packets that left the host count as
    retransmissions. They are distributed over the host's flows in proportion to the retransmissions
    that TCP counted.

    flows: with the columns sent and acked: the bytes that went to the queue, and those that the
        receiver acknowledged
    left: as returned by left_device()
    """
    packets_left = pl.col("host").replace_strict(
        {host: packets for host, (packets, _) in left.items()}, default=None
    )
    first_sent = pl.col("acked") * pl.col("data_segments") / pl.col("sent")
    host_retransmitted = (packets_left - first_sent.sum().over("host")).clip(0.0)
    share = pl.col("retransmitted_segments") / pl.col("retransmitted_segments").sum().over("host")
    retransmitted = pl.min_horizontal(
        "retransmitted_segments", (host_retransmitted * share.fill_nan(0.0)).round()
    )
    corrected = packets_left.is_not_null() & pl.col("acked").is_not_null()
    return flows.with_columns(
        data_segments=pl.when(corrected)
        .then(first_sent.round() + retransmitted)
        .otherwise("data_segments"),
        retransmitted_segments=pl.when(corrected)
        .then(retransmitted)
        .otherwise("retransmitted_segments"),
        throughput_bps=pl.when(corrected & (pl.col("active_s") > 0))
        .then(pl.col("acked") * 8 / pl.col("active_s"))
        .otherwise("throughput_bps"),
    )


def mean_rate_bps(run: Run, begin_s: float, end_s: float) -> float:
    """Returns the configured rate of the bottleneck, averaged over a part of the run. The
    configuration may change the rate during a run, which divides the run into phases.
    """
    phases = run.topology.phases
    phase_ends_s = [*(start_s for start_s, _ in phases[1:]), end_s]
    bits = sum_in_order(
        phase.rate_bps * max(0.0, min(phase_end_s, end_s) - max(start_s, begin_s))
        for (start_s, phase), phase_end_s in zip(phases, phase_ends_s, strict=True)
    )
    return bits / (end_s - begin_s)


def netem_loss(run: Run, measurement: Measurement | None) -> float | None:
    """Returns the fraction of the data packets that netem dropped during the traffic, which should
    be close to the configured random loss. The numbers come from netem's counters on the devices
    that delay data; the names of these devices begin with 'data-delay'.

    Returns None if there is no netem, or if offloads are on: netem then counts several segments as
    one packet.
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
    offloads = (
        run.path.offloads
        if isinstance(run.path, Topology)
        else any((measurement.facts.offloads or {}).values())
    )
    return lost / offered if offered and not offloads else None


def bottleneck(run: Run, tables: RunTables) -> BottleneckMetrics | None:
    """Returns the queue, the drops and the utilisation of the emulated bottleneck in the measured
    time. Returns None between real hosts, or if the queue was sampled less than twice.

    Utilisation includes headers and retransmissions. It is 1 if the configured rate is used fully.
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
    return BottleneckMetrics(
        backlog_mean_bytes=mean_bytes,
        **percentiles(backlog, "backlog_{}_bytes"),
        backlog_max_bytes=int(backlog.max()),  # type: ignore[arg-type]
        occupancy_mean=mean_bytes / run.path.buffer_bytes,
        drops=round(changes["drops"]),
        drop_rate=changes["drops"] / offered if offered else None,
        utilisation=changes["bytes"] * 8 / (mean_rate_bps(run, begin_s, end_s) * (end_s - begin_s)),
    )


def _segments_dropped(
    run: Run, tables: RunTables, begin_s: float, end_s: float, changes: Mapping[str, float]
) -> float:
    """Returns the number of segments that the bottleneck dropped between two moments.

    With offloads, a queue counts the drop of a packet of several segments as one, but counts all of
    its segments when it leaves (qdisc_bstats_update()). So the dropped segments are those that left
    netem, in front of the bottleneck, but neither left the bottleneck nor are queued there.

    changes: the growth of the bottleneck's counters 'packets' and 'drops' in this time
    """
    path = run.topology
    netem_devices = [path.device_name("data-delay", sender) for sender in path.senders]
    netem_samples = [tables.queue(device) for device in netem_devices]
    if not path.offloads or path.policer or any(samples.is_empty() for samples in netem_samples):
        return changes["drops"]
    arrived = sum_in_order(
        growth(samples, begin_s, end_s, ("packets",))["packets"] for samples in netem_samples
    )
    return max(
        changes["drops"],
        arrived - changes["packets"] - _queued_segments(tables, begin_s, end_s, path),
    )


def _queued_segments(tables: RunTables, begin_s: float, end_s: float, path: Topology) -> float:
    """Returns by how many full segments the bottleneck's queue grew between two moments; negative
    if it became shorter.
    """
    samples = tables.bottleneck.select("time_s", "backlog_bytes").sort("time_s")
    queued = [
        samples.filter(pl.col("time_s") <= at_s + JITTER_S)["backlog_bytes"].tail(1)
        for at_s in (begin_s, end_s)
    ]
    first, last = (int(backlog[0]) if backlog.len() else 0 for backlog in queued)
    return (last - first) / path.packet_bytes


def policer(run: Run, tables: RunTables) -> PolicerMetrics | None:
    """Returns how many packets the policer dropped in the measured time, and which fraction of all
    packets; None without a policer, or if its counters were sampled less than twice.

    The kernel counts all packets that reach the policer, dropped ones included (tc_run() in
    net/core/dev.c).
    """
    if not isinstance(run.path, Topology) or run.path.policer is None:
        return None
    if measured(run, tables.policer).height < 2:
        return None
    grown = growth(tables.policer, run.traffic.omit_s, run.traffic.total_s, ("packets", "drops"))
    packets, drops = round(grown["packets"]), round(grown["drops"])
    return PolicerMetrics(drops=drops, drop_rate=drops / packets if packets else None)


def receiver_window_limited(run: Run, tables: RunTables) -> float | None:
    """Returns the fraction of the flows' busy time (with data to send) in which the receiver's
    window limited them, as the sender's kernel counts it (tcpi_rwnd_limited over tcpi_busy_time).
    Returns None if no window is configured, or if no flow was busy.
    """
    if not isinstance(run.path, Topology) or all(
        sender.receiver_window_bytes is None for sender in run.path.senders
    ):
        return None
    by_flow = measured(run, tables.sockets).sort("time_s").group_by(FLOW, maintain_order=True)
    names = ("busy_s", "receiver_window_limited_s")
    times = by_flow.agg(map(increase, names))
    busy_s, limited_s = (float(times[name].sum()) for name in names)
    return limited_s / busy_s if busy_s else None


def cpu_s_per_gbit(run: Run, tables: RunTables, goodput_bps: float) -> dict[str, float]:
    """Returns for each host how many seconds of processor time it spent per gigabit of the run's
    goodput, in the measured time.

    All work of the host's sampled cores counts, not only that for the traffic. The configuration
    may say which cores are sampled. A host without busy time has no entry: in the lab, computing
    takes no (virtual) time.
    """
    if tables.series.cpu.is_empty() or not goodput_bps:
        return {}
    cores = measured(run, tables.series.cpu).sort("time_s")
    per_core = cores.group_by("host", "core", maintain_order=True).agg(
        *map(increase, CORE_TIMES), length_s=increase("time_s")
    )
    busy_s = pl.sum_horizontal(CORE_TIMES) - pl.col("idle_s") - pl.col("iowait_s")
    hosts = per_core.group_by("host", maintain_order=True).agg(
        busy_s=busy_s.sum(), length_s=pl.col("length_s").max()
    )
    return {
        host: host_busy_s / (goodput_bps * seconds / BITS_PER_GBIT)
        for host, host_busy_s, seconds in hosts.sort("host").iter_rows()
        if host_busy_s and seconds
    }
