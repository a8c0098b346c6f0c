"""Judges whether hosts limited a run: by windows, buffers, memory, their own queues, or CPUs."""

import polars as pl

from ccmix.analysis.counters import grown_by, root_qdisc
from ccmix.analysis.iperf3_tables import FLOW, FLOW_KEY
from ccmix.analysis.measured import JITTER_S, increase, measured
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity.applied import Observed, Problems, others
from ccmix.model import HostPath, Measurement, Run, Topology
from ccmix.model.emulated import SUPER_PACKET_BYTES
from ccmix.probes.stream.format import CORE_TIMES
from ccmix.units import format_percent

LEAST_IDLE = 0.02  # of a core's time
LIMITED_FRACTION = 0.02  # of the time that a flow had data to send
# of the time of one flow of several: at most 0.04 in 284 flows of valid runs in the lab
FLOW_LIMITED_FRACTION = 0.1
# of a receiver's window: the kernel counts it in 256ths of a buffer, and in whole packets
WINDOW_FRACTION = 0.03
APP_LIMITED_FRACTION = 0.1  # of a flow's time: those 284 flows were busy all the time
# sent first on each connection of iperf3, long before its traffic (COOKIE_SIZE in iperf.h)
COOKIE_BYTES = 37
MARKED_AT_FIRST_RTTS = 3  # the pause after the cookie marks the first samples, for two round trips
MOST_STEAL = 0.02  # of a core's time
LASTING = 0.9  # of the sampled time: probes begin before a thread, and end after it
SOFTIRQ_WINDOW_S = 1.0  # in which /proc/stat has 100 ticks
# two jiffies, in which the kernel counts such times, at the lowest tick rate: 100 a second
LEAST_LIMITED_S = 0.02
# In which a receiver's window grows with the data that arrives (tcp_rcv_space_adjust()): until
# then, it may limit slow start on any path
GROWING_S = 0.5 + JITTER_S
LOSES_AS_ASKED = "netem"
# of a host in production: its shaper is the path's bottleneck, and drops packets above the rate
SHAPERS = ("tbf", "htb")
UNLIMITED = "fq"  # holds as much as a sender can send, unless its parameters set a limit


def limits(observed: Observed) -> Problems:
    """Yields problems if something on the hosts limited the run: windows and socket buffers, TCP's
    memory, drops in a sender's own queue, or drops of packets that waited between device and IP
    (softnet's backlog).
    """
    run, tables, measurement = observed.run, observed.tables, observed.measurement
    if not run.traffic.steps:  # steps are there to find such limits
        yield from window_limits(run, tables)
    for host, text in measurement.after.netstat.items():
        before = measurement.before.netstat[host]
        if pressures := _memory_pressures(text) - _memory_pressures(before):
            yield "tcp-memory", f"{host} came under memory pressure {pressures} times"
    for device in measurement.after.qdiscs:
        may_drop = not device.startswith("sender-queue") or _drops_as_configured(
            run, device, measurement
        )
        if not may_drop and (dropped := grown_by(measurement, device, "drops")):
            flow_limit_drops = _flow_limit_drops(tables, device)
            suffix = f", {flow_limit_drops} of them by flow_limit" if flow_limit_drops else ""
            yield "sender-queue", f"it dropped {dropped} packets{suffix}"
    for host, text in measurement.after.softnet.items():
        if dropped := _softnet_drops(text) - _softnet_drops(measurement.before.softnet[host]):
            yield "host-backlog", f"{host} dropped {dropped} packets"


def _drops_as_configured(run: Run, device: str, measurement: Measurement) -> bool:
    """Returns whether a sender's device may drop packets without making the run invalid. It may if
    netem loses packets there, if the shaper of a real host is the path's bottleneck, or if the
    configured queue has a limit.

    `device` is the purpose of the device, such as 'sender-queue h2'.
    """
    kind = root_qdisc(measurement.after.qdiscs[device]).kind
    if isinstance(run.path, HostPath):
        return kind == LOSES_AS_ASKED or kind in SHAPERS
    queue = next(
        sender.queue
        for sender in run.path.senders
        if run.path.device_name("sender-queue", sender) == device
    )
    return queue.kind != UNLIMITED or not {"limit", "flow_limit"}.isdisjoint(queue.parameters)


def window_limits(run: Run, tables: RunTables) -> Problems:
    """Yields problems if flows were limited by the receiver's window, by the send buffer, or by an
    application without data, according to counters of their sockets (tcpi_rwnd_limited,
    tcpi_sndbuf_limited). All flows are judged together, and if they pass, each flow by itself.

    A receiver's window is not judged in the first GROWING_S of a flow, because it grows with the
    data that arrives.
    """
    first_s = tables.sockets.group_by(FLOW).agg(first_s=pl.col("time_s").min())
    samples = measured(run, tables.sockets).join(first_s, on=FLOW).sort("time_s")
    samples = samples.with_columns(growing=pl.col("time_s") <= pl.col("first_s") + GROWING_S)
    for kind, column, growing in (
        ("receiver-window", "receiver_window_limited_s", "growing"),
        ("send-buffer", "send_buffer_limited_s", pl.lit(value=False)),
    ):
        increases = samples.group_by(FLOW, maintain_order=True).agg(
            pl.col(name).last()
            - pl.coalesce(pl.col(name).filter(growing).last(), pl.col(name).first())
            for name in ("busy_s", column)
        )
        if kind == "receiver-window" and isinstance(run.path, Topology):
            increases = increases.join(
                _flows_with_full_window(run.path, tables), on=FLOW, how="anti"
            )
        busy_s, limited_s = float(increases["busy_s"].sum()), float(increases[column].sum())
        if limited_s > LEAST_LIMITED_S and limited_s / busy_s > LIMITED_FRACTION:
            yield kind, f"{format_percent(limited_s / busy_s)} of the busy time"
            continue
        share = pl.col(column) / pl.col("busy_s")
        limited_flows = increases.filter(
            pl.col(column) > LEAST_LIMITED_S, share > FLOW_LIMITED_FRACTION
        )
        if not limited_flows.is_empty():
            host, port, largest_share = (
                limited_flows.select("host", "port", share).sort(column, descending=True).row(0)
            )
            yield (
                kind,
                f"{format_percent(largest_share)} of the busy time of port {port} of "
                f"{host}{others(limited_flows.height)}",
            )
    yield from _app_limited(run, tables)


def configured_windows(path: Topology) -> dict[str, int]:
    """Returns the configured maximum receive window, in bytes, by the name of its sender. Senders
    without one are left out.
    """
    windows_bytes = {sender.name: sender.receiver_window_bytes for sender in path.senders}
    return {
        name: window_bytes
        for name, window_bytes in windows_bytes.items()
        if window_bytes is not None
    }


def seen_windows(tables: RunTables) -> pl.DataFrame:
    """Returns the largest receive window that each flow's sender was offered, with the columns
    host, port and window_bytes; no rows if no probe reports windows.
    """
    sockets = tables.sockets
    if "send_window_bytes" not in sockets.columns:
        return pl.DataFrame(schema=FLOW_KEY | {"window_bytes": pl.Int64})
    return sockets.group_by(FLOW).agg(window_bytes=pl.col("send_window_bytes").max()).drop_nulls()


def _flows_with_full_window(path: Topology, tables: RunTables) -> pl.DataFrame:
    """Returns the flows (columns host and port) whose window grew to the configured maximum. Being
    limited by that window does not make the run invalid.

    A window counts as grown even if it lacks the data that has just arrived and was not read yet: a
    packet, or with offloads a super-packet of 64 KiB.
    """
    windows_bytes = configured_windows(path)
    configured = pl.col("host").replace_strict(windows_bytes, default=None, return_dtype=pl.Int64)
    missing_bytes = configured - pl.col("window_bytes").cast(pl.Int64)
    unread_bytes = SUPER_PACKET_BYTES if path.offloads else path.packet_bytes
    return (
        seen_windows(tables)
        .filter(missing_bytes <= WINDOW_FRACTION * configured + unread_bytes)
        .select(FLOW)
    )


def _app_limited(run: Run, tables: RunTables) -> Problems:
    """Yields a problem if a sender of iperf3 had nothing to send for more than 10% of a flow's
    time, although it should send as fast as the path allows.

    The kernel shows this in two ways. If nothing is in flight, it does not count the time as busy
    (tcp_chrono_start() in net/ipv4/tcp_output.c). And it marks the sample of the delivery rate
    (tcp_rate_check_app_limited() in net/ipv4/tcp_rate.c), which ss does not show. Only the mark
    would miss senders that pause, because the kernel drops a marked sample that is slower than the
    one before. A flow whose data no longer arrives keeps an old mark, so samples with unsent data
    do not count.

    A pScheduler test with a bandwidth is not judged, because it is told not to send faster.
    """
    task = run.traffic.task
    if task and "bandwidth" in dict(task.spec):
        return
    iperf3_flows = tables.flows.filter(pl.col("cca_asked").is_not_null()).select(FLOW)
    sends_data = pl.col("bytes_sent") > COOKIE_BYTES
    samples = (
        measured(run, tables.sockets).join(iperf3_flows, on=FLOW).filter(sends_data).sort("time_s")
    )
    is_warm = (
        pl.col("time_s") - pl.col("time_s").first() > MARKED_AT_FIRST_RTTS * pl.col("rtt_s").max()
    )
    marked = pl.col("app_limited") & (pl.col("unsent_bytes") == 0)
    marks = (
        marked.filter(is_warm)
        if {"app_limited", "unsent_bytes"} <= set(samples.columns)
        else pl.lit(None)
    )
    lasted_s = increase("time_s")
    flows = samples.group_by(FLOW).agg(
        seconds=lasted_s, idle=1 - increase("busy_s") / lasted_s, marked=marks.mean()
    )
    shares = flows.select(*FLOW, "seconds", share=pl.max_horizontal("idle", "marked"))
    limited = shares.filter(pl.col("seconds") > 0, pl.col("share") > APP_LIMITED_FRACTION)
    if not limited.is_empty():
        host, port, _, share = limited.sort("share", descending=True).row(0)
        yield (
            "application",
            f"{format_percent(share)} of the time of port {port} of {host}{others(limited.height)}",
        )


def _flow_limit_drops(tables: RunTables, place: str) -> int:
    """Returns how many packets a sending device's fq dropped because one flow had too many in the
    queue (flow_limit). Returns 0 if tc sampled the queues, because tc does not report such drops.
    """
    queues = tables.series.queues
    if "flow_limit_drops" not in queues.columns:
        return 0
    fq_samples = queues.filter(pl.col("place") == place).sort("time_s").group_by("queue")
    return int(fq_samples.agg(increase("flow_limit_drops"))["flow_limit_drops"].sum())


def _memory_pressures(text: str) -> int:
    """Returns how often TCP came under memory pressure, from the text of /proc/net/netstat, where
    one line has the names of the counters of TcpExt, and the next one their values.
    """
    lines = [line.split() for line in text.splitlines() if line.startswith("TcpExt:")]
    return int(dict(zip(*lines, strict=True))["TCPMemoryPressures"])


def _softnet_drops(text: str) -> int:
    """Returns how many packets a host dropped because a CPU's backlog was full: the sum of the
    second column (hexadecimal) of /proc/net/softnet_stat.
    """
    return sum(int(line.split()[1], 16) for line in text.splitlines())


def processors(observed: Observed) -> Problems:
    """Yields problems for CPUs that may have limited the run: a core that was never idle, a core
    that the hypervisor took away, softirqs that filled a core in every second, or a thread that
    worked all the time.
    """
    series = observed.tables.series
    if not series.cpu.is_empty():
        yield from _cores(measured(observed.run, series.cpu).sort("time_s"))
    if not series.processes.is_empty():
        yield from _threads(measured(observed.run, series.processes).sort("time_s"))


def _cores(samples: pl.DataFrame) -> Problems:
    """Yields problems for cores without idle time, for cores that the hypervisor gave to others
    (steal), and for softirqs that filled one core in every second, even if it was not always the
    same one. `samples`: rows of cpu.parquet, sorted by time.
    """
    spent = map(increase, CORE_TIMES)
    cores = _shares(samples.group_by("host", "core", maintain_order=True).agg(spent))
    without_idle_time = cores.filter(pl.col("idle") < LEAST_IDLE)
    for host, core, idle in without_idle_time.select("host", "core", "idle").iter_rows():
        yield "cpu", f"core {core} of {host} was idle {format_percent(idle)} of the time"
    for host, core, steal in (
        cores.filter(pl.col("steal") > MOST_STEAL).select("host", "core", "steal").iter_rows()
    ):
        yield (
            "cpu",
            f"the hypervisor gave core {core} of {host} to others for "
            f"{format_percent(steal)} of the time",
        )
    for host, share in _busiest_softirq(samples).iter_rows():
        if share > 1 - LEAST_IDLE and host not in without_idle_time["host"]:
            yield (
                "cpu",
                f"softirqs took {format_percent(share)} of the busiest core of {host} each second",
            )


def _shares(spent: pl.DataFrame) -> pl.DataFrame:
    """Adds the columns idle, steal and softirq: the shares of each row's CPU time, from the columns
    of /proc/stat in seconds (CORE_TIMES).
    """
    with_total = spent.with_columns(all_s=pl.sum_horizontal(CORE_TIMES)).filter(pl.col("all_s") > 0)
    return with_total.with_columns(
        idle=(pl.col("idle_s") + pl.col("iowait_s")) / pl.col("all_s"),
        steal=pl.col("steal_s") / pl.col("all_s"),
        softirq=(pl.col("irq_s") + pl.col("softirq_s")) / pl.col("all_s"),
    )


def _busiest_softirq(samples: pl.DataFrame) -> pl.DataFrame:
    """Returns the columns host and softirq. For each second, softirq is the share of time that
    interrupts took on the core with the largest share; the result is the average over the run.

    No single core shows this, because irqbalance and packet steering move interrupts between cores:
    each core is idle at times.
    """
    second = (pl.col("time_s") / SOFTIRQ_WINDOW_S).floor().alias("second")
    last = samples.group_by("host", "core", second, maintain_order=True).agg(
        pl.col(CORE_TIMES).last()
    )
    spent = last.with_columns(
        pl.col(name).diff().over("host", "core") for name in CORE_TIMES
    ).drop_nulls()
    busiest = _shares(spent).group_by("host", "second").agg(pl.col("softirq").max())
    return busiest.group_by("host", maintain_order=True).agg(pl.col("softirq").mean())


def _threads(samples: pl.DataFrame) -> Problems:
    """Yields a problem for each thread that existed for most of the run and worked without a pause.
    A process with only one thread counts as a thread.

    `samples`: rows of processes.parquet, sorted by time. A row stands for a thread if its column
    `threads` is 0, otherwise for a process.
    """
    seconds = increase("time_s")
    identity = ["host", "pid", "parent_pid", "started_s", pl.col("threads") == 0]
    tasks = samples.group_by(identity, maintain_order=True).agg(
        pl.col("name").last(),
        most=pl.col("threads").max(),
        spent_s=increase("user_s") + increase("system_s"),
        lived_s=seconds,
    )
    processes_by_thread = tasks.filter("threads").select("host", pid="parent_pid")
    single_threaded = tasks.filter(~pl.col("threads"), pl.col("most") == 1).join(
        processes_by_thread, on=["host", "pid"], how="anti"
    )
    candidates = pl.concat([tasks.filter("threads"), single_threaded]).join(
        samples.group_by("host").agg(all_s=seconds), on="host"
    )
    lasting = candidates.filter(
        pl.col("lived_s") > 0, pl.col("lived_s") >= LASTING * pl.col("all_s")
    )
    busy = lasting.with_columns(share=pl.col("spent_s") / pl.col("lived_s")).filter(
        pl.col("share") > 1 - LEAST_IDLE
    )
    for host, pid, name, share in busy.select("host", "pid", "name", "share").iter_rows():
        yield (
            "cpu",
            f"thread {pid} ({name}) of {host} worked {format_percent(min(1.0, share))} of the time",
        )
