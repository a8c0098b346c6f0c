"""The verdict on a run: whether the path and the CCA limited it, and the path was the one that was configured.

Everything is judged from what the run's own probes saw: a configuration is never believed because it was set.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from ccmix.analysis.distributions import binomial_cdf, binomial_tail
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import measured
from ccmix.analysis.tables import RunTables, unseen
from ccmix.conditions.qdisc import LEAF_PARENT
from ccmix.model import HostPath, Netem, Run, Sender, Topology
from ccmix.model.traffic import DEFAULT_CCA
from ccmix.probes.stream_columns import CPU_TIMES
from ccmix.terms import LIMITS
from ccmix.units import format_bytes, format_percent, format_rate, format_time

# Tolerances, each with its reason.
RTT_LEAST_S = 0.2e-3  # what hosts and routers add, generously
RTT_FRACTION = 0.01
PATH_RTT_LEAST_S = 1e-3  # by which the RTT of a path that others use too may change between two pings
TIMESTAMP_US = 1000  # in which TCP tells the RTT of segments sent again, rounded down (tcp_rtt_tsopt_us, tcp_input.c)
SOCKET_RTT_PACKETS = 10  # of one host's flows, at the bottleneck's rate: the handshakes meet data of flows before them
RATE_FRACTION = 0.01  # each sample reads its clock a little before the counter
TRAIN_JITTER_S = 20e-6  # of the replies to a train, on a machine in real time
LOSS_P_VALUE = 1e-6  # one false alarm in a million runs
TC_LATENCY_STEP_S = 1e-6  # at 25 Gbit/s, that is two packets
LEAST_IDLE = 0.02  # of a core's time
CORE_TIMES = [name for name in CPU_TIMES if not name.startswith("guest")]  # which user and nice include
LIMITED_FRACTION = 0.02  # of the time that a flow had data to send
LEAST_LIMITED_S = 0.02  # two jiffies, in which the kernel counts such times, where it has the fewest: 100 a second


@dataclass(frozen=True)
class Finding:
    """One thing that was not as it should be."""

    kind: str  # one of terms.LIMITS
    detail: str
    accepted: bool


@dataclass(frozen=True)
class Verdict:
    """valid, limited (see findings), or unknown where a probe could not look."""

    status: Literal["valid", "limited", "unknown"]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        findings = [
            {"kind": finding.kind, "detail": finding.detail, "accepted": finding.accepted} for finding in self.findings
        ]
        return {"status": self.status, "findings": findings}


def judge(run: Run, tables: RunTables, facts: dict[str, Any]) -> Verdict:
    """The verdict; `facts` is what measure() left. Kinds that the entry accepts leave a run valid."""

    def told(found: Iterator[tuple[str, str]]) -> tuple[Finding, ...]:
        return tuple(
            Finding(kind, f"{LIMITS[kind]}: {detail}", kind in run.accept_limits) for kind, detail in found
        )  # fmt: skip

    if isinstance(run.path, HostPath):
        limits = told(_between_hosts(run, run.path, tables, facts))
        unseen = told(_unseen_between_hosts(run, tables, facts))
    else:
        limits, unseen = told(_emulated(run, tables, facts)), told(_unseen(run, tables))
    status: Literal["valid", "limited", "unknown"] = "valid"
    if not all(finding.accepted for finding in unseen):
        status = "unknown"
    if not all(finding.accepted for finding in limits):
        status = "limited"
    return Verdict(status, limits + unseen)


def _unseen(run: Run, tables: RunTables) -> Iterator[tuple[str, str]]:
    """What no probe could look at; of flows that it never saw, _cca tells."""
    seen = tables.sockets.select(FLOW).n_unique()
    if few := seen - _flows_with_samples(run, tables):
        yield "probe", f"{few} of {seen} flows have fewer than two samples in the measured time"
    if not tables.short_flows_seen:
        yield "probe", "sockets were sampled by ss, which sees no flow that ends between two samples"
    if run.topology.offloads and _loses(run):
        yield "loss", "with offloads, netem loses packets joined to one and counts them apart: no share can be told"


def _unseen_between_hosts(run: Run, tables: RunTables, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A path between hosts is what it is: only its ends can be looked at, and the sender's sockets must be."""
    if unseen(facts):
        yield "probe", f"nobody looked at the sockets of {run.host_path.src}, where ccmix has no shell"
    elif tables.flows.is_empty():
        yield "probe", f"no connection to {run.host_path.dst.address} carried data in view of {run.host_path.src}"
    elif few := tables.flows.height - _flows_with_samples(run, tables):
        yield "probe", f"{few} of {tables.flows.height} flows have fewer than two samples in the measured time"


def _flows_with_samples(run: Run, tables: RunTables) -> int:
    return measured(run, tables.sockets).group_by(FLOW).len().filter(pl.col("len") > 1).height


def _emulated(run: Run, tables: RunTables, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _cca(tables)
    yield from _offloads(run, facts)
    yield from _rtt(run, tables, facts)
    yield from _rate(run, tables, facts)
    if not (run.topology.offloads and _loses(run)):  # else see _unseen
        for sender in run.topology.senders:
            yield from _loss_of_sender(run.topology, sender, facts)
    yield from _buffer(run, tables, facts)
    yield from _hosts(run, tables, facts)
    yield from _processors(run, tables)
    yield from _probes(facts)


def _between_hosts(run: Run, path: HostPath, tables: RunTables, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _cca(tables, looked=not unseen(facts))
    if path.netem:
        yield from _netem(path, path.netem, facts)
    yield from _hosts(run, tables, facts)
    yield from _processors(run, tables)
    yield from _probes(facts)


def _processors(run: Run, tables: RunTables) -> Iterator[tuple[str, str]]:
    """A core that is never idle limits what runs on it: a single stream, or the interrupts of a queue."""
    if tables.series.cpu.is_empty():
        return
    spent = (pl.col(name).last() - pl.col(name).first() for name in CORE_TIMES)
    cores = measured(run, tables.series.cpu).sort("time_s").group_by("host", "core", maintain_order=True).agg(spent)
    cores = cores.with_columns(all_s=pl.sum_horizontal(CORE_TIMES)).filter(pl.col("all_s") > 0)
    idle = cores.select("host", "core", idle=(pl.col("idle_s") + pl.col("iowait_s")) / pl.col("all_s"))
    for host, core, share in idle.filter(pl.col("idle") < LEAST_IDLE).iter_rows():
        yield "cpu", f"core {core} of {host} was idle {format_percent(share)} of the time"


def _netem(path: HostPath, netem: Netem, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The RTT that netem adds, and the packets that it lost, on a path whose own RTT and loss nobody configured."""
    added_s = netem.delay_s * (2 if path.netem_at and path.netem_at.ack_device else 1)
    added_s += path.profile.delay_s if path.profile else 0.0
    before_s, with_s = min(facts["ping_before_s"], default=None), min(facts["ping_rtt_s"], default=None)
    if before_s is not None and with_s is not None:
        seen_s = with_s - before_s
        if abs(seen_s - added_s) > max(PATH_RTT_LEAST_S, RTT_FRACTION * with_s):
            yield (
                "rtt",
                f"netem adds {format_time(round(seen_s, 5))} to ping's RTT, configured are {format_time(added_s)}",
            )
    if netem.loss:
        if joined := [name for name, on in facts["offloads"].items() if on]:
            yield "offloads", f"on are {', '.join(joined)}: netem loses all of the packets joined to one"
        elif netem.loss.model == "random" and netem.limit_packets is None:  # else a full queue drops too
            yield from _loss(netem.loss.parameters[0], _lost_and_offered(facts, "data-delay"))
            yield from _lost_on_return(facts, "ack-delay")


def _cca(tables: RunTables, looked: bool = True) -> Iterator[tuple[str, str]]:
    """Asked for, read back by iperf3 from the socket, and seen by the probe from outside must be one and the same.

    Where nobody `looked` at the sockets, what the generator read, if anything. Of a flow for which nothing was asked,
    what iperf3 read and what the probe saw, on a socket that sends. DCTCP without ECN goes on as 'dctcp-reno'
    (net/ipv4/tcp_dctcp.c).
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


def _offloads(run: Run, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Where a packet is to be one to netem, nothing may join packets: not the sender, nor the router on receipt."""
    wrong = [name for name, on in facts["offloads"].items() if on and not run.topology.offloads]
    if wrong:
        yield "offloads", f"on are {', '.join(wrong)}"


def _rtt(run: Run, tables: RunTables, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for sender in run.topology.senders:
        yield from _rtt_of_sender(run, sender, tables, facts)


def _rtt_of_sender(run: Run, sender: Sender, tables: RunTables, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """By its pings before the traffic, and by its sockets, of which UDP has none."""
    host = f"{sender.name}: " if len(run.topology.senders) > 1 else ""
    configured_s = sender.base_rtt_s
    tolerance_s = max(RTT_LEAST_S, RTT_FRACTION * configured_s)
    early_s = 2 * sender.jitter_s + (sender.delay_s if sender.reorder else 0.0)
    ping_s = min(facts["ping_rtt_s"][sender.name], default=float("inf"))
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
    """The smallest and the largest of a sender's during a run, with its jitter at the larger end."""
    rtts_s = [own.base_rtt_s for own in _own_phases(topology, sender)]
    return min(rtts_s), max(rtts_s) + 2 * sender.jitter_s


def _least_rate_bps(topology: Topology, sender: Sender) -> float:
    rates = [phase.rate_bps for _, phase in topology.phases]
    return min([*rates, *([sender.rate_bps] if sender.rate_bps else [])])


def _loses(run: Run) -> bool:
    return any(sender.loss for _, phase in run.topology.phases for sender in phase.senders)


def _rate(run: Run, tables: RunTables, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The spacing of a train of packets, and never more between two samples than the rate and the bucket allow."""
    configured_bps = run.topology.rate_bps
    packet_s = run.topology.packet_bytes * 8 / configured_bps
    at_once = run.topology.bucket_bytes(configured_bps) // run.topology.packet_bytes
    train_s = facts["train_s"][at_once:]
    if len(train_s) > 1:
        took_s, expected_s = train_s[-1] - train_s[0], (len(train_s) - 1) * packet_s
        if abs(took_s - expected_s) > RATE_FRACTION * expected_s + TRAIN_JITTER_S:
            passed_bps = configured_bps * expected_s / took_s if took_s else float("inf")
            yield "rate", f"a train passed at {format_rate(passed_bps)}, configured are {format_rate(configured_bps)}"
    elif kernel_rate := _root(facts, "after", "bottleneck")["options"].get("rate"):
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
        passed_bps = (beyond["bits"] / beyond["time_s"]).max()
        assert isinstance(passed_bps, float)
        yield "rate", f"the bottleneck passed {format_rate(passed_bps)}, configured are {format_rate(most_bps)}"


def _loss_of_sender(topology: Topology, sender: Sender, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each span of time between two changes of the sender's netem alone; bursts follow no binomial distribution."""
    device = topology.device_name("data-delay", sender)
    counted = [_root(facts, "before", device)]
    counted += [root_qdisc(made["qdiscs"][device]) for made in facts.get("changes", ()) if device in made["qdiscs"]]
    counted.append(_root(facts, "after", device))
    spans = [own for own, _ in itertools.groupby(_own_phases(topology, sender))]
    for own, (first, last) in zip(spans, itertools.pairwise(counted), strict=False):
        if own.loss is None or own.loss.model == "random":
            lost = int(last["drops"] - first["drops"])
            offered = int(last["packets"] - first["packets"]) + lost
            yield from _loss(own.loss.parameters[0] if own.loss else 0.0, (lost, offered))
    yield from _lost_on_return(facts, topology.device_name("ack-delay", sender))


def _own_phases(topology: Topology, sender: Sender) -> list[Sender]:
    return [next(one for one in phase.senders if one.name == sender.name) for _, phase in topology.phases]


def _lost_and_offered(facts: dict[str, Any], device: str) -> tuple[int, int]:
    lost = _delta(facts, device, "drops")
    return lost, _delta(facts, device, "packets") + lost


def _loss(configured: float, lost_and_offered: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """netem's own count, against the binomial distribution that the configured loss would give."""
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


def _lost_on_return(facts: dict[str, Any], device: str) -> Iterator[tuple[str, str]]:
    if device in facts["after"]["qdiscs"] and (on_return := _delta(facts, device, "drops")):
        yield "netem-limit", f"netem dropped {on_return} packets on the way back, where no loss is configured"


def _binomial_p_value(lost: int, offered: int, probability: float) -> float:
    """How likely it is to lose as few or fewer, or as many or more, whichever is rarer; doubled, for both sides."""
    fewer, more = binomial_cdf(lost, offered, probability), binomial_tail(lost, offered, probability)
    return min(1.0, 2 * min(fewer, more))


def _buffer(run: Run, tables: RunTables, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """No more queued than the buffer holds, and a buffer of the configured size by the kernel's own word."""
    configured, packet_bytes = run.topology.buffer_bytes, run.topology.packet_bytes
    applied, exact_bytes = _applied_buffer(run.topology, facts)
    if applied is not None and abs(applied - configured) > packet_bytes + exact_bytes:
        yield "buffer", f"the kernel has {format_bytes(applied)}, configured are {format_bytes(configured)}"
    most = tables.bottleneck["backlog_bytes"].max()
    if isinstance(most, int) and most > configured + run.topology.packet_bytes:
        yield "buffer", f"{format_bytes(most)} were queued, configured are {format_bytes(configured)}"


def _applied_buffer(topology: Topology, facts: dict[str, Any]) -> tuple[float | None, float]:
    """The buffer in bytes as the kernel has it, None where tc doesn't say it, and how exactly tc says it.

    tc(8) says tbf's limit as a latency in whole microseconds, limit / rate - burst / rate, and in bytes where it is
    less than the burst (iproute2, tc/q_tbf.c); that of most other qdiscs in packets.
    """
    below = [one for one in facts["after"]["qdiscs"]["bottleneck"] if one.get("parent") == LEAF_PARENT]
    if below:
        options = below[0]["options"]
        unit = 1 if topology.queue.kind in ("bfifo", "red", "cake") else topology.packet_bytes
        limit = options.get("limit", options.get("memlimit"))
        return None if limit is None else limit * unit, 0.0
    options = _root(facts, "after", "bottleneck")["options"]
    if "limit" in options:
        return options["limit"], 0.0
    return options["lat"] * 1e-6 * options["rate"] + options["burst"], TC_LATENCY_STEP_S * options["rate"]


def _hosts(run: Run, tables: RunTables, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield from window_limits(run, tables)
    for host, text in facts["after"]["netstat"].items():
        before = facts["before"]["netstat"][host]
        if pressures := _netstat(text, "TCPMemoryPressures") - _netstat(before, "TCPMemoryPressures"):
            yield "tcp-memory", f"{host} came under memory pressure {pressures} times"
    for device in facts["after"]["qdiscs"]:
        on_purpose = _root(facts, "after", device)["kind"] == "netem"  # which loses what it was asked to lose
        if device.startswith("sender-queue") and not on_purpose and (dropped := _delta(facts, device, "drops")):
            of_limit = _flow_limit_drops(tables, device)
            yield "sender-queue", f"{dropped} packets{f', {of_limit} of them by flow_limit' if of_limit else ''}"
    for host, text in facts["after"]["softnet"].items():
        if dropped := _softnet_drops(text) - _softnet_drops(facts["before"]["softnet"][host]):
            yield "host-backlog", f"{host} dropped {dropped} packets"


def window_limits(run: Run, tables: RunTables) -> Iterator[tuple[str, str]]:
    """What windows and buffers of the hosts limited the flows, by their sockets: kinds and details."""
    in_time = measured(run, tables.sockets).sort("time_s").group_by(FLOW)
    columns = ("busy_s", "receiver_window_limited_s", "send_buffer_limited_s")
    grown = in_time.agg(pl.col(name).last() - pl.col(name).first() for name in columns)
    for kind, column in (("receiver-window", "receiver_window_limited_s"), ("send-buffer", "send_buffer_limited_s")):
        busy_s, limited_s = float(grown["busy_s"].sum()), float(grown[column].sum())
        if limited_s > LEAST_LIMITED_S and limited_s / busy_s > LIMITED_FRACTION:
            yield kind, f"{format_percent(limited_s / busy_s)} of the busy time"


def _flow_limit_drops(tables: RunTables, place: str) -> int:
    """Of all the fq on that sending device, as long as they were sampled; 0 where tc did that."""
    queues = tables.series.queues
    if "flow_limit_drops" not in queues.columns:
        return 0
    counter = pl.col("flow_limit_drops")
    of_each = queues.filter(pl.col("place") == place).sort("time_s").group_by("queue")
    return int(of_each.agg(counter.last() - counter.first())["flow_limit_drops"].sum())


def _probes(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, report in facts["probes"].items():
        if report["failed"]:
            yield "probe", f"{name}: {report['failed']}"
        elif report["missed"] and not name.startswith("processors"):  # whose shares are of whatever time passed
            yield "probe", f"{name}: {report['missed']} of {report['samples'] + report['missed']} samples missed"


def _delta(facts: dict[str, Any], device: str, counter: str) -> int:
    """How much a counter of a device's root qdisc grew during the test."""
    return int(_root(facts, "after", device)[counter] - _root(facts, "before", device)[counter])


def _root(facts: dict[str, Any], when: str, device: str) -> dict[str, Any]:
    """A device's root qdisc, as tc said it before or after the test."""
    return root_qdisc(facts[when]["qdiscs"][device])


def root_qdisc(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    for qdisc in found:
        if qdisc.get("root"):
            return qdisc
    raise ValueError(f"a device had no root qdisc: {found!r}")


def _netstat(text: str, counter: str) -> int:
    """A TcpExt counter of /proc/net/netstat: a line of names, then one of values."""
    lines = [line.split() for line in text.splitlines() if line.startswith("TcpExt:")]
    return int(dict(zip(*lines, strict=True))[counter])


def _softnet_drops(text: str) -> int:
    """Packets dropped for a full backlog: second column, hexadecimal, of /proc/net/softnet_stat, over processors."""
    return sum(int(line.split()[1], 16) for line in text.splitlines())
