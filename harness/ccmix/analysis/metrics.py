"""Metrics of one run, per flow, per group and for the whole run; docs/reference/metrics.md defines them."""

from dataclasses import asdict, replace
from typing import Any

import polars as pl

from ccmix.analysis import dynamics, path_metrics
from ccmix.analysis.addition import added
from ccmix.analysis.completions import completion_metrics
from ccmix.analysis.delays import DELAYS, PERCENTILES, delays, rtt_samples
from ccmix.analysis.fairness import jain_index
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import grown, measured
from ccmix.analysis.settled import settling
from ccmix.analysis.tables import RunTables, bytes_sent
from ccmix.model import Measurement, PingRtts, Run, Topology, UdpSource
from ccmix.model.results import CompletionMetrics, FlowMetrics, GroupMetrics, Metrics, RttProbeMetrics, StartupMetrics


def run_metrics(run: Run, tables: RunTables, ping_rtt_s: PingRtts, measurement: Measurement | None = None) -> Metrics:
    """Returns the metrics of a run. `measurement` is None for a run that was imported.

    Sources of short flows have `completions`, see completion_metrics(). They are groups too; their goodput is what
    their sockets' peers acknowledged in the measured time, as is that of a command's flows. A group has one host. If no
    probe sampled the sockets, retransmissions and RTTs are those that iperf3 reports: see
    iperf3_tables.read_reported().

    Numbers of the run, and shares, are of the test alone where it has cross traffic beside it; `utilisation` is of all.
    """
    samples = rtt_samples(run, tables, ping_rtt_s)
    flows = tables.flows.join(_segments(run, tables), on=FLOW, how="left", maintain_order="left").join(
        samples.group_by(FLOW).agg(**DELAYS), on=FLOW, how="left", maintain_order="left"
    )
    completed = completion_metrics(run, tables.completions)
    carried = tables.short_flows.to_dicts()
    all_bps = _goodput_bps(run, tables) + added(row["goodput_bps"] for row in carried)
    studied, cross = _studied(run, flows), run.cross_groups
    goodput_bps = float(studied["goodput_bps"].sum()) if cross else all_bps

    def shared_bps(group: str) -> float | None:
        """Returns the goodput of which a group has its share; None of cross traffic, which has none."""
        return None if group in cross else goodput_bps

    tcp = _of_tcp(run, studied)
    all_tcp = tcp.height == studied.height and (not completed or bool(cross))
    intervals = _intervals(run, tables)
    startups = _startups(run, flows, intervals)
    studied_intervals = _studied(run, intervals)
    tcp_intervals = _of_tcp(run, studied_intervals)
    converged_s = dynamics.convergence_of_flows_s(run, tcp_intervals)
    groups = []
    for name in dict.fromkeys(flows["group"]):
        own = flows.filter(pl.col("group") == name)
        group = _group(name, own, shared_bps(name), samples.filter(pl.col("group") == name))
        startup = dynamics.start_up(run, intervals.filter(pl.col("group") == name))
        fair_share = own.height / studied.height if all_tcp and name not in cross else None
        groups.append(replace(group, **asdict(startup), fair_share=fair_share))
    of_short_flows = (
        _of_short_flows(of_line, row, shared_bps(row["group"])) for of_line, row in zip(completed, carried, strict=True)
    )
    return Metrics(
        goodput_bps=goodput_bps,
        utilisation=all_bps / _mean_rate_bps(run) if isinstance(run.path, Topology) else None,
        bytes_sent=_bytes_sent(tables),
        fairness=jain_index(tcp["goodput_bps"].to_list()),
        fairness_of_groups=jain_index(
            tcp.group_by("group", maintain_order=True).agg(pl.col("goodput_bps").mean())["goodput_bps"].to_list()
        ),
        retransmission_rate=_retransmission_rate(studied),
        **asdict(delays(_studied(run, samples))),
        **asdict(dynamics.start_up(run, studied_intervals)),
        convergence_s=dynamics.convergence_s(run, tcp_intervals),
        netem_loss=path_metrics.netem_loss(run, measurement),
        bottleneck=path_metrics.bottleneck(run, tables),
        policer=path_metrics.policer(run, tables),
        receiver_window_limited=path_metrics.receiver_window_limited(run, tables),
        cpu_s_per_gbit=path_metrics.cpu_s_per_gbit(run, tables, all_bps),
        rtt_probe=_rtt_probe(run, tables.series.rtt),
        settling=settling(run, intervals, groups),
        groups=(*groups, *of_short_flows),
        completions=completed,
        flows=tuple(
            _flow(
                flow,
                shared_bps(flow["group"]),
                startups[flow["host"], flow["port"]],
                converged_s.get((flow["host"], flow["port"])),
            )
            for flow in flows.to_dicts()
        ),
    )


def _startups(run: Run, flows: pl.DataFrame, intervals: pl.DataFrame) -> dict[dynamics.Flow, StartupMetrics]:
    by_flow = {(host, port): own for (host, port), own in intervals.group_by(FLOW, maintain_order=True)}
    return {
        flow: dynamics.start_up(run, by_flow.get(flow, intervals.clear())) for flow in flows.select(FLOW).iter_rows()
    }


def _goodput_bps(run: Run, tables: RunTables) -> float:
    """Returns the goodput of all flows over the measured time. Rates of steps are over the time of each step."""
    if run.traffic.steps:
        bits = tables.intervals.select(pl.col("goodput_bps") * pl.col("seconds")).sum().item()
        return float(bits) / run.traffic.measured_s
    return float(tables.flows["goodput_bps"].sum())


def _intervals(run: Run, tables: RunTables) -> pl.DataFrame:
    if tables.intervals.is_empty() or run.traffic.steps:
        return pl.DataFrame(
            schema={"interval": pl.Int64, "host": pl.String, "port": pl.Int64, "group": pl.String, "goodput_bps": float}
        )
    return dynamics.goodputs(run, tables.intervals)


def _mean_rate_bps(run: Run) -> float:
    """Returns the mean rate of the bottleneck over the measured time."""
    return path_metrics.mean_rate_bps(run, run.traffic.omit_s, run.traffic.total_s)


def _studied(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of all groups, or those of the test that has cross traffic beside it."""
    return rows.filter(~pl.col("group").is_in(sorted(run.cross_groups))) if run.cross_groups else rows


def _of_tcp(run: Run, flows: pl.DataFrame) -> pl.DataFrame:
    of_udp = [run.group_name(source) for source in run.traffic.sources if isinstance(source, UdpSource)]
    return flows.filter(~pl.col("group").is_in(of_udp))


def _rtt_probe(run: Run, questions: pl.DataFrame) -> RttProbeMetrics | None:
    if questions.is_empty():
        return None
    rtts_s = measured(run, questions)["rtt_s"]
    percentiles = {f"{name}_s": rtts_s.quantile(share, "linear") for name, share in PERCENTILES.items()}
    return RttProbeMetrics(
        questions=rtts_s.len(),
        unanswered=rtts_s.null_count() / rtts_s.len() if rtts_s.len() else None,
        **percentiles,
    )


def _bytes_sent(tables: RunTables) -> int:
    """The larger of what the sockets had sent at their last samples, and what the generator says that it sent."""
    return max(bytes_sent(tables.sockets), int(tables.flows["bytes_sent"].sum()))


def _segments(run: Run, tables: RunTables) -> pl.DataFrame:
    """Returns for each flow: data segments and retransmissions within the measured time."""
    if tables.reported is not None:
        return tables.reported.drop("rtts_s")
    return (
        measured(run, tables.sockets)
        .sort("time_s")
        .group_by(FLOW)
        .agg(data_segments=grown("data_segs_out"), retransmitted_segments=grown("retransmits"))
    )


def _retransmission_rate(flows: pl.DataFrame) -> float | None:
    segments, retransmitted = int(flows["data_segments"].sum()), int(flows["retransmitted_segments"].sum())
    return retransmitted / segments if segments else None


def _of_short_flows(completed: CompletionMetrics, carried: dict[str, Any], run_bps: float | None) -> GroupMetrics:
    """Returns a source of short flows as a group beside the others."""
    return GroupMetrics(
        group=carried["group"],
        host=carried["host"],
        cca=completed.cca,
        streams=completed.completed,
        goodput_bps=carried["goodput_bps"],
        throughput_bps=carried["throughput_bps"],
        retransmission_rate=None,
        share=carried["goodput_bps"] / run_bps if run_bps else None,
    )


def _flow(
    flow: dict[str, Any], run_bps: float | None, startup: StartupMetrics, convergence_s: float | None
) -> FlowMetrics:
    segments = flow["data_segments"]
    return FlowMetrics(
        **flow,
        **asdict(startup),
        convergence_s=convergence_s,
        retransmission_rate=flow["retransmitted_segments"] / segments if segments else None,
        share=flow["goodput_bps"] / run_bps if run_bps else None,
    )


def _only(names: pl.Series) -> str:
    """Returns the value that all flows have, such as their CCA; the values joined if they differ."""
    return ",".join(map(str, names.drop_nulls().unique(maintain_order=True))) or "-"


def _group(name: str, flows: pl.DataFrame, run_bps: float | None, samples: pl.DataFrame) -> GroupMetrics:
    goodput_bps = float(flows["goodput_bps"].sum())
    return GroupMetrics(
        group=name,
        host=_only(flows["host"]),
        cca=_only(flows["cca_used"]),
        streams=flows.height,
        goodput_bps=goodput_bps,
        throughput_bps=float(flows["throughput_bps"].sum()),
        retransmission_rate=_retransmission_rate(flows),
        fairness=jain_index(flows["goodput_bps"].to_list()),
        share=goodput_bps / run_bps if run_bps else None,
        **asdict(delays(samples)),
    )
