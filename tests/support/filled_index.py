"""An index with something for every panel, all of it measured: the demo, the campaigns of
tests/data/index, and what Logstash's filter makes of messages that real pScheduler servers sent.
"""

import json
from pathlib import Path
from typing import Any

from support.ccmix_indices import bulk
from support.commands import REPOSITORY, Ccmix
from support.elasticsearch_node import Node
from support.logstash_filter import as_bulk, filtered, of_mix, recorded
from support.published_archives import DEMO

RECORDED = tuple(
    REPOSITORY / "tests" / "data" / "index" / name
    for name in ("emulated", "real", "pscheduler", "later", "path", "twin")
)
MIXES = ("forward", "reverse", "repeated-second-run")
PAGE = 5000
ORDER = [{"ccmix.run.id": {"unmapped_type": "keyword"}}, "ccmix.row"]

Source = dict[str, Any]
Hit = dict[str, Any]


def flat(source: Source, prefix: str = "") -> Source:
    """Field to value; a source may have objects, names with dots, or both."""
    fields: Source = {}
    for name, value in source.items():
        if isinstance(value, dict):
            fields |= flat(value, f"{prefix}{name}.")
        else:
            fields[f"{prefix}{name}"] = value
    return fields


def hits(node: Node, index: str, query: dict[str, Any], most: int | None = None) -> list[Hit]:
    """Documents, with flat sources; at most `most`, or all."""
    found: list[Hit] = []
    body: dict[str, Any] = {"size": most or PAGE, "query": query, "sort": ORDER}
    while True:
        page = node("POST", f"/{index}/_search", body)["hits"]["hits"]
        found += [hit | {"_source": flat(hit["_source"])} for hit in page]
        if most or len(page) < PAGE:
            return found
        body["search_after"] = page[-1]["sort"]


def lines(index: str, id_: str, source: Source) -> bytes:
    """For a bulk request."""
    return (
        f"{json.dumps({'index': {'_index': index, '_id': id_}})}\n{json.dumps(source)}\n".encode()
    )


class Filtered:
    """Asks the node as Kibana does, with the filter of a dashboard."""

    def __init__(self, node: Node, only: dict[str, Any] | None = None) -> None:
        self._node, self._only = node, only

    def __call__(self, index: str, body: dict[str, Any]) -> dict[str, Any]:
        both = [body.get("query", {"match_all": {}}), self._only or {"match_all": {}}]
        answer: dict[str, Any] = self._node(
            "POST", f"/{index}/_search", body | {"query": {"bool": {"filter": both}}}
        )
        return answer


def fill(node: Node, folder: Path) -> None:
    """The demo and the recorded campaigns by `ccmix index`, and messages of pScheduler as
    by Logstash.
    """
    done = Ccmix(folder)(
        "index", "--setup", DEMO, *RECORDED, "--url", node.url, "--spool", folder / "spool"
    )
    assert done.returncode == 0, done.stderr
    bulk(node, as_bulk(filtered([recorded(), *(of_mix(name) for name in MIXES)])))
