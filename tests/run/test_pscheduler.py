"""Campaigns whose traffic a stand-in for pScheduler makes, with real iperf3 between two namespaces of this machine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pscheduler_stand_in import Certificate, StandIn, by_iperf3, certificate, serving
from support import Ccmix, Pair, Write


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def stand_in(pair: Pair, shown: Certificate) -> Iterator[StandIn]:
    with serving(StandIn(by_iperf3(pair), starts_after_s=2.0), shown) as server:
        yield server


@pytest.fixture
def config(tmp_path: Path, pair: Pair, stand_in: StandIn, shown: Certificate) -> Write:
    """An entry of type perfSONAR from the near host to the far one, with more keys and further entries."""

    def write(text: str, seen: bool = True) -> Path:
        src = f"netns:{pair.near}" if seen else "ps1.example.invalid"
        file = tmp_path / "mesh.ini"
        file.write_text(
            f"[DEFAULT]\nsrc = {src}\ndst = {pair.address}\ninterval = 100ms\naccept-limits = cpu\n"
            f"lead = {stand_in.address}\ntls-ca = {shown.certificate}\n"
            f"[mesh]\ntype = perfSONAR\nduration = 2s\n{text}"
        )
        return file

    return write


def rows(ccmix: Ccmix, outdir: Path) -> list[dict[str, Any]]:
    done = ccmix("report", outdir, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def summaries(outdir: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(outdir.glob("*/*/*/*/run.json"))]


def test_groups_in_a_task_of_a_stand_in(
    ccmix: Ccmix, config: Write, stand_in: StandIn, pair: Pair, tmp_path: Path
) -> None:
    file = config("streams = 4\ncca = reno:3,bbr\ntool = iperf3mix\nslip = 20s\npriority = 7\nspec.mss = 1400\n")
    done = ccmix("run", file, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    reno, bbr = rows(ccmix, tmp_path / "out")
    assert (reno["cca"], reno["streams"], reno["runs"], reno["invalid"]) == ("reno", 3, 1, 0)
    assert (bbr["cca"], bbr["streams"], bbr["dst"]) == ("bbr", 1, pair.address)
    assert reno["goodput_mean_bps"] == pytest.approx(90e6, rel=0.1)
    assert reno["retransmission_rate_mean"] is not None
    document = stand_in.only_task.document
    assert document["test"]["spec"] == {
        "schema": 4, "dest": pair.address, "duration": "PT2S", "interval": "PT1S", "parallel": 4,
        "congestion": "reno:3,bbr", "mss": 1400,
    }  # fmt: skip
    assert (document["schedule"], document["priority"], document["tools"]) == ({"slip": "PT20S"}, 7, ["iperf3mix"])
    assert document["reference"]["ccmix"]["entry"] == "mesh"
    folder = tmp_path / "out" / "mesh" / "all" / pair.address / "001"
    kept = json.loads((folder / "generators" / "pscheduler.json").read_text())
    assert len(kept["run"]["result-full"]) == 2
    assert kept["run"]["result-merged"]["succeeded"] is True
    assert kept["clocks"][stand_in.address]["synchronized"] is True
    assert (folder / "intervals.parquet").exists()
    assert (folder / "sockets.parquet").exists()
    [summary] = summaries(tmp_path / "out")
    assert summary["validity"]["status"] == "valid"
    assert summary["facts"]["generator"] == "pscheduler"
    assert summary["facts"]["pscheduler"]["lead"] == stand_in.address
    assert summary["started_s"] == pytest.approx(stand_in.only_task.runs[0].begins_s, abs=0.5)
