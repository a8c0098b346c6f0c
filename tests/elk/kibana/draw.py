"""Draws the dashboards for docs/kibana.md, without Kibana: PYTHONPATH=tests .venv/bin/python tests/elk/kibana/draw.py

The demo runs twice, with two seeds; the second one stands in for a real path. It takes some minutes.
"""

import tempfile
from pathlib import Path

from ccmix.kibana.dashboards import DASHBOARDS
from ccmix.kibana.file import saved_objects
from ccmix.kibana.preview import draw
from elasticsearch_node import Node, elasticsearch_node
from filled_index import TWIN, Filtered, add_mesh, become_twin, hits
from support import REPOSITORY, Ccmix

IMAGES = REPOSITORY / "docs" / "images"
SEEDS = (1, 2)
# What the filters of a dashboard are set to.
RUN = {"ccmix.entry": ["mixed"], "ccmix.condition.name": ["delay=44ms,loss=0.1%"], "ccmix.run.iteration": [1]}
DEMO = {"ccmix.campaign.name": ["demo"]}
SHOWN = {
    "campaigns": {},
    "health": {"ccmix.campaign.name": ["demo", TWIN]},
    "real-emulated": {},
    "mesh": {},
    "ccas": DEMO,
    "run": DEMO | RUN,
}


def measure(seed: int, folder: Path) -> Path:
    outdir = folder / f"seed-{seed}"
    done = Ccmix(folder)(
        "run", REPOSITORY / "configs" / "demo.ini", "--lab", "--seed", seed, "-o", outdir, timeout=1200
    )
    assert done.returncode == 0, done.stderr
    return outdir


def index(outdir: Path, node: Node) -> None:
    done = Ccmix(outdir.parent)(
        "index", outdir, "--url", node.url, "--setup", "--spool", outdir.parent / "spool", timeout=300
    )
    assert done.returncode == 0, done.stderr
    node("POST", "/ccmix-*/_refresh")


def main() -> None:
    objects = {each.id: each for each in saved_objects()}
    views = {id_: str(each.attributes["title"]) for id_, each in objects.items() if each.type == "index-pattern"}
    with tempfile.TemporaryDirectory(prefix="ccmix-draw-") as name, elasticsearch_node() as node:
        emulated, real = (measure(seed, Path(name)) for seed in SEEDS)
        index(real, node)
        become_twin(node)
        index(emulated, node)
        add_mesh(node)
        assert hits(node, "ccmix-runs", {"term": {"ccmix.campaign.name": TWIN}})
        for dashboard in DASHBOARDS:
            only = {"bool": {"filter": [{"terms": {name: values}} for name, values in SHOWN[dashboard.name].items()]}}
            svg = draw(dashboard, objects, views, Filtered(node, only))
            (IMAGES / f"kibana-{dashboard.name}.svg").write_text(svg)


main()
