"""Computes the metrics of one run, per flow, per group of flows and for the whole run.

docs/reference/metrics.md defines the metrics.
"""

import math
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import polars as pl

from ccmix.analysis import dynamics, path_metrics
from ccmix.analysis.dynamics import jain_index, sum_in_order
from ccmix.analysis.iperf3_tables import FLOW, REPORTED_COLUMNS, by_flow
from ccmix.analysis.measured import measured, percentiles
from ccmix.analysis.path_metrics import (
    DELAYS,
    delays,
    left_device,
    rtt_samples,
    without_local_drops,
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
    """Computes all metrics of a finished run.

    ping_rtt_s: the RTTs of pings before the traffic
    measurement: None for a run that was imported

    If the test has cross traffic, it is left out of the shares and of the metrics of the whole run,
    except for `utilisation`. A source of short flows (http or a workload) is a group, too, and has
    `completions`. If no probe sampled the sockets, retransmissions and RTTs are those that iperf3
    reports.
    """
    flows = dynamics.active_flows(run, tables)
    samples = rtt_samples(run, tables, flows, ping_rtt_s)
    flows = _rates(run, tables, flows).join(
        samples.group_by(FLOW).agg(**DELAYS), on=FLOW, how="left", maintain_order="left"
    )
    all_bps = _goodput_bps(run, tables, flows)
    tested, cross = _tested(run, flows), run.cross_groups
    compared = _with_shares(run, tables, tested)
    shares = by_flow(compared, "share")
    intervals = _intervals(run, tables)
    changing = dynamics.joins_or_changes(run, flows)
    startups = _startups(run, flows, intervals, changing)
    tested_intervals = _tested(run, intervals)
    units = dynamics.sum_by_unit(tested_intervals, tested.filter("tcp"))
    converged_s = dynamics.convergence_of_flows_s(run, units)
    completions = {each.group: each for each in completion_metrics(run, tables.completions)}
    groups = []
    for name in dict.fromkeys(flows["group"]):
        in_group = pl.col("group") == name
        group = _group(run, name, flows.filter(in_group), samples.filter(in_group))
        startup = _startup(run, intervals.filter(in_group), changing)
        group_shares = compared.filter(in_group)
        shares_known = not group_shares.is_empty() and not group_shares["share"].null_count()
        group = replace(
            group,
            **asdict(startup),
            share=float(group_shares["share"].sum()) if shares_known else None,
            fair_share=_fair_share(tested, compared, group_shares) if name not in cross else None,
        )
        if name in completions:
            group = replace(group, cca=completions[name].cca, streams=completions[name].completed)
        groups.append(group)
    fairness, fairness_of_groups = _fairness(compared)
    return Metrics(
        goodput_bps=_goodput_bps(run, tables, tested) if cross else all_bps,
        utilisation=all_bps
        / path_metrics.mean_rate_bps(run, run.traffic.omit_s, run.traffic.total_s)
        if isinstance(run.path, Topology)
        else None,
        bytes_sent=_bytes_sent(run, tables),
        fairness=fairness,
        fairness_of_groups=fairness_of_groups,
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
        completions=tuple(completions.values()),
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
    """Computes the rates and the segments of each flow in the time in which it was active. Returns
    `flows` (see dynamics.active_flows()) with new values in goodput_bps, throughput_bps,
    data_segments and retransmitted_segments, and with the column counted_by: the end whose counters
    were used, or 'generator'.

    If the sockets of a flow were not sampled, its rates are those that iperf3 reports. iperf3
    reports TCP over the whole measured time, so these rates are scaled to the flow's active time.
    """
    active_s = pl.when(pl.col("active_s") > 0).then("active_s")
    scale: pl.Expr | float = 1.0
    if not run.traffic.steps and run.traffic.duration_s is not None:
        scale = pl.when("tcp").then(run.traffic.measured_s / active_s).fill_null(1.0)
    reported = pl.DataFrame(schema=REPORTED_COLUMNS) if tables.reported is None else tables.reported
    by_sockets = pl.col("counted_by").is_in(["receiver", "sender"])
    rated = (
        tables.counters.with_growth(flows)
        .join(
            reported.drop("rtts_s"), on=FLOW, how="left", maintain_order="left", suffix="_reported"
        )
        .with_columns(
            goodput_bps=pl.when(by_sockets)
            .then((pl.col("received") * 8 / active_s).fill_null(0.0))
            .otherwise((pl.col("goodput_bps") * scale).fill_null(0.0)),
            throughput_bps=pl.when(by_sockets)
            .then((pl.col("sent") - pl.col("retransmitted")) * 8 / active_s)
            .otherwise(pl.col("throughput_bps") * scale),
            counted_by=pl.col("counted_by").fill_null("generator"),
            data_segments=pl.coalesce(pl.col("data_segments").round(), "data_segments_reported"),
            retransmitted_segments=pl.coalesce(
                pl.col("retransmitted_segments").round(), "retransmitted_segments_reported"
            ),
        )
    )
    if run.traffic.duration_s is not None:
        rated = without_local_drops(
            rated, left_device(run, tables, run.traffic.omit_s, run.traffic.total_s)
        )
    segments = rated.with_columns(pl.col("data_segments", "retransmitted_segments").cast(pl.Int64))
    return segments.with_columns(retransmits=pl.coalesce("retransmits", "retransmitted_segments"))


def _goodput_bps(run: Run, tables: RunTables, flows: pl.DataFrame) -> float:
    """Returns the sum of the goodputs of `flows` in bit/s. They are averaged over the whole
    measured time, even if a flow was active only in a part of it.

    flows: as returned by _rates()
    """
    if run.traffic.steps:
        bits = tables.intervals.select(pl.col("goodput_bps") * pl.col("seconds")).sum().item()
        return float(bits) / run.traffic.measured_s
    if run.traffic.duration_s is None:
        return sum_in_order(flows["goodput_bps"].to_list())
    bits = pl.col("goodput_bps") * pl.col("active_s")
    if isinstance(
        run.path, Topology
    ):  # UDP that starts late is received after the end of the run, too
        bits = pl.when("udp").then(pl.coalesce(pl.col("received") * 8, bits)).otherwise(bits)
    return (
        sum_in_order(flows.select(bits=bits)["bits"].fill_null(0.0).to_list())
        / run.traffic.measured_s
    )


def _with_shares(run: Run, tables: RunTables, flows: pl.DataFrame) -> pl.DataFrame:
    """Adds the column `share`: the flow's fraction of the bytes that all `flows` received while all
    TCP flows were active.

    The share is null if there is no such time, or if the bytes that a flow received in it are not
    known.
    """
    common = dynamics.common_time(flows)
    without_shares = flows.with_columns(share=pl.lit(None, pl.Float64))
    if common is None or run.traffic.steps:
        return without_shares
    begin_s, end_s = common
    spans = flows.select(*FLOW, begin_s=begin_s, end_s=end_s)
    if spans.equals(flows.select(spans.columns)):
        received = flows["goodput_bps"]
    else:
        received = tables.counters.with_growth(spans)["received"]
    total = received.sum()
    return (
        flows.with_columns(share=received / total)
        if total and not received.null_count()
        else without_shares
    )


def _fairness(compared: pl.DataFrame) -> tuple[float | None, float | None]:
    """Returns two of Jain's indices for the TCP flows of a run: over the shares of all flows, and
    over the groups' mean shares per flow. All connections of a source of short flows, or of a
    command, count as one flow.

    compared: the flows of the test, as returned by _with_shares()
    """
    tcp_units = (
        compared.filter("tcp").drop_nulls("share").group_by("unit", "group", maintain_order=True)
    )
    unit_shares = tcp_units.agg(pl.col("share").sum())
    mean_shares = unit_shares.group_by("group", maintain_order=True).agg(pl.col("share").mean())
    return jain_index(unit_shares["share"].to_list()), jain_index(mean_shares["share"].to_list())


def _fair_share(tested: pl.DataFrame, compared: pl.DataFrame, group: pl.DataFrame) -> float | None:
    """Returns the share that a group would get if all flows got the same: the number of the group's
    flows divided by the number of all flows of the test. All connections of a source of short
    flows, or of a command, count as one flow.

    Returns None if the group has no flows, if any flow is UDP, or if the share of any flow is not
    known, for example because there is no time in which all flows send.

    tested: all flows of the test
    compared: the same flows with the column share, as returned by _with_shares()
    group: the rows of `compared` that belong to the group
    """
    if not tested["tcp"].all() or compared["share"].null_count() or group.is_empty():
        return None
    return group["unit"].n_unique() / compared["unit"].n_unique()


def _startups(
    run: Run, flows: pl.DataFrame, intervals: pl.DataFrame, changing: bool
) -> dict[dynamics.Flow, StartupMetrics]:
    """Returns the start-up of each flow.

    intervals: the goodputs of all flows, as returned by _intervals()
    changing: whether flows begin or end while others go on, or the path changes; then no start-up
        is computed
    """
    rows = intervals.partition_by(FLOW, as_dict=True)
    return {
        flow: _startup(run, rows.get(flow, intervals.clear()), changing)
        for flow in flows.select(FLOW).iter_rows()
    }


def _startup(run: Run, intervals: pl.DataFrame, changing: bool) -> StartupMetrics:
    """Returns the start-up (time and overshoot) of flows, from their goodputs in each interval. If
    flows begin or end while others go on, or if the path changes (`changing`), it has no values.
    """
    return StartupMetrics() if changing else dynamics.start_up(run, intervals)


def _intervals(run: Run, tables: RunTables) -> pl.DataFrame:
    """Returns the goodput of each flow in each interval, with dynamics.GOODPUT_COLUMNS. There are
    no rows if the run is made in steps, or if several intervals were merged, so that the goodput of
    each one is not known.
    """
    longest_s = tables.intervals["seconds"].max() if tables.intervals.width else None
    if (
        run.traffic.steps
        or not isinstance(longest_s, float)
        or longest_s > LONGER * run.traffic.goodput_interval_s
    ):
        return pl.DataFrame(schema=dynamics.GOODPUT_COLUMNS)
    return dynamics.goodputs(run, tables.intervals)


def _tested(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of the test's groups; those of cross traffic are left out."""
    return (
        rows.filter(~pl.col("group").is_in(sorted(run.cross_groups))) if run.cross_groups else rows
    )


def _rtt_probe(run: Run, questions: pl.DataFrame) -> RttProbeMetrics | None:
    """Returns how many questions the RTT probe asked in the measured time, the share without an
    answer, and percentiles of the RTT in seconds; None if the run had no RTT probe.

    questions: a row for each question: time_s, and rtt_s, which is null without an answer
    """
    if questions.is_empty():
        return None
    rtts_s = measured(run, questions)["rtt_s"]
    return RttProbeMetrics(
        questions=rtts_s.len(),
        unanswered=rtts_s.null_count() / rtts_s.len() if rtts_s.len() else None,
        **percentiles(rtts_s, "{}_s"),
    )


def _bytes_sent(run: Run, tables: RunTables) -> int:
    """Returns how many bytes all hosts sent in the whole run, omitted time included. A flow's bytes
    are those that its socket counted or those that the generator reports, whichever is more.

    If the queue of a host's own device dropped packets, only the bytes that left the device count.
    """
    host_bytes = Counter[str]()
    for host, port, reported in (
        pl.concat([tables.flows, tables.short_flows]).select(*FLOW, "bytes_sent").iter_rows()
    ):
        sent = tables.counters.values_at((host, port), "sent", [math.inf])
        host_bytes[host] += max(reported or 0, 0 if sent is None else round(sent[0]))
    left = left_device(run, tables, 0.0, math.inf)
    return sum(
        min(count, round(left[host][1])) if host in left else count
        for host, count in host_bytes.items()
    )


def _retransmission_rate(flows: pl.DataFrame) -> float | None:
    """Returns the fraction of the flows' data segments that were retransmissions; None if no
    segments are known.
    """
    segments, retransmitted = (
        int(flows["data_segments"].sum()),
        int(flows["retransmitted_segments"].sum()),
    )
    return retransmitted / segments if segments else None


def _flow(
    flow: dict[str, Any], share: float | None, startup: StartupMetrics, convergence_s: float | None
) -> FlowMetrics:
    """Returns the metrics of a flow. `flow` is its row in the table of flows: column names and
    values. Columns with the name of a metric become that metric.
    """
    segments = flow["data_segments"]
    known = {name: flow[name] for name in FlowMetrics.__dataclass_fields__ if name in flow}
    return FlowMetrics(
        **known,
        **asdict(startup),
        convergence_s=convergence_s,
        retransmission_rate=flow["retransmitted_segments"] / segments if segments else None,
        share=share,
    )


def _distinct(values: pl.Series) -> str:
    """Returns the different values of a column, joined by commas, or '-' if there are none:
    'cubic' if all flows of a group use CUBIC.
    """
    return ",".join(map(str, values.drop_nulls().unique(maintain_order=True))) or "-"


def _group(run: Run, name: str, flows: pl.DataFrame, samples: pl.DataFrame) -> GroupMetrics:
    """Returns the metrics of a group of flows, over the time from the beginning of its first flow
    to the end of its last one. run_metrics() adds the shares and the start-up.

    flows: the group's flows, as returned by _rates()
    samples: RTT samples of the group, as returned by path_metrics.rtt_samples()
    """
    active_s = max(0.0, float(flows["end_s"].max()) - float(flows["begin_s"].min()))  # type: ignore[arg-type]
    bits, sent_bits = (
        sum_in_order((flows[rate].fill_null(0.0) * flows["active_s"]).to_list())
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
        host=_distinct(flows["host"]),
        cca=_distinct(flows["cca_used"]),
        streams=flows.height,
        goodput_bps=goodput_bps,
        throughput_bps=throughput_bps,
        active_s=active_s,
        retransmission_rate=_retransmission_rate(flows),
        fairness=jain_index(flows["goodput_bps"].to_list()) if flows["tcp"].all() else None,
        **asdict(delays(samples)),
    )
