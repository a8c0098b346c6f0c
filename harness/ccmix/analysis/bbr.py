"""Names the state of a BBR flow. struct tcp_bbr_info doesn't have it, so there are two sources.

The kernel's own BBR, of the first version, shows it by its gains. ccmix's later versions show it in a file, from which
ccmix-sockmon makes the column bbr_phase.
"""

from collections.abc import Collection

import polars as pl

from ccmix.terms import BBRS

HIGH_GAIN = 2.5  # above PROBE_BW's gain of cwnd, 2, and below that of STARTUP and DRAIN, 2 / ln 2


def state(known: Collection[str]) -> pl.Expr:
    """startup, drain, probe_bw or probe_rtt; of later versions probe_bw_down, probe_bw_cruise, probe_bw_refill or
    probe_bw_up instead of probe_bw. Null of another CCA, where BBR has no gains yet, and where nobody recorded it.

    Of rows of sockets.parquet, whose columns are `known`: cca, bbr_cwnd_gain, bbr_pacing_gain, bbr_phase.
    """
    phase = pl.col("bbr_phase") if "bbr_phase" in known else pl.lit(None, pl.String)
    return pl.when(pl.col("cca") == "bbr").then(_state_by_gains()).when(pl.col("cca").is_in(BBRS)).then(phase)


def _state_by_gains() -> pl.Expr:
    """Returns the state in which bbr_update_gains() of Linux' net/ipv4/tcp_bbr.c sets these gains."""
    cwnd_gain, pacing_gain = pl.col("bbr_cwnd_gain"), pl.col("bbr_pacing_gain")
    return (
        pl.when(cwnd_gain > HIGH_GAIN, pacing_gain > HIGH_GAIN)
        .then(pl.lit("startup"))
        .when(cwnd_gain > HIGH_GAIN)
        .then(pl.lit("drain"))
        .when(cwnd_gain > 1)
        .then(pl.lit("probe_bw"))
        .when(cwnd_gain == 1)
        .then(pl.lit("probe_rtt"))
    )
