"""Tests on the processors of this machine that a thread which works all the time is noticed, on any
core.

In the lab computing takes no time. Only tests/analysis/test_validity.py, with invented numbers,
covers time that other users of a machine take, because a test can't make a hypervisor take time.
"""

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from ccmix.tools import find_iperf3
from support.commands import Ccmix, Write

WORKED = 0.98  # of the time: from this share on, the verdict reports it
# A thread that moves to another core every 100 ms, and a thread that sleeps; with a real-time
# priority, or none if 0
ROVER = """\
import os, sys, threading, time
def work():
    if int(sys.argv[2]):
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_FIFO, os.sched_param(int(sys.argv[2])))
    end, cores, moves = time.monotonic() + float(sys.argv[1]), sorted(os.sched_getaffinity(0)), 0
    while time.monotonic() < end:
        os.sched_setaffinity(threading.get_native_id(), {cores[moves % len(cores)]})
        moves += 1
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            pass
        time.sleep(float(sys.argv[3]))
worker = threading.Thread(target=work)
worker.start()
worker.join()
"""


def run_beside(
    rover: str, ccmix: Ccmix, ini: Write, folder: Path
) -> tuple[float, float, list[str]]:
    """Returns the share of the time that the rover's busiest thread worked, the smallest idle share
    of a core, and the verdict on processors.
    """
    (folder / "rover.py").write_text(ROVER)
    iperf3 = find_iperf3()
    config = ini(f"""[one]
type = iperf3
accept-limits = cpu, probe, receiver-window
dst-cmd = {iperf3} -s -1 -p 5205
src-cmd = {sys.executable} {folder}/rover.py {rover} & {iperf3} -c {{dst}} -p 5205 -t 6 -b 20M -J
""")
    ccmix("run", config, "-o", folder / "out", status=0)
    [summary] = (folder / "out").rglob("run.json")
    findings = json.loads(summary.read_text())["verdict"]["findings"]
    in_time = pl.col("time_s") >= -0.001
    processes = pl.read_parquet(summary.parent / "processes.parquet").filter(
        in_time, pl.col("host") == "src"
    )
    threads = processes.filter(
        pl.col("threads") == 0, pl.col("name").str.starts_with("python")
    ).sort("time_s")
    spent, time = pl.col("user_s") + pl.col("system_s"), pl.col("time_s")
    of_each = threads.group_by("pid").agg(
        (spent.last() - spent.first()) / (time.last() - time.first())
    )
    worked = of_each["user_s"].max()
    cpu = (
        pl.read_parquet(summary.parent / "cpu.parquet")
        .filter(in_time, pl.col("host") == "src")
        .sort("time_s")
    )
    idle_s = pl.col("idle_s").last() - pl.col("idle_s").first()
    idle = cpu.group_by("core").agg(idle_s / (time.last() - time.first()))["idle_s"].min()
    return worked, idle, [finding["detail"] for finding in findings if finding["kind"] == "cpu"]


@pytest.mark.root  # for a priority in real time
def test_a_busy_thread_that_moves_between_cores(ccmix: Ccmix, ini: Write, tmp_path: Path) -> None:
    worked, idle, details = run_beside("12 1 0", ccmix, ini, tmp_path)
    if worked < WORKED + 0.005:
        pytest.skip(
            f"NOT TESTED: this machine is too busy: the thread got {worked:.0%} of a processor"
        )
    assert any("(python" in detail and detail.partition("thread ")[1] for detail in details), (
        worked,
        idle,
        details,
    )


def test_a_thread_with_pauses_limits_nothing(ccmix: Ccmix, ini: Write, tmp_path: Path) -> None:
    worked, _, details = run_beside("12 0 0.05", ccmix, ini, tmp_path)
    assert 0 < worked < WORKED
    assert not any("python" in detail for detail in details), details
