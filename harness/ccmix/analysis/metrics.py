"""Metrics of one run, per flow, per group and for the whole run; docs/reference/metrics.md
defines them.
"""

import math
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import polars as pl

from ccmix.analysis import dynamics, path_metrics
from ccmix.analysis.dynamics import ActiveTime, added, jain_index
from ccmix.analysis.iperf3_tables import FLOW, REPORTED_COLUMNS
from ccmix.analysis.measured import measured
from ccmix.analysis.path_metrics import (
    DELAYS,
    PERCENTILES,
    delays,
    left_device,
    rtt_samples,
    without_refused,
)
from ccmix.analysis.reports import completion_metrics
from ccmix.analysis.settled import settling
from ccmix.analysis.tables import RunTables
from ccmix.model import Measurement, PingRtts, Run, Topology
from ccmix.model.results import FlowMetrics, GroupMetrics, Metrics, RttProbeMetrics, StartupMetrics

LONGER = 1.5  # times an interval: then intervals were joined, and their own goodputs are not known


def run_metrics(
    run: Run, tables: RunTables, ping_rtt_s: PingRtts, measurement: Measurement | None = None
) -> Metrics:
    """Returns the metrics of a run. `measurement` is None for a run that was imported.

    If the test has cross traffic, the numbers of the run and the shares leave it out, except for
    `utilisation`, which includes all traffic. Sources of short flows are groups, too, and have
    `completions`. A group has one host. If no probe sampled the sockets, retransmissions and RTTs
    are those that iperf3 reports: see iperf3_tables.read_reported().
    """
    flows = dynamics.active_flows(run, tables)
    samples = rtt_samples(run, tables, flows, ping_rtt_s)
    flows = _rates(run, tables, flows).join(
        samples.group_by(FLOW).agg(**DELAYS), on=FLOW, how="left", maintain_order="left"
    )
    all_bps = _goodput_bps(run, tables, flows)
    tested, cross = _tested(run, flows), run.cross_groups
    together = _together(run, tables, tested)
    shares = {(row["host"], row["port"]): row["share"] for row in together.to_dicts()}
    intervals = _intervals(run, tables)
    changing = dynamics.joins_or_changes(run, flows)
    startups = _startups(run, flows, intervals, changing)
    tested_intervals = _tested(run, intervals)
    units = dynamics.as_units(tested_intervals, tested.filter("tcp"))
    converged_s = dynamics.convergence_of_flows_s(run, units)
    completed = {each.group: each for each in completion_metrics(run, tables.completions)}
    groups = []
    for name in dict.fromkeys(flows["group"]):
        own = flows.filter(pl.col("group") == name)
        group = _group(run, tables, name, own, samples.filter(pl.col("group") == name))
        startup = _startup(run, intervals.filter(pl.col("group") == name), changing)
        compared = together.filter(pl.col("group") == name)
        group = replace(
            group,
            **asdict(startup),
            share=None
            if compared["share"].null_count() or compared.is_empty()
            else float(compared["share"].sum()),
            fair_share=_fair_share(tested, together, compared) if name not in cross else None,
        )
        if name in completed:
            group = replace(group, cca=completed[name].cca, streams=completed[name].completed)
        groups.append(group)
    fair = together.filter("tcp").drop_nulls("share").group_by("unit", "group", maintain_order=True)
    of_units = fair.agg(pl.col("share").sum())
    of_groups = of_units.group_by("group", maintain_order=True).agg(pl.col("share").mean())
    return Metrics(
        goodput_bps=_goodput_bps(run, tables, tested) if cross else all_bps,
        utilisation=all_bps / _mean_rate_bps(run) if isinstance(run.path, Topology) else None,
        bytes_sent=_bytes_sent(run, tables),
        fairness=jain_index(of_units["share"].to_list()),
        fairness_of_groups=jain_index(of_groups["share"].to_list()),
        retransmission_rate=_retransmission_rate(tested),
        **asdict(delays(_tested(run, samples))),
        **asdict(_startup(run, tested_intervals, changing)),
        convergence_s=dynamics.convergence_s(run, units),
        netem_loss=path_metrics.netem_loss(run, measurement),
        bottleneck=path_metrics.bottleneck(run, tables),
        policer=path_metrics.policer(run, tables),
        receiver_window_limited=path_metrics.receiver_window_limited(run, tables),
        cpu_s_per_gbit=path_metrics.cpu_s_per_gbit(run, tables, all_bps),
        rtt_probe=_rtt_probe(run, tables.series.rtt),
        settling=settling(run, intervals, groups),
        groups=tuple(groups),
        completions=tuple(completed.values()),
        flows=tuple(
            _flow(
                flow,
                shares.get((flow["host"], flow["port"])),
                startups[flow["host"], flow["port"]],
                converged_s.get(flow["unit"]),
            )
            for flow in flows.filter(~pl.col("short")).to_dicts()
        ),
    )


def _rates(run: Run, tables: RunTables, flows: pl.DataFrame) -> pl.DataFrame:
    """Returns active_flows() with the rates and segments of each flow in its active time, and
    counted_by.

    If nobody sampled the sockets, iperf3's report about TCP covers the whole measured time.
    """
    active_s = pl.when(pl.col("active_s") > 0).then("active_s")
    longer: pl.Expr | float = 1.0
    if not run.traffic.steps and run.traffic.duration_s is not None:
        longer = pl.when("tcp").then(run.traffic.measured_s / active_s).fill_null(1.0)
    reported = pl.DataFrame(schema=REPORTED_COLUMNS) if tables.reported is None else tables.reported
    by_sockets = pl.col("counted_by").is_in(["receiver", "sender"])
    rated = (
        tables.counters.grown(flows)
        .join(
            reported.drop("rtts_s"), on=FLOW, how="left", maintain_order="left", suffix="_reported"
        )
        .with_columns(
            goodput_bps=pl.when(by_sockets)
            .then((pl.col("received") * 8 / active_s).fill_null(0.0))
            .otherwise((pl.col("goodput_bps") * longer).fill_null(0.0)),
            throughput_bps=pl.when(by_sockets)
            .then((pl.col("sent") - pl.col("retransmitted")) * 8 / active_s)
            .otherwise(pl.col("throughput_bps") * longer),
            counted_by=pl.col("counted_by").fill_null("generator"),
            data_segments=pl.coalesce(pl.col("data_segments").round(), "data_segments_reported"),
            retransmitted_segments=pl.coalesce(
                pl.col("retransmitted_segments").round(), "retransmitted_segments_reported"
            ),
        )
    )
    if run.traffic.duration_s is not None:
        rated = without_refused(
            rated, left_device(run, tables, run.traffic.omit_s, run.traffic.total_s)
        )
    segments = rated.with_columns(pl.col("data_segments", "retransmitted_segments").cast(pl.Int64))
    return segments.with_columns(retransmits=pl.coalesce("retransmits", "retransmitted_segments"))


def _goodput_bps(run: Run, tables: RunTables, flows: pl.DataFrame) -> float:
    """Returns the goodput of flows over the measured time. Rates of steps refer to the time of each
    step.
    """
    if run.traffic.steps:
        bits = tables.intervals.select(pl.col("goodput_bps") * pl.col("seconds")).sum().item()
        return float(bits) / run.traffic.measured_s
    if run.traffic.duration_s is None:
        return added(flows["goodput_bps"].to_list())
    bits = pl.col("goodput_bps") * pl.col("active_s")
    if isinstance(
        run.path, Topology
    ):  # UDP that starts late is received after the end of the run, too
        bits = pl.when("udp").then(pl.coalesce(pl.col("received") * 8, bits)).otherwise(bits)
    return added(flows.select(bits=bits)["bits"].fill_null(0.0).to_list()) / run.traffic.measured_s


def _together(run: Run, tables: RunTables, flows: pl.DataFrame) -> pl.DataFrame:
    """Returns the flows of the test with the `share` of each in the time in which all TCP flows of
    the test are active.

    The share is null if there is no such time, or if the bytes that a flow received in it are not
    known.
    """
    common = dynamics.common_time(flows)
    nothing = flows.with_columns(share=pl.lit(None, pl.Float64))
    if common is None or run.traffic.steps:
        return nothing
    spans = flows.select(*FLOW, begin_s=pl.lit(common.begin_s), end_s=pl.lit(common.end_s))
    if spans.equals(flows.select(spans.columns)):
        received = flows["goodput_bps"]
    else:
        received = tables.counters.grown(spans)["received"]
    total = received.sum()
    return (
        flows.with_columns(share=received / total)
        if total and not received.null_count()
        else nothing
    )


def _fair_share(tested: pl.DataFrame, together: pl.DataFrame, own: pl.DataFrame) -> float | None:
    """Returns the group's part of the test's flows, if all send at the same time and none is UDP;
    otherwise None.
    """
    if not tested["tcp"].all() or together["share"].null_count() or own.is_empty():
        return None
    return own["unit"].n_unique() / together["unit"].n_unique()


def _startups(
    run: Run, flows: pl.DataFrame, intervals: pl.DataFrame, changing: bool
) -> dict[dynamics.Flow, StartupMetrics]:
    by_flow = {
        (host, port): own for (host, port), own in intervals.group_by(FLOW, maintain_order=True)
    }
    return {
        flow: _startup(run, by_flow.get(flow, intervals.clear()), changing)
        for flow in flows.select(FLOW).iter_rows()
    }


def _startup(run: Run, intervals: pl.DataFrame, changing: bool) -> StartupMetrics:
    return StartupMetrics() if changing else dynamics.start_up(run, intervals)


def _intervals(run: Run, tables: RunTables) -> pl.DataFrame:
    longest_s = tables.intervals["seconds"].max() if tables.intervals.width else None
    if (
        run.traffic.steps
        or not isinstance(longest_s, float)
        or longest_s > LONGER * run.traffic.goodput_interval_s
    ):
        return pl.DataFrame(schema=dynamics.GOODPUT_COLUMNS)
    return dynamics.goodputs(run, tables.intervals)


def _mean_rate_bps(run: Run) -> float:
    """Returns the mean rate of the bottleneck over the measured time."""
    return path_metrics.mean_rate_bps(run, run.traffic.omit_s, run.traffic.total_s)


def _tested(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of all groups except those of cross traffic."""
    return (
        rows.filter(~pl.col("group").is_in(sorted(run.cross_groups))) if run.cross_groups else rows
    )


def _rtt_probe(run: Run, questions: pl.DataFrame) -> RttProbeMetrics | None:
    if questions.is_empty():
        return None
    rtts_s = measured(run, questions)["rtt_s"]
    percentiles = {
        f"{name}_s": rtts_s.quantile(share, "linear") for name, share in PERCENTILES.items()
    }
    return RttProbeMetrics(
        questions=rtts_s.len(),
        unanswered=rtts_s.null_count() / rtts_s.len() if rtts_s.len() else None,
        **percentiles,
    )


def _bytes_sent(run: Run, tables: RunTables) -> int:
    """Returns the bytes that the sockets had sent in the end, or the bytes that the generator
    reports, whichever is more. If a host's own queue dropped packets, at most the bytes that left
    its device count.
    """
    of_hosts = Counter[str]()
    for host, port, reported in (
        pl.concat([tables.flows, tables.short_flows]).select(*FLOW, "bytes_sent").iter_rows()
    ):
        sent = tables.counters.at((host, port), "sent", [math.inf])
        of_hosts[host] += max(reported or 0, 0 if sent is None else round(sent[0]))
    left = left_device(run, tables, 0.0, math.inf)
    return sum(
        min(count, round(left[host][1])) if host in left else count
        for host, count in of_hosts.items()
    )


def _retransmission_rate(flows: pl.DataFrame) -> float | None:
    segments, retransmitted = (
        int(flows["data_segments"].sum()),
        int(flows["retransmitted_segments"].sum()),
    )
    return retransmitted / segments if segments else None


def _flow(
    flow: dict[str, Any], share: float | None, startup: StartupMetrics, convergence_s: float | None
) -> FlowMetrics:
    segments = flow["data_segments"]
    known = {name: flow[name] for name in FlowMetrics.__dataclass_fields__ if name in flow}
    return FlowMetrics(
        **known,
        **asdict(startup),
        convergence_s=convergence_s,
        retransmission_rate=flow["retransmitted_segments"] / segments if segments else None,
        share=share,
    )


def _only(names: pl.Series) -> str:
    """Returns the value that all flows have, such as their CCA; if they differ, all values, joined
    by commas.
    """
    return ",".join(map(str, names.drop_nulls().unique(maintain_order=True))) or "-"


def _group(
    run: Run, tables: RunTables, name: str, flows: pl.DataFrame, samples: pl.DataFrame
) -> GroupMetrics:
    """Returns the metrics of a group, from the beginning of its first flow to the end of its last
    one.
    """
    span = ActiveTime.of(flows)
    active_s = span.seconds
    bits, sent_bits = (
        added((flows[rate].fill_null(0.0) * flows["active_s"]).to_list())
        for rate in ("goodput_bps", "throughput_bps")
    )
    if run.traffic.steps or not active_s:
        goodput_bps, throughput_bps = (
            float(flows["goodput_bps"].sum()),
            float(flows["throughput_bps"].sum()),
        )
    else:
        goodput_bps, throughput_bps = bits / active_s, sent_bits / active_s
    return GroupMetrics(
        group=name,
        host=_only(flows["host"]),
        cca=_only(flows["cca_used"]),
        streams=flows.height,
        goodput_bps=goodput_bps,
        throughput_bps=throughput_bps,
        active_s=active_s,
        retransmission_rate=_retransmission_rate(flows),
        fairness=jain_index(flows["goodput_bps"].to_list()) if flows["tcp"].all() else None,
        **asdict(delays(samples)),
    )
