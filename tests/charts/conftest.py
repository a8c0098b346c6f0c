"""Makes campaigns by hand: results with series, as the report loads them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ccmix.analysis.results import Result, Results, load_results
from ccmix.model import Buffer, Group, Loss, Run, Topology
from ccmix.model.results import FinishedRun, Status
from support.finished_runs import finished_run, group_metrics, metrics
from support.model import iperf3_traffic, one_sender, with_senders
from support.published_archives import DEMO

TOPOLOGY = one_sender(
    rate_bps=1e9,
    delay_s=0.005,
    loss=None,
    buffer=Buffer(1.0, "bdp"),
    mtu_bytes=1500,
    offloads=False,
)
Goodput = Callable[
    [str, int, Topology], float
]  # total of a CCA's flows, by iteration and path, bit/s
Make = Callable[..., Results]


def topology(condition: Mapping[str, str]) -> Topology:
    """Returns the path of a condition of these tests."""
    made = TOPOLOGY
    if "delay" in condition:
        made = with_senders(made, delay_s=float(condition["delay"].removesuffix("ms")) / 1e3)
    if "loss" in condition:
        loss = float(condition["loss"].removesuffix("%")) / 100
        made = with_senders(made, loss=Loss("random", (loss,)) if loss else None)
    if "buffer" in condition:
        made = replace(made, buffer=Buffer(float(condition["buffer"].removesuffix("bdp")), "bdp"))
    return made


def finished(groups: Sequence[Group], run: Run, goodput: Goodput, status: Status) -> FinishedRun:
    rates = {group.cca: goodput(group.cca, run.iteration, run.topology) for group in groups}
    total, flows = sum(rates.values()), sum(group.weight for group in groups)
    each = [
        group_metrics(
            group.cca,
            rates[group.cca],
            streams=group.weight,
            retransmission_rate=0.001 * run.iteration,
            rtt_median_s=run.topology.base_rtt_s,
            share=rates[group.cca] / total,
            fair_share=group.weight / flows,
        )
        for group in groups
    ]
    per_flow = [rates[group.cca] / group.weight for group in groups for _ in range(group.weight)]
    of_run = metrics(
        each,
        utilisation=total / run.topology.rate_bps,
        fairness=sum(per_flow) ** 2 / (len(per_flow) * sum(rate**2 for rate in per_flow)),
        retransmission_rate=0.001 * run.iteration,
    )
    return finished_run(run, of_run, status)


def intervals(groups: Sequence[Group]) -> pl.DataFrame:
    """Returns three seconds, of which the first isn't measured: 50 Mbit/s and 4 lost segments of
    each group.
    """
    rows = [
        {
            "time_s": time_s,
            "seconds": 1.0,
            "port": 40000 + 2 * number,
            "group": group.cca,
            "omitted": time_s <= 1,
            "goodput_bps": 50e6,
            "retransmits": 4,
        }
        for time_s in (1.0, 2.0, 3.0)
        for number, group in enumerate(groups)
    ]
    return pl.DataFrame(rows)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes results of entries (name: groups) in conditions, with some iterations; `invalid` are
    numbers of runs.
    """

    def made(
        entries: Mapping[str, Sequence[Group]],
        conditions: Sequence[Mapping[str, str]],
        iterations: int = 3,
        goodput: Goodput = lambda cca, iteration, _: (
            (1e8 if cca == "cubic" else 2e8) + 1e7 * iteration
        ),
        invalid: Sequence[int] = (),
        folder: str = "runs",
    ) -> Results:
        results: list[Result] = []
        for name, groups in entries.items():
            streams = sum(group.weight for group in groups)
            traffic = iperf3_traffic(
                tuple(groups), streams, duration_s=2.0, omit_s=1.0, interval_s=1.0
            )
            for condition in conditions:
                for iteration in range(1, iterations + 1):
                    run = Run(
                        name,
                        dict(condition),
                        "receiver",
                        iteration,
                        7,
                        traffic,
                        topology(condition),
                    )
                    place = tmp_path / folder / f"{len(results):03d}"
                    place.mkdir(parents=True)
                    intervals(groups).write_parquet(place / "intervals.parquet")
                    status: Status = "limited" if len(results) in invalid else "valid"
                    results.append(Result(finished(groups, run, goodput, status), place))
        return Results(tuple(results), len(results))

    return made


@pytest.fixture(scope="session")
def demo() -> Results:
    return load_results([DEMO])
