"""Tests in the lab that each run starts according to its seed, and that the verdict notices a run
that did not.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ccmix.model import Run, RunSpread
from support.commands import REPOSITORY, Ccmix, rows
from support.lab_runs import LabRun, make_in_lab, planned

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


def raw(made: LabRun) -> dict[str, bytes]:
    return {
        str(file.relative_to(made.folder)): file.read_bytes()
        for file in made.folder.rglob("*")
        if file.is_file() and file.name != "run.json"
    }


def connected(made: LabRun) -> list[dict[str, Any]]:
    streams: list[dict[str, Any]]
    streams = made.document("generators/h1-iperf3-client.json")["start"]["connected"]
    return streams


def first_data_s(made: LabRun) -> list[float]:
    """Returns when the sockets were first seen to have sent data, in the order of the streams."""
    sockets = made.table("sockets").filter(pl.col("data_segs_out") > 1)  # 1: the cookie
    first = dict(sockets.group_by("port").agg(pl.col("time_s").min()).iter_rows())
    return [first[stream["local_port"]] for stream in connected(made)]


def drawn(run: Run) -> RunSpread:
    assert run.spread is not None
    return run.spread


def test_streams_start_when_the_seed_says_and_the_same_seed_gives_the_same_bytes(
    tmp_path: Path,
) -> None:
    first, second = planned(INI.format(spread="on"), tmp_path)
    one, again = (make_in_lab(first, tmp_path / name) for name in ("one", "again"))
    other = make_in_lab(second, tmp_path / "other")
    assert one.finished.verdict.status == "valid"
    assert raw(one) == raw(again)
    for run, outcome in ((first, one), (second, other)):
        [starts_s] = drawn(run).starts_s
        assert [stream["stream_delay"] for stream in connected(outcome)] == pytest.approx(
            starts_s, abs=1e-9
        )
        seen_s = first_data_s(outcome)
        begin_s = min(seen_s)
        late_s = [seen - begin_s - start for seen, start in zip(seen_s, starts_s, strict=True)]
        assert all(-SAMPLED_S < seen <= SAMPLED_S for seen in late_s), late_s
        assert outcome.finished.run.spread == run.spread
    assert drawn(first) != drawn(second)
    assert set(raw(one)) == set(raw(other))
    assert one.finished.metrics != other.finished.metrics


def test_off_asks_for_nothing_that_was_not_asked_for_before(
    tmp_path: Path,
) -> None:
    run = planned(INI.format(spread="off"), tmp_path)[0]
    with_spread = planned(INI.format(spread="on"), tmp_path)[0]
    assert run.spread is None
    assert run.topology == replace(with_spread.path, spread=False), "the path is the configured one"
    assert {sender.drawn_delay_s for sender in run.topology.senders} == {0.0}
    outcome = make_in_lab(run, tmp_path / "off")
    netems = [
        qdisc
        for name, qdiscs in outcome.measurement.before.qdiscs.items()
        if "delay" in name
        for qdisc in qdiscs
    ]
    assert {
        json.loads(qdisc.options)["delay"]["delay"] for qdisc in netems if qdisc.kind == "netem"
    } == {0.4}
    client = outcome.finished.facts.commands[0].line.partition("--congestion")[2]
    assert client == " cubic,bbr --time 3 --omit 0 --zerocopy --skip-rx-copy"
    assert not any("stream_delay" in stream for stream in connected(outcome))
    assert outcome.finished.verdict.status == "valid"


@pytest.mark.parametrize("applied", ["another start", "no spread"])
def test_a_run_that_starts_otherwise_is_not_valid(applied: str, tmp_path: Path) -> None:
    run = planned(INI.format(spread="on"), tmp_path)[0]
    starts_s = drawn(run).starts_s[0]
    other = replace(drawn(run), starts_s=((*starts_s[:-1], starts_s[-1] + 1e-6),))
    lie = replace(run, spread=other if applied == "another start" else None)
    verdict = make_in_lab(run, tmp_path / "lie", lie).finished.verdict
    assert verdict.status == "limited"
    assert "spread" in {finding.kind for finding in verdict.findings}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_what_a_run_draws_moves_no_single_flow(ccmix: Ccmix, tmp_path: Path) -> None:
    """Mean goodputs of a single flow, over 20 seeds, differ by less than 0.1%:
    docs/explanation/reproducibility.md.
    """
    config = REPOSITORY / "configs" / "spread.ini"
    done = ccmix(
        "run",
        config,
        "--lab",
        "--seed",
        "18",
        "--only",
        "one",
        "-o",
        tmp_path / "one",
        timeout=3600,
    )
    assert "80 runs valid, 0 not valid, 0 failed" in done.stderr, done.stderr
    means = {
        (row["condition"]["cca"], row["condition"]["spread"]): row for row in rows(tmp_path / "one")
    }
    for cca in ("cubic", "bbr"):
        without, with_it = means[cca, "off"], means[cca, "on"]
        assert without["runs"] == with_it["runs"] == 20
        assert with_it["goodput_mean_bps"] == pytest.approx(without["goodput_mean_bps"], rel=0.001)
