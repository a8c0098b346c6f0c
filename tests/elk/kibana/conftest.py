"""A node with the published demo, its twin and a mesh, for all tests of panels."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticsearch_node import Node
from filled_index import add_mesh, add_twin
from support import Ccmix


@pytest.fixture(scope="module")
def filled(elasticsearch: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder: Path = tmp_path_factory.mktemp("index")
    done = Ccmix(folder)("index", "--demo", "--url", elasticsearch.url, "--spool", folder / "spool")
    assert done.returncode == 0, done.stderr
    elasticsearch("POST", "/ccmix-*/_refresh")
    add_twin(elasticsearch)
    add_mesh(elasticsearch)
    yield elasticsearch
    elasticsearch.clear()
