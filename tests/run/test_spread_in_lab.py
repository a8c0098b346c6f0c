"""Tests in the lab that each run starts as its seed says, and that the verdict sees one that did not."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.archive import RunFolder
from ccmix.config import load
from ccmix.model import Measurement, Run, RunSpread
from ccmix.model.results import FinishedRun
from ccmix.plan import make_plan
from ccmix.run.conclude import conclude
from ccmix.run.machines import EmulationPrograms, LabMachine
from ccmix.tools import find_iperf3, find_kernel, find_rtt, find_sockmon
from support import REPOSITORY, Ccmix, rows

pytestmark = pytest.mark.lab

# An RTT so long that samples of sockets show when each stream starts
INI = """
[topology long]
rate = 20mbit
delay = 400ms
buffer = 1bdp
spread = {spread}

[one]
type = iperf3
topology = long
cca = cubic,bbr
streams = 4
duration = 3s
interval = 100ms
iterations = 2
"""
SAMPLED_S = 0.1


@dataclass(frozen=True)
class Outcome:
    finished: FinishedRun
    folder: Path
    measurement: Measurement

    def raw(self) -> dict[str, bytes]:
        return {
            str(file.relative_to(self.folder)): file.read_bytes()
            for file in self.folder.rglob("*")
            if file.is_file() and file.name != "run.json"
        }

    def connected(self) -> list[dict[str, Any]]:
        connected: list[dict[str, Any]] = json.loads((self.folder / "generators/h1-iperf3-client.json").read_text())[
            "start"
        ]["connected"]
        return connected

    def first_data_s(self) -> list[float]:
        """Returns when the sockets were first seen to have sent data, in the order of the streams."""
        sockets = pl.read_parquet(self.folder / "sockets.parquet").filter(pl.col("data_segs_out") > 1)  # 1: the cookie
        first = dict(sockets.group_by("port").agg(pl.col("time_s").min()).iter_rows())
        return [first[stream["local_port"]] for stream in self.connected()]


@pytest.fixture
def planned(tmp_path: Path) -> Callable[..., tuple[Run, ...]]:
    def plan(spread: str = "on", seed: int = 1) -> tuple[Run, ...]:
        ini = tmp_path / "spread.ini"
        ini.write_text(INI.format(spread=spread))
        return make_plan(load(ini).entries, seed=seed)

    return plan


@pytest.fixture
def measured(tmp_path: Path) -> Callable[..., Outcome]:
    """Measures `applied`, by default the run itself, and concludes as if `run` had been measured."""

    def measure(run: Run, name: str, applied: Run | None = None) -> Outcome:
        folder = RunFolder.of(tmp_path / name, run)
        machine = LabMachine(find_kernel(), EmulationPrograms(find_iperf3(), find_sockmon(), find_rtt()))
        done = asyncio.run(machine.measure(applied or run, folder.begin()))
        return Outcome(conclude(run, folder, done.measurement, done.execution), folder.path, done.measurement)

    return measure


def drawn(run: Run) -> RunSpread:
    assert run.spread is not None
    return run.spread


def test_streams_start_when_the_seed_says_and_the_same_seed_gives_the_same_bytes(
    planned: Callable[..., tuple[Run, ...]], measured: Callable[..., Outcome]
) -> None:
    first, second = planned()
    one, again, other = measured(first, "one"), measured(first, "again"), measured(second, "other")
    assert one.finished.verdict.status == "valid"
    assert one.raw() == again.raw()
    for run, outcome in ((first, one), (second, other)):
        [starts_s] = drawn(run).starts_s
        assert [stream["stream_delay"] for stream in outcome.connected()] == pytest.approx(starts_s, abs=1e-9)
        seen_s = outcome.first_data_s()
        begin_s = min(seen_s)
        late_s = [seen - begin_s - start for seen, start in zip(seen_s, starts_s, strict=True)]
        assert all(-SAMPLED_S < seen <= SAMPLED_S for seen in late_s), late_s
        assert outcome.finished.run.spread == run.spread
    assert drawn(first) != drawn(second)
    assert set(one.raw()) == set(other.raw())
    assert one.finished.metrics != other.finished.metrics


def test_off_asks_for_nothing_that_was_not_asked_for_before(
    planned: Callable[..., tuple[Run, ...]], measured: Callable[..., Outcome]
) -> None:
    run = planned("off")[0]
    assert run.spread is None
    assert run.topology == replace(planned("on")[0].path, spread=False), "the path is the configured one"
    assert {sender.drawn_delay_s for sender in run.topology.senders} == {0.0}
    outcome = measured(run, "off")
    netems = [
        qdisc for name, qdiscs in outcome.measurement.before.qdiscs.items() if "delay" in name for qdisc in qdiscs
    ]
    assert {json.loads(qdisc.options)["delay"]["delay"] for qdisc in netems if qdisc.kind == "netem"} == {0.4}
    client = outcome.finished.facts.commands[0].line.partition("--congestion")[2]
    assert client == " cubic,bbr --time 3 --omit 0 --zerocopy --skip-rx-copy"
    assert not any("stream_delay" in stream for stream in outcome.connected())
    assert outcome.finished.verdict.status == "valid"


@pytest.mark.parametrize("applied", ["another start", "no spread"])
def test_a_run_that_starts_otherwise_is_not_valid(
    applied: str, planned: Callable[..., tuple[Run, ...]], measured: Callable[..., Outcome]
) -> None:
    run = planned()[0]
    starts_s = drawn(run).starts_s[0]
    other = replace(drawn(run), starts_s=((*starts_s[:-1], starts_s[-1] + 1e-6),))
    lie = replace(run, spread=other if applied == "another start" else None)
    verdict = measured(run, "lie", applied=lie).finished.verdict
    assert verdict.status == "limited"
    assert "spread" in {finding.kind for finding in verdict.findings}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_what_a_run_draws_moves_no_single_flow(ccmix: Ccmix, tmp_path: Path) -> None:
    """Mean goodputs of a flow alone, over 20 seeds, differ by less than 0.1%: docs/explanation/reproducibility.md."""
    config = REPOSITORY / "configs" / "spread.ini"
    done = ccmix("run", config, "--lab", "--seed", "18", "--only", "one", "-o", tmp_path / "one", timeout=3600)
    assert "80 runs valid, 0 not valid, 0 failed" in done.stderr, done.stderr
    means = {(row["condition"]["cca"], row["condition"]["spread"]): row for row in rows(ccmix, tmp_path / "one")}
    for cca in ("cubic", "bbr"):
        without, with_it = means[cca, "off"], means[cca, "on"]
        assert without["runs"] == with_it["runs"] == 20
        assert with_it["goodput_mean_bps"] == pytest.approx(without["goodput_mean_bps"], rel=0.001)
