"""Defines the kinds of Elasticsearch documents and their fields, and makes mappings of them.

In the repository, `python -m ccmix.index.fields` writes the templates and
docs/reference/index-fields.md. fields.csv has the table of fields. Names are from the Elastic
Common Schema (ECS 8.17) if it has one, otherwise ccmix's terms under `ccmix.`, with the SI unit at
the end. A field has the same meaning in every kind of document.
"""

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

Document = dict[str, Any]  # field to value; None: no value
JsonObject = dict[str, Any]  # a mapping, a policy, a query or an answer of Elasticsearch

PREFIX = "ccmix-"
ECS_VERSION = "8.17.0"
SAMPLES_POLICY = f"{PREFIX}samples"
SAMPLES_KEPT = "90d"  # from the creation of a month's index
PRIORITY = 200  # above those that come with Elasticsearch
KEYWORD_MOST_BYTES = 8191  # of UTF-8 four bytes each: Lucene's limit of a term is 32766
TEMPLATES, TABLE = Path("elk/elasticsearch"), Path("docs/reference/index-fields.md")


@dataclass(frozen=True)
class DocumentKind:
    """Describes a kind of document, and the indices that it is in.

    Samples (rows of a series) are in an index for each month, `ccmix-NAME-2026.11`, which a policy
    may delete. All other documents are in a single index, `ccmix-NAME`, and are kept.
    """

    name: str
    meaning: str
    samples: bool = False

    @property
    def dataset(self) -> str:
        return f"ccmix.{self.name}"

    @property
    def index_pattern(self) -> str:
        return f"{PREFIX}{self.name}-*" if self.samples else f"{PREFIX}{self.name}"

    @property
    def first_index(self) -> str:
        """Returns the index that the set-up makes.

        For samples it stays empty, and no policy deletes it: Kibana reports an error if a pattern
        matches no index.
        """
        return self.index_pattern.replace("*", "empty")


KINDS = {
    kind.name: kind
    for kind in (
        DocumentKind("campaigns", "a campaign: its plan, INI file and command"),
        DocumentKind(
            "conditions",
            "statistics over the iterations of a condition, for each destination and group",
        ),
        DocumentKind("runs", "a finished run: its settings, results and verdict"),
        DocumentKind("groups", "a group of a run"),
        DocumentKind("flows", "a flow of a run"),
        DocumentKind(
            "hosts", "a host in a run: its facts, its probe's performance, its kernel's counters"
        ),
        DocumentKind(
            "intervals", "goodput and retransmissions of a flow in an interval", samples=True
        ),
        DocumentKind(
            "sockets",
            "a sample of a flow's socket at one of its ends, without values that only matter at "
            "the other end",
            samples=True,
        ),
        DocumentKind(
            "queues", "a sample of a qdisc: the bottleneck's, or the sender's", samples=True
        ),
        DocumentKind(
            "packets",
            "counters of a packet capture for a direction of a connection in 100 ms",
            samples=True,
        ),
        DocumentKind("rtts", "a question of the RTT probe and its answer", samples=True),
        DocumentKind("completions", "an HTTP request, or a short flow of a workload", samples=True),
    )
}

SAMPLES = tuple(kind.name for kind in KINDS.values() if kind.samples)
# The words for several kinds in fields.csv
_SEVERAL = {
    "all": tuple(KINDS),
    "all-but-campaigns": tuple(name for name in KINDS if name != "campaigns"),
    "all-of-runs": tuple(name for name in KINDS if name not in ("campaigns", "conditions")),
    "samples": SAMPLES,
    "summaries": tuple(name for name in KINDS if name not in SAMPLES),
}


@dataclass(frozen=True)
class Field:
    """Describes a field of documents.

    `unit` is as in the mapping's metadata: Elasticsearch's words (s, byte, percent: 1 is 100%) or
    otherwise a plain word; None for names and dates. `metric` is 'counter' for values that only
    grow during a run, otherwise 'gauge'.
    """

    name: str
    type: str  # Elasticsearch's
    meaning: str
    kinds: tuple[str, ...]
    unit: str | None
    metric: str | None


def _read_fields() -> Iterator[Field]:
    """Reads fields.csv; words such as 'samples' in its column `kinds` mean several kinds."""
    table = files("ccmix.index").joinpath("fields.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(table.splitlines()):
        kinds = [kind for word in row["kinds"].split() for kind in _SEVERAL.get(word, (word,))]
        unit, metric = row["unit"] or None, row["metric"] or None
        yield Field(row["name"], row["type"], row["meaning"], tuple(kinds), unit, metric)


FIELDS = {field.name: field for field in _read_fields()}


def fields_of(kind: str) -> Iterable[Field]:
    """Returns the fields that a kind of document has, in the order of the table."""
    return (field for field in FIELDS.values() if kind in field.kinds)


def mapping(kind: DocumentKind) -> JsonObject:
    """Returns Elasticsearch's mapping of a kind: the type of each field.

    It is strict: a document with any other field is rejected.
    """
    properties: JsonObject = {}
    for field in fields_of(kind.name):
        parent = properties
        *objects, leaf = field.name.split(".")
        for name in objects:
            parent = parent.setdefault(name, {"properties": {}})["properties"]
        parent[leaf] = _field_mapping(field, kind)
    return {"dynamic": "strict", "_meta": {"ccmix": fingerprint()}, "properties": properties}


def _field_mapping(field: Field, kind: DocumentKind) -> JsonObject:
    """Returns the mapping of one field: its type, unit, and whether it is indexed."""
    properties: JsonObject = {"type": field.type}
    if field.type == "keyword":
        properties["ignore_above"] = KEYWORD_MOST_BYTES
    elif kind.samples and field.type in ("double", "long", "boolean") and field.name != "ccmix.row":
        properties["index"] = (
            False  # only doc values: enough to aggregate and to filter, and half the work to index
        )
    if field.unit:
        properties["meta"] = {"unit": field.unit} | (
            {"metric_type": field.metric} if field.metric else {}
        )
    return properties


def fingerprint() -> str:
    """Returns a hash of the table of fields.

    Each index keeps it, which shows whether the index was set up for this version's fields.
    """
    table = [
        (field.name, field.type, field.unit, field.metric, sorted(field.kinds))
        for field in FIELDS.values()
    ]
    return hashlib.sha256(json.dumps(table).encode()).hexdigest()[:16]


def settings(kind: DocumentKind, *, lifecycle: bool) -> JsonObject:
    """Returns the settings of a kind's indices; `lifecycle` says whether the server has ILM."""
    index: JsonObject = {
        "number_of_shards": 1,
        "auto_expand_replicas": "0-1",
        "refresh_interval": "30s"
        if kind.samples
        else "5s",  # less work while many come; the end of a run refreshes
        "mapping": {"total_fields": {"limit": 1000}},
    }
    if kind.samples and lifecycle:
        index["lifecycle"] = {"name": SAMPLES_POLICY}
    return {"index": index}


def template(kind: DocumentKind, *, lifecycle: bool) -> JsonObject:
    """Returns the index template `ccmix-NAME`, from which Elasticsearch makes indices of a kind."""
    return {
        "index_patterns": [kind.index_pattern],
        "priority": PRIORITY,
        "template": {"settings": settings(kind, lifecycle=lifecycle), "mappings": mapping(kind)},
        "_meta": {"description": f"ccmix: {kind.meaning}", "ccmix": fingerprint()},
    }


def template_name(kind: DocumentKind) -> str:
    return f"{PREFIX}{kind.name}"


def policy() -> JsonObject:
    """Returns the lifecycle policy (ILM) that deletes old indices of samples."""
    delete = {"min_age": SAMPLES_KEPT, "actions": {"delete": {}}}
    return {
        "policy": {
            "phases": {"hot": {"actions": {}}, "delete": delete},
            "_meta": {"managed_by": "ccmix"},
        }
    }


def template_files() -> dict[str, JsonObject]:
    """Returns the files of elk/elasticsearch except the roles, as {path: content}.

    The content is in the form of Elasticsearch's REST interface.
    """
    templates = {
        f"index-templates/{template_name(kind)}.json": template(kind, lifecycle=True)
        for kind in KINDS.values()
    }
    return templates | {f"ilm/{SAMPLES_POLICY}.json": policy()}


def field_table() -> str:
    """Returns the text of docs/reference/index-fields.md."""
    rows = []
    for field in FIELDS.values():
        kinds = "all" if len(field.kinds) == len(KINDS) else ", ".join(field.kinds)
        rows.append(
            f"| `{field.name}` | {field.type} | {field.unit or ''} | {kinds} | {field.meaning} |"
        )
    indices = [
        f"| `{kind.index_pattern}` | {kind.meaning} | {'by policy' if kind.samples else 'kept'} |"
        for kind in KINDS.values()
    ]
    return "\n".join(
        [
            "# Fields of the index",
            "",
            "Made by `python -m ccmix.index.fields` from `harness/ccmix/index/fields.csv`; a test "
            "compares them.",
            "",
            "| index | a document is | kept |",
            "|---|---|---|",
            *indices,
            "",
            "| field | type | unit | in | meaning |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main() -> None:
    """Writes the index templates of Elasticsearch, and the documentation's table of fields, into
    the repository. The working folder must be the top folder of the repository.
    """
    for name, content in template_files().items():
        file = TEMPLATES / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1) + "\n")
    TABLE.write_text(field_table())


if __name__ == "__main__":
    main()
