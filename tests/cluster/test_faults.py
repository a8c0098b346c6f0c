"""Tests faults of a cluster, each with a real scheduler and real workers on loopback."""

import shutil
import signal
from pathlib import Path

import pytest

from ccmix.tools import find_kernel
from support.cluster import executor, expect_same_as_local, finished, grid
from support.commands import REPOSITORY, SMALL, Ccmix, small_disk, wait_for
from support.dask_cluster import DaskCluster, children

pytestmark = [pytest.mark.lab, pytest.mark.deep]

LIMIT_S = 240
NO_RUN_WORKS = {
    "TMPDIR": "/no/such/folder"
}  # of a worker that is to get none: the client would say why it could not
GOT_A_RUN = "gets no more runs"
OTHER_VERSION = """
import importlib.metadata
asked = importlib.metadata.version
importlib.metadata.version = lambda name: "2025.1.0" if name == "distributed" else asked(name)
"""


@pytest.mark.long
def test_the_scheduler_restarted(cluster: DaskCluster, ccmix: Ccmix, tmp_path: Path) -> None:
    """Kills the scheduler, which also ends its worker, and starts both again at the same address."""
    worker = cluster.start_worker()
    ini, spread = grid(tmp_path / "grid.ini", 6), tmp_path / "spread"
    running = ccmix.start("run", ini, "--lab", "-o", spread, *executor(cluster))
    wait_for(lambda: finished(spread) >= 2, LIMIT_S, "two runs")
    cluster.kill_scheduler()
    worker.wait(LIMIT_S)
    cluster.start_scheduler()
    cluster.start_worker()
    _, errors = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, errors
    assert "the scheduler was lost" in errors
    expect_same_as_local(ccmix, ini, spread)


def test_a_worker_with_other_code(
    cluster: DaskCluster, ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    """Expects a worker of another ccmix to be refused by name and to get no run, both by itself and
    together with a good worker.
    """
    shutil.copytree(REPOSITORY / "harness", tmp_path / "harness", symlinks=False)
    with (tmp_path / "harness" / "ccmix" / "run" / "measure.py").open("a") as file:
        file.write("# changed\n")
    cluster.start_worker(environment={"PYTHONPATH": str(tmp_path / "harness"), **NO_RUN_WORKS})
    done = ccmix("run", small_ini, "--lab", "-o", tmp_path / "spread", *executor(cluster), status=2)
    assert (
        f"worker {cluster.worker_address(0)} is refused, because its results could differ"
        in done.stderr
    )
    assert "it has ccmix (" in done.stderr
    assert not (tmp_path / "spread").exists()

    cluster.start_worker()
    done = ccmix("run", small_ini, "--lab", "-o", tmp_path / "spread", *executor(cluster), status=0)
    assert f"worker {cluster.worker_address(0)} is refused" in done.stderr
    assert GOT_A_RUN not in done.stderr
    expect_same_as_local(ccmix, small_ini, tmp_path / "spread")


def test_a_worker_that_lacks_programs_and_kernel(
    cluster: DaskCluster, ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    cluster.start_worker(
        environment={
            "CCMIX_USERLAND": "/bin/false",
            "CCMIX_LAB_KERNEL": "/no/kernel",
            **NO_RUN_WORKS,
        }
    )
    done = ccmix("run", small_ini, "--lab", "-o", tmp_path / "spread", *executor(cluster), status=2)
    (said,) = [line for line in done.stderr.splitlines() if "is refused" in line]
    assert "it has the lab's kernel (none, here " in said
    assert "; the lab's userland (none, here " in said
    assert "install the same wheel or commit of ccmix there, and start the worker again" in said
    cluster.start_worker()
    done = ccmix("run", small_ini, "--lab", "-o", tmp_path / "spread", *executor(cluster), status=0)
    assert done.stderr.count("is refused") == 1
    assert GOT_A_RUN not in done.stderr


def test_a_worker_that_lacks_a_kernel_with_a_name(
    cluster: DaskCluster, ccmix: Ccmix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gives the client another name for its kernel, which the worker learns later."""
    ini, spread, named = tmp_path / "mine.ini", tmp_path / "spread", tmp_path / "named"
    ini.write_text(SMALL.replace("[topology small]", "[topology small]\nkernel = mine"))
    named.mkdir()
    (named / "mine").symlink_to(find_kernel())
    cluster.start_worker(environment={"CCMIX_LAB_KERNELS": str(tmp_path / "none"), **NO_RUN_WORKS})
    monkeypatch.setenv("CCMIX_LAB_KERNELS", str(named))
    with_kernel = Ccmix(ccmix.folder)
    done = with_kernel("run", ini, "--lab", "-o", spread, *executor(cluster))
    assert done.returncode == 2, done.stderr
    assert "it has kernel mine (none, here " in done.stderr
    assert "build it there with: lab/build --name mine, and start the worker again" in done.stderr
    cluster.start_worker()
    done = with_kernel("run", ini, "--lab", "-o", spread, *executor(cluster))
    assert done.returncode == 0, done.stderr
    assert finished(spread) == 2


@pytest.mark.long
def test_a_worker_without_the_preload(
    cluster: DaskCluster, ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    cluster.start_worker(preload=())
    done = ccmix("run", small_ini, "--lab", "-o", tmp_path / "spread", *executor(cluster), status=2)
    assert "was started without --preload ccmix.cluster.worker" in done.stderr


@pytest.mark.long
def test_another_version_of_dask(
    cluster: DaskCluster, ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    """Stands in for another version with a scheduler that reports it."""
    cluster.kill_scheduler()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(OTHER_VERSION)
    cluster.start_scheduler(environment={"PYTHONPATH": str(tmp_path / "site")})
    done = ccmix("run", small_ini, "--lab", "-o", tmp_path / "spread", *executor(cluster), status=2)
    assert "the scheduler has distributed 2025.1.0, but ccmix here has 20" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.namespaces
def test_a_full_disk_at_a_worker(cluster: DaskCluster, ccmix: Ccmix, tmp_path: Path) -> None:
    """Expects another worker, which comes when the first has failed, to make the runs."""
    ini, spread = grid(tmp_path / "grid.ini", 4), tmp_path / "spread"
    with small_disk(tmp_path / "full", "60k") as full:
        cluster.start_worker(environment={"TMPDIR": str(full)})
        cluster.start_worker()
        done = ccmix("run", ini, "--lab", "-o", spread, *executor(cluster), status=0)
        assert (
            f"worker {cluster.worker_address(0)} gets no more runs while others are there: "
            in done.stderr
        )
        assert "disk is full" in done.stderr
        cluster.end()
    expect_same_as_local(ccmix, ini, spread)


@pytest.mark.long
@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGINT])
def test_the_client_gone_and_resumed(
    ended_by: signal.Signals, cluster: DaskCluster, ccmix: Ccmix, tmp_path: Path
) -> None:
    """Expects no guest to be left at the workers, and --resume to make the rest."""
    worker = cluster.start_worker()
    ini, spread = grid(tmp_path / "grid.ini", 6), tmp_path / "spread"
    command = ("run", ini, "--lab", "-o", spread, *executor(cluster))
    running = ccmix.start(*command)
    wait_for(
        lambda: finished(spread) >= 2 and children(worker.pid), LIMIT_S, "two runs, and another"
    )
    running.send_signal(ended_by)
    _, errors = running.communicate(timeout=LIMIT_S)
    assert running.returncode == (130 if ended_by is signal.SIGINT else -signal.SIGKILL), errors
    wait_for(lambda: not children(worker.pid), LIMIT_S, "the end of the worker's guest")
    left = 6 - finished(spread)
    assert left > 0
    done = ccmix(*command, "--resume", status=0)
    assert f"{left} of 6 runs" in done.stderr
    expect_same_as_local(ccmix, ini, spread)


@pytest.mark.long
def test_more_memory_than_any_worker_has(
    cluster: DaskCluster, ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    """Expects runs to wait for a worker with enough memory, and to be made when it comes."""
    cluster.start_worker("--memory-limit", "256MB", environment=NO_RUN_WORKS)
    running = ccmix.start("run", small_ini, "--lab", "-o", tmp_path / "spread", *executor(cluster))
    wait_for((tmp_path / "spread" / "campaign.json").exists, LIMIT_S, "the campaign")
    cluster.start_worker()
    _, errors = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, errors
    assert "wait for a worker with that much memory: the largest has 256 MB" in errors
    assert GOT_A_RUN not in errors


def test_a_large_run_through_a_shared_folder(
    cluster: DaskCluster, ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    """Makes 1000 bytes count as large at the worker."""
    small = tmp_path / "small_messages.py"
    small.write_text("from ccmix.cluster import worker\nworker.MOST_THROUGH_DASK_BYTES = 1000\n")
    cluster.start_worker("--preload", str(small))
    spread, shared = tmp_path / "spread", tmp_path / "shared"
    shared.mkdir()
    command = ("run", small_ini, "--lab", "-o", spread, *executor(cluster))
    without = ccmix(*command, status=1)
    assert "give a folder that all workers see by --shared" in without.stderr
    (shared / "ccmix-of-others").mkdir()
    ccmix(*command, "--resume", "--shared", shared, status=0)
    assert [folder.name for folder in shared.iterdir()] == ["ccmix-of-others"]
    expect_same_as_local(ccmix, small_ini, spread)
