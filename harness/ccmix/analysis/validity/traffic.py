"""Judges whether the traffic was what was asked for, as the generators and the sockets tell of it."""

from collections.abc import Iterator

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import measured
from ccmix.analysis.tables import RunTables
from ccmix.model import Run
from ccmix.model.group_grammar import DEFAULT_CCA
from ccmix.units import format_time

COOKIE_SEGMENTS = 1  # that iperf3 sends of a connection's cookie, before it sets the CCA
LEAST_DRAWN_S = 1e-6  # what iperf3 and the draw count in


def cca(tables: RunTables, looked: bool = True) -> Iterator[tuple[str, str]]:
    """Reports CCAs that differ: the one asked for, the one that iperf3 read from the socket, and the one the probe saw.

    Without a probe (`looked` is false), compares what the generator read, if anything. If no CCA was asked for,
    compares what iperf3 read and what the probe saw, on a socket that sends more than its cookie. DCTCP without ECN
    goes on as 'dctcp-reno' (net/ipv4/tcp_dctcp.c).
    """
    segments = pl.col("data_segs_out").cast(pl.Int64)
    sending = tables.sockets.filter(segments > (segments.max().over(FLOW) - 1).clip(0, COOKIE_SEGMENTS))
    seen = sending.group_by(FLOW).agg(pl.col("cca").unique())
    for flow in tables.flows.join(seen, on=FLOW, how="left").iter_rows(named=True):
        seen_outside = {cca or "one that ss names otherwise" for cca in flow["cca"] or ()}
        if flow["cca_asked"] in (None, DEFAULT_CCA):
            known = {cca for cca in flow["cca"] or () if cca}
            used = known | ({flow["cca_used"]} if flow["cca_used"] and known else set())
            if len(used) > 1:
                yield "cca", f"port {flow['port']} ran {', '.join(sorted(used))}"
            continue
        if not looked:
            used = {flow["cca_used"] or flow["cca_asked"]}
        else:
            used = {flow["cca_used"], *(seen_outside or ("none that the probe saw",))}
        if used != {flow["cca_asked"]}:
            yield "cca", f"port {flow['port']} was to run {flow['cca_asked']} and ran {', '.join(map(str, used))}"


def drawn_starts(tables: RunTables) -> Iterator[tuple[str, str]]:
    """Reports streams that iperf3 started at another moment than the run had drawn from its seed."""
    unlike = tables.starts.filter((pl.col("asked_s") - pl.col("used_s")).abs() > LEAST_DRAWN_S / 2)
    for flow in unlike.iter_rows(named=True):
        used, asked = (format_time(flow[name]) for name in ("used_s", "asked_s"))
        yield "spread", f"port {flow['port']} started {used} after its group, drawn were {asked}"


def flows_with_samples(run: Run, tables: RunTables) -> int:
    return measured(run, tables.sockets).group_by(FLOW).len().filter(pl.col("len") > 1).height
