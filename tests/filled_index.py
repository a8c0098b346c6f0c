"""An index with something for every panel: the demo's archive, a real twin of it, and a mesh measured by pScheduler.

The demo is what `ccmix index` sends. The twin stands in for a production path: copies of the demo's documents, as of
another campaign on a path of the kind 'real', with goodput and RTTs changed, some runs limited by their processors, and
the load of these, which in the lab cost no time. The mesh is what Logstash's filter makes of a recorded message of a
real pScheduler, as of several hosts, moments and rates.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import permutations, product
from typing import Any

from ccmix_indices import bulk
from elasticsearch_node import Node
from logstash_filter import as_bulk, between, filtered, mixed, recorded

TWIN = "demo-real"
DEMO = {"term": {"ccmix.campaign.name": "demo"}}
TWIN_KINDS = ("runs", "groups", "flows", "hosts", "intervals")
FACTORS = {"ccmix.goodput_bps": 0.93, "ccmix.rtt_median_s": 1.04, "ccmix.retransmission_rate": 1.2}
MESH_HOSTS = {"geneva": 1.0, "boston": 0.7, "berkeley": 0.6, "tokyo": 0.4}
MESH_DAYS = 3
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
    """Documents, with their sources flat; at most so many, or all."""
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
    return f"{json.dumps({'index': {'_index': index, '_id': id_}})}\n{json.dumps(source)}\n".encode()


class Filtered:
    """Asks the node as Kibana does, with the filter of a dashboard."""

    def __init__(self, node: Node, only: dict[str, Any] | None = None) -> None:
        self._node, self._only = node, only

    def __call__(self, index: str, body: dict[str, Any]) -> dict[str, Any]:
        both = [body.get("query", {"match_all": {}}), self._only or {"match_all": {}}]
        answer: dict[str, Any] = self._node("POST", f"/{index}/_search", body | {"query": {"bool": {"filter": both}}})
        return answer


def add_twin(node: Node) -> None:
    """Copies of all documents of the demo, with other numbers."""
    for kind in TWIN_KINDS:
        found = hits(node, f"ccmix-{kind}*", DEMO)
        copies = (hit["_source"] | _changed(hit["_source"]) for hit in found)
        bulk(node, b"".join(_line_of_twin(hit, copy) for hit, copy in zip(found, copies, strict=True)))


def become_twin(node: Node) -> None:
    """The demo itself is the twin from now on, and there is no demo."""
    for kind in TWIN_KINDS:
        bulk(node, b"".join(_line_of_twin(hit, hit["_source"]) for hit in hits(node, f"ccmix-{kind}*", DEMO)))
    for index in node("GET", "/_cat/indices/ccmix-*?format=json"):
        rest = hits(node, index["index"], DEMO)
        if rest:
            gone = ({"delete": {"_index": index["index"], "_id": hit["_id"]}} for hit in rest)
            bulk(node, "".join(f"{json.dumps(one)}\n" for one in gone).encode())


def _line_of_twin(hit: Hit, source: Source) -> bytes:
    twin = source | {
        "ccmix.campaign.id": "0" * 16, "ccmix.campaign.name": TWIN, "ccmix.run.id": f"twin-{source['ccmix.run.id']}",
        "ccmix.path.kind": "real", "ccmix.path.pair": "geneva > boston", "source.address": "geneva",
        "destination.address": "boston", "destination.domain": "boston",
    }  # fmt: skip
    if source["event.dataset"] == "ccmix.hosts":
        twin |= {"host.name": "geneva", "ccmix.host.cpus": 16}
    return lines(hit["_index"], f"twin-{hit['_id']}", twin)


def _changed(source: Source) -> Source:
    changed: Source = {
        name: source[name] * factor for name, factor in FACTORS.items() if source.get(name) is not None
    }  # fmt: skip
    if source["ccmix.entry"] == "mixed" and source["ccmix.path.loss"] == 0:
        changed["ccmix.validity.status"] = "limited"
        if source["event.dataset"] != "ccmix.intervals":
            changed["ccmix.validity.kinds"] = ["cpu"]
    if source["event.dataset"] == "ccmix.hosts":
        changed |= {"ccmix.host.cpu_busy": 0.4, "ccmix.host.cpu_busiest_core": 0.97, "ccmix.host.softnet_drops": 3}
    return changed


def mesh_messages(until: datetime) -> Iterator[dict[str, Any]]:
    """A day's run between any two hosts, of BBR alone and of a mix with CUBIC."""
    pairs = permutations(MESH_HOSTS, 2)
    for number, (day, (source, destination), message) in enumerate(
        product(range(MESH_DAYS), pairs, (recorded(), mixed()))
    ):
        start = until - timedelta(days=day, minutes=7 * (number % 60))
        factor = MESH_HOSTS[source] * MESH_HOSTS[destination] * (1 - 0.04 * (number % 7))
        yield between(source, destination, number, start.isoformat(), factor, message)


def add_mesh(node: Node) -> None:
    bulk(node, as_bulk(filtered(mesh_messages(datetime.now(UTC)))))
