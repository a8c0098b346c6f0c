"""The metrics of run.json that documents carry under names of their own; archives of earlier versions lack some."""

from ccmix.analysis.statistics import metric
from ccmix.index.json_types import Document
from ccmix.model.results import FlowMetrics, GroupMetrics, Metrics, Settling

OF_DELAY = ("rtt_p95_s", "rtt_p99_s", "queueing_delay_median_s", "queueing_delay_p95_s", "queueing_delay_p99_s")
OF_START_UP = ("startup_s", "overshoot")
OF_GROUP = (*OF_DELAY, *OF_START_UP, "fair_share")
OF_FLOW = (*OF_DELAY, *OF_START_UP, "convergence_s")
OF_RUN = (*OF_DELAY, *OF_START_UP, "fairness_of_groups", "convergence_s", "netem_loss", "receiver_window_limited")
OF_BOTTLENECK = (
    "backlog_mean_bytes",
    "backlog_p95_bytes",
    "backlog_max_bytes",
    "occupancy_mean",
    "drop_rate",
    "utilisation",
)
OF_POLICER = ("drops", "drop_rate")


def of_run(metrics: Metrics) -> Document:
    in_queue = {f"ccmix.bottleneck.{name}": metric(metrics, f"bottleneck.{name}") for name in OF_BOTTLENECK}
    policed = {f"ccmix.policer.{name}": metric(metrics, f"policer.{name}") for name in OF_POLICER}
    return _named(metrics, OF_RUN) | in_queue | policed


def of_settling(settling: Settling | None, measured_s: float | None) -> Document:
    if settling is None:
        return {}
    names = ("warm_up_s", "slowest_period_s", "enough_omit_s")
    numbers: Document = {f"ccmix.settling.{name}": getattr(settling, name) for name in names}
    numbers["ccmix.settling.enough_s"] = measured_s if settling.settled else settling.enough_s
    return numbers | {"ccmix.settling.reasons": list(settling.reasons) or None}


def of_group(group: GroupMetrics) -> Document:
    return _named(group, OF_GROUP)


def of_flow(flow: FlowMetrics) -> Document:
    return _named(flow, OF_FLOW)


def of_host(metrics: Metrics, role: str) -> Document:
    return {"ccmix.host.cpu_s_per_gbit": metrics.cpu_s_per_gbit.get(role)}


def _named(metrics: Metrics | GroupMetrics | FlowMetrics, names: tuple[str, ...]) -> Document:
    return {f"ccmix.{name}": getattr(metrics, name) for name in names}
