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

from ccmix.index.fields import FIELDS
from ccmix_indices import bulk
from elasticsearch_node import Node
from logstash_filter import as_bulk, between, filtered, mixed, recorded

TWIN = "demo-real"
DEMO = {"term": {"ccmix.campaign.name": "demo"}}
TWIN_KINDS = ("conditions", "runs", "groups", "flows", "hosts", "intervals")
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
    """Copies of all documents of the demo with other numbers: two valid iterations, and one that was limited."""
    for kind, (iteration, change) in product(TWIN_KINDS, enumerate((_faster, _slower, _limited), start=1)):
        found = hits(node, f"ccmix-{kind}*", DEMO)
        bulk(node, b"".join(_as_twin(hit, iteration, change(hit["_source"])) for hit in found))


def become_twin(node: Node) -> None:
    """The demo itself is the twin from now on, and there is no demo."""
    for kind in TWIN_KINDS:
        found = hits(node, f"ccmix-{kind}*", DEMO)
        bulk(node, b"".join(_as_twin(hit, hit["_source"].get("ccmix.run.iteration"), {}) for hit in found))
    for index in node("GET", "/_cat/indices/ccmix-*?format=json"):
        rest = hits(node, index["index"], DEMO)
        if rest:
            gone = ({"delete": {"_index": index["index"], "_id": hit["_id"]}} for hit in rest)
            bulk(node, "".join(f"{json.dumps(one)}\n" for one in gone).encode())


def _as_twin(hit: Hit, iteration: int | None, changes: Source) -> bytes:
    source = hit["_source"]
    twin = source | changes | {
        "ccmix.campaign.id": "0" * 16, "ccmix.campaign.name": TWIN, "ccmix.path.kind": "real",
        "ccmix.path.pair": "geneva > boston", "source.address": "geneva", "destination.address": "boston",
        "destination.domain": "boston",
    }  # fmt: skip
    if "ccmix.run.id" in source:
        twin |= {"ccmix.run.id": f"twin-{iteration}-{source['ccmix.run.id']}", "ccmix.run.iteration": iteration}
    if source["event.dataset"] == "ccmix.hosts":
        twin |= {"host.name": "geneva", "ccmix.host.cpus": 16}
    return lines(hit["_index"], f"twin-{iteration}-{hit['_id']}", twin)


def _times(source: Source, factors: dict[str, float]) -> Source:
    return {name: source[name] * factor for name, factor in factors.items() if source.get(name) is not None}


def _faster(source: Source) -> Source:
    return _times(source, {"ccmix.goodput_bps": 1.02, "ccmix.rtt_median_s": 0.98, "ccmix.retransmission_rate": 0.9})


def _slower(source: Source) -> Source:
    slower = _times(source, {"ccmix.goodput_bps": 0.9, "ccmix.rtt_median_s": 1.1, "ccmix.retransmission_rate": 1.3})
    return slower | ({"ccmix.condition.goodput_cv": 0.05} if source["event.dataset"] == "ccmix.conditions" else {})


def _limited(source: Source) -> Source:
    kind = source["event.dataset"].removeprefix("ccmix.")
    limited: Source = {}
    for name, value in {"ccmix.validity.status": "limited", "ccmix.validity.kinds": ["cpu"]}.items():
        limited |= {name: value} if kind in FIELDS[name].kinds else {}
    if kind == "hosts":
        limited |= {"ccmix.host.cpu_busy": 0.4, "ccmix.host.cpu_busiest_core": 0.97, "ccmix.host.softnet_drops": 3}
    return limited


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
