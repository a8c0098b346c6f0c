"""Campaigns made by hand: results with series, as the report loads them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.model import Buffer, Group, Loss, Run, Topology, Traffic
from ccmix.report.results import Result, Results, load_results
from support import REPOSITORY

TOPOLOGY = Topology(rate_bps=1e9, delay_s=0.005, loss=None, buffer=Buffer(1.0, "bdp"), mtu_bytes=1500, offloads=False)
Goodput = Callable[[str, int, Topology], float]  # of a CCA's flows together, by iteration and path, bit/s
Make = Callable[..., Results]


def topology(condition: Mapping[str, str]) -> Topology:
    """What a condition of these tests makes of the path."""
    made = TOPOLOGY
    if "delay" in condition:
        made = replace(made, delay_s=float(condition["delay"].removesuffix("ms")) / 1e3)
    if "loss" in condition:
        made = replace(made, loss=Loss("random", (float(condition["loss"].removesuffix("%")) / 100,)))
    if "buffer" in condition:
        made = replace(made, buffer=Buffer(float(condition["buffer"].removesuffix("bdp")), "bdp"))
    return made


def summary(groups: Sequence[Group], run: Run, goodput: Goodput, status: str) -> dict[str, Any]:
    rates = {group.cca: goodput(group.cca, run.iteration, run.topology) for group in groups}
    total, flows = sum(rates.values()), sum(group.weight for group in groups)
    each = [
        {
            "group": group.cca, "cca": group.cca, "streams": group.weight, "goodput_bps": rates[group.cca],
            "retransmission_rate": 0.001 * run.iteration, "rtt_median_s": run.topology.base_rtt_s,
            "share": rates[group.cca] / total, "fair_share": group.weight / flows,
        }
        for group in groups
    ]  # fmt: skip
    per_flow = [rates[group.cca] / group.weight for group in groups for _ in range(group.weight)]
    return {
        "where": {"machine": "lab"},
        "facts": {"kernel": "7.2.12-ccmix", "iperf3": "iperf 3.20+ccmix1"},
        "metrics": {
            "goodput_bps": total, "utilisation": total / run.topology.rate_bps, "groups": each,
            "fairness": sum(per_flow) ** 2 / (len(per_flow) * sum(rate**2 for rate in per_flow)),
            "retransmission_rate": 0.001 * run.iteration, "completions": [],
        },
        "validity": {"status": status, "findings": []},
    }  # fmt: skip


def intervals(groups: Sequence[Group]) -> pl.DataFrame:
    """Three seconds, of which the first isn't measured: 50 Mbit/s and 4 lost segments of each group."""
    rows = [
        {"time_s": time_s, "seconds": 1.0, "port": 40000 + 2 * number, "group": group.cca, "omitted": time_s <= 1,
         "goodput_bps": 50e6, "retransmits": 4}
        for time_s in (1.0, 2.0, 3.0) for number, group in enumerate(groups)
    ]  # fmt: skip
    return pl.DataFrame(rows)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Results of entries (name: groups) in conditions, with some iterations; `invalid` are numbers of runs."""

    def made(
        entries: Mapping[str, Sequence[Group]],
        conditions: Sequence[Mapping[str, str]],
        iterations: int = 3,
        goodput: Goodput = lambda cca, iteration, _: (1e8 if cca == "cubic" else 2e8) + 1e7 * iteration,
        invalid: Sequence[int] = (),
        folder: str = "runs",
    ) -> Results:
        results: list[Result] = []
        for name, groups in entries.items():
            streams = sum(group.weight for group in groups)
            traffic = Traffic(tuple(groups), streams, duration_s=2.0, omit_s=1.0, interval_s=1.0)
            for condition in conditions:
                for iteration in range(1, iterations + 1):
                    run = Run(name, dict(condition), "receiver", iteration, 7, traffic, topology(condition))
                    place = tmp_path / folder / f"{len(results):03d}"
                    place.mkdir(parents=True)
                    intervals(groups).write_parquet(place / "intervals.parquet")
                    status = "limited" if len(results) in invalid else "valid"
                    results.append(Result(run, summary(groups, run, goodput, status), place))
        return Results(tuple(results), len(results))

    return made


@pytest.fixture(scope="session")
def demo() -> Results:
    return load_results([REPOSITORY / "archive" / "demo"])
