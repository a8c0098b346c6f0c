"""Metrics of one run, per flow, per group and for the whole run; all are defined in docs/metrics.md."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ccmix.analysis import dynamics, path_metrics
from ccmix.analysis.completions import completion_metrics
from ccmix.analysis.delays import DELAYS, PERCENTILES, delays, rtt_samples
from ccmix.analysis.fairness import jain_index
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import grown, measured
from ccmix.analysis.tables import RunTables, bytes_sent
from ccmix.model import Run, Topology, UdpFlows


def run_metrics(run: Run, tables: RunTables, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json keeps as `metrics`: `groups`, `flows`, and those of the whole run; units are in the names.

    `facts` is what was measured before and after the traffic. Lines of short flows are `completions`, see
    completion_metrics(). They are groups too; their goodput is what their sockets' peers acknowledged in the measured
    time, as is that of a command's flows. A group is of one host. Where nobody looked at the sockets, retransmissions
    and RTTs are what iperf3 tells of them, see iperf3_tables.read_told().
    """
    samples = rtt_samples(run, tables, facts["ping_rtt_s"])
    flows = tables.flows.join(_segments(run, tables), on=FLOW, how="left", maintain_order="left").join(
        samples.group_by(FLOW).agg(**DELAYS), on=FLOW, how="left", maintain_order="left"
    )
    completed = completion_metrics(run, tables.completions)
    carried = tables.short_flows.to_dicts()
    goodput_bps = float(flows["goodput_bps"].sum()) + sum(one["goodput_bps"] for one in carried)
    tcp = _of_tcp(run, flows)
    all_tcp = tcp.height == flows.height and not completed
    intervals = _intervals(run, tables)
    getting_going = _getting_going(run, flows, intervals)
    groups = [
        _group(name, flows.filter(pl.col("group") == name), goodput_bps)
        | {"fair_share": flows.filter(pl.col("group") == name).height / flows.height if all_tcp else None}
        | delays(samples.filter(pl.col("group") == name))
        | dynamics.start_up(run, intervals.filter(pl.col("group") == name))
        for name in dict.fromkeys(flows["group"])
    ]
    return {
        "goodput_bps": goodput_bps,
        "utilisation": goodput_bps / _mean_rate_bps(run) if isinstance(run.path, Topology) else None,
        "bytes_sent": _bytes_sent(tables),
        "fairness": jain_index(tcp["goodput_bps"].to_list()),
        "fairness_of_groups": jain_index(
            tcp.group_by("group", maintain_order=True).agg(pl.col("goodput_bps").mean())["goodput_bps"].to_list()
        ),
        "retransmission_rate": _retransmission_rate(flows),
        **delays(samples),
        **dynamics.start_up(run, intervals),
        "convergence_s": dynamics.convergence_s(run, _of_tcp(run, intervals)),
        "netem_loss": path_metrics.netem_loss(run, facts),
        "bottleneck": path_metrics.bottleneck(run, tables),
        "cpu_s_per_gbit": path_metrics.cpu_s_per_gbit(run, tables, goodput_bps),
        "rtt_probe": _rtt_probe(run, tables.series.rtt),
        "groups": groups + [_of_short_flows(*both, goodput_bps) for both in zip(completed, carried, strict=True)],
        "completions": completed,
        "flows": [_flow(flow, goodput_bps) | getting_going[flow["host"], flow["port"]] for flow in flows.to_dicts()],
    }


def _getting_going(
    run: Run, flows: pl.DataFrame, intervals: pl.DataFrame
) -> dict[dynamics.Flow, dict[str, float | None]]:
    """Of each flow: start-up, overshoot and convergence."""
    each = {(host, port): of_flow for (host, port), of_flow in intervals.group_by(FLOW, maintain_order=True)}
    converged = dynamics.convergence_of_flows_s(run, _of_tcp(run, intervals))
    return {
        flow: dynamics.start_up(run, each.get(flow, intervals.clear())) | {"convergence_s": converged.get(flow)}
        for flow in flows.select(FLOW).iter_rows()
    }


def _intervals(run: Run, tables: RunTables) -> pl.DataFrame:
    if tables.intervals.is_empty():
        return pl.DataFrame(
            schema={"interval": pl.Int64, "host": pl.String, "port": pl.Int64, "group": pl.String, "goodput_bps": float}
        )
    return dynamics.goodputs(run, tables.intervals)


def _mean_rate_bps(run: Run) -> float:
    """Of the bottleneck over the measured time."""
    return path_metrics.mean_rate_bps(run, run.traffic.omit_s, run.traffic.seconds)


def _of_tcp(run: Run, flows: pl.DataFrame) -> pl.DataFrame:
    of_udp = [run.group_name(line) for line in run.traffic.flows if isinstance(line.what, UdpFlows)]
    return flows.filter(~pl.col("group").is_in(of_udp))


def _rtt_probe(run: Run, asked: pl.DataFrame) -> dict[str, Any] | None:
    if asked.is_empty():
        return None
    rtts_s = measured(run, asked)["rtt_s"]
    return {
        "questions": rtts_s.len(),
        "unanswered": rtts_s.null_count() / rtts_s.len() if rtts_s.len() else None,
        **{f"{name}_s": rtts_s.quantile(share, "linear") for name, share in PERCENTILES.items()},
    }


def _bytes_sent(tables: RunTables) -> int:
    """The larger of what the sockets had sent at their last samples, and what the generator says that it sent."""
    return max(bytes_sent(tables.sockets), int(tables.flows["bytes_sent"].sum()))


def _segments(run: Run, tables: RunTables) -> pl.DataFrame:
    """Per flow: data segments and retransmissions within the measured time."""
    if tables.told is not None:
        return tables.told.drop("rtts_s")
    return (
        measured(run, tables.sockets)
        .sort("time_s")
        .group_by(FLOW)
        .agg(data_segments=grown("data_segs_out"), retransmitted_segments=grown("retransmits"))
    )


def _retransmission_rate(flows: pl.DataFrame) -> float | None:
    segments, retransmitted = int(flows["data_segments"].sum()), int(flows["retransmitted_segments"].sum())
    return retransmitted / segments if segments else None


def _of_short_flows(completed: dict[str, Any], carried: dict[str, Any], run_bps: float) -> dict[str, Any]:
    """A line of short flows as a group beside the others."""
    return {
        "group": carried["group"],
        "host": carried["host"],
        "cca": completed["cca"],
        "streams": completed["completed"],
        "goodput_bps": carried["goodput_bps"],
        "throughput_bps": carried["throughput_bps"],
        "retransmission_rate": None,
        "share": carried["goodput_bps"] / run_bps if run_bps else None,
        "fair_share": None,
        "rtt_median_s": None,
    }


def _flow(flow: dict[str, Any], run_bps: float) -> dict[str, Any]:
    segments = flow["data_segments"]
    return flow | {
        "retransmission_rate": flow["retransmitted_segments"] / segments if segments else None,
        "share": flow["goodput_bps"] / run_bps if run_bps else None,
    }


def _only(names: pl.Series) -> str:
    """What all flows have, such as their CCA; several, joined, where they differ."""
    return ",".join(map(str, names.drop_nulls().unique(maintain_order=True))) or "-"


def _group(name: str, flows: pl.DataFrame, run_bps: float) -> dict[str, Any]:
    goodput_bps = float(flows["goodput_bps"].sum())
    return {
        "group": name,
        "host": _only(flows["host"]),
        "cca": _only(flows["cca_used"]),
        "streams": flows.height,
        "goodput_bps": goodput_bps,
        "throughput_bps": float(flows["throughput_bps"].sum()),
        "retransmission_rate": _retransmission_rate(flows),
        "fairness": jain_index(flows["goodput_bps"].to_list()),
        "share": goodput_bps / run_bps if run_bps else None,
    }
