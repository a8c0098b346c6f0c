"""Judges a run: whether the path and the CCA limited it, and the path was the one that was configured.

Everything is judged from what the run's own probes saw: a configuration is never believed because it was set.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal

import polars as pl

from ccmix.analysis.distributions import binomial_cdf, binomial_tail
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import measured
from ccmix.analysis.series import SRC
from ccmix.analysis.tables import RunTables
from ccmix.conditions.qdisc import LEAF_PARENT
from ccmix.model import (
    Finding,
    HostPath,
    Measurement,
    Netem,
    QdiscCounters,
    Run,
    Sender,
    Status,
    Topology,
    Verdict,
)
from ccmix.model.group_grammar import DEFAULT_CCA
from ccmix.probes.stream.format import CPU_TIMES
from ccmix.terms import LIMITS
from ccmix.units import format_bytes, format_percent, format_rate, format_time

# Tolerances, each with its reason.
RTT_LEAST_S = 0.2e-3  # what hosts and routers add, generously
RTT_FRACTION = 0.01
PATH_RTT_LEAST_S = 1e-3  # by which the RTT of a path that others use too may change between two pings
TIMESTAMP_US = (
    1000  # in which TCP measures the RTT of segments sent again, rounded down (tcp_rtt_tsopt_us, tcp_input.c)
)
SOCKET_RTT_PACKETS = 10  # of one host's flows, at the bottleneck's rate: the handshakes meet data of flows before them
RATE_FRACTION = 0.01  # each sample reads its clock a little before the counter
TRAIN_JITTER_S = 20e-6  # of the replies to a train, on a machine in real time
LOSS_P_VALUE = 1e-6  # one false alarm in a million runs
TC_LATENCY_STEP_S = 1e-6  # at 25 Gbit/s, that is two packets
LEAST_IDLE = 0.02  # of a core's time
CORE_TIMES = [name for name in CPU_TIMES if not name.startswith("guest")]  # which user and nice include
LIMITED_FRACTION = 0.02  # of the time that a flow had data to send
LEAST_LIMITED_S = 0.02  # two jiffies, in which the kernel counts such times, where it has the fewest: 100 a second


def judge(run: Run, tables: RunTables, measurement: Measurement) -> Verdict:
    """Returns the verdict; kinds that the entry accepts leave a run valid."""

    def findings(limits_and_details: Iterator[tuple[str, str]]) -> tuple[Finding, ...]:
        return tuple(
            Finding(kind, f"{LIMITS[kind]}: {detail}", kind in run.accept_limits) for kind, detail in limits_and_details
        )  # fmt: skip

    if isinstance(run.path, HostPath):
        limits = findings(_between_hosts(run, run.path, tables, measurement))
        unseen = findings(_unseen_between_hosts(run, tables, measurement))
    else:
        limits, unseen = findings(_emulated(run, tables, measurement)), findings(_unseen(run, tables))
    status: Status = "valid"
    if not all(finding.accepted for finding in unseen):
        status = "unknown"
    if not all(finding.accepted for finding in limits):
        status = "limited"
    return Verdict(status, limits + unseen)


def _unseen(run: Run, tables: RunTables) -> Iterator[tuple[str, str]]:
    """Yields what no probe could look at; _cca reports flows that no probe saw."""
    seen = tables.sockets.select(FLOW).n_unique()
    if few := seen - _flows_with_samples(run, tables):
        yield "probe", f"{few} of {seen} flows have fewer than two samples in the measured time"
    if not tables.short_flows_seen:
        yield "probe", "sockets were sampled by ss, which sees no flow that ends between two samples"
    if run.topology.offloads and _loses(run):
        yield "loss", "with offloads, netem loses packets joined to one and counts them apart: their share is unknown"


def _unseen_between_hosts(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Yields what no probe could look at between hosts, where only the ends can be seen: above all the sockets."""
    if measurement.facts.hosts_unseen:
        yield "probe", f"no probe sampled the sockets of {run.host_path.src}: ccmix has no shell there"
    elif tables.flows.is_empty():
        yield "probe", f"no connection to {run.host_path.dst.address} carried data in view of {run.host_path.src}"
    elif few := tables.flows.height - _flows_with_samples(run, tables):
        yield "probe", f"{few} of {tables.flows.height} flows have fewer than two samples in the measured time"


def _flows_with_samples(run: Run, tables: RunTables) -> int:
    return measured(run, tables.sockets).group_by(FLOW).len().filter(pl.col("len") > 1).height


def _emulated(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    yield from _cca(tables)
    yield from _offloads(run, measurement)
    yield from _rtt(run, tables, measurement)
    yield from _rate(run, tables, measurement)
    if not (run.topology.offloads and _loses(run)):  # else see _unseen
        for sender in run.topology.senders:
            yield from _loss_of_sender(run.topology, sender, measurement)
    yield from _buffer(run, tables, measurement)
    yield from _hosts(run, tables, measurement)
    yield from _processors(run, tables)
    yield from _probes(measurement)


def _between_hosts(run: Run, path: HostPath, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    yield from _cca(tables, looked=not measurement.facts.hosts_unseen)
    if path.netem:
        yield from _netem(path, path.netem, measurement)
    yield from _hosts(run, tables, measurement)
    yield from _processors(run, tables)
    yield from _probes(measurement)


def _processors(run: Run, tables: RunTables) -> Iterator[tuple[str, str]]:
    """Yields cores that were never idle: they limit what runs on them, a single stream or the interrupts of a queue."""
    if tables.series.cpu.is_empty():
        return
    spent = (pl.col(name).last() - pl.col(name).first() for name in CORE_TIMES)
    cores = measured(run, tables.series.cpu).sort("time_s").group_by("host", "core", maintain_order=True).agg(spent)
    cores = cores.with_columns(all_s=pl.sum_horizontal(CORE_TIMES)).filter(pl.col("all_s") > 0)
    idle = cores.select("host", "core", idle=(pl.col("idle_s") + pl.col("iowait_s")) / pl.col("all_s"))
    for host, core, share in idle.filter(pl.col("idle") < LEAST_IDLE).iter_rows():
        yield "cpu", f"core {core} of {host} was idle {format_percent(share)} of the time"


def _netem(path: HostPath, netem: Netem, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Judges the RTT that netem adds, and the packets that it lost, on a path with an RTT and loss of its own."""
    added_s = netem.delay_s * (2 if path.netem_at and path.netem_at.ack_device else 1)
    added_s += path.profile.delay_s if path.profile else 0.0
    before_s, with_s = (
        min(measurement.ping_before_s, default=None),
        min(measurement.ping_rtt_s.get(SRC, ()), default=None),
    )
    if before_s is not None and with_s is not None:
        seen_s = with_s - before_s
        if abs(seen_s - added_s) > max(PATH_RTT_LEAST_S, RTT_FRACTION * with_s):
            yield (
                "rtt",
                f"netem adds {format_time(round(seen_s, 5))} to ping's RTT, configured are {format_time(added_s)}",
            )
    if netem.loss:
        if joined := [name for name, on in (measurement.facts.offloads or {}).items() if on]:
            yield "offloads", f"on are {', '.join(joined)}: netem loses all of the packets joined to one"
        elif netem.loss.model == "random" and netem.limit_packets is None:  # else a full queue drops too
            yield from _loss(netem.loss.parameters[0], _lost_and_offered(measurement, "data-delay"))
            yield from _lost_on_return(measurement, "ack-delay")


def _cca(tables: RunTables, looked: bool = True) -> Iterator[tuple[str, str]]:
    """Reports CCAs that differ: the one asked for, the one that iperf3 read from the socket, and the one the probe saw.

    Without a probe (`looked` is false), compares what the generator read, if anything. If no CCA was asked for,
    compares what iperf3 read and what the probe saw, on a socket that sends. DCTCP without ECN goes on as
    'dctcp-reno' (net/ipv4/tcp_dctcp.c).
    """
    sending = tables.sockets.filter(pl.col("data_segs_out") > 0)
    seen = sending.group_by(FLOW).agg(pl.col("cca").unique())
    for flow in tables.flows.join(seen, on=FLOW, how="left").iter_rows(named=True):
        seen_outside = {cca or "one that ss names otherwise" for cca in flow["cca"] or ()}
        if flow["cca_asked"] in (None, DEFAULT_CCA):
            known = {cca for cca in flow["cca"] or () if cca}
            used = known | ({flow["cca_used"]} if flow["cca_used"] and known else set())
            if len(used) > 1:
                yield "cca", f"port {flow['port']} ran {', '.join(sorted(used))}"
            continue
        if not looked:
            used = {flow["cca_used"] or flow["cca_asked"]}
        else:
            used = {flow["cca_used"], *(seen_outside or ("none that the probe saw",))}
        if used != {flow["cca_asked"]}:
            yield "cca", f"port {flow['port']} was to run {flow['cca_asked']} and ran {', '.join(map(str, used))}"


def _offloads(run: Run, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Yields offloads that join packets, on the sender or the router, although netem is to see each packet."""
    wrong = [name for name, on in (measurement.facts.offloads or {}).items() if on and not run.topology.offloads]
    if wrong:
        yield "offloads", f"on are {', '.join(wrong)}"


def _rtt(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    for sender in run.topology.senders:
        yield from _rtt_of_sender(run, sender, tables, measurement)


def _rtt_of_sender(run: Run, sender: Sender, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Judges a sender's RTT by its pings before the traffic, and by its sockets, which UDP does not have."""
    host = f"{sender.name}: " if len(run.topology.senders) > 1 else ""
    configured_s = sender.base_rtt_s
    tolerance_s = max(RTT_LEAST_S, RTT_FRACTION * configured_s)
    early_s = 2 * sender.jitter_s + (sender.delay_s if sender.reorder else 0.0)
    ping_s = min(measurement.ping_rtt_s[sender.name], default=float("inf"))
    if not -tolerance_s - early_s <= ping_s - configured_s <= tolerance_s + 2 * sender.jitter_s:
        yield "rtt", f"{host}ping sees {format_time(ping_s)}, configured are {format_time(configured_s)}"
    own = tables.sockets.filter(pl.col("host") == sender.name)
    if own.is_empty():
        return
    socket_s = own["min_rtt_s"].min()
    least_s, most_s = _base_rtts_s(run.topology, sender)
    packets_s = SOCKET_RTT_PACKETS * run.topology.packet_bytes * 8 / _least_rate_bps(run.topology, sender)
    assert isinstance(socket_s, float | None)
    if socket_s is not None and round(socket_s * 1e6) % TIMESTAMP_US == 0:
        early_s += TIMESTAMP_US / 1e6
    if socket_s is None or not least_s - tolerance_s - early_s <= socket_s <= most_s + tolerance_s + packets_s:
        seen = "no minimum RTT" if socket_s is None else format_time(socket_s)
        yield "rtt", f"{host}the sockets see {seen}, configured are {format_time(configured_s)}"


def _base_rtts_s(topology: Topology, sender: Sender) -> tuple[float, float]:
    """Returns a sender's smallest and largest base RTT during a run; the larger one includes its jitter."""
    rtts_s = [own.base_rtt_s for own in _own_phases(topology, sender)]
    return min(rtts_s), max(rtts_s) + 2 * sender.jitter_s


def _least_rate_bps(topology: Topology, sender: Sender) -> float:
    rates = [phase.rate_bps for _, phase in topology.phases]
    return min([*rates, *([sender.rate_bps] if sender.rate_bps else [])])


def _loses(run: Run) -> bool:
    return any(sender.loss for _, phase in run.topology.phases for sender in phase.senders)


def _rate(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Judges a train's spacing, and that no more passed between two samples than rate and bucket allow."""
    configured_bps = run.topology.rate_bps
    packet_s = run.topology.packet_bytes * 8 / configured_bps
    at_once = run.topology.bucket_bytes(configured_bps) // run.topology.packet_bytes
    train_s = measurement.train_s[at_once:]
    if len(train_s) > 1:
        took_s, expected_s = train_s[-1] - train_s[0], (len(train_s) - 1) * packet_s
        if abs(took_s - expected_s) > RATE_FRACTION * expected_s + TRAIN_JITTER_S:
            passed_bps = configured_bps * expected_s / took_s if took_s else float("inf")
            yield "rate", f"a train passed at {format_rate(passed_bps)}, configured are {format_rate(configured_bps)}"
    elif kernel_rate := root_qdisc(measurement.after.qdiscs["bottleneck"]).rate_bytes_per_s:
        # no train shows it: the kernel's own word, in bytes per second
        kernel_bps, last_bps = kernel_rate * 8, run.topology.phases[-1][1].rate_bps
        if abs(kernel_bps - last_bps) > RATE_FRACTION * last_bps:
            yield "rate", f"the kernel has {format_rate(kernel_bps)}, configured are {format_rate(last_bps)}"
    most_bps = max(phase.rate_bps for _, phase in run.topology.phases)
    changes = tables.bottleneck.sort("time_s").select(pl.col("time_s").diff(), bits=pl.col("bytes").diff() * 8)
    passed = changes.drop_nulls()
    bucket_bits = 8 * (run.topology.bucket_bytes(most_bps) + run.topology.packet_bytes)
    beyond = passed.filter(pl.col("bits") > pl.col("time_s") * most_bps * (1 + RATE_FRACTION) + bucket_bits)
    if not beyond.is_empty():
        most_passed_bps = (beyond["bits"] / beyond["time_s"]).max()
        assert isinstance(most_passed_bps, float)
        yield "rate", f"the bottleneck passed {format_rate(most_passed_bps)}, configured are {format_rate(most_bps)}"


def _loss_of_sender(topology: Topology, sender: Sender, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Judges each span between two changes of the sender's netem alone; bursts follow no binomial distribution."""
    device = topology.device_name("data-delay", sender)
    counted = [root_qdisc(measurement.before.qdiscs[device])]
    counted += [root_qdisc(change.qdiscs[device]) for change in measurement.changes if device in change.qdiscs]
    counted.append(root_qdisc(measurement.after.qdiscs[device]))
    spans = [own for own, _ in itertools.groupby(_own_phases(topology, sender))]
    for own, (first, last) in zip(spans, itertools.pairwise(counted), strict=False):
        if own.loss is None or own.loss.model == "random":
            lost = last.drops - first.drops
            offered = last.packets - first.packets + lost
            yield from _loss(own.loss.parameters[0] if own.loss else 0.0, (lost, offered))
    yield from _lost_on_return(measurement, topology.device_name("ack-delay", sender))


def _own_phases(topology: Topology, sender: Sender) -> list[Sender]:
    return [next(other for other in phase.senders if other.name == sender.name) for _, phase in topology.phases]


def _lost_and_offered(measurement: Measurement, device: str) -> tuple[int, int]:
    lost = _delta(measurement, device, "drops")
    return lost, _delta(measurement, device, "packets") + lost


def _loss(configured: float, lost_and_offered: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """Judges netem's own count against the binomial distribution of the configured loss."""
    lost, offered = lost_and_offered
    if offered == 0:
        yield "loss", "no packet passed netem"
    elif _binomial_p_value(lost, offered, configured) < LOSS_P_VALUE:
        yield (
            "loss",
            (
                f"netem lost {lost} of {offered} packets ({format_percent(lost / offered)}), "
                f"configured are {format_percent(configured)}"
            ),
        )


def _lost_on_return(measurement: Measurement, device: str) -> Iterator[tuple[str, str]]:
    if device in measurement.after.qdiscs and (on_return := _delta(measurement, device, "drops")):
        yield "netem-limit", f"netem dropped {on_return} packets on the way back, where no loss is configured"


def _binomial_p_value(lost: int, offered: int, probability: float) -> float:
    """Returns how likely it is to lose so few or fewer, or so many or more: the rarer one, doubled for both sides."""
    fewer, more = binomial_cdf(lost, offered, probability), binomial_tail(lost, offered, probability)
    return min(1.0, 2 * min(fewer, more))


def _buffer(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Judges that no more was queued than the buffer holds, and that the kernel reports the configured size."""
    configured, packet_bytes = run.topology.buffer_bytes, run.topology.packet_bytes
    applied, exact_bytes = _applied_buffer(run.topology, measurement)
    if applied is not None and abs(applied - configured) > packet_bytes + exact_bytes:
        yield "buffer", f"the kernel has {format_bytes(applied)}, configured are {format_bytes(configured)}"
    most = tables.bottleneck["backlog_bytes"].max()
    if isinstance(most, int) and most > configured + run.topology.packet_bytes:
        yield "buffer", f"{format_bytes(most)} were queued, configured are {format_bytes(configured)}"


def _applied_buffer(topology: Topology, measurement: Measurement) -> tuple[float | None, float]:
    """Returns the buffer in bytes as tc reports it (None if it does not), and how exactly it does so.

    tc(8) says tbf's limit as a latency in whole microseconds, limit / rate - burst / rate, and in bytes where it is
    less than the burst (iproute2, tc/q_tbf.c); that of most other qdiscs in packets.
    """
    below = [qdisc for qdisc in measurement.after.qdiscs["bottleneck"] if qdisc.parent == LEAF_PARENT]
    if below:
        unit = 1 if topology.queue.kind in ("bfifo", "red", "cake") else topology.packet_bytes
        limit = below[0].memory_limit_bytes if below[0].limit is None else below[0].limit
        return None if limit is None else limit * unit, 0.0
    root = root_qdisc(measurement.after.qdiscs["bottleneck"])
    if root.limit is not None:
        return root.limit, 0.0
    if root.latency_us is None or root.rate_bytes_per_s is None or root.burst_bytes is None:
        raise ValueError(f"tc reports no size of the bottleneck's {root.kind}")
    rate = root.rate_bytes_per_s
    return root.latency_us * 1e-6 * rate + root.burst_bytes, TC_LATENCY_STEP_S * rate


def _hosts(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    yield from window_limits(run, tables)
    for host, text in measurement.after.netstat.items():
        before = measurement.before.netstat[host]
        if pressures := _netstat(text, "TCPMemoryPressures") - _netstat(before, "TCPMemoryPressures"):
            yield "tcp-memory", f"{host} came under memory pressure {pressures} times"
    for device in measurement.after.qdiscs:
        is_netem = root_qdisc(measurement.after.qdiscs[device]).kind == "netem"  # it loses what it is asked to lose
        if device.startswith("sender-queue") and not is_netem and (dropped := _delta(measurement, device, "drops")):
            of_limit = _flow_limit_drops(tables, device)
            yield "sender-queue", f"{dropped} packets{f', {of_limit} of them by flow_limit' if of_limit else ''}"
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


def _probes(measurement: Measurement) -> Iterator[tuple[str, str]]:
    for name, report in measurement.facts.probes.items():
        if report.failed:
            yield "probe", f"{name}: {report.failed}"
        elif report.missed and not name.startswith("processors"):  # whose shares are of whatever time passed
            yield "probe", f"{name}: {report.missed} of {(report.samples or 0) + report.missed} samples missed"


def _delta(measurement: Measurement, device: str, counter: Literal["drops", "packets"]) -> int:
    """Returns how much a counter of a device's root qdisc grew during the test."""
    before, after = (root_qdisc(counters.qdiscs[device]) for counters in (measurement.before, measurement.after))
    return int(getattr(after, counter) - getattr(before, counter))


def root_qdisc(qdiscs: Sequence[QdiscCounters]) -> QdiscCounters:
    """Returns the root among a device's qdiscs. Raises ValueError if there is none."""
    for qdisc in qdiscs:
        if qdisc.parent is None:
            return qdisc
    raise ValueError(f"a device had no root qdisc: {qdiscs!r}")


def _netstat(text: str, counter: str) -> int:
    """Returns a TcpExt counter of /proc/net/netstat: a line of names, then one of values."""
    lines = [line.split() for line in text.splitlines() if line.startswith("TcpExt:")]
    return int(dict(zip(*lines, strict=True))[counter])


def _softnet_drops(text: str) -> int:
    """Returns packets dropped for a full backlog: the second column, hexadecimal, of /proc/net/softnet_stat, summed."""
    return sum(int(line.split()[1], 16) for line in text.splitlines())
