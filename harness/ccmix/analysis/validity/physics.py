"""Judges whether a run is physically possible: by conservation laws of an emulated path, for any
traffic, and by bounds of its metrics, so that a wrong number does not pass as a result.

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
from ccmix.analysis.validity.applied import Limits, Observed
from ccmix.analysis.validity.path import TIMESTAMP_US, base_rtts_s
from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK
from ccmix.model import CommandSource, PathSource, Topology, UdpSource
from ccmix.model.emulated import BUCKET_PACKETS, SUPER_PACKET_BYTES
from ccmix.model.results import Metrics
from ccmix.probes import sockmon
from ccmix.units import format_rate

CLOCK_STEP_S = (
    1e-9  # in which tbf and htb count the time that a packet takes (net/sched/sch_generic.c)
)
CHANGING_S = 0.1  # by which tc may be late with a change, on a busy machine
SELDOM = 0.002  # largest packets while counters are read: two successive samples hardly meet one
READING_S = (
    5e-6  # of virtual time, in which a sample's counters are read: some readings of the clock
)
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
ROUNDED_S, ROUNDED = (
    1e-6,
    1e-9,
)  # the kernel's RTTs are whole microseconds; shares are sums of floats
Values = Mapping[str, Any]


def conserved_packets(observed: Observed) -> Limits:
    """Compares the segments that entered each part of the path with those that left it, at each
    sample of the ends' counters, and the segments that were sent with those of the sources.

    Counts are in segments, except for drops and backlogs (held packets), which are in packets. On a
    sender, and everywhere with offloads, a packet may contain several segments, up to those of the
    largest packet. Counters are read one after the other, within microseconds of virtual time, in
    which a packet may pass, and as many more as the rate allows. With offloads, it may be one of
    the largest packets; on senders, too, but at low rates two successive samples hardly ever meet
    one. So a difference counts if two successive samples have it, or if that of the last sample
    exceeds the largest packet. In real time, reading takes longer, so only the last sample is
    judged, after the traffic has ended. A command may send anything, and so may the steps that
    measure a path; the probe of RTTs by TCP has its own connections.
    """
    topology, traffic, counts = observed.topology, observed.run.traffic, _counts(observed)
    if not counts or any(
        sender.queue.kind == "noqueue" for sender in topology.senders
    ):  # noqueue counts nothing
        return
    burst = SUPER_PACKET_BYTES // topology.packet_bytes
    in_reading = READING_S * topology.rate_bps / (8 * topology.packet_bytes)
    often = in_reading / burst > SELDOM

    def total(names: str) -> Any:
        return sum(counts[name] for name in names.split())

    for way, (entered, left, held, unsure) in WAYS.items():
        missing = total(entered) - total(left) - total(held)
        are_joined = topology.offloads or entered == SENT
        spare = in_reading + (burst if topology.offloads or (are_joined and often) else 1)
        joined = (burst - 1) * np.maximum(total(held), 0) if are_joined else 0
        for what, packets in (("more", -missing), ("fewer", missing - joined)):
            beyond = packets - spare - total(unsure)
            if beyond[-1] > burst or (np.minimum(beyond[1:], beyond[:-1]) > 0).any():
                yield (
                    "conservation",
                    f"{packets.max()} packets {what} than expected came {way}",
                )
    known = sum(test.datagrams for test in observed.tables.tests.values())
    datagrams = total("passed_sender.Udp.OutDatagrams passed_receiver.Udp.OutDatagrams")[-1] - known
    free = traffic.steps or CommandSource in map(type, traffic.sources)
    segments = 0 if traffic.rtt_probe and traffic.rtt_probe.tcp_port else observed.tables.strangers
    if not free and (segments or datagrams > 0):
        yield (
            "traffic",
            f"{segments} segments and {max(datagrams, 0)} datagrams were sent for no source",
        )


def _counts(observed: Observed) -> Mapping[str, Any]:
    """Returns the growth of counters until each sample of the ends' counters; 0 for a missing key.

    Keys are passed_END.COUNTER, where END is sender or receiver, and passed_PLACE and held_PLACE of
    root qdiscs, without the names of senders. "Passed" counts the packets that left; "held", those
    that were dropped, also by a policer at that place, or wait.
    """
    series, policer = observed.tables.series, observed.topology.policer
    if series.counters.is_empty():
        return {}
    end = pl.col("netns").replace_strict(observed.measurement.series.sockets, default=None)
    of_ends = series.counters.select(
        "time_s", place=pl.concat_str(end, "name", separator="."), passed="value"
    )
    of_queues = series.queues.filter(
        pl.col("parent").is_in(["root", *(PARENTS_OF_CLSACT if policer else ())])
    ).select(
        "time_s",
        place=pl.col("place").str.extract(r"(\S+)"),
        passed=pl.when(pl.col("parent") == "root").then("packets"),
        held=pl.col("drops") + pl.col("backlog_packets"),
    )
    rows = (
        pl.concat([of_ends, of_queues], how="diagonal_relaxed")
        .group_by("time_s", "place")
        .agg(pl.all().sum())
    )
    wide = rows.pivot("place", index="time_s").sort("time_s").drop("time_s")
    latest = pl.all().forward_fill().fill_null(0).cast(pl.Int64)
    read = (
        wide.select(latest, read=pl.col("passed_sender.Tcp.OutSegs").is_not_null())
        .filter("read")
        .drop("read")
    )
    grown = read.select(pl.all() - pl.all().first())
    judged = grown if observed.measurement.facts.lab_kernel else grown.tail(1)
    return defaultdict(int, {column.name: column.to_numpy() for column in judged})


def conserved_rate(observed: Observed) -> Limits:
    """Compares the bytes that pass a device with a rate, between two samples, with its rate at that
    time.

    They never exceed the rate and the bucket. If packets waited all the time, they are also no less
    than the rate, except for the packet that still waits for tokens. The kernel tries to pass
    packets when one arrives, and when its timer says that the next one may go. Each such attempt
    ends with a packet that has to wait, which it counts (overlimits), or with an empty queue
    (tbf_dequeue() in net/sched/sch_tbf.c, htb_dequeue() in net/sched/sch_htb.c). So the queue was
    never empty if as many packets had to wait as came and passed. htb counts differently, and
    joined packets count as one; for these, sockmon watches the backlog, which must always have held
    twice as much as can pass before sockmon looks again.
    """
    topology, forever_s = observed.topology, float("inf")
    untils_s = [*(at_s for at_s, _ in topology.phases[1:]), forever_s]
    rates = [
        (at_s, until_s + CHANGING_S, phase.rate_bps)
        for (at_s, phase), until_s in zip(topology.phases, untils_s, strict=True)
    ]
    bucket_bytes = max(phase.bottleneck_bucket_bytes for _, phase in topology.phases)
    yield from _passed(observed, BOTTLENECK, rates, bucket_bytes)
    if acks := topology.ack_bottleneck:
        rates, bucket_bytes = (
            [(0.0, forever_s, acks.rate_bps)],
            BUCKET_PACKETS * topology.packet_bytes,
        )
        yield from _passed(observed, ACK_BOTTLENECK, rates, bucket_bytes)


def _passed(
    observed: Observed, place: str, rates: Sequence[tuple[float, float, float]], bucket_bytes: int
) -> Limits:
    """Judges the root qdisc of a place. `rates` are tuples of begin, end, and rate in bits per
    second.
    """
    topology = observed.topology
    time_s, queued = pl.col("time_s"), pl.col("backlog_packets").cast(pl.Int64)
    more = {
        name: pl.col(name).cast(pl.Int64).diff()
        for name in ("packets", "bytes", "drops", "overlimits")
    }
    held_bps = [
        pl.when(time_s > begin_s, time_s.shift() < until_s).then(rate_bps)
        for begin_s, until_s, rate_bps in rates
    ]
    most_bps = pl.max_horizontal(held_bps).alias("most_bps")
    head_bits = 8 * (SUPER_PACKET_BYTES if topology.offloads else topology.packet_bytes)
    had_to_wait = more["overlimits"] >= 2 * more["packets"] + queued.diff() + more["drops"]
    watched = 8 * pl.col("least_backlog_bytes") * sockmon.WATCH_HZ >= 2 * most_bps
    busy = (watched & (topology.queue.parameter("maxrate") is None)) | (
        had_to_wait & (queued > 0) & (queued.shift() > 0)
    )
    unsure_s = pl.col("took_s") + pl.col("took_s").shift() + CLOCK_STEP_S * more["packets"]
    bits = 8 * more["bytes"]
    too_many = bits > most_bps * (time_s.diff() + unsure_s) + 8 * bucket_bytes + head_bits
    too_few = busy & (bits < pl.min_horizontal(held_bps) * (time_s.diff() - unsure_s) - head_bits)
    spans = (
        observed.tables.queue(place)
        .sort("time_s")
        .select(bits / time_s.diff(), most_bps, wrong=too_many | too_few)
    )
    for passed_bps, configured_bps, _ in spans.filter("wrong").head(1).rows():
        yield (
            "rate",
            f"{place} passed {format_rate(passed_bps)}, configured are "
            f"{format_rate(configured_bps)}",
        )


def impossible(observed: Observed, metrics: Metrics) -> Limits:
    """Reports negative metrics, shares and loss rates above 1, and on an emulated path RTTs below
    the propagation delay and more goodput than the path can carry.
    """
    parts = (metrics, metrics.bottleneck, metrics.policer, metrics.rtt_probe)
    for part in (*filter(None, parts), *metrics.groups, *metrics.flows, *metrics.completions):
        values, carried, rtt_s = vars(part), {}, 0.0
        if isinstance(observed.run.path, Topology):
            carried, rtt_s = _carried(observed, values), _least_rtt_s(observed.topology, values)
        for name, value in values.items():
            of_answers = "questions" in values and name.endswith("_s")
            least = rtt_s if of_answers or name.startswith("rtt_") else 0.0
            most = 1 + ROUNDED if name.endswith(SHARES) else carried.get(name, math.inf)
            if isinstance(value, int | float) and not least <= value <= most:
                whose = " ".join(
                    str(values[key]) for key in ("group", "host", "port") if key in values
                )
                of_what = f"{type(part).__name__} {whose}".strip()
                yield (
                    "physics",
                    f"{name} of {of_what} is {value:.6g}, outside of {least:.6g} to {most:.6g}",
                )


def _least_rtt_s(topology: Topology, values: Values) -> float:
    """Returns the smallest possible RTT of packets of the host that the values belong to, or of any
    host.

    Jitter may shorten each delay, and reordering may skip the delay of data. TCP measures the RTT
    of retransmissions in whole milliseconds, rounded down.
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


def _carried(observed: Observed, values: Values) -> dict[str, float]:
    """Returns the maximum possible goodput, in bits per second, and the maximum possible
    utilisation.

    In any time, a token bucket passes its rate and its own size, and headers do not count as
    goodput. TCP delivers only data without a gap before it. So data that arrived before the
    measured time may count in it, when its gap is filled: the data that was acknowledged out of
    order, and the data that a path with a full buffer held. A command's data may flow in the other
    direction, so commands have no maximum.
    """
    traffic, topology, sockets = (
        observed.run.traffic,
        observed.topology,
        observed.tables.sockets,
    )
    kinds = {type(source) for source in traffic.sources}
    payload_bytes = (
        topology.mtu_bytes - HEADERS_BYTES["UDP" if kinds & {UdpSource, PathSource} else "TCP"]
    )
    rates_bps = [phase.rate_bps for _, phase in topology.phases]
    more_bits = 8.0 * (
        max(phase.bottleneck_bucket_bytes for _, phase in topology.phases) + topology.packet_bytes
    )
    if traffic.omit_s and "sacked" in sockets.columns:
        at_begin = sockets.filter((pl.col("time_s") - traffic.omit_s).abs() < JITTER_S)
        more_bits += max(rates_bps) * topology.longest_rtt_s + 8 * payload_bytes * float(
            at_begin["sacked"].sum()
        )
    most_bps = max(rates_bps) * payload_bytes / topology.packet_bytes
    if CommandSource in kinds:
        return {}
    seconds = values.get("active_s") or traffic.measured_s
    return {
        "utilisation": 1 + more_bits / (min(rates_bps) * traffic.measured_s),
        "goodput_bps": most_bps + more_bits / seconds,
    }
