"""Every sort of traffic on one path of several hosts, in the lab: what is measured is what was asked for."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support import Ccmix

# 12.5 Mbit/s of 50 are offered, so nothing waits for long: what each flow takes can be told beforehand.
MIX = """
[topology quiet]
rate = 50mbit
buffer = 1bdp
receivers = one
host.near = delay 10ms
host.far = delay 40ms

[all]
type = iperf3
topology = quiet
duration = 8s
omit = 1s
flows.paced = near cubic:2@1M+3s
flows.noise = near udp@8M
flows.late = far udp:2@1M+4s
flows.web = near http requests 40 size 10kb parallel 2 cca cubic
flows.load = far workload sizes.txt rate 500kbit cca reno
flows.server = receiver command iperf3 -s -p 9999
flows.tool = far command sleep 2; exec iperf3 -c {dst} -p 9999 -b 1M -t 4
"""
BUCKET_BYTES = 2 * 1514
SIZES = "10000 0\n10000 1\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mix")
    (place / "mix.ini").write_text(MIX)
    (place / "sizes.txt").write_text(SIZES)
    done = Ccmix(place)("run", place / "mix.ini", "--lab", "-o", place / "out")
    assert done.returncode == 0, done.stderr
    return place / "out/all/all/receiver/001"


@pytest.fixture(scope="module")
def groups(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "run.json").read_text())["metrics"]["groups"]
    return {group["group"]: group for group in found}


def test_each_line_is_a_group(groups: dict[str, Any]) -> None:
    assert {name: (group["cca"], group["streams"]) for name, group in groups.items() if name != "load"} == {
        "paced": ("cubic", 2), "noise": ("-", 1), "late": ("-", 2), "web": ("cubic", 40), "tool": ("cubic", 1),
    }  # fmt: skip
    assert groups["load"]["cca"] == "reno"


def test_udp_at_a_constant_rate_from_its_moment_on(folder: Path, groups: dict[str, Any]) -> None:
    """Payload, over the line's own time; a datagram of 1472 bytes more or less."""
    assert groups["noise"]["goodput_bps"] == pytest.approx(8e6, rel=0.002)
    assert groups["late"]["goodput_bps"] == pytest.approx(2e6, rel=0.01)
    intervals = pl.read_parquet(folder / "intervals.parquet")
    assert intervals.filter(pl.col("group") == "late")["time_s"].min() == pytest.approx(4.5, abs=0.05)


def test_streams_that_begin_late(folder: Path) -> None:
    sockets = pl.read_parquet(folder / "sockets.parquet").filter(pl.col("group") == "paced")
    began = sockets.filter(pl.col("bytes_sent") > 1000)["time_s"].min()
    ended = sockets["time_s"].max()
    assert isinstance(began, float)
    assert isinstance(ended, float)
    assert ended - began == pytest.approx(8 + 1 - 3, abs=1.0)


def test_a_request_takes_two_round_trips_and_its_packets(folder: Path) -> None:
    """10 kB are 7 packets, within the first window: connect, ask, and what the bucket of two packets doesn't pass at
    once, at 50 Mbit/s.
    """
    web = pl.read_parquet(folder / "completions.parquet").filter(pl.col("group") == "web")
    assert web.height == 40
    least_s = 2 * 0.020 + (10_000 - BUCKET_BYTES) * 8 / 50e6
    assert least_s < web["seconds"].min() < least_s + 0.5e-3  # type: ignore[operator]
    assert least_s < web["seconds"].median() < least_s + 5e-3  # type: ignore[operator]
    assert web["connect_s"].min() == pytest.approx(0.020, abs=0.1e-3)


def test_a_workload_s_flows_come_when_they_are_due(folder: Path, groups: dict[str, Any]) -> None:
    """Until the last byte is there: a handshake, then one way; what came too late to be through has no time."""
    schedule = (folder / "generators/load.far-workload-schedule.txt").read_text().splitlines()
    load = pl.read_parquet(folder / "completions.parquet").filter(pl.col("group") == "load")
    assert load.height == len(schedule)
    assert groups["load"]["streams"] >= load.height - 1
    moments = [float(line.split()[0]) for line in schedule]
    assert load["start_s"].to_list() == pytest.approx([at_s - moments[0] for at_s in moments], abs=2e-3)
    least_s = 0.080 + 0.040 + (10_000 - BUCKET_BYTES) * 8 / 50e6
    assert least_s < load["seconds"].min() < least_s + 1e-3  # type: ignore[operator]


def test_a_command_s_flow_is_measured_by_its_socket(groups: dict[str, Any], folder: Path) -> None:
    assert groups["tool"]["goodput_bps"] == pytest.approx(1e6, rel=0.2)  # the samples, and iperf3's blocks
    sockets = pl.read_parquet(folder / "sockets.parquet").filter(pl.col("group") == "tool")
    assert sockets["min_rtt_s"].min() == pytest.approx(0.080, abs=1e-3)
    assert set(sockets["host"]) == {"far"}


def test_a_command_that_fails_fails_the_run(ccmix: Ccmix, tmp_path: Path) -> None:
    file = tmp_path / "wrong.ini"
    file.write_text(MIX.partition("flows.")[0] + "flows.tool = far command echo no >&2; exit 3\n")
    done = ccmix("run", file, "--lab", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert "ccmix-far: echo no >&2; exit 3 ended with 3: no" in done.stderr
