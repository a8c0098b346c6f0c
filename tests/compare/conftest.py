"""Makes campaigns with chosen numbers: on an emulated path, or between hosts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.analysis.results import Results, load_results
from ccmix.archive import Campaign, RunFolder
from ccmix.model import Destination, Group, HostPath, Run, Topology
from ccmix.model.results import FinishedRun, Status
from support.finished_runs import FACTS, campaign_plan, finished_run, group_metrics, metrics
from support.model import TOPOLOGY, iperf3_traffic, with_groups

TRAFFIC = iperf3_traffic((Group("cubic"),), 8, 10.0, 0.0, 1.0)
PATH = HostPath("localhost", Destination("far", "192.0.2.1", "far"), "iperf3")

Make = Callable[..., Path]


def make_run(
    cca: str = "cubic",
    iteration: int = 1,
    path: Topology | HostPath = TOPOLOGY,
    entry: str = "one",
    **condition: str,
) -> Run:
    dst = path.dst.name if isinstance(path, HostPath) else "receiver"
    traffic = with_groups(TRAFFIC, *(Group(name) for name in cca.split(",")))
    return Run(entry, condition, dst, iteration, 7, traffic, path)


def finished(run: Run, goodput_bps: float, status: Status = "valid", **facts: Any) -> FinishedRun:
    ccas = [group.cca for group in run.traffic.groups]
    groups = [
        group_metrics(
            cca, goodput_bps / len(ccas), streams=4, retransmission_rate=0.01, rtt_median_s=0.02
        )
        for cca in ccas
    ]
    pings = {"h1": (0.0101,)} if isinstance(run.path, Topology) else {"src": (0.0123, 0.012)}
    known = replace(FACTS, **{"kernel": "6.1.0", **facts})
    return finished_run(run, metrics(groups, fairness=0.9), status, facts=known, ping_rtt_s=pings)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a campaign of (run, goodput), of which `facts` are known; the runs at `limited` are not
    valid, and an entry's keys `unknown`.
    """

    def made(
        name: str,
        found: Sequence[tuple[Run, float]],
        limited: Sequence[int] = (),
        version: str = "0.1.0",
        unknown: Mapping[str, tuple[str, ...]] | None = None,
        **facts: Any,
    ) -> Path:
        outdir = tmp_path / name
        plan = campaign_plan([run for run, _ in found], unknown=unknown, seed=1, ccmix=version)
        Campaign.create(outdir, plan)
        for number, (run, goodput_bps) in enumerate(found):
            folder = RunFolder.of(outdir, run)
            series = pl.DataFrame(
                [
                    {
                        "time_s": second,
                        "group": group.cca,
                        "omitted": second <= 1,
                        "seconds": 1.0,
                        "goodput_bps": goodput_bps + second,
                    }
                    for second in (1.0, 2.0, 3.0)
                    for group in run.traffic.groups
                ]
            )
            series.write_parquet(folder.begin() / "intervals.parquet")
            folder.finish(
                finished(run, goodput_bps, "limited" if number in limited else "valid", **facts)
            )
        return outdir

    return made


def iterations(values: Sequence[float], **settings: Any) -> list[tuple[Run, float]]:
    return [
        (make_run(iteration=number, **settings), value) for number, value in enumerate(values, 1)
    ]


def load(outdir: Path) -> Results:
    return load_results([outdir])
