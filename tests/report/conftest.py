"""Makes a campaign folder by hand: two entries, two conditions, three iterations; one run is not
valid, one missing.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from ccmix.analysis.results import Results, load_results
from ccmix.archive import Campaign, RunFolder
from ccmix.model import Buffer, Command, Group, Run
from ccmix.model.results import BottleneckMetrics, Finding, FinishedRun, Status
from support.finished_runs import (
    FACTS,
    campaign_plan,
    finished_run,
    flow_metrics,
    group_metrics,
    metrics,
)
from support.model import iperf3_traffic, one_sender, with_senders

BOTTLENECK = BottleneckMetrics(
    backlog_mean_bytes=0,
    backlog_median_bytes=0,
    backlog_p95_bytes=0,
    backlog_p99_bytes=0,
    backlog_max_bytes=0,
    occupancy_mean=0.5,
    drops=0,
    drop_rate=0.001,
    utilisation=1.0,
)
TOPOLOGY = one_sender(
    rate_bps=1e9,
    delay_s=0.005,
    loss=None,
    buffer=Buffer(1.0, "bdp"),
    mtu_bytes=1500,
    offloads=False,
)
TRAFFIC = iperf3_traffic(
    groups=(Group("cubic"), Group("bbr")), streams=2, duration_s=2.0, omit_s=1.0, interval_s=1.0
)
GOODPUT_BPS = {1: 100e6, 2: 110e6, 3: 120e6}  # of CUBIC by iteration; BBR has twice that

INI = "[topology <a&b>]\nrate = 1gbit\n"
COMMAND = (
    "/somewhere/ccmix",
    "run",
    "configs/test.ini",
    "--lab",
    "-o",
    "results/test",
    "--seed",
    "1",
)

Make = Callable[..., Path]  # of the entries' names


def runs(names: tuple[str, ...]) -> list[Run]:
    return [
        Run(
            name,
            {"delay": delay},
            "receiver",
            iteration,
            7,
            TRAFFIC,
            with_senders(TOPOLOGY, delay_s=delay_s),
        )
        for name in names
        for iteration in GOODPUT_BPS
        for delay, delay_s in (("5ms", 0.005), ("44ms", 0.044))
    ]


def finished(run: Run, status: Status = "valid") -> FinishedRun:
    goodput_bps = GOODPUT_BPS[run.iteration]
    groups = [
        group_metrics(
            cca,
            goodput_bps * factor,
            retransmission_rate=0.01 * run.iteration,
            rtt_median_s=0.01 * run.iteration,
            share=factor / 3,
            fair_share=0.5,
            fairness=1.0,
            startup_s=factor / 2,
            overshoot=0.1 * run.iteration,
        )
        for cca, factor in (("cubic", 1), ("bbr", 2))
    ]
    findings = (
        [] if status == "valid" else [Finding("rtt", "a path of <another> RTT", accepted=False)]
    )
    of_run = metrics(
        groups,
        fairness=0.9,
        utilisation=3 * goodput_bps / 1e9,
        convergence_s=2.5 if run.iteration == 1 else None,
        bottleneck=BOTTLENECK,
        flows=(
            flow_metrics(40000, "cubic", 50e6, startup_s=1.5),
            flow_metrics(40002, "bbr", 50e6, startup_s=1.5),
        ),
    )
    command = Command("h1 client", "iperf3 --client 10.0.3.2 --congestion cubic,bbr")
    return finished_run(run, of_run, status, findings, replace(FACTS, commands=(command,)))


def finish(outdir: Path, run: Run, status: Status = "valid") -> None:
    folder = RunFolder.of(outdir, run)
    intervals = pl.DataFrame(
        [
            {
                "time_s": time_s,
                "seconds": 1.0,
                "port": port,
                "group": cca,
                "omitted": time_s <= 1,
                "goodput_bps": 50e6,
                "retransmits": 4,
            }
            for time_s in (1.0, 2.0, 3.0)
            for port, cca in ((40000, "cubic"), (40002, "bbr"))
        ]
    )
    intervals.write_parquet(folder.begin() / "intervals.parquet")
    folder.finish(finished(run, status))


@pytest.fixture(scope="module")
def make_campaign(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes a campaign whose runs are finished but for the last one; the first one is limited."""

    def make(*entries: str) -> Path:
        outdir = tmp_path_factory.mktemp("campaign") / "out"
        planned = runs(entries)
        Campaign.create(
            outdir,
            campaign_plan(planned, INI, seed=1, ccmix="0.1.0", command=COMMAND, started_s=1.7e9),
        )
        for number, run in enumerate(planned[:-1]):
            finish(outdir, run, "limited" if number == 0 else "valid")
        return outdir

    return make


@pytest.fixture(scope="module")
def results(make_campaign: Make) -> Results:
    return load_results([make_campaign("alone", "mixed")])
