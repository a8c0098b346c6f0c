"""Campaigns of which the numbers are chosen: on an emulated path, or between hosts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.archive import Campaign, RunFolder
from ccmix.model import Destination, Group, HostPath, Run, Topology, Traffic
from ccmix.report.results import Results, load_results
from support import TOPOLOGY

TRAFFIC = Traffic((Group("cubic"),), 8, 10.0, 0.0, 1.0)
PATH = HostPath("localhost", Destination("far", "192.0.2.1", "far"), "iperf3")

Make = Callable[..., Path]


def make_run(
    cca: str = "cubic", iteration: int = 1, path: Topology | HostPath = TOPOLOGY, entry: str = "one", **condition: str
) -> Run:
    dst = path.dst.name if isinstance(path, HostPath) else "receiver"
    traffic = replace(TRAFFIC, groups=tuple(Group(one) for one in cca.split(",")))
    return Run(entry, condition, dst, iteration, 7, traffic, path)


def summary(run: Run, goodput_bps: float, status: str = "valid", **facts: Any) -> dict[str, Any]:
    ccas = [group.cca for group in run.traffic.groups]
    groups = [
        {
            "group": cca, "cca": cca, "streams": 4, "goodput_bps": goodput_bps / len(ccas),
            "retransmission_rate": 0.01, "rtt_median_s": 0.02,
        }
        for cca in ccas
    ]  # fmt: skip
    emulated = isinstance(run.path, Topology)
    return {
        "run": run.to_json(),
        "where": {"machine": "lab" if emulated else "hosts"},
        "facts": {"kernel": "6.1.0", "iperf3": "iperf 3.20+ccmix1", "sysctls": {"net.ipv4.tcp_sack": "1"}} | facts,
        "ping_rtt_s": {"h1": [0.0101]} if emulated else [0.0123, 0.012],
        "metrics": {"groups": groups, "fairness": 0.9, "goodput_bps": goodput_bps, "flows": []},
        "validity": {"status": status, "findings": []},
    }


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A campaign of (run, goodput), of which `facts` are known; the runs at `limited` are not valid."""

    def made(
        name: str, found: Sequence[tuple[Run, float]], limited: Sequence[int] = (), version: str = "0.1.0", **facts: Any
    ) -> Path:
        outdir = tmp_path / name
        Campaign.create(outdir, [run for run, _ in found], "", {"seed": 1, "ccmix": version})
        for number, (run, goodput_bps) in enumerate(found):
            folder = RunFolder.of(outdir, run)
            series = pl.DataFrame(
                [
                    {"time_s": second, "group": group.cca, "omitted": second <= 1, "goodput_bps": goodput_bps + second}
                    for second in (1.0, 2.0, 3.0)
                    for group in run.traffic.groups
                ]
            )
            series.write_parquet(folder.begin() / "intervals.parquet")
            folder.finish(summary(run, goodput_bps, "limited" if number in limited else "valid", **facts))
        return outdir

    return made


def iterations(values: Sequence[float], **settings: Any) -> list[tuple[Run, float]]:
    return [(make_run(iteration=number, **settings), value) for number, value in enumerate(values, 1)]


def load(outdir: Path) -> Results:
    return load_results([outdir])
