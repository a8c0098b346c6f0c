"""Computes what sockets carried within the measured time, from their samples and final counters."""

import polars as pl

from ccmix.analysis.series import PEER

_SOCKET = ["host", "port", *PEER, "cookie"]  # ports come again, a kernel's cookies don't


def carried(sockets: pl.DataFrame, begin_s: float, end_s: float) -> pl.DataFrame:
    """Returns for each socket the bytes sent, and those acknowledged, between two moments of time_s.

    A moment between two samples has its share of what passed between them; before its first one a socket had nothing,
    so that a flow too short for a sample counts at its end. Columns: host, port, PEER, cookie, acked, sent; cca,
    bytes_sent and retransmits as they were last.
    """
    if "cookie" not in sockets.columns:  # as where ss sampled them
        sockets = sockets.with_columns(cookie=pl.lit(None, pl.UInt64))
    return (
        sockets.sort("time_s")
        .group_by(_SOCKET, maintain_order=True)
        .agg(
            acked=_counter_at("bytes_acked", end_s) - _counter_at("bytes_acked", begin_s),
            sent=_counter_at("bytes_sent", end_s) - _counter_at("bytes_sent", begin_s),
            cca=pl.col("cca").drop_nulls().last(),
            bytes_sent=pl.col("bytes_sent").last(),
            retransmits=pl.col("retransmits").last(),
        )
    )


def _counter_at(counter: str, at_s: float) -> pl.Expr:
    time_s, value = pl.col("time_s"), pl.col(counter).cast(pl.Float64)
    before, after = time_s <= at_s, time_s > at_s
    last, following = value.filter(before).last(), value.filter(after).first()
    last_s, following_s = time_s.filter(before).last(), time_s.filter(after).first()
    between = last + (following - last) * (at_s - last_s) / (following_s - last_s)
    return pl.coalesce(between, last, 0.0)
