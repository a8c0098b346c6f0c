"""Provides a cluster, a grid of short runs, and what a campaign on a cluster must equal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dask_cluster import DaskCluster, dask_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    """A scheduler without workers."""
    with dask_cluster(tmp_path / "cluster") as started:
        yield started
