"""Derives the state of a BBR flow, which struct tcp_bbr_info doesn't have."""

import polars as pl

HIGH_GAIN = 2.5  # above PROBE_BW's gain of cwnd, 2, and below that of STARTUP and DRAIN, 2 / ln 2


def state() -> pl.Expr:
    """startup, drain, probe_bw or probe_rtt, by the gains that bbr_update_gains() of Linux' net/ipv4/tcp_bbr.c (BBRv1)
    sets in each; null of another CCA, and where BBR has not set them yet.

    Of rows of sockets.parquet: cca, bbr_cwnd_gain, bbr_pacing_gain.
    """
    cwnd_gain, pacing_gain = pl.col("bbr_cwnd_gain"), pl.col("bbr_pacing_gain")
    return (
        pl.when(pl.col("cca") != "bbr")
        .then(None)
        .when(cwnd_gain > HIGH_GAIN, pacing_gain > HIGH_GAIN)
        .then(pl.lit("startup"))
        .when(cwnd_gain > HIGH_GAIN)
        .then(pl.lit("drain"))
        .when(cwnd_gain > 1)
        .then(pl.lit("probe_bw"))
        .when(cwnd_gain == 1)
        .then(pl.lit("probe_rtt"))
    )
