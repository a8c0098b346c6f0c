"""A server for each test, of the one node that all share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticsearch_node import Node
from index_support import Index


@pytest.fixture
def server(elasticsearch: Node) -> Iterator[Node]:
    """A node that runs, without anything of ccmix in it before and after."""
    elasticsearch.clear()
    yield elasticsearch
    elasticsearch.clear()


@pytest.fixture
def index(server: Node, tmp_path: Path) -> Index:
    """On a server that was set up."""
    made = Index(server, tmp_path / "state")
    assert made("--setup").returncode == 0
    return made
