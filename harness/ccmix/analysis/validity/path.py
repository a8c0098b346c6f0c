"""Judges an emulated path: its RTT, rate, loss and backlog, from outside of the devices that emulate them."""

import itertools
from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.analysis.qdiscs import grown_by, root_qdisc
from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity.loss import loss
from ccmix.model import Loss, Measurement, Run, Sender, Topology
from ccmix.model.emulated import BUCKET_PACKETS
from ccmix.units import format_bytes, format_rate, format_time

RTT_LEAST_S = 0.2e-3  # what hosts and routers add, generously
RTT_FRACTION = 0.01
TIMESTAMP_US = (
    1000  # in which TCP measures the RTT of segments sent again, rounded down (tcp_rtt_tsopt_us, tcp_input.c)
)
SOCKET_RTT_PACKETS = 10  # of one host's flows, at the bottleneck's rate: the handshakes meet data of flows before them
RATE_FRACTION = 0.01  # each sample reads its clock a little before the counter
PACKETS_ON_CREDIT = 2  # that htb passes with less than a packet's tokens (net/sched/sch_htb.c), and what is left of one
TRAIN_READING_S = 6 * 256e-9  # of a reply that comes alone: ping and the kernel read the lab's clock six times for it
TRAIN_JITTER_S = 20e-6  # of the replies to a train, on a machine in real time
FQ_FAST_PATH_PACKETS = 8  # which its limit doesn't count (net/sched/sch_fq.c, fq_fastpath_check())


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
    begins_s = tables.flows.select("host", pl.col("begin_s").fill_null(0.0)).rows()
    first_s = min((begin_s for _, begin_s in begins_s), default=0.0)
    is_first = any(host == sender.name and begin_s <= first_s + sender.base_rtt_s for host, begin_s in begins_s)
    if not is_first:  # its flows met the queues of those before them: pings decide
        socket_s = min(socket_s, base_rtts_s(run.topology, sender)[1]) if isinstance(socket_s, float) else None
    least_s, most_s = base_rtts_s(run.topology, sender)
    packets_s = SOCKET_RTT_PACKETS * run.topology.packet_bytes * 8 / _least_rate_bps(run.topology, sender)
    assert isinstance(socket_s, float | None)
    if socket_s is not None and round(socket_s * 1e6) % TIMESTAMP_US == 0:
        early_s += TIMESTAMP_US / 1e6
    if socket_s is None or not least_s - tolerance_s - early_s <= socket_s <= most_s + tolerance_s + packets_s:
        seen = "no minimum RTT" if socket_s is None else format_time(socket_s)
        yield "rtt", f"{host}the sockets see {seen}, configured are {format_time(configured_s)}"


def base_rtts_s(topology: Topology, sender: Sender) -> tuple[float, float]:
    """Returns a sender's smallest and largest base RTT during a run; the larger one includes its jitter."""
    rtts_s = [own.base_rtt_s for own in own_phases(topology, sender)]
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
    train_s = _held_back(measurement.train_s, bucket_bytes / run.topology.packet_bytes, packet_s)
    paced = run.topology.queue.kind == "fq" and run.topology.queue.parameter("maxrate")  # which a train shows instead
    if len(train_s) > 1 and not paced:
        took_s, expected_s = train_s[-1] - train_s[0], (len(train_s) - 1) * packet_s
        slowest_s = (len(train_s) - 1) * max(packet_s, TRAIN_READING_S)
        tolerance_s = RATE_FRACTION * slowest_s + TRAIN_JITTER_S
        if not expected_s - tolerance_s <= took_s <= slowest_s + tolerance_s:
            passed_bps = configured_bps * expected_s / took_s if took_s else float("inf")
            yield "rate", f"a train passed at {format_rate(passed_bps)}, configured are {format_rate(configured_bps)}"


def _held_back(train_s: Sequence[float], bucket_packets: float, packet_s: float) -> Sequence[float]:
    """Returns when those replies came that the bottleneck held back: after its bucket was empty.

    Before, packets pass as fast as they come, while the bucket fills at the rate. None where it never was empty.
    """
    for number, at_s in enumerate(train_s):
        if number + PACKETS_ON_CREDIT >= bucket_packets + (at_s - train_s[0]) / packet_s:
            return train_s[max(number, int(bucket_packets) + PACKETS_ON_CREDIT) :]
    return ()


def loss_of_sender(topology: Topology, sender: Sender, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Judges each span between two changes of the sender's netem alone."""
    for configured, lost, offered in lost_in_spans(topology, sender, measurement):
        yield from loss(configured, (lost, offered))
    yield from lost_on_return(measurement, topology.device_name("ack-delay", sender))


def lost_in_spans(
    topology: Topology, sender: Sender, measurement: Measurement
) -> Iterator[tuple[Loss | None, int, int]]:
    """Yields the configured loss between two changes of the sender's netem, the packets lost, and those offered."""
    device = topology.device_name("data-delay", sender)
    counted = [root_qdisc(measurement.before.qdiscs[device])]
    counted += [root_qdisc(change.qdiscs[device]) for change in measurement.changes if device in change.qdiscs]
    counted.append(root_qdisc(measurement.after.qdiscs[device]))
    spans = [own for own, _ in itertools.groupby(own_phases(topology, sender))]
    for own, (first, last) in zip(spans, itertools.pairwise(counted), strict=False):
        lost = last.drops - first.drops
        yield own.loss, lost, last.packets - first.packets + lost


def own_phases(topology: Topology, sender: Sender) -> list[Sender]:
    return [next(other for other in phase.senders if other.name == sender.name) for _, phase in topology.phases]


def lost_on_return(measurement: Measurement, device: str) -> Iterator[tuple[str, str]]:
    if device in measurement.after.qdiscs and (on_return := grown_by(measurement, device, "drops")):
        yield "netem-limit", f"netem dropped {on_return} packets on the way back, where no loss is configured"


def backlog(run: Run, tables: RunTables) -> Iterator[tuple[str, str]]:
    """Judges that no more was queued than the buffer holds, and a packet; fq's fast path holds some beside."""
    configured, packet_bytes = run.topology.buffer_bytes, run.topology.packet_bytes
    beside = 1 + (FQ_FAST_PATH_PACKETS if run.topology.queue.kind == "fq" else 0)
    most = tables.bottleneck["backlog_bytes"].max()
    if isinstance(most, int) and most > configured + beside * packet_bytes:
        yield "buffer", f"{format_bytes(most)} were queued, configured are {format_bytes(configured)}"
