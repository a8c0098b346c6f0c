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
TWIN_KINDS = ("runs", "groups", "flows", "hosts", "intervals")
FACTORS = {"ccmix.goodput_bps": 0.93, "ccmix.rtt_median_s": 1.04, "ccmix.retransmission_rate": 1.2}
MESH_HOSTS = {"geneva": 1.0, "boston": 0.7, "berkeley": 0.6, "tokyo": 0.4}
MESH_DAYS = 3

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


def hits(node: Node, index: str, query: dict[str, Any], most: int = 10_000) -> list[Hit]:
    """Documents, with their sources flat."""
    found: list[Hit] = node("POST", f"/{index}/_search", {"size": most, "query": query})["hits"]["hits"]
    return [hit | {"_source": flat(hit["_source"])} for hit in found]


def lines(index: str, id_: str, source: Source) -> bytes:
    """For a bulk request."""
    return f"{json.dumps({'index': {'_index': index, '_id': id_}})}\n{json.dumps(source)}\n".encode()


def add_twin(node: Node) -> None:
    chosen = {"bool": {"filter": [{"term": {"ccmix.campaign.name": "demo"}}, {"term": {"ccmix.run.iteration": 1}}]}}
    for kind in TWIN_KINDS:
        copies = [
            lines(hit["_index"], f"twin-{hit['_id']}", _twin(hit["_source"]))
            for hit in hits(node, f"ccmix-{kind}*", chosen)
        ]
        bulk(node, b"".join(copies))


def _twin(source: Source) -> Source:
    twin = source | {
        "ccmix.campaign.id": "0" * 16, "ccmix.campaign.name": TWIN, "ccmix.run.id": f"twin-{source['ccmix.run.id']}",
        "ccmix.path.kind": "real", "ccmix.path.pair": "geneva > boston", "source.address": "geneva",
        "destination.address": "boston", "destination.domain": "boston",
    }  # fmt: skip
    twin |= {name: twin[name] * factor for name, factor in FACTORS.items() if twin.get(name) is not None}
    if source["ccmix.entry"] == "mixed" and source["ccmix.path.loss"] == 0:
        twin |= {"ccmix.validity.status": "limited"}
        if "intervals" not in source["event.dataset"]:
            twin |= {"ccmix.validity.kinds": ["cpu"]}
    if source["event.dataset"] == "ccmix.hosts":
        twin |= {"host.name": "geneva", "ccmix.host.cpus": 16, "ccmix.host.cpu_busy": 0.4,
                 "ccmix.host.cpu_busiest_core": 0.97, "ccmix.host.softnet_drops": 3}  # fmt: skip
    return twin


def mesh_messages(until: datetime) -> Iterator[dict[str, Any]]:
    """A day's run between any two hosts, of BBR alone and of a mix with CUBIC."""
    pairs = permutations(MESH_HOSTS, 2)
    for number, (day, (source, destination), message) in enumerate(
        product(range(MESH_DAYS), pairs, (recorded(), mixed()))
    ):
        start = until - timedelta(days=day, minutes=7 * (number % 60))
        factor = MESH_HOSTS[source] * MESH_HOSTS[destination] * (1 - 0.1 * (number % 3))
        yield between(source, destination, number, start.isoformat(), factor, message)


def fill(node: Node) -> None:
    """Beside the demo, which is there already."""
    add_twin(node)
    bulk(node, as_bulk(filtered(mesh_messages(datetime.now(UTC)))))
