"""Tests a worker of a cluster that has Python and the wheel, for a client in a clone."""

import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from support.cluster import executor, expect_same_as_local
from support.commands import Ccmix
from support.dask_cluster import dask_cluster

pytestmark = [pytest.mark.lab, pytest.mark.deep, pytest.mark.timeout(1200)]  # builds the wheel


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """Returns the Python of an environment that has the wheel's ccmix, and this one's
    other packages.
    """
    venv.create(tmp_path / "environment")
    (site,) = (tmp_path / "environment" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return tmp_path / "environment" / "bin" / "python"


def test_a_worker_with_the_wheel_alone(
    installed: Path, ccmix: Ccmix, small_ini: Path, tmp_path: Path
) -> None:
    """Expects the clone to accept the worker as equal, and the same bytes."""
    with dask_cluster(tmp_path / "cluster") as cluster:
        environment = {"CCMIX_CACHE": str(tmp_path / "cache")}
        cluster.start_worker(environment=environment, dask=(str(installed), "-m", "dask"))
        done = ccmix("run", small_ini, "--lab", "-o", tmp_path / "spread", *executor(cluster))
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "cache" / "package").iterdir())
    expect_same_as_local(ccmix, small_ini, tmp_path / "spread")
