"""Draws the dashboards of docs/reference/dashboards.md without Kibana.

PYTHONPATH=tests .venv/bin/python tests/elk/kibana/draw.py [NAME...]
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from ccmix.kibana.dashboards import dashboards, saved_objects
from support.commands import REPOSITORY
from support.elasticsearch_node import Node, elasticsearch_node
from support.filled_index import RECORDED, Filtered, fill
from support.kibana_preview import draw

IMAGES = REPOSITORY / "docs" / "images"

Chosen = dict[str, list[Any]]  # the filters of a dashboard

DEMO: Chosen = {"ccmix.campaign.name": ["demo"]}
THE_RECORDED: Chosen = {"ccmix.campaign.name": [outdir.name for outdir in RECORDED]}
MEASURED: Chosen = {
    "ccmix.campaign.name": [*DEMO["ccmix.campaign.name"], *THE_RECORDED["ccmix.campaign.name"]]
}
MIX: Chosen = {
    "ccmix.entry": ["mixed"],
    "ccmix.condition.name": ["delay=44ms,loss=0.1%"],
    "ccmix.run.iteration": [1],
}
TWO: Chosen = MIX | {"ccmix.condition.name": ["delay=44ms,loss=0.1%", "delay=5ms,loss=0.1%"]}
SHOWN: dict[str, Chosen] = {
    "campaigns": MEASURED,
    "health": MEASURED,
    "real-emulated": THE_RECORDED | {"ccmix.entry": ["paced"]},
    "mesh": {},
    "ccas": DEMO,
    "run": DEMO | MIX,
    "compare": DEMO | TWO,
}
# The demo's run lacks the data of these panels: they show another run
OF_ANOTHER_RUN: dict[str, Chosen] = {
    "ccmix-packets-*": {
        "ccmix.campaign.name": ["real"],
        "ccmix.mix": ["reno,bbr"],
        "ccmix.run.iteration": [1],
    },
    "ccmix-rtts-*": {
        "ccmix.campaign.name": ["real"],
        "ccmix.mix": ["reno,bbr"],
        "ccmix.run.iteration": [1],
    },
    "ccmix-completions-*": {"ccmix.campaign.name": ["emulated"]},
}


class Shown:
    """Asks the node for the documents that pass a dashboard's filters."""

    def __init__(self, node: Node, chosen: Chosen) -> None:
        self._node, self._chosen = node, chosen

    def __call__(self, index: str, body: dict[str, Any]) -> dict[str, Any]:
        filters = [
            {"terms": {field: values}}
            for field, values in OF_ANOTHER_RUN.get(index, self._chosen).items()
        ]
        return Filtered(self._node, {"bool": {"filter": filters}})(index, body)


def main() -> None:
    objects = {each.id: each for each in saved_objects()}
    views = {
        id_: str(each.attributes["title"])
        for id_, each in objects.items()
        if each.type == "index-pattern"
    }
    with tempfile.TemporaryDirectory(prefix="ccmix-draw-") as name, elasticsearch_node() as node:
        fill(node, Path(name))
        for dashboard in dashboards():
            if sys.argv[1:] and dashboard.name not in sys.argv[1:]:
                continue
            svg = draw(dashboard, objects, views, Shown(node, SHOWN[dashboard.name]))
            (IMAGES / f"kibana-{dashboard.name}.svg").write_text(svg)


main()
