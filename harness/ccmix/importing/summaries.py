"""Computes metrics of a run whose source is a summary; what the source does not report is None."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from ccmix.importing.foreign_run import GroupSums
from ccmix.model.results import GroupMetrics, Metrics


def summary_metrics(groups: Sequence[GroupSums], rtt_median_s: float | None) -> Metrics:
    """Returns the metrics of groups whose flows the source does not report one by one."""
    goodput_bps = sum(group.goodput_bps for group in groups)
    streams = sum(group.streams for group in groups)
    rates = {group.retransmission_rate for group in groups}
    return Metrics(
        goodput_bps=goodput_bps,
        utilisation=None,
        bytes_sent=None,
        fairness=None,
        fairness_of_groups=None,
        retransmission_rate=rates.pop() if len(groups) == 1 else None,  # the segments of several are not reported
        rtt_median_s=rtt_median_s,
        convergence_s=None,
        netem_loss=None,
        groups=tuple(
            GroupMetrics(
                group=group.cca,
                host="src",
                cca=group.cca,
                streams=group.streams,
                goodput_bps=group.goodput_bps,
                throughput_bps=group.throughput_bps,
                retransmission_rate=group.retransmission_rate,
                share=group.goodput_bps / goodput_bps if goodput_bps else None,
                fair_share=group.streams / streams if streams else None,
                rtt_median_s=group.rtt_median_s,
            )
            for group in groups
        ),
    )


def with_gaps(metrics: Metrics, flows: pl.DataFrame) -> Metrics:
    """Returns the metrics with None for sums over flows if no flow reports the value: run_metrics() sums those to 0."""

    def gap(column: str, rows: pl.DataFrame) -> bool:
        return rows[column].null_count() == rows.height

    groups = tuple(
        replace(group, throughput_bps=None)
        if gap("throughput_bps", flows.filter(pl.col("group") == group.group))
        else group
        for group in metrics.groups
    )
    return replace(metrics, groups=groups, bytes_sent=None if gap("bytes_sent", flows) else metrics.bytes_sent)
