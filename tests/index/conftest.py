"""A server for each test, of the one node that all share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ccmix.index.server import ElasticsearchServer
from ccmix.index.target import Target
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
    connected = ElasticsearchServer(Target(server.url))
    connected.set_up()
    connected.close()
    return Index(server, tmp_path / "state")
