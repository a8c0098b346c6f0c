"""Judges conservation laws of an emulated path, whatever its traffic: packets, ACKs, and the rate of a busy queue.

What is sent arrives, is dropped where drops are counted, or waits in a queue that is configured. A hidden flow, a
policer, duplicates and losses leave a difference, and so does a change that is undone before the end.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from ccmix.analysis.series import COUNTED
from ccmix.analysis.tables import PARENTS_OF_CLSACT
from ccmix.analysis.validity.comparison import Limits, Observed, first_of_flows
from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK
from ccmix.model import CommandSource
from ccmix.model.emulated import BUCKET_PACKETS, SUPER_PACKET_BYTES
from ccmix.probes import sockmon
from ccmix.units import format_rate

CLOCK_STEP_S = 1e-9  # in which tbf and htb count the time that a packet takes (net/sched/sch_generic.c)
CHANGING_S = 0.1  # by which tc may have made a change late, on a busy machine


class Way(NamedTuple):
    """Names the counts of what enters a part of the path, of what leaves it, and of what is dropped or waits there.

    `end`: whose kernel counts what enters, if one of the ends does. `joins`: packets of many segments wait there, with
    or without offloads.
    """

    place: str
    entered: Sequence[str]
    left: Sequence[str]
    held: Sequence[str] = ()
    end: str = ""
    joins: bool = False


WAYS = (
    Way(
        "on the senders", ["sender sent"], ["passed_sender-queue", "passed_control-data"],
        ["held_sender-queue", "held_control-data"], "sender", joins=True,
    ),
    Way(
        "from the senders to the bottleneck's queue", ["passed_sender-queue"], ["passed_bottleneck"],
        ["held_data-delay", "held_policer", "held_bottleneck"],
    ),
    Way(
        "from the bottleneck's queue to the receivers", ["passed_bottleneck", "passed_control-data"],
        ["receiver came"],
    ),
    Way(
        "from the receivers to the senders", ["receiver sent"], ["sender came"],
        ["held_ack-bottleneck", "held_ack-delay", "held_control-ack"], "receiver",
    ),
)  # fmt: skip


def packets(observed: Observed) -> Limits:
    """Compares what has entered each part of the path with what has left it, at the samples of the ends' counters.

    All counts are of segments, except for drops and backlogs: these count packets. On a sender, and with offloads
    everywhere, a packet may be as many segments as the largest holds. What the kernel may count as sent too often, or
    not at all, is in COUNTED. Counters are read one after the other, in microseconds of virtual time: meanwhile a
    packet may pass, or those that the rate allows, and seldom a sender's burst of as many segments as a packet holds.
    So a difference counts which two samples in a row have, or the last one beyond such a burst. In real time reading
    takes longer, and the last sample alone is judged, when the traffic has ended.
    """
    counts = _counts(observed)
    if counts.is_empty():
        return
    topology, in_lab = observed.run.topology, observed.measurement.facts.lab_kernel is not None
    burst = SUPER_PACKET_BYTES // topology.packet_bytes
    spare = 1 + counts["reading_s"].to_numpy() * topology.rate_bps / (8 * topology.packet_bytes)

    def total(names: Sequence[str]) -> np.ndarray:
        return sum((counts[name].to_numpy() for name in names if name in counts.columns), np.zeros(counts.height))

    for way in WAYS:
        held = total(way.held)
        missing = total(way.entered) - total(way.left) - held
        joined = (burst - 1) * held.clip(0) if topology.offloads or way.joins else 0
        for what, difference in (
            ("appeared", -missing - total([f"{way.end} refused"])),
            ("vanished", missing - joined - total([f"{way.end} unsure"])),
        ):
            lasting = np.minimum(difference[1:], difference[:-1]) > spare[1:]
            at_end = difference[-1] > spare[-1] + burst
            if at_end or (in_lab and lasting.any()):
                waited = what == "vanished" and not (at_end or lasting[-1])
                how = "waited in no configured queue" if waited else what
                yield "conservation", f"{difference.max():.0f} packets {how} {way.place}"


def _counts(observed: Observed) -> pl.DataFrame:
    """Returns what counters grew by until each sample of the ends'; nothing where no probe read them.

    Columns: 'END WORD' with sender or receiver and the words of COUNTED; passed_PLACE and held_PLACE of root qdiscs,
    without the names of senders: packets that were passed, and those that were dropped or wait; held_policer; and
    reading_s, between the reading of both.
    """
    series, topology = observed.tables.series, observed.run.topology
    if series.counters.is_empty():
        return series.counters
    end = pl.col("netns").replace_strict(observed.measurement.series.sockets, default=None)
    word = pl.concat_str(end, pl.col("name").replace_strict(COUNTED), separator=" ")
    ends = series.counters.select("time_s", "value", word=word).pivot(
        "word", index="time_s", values="value", aggregate_function="sum"
    )
    policed = (pl.col("place") == BOTTLENECK) & pl.col("parent").is_in(PARENTS_OF_CLSACT if topology.policer else ())
    queues = (
        series.queues.filter(policed | (pl.col("parent") == "root"))
        .select(
            queued_s="time_s",
            place=pl.when(policed).then(pl.lit("policer")).otherwise(pl.col("place").str.extract(r"(\S+)")),
            passed="packets",
            held=pl.col("drops") + pl.col("backlog_packets"),
        )
        .pivot("place", index="queued_s", aggregate_function="sum")
    )
    both = ends.sort("time_s").join_asof(queues.sort("queued_s"), left_on="time_s", right_on="queued_s", coalesce=False)
    counted = pl.exclude("time_s", "queued_s").fill_null(0).cast(pl.Int64)
    return both.select(counted - counted.first(), reading_s=pl.col("time_s") - pl.col("queued_s"))


def strangers(observed: Observed) -> Limits:
    """Reports what the ends sent that no source did: connections, and the senders' datagrams and pings.

    A command may send what it likes, and so may the steps that measure a path.
    """
    run, tables, counters = observed.run, observed.tables, observed.tables.series.counters
    if run.traffic.steps or any(isinstance(source, CommandSource) for source in run.traffic.sources):
        return
    yield from first_of_flows(
        ("traffic", f"port {port} of {host} and port {peer} of {address} sent {segments} segments for no source")
        for host, port, peer, address, segments in tables.strangers.rows()
    )
    if counters.is_empty():
        return
    senders = [name for name, end in observed.measurement.series.sockets.items() if end == "sender"]
    sent = counters.filter(
        pl.col("netns").is_in(senders), pl.col("name").is_in(["Udp.OutDatagrams", "Icmp.OutMsgs"])
    ).group_by("netns", "name")
    more = sent.agg(pl.col("value").max() - pl.col("value").min())["value"].sum()
    more -= sum(test.datagrams for test in tables.tests.values())
    if probe := run.traffic.rtt_probe:
        more -= probe.rate_hz * (counters["time_s"].max() - counters["time_s"].min()) + 1
    if more > 0:
        yield "traffic", f"the senders sent {more:.0f} datagrams or pings for no source"


def rate(observed: Observed) -> Limits:
    """Compares what passes each device that has a rate, between two samples, with its rate at that time.

    It is never more than the rate and the bucket allow. It is no less than the rate, but for the packet whose tokens
    gather, where packets waited all the time: the kernel tries to pass packets when one comes, and when its timer says
    that the next may go; each such try ends with a packet that has to wait, which it counts (overlimits), or with an
    empty queue (tbf_dequeue() in net/sched/sch_tbf.c, htb_dequeue() in net/sched/sch_htb.c). So the queue was never
    empty if as many packets had to wait as came and passed. htb counts otherwise, and joined packets as one: there
    sockmon watches the backlog, which must always have been as much as can pass before it looks again, twice.
    """
    topology, began_s = observed.run.topology, observed.tables.began_s
    made_s = [0.0, *(change.time_s - began_s for change in observed.measurement.changes)]
    phases = [phase for _, phase in topology.phases]
    rates_bps = [phase.rate_bps for phase in phases]
    devices = [(BOTTLENECK, rates_bps, max(phase.bottleneck_bucket_bytes for phase in phases))]
    if acks := topology.ack_bottleneck:
        devices.append((ACK_BOTTLENECK, [acks.rate_bps], BUCKET_PACKETS * topology.packet_bytes))
    devices += [
        (topology.device_name("sender-queue", sender), [sender.rate_bps], topology.bucket_bytes(sender.rate_bps))
        for sender in topology.senders
        if sender.rate_bps
    ]
    for place, of_place_bps, bucket_bytes in devices:
        rates = list(zip(made_s, of_place_bps, strict=False))
        head_bytes = SUPER_PACKET_BYTES if topology.offloads else topology.packet_bytes
        watched_s = 1 / sockmon.watch_hz(topology)
        yield from _passed(place, observed.tables.queue(place), rates, bucket_bytes, head_bytes, watched_s)


def _passed(
    place: str, samples: pl.DataFrame, rates: Sequence[tuple[float, float]], bucket_bytes: int, head_bytes: int,
    watched_s: float,
) -> Limits:  # fmt: skip
    """Judges a root qdisc by its samples.

    `rates` are moments and the rates, in bits per second, from then on; `head_bytes` the largest packet that may wait
    for tokens; `watched_s` the time between two looks at the backlog.
    """
    time_s, queued = pl.col("time_s"), pl.col("backlog_packets").cast(pl.Int64)
    more = {name: pl.col(name).cast(pl.Int64).diff() for name in ("packets", "bytes", "drops", "overlimits")}
    untils_s = [*(from_s for from_s, _ in rates[1:]), float("inf")]
    held_bps = [
        pl.when(time_s > from_s, time_s.shift() < until_s + CHANGING_S).then(rate_bps)
        for (from_s, rate_bps), until_s in zip(rates, untils_s, strict=True)
    ]
    had_to_wait = more["overlimits"] >= 2 * more["packets"] + queued.diff() + more["drops"]
    unsure_s = pl.col("took_s") + pl.col("took_s").shift() + CLOCK_STEP_S * more["packets"]
    passed_bits, head_bits = 8 * more["bytes"], 8 * head_bytes
    most_bits = pl.max_horizontal(held_bps) * (time_s.diff() + unsure_s) + 8 * bucket_bytes + head_bits
    least_bits = pl.min_horizontal(held_bps) * (time_s.diff() - unsure_s) - head_bits
    watched = 8 * pl.col("least_backlog_bytes") >= 2 * pl.max_horizontal(held_bps) * watched_s
    busy = watched | (had_to_wait & (queued > 0) & (queued.shift() > 0))
    wrong = (passed_bits > most_bits) | (busy & (passed_bits < least_bits))
    spans = samples.sort("time_s").select(
        passed_bps=passed_bits / time_s.diff(), configured_bps=pl.max_horizontal(held_bps), wrong=wrong
    )
    found = spans.filter("wrong")
    if found.height:
        off = (pl.col("passed_bps") / pl.col("configured_bps")).log().abs()
        passed_bps, configured_bps, _ = found.sort(off).row(-1)
        yield (
            "rate",
            f"{place} passed {format_rate(passed_bps)}, configured are {format_rate(configured_bps)}, in {found.height} of "
            f"{spans.height - 1} intervals",
        )
