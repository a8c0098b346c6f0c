"""`ccmix index` as a command, what must be in the index by the archive, and what is there."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.archive import Campaign
from ccmix.index import context
from ccmix.index.bulk import BulkDocuments, document_lines, finished, run_lines
from ccmix.index.summaries import campaign_documents
from support.commands import CCMIX
from support.elasticsearch_node import Node


@dataclass
class Index:
    """`ccmix index` with a state folder of its own."""

    node: Node
    state: Path

    def __call__(
        self, *arguments: object, url: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments, url=url),
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )

    def start(self, *arguments: object, url: str | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*arguments, url=url),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def argv(self, *arguments: object, url: str | None) -> list[str]:
        return [CCMIX, "index", *map(str, arguments), "--url", url or self.node.url]

    def environment(self, **more: str) -> dict[str, str]:
        return os.environ | {"CCMIX_STATE": str(self.state)} | more

    def spooled(self) -> list[Path]:
        return [
            file for file in self.state.rglob("*") if file.suffix in (".bulk", ".end", ".partial")
        ]

    def rejected(self) -> list[dict[str, Any]]:
        files = self.state.rglob("rejected/*.ndjson")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


Contents = dict[tuple[str, str], str]  # index and id to the checksum of the document


def of_archive(*outdirs: Path) -> Contents:
    """What must be there: made from the archive, without a server."""
    found: Contents = {}
    for outdir in outdirs:
        campaign = Campaign.load(outdir)
        owner = context.campaign_id(campaign)
        lines = list(document_lines(owner, campaign_documents(campaign)))
        for result in finished(campaign):
            lines += run_lines(context.run_id(owner, result.run), campaign, result)
        for _, place, document in documents(lines):
            assert (place["_index"], place["_id"]) not in found, "an id twice"
            found[place["_index"], place["_id"]] = checksum(document)
    return found


def documents(
    lines: Iterable[BulkDocuments],
) -> Iterator[tuple[str, dict[str, str], dict[str, Any]]]:
    """Kind, place (index and id) and document."""
    for some in lines:
        each = some.content.splitlines()
        assert len(each) == 2 * some.documents
        for action, document in zip(each[::2], each[1::2], strict=True):
            yield some.kind, json.loads(action)["index"], json.loads(document)


def of_index(node: Node) -> Contents:
    """Every document of every index of ccmix."""
    node("POST", "/ccmix-*/_refresh")
    found: Contents = {}
    page = node("POST", "/ccmix-*/_search?scroll=1m", {"size": 5000, "sort": ["_doc"]})
    while page["hits"]["hits"]:
        for hit in page["hits"]["hits"]:
            found[hit["_index"], hit["_id"]] = checksum(hit["_source"])
        page = node("POST", "/_search/scroll", {"scroll": "1m", "scroll_id": page["_scroll_id"]})
    node("DELETE", "/_search/scroll", {"scroll_id": page["_scroll_id"]})
    return found


def checksum(document: dict[str, Any]) -> str:
    """Ignores null, which is a missing value to Elasticsearch."""
    return hashlib.sha256(json.dumps(_there(document), sort_keys=True).encode()).hexdigest()


def _there(document: dict[str, Any]) -> dict[str, Any]:
    objects = {
        name: _there(value) if isinstance(value, dict) else value
        for name, value in document.items()
    }
    return {name: value for name, value in objects.items() if value not in (None, {})}
