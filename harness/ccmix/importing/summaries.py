"""The metrics of a run of which a summary is all that there is: what nothing tells is null."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from ccmix.importing.found import GroupSums

_NO_SERIES: dict[str, Any] = {
    "rtt_p95_s": None, "rtt_p99_s": None, "queueing_delay_median_s": None, "queueing_delay_p95_s": None,
    "queueing_delay_p99_s": None, "startup_s": None, "overshoot": None,
}  # fmt: skip


def summary_metrics(groups: Sequence[GroupSums], rtt_median_s: float | None) -> dict[str, Any]:
    """As analysis.metrics.run_metrics(), of groups whose flows nobody told apart."""
    goodput_bps = sum(group.goodput_bps for group in groups)
    streams = sum(group.streams for group in groups)
    rates = {group.retransmission_rate for group in groups}
    return {
        "goodput_bps": goodput_bps,
        "utilisation": None,
        "bytes_sent": None,
        "fairness": None,
        "fairness_of_groups": None,
        "retransmission_rate": rates.pop() if len(groups) == 1 else None,  # of several: segments aren't told
        "rtt_median_s": rtt_median_s,
        **_NO_SERIES,
        "convergence_s": None,
        "netem_loss": None,
        "bottleneck": None,
        "cpu_s_per_gbit": {},
        "rtt_probe": None,
        "groups": [
            {
                "group": group.cca,
                "host": "src",
                "cca": group.cca,
                "streams": group.streams,
                "goodput_bps": group.goodput_bps,
                "throughput_bps": group.throughput_bps,
                "retransmission_rate": group.retransmission_rate,
                "fairness": None,
                "share": group.goodput_bps / goodput_bps if goodput_bps else None,
                "fair_share": group.streams / streams if streams else None,
                "rtt_median_s": group.rtt_median_s,
                **_NO_SERIES,
            }
            for group in groups
        ],
        "completions": [],
        "flows": [],
    }


def with_gaps(metrics: dict[str, Any], flows: pl.DataFrame) -> dict[str, Any]:
    """The same, with null for sums over flows of which none tells: run_metrics() takes those for 0."""

    def gap(column: str, of: pl.DataFrame) -> bool:
        return of[column].null_count() == of.height

    groups = [
        group
        | ({"throughput_bps": None} if gap("throughput_bps", flows.filter(pl.col("group") == group["group"])) else {})
        for group in metrics["groups"]
    ]
    return metrics | {"groups": groups} | ({"bytes_sent": None} if gap("bytes_sent", flows) else {})
