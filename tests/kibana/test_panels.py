"""Every panel on a real Elasticsearch: its fields are there, it has data, and what is wrong in the index shows in it.

The requests are ccmix's own derivation from the panels (ccmix.kibana.requests): Kibana itself can't be had here.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ccmix.index.fields import FIELDS
from ccmix.kibana.file import saved_objects
from ccmix.kibana.preview import render
from ccmix.kibana.requests import LensPanel, Panel, Row, VegaPanel, kql_of, panel_of
from ccmix_indices import bulk
from elasticsearch_node import Node
from filled_index import TWIN, Hit, hits, lines

SAVED = {each.id: each.to_json() for each in saved_objects()}
INDICES = {id_: each["attributes"]["title"] for id_, each in SAVED.items() if each["type"] == "index-pattern"}
PANELS: dict[str, Panel] = {
    id_: panel_of(each, INDICES) for id_, each in SAVED.items() if each["type"] in {"lens", "visualization"}
}
VEGA = {id_: panel for id_, panel in PANELS.items() if isinstance(panel, VegaPanel)}
# What the demo doesn't have: runs that were limited, pScheduler's runs, and the load of processors.
NOT_IN_THE_DEMO = {"ccmix-campaigns-limits", "ccmix-health-limits", "ccmix-health-cpu"}
BUCKET_OF_CHANGES = 500  # documents that are changed at once, so that a median moves too
A_YEAR_MS = 365 * 86_400_000
FRAME = {"width": 400, "height": 250}

Filter = dict[str, Any]


class Search:
    """As Kibana asks, with the filter of a dashboard."""

    def __init__(self, node: Node, only: Filter | None = None) -> None:
        self._node, self._only = node, only

    def __call__(self, index: str, body: dict[str, Any]) -> dict[str, Any]:
        both = [body.get("query", {"match_all": {}}), self._only or {"match_all": {}}]
        answer: dict[str, Any] = self._node("POST", f"/{index}/_search", body | {"query": {"bool": {"filter": both}}})
        return answer


def has_numbers(rows: list[Row]) -> bool:
    return any(value not in (None, {"value": None}) for row in rows for name, value in row.items() if name != "key")


@pytest.mark.parametrize("id_", PANELS)
def test_fields_are_there_and_of_a_type_that_the_panel_can_use(id_: str, filled: Node) -> None:
    panel = PANELS[id_]
    fields = sorted(panel.fields)
    known = filled("GET", f"/{panel.index}/_field_caps?fields={','.join(fields)}")["fields"]
    assert sorted(known) == fields
    for name in fields:
        ((type_, caps),) = known[name].items()
        assert type_ == FIELDS[name].type
        assert caps["aggregatable"]
    if isinstance(panel, LensPanel):
        numbers = {column["sourceField"] for column in panel.metrics.values() if column["dataType"] == "number"}
        counted = {
            column["sourceField"]
            for column in panel.metrics.values()
            if column["operationType"] in {"count", "unique_count"}
        }
        assert {type_ for name in numbers - counted for type_ in known[name]} <= {"double", "long"}


@pytest.mark.parametrize("id_", PANELS)
def test_there_is_data_for_the_demo(id_: str, filled: Node) -> None:
    needs_more = id_ in NOT_IN_THE_DEMO or id_.startswith("ccmix-mesh-")
    only: Filter = {"terms": {"ccmix.campaign.name": ["demo", TWIN] if "real-emulated" in id_ else ["demo"]}}
    assert has_numbers(PANELS[id_].rows(Search(filled, None if needs_more else only)))


def changed(field: str, value: Any) -> Any:
    match FIELDS[field].type:
        case "double" | "long":
            return value * 3 + 7
        case "boolean":
            return not value
        case "date":
            return A_YEAR_MS
        case _:
            return ["wrong"] if isinstance(value, list) else "wrong"


@contextmanager
def wrong_values(node: Node, affected: list[Hit], field: str) -> Iterator[None]:
    """The documents with another value in the field, for a while."""

    def write(values: Any) -> None:
        bulk(node, b"".join(lines(hit["_index"], hit["_id"], hit["_source"] | values(hit)) for hit in affected))

    write(lambda hit: {field: changed(field, hit["_source"][field])})
    yield
    write(lambda _: {})


def affected_by(panel: Panel, field: str, node: Node) -> list[Hit]:
    """Documents of one bucket of the panel that have the field, and all that it takes to be in that bucket."""
    if isinstance(panel, LensPanel):
        reads = [column for column in panel.columns.values() if column["sourceField"] == field]
        conditions = [panel.body(Search(node))["query"], *(kql_of(column) for column in reads[:1])]
        buckets = [column["sourceField"] for column in panel.columns.values() if column["isBucketed"]]
        terms = [column["sourceField"] for column in panel.columns.values() if column["operationType"] == "terms"]
    else:
        aggregations = panel.body()["aggs"]["all"]
        sources = [kind for source in aggregations["aggs"]["rows"]["composite"]["sources"] for kind in source.values()]
        conditions = [aggregations["filter"]]
        buckets = [kind["field"] for source in sources for kind in source.values()]
        terms = [kind["field"] for source in sources for name, kind in source.items() if name == "terms"]
    there = [{"exists": {"field": name}} for name in {*buckets, field}]
    (first,) = hits(node, panel.index, {"bool": {"filter": conditions + there}}, most=1)
    same = [
        {"term": {name: value[0] if isinstance(value, list) else value}}
        for name in terms
        for value in (first["_source"][name],)
    ]
    return hits(node, panel.index, {"bool": {"filter": conditions + there + same}}, most=BUCKET_OF_CHANGES)


def read_by_the_request(panel: Panel) -> list[str]:
    """All fields; the filter by time, which a dashboard adds, is not the panel's."""
    return sorted(panel.fields - ({"@timestamp"} if isinstance(panel, VegaPanel) else set()))


@pytest.mark.parametrize("id_", PANELS)
def test_wrong_values_change_the_panel(id_: str, filled: Node) -> None:
    panel, search = PANELS[id_], Search(filled)
    right = panel.rows(search)
    drawn = render(panel.drawn(right) | FRAME) if isinstance(panel, VegaPanel) else ""
    blind = []
    for field in read_by_the_request(panel):
        with wrong_values(filled, affected_by(panel, field, filled), field):
            wrong = panel.rows(search)
            same_picture = isinstance(panel, VegaPanel) and render(panel.drawn(wrong) | FRAME) == drawn
            if wrong == right or (same_picture and shown(panel, field)):
                blind.append(field)
    assert not blind
    assert panel.rows(search) == right


def shown(panel: Panel, field: str) -> bool:
    """Whether the drawing of a Vega-Lite chart uses a field; several charts share one request."""
    assert isinstance(panel, VegaPanel)
    rows = panel.body()["aggs"]["all"]["aggs"]["rows"]
    names = [name for name, metric in rows["aggs"].items() for kind in metric.values() if kind["field"] == field]
    drawing = json.dumps({name: part for name, part in panel.spec.items() if name != "data"})
    return not names or any(f"{name}.value" in drawing for name in names)


@pytest.mark.parametrize("id_", VEGA)
def test_vega_lite_compiles_and_draws_every_row_that_it_should(id_: str, filled: Node) -> None:
    panel = VEGA[id_]
    svg = render(panel.drawn(panel.rows(Search(filled))) | FRAME)
    assert svg.count("<path") > 5
    assert "NaN" not in svg
    assert "undefined" not in svg


@pytest.mark.parametrize("id_", VEGA)
def test_rows_of_vega_lite_are_fewer_than_one_answer_may_have(id_: str, filled: Node) -> None:
    rows = VEGA[id_].body()["aggs"]["all"]["aggs"]["rows"]["composite"]["size"]
    assert len(VEGA[id_].rows(Search(filled))) < rows
