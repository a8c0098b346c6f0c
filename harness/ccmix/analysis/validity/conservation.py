"""Judges conservation laws of an emulated path, whatever its traffic: packets, ACKs, and the rate of a busy queue.

What is sent arrives, is dropped where drops are counted, or waits in a queue that is configured. A hidden flow, a
policer, duplicates and losses leave a difference, and so does a change that is undone before the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ccmix.analysis.series import COUNTED
from ccmix.analysis.tables import PARENTS_OF_CLSACT
from ccmix.analysis.validity.comparison import Limits, Observed
from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK
from ccmix.model import CommandSource
from ccmix.model.emulated import BUCKET_PACKETS, SUPER_PACKET_BYTES
from ccmix.units import format_rate

CLOCK_STEP_S = 1e-9  # in which tbf and htb count the time that a packet takes (net/sched/sch_generic.c)
CHANGING_S = 0.1  # by which tc may have made a change late, on a busy machine


@dataclass(frozen=True)
class Way:
    """Names the counts of what enters a part of the path, of what leaves it, and of what is dropped or waits there.

    `sender_joins`: there, a packet may be many segments, with or without offloads
    """

    place: str
    entered: tuple[str, ...]
    left: tuple[str, ...]
    held: tuple[str, ...] = ()
    end: str = ""  # whose kernel counts what enters: 'sender' or 'receiver'
    sender_joins: bool = False


WAYS = (
    Way(
        "on the senders", ("sender sent",), ("sender-queue passed", "control-data passed"),
        ("sender-queue held", "control-data held"), "sender", sender_joins=True,
    ),
    Way(
        "from the senders to the bottleneck's queue", ("sender-queue passed",), ("bottleneck passed",),
        ("data-delay held", "policer held", "bottleneck held"),
    ),
    Way(
        "from the bottleneck's queue to the receivers", ("bottleneck passed", "control-data passed"),
        ("receiver came",),
    ),
    Way(
        "from the receivers to the senders", ("receiver sent",), ("sender came",),
        ("ack-bottleneck held", "ack-delay held", "control-ack held"), "receiver",
    ),
)  # fmt: skip


def packets(observed: Observed) -> Limits:
    """Compares what has entered each part of the path with what has left it, at the samples of the ends' counters.

    All counts are of segments, except for drops and backlogs: these count packets. On a sender, and with offloads
    everywhere, a packet may be as many segments as the largest holds. What the kernel may count as sent too often, or
    not at all, is in COUNTED. Counters are read one after the other, in microseconds of virtual time: meanwhile a
    packet may pass, and seldom a sender's burst of as many segments as a packet holds. So a difference counts which two
    samples in a row have, or the last one beyond such a burst. In real time as much may pass as the rate allows, and
    the last sample alone is judged, when the traffic has ended.
    """
    counts = _counts(observed)
    if counts.is_empty():
        return
    topology, in_lab = observed.run.topology, observed.measurement.facts.lab_kernel is not None
    burst = SUPER_PACKET_BYTES // topology.packet_bytes
    spare = 1 + counts["reading_s"].to_numpy() * topology.rate_bps / (8 * topology.packet_bytes)

    def total(*names: str) -> np.ndarray:
        return sum((counts[name].to_numpy() for name in names if name in counts.columns), np.zeros(counts.height))

    for way in WAYS:
        entered, left, held = total(*way.entered), total(*way.left), total(*way.held)
        joined = burst if topology.offloads or way.sender_joins else 1
        for what, difference in (
            ("appeared", left + held - entered - total(f"{way.end} refused")),
            ("vanished", entered - left - joined * held - total(f"{way.end} unsure")),
        ):
            lasting = np.minimum(difference[1:], difference[:-1]) > spare[1:]
            at_end = difference[-1] > spare[-1] + burst
            if at_end or (in_lab and lasting.any()):
                waited = what == "vanished" and not at_end and not lasting[-1]
                how = "waited in no configured queue" if waited else what
                yield "conservation", f"{difference.max():.0f} packets {how} {way.place}"


def _counts(observed: Observed) -> pl.DataFrame:
    """Returns what the counters of the ends and the queues grew by until each sample of the ends.

    Columns: 'END WORD' with 'sender' or 'receiver' and the words of COUNTED; 'PLACE passed' and 'PLACE held' of root
    qdiscs, without the names of senders, held are packets that were dropped or wait; 'policer held'; reading_s, how
    long the reading took. Nothing where no probe read them.
    """
    series, ends = observed.tables.series, observed.measurement.series.sockets
    if series.counters.is_empty():
        return series.counters
    point = pl.concat_str(
        pl.col("netns").replace_strict(ends, default=None), pl.col("name").replace_strict(COUNTED), separator=" "
    )
    of_ends = series.counters.select("time_s", "took_s", point=point, value=pl.col("value").cast(pl.Int64))
    configured = pl.lit(observed.run.topology.policer is not None)
    policed = configured & (pl.col("place") == BOTTLENECK) & pl.col("parent").is_in(PARENTS_OF_CLSACT)
    place = pl.when(policed).then(pl.lit("policer")).otherwise(pl.col("place").str.extract(r"(\S+)"))
    of_queues = (
        series.queues.filter(policed | (pl.col("parent") == "root"))
        .select(
            "time_s",
            place=place,
            passed=pl.col("packets").cast(pl.Int64),
            held=pl.col("drops").cast(pl.Int64) + pl.col("backlog_packets"),
        )
        .unpivot(index=["time_s", "place"])
        .select(
            pl.col("time_s").alias("queued_s"), point=pl.concat_str("place", "variable", separator=" "), value="value"
        )
    )
    times = (
        of_ends.group_by("time_s")
        .agg(pl.col("took_s").max())
        .sort("time_s")
        .join_asof(
            of_queues.select("queued_s").unique().sort("queued_s"),
            left_on="time_s",
            right_on="queued_s",
            coalesce=False,
        )
    )
    at_times = pl.concat(
        [of_ends.drop("took_s"), times.join(of_queues, on="queued_s").select("time_s", "point", "value")]
    )
    wide = at_times.pivot("point", index="time_s", values="value", aggregate_function="sum").sort("time_s")
    grown = wide.select("time_s", pl.exclude("time_s") - pl.exclude("time_s").first())
    return grown.join(times, on="time_s").with_columns(
        reading_s=pl.col("time_s") - pl.col("queued_s") + pl.col("took_s")
    )


def strangers(observed: Observed) -> Limits:
    """Reports what the ends sent that no source did: connections, and the senders' datagrams and pings.

    A command may send what it likes, and so may the steps that measure a path.
    """
    run, tables = observed.run, observed.tables
    if run.traffic.steps or any(isinstance(source, CommandSource) for source in run.traffic.sources):
        return
    if tables.strangers.height:
        host, port, peer, segments = tables.strangers.select("host", "port", "peer_port", "segs_out").row(0)
        others = f", and {tables.strangers.height - 1} more connections" if tables.strangers.height > 1 else ""
        yield "traffic", f"port {port} of {host} sent {segments} segments to port {peer} for no source{others}"
    probe, counters = run.traffic.rtt_probe, tables.series.counters
    if counters.is_empty():
        return
    lasted_s = counters["time_s"].max() - counters["time_s"].min()
    senders = [name for name, end in observed.measurement.series.sockets.items() if end == "sender"]
    of_senders = counters.filter(pl.col("netns").is_in(senders))
    for name, what, known in (
        ("Udp.OutDatagrams", "datagrams", sum(test.datagrams for test in tables.tests.values())),
        ("Icmp.OutMsgs", "pings", probe.rate_hz * lasted_s + 1 if probe and not probe.tcp_port else 0),
    ):
        sent = of_senders.filter(pl.col("name") == name).group_by("netns").agg(pl.col("value").max() - pl.col("value").min())["value"].sum()
        if sent > known:
            yield "traffic", f"the senders sent {sent - known:.0f} {what} for no source"


def rate(observed: Observed) -> Limits:
    """Compares what passes each device that has a rate, between two samples, with its rate at that time.

    It is never more than the rate and the bucket allow. It is no less than the rate, but for the packet whose tokens
    gather, where packets waited all the time: the kernel tries to pass packets when one comes, and when its timer says
    that the next may go; each such try ends with a packet that has to wait, which it counts (overlimits), or with an
    empty queue (tbf_dequeue() in net/sched/sch_tbf.c, htb_dequeue() in net/sched/sch_htb.c). So the queue was never
    empty if as many packets had to wait as came and passed. Joined packets count as one there, and nothing is said.
    """
    topology, tables, measurement = observed.run.topology, observed.tables, observed.measurement
    made_s = [float("-inf"), *(change.time_s - tables.began_s for change in measurement.changes)]
    phases = [phase for _, phase in topology.phases]
    bucket_bytes = max(phase.bottleneck_bucket_bytes for phase in phases)
    yield from _passed(
        tables.bottleneck,
        "the bottleneck",
        list(zip(made_s, (phase.rate_bps for phase in phases), strict=False)),
        bucket_bytes,
        topology.packet_bytes,
    )
    if acks := topology.ack_bottleneck:
        bucket_bytes = BUCKET_PACKETS * topology.packet_bytes
        yield from _passed(
            tables.queue(ACK_BOTTLENECK),
            "the bottleneck of ACKs",
            [(made_s[0], acks.rate_bps)],
            bucket_bytes,
            topology.packet_bytes,
        )
    for sender in topology.senders:
        if sender.rate_bps:
            yield from _passed(
                tables.queue(topology.device_name("sender-queue", sender)), f"{sender.name}'s own device",
                [(made_s[0], sender.rate_bps)], topology.bucket_bytes(sender.rate_bps), topology.packet_bytes,
            )  # fmt: skip


def _passed(
    samples: pl.DataFrame, device: str, rates: Sequence[tuple[float, float]], bucket_bytes: int, packet_bytes: int
) -> Limits:
    """Judges a root qdisc by its samples; `rates` are moments and the rates, in bits per second, from then on."""
    time_s, queued = pl.col("time_s"), pl.col("backlog_packets")
    grown_by = {name: pl.col(name).cast(pl.Int64).diff() for name in ("packets", "bytes", "drops", "overlimits")}
    untils_s = [*(from_s for from_s, _ in rates[1:]), float("inf")]
    held = [
        pl.when(time_s > from_s, time_s.shift() < until_s + CHANGING_S).then(rate_bps)
        for (from_s, rate_bps), until_s in zip(rates, untils_s, strict=True)
    ]
    came = grown_by["packets"] + queued.cast(pl.Int64).diff() + grown_by["drops"]
    spans = (
        samples.sort("time_s")
        .select(
            seconds=time_s.diff(),
            unsure_s=pl.col("took_s") + pl.col("took_s").shift() + CLOCK_STEP_S * grown_by["packets"],
            bits=8 * grown_by["bytes"],
            least_bps=pl.min_horizontal(held),
            most_bps=pl.max_horizontal(held),
            busy=(queued > 0) & (queued.shift() > 0) & (grown_by["overlimits"] >= came + grown_by["packets"]),
        )
        .drop_nulls()
    )
    bits, packet_bits = pl.col("bits"), 8 * packet_bytes
    most_bits = pl.col("most_bps") * (pl.col("seconds") + pl.col("unsure_s")) + 8 * bucket_bytes + packet_bits
    least_bits = pl.col("least_bps") * (pl.col("seconds") - pl.col("unsure_s")) - packet_bits
    for wrong, configured in (
        (bits > most_bits, "most_bps"), (pl.col("busy") & (bits < least_bits), "least_bps"),
    ):  # fmt: skip
        found = spans.filter(wrong).select(configured, passed_bps=bits / pl.col("seconds")).sort("passed_bps")
        if found.height:
            configured_bps, passed_bps = found.row(-1 if configured == "most_bps" else 0)
            yield (
                "rate",
                f"{device} passed {format_rate(passed_bps)}, configured are {format_rate(configured_bps)}, in "
                f"{found.height} of {spans.height} intervals",
            )
