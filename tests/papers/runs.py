"""Makes runs with chosen numbers, as an experiment's runs would be."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ccmix.model import Buffer, Group, Run
from ccmix.model.results import FinishedRun, GroupMetrics
from ccmix.papers.experiment import Criterion, Quotient, RunNumber
from ccmix.units import parse_rate
from support.finished_runs import finished_run, group_metrics, metrics
from support.model import iperf3_traffic, one_sender

NEAR = Criterion(least_rank=0.95, most_factor=2.0)
PATH = one_sender(
    rate_bps=1e9, delay_s=0.01, loss=None, buffer=Buffer(1.0, "bdp"), mtu_bytes=1500, offloads=False
)


def run_of(
    goodput_bps: Mapping[str, float],
    iteration: int,
    condition: Mapping[str, str],
    entry: str = "entry",
    **others: Any,
) -> FinishedRun:
    """Returns a run with a group of one flow for each CCA."""
    total = sum(goodput_bps.values())
    groups = [
        group_metrics(cca, rate, share=rate / total if total else None)
        for cca, rate in goodput_bps.items()
    ]
    return run_with(groups, iteration, condition, entry, **others)


def run_with(
    groups: Sequence[GroupMetrics],
    iteration: int,
    condition: Mapping[str, str],
    entry: str = "entry",
    buffer_bytes: float | None = None,
    **others: Any,
) -> FinishedRun:
    """Returns a run on a path of 20 ms with the swept rate, or 1 Gbit/s, and a buffer of 1 BDP
    unless one is given.
    """
    ccas = tuple(Group(group.cca) for group in groups)
    traffic = iperf3_traffic(ccas, len(ccas), duration_s=60.0, omit_s=0.0, interval_s=1.0)
    path = replace(PATH, rate_bps=parse_rate(condition["rate"])) if "rate" in condition else PATH
    path = path if buffer_bytes is None else replace(path, buffer=Buffer(buffer_bytes, "byte"))
    run = Run(
        entry, dict(condition), "receiver", iteration, seed=iteration, path=path, traffic=traffic
    )
    return finished_run(run, metrics(groups, **others))


def quotient(over: RunNumber, under: RunNumber) -> Quotient:
    """Returns the ratio of two single numbers."""
    return Quotient((over,), (under,))
