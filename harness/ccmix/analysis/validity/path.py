"""Judges an emulated path: its offloads, RTT, rate, loss and buffer, from outside of the devices that emulate them."""

import itertools
from collections.abc import Iterator

import polars as pl

from ccmix.analysis.qdiscs import grown_by, root_qdisc
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity.loss import loss
from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK
from ccmix.conditions.qdisc import LEAF_PARENT
from ccmix.model import Measurement, Run, Sender, Topology
from ccmix.model.emulated import BUCKET_PACKETS
from ccmix.units import format_bytes, format_rate, format_time

RTT_LEAST_S = 0.2e-3  # what hosts and routers add, generously
RTT_FRACTION = 0.01
TIMESTAMP_US = (
    1000  # in which TCP measures the RTT of segments sent again, rounded down (tcp_rtt_tsopt_us, tcp_input.c)
)
SOCKET_RTT_PACKETS = 10  # of one host's flows, at the bottleneck's rate: the handshakes meet data of flows before them
RATE_FRACTION = 0.01  # each sample reads its clock a little before the counter
TRAIN_JITTER_S = 20e-6  # of the replies to a train, on a machine in real time
TC_LATENCY_STEP_S = 1e-6  # at 25 Gbit/s, that is two packets


def offloads(run: Run, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Yields offloads that join packets, on the sender or the router, although netem is to see each packet."""
    wrong = [name for name, on in (measurement.facts.offloads or {}).items() if on and not run.topology.offloads]
    if wrong:
        yield "offloads", f"on are {', '.join(wrong)}"


def rtt(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
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


def loses(run: Run) -> bool:
    return any(sender.loss for _, phase in run.topology.phases for sender in phase.senders)


def rate(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Judges a train's spacing, and that no more passed between two samples than rate and bucket allow."""
    configured_bps = run.topology.least_rate_bps
    shows_bottleneck = configured_bps == run.topology.rate_bps
    packet_s = run.topology.packet_bytes * 8 / configured_bps
    bucket_bytes = (
        run.topology.bottleneck_bucket_bytes if shows_bottleneck else BUCKET_PACKETS * run.topology.packet_bytes
    )
    at_once = bucket_bytes // run.topology.packet_bytes
    train_s = measurement.train_s[at_once:]
    if len(train_s) > 1:
        took_s, expected_s = train_s[-1] - train_s[0], (len(train_s) - 1) * packet_s
        if abs(took_s - expected_s) > RATE_FRACTION * expected_s + TRAIN_JITTER_S:
            passed_bps = configured_bps * expected_s / took_s if took_s else float("inf")
            yield "rate", f"a train passed at {format_rate(passed_bps)}, configured are {format_rate(configured_bps)}"
    if len(train_s) < 2 or not shows_bottleneck:
        yield from _kernel_rate(measurement, BOTTLENECK, run.topology.phases[-1][1].rate_bps)
    if run.topology.ack_bottleneck:
        yield from _kernel_rate(measurement, ACK_BOTTLENECK, run.topology.ack_bottleneck.rate_bps)
    most_bps = max(phase.rate_bps for _, phase in run.topology.phases)
    changes = tables.bottleneck.sort("time_s").select(pl.col("time_s").diff(), bits=pl.col("bytes").diff() * 8)
    passed = changes.drop_nulls()
    bucket_bytes = max(phase.bottleneck_bucket_bytes for _, phase in run.topology.phases)
    bucket_bits = 8 * (bucket_bytes + run.topology.packet_bytes)
    beyond = passed.filter(pl.col("bits") > pl.col("time_s") * most_bps * (1 + RATE_FRACTION) + bucket_bits)
    if not beyond.is_empty():
        most_passed_bps = (beyond["bits"] / beyond["time_s"]).max()
        assert isinstance(most_passed_bps, float)
        yield "rate", f"the bottleneck passed {format_rate(most_passed_bps)}, configured are {format_rate(most_bps)}"


def _kernel_rate(measurement: Measurement, what: str, configured_bps: float) -> Iterator[tuple[str, str]]:
    """Judges a rate by the kernel's own word, in bytes per second, where no train shows it."""
    kernel_rate = root_qdisc(measurement.after.qdiscs[what]).rate_bytes_per_s
    if kernel_rate and abs(kernel_rate * 8 - configured_bps) > RATE_FRACTION * configured_bps:
        of = "" if what == BOTTLENECK else f"{what}: "
        yield "rate", f"{of}the kernel has {format_rate(kernel_rate * 8)}, configured are {format_rate(configured_bps)}"


def loss_of_sender(topology: Topology, sender: Sender, measurement: Measurement) -> Iterator[tuple[str, str]]:
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
            yield from loss(own.loss.parameters[0] if own.loss else 0.0, (lost, offered))
    yield from lost_on_return(measurement, topology.device_name("ack-delay", sender))


def _own_phases(topology: Topology, sender: Sender) -> list[Sender]:
    return [next(other for other in phase.senders if other.name == sender.name) for _, phase in topology.phases]


def lost_on_return(measurement: Measurement, device: str) -> Iterator[tuple[str, str]]:
    if device in measurement.after.qdiscs and (on_return := grown_by(measurement, device, "drops")):
        yield "netem-limit", f"netem dropped {on_return} packets on the way back, where no loss is configured"


def buffer(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
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
