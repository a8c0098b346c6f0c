"""Compares the expected cost of runs with the cost of finished runs."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ccmix.analysis import cost
from ccmix.archive import Campaign
from ccmix.config import load
from ccmix.lab.host import guest_memory_bytes
from ccmix.model import Group, Loss, Run
from ccmix.model.results import FinishedRun
from ccmix.plan import make_plan
from support.commands import REPOSITORY, Ccmix, loaded
from support.model import TOPOLOGY, host_run, iperf3_traffic, with_senders
from support.published_archives import DEMO_60_FILE, unpacked

DEMO = REPOSITORY / "configs" / "demo.ini"
BENCH = loaded(REPOSITORY / "bench" / "cost.py", "bench_cost")
AS_GOOD_AS = 0.3  # of what the demo took
GUESTS_S, DEMO_S = (
    308,
    156,
)  # the demo's guests together, and all of it, two at a time: bench/measuring-notes.md


def emulated(
    rate_bps: float = 1e8,
    loss: float = 0.0,
    cca: str = "cubic",
    offloads: bool = False,
    delay_s: float = 0.01,
    streams: int = 4,
    seconds: float = 60.0,
    interval_s: float = 1.0,
) -> Run:
    path = replace(TOPOLOGY, rate_bps=rate_bps, offloads=offloads)
    path = with_senders(path, delay_s=delay_s, loss=Loss("random", (loss,)) if loss else None)
    return Run(
        "one",
        {},
        "receiver",
        1,
        7,
        iperf3_traffic((Group(cca),), streams, seconds, 0.0, interval_s),
        path,
    )


@pytest.fixture(scope="module")
def demo() -> list[FinishedRun]:
    return [finished for finished, _ in Campaign.load(unpacked(DEMO_60_FILE)).finished()]


def test_constants_are_those_of_the_runs_that_were_measured() -> None:
    argv = [sys.executable, REPOSITORY / "bench" / "cost.py", REPOSITORY / "bench" / "cost.csv"]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert f"guest_s: {list(cost.GUEST)}\n" in printed
    assert f"tables_s: {list(cost.TABLES)}\n" in printed


def test_the_demo_takes_what_is_predicted() -> None:
    predicted_s = sum(map(cost.guest_seconds, make_plan(load(DEMO).entries, 1)))
    assert predicted_s == pytest.approx(GUESTS_S, rel=AS_GOOD_AS)
    assert cost.cost(make_plan(load(DEMO).entries, 1), 2).real_s == pytest.approx(
        DEMO_S, rel=AS_GOOD_AS
    )


def measured(name: str = "quiet") -> list[dict[str, str]]:
    """Returns the rows of a set of bench/cost.csv; 'quiet' was made on an idle machine."""
    with (REPOSITORY / "bench" / "cost.csv").open(newline="") as lines:
        return [row for row in csv.DictReader(lines) if row["set"] == name]


def predicted_s(row: dict[str, str], config: Path) -> float:
    config.write_text(BENCH.ini([row[key] for key in BENCH.KEYS], "path"))
    [run] = make_plan(load(config).entries, 1)
    return cost.guest_seconds(run)


@pytest.mark.parametrize("rate_and_streams", [("1gbit", "16"), ("10gbit", "1")], ids=" ".join)
def test_guests_of_fast_paths_take_what_is_predicted(
    rate_and_streams: tuple[str, str], tmp_path: Path
) -> None:
    rows = [row for row in measured() if (row["rate"], row["streams"]) == rate_and_streams]
    assert rows
    for row in rows:
        assert predicted_s(row, tmp_path / "one.ini") == pytest.approx(
            float(row["guest_s"]), rel=AS_GOOD_AS
        )


def test_steps_that_measure_a_path_and_udp_take_what_is_predicted(tmp_path: Path) -> None:
    rows = [row for row in measured("path") if row["cca"] in ("path", "udp")]
    assert len(rows) == 7
    for row in rows:
        assert predicted_s(row, tmp_path / "one.ini") == pytest.approx(
            float(row["guest_s"]), rel=AS_GOOD_AS
        ), row


def test_the_runs_of_a_slower_machine_correct_the_prediction(demo: list[FinishedRun]) -> None:
    slower = [
        replace(
            each,
            execution=replace(
                each.execution, real_seconds=3 * (each.execution.real_seconds or 0.0)
            ),
        )
        for each in demo
    ]
    runs = make_plan(load(DEMO).entries, 1)
    usual, slow = (
        cost.cost(runs, 2, cost.machine_speed(demo)),
        cost.cost(runs, 2, cost.machine_speed(slower)),
    )
    assert slow.real_s == pytest.approx(3 * usual.real_s)
    assert cost.machine_speed([]) == 1.0


def test_a_path_with_more_packets_takes_longer() -> None:
    slow, fast, joined = (
        cost.guest_seconds(run)
        for run in (emulated(), emulated(rate_bps=1e9), emulated(rate_bps=1e9, offloads=True))
    )
    assert slow < joined < fast


def test_random_loss_keeps_cubic_from_filling_the_path_and_not_bbr() -> None:
    assert cost.work(emulated(1e9, loss=0.01)).packets < 0.1 * cost.work(emulated(1e9)).packets
    assert cost.work(emulated(1e9, loss=0.01, cca="bbr")) == cost.work(emulated(1e9, cca="bbr"))


def test_a_command_on_a_receiver_has_a_cost(tmp_path: Path) -> None:
    config = tmp_path / "one.ini"
    config.write_text(
        "[topology slow]\nrate = 10mbit\ndelay = 5ms\n[one]\ntype = iperf3\ntopology = "
        "slow\nduration = 5s\n"
        "flows.server = receiver command nc -l 9999\nflows.tool = h1 command nc {dst} 9999\n"
    )
    [run] = make_plan(load(config).entries, 1)
    assert cost.guest_seconds(run) > 0


def test_the_end_of_a_run_that_ends_when_it_has_settled_is_that_of_the_demo() -> None:
    settled = [run for run in make_plan(load(DEMO).entries, 1) if run.traffic.at_most_s]
    expected_s = [cost.expected_traffic_s(run) or 0.0 for run in settled]
    assert sum(expected_s) / len(expected_s) == pytest.approx(
        30 + (8 * 60 + 2 * 120 + 2 * 240) / 12, rel=0.2
    )


def test_runs_fall_on_the_processors_as_these_get_free() -> None:
    assert cost.makespan_s([5.0, 1.0, 1.0, 1.0], 2) == 5.0
    assert cost.makespan_s([1.0, 1.0, 5.0], 2) == 6.0
    assert cost.makespan_s([4.0], 2, busy=[3.0, 10.0]) == 10.0
    assert cost.makespan_s([], 3) == 0.0


def test_runs_between_hosts_come_one_after_the_other_with_their_pauses() -> None:
    runs = [host_run("localhost", "b", pause_s=5.0)] * 3
    costs = cost.cost(runs, 8)
    assert costs.memory_bytes == 0
    assert costs.real_s == pytest.approx(
        3 * (10 + cost.OUTSIDE_LAB_S) + 2 * 5, abs=cost.COMMAND_S + 1
    )


def test_the_memory_is_that_of_the_largest_guests_at_the_same_time() -> None:
    small, large = emulated(), emulated(rate_bps=1e10, delay_s=0.1)
    alone, may_take = (
        map(cost.used_memory_bytes, (small, large)),
        map(guest_memory_bytes, (small.topology, large.topology)),
    )
    (of_small, of_large), (most_small, most_large) = alone, may_take
    assert of_small < of_large
    for jobs, used, most in (
        (1, of_large, most_large),
        (2, of_small + of_large, most_small + most_large),
    ):
        costs = cost.cost([small, large, small], jobs)
        assert costs.most_memory_bytes == most
        assert costs.memory_bytes == used + cost.OF_COMMAND_BYTES


# of one run of each, what its guest's memory file had in blocks, and the Pss of all processes of
# `ccmix run`, in MB
USED = {
    "10 Mbit/s": (emulated(1e7, delay_s=0.01, streams=1, seconds=10), 42, 234),
    "16 flows in jumbo frames": (
        emulated(1e9, delay_s=0.044, cca="bbr", streams=16, seconds=10),
        60,
        245,
    ),
    "100 flows": (emulated(1e8, delay_s=0.02, streams=100, seconds=15), 94, 239),
    "10 Gbit/s": (
        emulated(1e10, delay_s=0.044, cca="bbr", offloads=True, streams=8, seconds=5),
        138,
        243,
    ),
    "each millisecond": (
        emulated(1e8, delay_s=0.01, streams=8, seconds=10, interval_s=0.001),
        156,
        471,
    ),
}


@pytest.mark.parametrize("name", USED)
def test_the_memory_that_runs_used(name: str) -> None:
    run, guest_mb, all_mb = USED[name]
    assert cost.used_memory_bytes(run) / 1e6 == pytest.approx(guest_mb, rel=0.25)
    assert cost.cost([run], 1).memory_bytes / 1e6 == pytest.approx(all_mb, rel=0.15)


def test_plan_prints_the_cost(ccmix: Ccmix) -> None:
    assert (
        "of real time in the lab, 4 runs at a time, with"
        in ccmix("plan", DEMO, "--cost", "-j", "4").stderr
    )
    rows = json.loads(ccmix("plan", DEMO, "--cost", "--format", "json").stdout)
    assert all(row["real_seconds"] > 1 and row["memory_bytes"] > 2**29 for row in rows)
    assert "real_seconds" not in ccmix("plan", DEMO, "--format", "json").stdout
