"""Tests that a killed Dask worker or scheduler costs no finished run, and no run twice."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.cluster import executor
from support.commands import Ccmix
from support.dask_cluster import dask_cluster
from support.kills import Killer

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(900)]

ITERATIONS = 6
KILLS = 50
WORKERS = 2


def test_killed_workers_and_schedulers(ccmix: Ccmix, small_ini: Path, tmp_path: Path) -> None:
    """Starts each killed worker and scheduler again, as an administrator would."""
    small_ini.write_text(
        small_ini.read_text().replace("iterations = 2", f"iterations = {ITERATIONS}")
    )
    with dask_cluster(tmp_path / "cluster") as cluster:
        for _ in range(WORKERS):
            cluster.start_worker()

        def victims(_: int) -> dict[str, list[int]]:
            assert cluster.scheduler
            if cluster.scheduler.poll() is not None:
                cluster.start_scheduler()
            living = [worker.pid for worker in cluster.workers if worker.poll() is None]
            while len(living) < WORKERS:
                living.append(cluster.start_worker().pid)
            return {"worker": living, "scheduler": [cluster.scheduler.pid]}

        def check(_: set[str]) -> Sequence[str]:
            victims(0)
            return ()

        made = Killer(
            tmp_path,
            lambda outdir, output: ccmix.start(
                "run",
                small_ini,
                "--lab",
                "-o",
                outdir,
                "--resume",
                *executor(cluster),
                output=output,
            ),
            victims,
            check,
            seed=20261129,
            longest_wait_s=5.0,
        ).make(KILLS)
    assert made.faults == []
    print(made)
