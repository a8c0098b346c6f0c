"""Judges an emulated path by measurements: pings, RTTs of sockets, a packet train, losses."""

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.analysis.counters import grown_by, root_qdisc
from ccmix.analysis.intervals import binomial_cdf, binomial_tail
from ccmix.analysis.validity.applied import Observed, Problems
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
# of a single reply: ping and the kernel read the lab's clock six times for it
TRAIN_READING_S = 6 * 256e-9
TRAIN_JITTER_S = 20e-6  # of the replies to a train, on a machine in real time
FQ_FAST_PATH_PACKETS = 8  # not counted by its limit (net/sched/sch_fq.c, fq_fastpath_check())


def loss(configured: Loss | None, lost: int, offered: int) -> Problems:
    """Tests whether the number of packets that netem lost fits the configured loss (a binomial
    test), and yields a problem if it does not.

    lost, offered: how many packets netem lost, and how many it received
    """
    if offered == 0:
        yield "loss", "no packet passed netem"
    elif loss_p_value(configured, lost, offered) < LOSS_P_VALUE:
        yield (
            "loss",
            f"netem lost {lost} of {offered} packets ({format_percent(lost / offered)}), "
            f"configured: {format_percent(configured.mean if configured else 0.0)}",
        )


def loss_p_value(configured: Loss | None, lost: int, offered: int) -> float:
    """Returns the two-sided p-value of a binomial test: a small value says that a path with the
    configured loss would hardly lose as few or as many as `lost` of `offered` packets.

    Losses of the gemodel come in bursts. So its packets count as a smaller number of independent
    packets with the same mean loss.
    """
    if configured is None:
        return float(lost == 0)
    packets_per_trial = _packets_per_trial(configured)
    trials, lost_trials = max(1, round(offered / packets_per_trial)), lost / packets_per_trial
    p_fewer = binomial_cdf(min(trials, math.ceil(lost_trials)), trials, configured.mean)
    p_more = binomial_tail(min(trials, math.floor(lost_trials)), trials, configured.mean)
    return min(1.0, 2 * min(p_fewer, p_more))


def too_few_losses(configured: Loss, offered: int) -> str | None:
    """Returns a sentence if `offered` packets are too few to verify the configured loss; None if
    they are enough.

    They are enough if a path with only a fifth of that loss would fail the test in 95% of such
    runs.
    """
    packets_per_trial = _packets_per_trial(configured)
    trials = max(1, round(offered / packets_per_trial))
    wrong_loss = WRONG_SHARE * configured.mean
    usually_lost = bisect.bisect_left(
        range(trials), POWER, key=lambda losses: binomial_cdf(losses, trials, wrong_loss)
    )
    lost = math.floor(usually_lost * packets_per_trial)
    if loss_p_value(configured, lost, offered) < LOSS_P_VALUE:
        return None
    return f"loss not verifiable in this run: {configured.mean * offered:.3g} losses expected"


def _packets_per_trial(configured: Loss) -> float:
    """Returns how many packets count as one independent trial of the binomial test: 1 for random
    loss, more if losses come in bursts.
    """
    return 1.0 if configured.model == "random" else BURSTS * _variance_ratio(configured)


def _variance_ratio(configured: Loss) -> float:
    """Returns (variance of the number of losses) / (variance if losses were independent), at least
    1. Losses in bursts make the number of losses vary more.

    The gemodel is a chain of two states, whose autocorrelation falls by the factor 1 - p - r with
    each packet (Gilbert 1960; Elliott 1963).
    """
    to_bad, to_good, loss_in_bad, loss_in_good = gemodel_parameters(configured.parameters)
    share_bad = to_bad / (to_bad + to_good)
    autocorrelation, mean = 1 - to_bad - to_good, configured.mean
    variance_of_states = share_bad * (1 - share_bad) * (loss_in_bad - loss_in_good) ** 2
    if mean in (0.0, 1.0) or autocorrelation >= 1:
        return 1.0
    return max(
        1.0,
        1 + 2 * variance_of_states * autocorrelation / (1 - autocorrelation) / (mean * (1 - mean)),
    )


def rtt(observed: Observed) -> Problems:
    """Checks the base RTT of each sender, by pings before the traffic and by the RTTs of its
    sockets.
    """
    for sender in observed.topology.senders:
        yield from _rtt_of_sender(observed, sender)


def _rtt_of_sender(observed: Observed, sender: Sender) -> Problems:
    """Checks two RTTs of a sender against the configured base RTT: the smallest of its pings before
    the traffic, and the smallest of its sockets. Jitter and a tolerance are allowed. UDP has no
    sockets with RTTs.

    If the sender's flows began after other flows, they met a filled queue. Then only an RTT of the
    sockets that is too small is a problem.
    """
    topology, tables = observed.topology, observed.tables
    host = f"{sender.name}: " if len(topology.senders) > 1 else ""
    configured_s = sender.base_rtt_s
    tolerance_s = max(RTT_LEAST_S, RTT_FRACTION * configured_s)
    shortened_s = 2 * sender.jitter_s + (sender.delay_s if sender.reorder else 0.0)
    ping_s = min(observed.measurement.ping_rtt_s[sender.name], default=math.inf)
    if not -tolerance_s - shortened_s <= ping_s - configured_s <= tolerance_s + 2 * sender.jitter_s:
        yield (
            "rtt",
            f"{host}ping sees {format_time(ping_s)}, configured: {format_time(configured_s)}",
        )
    samples = tables.sockets.filter(pl.col("host") == sender.name)
    if samples.is_empty():
        return
    socket_s = samples["min_rtt_s"].min()
    begins = tables.flows.select("host", pl.col("begin_s").fill_null(0.0)).rows()
    first_s = min((begin_s for _, begin_s in begins), default=0.0)
    meets_empty_queue = any(
        host == sender.name and begin_s <= first_s + sender.base_rtt_s for host, begin_s in begins
    )
    least_s, most_s = base_rtts_s(topology, sender)
    queueing_s = SOCKET_RTT_PACKETS * topology.packet_bytes * 8 / _least_rate_bps(topology, sender)
    assert isinstance(socket_s, float | None)
    if socket_s is not None and not meets_empty_queue:
        socket_s = min(socket_s, most_s)  # its flows met queues of earlier flows, so pings decide
    if socket_s is not None and round(socket_s * 1e6) % TIMESTAMP_US == 0:
        shortened_s += TIMESTAMP_US / 1e6
    if (
        socket_s is None
        or not least_s - tolerance_s - shortened_s <= socket_s <= most_s + tolerance_s + queueing_s
    ):
        seen = "no minimum RTT" if socket_s is None else format_time(socket_s)
        yield "rtt", f"{host}the sockets see {seen}, configured: {format_time(configured_s)}"


def base_rtts_s(topology: Topology, sender: Sender) -> tuple[float, float]:
    """Returns the smallest and the largest base RTT of a sender during a run, in seconds, because
    the run may change the delay. The largest includes jitter.
    """
    rtts_s = [phase.base_rtt_s for phase in own_phases(topology, sender)]
    return min(rtts_s), max(rtts_s) + 2 * sender.jitter_s


def _least_rate_bps(topology: Topology, sender: Sender) -> float:
    """Returns the lowest rate on a sender's way: of the bottleneck in any phase, or of its own
    device.
    """
    rates_bps = [phase.rate_bps for _, phase in topology.phases]
    return min([*rates_bps, *([sender.rate_bps] if sender.rate_bps else [])])


def loses(run: Run) -> bool:
    """Returns whether any sender's netem loses packets at any time of the run."""
    return any(sender.loss for _, phase in run.topology.phases for sender in phase.senders)


def rate(observed: Observed) -> Problems:
    """Checks the bottleneck's rate by a train of packets that was sent before the traffic: by the
    time between the first and the last of those replies that the bottleneck delayed.

    Replies are as large as the requests. So if the path of ACKs is slower than the bottleneck, the
    train shows the rate of that path, and is compared with it.
    """
    topology = observed.topology
    configured_bps = topology.least_rate_bps
    packet_s = topology.packet_bytes * 8 / configured_bps
    bucket_packets: float = BUCKET_PACKETS
    if configured_bps == topology.rate_bps:  # otherwise the train shows the path of ACKs
        bucket_packets = topology.bottleneck_bucket_bytes / topology.packet_bytes
    arrivals_s = _delayed_replies(observed.measurement.train_s, bucket_packets, packet_s)
    # then a train shows this rate instead
    paced = topology.queue.kind == "fq" and topology.queue.parameter("maxrate")
    if len(arrivals_s) > 1 and not paced:
        took_s, expected_s = arrivals_s[-1] - arrivals_s[0], (len(arrivals_s) - 1) * packet_s
        slowest_s = (len(arrivals_s) - 1) * max(packet_s, TRAIN_READING_S)
        tolerance_s = RATE_FRACTION * slowest_s + TRAIN_JITTER_S
        if not expected_s - tolerance_s <= took_s <= slowest_s + tolerance_s:
            passed_bps = configured_bps * expected_s / took_s if took_s else math.inf
            yield (
                "rate",
                f"a train passed at {format_rate(passed_bps)}, configured: "
                f"{format_rate(configured_bps)}",
            )


def _delayed_replies(
    train_s: Sequence[float], bucket_packets: float, packet_s: float
) -> Sequence[float]:
    """Returns the arrival times of those replies to a train of packets that the bottleneck delayed;
    () if it delayed none. The replies to the first packets are left out, because packets pass at
    once until the bottleneck's token bucket is empty.

    train_s: the arrival times of all replies
    bucket_packets: how many packets the token bucket lets pass at once
    packet_s: the time of one packet at the bottleneck's rate
    """
    for number, arrived_s in enumerate(train_s):
        if number + PACKETS_ON_CREDIT >= bucket_packets + (arrived_s - train_s[0]) / packet_s:
            return train_s[max(number, int(bucket_packets) + PACKETS_ON_CREDIT) :]
    return ()


def losses(observed: Observed) -> Problems:
    """Tests the losses of the netem of each sender that has traffic, separately for each time
    between two changes of the path, and checks that netem lost no ACKs. With offloads, netem counts
    joined packets, so verdict.unseen() reports losses instead.
    """
    topology, measurement = observed.topology, observed.measurement
    if topology.offloads and loses(observed.run):
        return
    sending_hosts = {source.host for source in observed.run.traffic.sources}
    for sender in topology.senders:
        if sender.name in sending_hosts:
            for configured, lost, offered in lost_in_spans(topology, sender, measurement):
                yield from loss(configured, lost, offered)
            yield from lost_on_return(measurement, topology.device_name("ack-delay", sender))


def lost_in_spans(
    topology: Topology, sender: Sender, measurement: Measurement
) -> Iterator[tuple[Loss | None, int, int]]:
    """Yields three values for each time between two changes of a sender's netem: the configured
    loss (None: no loss), how many packets netem lost, and how many it received.
    """
    device = topology.device_name("data-delay", sender)
    counters = [root_qdisc(measurement.before.qdiscs[device])]
    counters += [
        root_qdisc(change.qdiscs[device])
        for change in measurement.changes
        if device in change.qdiscs
    ]
    counters.append(root_qdisc(measurement.after.qdiscs[device]))
    configured = [settings for settings, _ in itertools.groupby(own_phases(topology, sender))]
    for settings, (first, last) in zip(configured, itertools.pairwise(counters), strict=False):
        lost = last.drops - first.drops
        yield settings.loss, lost, last.packets - first.packets + lost


def own_phases(topology: Topology, sender: Sender) -> list[Sender]:
    """Returns the sender's settings in each phase of the path, a phase being the time between two
    changes.
    """
    return [
        next(other for other in phase.senders if other.name == sender.name)
        for _, phase in topology.phases
    ]


def lost_on_return(measurement: Measurement, device: str) -> Problems:
    """Yields a problem if netem dropped ACKs. No loss is configured for ACKs, so a drop means that
    netem's queue was full. `device` is the purpose of the device, such as 'ack-delay h2'.
    """
    if device in measurement.after.qdiscs and (dropped := grown_by(measurement, device, "drops")):
        yield (
            "netem-limit",
            f"netem dropped {dropped} packets on the way back, although no loss is configured",
        )


def backlog(observed: Observed) -> Problems:
    """Checks that the bottleneck's queue never held more bytes than the configured buffer and one
    packet. fq may also hold the packets of its fast path, which its limit does not count.
    """
    topology, buffer_bytes = observed.topology, observed.topology.buffer_bytes
    extra_packets = 1 + (FQ_FAST_PATH_PACKETS if topology.queue.kind == "fq" else 0)
    most_bytes = observed.tables.bottleneck["backlog_bytes"].max()
    assert isinstance(most_bytes, int | None)
    if most_bytes and most_bytes > buffer_bytes + extra_packets * topology.packet_bytes:
        yield (
            "buffer",
            f"{format_bytes(most_bytes)} were queued, configured: {format_bytes(buffer_bytes)}",
        )
