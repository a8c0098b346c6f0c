"""Starts a node with data for every panel, for all tests of panels."""

from collections.abc import Iterator

import pytest

from support.elasticsearch_node import Node
from support.filled_index import fill


@pytest.fixture(scope="module")
def filled(elasticsearch: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    fill(elasticsearch, tmp_path_factory.mktemp("index"))
    yield elasticsearch
    elasticsearch.clear()
