"""Tests every kind of traffic on one path of several hosts in the lab: the measured traffic is the
configured traffic.
"""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.commands import Ccmix

pytestmark = pytest.mark.lab

# 12.5 Mbit/s of 50 are offered until the downloads begin that are cut off, so nothing waits for
# long: what each flow takes can be told beforehand. The measured time is from 1 s to 9 s.
MIX = """
[topology quiet]
host-root = on
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
flows.last = far udp@1M+8s
flows.web = near http requests 40 size 10kb parallel 2 cca cubic +2s
flows.early = near http requests 5 size 10kb
flows.cut = near http requests 4 size 10mb parallel 2 +7s
flows.load = far workload sizes.txt rate 500kbit cca reno
flows.rare = near workload sizes.txt rate 1kbit
flows.server = receiver command iperf3 -s -p 9999
flows.tool = far command sleep 2; exec iperf3 -c {dst} -p 9999 -b 1M -t 4
"""
BUCKET_BYTES = 2 * 1514
HTTP_HEADER_BYTES = 116  # of each response, with the two that acknowledge SYN and FIN
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
    groups = json.loads((folder / "run.json").read_text())["metrics"]["groups"]
    return {group["group"]: group for group in groups}


def test_each_line_is_a_group(groups: dict[str, Any]) -> None:
    assert {
        name: (group["cca"], group["streams"]) for name, group in groups.items() if name != "load"
    } == {
        "paced": ("cubic", 2),
        "noise": ("-", 1),
        "late": ("-", 2),
        "last": ("-", 1),
        "web": ("cubic", 40),
        "early": ("-", 0),
        "cut": ("-", 0),
        "rare": ("-", 0),
        "tool": ("cubic", 1),
    }
    assert groups["load"]["cca"] == "reno"
    assert {
        name: group["host"] for name, group in groups.items() if group["host"] != "near"
    } == dict.fromkeys(("late", "last", "load", "tool"), "far")


def test_each_goodput_is_over_the_active_time(groups: dict[str, Any]) -> None:
    """Counts the bytes from 1 s to 9 s, over the part of this time in which each source was on."""
    assert {
        name: groups[name]["active_s"] for name in ("paced", "noise", "late", "last", "cut")
    } == {
        "paced": 6,
        "noise": 8,
        "late": 5,
        "last": 1,
        "cut": 2,
    }
    on = {"paced": 2e6, "noise": 8e6, "late": 2e6, "tool": 1e6}
    assert {name: groups[name]["goodput_bps"] for name in on} == pytest.approx(on, rel=0.07)
    assert 0.85e6 < groups["last"]["goodput_bps"] < 1e6, (
        "its receiver waits for the first datagram, in this one second"
    )
    web = groups["web"]["goodput_bps"] * groups["web"]["active_s"]
    assert web == pytest.approx(40 * (10_000 + HTTP_HEADER_BYTES) * 8, rel=0.001)
    assert groups["early"]["goodput_bps"] == 0, "all requests were through before"
    assert 4e6 < groups["cut"]["goodput_bps"] < 50e6, (
        "what came of files that were not through counts too"
    )


def test_udp_comes_from_its_moment_on_until_the_traffic_ends(folder: Path) -> None:
    intervals = pl.read_parquet(folder / "intervals.parquet")
    for group, first_s in (("late", 4.5), ("last", 8.5), ("noise", 0.5)):
        times = intervals.filter(pl.col("group") == group, pl.col("goodput_bps") > 0)["time_s"]
        assert times.min() == pytest.approx(first_s, abs=0.05)
        assert times.max() == pytest.approx(9.0, abs=0.1)


def test_streams_that_begin_late(folder: Path) -> None:
    sockets = pl.read_parquet(folder / "sockets.parquet").filter(pl.col("group") == "paced")
    began = sockets.filter(pl.col("bytes_sent") > 1000)["time_s"].min()
    ended = sockets["time_s"].max()
    assert isinstance(began, float)
    assert isinstance(ended, float)
    assert ended - began == pytest.approx(8 + 1 - 3, abs=1.0)


def test_a_request_takes_two_round_trips_and_its_packets(folder: Path) -> None:
    """Sends 10 kB, which are 7 packets, within the first window: connect, ask, and what the bucket
    of two packets doesn't pass at once, at 50 Mbit/s.
    """
    web = pl.read_parquet(folder / "completions.parquet").filter(pl.col("group") == "web")
    assert web.height == 40
    least_s = 2 * 0.020 + (10_000 - BUCKET_BYTES) * 8 / 50e6
    assert least_s < web["seconds"].min() < least_s + 0.5e-3  # type: ignore[operator]
    assert least_s < web["seconds"].median() < least_s + 5e-3  # type: ignore[operator]
    assert web["connect_s"].min() == pytest.approx(0.020, abs=0.1e-3)


def test_what_was_cut_off_has_no_time(folder: Path) -> None:
    metrics = json.loads((folder / "run.json").read_text())["metrics"]["completions"]
    assert {
        line["group"]: (line["begun"], line["completed"])
        for line in metrics
        if line["group"] != "load"
    } == {
        "web": (40, 40),
        "early": (0, 0),
        "cut": (2, 0),
        "rare": (0, 0),
    }
    cut = pl.read_parquet(folder / "completions.parquet").filter(pl.col("group") == "cut")
    assert cut["seconds"].to_list() == [None, None]


def test_a_workload_s_flows_come_when_they_are_due(folder: Path, groups: dict[str, Any]) -> None:
    """Counts until the last byte has arrived: a handshake, then one way. Flows that came too late
    to complete have no time.
    """
    schedule = (folder / "generators/load.far-workload-schedule.txt").read_text().splitlines()
    load = pl.read_parquet(folder / "completions.parquet").filter(pl.col("group") == "load")
    assert load.height == len(schedule)
    moments = [float(line.split()[0]) for line in schedule]
    assert load["start_s"].to_list() == pytest.approx(moments, abs=2e-3)
    assert groups["load"]["streams"] >= sum(at_s >= 1 for at_s in moments) - 1
    least_s = 0.080 + 0.040 + (10_000 - BUCKET_BYTES) * 8 / 50e6
    assert least_s < load["seconds"].min() < least_s + 1e-3  # type: ignore[operator]


def test_a_command_s_flow_is_measured_by_its_socket(folder: Path) -> None:
    sockets = pl.read_parquet(folder / "sockets.parquet").filter(pl.col("group") == "tool")
    assert sockets["min_rtt_s"].min() == pytest.approx(0.080, abs=1e-3)
    assert set(sockets["host"]) == {"far"}


def test_a_command_that_fails_fails_the_run(ccmix: Ccmix, tmp_path: Path) -> None:
    file = tmp_path / "wrong.ini"
    file.write_text(MIX.partition("flows.")[0] + "flows.tool = far command echo no >&2; exit 3\n")
    done = ccmix("run", file, "--lab", "-o", tmp_path / "out", status=1)
    assert "ccmix-far: echo no >&2; exit 3 ended with 3: no" in done.stderr
