"""Counts what left a sender's device if the sender's own queue dropped packets.

TCP counts a segment as sent, or sent again, before it gives it to the queue; one that the queue refuses it tries again,
and counts again (__tcp_transmit_skb() and __tcp_retransmit_skb() in net/ipv4/tcp_output.c).
"""

import polars as pl

from ccmix.analysis.counters import growth
from ccmix.analysis.tables import RunTables
from ccmix.model import Run, Topology

_COUNTERS = ("packets", "bytes", "drops")


def left_device(run: Run, tables: RunTables, begin_s: float, end_s: float) -> dict[str, tuple[float, float]]:
    """Returns the packets and bytes that left the device of each host whose own queue dropped some in that time."""
    hosts = [sender.name for sender in run.path.senders] if isinstance(run.path, Topology) else ["src"]
    left = {}
    for host in hosts:
        samples = tables.queue(f"sender-queue {host}" if len(hosts) > 1 else "sender-queue")
        if samples.height > 1:
            grown = growth(samples, begin_s, end_s, _COUNTERS)
            if grown["drops"] >= 1:
                left[host] = grown["packets"], grown["bytes"]
    return left


def without_refused(flows: pl.DataFrame, left: dict[str, tuple[float, float]]) -> pl.DataFrame:
    """Returns flows with data_segments, retransmitted_segments and throughput_bps of what left the device.

    flows: with sent and acked, the bytes that went to the queue and that the receiver acknowledged. First transmissions
    are what is acknowledged, and the others that left were retransmissions; each flow of a host has its part of these.
    """
    packets = pl.col("host").replace_strict({host: each[0] for host, each in left.items()}, default=None)
    first = pl.col("acked") * pl.col("data_segments") / pl.col("sent")
    again = (packets - first.sum().over("host")).clip(0.0)
    share = pl.col("retransmitted_segments") / pl.col("retransmitted_segments").sum().over("host")
    own = pl.min_horizontal("retransmitted_segments", (again * share.fill_nan(0.0)).round())
    refused = packets.is_not_null() & pl.col("acked").is_not_null()
    return flows.with_columns(
        data_segments=pl.when(refused).then(first.round() + own).otherwise("data_segments"),
        retransmitted_segments=pl.when(refused).then(own).otherwise("retransmitted_segments"),
        throughput_bps=pl.when(refused & (pl.col("active_s") > 0))
        .then(pl.col("acked") * 8 / pl.col("active_s"))
        .otherwise("throughput_bps"),
    )
