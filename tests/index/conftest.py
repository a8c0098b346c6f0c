"""Provides a server for each test, on a node that all tests share."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ccmix.index.server import ElasticsearchServer
from ccmix.index.target import Target
from support.elasticsearch_node import Node
from support.index import Index
from support.published_archives import DEMO


@pytest.fixture
def server(elasticsearch: Node) -> Iterator[Node]:
    """Yields a running node, without any ccmix objects in it before and after."""
    elasticsearch.clear()
    yield elasticsearch
    elasticsearch.clear()


@pytest.fixture
def index(server: Node, tmp_path: Path) -> Index:
    """Returns the client of a server that was set up."""
    connected = ElasticsearchServer(Target(server.url))
    connected.set_up()
    connected.close()
    return Index(server, tmp_path / "state")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's runs of one condition, one of each of its entries."""
    outdir = tmp_path_factory.mktemp("small") / "out"
    shutil.copytree(DEMO, outdir)
    plan = json.loads((outdir / "campaign.json").read_text())
    plan["runs"] = [
        run for run in plan["runs"] if run["condition"] == {"delay": "5ms", "loss": "0%"}
    ]
    (outdir / "campaign.json").write_text(json.dumps(plan))
    return outdir
