"""Judges conservation laws of an emulated path, whatever its traffic: packets, ACKs, and the rate of a busy queue.

What is sent arrives, is dropped where drops are counted, or waits in a queue that is configured. A hidden flow, a
policer, duplicates and losses leave a difference, and so does a change that is undone before the end.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from ccmix.analysis.tables import PARENTS_OF_CLSACT
from ccmix.analysis.validity.comparison import Limits, Observed
from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK
from ccmix.model import CommandSource
from ccmix.model.emulated import BUCKET_PACKETS, SUPER_PACKET_BYTES
from ccmix.probes import sockmon
from ccmix.units import format_rate

CLOCK_STEP_S = 1e-9  # in which tbf and htb count the time that a packet takes (net/sched/sch_generic.c)
CHANGING_S = 0.1  # by which tc may have made a change late, on a busy machine
READING_S = 5e-6  # of virtual time, in which a sample's counters are read: some readings of the clock
SENT = (
    "passed_sender.Tcp.OutSegs passed_sender.Tcp.RetransSegs passed_sender.Udp.OutDatagrams passed_sender.Icmp.OutMsgs"
)
# Each part of the path: counts of segments that enter it, of those that leave it, of packets held there, and of
# segments that the kernel may count too often or not at all where they enter. Tcp.OutSegs leaves out what is sent
# again, but for SYN/ACKs, which both count (__tcp_transmit_skb() and tcp_make_synack() in net/ipv4/tcp_output.c). What
# IP discards, TCP may have counted, as resets that find no room (ip_send_unicast_reply() in net/ipv4/ip_output.c); of a
# datagram that the device's queue drops, UDP counts an error instead (udp_send_skb() in net/ipv4/udp.c).
WAYS = {
    "on the senders": (
        SENT, "passed_sender-queue passed_control-data", "held_sender-queue held_control-data",
        "passed_sender.TcpExt.TCPSynRetrans passed_sender.Ip.OutDiscards passed_sender.Udp.SndbufErrors",
    ),
    "from the senders to the bottleneck's queue": (
        "passed_sender-queue", "passed_bottleneck", "held_data-delay held_bottleneck", "",
    ),
    "from the bottleneck's queue to the receivers": (
        "passed_bottleneck passed_control-data",
        "passed_receiver.IpExt.InNoECTPkts passed_receiver.IpExt.InECT0Pkts passed_receiver.IpExt.InECT1Pkts "
        "passed_receiver.IpExt.InCEPkts", "", "",
    ),
    "from the receivers to the senders": (
        "passed_receiver.Tcp.OutSegs passed_receiver.Tcp.RetransSegs passed_receiver.Udp.OutDatagrams "
        "passed_receiver.Icmp.OutMsgs",
        "passed_sender.IpExt.InNoECTPkts passed_sender.IpExt.InECT0Pkts passed_sender.IpExt.InECT1Pkts "
        "passed_sender.IpExt.InCEPkts", "held_ack-bottleneck held_ack-delay held_control-ack",
        "passed_receiver.TcpExt.TCPSynRetrans passed_receiver.Ip.OutDiscards passed_receiver.Udp.SndbufErrors",
    ),
}  # fmt: skip


def packets(observed: Observed) -> Limits:
    """Compares what has entered each part of the path with what has left it, at the samples of the ends' counters, and
    what was sent with what the sources sent.

    All counts are of segments, except for drops and backlogs, what is held: these are of packets. On a sender, and with
    offloads everywhere, a packet may be as many segments as the largest holds. Counters are read one after the other,
    in microseconds of virtual time: meanwhile a packet may pass, and those that the rate allows, and seldom a sender's
    burst of as many segments as a packet holds. So a difference counts which two samples in a row have, or the last one
    beyond such a burst. In real time reading takes longer, and the last sample alone is judged, when the traffic has
    ended. A command may send what it likes, and so may the steps that measure a path; the probe of RTTs by TCP has
    connections of its own.
    """
    topology, traffic, counts = observed.run.topology, observed.run.traffic, _counts(observed)
    if not counts or any(sender.queue.kind == "noqueue" for sender in topology.senders):  # which counts nothing
        return
    burst = SUPER_PACKET_BYTES // topology.packet_bytes
    spare = (burst if topology.offloads else 1) + READING_S * topology.rate_bps / (8 * topology.packet_bytes)

    def total(names: str) -> Any:
        return sum(counts[name] for name in names.split())

    for way, (entered, left, held, unsure) in WAYS.items():
        missing = total(entered) - total(left) - total(held)
        joined = (burst - 1) * np.maximum(total(held), 0) if topology.offloads or entered == SENT else 0
        for what, packets in (("more", -missing), ("fewer", missing - joined)):
            beyond = packets - spare - total(unsure)
            if beyond[-1] > burst or (np.minimum(beyond[1:], beyond[:-1]) > 0).any():
                yield "conservation", f"{packets.max()} packets {what} than expected came {way}"
    known = sum(test.datagrams for test in observed.tables.tests.values())
    datagrams = total("passed_sender.Udp.OutDatagrams passed_receiver.Udp.OutDatagrams")[-1] - known
    free = traffic.steps or CommandSource in map(type, traffic.sources)
    segments = 0 if traffic.rtt_probe and traffic.rtt_probe.tcp_port else observed.tables.strangers
    if not free and (segments or datagrams > 0):
        yield "traffic", f"{segments} segments and {max(datagrams, 0)} datagrams were sent for no source"


def _counts(observed: Observed) -> Mapping[str, Any]:
    """Returns what counters grew by until each sample of the ends'; 0 for what is not there.

    Keys: passed_END.COUNTER with sender or receiver; passed_PLACE and held_PLACE of root qdiscs, without the names of
    senders: packets that were passed, and those that were dropped, or wait, or that a policer there dropped.
    """
    series, policer = observed.tables.series, observed.run.topology.policer
    if series.counters.is_empty():
        return {}
    end = pl.col("netns").replace_strict(observed.measurement.series.sockets, default=None)
    of_ends = series.counters.select("time_s", place=pl.concat_str(end, "name", separator="."), passed="value")
    of_queues = series.queues.filter(pl.col("parent").is_in(["root", *(PARENTS_OF_CLSACT if policer else ())])).select(
        "time_s",
        place=pl.col("place").str.extract(r"(\S+)"),
        passed=pl.when(pl.col("parent") == "root").then("packets"),
        held=pl.col("drops") + pl.col("backlog_packets"),
    )
    rows = pl.concat([of_ends, of_queues], how="diagonal_relaxed").group_by("time_s", "place").agg(pl.all().sum())
    wide = rows.pivot("place", index="time_s").sort("time_s").drop("time_s")
    latest = pl.all().forward_fill().fill_null(0).cast(pl.Int64)
    read = wide.select(latest, read=pl.col("passed_sender.Tcp.OutSegs").is_not_null()).filter("read").drop("read")
    grown = read.select(pl.all() - pl.all().first())
    judged = grown if observed.measurement.facts.lab_kernel else grown.tail(1)
    return defaultdict(int, {column.name: column.to_numpy() for column in judged})


def rate(observed: Observed) -> Limits:
    """Compares what passes each device that has a rate, between two samples, with its rate at that time.

    It is never more than the rate and the bucket allow. It is no less than the rate, but for the packet whose tokens
    gather, where packets waited all the time: the kernel tries to pass packets when one comes, and when its timer says
    that the next may go; each such try ends with a packet that has to wait, which it counts (overlimits), or with an
    empty queue (tbf_dequeue() in net/sched/sch_tbf.c, htb_dequeue() in net/sched/sch_htb.c). So the queue was never
    empty if as many packets had to wait as came and passed. htb counts otherwise, and joined packets as one: there
    sockmon watches the backlog, which must always have been as much as can pass before it looks again, twice.
    """
    topology, forever_s = observed.run.topology, float("inf")
    untils_s = [*(at_s for at_s, _ in topology.phases[1:]), forever_s]
    rates = [
        (at_s, until_s + CHANGING_S, phase.rate_bps)
        for (at_s, phase), until_s in zip(topology.phases, untils_s, strict=True)
    ]
    bucket_bytes = max(phase.bottleneck_bucket_bytes for _, phase in topology.phases)
    yield from _passed(observed, BOTTLENECK, rates, bucket_bytes)
    if acks := topology.ack_bottleneck:
        rates, bucket_bytes = [(0.0, forever_s, acks.rate_bps)], BUCKET_PACKETS * topology.packet_bytes
        yield from _passed(observed, ACK_BOTTLENECK, rates, bucket_bytes)


def _passed(observed: Observed, place: str, rates: Sequence[tuple[float, float, float]], bucket_bytes: int) -> Limits:
    """Judges the root qdisc there. `rates`: from when, and until when, and the rate in bits per second."""
    topology = observed.run.topology
    time_s, queued = pl.col("time_s"), pl.col("backlog_packets").cast(pl.Int64)
    more = {name: pl.col(name).cast(pl.Int64).diff() for name in ("packets", "bytes", "drops", "overlimits")}
    held_bps = [
        pl.when(time_s > begin_s, time_s.shift() < until_s).then(rate_bps) for begin_s, until_s, rate_bps in rates
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
    spans = observed.tables.queue(place).sort("time_s").select(bits / time_s.diff(), most_bps, wrong=too_many | too_few)
    for passed_bps, configured_bps, _ in spans.filter("wrong").head(1).rows():
        yield "rate", f"{place} passed {format_rate(passed_bps)}, configured are {format_rate(configured_bps)}"
