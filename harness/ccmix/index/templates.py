"""Index templates, the policy for samples and the roles, from the table of fields; elk/elasticsearch has the files."""

import hashlib
import json

from ccmix.index.fields import FIELDS, KINDS, PREFIX, DocumentKind, Field, fields_of
from ccmix.index.json_types import JsonObject

SAMPLES_POLICY = f"{PREFIX}samples"
SAMPLES_KEPT = "90d"  # from the creation of a month's index
PRIORITY = 200  # above those that come with Elasticsearch
KEYWORD_MOST_BYTES = 8191  # of UTF-8 four bytes each: Lucene's limit of a term is 32766


def mapping(kind: DocumentKind) -> JsonObject:
    """Explicit and strict: a document with any other field is rejected."""
    properties: JsonObject = {}
    for field in fields_of(kind.name):
        place = properties
        *objects, leaf = field.name.split(".")
        for name in objects:
            place = place.setdefault(name, {"properties": {}})["properties"]
        place[leaf] = _mapped(field, kind)
    return {"dynamic": "strict", "_meta": {"ccmix": fingerprint()}, "properties": properties}


def _mapped(field: Field, kind: DocumentKind) -> JsonObject:
    mapped: JsonObject = {"type": field.type}
    if field.type == "keyword":
        mapped["ignore_above"] = KEYWORD_MOST_BYTES
    elif kind.samples and field.type in ("double", "long", "boolean") and field.name != "ccmix.row":
        mapped["index"] = False  # doc values alone: aggregated and filtered by, and half the work to index
    if field.unit:
        mapped["meta"] = {"unit": field.unit} | ({"metric_type": field.metric} if field.metric else {})
    return mapped


def fingerprint() -> str:
    """Returns a fingerprint of the table, by which a client knows whether an index was set up for it."""
    table = [(field.name, field.type, field.unit, field.metric, sorted(field.kinds)) for field in FIELDS.values()]
    return hashlib.sha256(json.dumps(table).encode()).hexdigest()[:16]


def settings(kind: DocumentKind, *, lifecycle: bool) -> JsonObject:
    """`lifecycle`: whether the server has ILM."""
    index: JsonObject = {
        "number_of_shards": 1,
        "auto_expand_replicas": "0-1",
        "refresh_interval": "30s" if kind.samples else "5s",  # less work while many come; the end of a run refreshes
        "mapping": {"total_fields": {"limit": 1000}},
    }
    if kind.samples and lifecycle:
        index["lifecycle"] = {"name": SAMPLES_POLICY}
    return {"index": index}


def template(kind: DocumentKind, *, lifecycle: bool) -> JsonObject:
    """Returns the index template `ccmix-NAME`."""
    return {
        "index_patterns": [kind.index_pattern],
        "priority": PRIORITY,
        "template": {"settings": settings(kind, lifecycle=lifecycle), "mappings": mapping(kind)},
        "_meta": {"description": f"ccmix: {kind.meaning}", "ccmix": fingerprint()},
    }


def template_name(kind: DocumentKind) -> str:
    return f"{PREFIX}{kind.name}"


def policy() -> JsonObject:
    """ILM: an index of samples is deleted; runs and all other kinds have no policy, so they are kept."""
    delete = {"min_age": SAMPLES_KEPT, "actions": {"delete": {}}}
    return {"policy": {"phases": {"hot": {"actions": {}}, "delete": delete}, "_meta": {"managed_by": "ccmix"}}}


def roles() -> dict[str, JsonObject]:
    """`ccmix-setup` for `ccmix index --setup`, `ccmix-writer` for all other sending, `ccmix-reader` for dashboards."""
    every = [f"{PREFIX}*"]
    return {
        "ccmix-setup": {
            "cluster": ["manage_index_templates", "manage_ilm"],
            "indices": [{"names": every, "privileges": ["create_index", "manage", "view_index_metadata"]}],
        },
        "ccmix-writer": {
            "cluster": [],
            "indices": [
                {
                    "names": every,
                    "privileges": ["create_index", "index", "delete", "read", "view_index_metadata", "maintenance"],
                }
            ],
        },
        "ccmix-reader": {
            "cluster": [],
            "indices": [{"names": every, "privileges": ["read", "view_index_metadata"]}],
        },
    }


def files() -> dict[str, JsonObject]:
    """Returns the files of elk/elasticsearch, path to content, as for Elasticsearch's own REST interface."""
    of_templates = {
        f"index-templates/{template_name(kind)}.json": template(kind, lifecycle=True) for kind in KINDS.values()
    }
    of_roles = {f"roles/{name}.json": role for name, role in roles().items()}
    return of_templates | of_roles | {f"ilm/{SAMPLES_POLICY}.json": policy()}


def field_table() -> str:
    """Returns the text of docs/reference/index-fields.md."""
    rows = []
    for field in FIELDS.values():
        kinds = "all" if len(field.kinds) == len(KINDS) else ", ".join(field.kinds)
        rows.append(f"| `{field.name}` | {field.type} | {field.unit or ''} | {kinds} | {field.meaning} |")
    indices = [
        f"| `{kind.index_pattern}` | {kind.meaning} | {'by policy' if kind.samples else 'kept'} |"
        for kind in KINDS.values()
    ]
    return "\n".join(
        [
            "# Fields of the index",
            "",
            "Made from `harness/ccmix/index/fields.py` by `python -m ccmix.index.write`; a test compares them.",
            "",
            "| index | a document is | kept |",
            "|---|---|---|",
            *indices,
            "",
            "| field | type | unit | in | what |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )
