"""Tests the files made from the table of fields, and that a real Elasticsearch accepts them."""

import json

import pytest

from ccmix.index import fields
from ccmix.index.fields import FIELDS, KINDS, TABLE, TEMPLATES, DocumentKind, fields_of
from support.commands import REPOSITORY
from support.elasticsearch_node import Node

METADATA_WITHOUT_UNIT = ("date", "keyword", "text", "ip", "flattened", "boolean")


def test_files_are_those_of_the_table() -> None:
    """`python -m ccmix.index.fields` makes them."""
    written = {
        str(file.relative_to(REPOSITORY / TEMPLATES)): json.loads(file.read_text())
        for file in (REPOSITORY / TEMPLATES).rglob("*.json")
        if file.parent.name != "roles"
    }
    assert written == fields.template_files()
    assert (REPOSITORY / TABLE).read_text() == fields.field_table()


def test_every_number_has_a_unit() -> None:
    without = [
        name
        for name, field in FIELDS.items()
        if field.unit is None and field.type not in METADATA_WITHOUT_UNIT
    ]
    assert without == []


def test_units_in_names_are_those_of_the_metadata() -> None:
    units = {"_s": "s", "_bps": "bit/s", "_bytes": "byte"}
    for name, field in FIELDS.items():
        for ending, unit in units.items():
            if name.endswith(ending) and not name.endswith("per_s"):
                assert field.unit == unit, name


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_server_has_every_field_as_the_table_says(elasticsearch: Node, kind: DocumentKind) -> None:
    elasticsearch(
        "PUT",
        f"/_index_template/{fields.template_name(kind)}",
        fields.template(kind, lifecycle=False),
    )
    index = kind.index_pattern.replace("*", "2026.11")
    try:
        elasticsearch("PUT", f"/{index}")
        known = elasticsearch("GET", f"/{index}/_field_caps?fields=*&filters=-metadata,-parent")[
            "fields"
        ]
        ours = {field.name: field for field in fields_of(kind.name)}
        assert set(known) == set(ours)
        for name, field in ours.items():
            assert set(known[name]) == {field.type}
            assert known[name][field.type].get("meta", {}).get("unit") == (
                [field.unit] if field.unit else None
            )
    finally:
        elasticsearch.clear()


def test_role_files_grant_no_more_than_each_needs() -> None:
    writer = json.loads((REPOSITORY / TEMPLATES / "roles/ccmix-writer.json").read_text())
    assert writer["cluster"] == []
    assert all(name.startswith("ccmix-") for one in writer["indices"] for name in one["names"])
