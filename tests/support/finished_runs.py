"""Finished runs with chosen numbers, and everything else plain."""

from collections.abc import Mapping, Sequence
from typing import Any

from ccmix.model import Facts, PingRtts, Run, Topology
from ccmix.model.results import (
    CampaignOrigin,
    CampaignPlan,
    Execution,
    Finding,
    FinishedRun,
    FlowMetrics,
    GroupMetrics,
    Metrics,
    Status,
    Verdict,
)

FACTS = Facts("7.2.12-ccmix", iperf3="iperf 3.20+ccmix1", sysctls={"net.ipv4.tcp_sack": "1"})


def group_metrics(group: str, goodput_bps: float = 1e6, **others: Any) -> GroupMetrics:
    known: dict[str, Any] = {
        "host": "h1",
        "cca": group,
        "streams": 1,
        "throughput_bps": None,
        "retransmission_rate": None,
    }
    return GroupMetrics(group=group, goodput_bps=goodput_bps, **known | others)


def flow_metrics(port: int, group: str, goodput_bps: float = 1e6, **others: Any) -> FlowMetrics:
    known: dict[str, Any] = {
        "host": "h1",
        "stream": None,
        "cca_asked": group,
        "cca_used": group,
        "throughput_bps": None,
        "retransmits": None,
        "bytes_sent": None,
        "data_segments": None,
        "retransmitted_segments": None,
        "retransmission_rate": None,
        "share": None,
        "convergence_s": None,
    }
    return FlowMetrics(port=port, group=group, goodput_bps=goodput_bps, **known | others)


def metrics(groups: Sequence[GroupMetrics] = (), **others: Any) -> Metrics:
    known: dict[str, Any] = {
        "goodput_bps": sum(group.goodput_bps for group in groups),
        "utilisation": None,
        "bytes_sent": None,
        "fairness": None,
        "fairness_of_groups": None,
        "retransmission_rate": None,
        "convergence_s": None,
        "netem_loss": None,
    }
    return Metrics(groups=tuple(groups), **known | others)


def finished_run(
    run: Run,
    of_run: Metrics | None = None,
    status: Status = "valid",
    findings: Sequence[Finding] = (),
    facts: Facts = FACTS,
    ping_rtt_s: PingRtts | None = None,
    **others: Any,
) -> FinishedRun:
    known: dict[str, Any] = {
        "execution": Execution("lab" if isinstance(run.path, Topology) else "hosts"),
        "started_s": 1.7e9,
        "began_s": 1.7e9,
        "ended_s": 1.7e9 + 10,
    }
    return FinishedRun(
        run=run,
        facts=facts,
        metrics=of_run or metrics(),
        verdict=Verdict(status, tuple(findings)),
        ping_rtt_s=ping_rtt_s or {},
        **known | others,
    )


def campaign_plan(
    runs: Sequence[Run],
    ini: str = "",
    unknown: Mapping[str, tuple[str, ...]] | None = None,
    **origin: Any,
) -> CampaignPlan:
    return CampaignPlan(CampaignOrigin(**origin), ini, tuple(runs), unknown=dict(unknown or {}))
