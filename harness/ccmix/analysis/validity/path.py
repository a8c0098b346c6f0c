"""Judges the RTT, rate, loss and backlog of an emulated path from outside of the devices that
emulate them.
"""

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.analysis.counters import grown_by, root_qdisc
from ccmix.analysis.intervals import binomial_cdf, binomial_tail
from ccmix.analysis.tables import RunTables
from ccmix.model import Loss, Measurement, Run, Sender, Topology
from ccmix.model.emulated import BUCKET_PACKETS
from ccmix.model.netem import gemodel_parameters
from ccmix.units import format_bytes, format_percent, format_rate, format_time

LOSS_P_VALUE = 1e-6  # one false alarm in a million runs
POWER = 0.95
WRONG_SHARE = 0.2  # of the configured loss, which a run must be able to distinguish from all of it
# Factor by which the tail of a sum of bursts is wider than its variance says: see
# tests/analysis/test_loss.py
BURSTS = 2.0

RTT_LEAST_S = 0.2e-3  # added by hosts and routers, generously
RTT_FRACTION = 0.01
# in which TCP measures the RTT of segments sent again, rounded down (tcp_rtt_tsopt_us, tcp_input.c)
TIMESTAMP_US = 1000
# of one host's flows, at the bottleneck's rate: handshakes wait behind data of earlier flows
SOCKET_RTT_PACKETS = 10
RATE_FRACTION = 0.01  # each sample reads its clock a little before the counter
# one that htb passes with less than a packet's tokens (net/sched/sch_htb.c), and a rest of tokens
PACKETS_ON_CREDIT = 2
TRAIN_READING_S = (
    6 * 256e-9
)  # of a single reply: ping and the kernel read the lab's clock six times for it
TRAIN_JITTER_S = 20e-6  # of the replies to a train, on a machine in real time
FQ_FAST_PATH_PACKETS = 8  # not counted by its limit (net/sched/sch_fq.c, fq_fastpath_check())


def loss(configured: Loss | None, lost_and_offered: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """Tests netem's own count against the distribution of the configured loss."""
    lost, offered = lost_and_offered
    if offered == 0:
        yield "loss", "no packet passed netem"
    elif loss_p_value(configured, lost, offered) < LOSS_P_VALUE:
        yield (
            "loss",
            f"netem lost {lost} of {offered} packets ({format_percent(lost / offered)}), "
            f"configured are {format_percent(configured.mean if configured else 0.0)}",
        )


def loss_p_value(configured: Loss | None, lost: int, offered: int) -> float:
    """Returns the two-sided p-value: the probability of at most this number of losses, or of at
    least this number, whichever is smaller, doubled.

    Losses of gemodel come in bursts, so they count as a smaller number of independent packets, with
    the same mean.
    """
    if configured is None:
        return float(lost == 0)
    alike = _packets_alike(configured)
    trials = max(1, round(offered / alike))
    low, high = min(trials, math.ceil(lost / alike)), min(trials, math.floor(lost / alike))
    fewer, more = (
        binomial_cdf(low, trials, configured.mean),
        binomial_tail(high, trials, configured.mean),
    )
    return min(1.0, 2 * min(fewer, more))


def too_few_losses(configured: Loss, offered: int) -> str | None:
    """Returns a sentence if the test can't distinguish the configured loss from a fifth of it; None
    if it can.

    It can if it would report a path with a fifth of the loss in at least 95 of 100 runs of this
    length.
    """
    alike = _packets_alike(configured)
    trials = max(1, round(offered / alike))
    wrong = WRONG_SHARE * configured.mean
    most = bisect.bisect_left(
        range(trials), POWER, key=lambda losses: binomial_cdf(losses, trials, wrong)
    )
    if loss_p_value(configured, math.floor(most * alike), offered) < LOSS_P_VALUE:
        return None
    return f"loss not verifiable in this run: {configured.mean * offered:.3g} losses expected"


def _packets_alike(configured: Loss) -> float:
    """Returns how many packets count as one packet with independent loss."""
    return 1.0 if configured.model == "random" else BURSTS * _variance_ratio(configured)


def _variance_ratio(configured: Loss) -> float:
    """Returns the variance of the number of losses over that of independent losses with the same
    mean.

    The model is a chain of two states, whose autocorrelation falls by the factor 1 - p - r with
    each packet (Gilbert 1960; Elliott 1963).
    """
    to_bad, to_good, loss_in_bad, loss_in_good = gemodel_parameters(configured.parameters)
    bad = to_bad / (to_bad + to_good)
    kept, mean = 1 - to_bad - to_good, configured.mean
    between = bad * (1 - bad) * (loss_in_bad - loss_in_good) ** 2
    if mean in (0.0, 1.0) or kept >= 1:
        return 1.0
    return max(1.0, 1 + 2 * between * kept / (1 - kept) / (mean * (1 - mean)))


def rtt(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    for sender in run.topology.senders:
        yield from _rtt_of_sender(run, sender, tables, measurement)


def _rtt_of_sender(
    run: Run, sender: Sender, tables: RunTables, measurement: Measurement
) -> Iterator[tuple[str, str]]:
    """Judges a sender's RTT by its pings before the traffic, and by its sockets if it has any (UDP
    has none).
    """
    host = f"{sender.name}: " if len(run.topology.senders) > 1 else ""
    configured_s = sender.base_rtt_s
    tolerance_s = max(RTT_LEAST_S, RTT_FRACTION * configured_s)
    early_s = 2 * sender.jitter_s + (sender.delay_s if sender.reorder else 0.0)
    ping_s = min(measurement.ping_rtt_s[sender.name], default=float("inf"))
    if not -tolerance_s - early_s <= ping_s - configured_s <= tolerance_s + 2 * sender.jitter_s:
        yield (
            "rtt",
            f"{host}ping sees {format_time(ping_s)}, configured are {format_time(configured_s)}",
        )
    own = tables.sockets.filter(pl.col("host") == sender.name)
    if own.is_empty():
        return
    socket_s = own["min_rtt_s"].min()
    begins_s = tables.flows.select("host", pl.col("begin_s").fill_null(0.0)).rows()
    first_s = min((begin_s for _, begin_s in begins_s), default=0.0)
    is_first = any(
        host == sender.name and begin_s <= first_s + sender.base_rtt_s for host, begin_s in begins_s
    )
    if not is_first:  # its flows met queues of earlier flows, so pings decide
        socket_s = (
            min(socket_s, base_rtts_s(run.topology, sender)[1])
            if isinstance(socket_s, float)
            else None
        )
    least_s, most_s = base_rtts_s(run.topology, sender)
    packets_s = (
        SOCKET_RTT_PACKETS * run.topology.packet_bytes * 8 / _least_rate_bps(run.topology, sender)
    )
    assert isinstance(socket_s, float | None)
    if socket_s is not None and round(socket_s * 1e6) % TIMESTAMP_US == 0:
        early_s += TIMESTAMP_US / 1e6
    if (
        socket_s is None
        or not least_s - tolerance_s - early_s <= socket_s <= most_s + tolerance_s + packets_s
    ):
        seen = "no minimum RTT" if socket_s is None else format_time(socket_s)
        yield "rtt", f"{host}the sockets see {seen}, configured are {format_time(configured_s)}"


def base_rtts_s(topology: Topology, sender: Sender) -> tuple[float, float]:
    """Returns a sender's smallest and largest base RTT during a run; the larger one includes
    its jitter.
    """
    rtts_s = [own.base_rtt_s for own in own_phases(topology, sender)]
    return min(rtts_s), max(rtts_s) + 2 * sender.jitter_s


def _least_rate_bps(topology: Topology, sender: Sender) -> float:
    rates = [phase.rate_bps for _, phase in topology.phases]
    return min([*rates, *([sender.rate_bps] if sender.rate_bps else [])])


def loses(run: Run) -> bool:
    return any(sender.loss for _, phase in run.topology.phases for sender in phase.senders)


def rate(run: Run, tables: RunTables, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Judges the spacing of a train of packets."""
    configured_bps = run.topology.least_rate_bps
    shows_bottleneck = configured_bps == run.topology.rate_bps
    packet_s = run.topology.packet_bytes * 8 / configured_bps
    bucket_bytes = (
        run.topology.bottleneck_bucket_bytes
        if shows_bottleneck
        else BUCKET_PACKETS * run.topology.packet_bytes
    )
    train_s = _held_back(measurement.train_s, bucket_bytes / run.topology.packet_bytes, packet_s)
    paced = run.topology.queue.kind == "fq" and run.topology.queue.parameter(
        "maxrate"
    )  # then a train shows this rate instead
    if len(train_s) > 1 and not paced:
        took_s, expected_s = train_s[-1] - train_s[0], (len(train_s) - 1) * packet_s
        slowest_s = (len(train_s) - 1) * max(packet_s, TRAIN_READING_S)
        tolerance_s = RATE_FRACTION * slowest_s + TRAIN_JITTER_S
        if not expected_s - tolerance_s <= took_s <= slowest_s + tolerance_s:
            passed_bps = configured_bps * expected_s / took_s if took_s else float("inf")
            yield (
                "rate",
                f"a train passed at {format_rate(passed_bps)}, configured are "
                f"{format_rate(configured_bps)}",
            )


def _held_back(train_s: Sequence[float], bucket_packets: float, packet_s: float) -> Sequence[float]:
    """Returns the arrival times of the replies that the bottleneck delayed, after its bucket was
    empty; () if the bucket never was.

    Before that, packets pass as fast as they come, while the bucket fills at the rate.
    """
    for number, at_s in enumerate(train_s):
        if number + PACKETS_ON_CREDIT >= bucket_packets + (at_s - train_s[0]) / packet_s:
            return train_s[max(number, int(bucket_packets) + PACKETS_ON_CREDIT) :]
    return ()


def loss_of_sender(
    topology: Topology, sender: Sender, measurement: Measurement
) -> Iterator[tuple[str, str]]:
    """Judges each span between two changes of the sender's netem separately."""
    for configured, lost, offered in lost_in_spans(topology, sender, measurement):
        yield from loss(configured, (lost, offered))
    yield from lost_on_return(measurement, topology.device_name("ack-delay", sender))


def lost_in_spans(
    topology: Topology, sender: Sender, measurement: Measurement
) -> Iterator[tuple[Loss | None, int, int]]:
    """Yields the configured loss between two changes of the sender's netem, the packets lost, and
    those offered.
    """
    device = topology.device_name("data-delay", sender)
    counted = [root_qdisc(measurement.before.qdiscs[device])]
    counted += [
        root_qdisc(change.qdiscs[device])
        for change in measurement.changes
        if device in change.qdiscs
    ]
    counted.append(root_qdisc(measurement.after.qdiscs[device]))
    spans = [own for own, _ in itertools.groupby(own_phases(topology, sender))]
    for own, (first, last) in zip(spans, itertools.pairwise(counted), strict=False):
        lost = last.drops - first.drops
        yield own.loss, lost, last.packets - first.packets + lost


def own_phases(topology: Topology, sender: Sender) -> list[Sender]:
    return [
        next(other for other in phase.senders if other.name == sender.name)
        for _, phase in topology.phases
    ]


def lost_on_return(measurement: Measurement, device: str) -> Iterator[tuple[str, str]]:
    if device in measurement.after.qdiscs and (on_return := grown_by(measurement, device, "drops")):
        yield (
            "netem-limit",
            f"netem dropped {on_return} packets on the way back, although no loss is configured",
        )


def backlog(run: Run, tables: RunTables) -> Iterator[tuple[str, str]]:
    """Judges that no more was queued than the buffer holds, plus a packet, and the packets of fq's
    fast path.
    """
    configured, packet_bytes = run.topology.buffer_bytes, run.topology.packet_bytes
    beside = 1 + (FQ_FAST_PATH_PACKETS if run.topology.queue.kind == "fq" else 0)
    most = tables.bottleneck["backlog_bytes"].max()
    if isinstance(most, int) and most > configured + beside * packet_bytes:
        yield (
            "buffer",
            f"{format_bytes(most)} were queued, configured are {format_bytes(configured)}",
        )
