"""Provides a cluster, a grid of short runs, and the expected result of a campaign on a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.dask_cluster import DaskCluster, dask_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    """A scheduler without workers."""
    with dask_cluster(tmp_path / "cluster") as started:
        yield started
