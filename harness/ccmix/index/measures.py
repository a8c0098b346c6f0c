"""The metrics of run.json that documents carry under names of their own; archives of earlier versions lack some."""

from collections.abc import Mapping
from typing import Any

from ccmix.index.context import Document

OF_DELAY = ("rtt_p95_s", "rtt_p99_s", "queueing_delay_median_s", "queueing_delay_p95_s", "queueing_delay_p99_s")
OF_START_UP = ("startup_s", "overshoot")
OF_GROUP = (*OF_DELAY, *OF_START_UP, "fair_share")
OF_FLOW = (*OF_DELAY, *OF_START_UP, "convergence_s")
OF_RUN = (*OF_DELAY, *OF_START_UP, "fairness_of_groups", "convergence_s", "netem_loss")
OF_BOTTLENECK = (
    "backlog_mean_bytes",
    "backlog_p95_bytes",
    "backlog_max_bytes",
    "occupancy_mean",
    "drop_rate",
    "utilisation",
)


def of_run(metrics: Mapping[str, Any]) -> Document:
    bottleneck = metrics.get("bottleneck") or {}
    return _named(metrics, OF_RUN) | {f"ccmix.bottleneck.{name}": bottleneck.get(name) for name in OF_BOTTLENECK}


def of_group(group: Mapping[str, Any]) -> Document:
    return _named(group, OF_GROUP)


def of_flow(flow: Mapping[str, Any]) -> Document:
    return _named(flow, OF_FLOW)


def of_host(metrics: Mapping[str, Any], role: str) -> Document:
    return {"ccmix.host.cpu_s_per_gbit": metrics.get("cpu_s_per_gbit", {}).get(role)}


def _named(found: Mapping[str, Any], names: tuple[str, ...]) -> Document:
    return {f"ccmix.{name}": found.get(name) for name in names}
