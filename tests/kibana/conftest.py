"""A node with the demo's archive, its twin and a mesh, for all tests of panels."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from elasticsearch_node import Node
from filled_index import add_mesh, add_twin
from support import Ccmix


@pytest.fixture(scope="module")
def filled(elasticsearch: Node, demo_outdir: Path) -> Iterator[Node]:
    done = Ccmix(demo_outdir.parent)("index", demo_outdir, "--url", elasticsearch.url, "--setup", timeout=200)
    assert done.returncode == 0, done.stderr
    elasticsearch("POST", "/ccmix-*/_refresh")
    add_twin(elasticsearch)
    add_mesh(elasticsearch)
    yield elasticsearch
    elasticsearch.clear()
