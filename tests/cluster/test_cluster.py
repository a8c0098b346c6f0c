"""Tests campaigns on a real Dask cluster: a scheduler and workers as processes on loopback."""

import contextlib
import os
from pathlib import Path

import pytest

from ccmix.archive import Campaign
from support.cluster import executor, expect_same_as_local, finished, grid
from support.commands import SMALL, Ccmix, deep, wait_for
from support.dask_cluster import DASK, DaskCluster, children, listening

pytestmark = pytest.mark.lab


def test_the_same_bytes_as_on_this_machine(
    cluster: DaskCluster, ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    """Expects workers, scheduler and client to listen only on loopback."""
    for _ in range(2):
        cluster.start_worker()
    done = ccmix("run", small_ini, "--lab", "-o", tmp_path / "spread", *executor(cluster), status=0)
    assert "2 runs valid, 0 not valid, 0 failed" in done.stderr
    expect_same_as_local(ccmix, small_ini, tmp_path / "spread")
    assert {place for pid in cluster.pids for place in listening(pid)} == {"127.0.0.1"}


@pytest.mark.deep
def test_runs_that_are_named(cluster: DaskCluster, ccmix: Ccmix, tmp_path: Path) -> None:
    ini, spread = tmp_path / "two.ini", tmp_path / "spread"
    ini.write_text(f"{SMALL}[other]\ntype = iperf3\ntopology = small\nduration = 1s\n")
    cluster.start_worker()
    chosen = ("--only", "both", "--run", "both all #2")
    ccmix("run", ini, "--lab", "-o", spread, *chosen, *executor(cluster), status=0)
    assert [run.name for run in Campaign.load(spread).runs] == ["both all #2"]
    assert finished(spread) == 1


@pytest.mark.deep
def test_a_guest_stays_on_the_core_of_its_worker(
    cluster: DaskCluster, ccmix: Ccmix, tmp_path: Path
) -> None:
    cores = sorted(os.sched_getaffinity(0))[-2:]
    for core in cores:
        cluster.start_worker(dask=("taskset", "--cpu-list", str(core), DASK))
    running = ccmix.start(
        "run", grid(tmp_path / "grid.ini", 6), "--lab", "-o", tmp_path / "out", *executor(cluster)
    )
    for worker, core in zip(cluster.workers, cores, strict=True):
        wait_for(lambda worker=worker: children(worker.pid), 120, "a guest")  # type: ignore[misc]
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            assert {*map(frozenset, map(os.sched_getaffinity, children(worker.pid)))} == {
                frozenset({core})
            }
    _, errors = running.communicate(timeout=240)
    assert running.returncode == 0, errors


@pytest.mark.parametrize("cells", [deep(12), pytest.param(400, marks=[pytest.mark.long])])
def test_two_workers_killed(cells: int, cluster: DaskCluster, ccmix: Ccmix, tmp_path: Path) -> None:
    """Kills both workers, each while it makes a run, and starts another in its place."""
    for _ in range(2):
        cluster.start_worker()
    ini, spread, limit_s = grid(tmp_path / "grid.ini", cells), tmp_path / "spread", 20 * cells
    running = ccmix.start("run", ini, "--lab", "-o", spread, *executor(cluster))
    for victim, after in enumerate((cells // 6, cells // 2)):
        wait_for(lambda after=after: finished(spread) >= after, limit_s, f"{after} runs")  # type: ignore[misc]
        cluster.kill_worker(victim)
        cluster.start_worker()
    _, errors = running.communicate(timeout=limit_s)
    assert running.returncode == 0, errors
    assert f"{cells} runs valid, 0 not valid, 0 failed" in errors
    expect_same_as_local(ccmix, ini, spread, limit_s)


def test_what_is_refused_before_anything_is_made(
    ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    dask = "dask://127.0.0.1:1"
    for options, said in (
        (("--executor", dask), "--executor needs --lab"),
        (("--lab", "--executor", dask, "-j", 2), "-j is for this machine"),
        (("--lab", "--executor", "dask:127.0.0.1"), "give dask://HOST:PORT"),
        (
            ("--lab", "--executor", dask, "--shared", tmp_path / "none"),
            "is not a folder on this machine",
        ),
        (("--lab", "--executor", dask), "no scheduler of Dask answers there"),
    ):
        done = ccmix("run", small_ini, "-o", tmp_path / "out", *options, status=2)
        assert said in done.stderr
    assert not (tmp_path / "out").exists()
