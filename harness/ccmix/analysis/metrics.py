"""Metrics of one run, per flow, per group and for the whole run; each with unit and source in its name or docstring."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from ccmix.analysis.completions import completion_metrics
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.tables import RunTables, bytes_sent
from ccmix.model import Run, Topology, UdpFlows

JITTER_S = 1e-3  # of samples that are at the same even moment: one after the other, and by a clock in steps


def jain_index(values: Sequence[float]) -> float | None:
    """Jain's fairness index, (sum x)^2 / (n sum x^2), RFC 5166 section 2.3; None where all are zero."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def run_metrics(run: Run, tables: RunTables) -> dict[str, Any]:
    """What run.json keeps as `metrics`: `groups`, `flows`, and the whole run's sums.

    goodput_bps: application bytes received / time, omitted time left out, as iperf3's receiver counts it.
    retransmission_rate: retransmitted segments / data segments sent (tcpi_total_retrans, tcpi_data_segs_out), between
    the first sample after the omitted time and the last one.
    Where nobody looked at the sockets, both are of what iperf3 tells of them, see iperf3_tables.read_told().
    rtt_median_s: of the smoothed RTTs of all samples of the group's flows in that time.
    fairness: Jain's index over TCP flows. utilisation: goodput / bottleneck rate, the mean of one that changes; None
    where nobody configured that.
    rtt_probe: of ccmix-rtt's questions in the measured time, how many were sent and the share without an answer; of the
    RTTs median, p95 and p99 (interpolated linearly); None without the probe.
    completions: of lines of short flows, see completion_metrics(). They are groups too; their goodput is what their
    sockets' peers acknowledged in the measured time, as is that of a command's flows. A group is of one host.
    bytes_sent: by all flows; retransmissions and the omitted time are included as far as the sockets were sampled.
    """
    sent = _segments(run, tables)
    flows = tables.flows.join(sent, on=FLOW, how="left")
    groups = [_group(name, flows.filter(pl.col("group") == name)) for name in dict.fromkeys(flows["group"])]
    completed = completion_metrics(run, tables.completions)
    short = [_of_short_flows(*both) for both in zip(completed, tables.short_flows.to_dicts(), strict=True)]
    goodput_bps = sum(group["goodput_bps"] for group in (*groups, *short))
    return {
        "goodput_bps": goodput_bps,
        "utilisation": goodput_bps / _mean_rate_bps(run) if isinstance(run.path, Topology) else None,
        "bytes_sent": _bytes_sent(tables),
        "fairness": jain_index(_of_tcp(run, flows)["goodput_bps"].to_list()),
        "rtt_probe": _rtt_probe(run, tables.series.rtt),
        "groups": groups + short,
        "completions": completed,
        "flows": flows.drop("rtts_s").to_dicts(),
    }


def _mean_rate_bps(run: Run) -> float:
    """Of the bottleneck over the measured time, in which it may change."""
    begin_s, end_s = run.traffic.omit_s, run.traffic.seconds
    phases = run.topology.phases
    ends_s = [*(at_s for at_s, _ in phases[1:]), end_s]
    bits = sum(
        phase.rate_bps * max(0.0, min(until_s, end_s) - max(at_s, begin_s))
        for (at_s, phase), until_s in zip(phases, ends_s, strict=True)
    )
    return bits / run.traffic.duration_s


def _of_tcp(run: Run, flows: pl.DataFrame) -> pl.DataFrame:
    of_udp = [run.group_name(line) for line in run.traffic.flows if isinstance(line.what, UdpFlows)]
    return flows.filter(~pl.col("group").is_in(of_udp))


def measured(run: Run, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of a series that lie in the measured time, the omitted time left out.

    That of a command of the user's lasts as long as the command.
    """
    end_s = run.traffic.seconds if run.traffic.groups or isinstance(run.path, Topology) else float("inf")
    return frame.filter(pl.col("time_s").is_between(run.traffic.omit_s - JITTER_S, end_s + JITTER_S))


def _rtt_probe(run: Run, asked: pl.DataFrame) -> dict[str, Any] | None:
    if asked.is_empty():
        return None
    rtts_s = measured(run, asked)["rtt_s"]
    shares = {"median_s": 0.5, "p95_s": 0.95, "p99_s": 0.99}
    return {
        "questions": rtts_s.len(),
        "unanswered": rtts_s.null_count() / rtts_s.len() if rtts_s.len() else None,
        **{name: rtts_s.quantile(share, "linear") for name, share in shares.items()},
    }


def grown(counter: str) -> pl.Expr:
    """How much a kernel's counter of 32 bits, which may have started again from 0 once, grew over the rows."""
    return (pl.col(counter).last() - pl.col(counter).first()).cast(pl.Int64)


def _bytes_sent(tables: RunTables) -> int:
    """The larger of what the sockets had sent at their last samples, and what the generator says that it sent."""
    return max(bytes_sent(tables.sockets), int(tables.flows["bytes_sent"].sum()))


def _segments(run: Run, tables: RunTables) -> pl.DataFrame:
    """Per flow: data segments and retransmissions within the measured time, and all RTT samples."""
    if tables.told is not None:
        return tables.told
    return (
        measured(run, tables.sockets)
        .sort("time_s")
        .group_by(FLOW)
        .agg(
            data_segments=grown("data_segs_out"),
            retransmitted_segments=grown("retransmits"),
            rtts_s=pl.col("rtt_s"),
        )
    )


def _of_short_flows(completed: dict[str, Any], carried: dict[str, Any]) -> dict[str, Any]:
    """A line of short flows as a group beside the others."""
    return {
        "group": carried["group"],
        "host": carried["host"],
        "cca": completed["cca"],
        "streams": completed["completed"],
        "goodput_bps": carried["goodput_bps"],
        "throughput_bps": carried["throughput_bps"],
        "retransmission_rate": None,
        "rtt_median_s": None,
    }


def _only(names: pl.Series) -> str:
    """What all flows have, such as their CCA; several, joined, where they differ."""
    return ",".join(map(str, names.drop_nulls().unique(maintain_order=True))) or "-"


def _group(name: str, flows: pl.DataFrame) -> dict[str, Any]:
    segments, retransmitted = int(flows["data_segments"].sum()), int(flows["retransmitted_segments"].sum())
    return {
        "group": name,
        "host": _only(flows["host"]),
        "cca": _only(flows["cca_used"]),
        "streams": flows.height,
        "goodput_bps": float(flows["goodput_bps"].sum()),
        "throughput_bps": float(flows["throughput_bps"].sum()),
        "retransmission_rate": retransmitted / segments if segments else None,
        "rtt_median_s": flows["rtts_s"].explode().median(),
    }
