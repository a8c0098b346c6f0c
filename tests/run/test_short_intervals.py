"""Tests intervals down to a millisecond: the kernel's own clock says how far apart samples are, in the lab exactly."""

import json
from pathlib import Path

import polars as pl
import pytest

from ccmix.analysis.size import written_bytes
from ccmix.config import load
from ccmix.plan import make_plan
from support import Ccmix, Pair, Write

LAB = """
[topology short]
rate = 50mbit
delay = 5ms
buffer = 1bdp

[one]
type = iperf3
topology = short
cca = cubic,bbr
streams = 2
duration = 2s
omit = 1s
interval = {interval}
"""


def gaps_s(table: pl.DataFrame, *of_each: str) -> pl.Series:
    """Returns the times between samples in the measured time, rounded to microseconds."""
    in_time = table.filter(pl.col("time_s").is_between(1.0, 3.0)).sort("time_s")
    return in_time.select(pl.col("time_s").diff().over(of_each).round(6)).to_series().drop_nulls()


@pytest.mark.lab
@pytest.mark.parametrize(
    ("interval", "goodput_s"),
    [("1ms", 0.01), *(pytest.param(f"{s * 1000:.0f}ms", s, marks=pytest.mark.deep) for s in (0.01, 0.02))],
)
def test_sockets_queues_and_goodput_in_the_lab(interval: str, goodput_s: float, ccmix: Ccmix, tmp_path: Path) -> None:
    ini = tmp_path / "x.ini"
    ini.write_text(LAB.format(interval=interval))
    done = ccmix("run", ini, "--lab", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = (tmp_path / "out").rglob("run.json")
    summary = json.loads(run.read_text())
    assert summary["facts"]["probes"]["sockmon"]["missed"] == 0
    interval_s = float(interval.removesuffix("ms")) / 1e3
    sockets = pl.read_parquet(run.parent / "sockets.parquet").filter(pl.col("end") == "sender", ~pl.col("final"))
    queues = pl.read_parquet(run.parent / "queues.parquet").filter(pl.col("place") == "bottleneck")
    for gaps in (gaps_s(sockets, "port"), gaps_s(queues, "queue")):
        assert len(gaps) >= 0.99 * 2.0 / interval_s
        assert gaps.median() == pytest.approx(interval_s, rel=0.01)
        assert gaps.max() <= interval_s * 1.1
    seconds = pl.read_parquet(run.parent / "intervals.parquet").filter(~pl.col("omitted"))["seconds"]
    assert seconds.median() == pytest.approx(goodput_s, rel=0.01)
    written = sum(file.stat().st_size for file in run.parent.rglob("*") if file.is_file())
    [planned] = make_plan(load(ini).entries, seed=1)
    assert 0.6 < written / (written_bytes(planned) or 0) < 1.6


def test_sockets_between_hosts(ccmix: Ccmix, ini: Write, pair: Pair, tmp_path: Path) -> None:
    """Asserts the rate of what was sampled or missed: whether each deadline is met depends on the machine."""
    config = ini("[one]\ntype = iperf3\ncca = bbr@20M\nduration = 2s\ninterval = 1ms\n")
    done = ccmix("run", config, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    [run] = (tmp_path / "out").rglob("run.json")
    probe = json.loads(run.read_text())["facts"]["probes"]["sockmon-src"]
    assert probe["samples"] + probe["missed"] >= 2000
    sockets = pl.read_parquet(run.parent / "sockets.parquet").filter(pl.col("end") == "sender", ~pl.col("final"))
    assert sockets["time_s"].n_unique() > 0.5 * probe["samples"]
    cpu = pl.read_parquet(run.parent / "cpu.parquet")
    assert cpu["time_s"].n_unique() < 100, "the kernel counts processor time in hundredths of a second"
