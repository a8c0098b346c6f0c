"""Judges whether a run is physically possible: conservation laws, and bounds of its metrics.

Each packet that is sent arrives, is dropped where drops are counted, or waits in a configured
queue. A hidden flow, a policer, duplicates and losses leave a difference, and so does a change that
is undone before the end.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from ccmix.analysis.measured import JITTER_S
from ccmix.analysis.tables import PARENTS_OF_CLSACT
from ccmix.analysis.validity.applied import Observed, Problems
from ccmix.analysis.validity.path import TIMESTAMP_US, base_rtts_s
from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK
from ccmix.model import CommandSource, PathSource, Topology, UdpSource
from ccmix.model.emulated import BUCKET_PACKETS, SUPER_PACKET_BYTES
from ccmix.model.results import Metrics
from ccmix.probes import sockmon
from ccmix.units import MOST_RATE_BPS, format_rate

# in which tbf and htb count the time that a packet takes (net/sched/sch_generic.c)
CLOCK_STEP_S = 1e-9
CHANGING_S = 0.1  # by which tc may be late with a change, on a busy machine
SELDOM = 0.002  # largest packets while counters are read: two successive samples hardly meet one
# of virtual time, in which a sample's counters are read: some readings of the clock
READING_S = 5e-6
SENT = (
    "passed_sender.Tcp.OutSegs passed_sender.Tcp.RetransSegs passed_sender.Udp.OutDatagrams "
    "passed_sender.Icmp.OutMsgs"
)
# Each part of the path: counts of segments that enter it, of segments that leave it, of packets
# held in it, and of segments that the kernel may count too often or not at all when they enter.
# Tcp.OutSegs leaves out retransmissions, except for SYN/ACKs, which both counters have
# (__tcp_transmit_skb() and tcp_make_synack() in net/ipv4/tcp_output.c). TCP may have counted
# segments that IP discards, such as resets that find no room (ip_send_unicast_reply() in
# net/ipv4/ip_output.c). If the device's queue drops a datagram, UDP counts an error instead
# (udp_send_skb() in net/ipv4/udp.c).
WAYS = {
    "on the senders": (
        SENT,
        "passed_sender-queue passed_control-data",
        "held_sender-queue held_control-data",
        "passed_sender.TcpExt.TCPSynRetrans passed_sender.Ip.OutDiscards "
        "passed_sender.Udp.SndbufErrors",
    ),
    "from the senders to the bottleneck's queue": (
        "passed_sender-queue",
        "passed_bottleneck",
        "held_data-delay held_bottleneck",
        "",
    ),
    "from the bottleneck's queue to the receivers": (
        "passed_bottleneck passed_control-data",
        "passed_receiver.IpExt.InNoECTPkts passed_receiver.IpExt.InECT0Pkts "
        "passed_receiver.IpExt.InECT1Pkts "
        "passed_receiver.IpExt.InCEPkts",
        "",
        "",
    ),
    "from the receivers to the senders": (
        "passed_receiver.Tcp.OutSegs passed_receiver.Tcp.RetransSegs "
        "passed_receiver.Udp.OutDatagrams "
        "passed_receiver.Icmp.OutMsgs",
        "passed_sender.IpExt.InNoECTPkts passed_sender.IpExt.InECT0Pkts "
        "passed_sender.IpExt.InECT1Pkts "
        "passed_sender.IpExt.InCEPkts",
        "held_ack-bottleneck held_ack-delay held_control-ack",
        "passed_receiver.TcpExt.TCPSynRetrans passed_receiver.Ip.OutDiscards "
        "passed_receiver.Udp.SndbufErrors",
    ),
}
SHARES = (
    "share",
    "_rate",
    "fairness",
    "fairness_of_groups",
    "netem_loss",
    "unanswered",
    "window_limited",
)
HEADERS_BYTES = {"UDP": 28, "TCP": 52}  # with IP's header, and with TCP's timestamps
# the kernel's RTTs are whole microseconds; shares are sums of floats
ROUNDED_S, ROUNDED = 1e-6, 1e-9
Values = Mapping[str, Any]


def conserved_packets(observed: Observed) -> Problems:
    """Checks that no packet was lost or added without being counted: for each part of the path
    (WAYS), as many segments entered it as left it, were dropped in it, or are still queued in it.
    This finds hidden flows, policers, duplicates and uncounted losses.

    Counters are read one after the other, so packets that pass in between cause small differences.
    A difference is a problem only if two successive samples have it, or if it is left after the
    traffic. In real time (outside the lab), reading takes longer, so only the last sample is
    judged. On a sender, and everywhere with offloads, a packet may contain many segments.

    Also checks that nothing was sent that belongs to no configured source. This check is left out
    if the run has sources that may send anything: commands, the steps that measure a path, or RTT
    probes by TCP.
    """
    topology, traffic, counts = observed.topology, observed.run.traffic, _counts(observed)
    if not counts or any(
        sender.queue.kind == "noqueue" for sender in topology.senders
    ):  # noqueue counts nothing
        return
    segments_per_packet = SUPER_PACKET_BYTES // topology.packet_bytes
    passed_while_reading = READING_S * topology.rate_bps / (8 * topology.packet_bytes)
    is_fast = passed_while_reading / segments_per_packet > SELDOM

    def total(names: str) -> Any:
        """Returns the sum of several counters at each sample, as an array; `names` are separated by
        spaces.
        """
        return sum(counts[name] for name in names.split())

    for part, (names_in, names_out, names_held, names_unsure) in WAYS.items():
        not_yet_out = total(names_in) - total(names_out) - total(names_held)
        may_be_joined = topology.offloads or names_in == SENT
        tolerance = passed_while_reading + (
            segments_per_packet if topology.offloads or (may_be_joined and is_fast) else 1
        )
        joined_segments = (
            (segments_per_packet - 1) * np.maximum(total(names_held), 0) if may_be_joined else 0
        )
        for word, packets in (("more", -not_yet_out), ("fewer", not_yet_out - joined_segments)):
            excess = packets - tolerance - total(names_unsure)
            if excess[-1] > segments_per_packet or (np.minimum(excess[1:], excess[:-1]) > 0).any():
                yield (
                    "conservation",
                    f"{packets.max()} packets {word} than expected came {part}",
                )
    iperf3_datagrams = sum(test.datagrams for test in observed.tables.tests.values())
    datagrams = (
        total("passed_sender.Udp.OutDatagrams passed_receiver.Udp.OutDatagrams")[-1]
        - iperf3_datagrams
    )
    sends_anything = traffic.steps or CommandSource in map(type, traffic.sources)
    segments = 0 if traffic.rtt_probe and traffic.rtt_probe.tcp_port else observed.tables.strangers
    if not sends_anything and (segments or datagrams > 0):
        yield (
            "traffic",
            f"{segments} segments and {max(datagrams, 0)} datagrams were sent for no source",
        )


def _counts(observed: Observed) -> Mapping[str, Any]:
    """Returns arrays of equal length, by the name of a counter: how much the counter had grown at
    each sample. An unknown name has 0. Returns an empty mapping if the hosts' counters were not
    sampled.

    Names are 'passed_END.COUNTER' for the counters of sender and receiver
    ('passed_sender.Tcp.OutSegs'), and 'passed_PLACE' and 'held_PLACE' for queues
    ('held_bottleneck'). Packets have passed a queue if they left it; they are held if they were
    dropped there or still wait. The values of several senders are added up.
    """
    series, policer = observed.tables.series, observed.topology.policer
    if series.counters.is_empty():
        return {}
    end = pl.col("netns").replace_strict(observed.measurement.series.sockets, default=None)
    end_counters = series.counters.select(
        "time_s", place=pl.concat_str(end, "name", separator="."), passed="value"
    )
    queue_counters = series.queues.filter(
        pl.col("parent").is_in(["root", *(PARENTS_OF_CLSACT if policer else ())])
    ).select(
        "time_s",
        place=pl.col("place").str.extract(r"(\S+)"),
        passed=pl.when(pl.col("parent") == "root").then("packets"),
        held=pl.col("drops") + pl.col("backlog_packets"),
    )
    rows = (
        pl.concat([end_counters, queue_counters], how="diagonal_relaxed")
        .group_by("time_s", "place")
        .agg(pl.all().sum())
    )
    wide = rows.pivot("place", index="time_s").sort("time_s").drop("time_s")
    latest = pl.all().forward_fill().fill_null(0).cast(pl.Int64)
    at_samples = (
        wide.select(latest, read=pl.col("passed_sender.Tcp.OutSegs").is_not_null())
        .filter("read")
        .drop("read")
    )
    increases = at_samples.select(pl.all() - pl.all().first())
    judged = increases if observed.measurement.facts.lab_kernel else increases.tail(1)
    return defaultdict(int, {column.name: column.to_numpy() for column in judged})


def conserved_rate(observed: Observed) -> Problems:
    """Checks that each bottleneck never passed more bytes between two samples than its rate and its
    token bucket allow, and never fewer than its rate while packets waited all the time.

    Whether packets waited all the time is judged by counting. The kernel tries to pass packets when
    one arrives, and when its timer says that the next one may go. Each attempt ends with a packet
    that has to wait, which it counts (overlimits), or with an empty queue (tbf_dequeue() in
    net/sched/sch_tbf.c, htb_dequeue() in net/sched/sch_htb.c). So if as many packets had to wait as
    came and passed, the queue was never empty. This does not work for htb, which counts
    differently, or for joined packets, which count as one. For these, ccmix-sockmon watches the
    backlog: it must always have held twice as much as can pass until ccmix-sockmon looks again.
    """
    topology, forever_s = observed.topology, math.inf
    ends_s = [*(begin_s for begin_s, _ in topology.phases[1:]), forever_s]
    rates = [
        (begin_s, end_s + CHANGING_S, phase.rate_bps)
        for (begin_s, phase), end_s in zip(topology.phases, ends_s, strict=True)
    ]
    bucket_bytes = max(phase.bottleneck_bucket_bytes for _, phase in topology.phases)
    yield from _check_passed_bytes(observed, BOTTLENECK, rates, bucket_bytes)
    if acks := topology.ack_bottleneck:
        rates = [(0.0, forever_s, acks.rate_bps)]
        bucket_bytes = BUCKET_PACKETS * topology.packet_bytes
        yield from _check_passed_bytes(observed, ACK_BOTTLENECK, rates, bucket_bytes)


def _check_passed_bytes(
    observed: Observed, place: str, rates: Sequence[tuple[float, float, float]], bucket_bytes: int
) -> Problems:
    """Yields a problem if the root qdisc at a place passed too many or too few bytes between two of
    its samples (see conserved_rate()).

    `rates` are tuples (begin, end, bits/s), with times in seconds after the traffic began. They
    overlap for a moment at a change, when both rates are allowed.
    """
    topology = observed.topology
    time_s, queued = pl.col("time_s"), pl.col("backlog_packets").cast(pl.Int64)
    increases = {
        name: pl.col(name).cast(pl.Int64).diff()
        for name in ("packets", "bytes", "drops", "overlimits")
    }
    allowed_bps = [
        pl.when(time_s > begin_s, time_s.shift() < end_s).then(rate_bps)
        for begin_s, end_s, rate_bps in rates
    ]
    most_bps = pl.max_horizontal(allowed_bps).alias("most_bps")
    packet_bits = 8 * (SUPER_PACKET_BYTES if topology.offloads else topology.packet_bytes)
    had_to_wait = (
        increases["overlimits"] >= 2 * increases["packets"] + queued.diff() + increases["drops"]
    )
    watched_busy = 8 * pl.col("least_backlog_bytes") * sockmon.WATCH_HZ >= 2 * most_bps
    busy = (watched_busy & (topology.queue.parameter("maxrate") is None)) | (
        had_to_wait & (queued > 0) & (queued.shift() > 0)
    )
    uncertain_s = pl.col("took_s") + pl.col("took_s").shift() + CLOCK_STEP_S * increases["packets"]
    bits = 8 * increases["bytes"]
    too_many = bits > most_bps * (time_s.diff() + uncertain_s) + 8 * bucket_bytes + packet_bits
    too_few = busy & (
        bits < pl.min_horizontal(allowed_bps) * (time_s.diff() - uncertain_s) - packet_bits
    )
    spans = (
        observed.tables.queue(place)
        .sort("time_s")
        .select(bits / time_s.diff(), most_bps, wrong=too_many | too_few)
    )
    for passed_bps, configured_bps, _ in spans.filter("wrong").head(1).rows():
        yield (
            "rate",
            f"{place} passed {format_rate(passed_bps)}, configured: {format_rate(configured_bps)}",
        )


def impossible(observed: Observed, metrics: Metrics) -> Problems:
    """Yields a problem for each metric that can't be right: a negative value, a share above 1, or
    more bits per second than any path can carry,
    and on an emulated path also an RTT below the propagation delay or more goodput than the path
    can carry.
    """
    parts = (metrics, metrics.bottleneck, metrics.policer, metrics.rtt_probe)
    for part in (*filter(None, parts), *metrics.groups, *metrics.flows, *metrics.completions):
        values, maxima, rtt_s = vars(part), {}, 0.0
        if isinstance(observed.run.path, Topology):
            maxima = _largest_possible(observed, values)
            rtt_s = _least_rtt_s(observed.topology, values)
        for name, value in values.items():
            is_probe_rtt = "questions" in values and name.endswith("_s")
            lower = rtt_s if is_probe_rtt or name.startswith("rtt_") else 0.0
            usual = MOST_RATE_BPS if name.endswith("_bps") else math.inf
            upper = 1 + ROUNDED if name.endswith(SHARES) else maxima.get(name, usual)
            if isinstance(value, int | float) and not lower <= value <= upper:
                owner = " ".join(
                    str(values[key]) for key in ("group", "host", "port") if key in values
                )
                subject = f"{type(part).__name__} {owner}".strip()
                yield (
                    "physics",
                    f"{name} of {subject} is {value:.6g}, outside of {lower:.6g} to {upper:.6g}",
                )


def _least_rtt_s(topology: Topology, values: Values) -> float:
    """Returns the smallest possible RTT, in seconds, for some metrics: of the host that they belong
    to, or of all hosts if they belong to the whole run. `values` maps the names of the metrics, and
    of fields such as 'host', to their values.

    Jitter may shorten each delay, and reordered packets skip the delay of data. TCP measures the
    RTT of retransmissions in whole milliseconds, rounded down.
    """
    least_s = (
        base_rtts_s(topology, sender)[0]
        + sender.drawn_delay_s
        - 2 * sender.jitter_s
        - (sender.delay_of_data_s if sender.reorder else 0.0)
        for sender in topology.senders
        if values.get("host") in (None, sender.name)
    )
    rounded_s = TIMESTAMP_US / 1e6 if values.get("retransmission_rate") else ROUNDED_S
    return min(least_s, default=0.0) - rounded_s


def _largest_possible(observed: Observed, values: Values) -> dict[str, float]:
    """Returns the largest possible goodput_bps and utilisation of an emulated path, by name.
    Returns {} for a run with commands, whose data may flow in the other direction.

    In any time, a token bucket passes its rate and its own size. Besides, data that arrived before
    the measured time may count as delivered in it: data that a full buffer held, and data that was
    acknowledged out of order, which TCP delivers only when the gap before it is filled.
    """
    traffic, topology = observed.run.traffic, observed.topology
    sockets = observed.tables.sockets
    kinds = {type(source) for source in traffic.sources}
    if CommandSource in kinds:
        return {}
    payload_bytes = (
        topology.mtu_bytes - HEADERS_BYTES["UDP" if kinds & {UdpSource, PathSource} else "TCP"]
    )
    rates_bps = [phase.rate_bps for _, phase in topology.phases]
    extra_bits = 8.0 * (
        max(phase.bottleneck_bucket_bytes for _, phase in topology.phases) + topology.packet_bytes
    )
    if traffic.omit_s and "sacked" in sockets.columns:
        first_samples = sockets.filter((pl.col("time_s") - traffic.omit_s).abs() < JITTER_S)
        extra_bits += max(rates_bps) * topology.longest_rtt_s + 8 * payload_bytes * float(
            first_samples["sacked"].sum()
        )
    most_bps = max(rates_bps) * payload_bytes / topology.packet_bytes
    seconds = values.get("active_s") or traffic.measured_s
    return {
        "utilisation": 1 + extra_bits / (min(rates_bps) * traffic.measured_s),
        "goodput_bps": most_bps + extra_bits / seconds,
    }
