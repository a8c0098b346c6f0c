"""Tests every panel on a real Elasticsearch: its fields exist, it has data, and wrong values in the
index show in it.

ccmix derives the requests from the panels (kibana_requests), because Kibana is not available here.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ccmix.analysis.results import load_results
from ccmix.charts.choose import choose
from ccmix.index.fields import FIELDS
from ccmix.kibana.dashboards import saved_objects
from support.ccmix_indices import bulk
from support.elasticsearch_node import Node
from support.filled_index import RECORDED, Filtered, Hit, hits, lines
from support.kibana_preview import render, written
from support.kibana_requests import LensPanel, Panel, Row, VegaPanel, kql_of, panel_of
from support.published_archives import DEMO

SAVED = {each.id: each.to_json() for each in saved_objects()}
INDICES = {
    id_: each["attributes"]["title"]
    for id_, each in SAVED.items()
    if each["type"] == "index-pattern"
}
PANELS: dict[str, Panel] = {
    id_: panel_of(each, INDICES)
    for id_, each in SAVED.items()
    if each["type"] in {"lens", "visualization"}
}
VEGA = {id_: panel for id_, panel in PANELS.items() if isinstance(panel, VegaPanel)}
# Panels on data that the demo lacks, which therefore show the recorded campaigns: several campaigns,
# facts of hosts, runs that were limited or judged to be too short, the load of processors, a spread
# of iterations, captures, RTT probes, requests, and real paths.
NOT_IN_THE_DEMO = re.compile(
    "ccmix-(campaigns-(campaigns|each|limits|number)|health-(limits|not-verified|cpu|hosts)"
    "|ccas-(table|pooled|not-valid)|compare-runs|run-(runs|bbr-.*|probe|packets-.*|completion.*|requests)|real-emulated-.*|mesh-.*)"
)
CAMPAIGNS = ("demo", *(outdir.name for outdir in RECORDED))
ON_BOTH_SIDES = "paced"  # the entry that was measured in the lab and between hosts
BUCKET_OF_CHANGES = 800  # documents that are changed at once, so that a median moves too
# Panels ask for a side of these, or for everything except that side
OTHER_SIDE = {
    "ccmix.validity.status": ("valid", "limited"),
    "ccmix.path.kind": ("emulated", "real"),
}
# Documents in which other values of a field change the drawing: for BBR's gain, in probe_bw without
# probing upwards; for the lower end of an interval, the lowest end of a range
SHOWN_WHERE = {
    "ccmix.bbr.pacing_gain": (
        {"term": {"ccmix.bbr.state": "probe_bw"}},
        {"range": {"ccmix.bbr.pacing_gain": {"lte": 1}}},
    ),
    "ccmix.condition.goodput_ci95_low_bps": (
        {"wildcard": {"ccmix.condition.name": "*,buffer=1bdp"}},
    ),
}
A_YEAR_MS = 365 * 86_400_000
SENTENCES = ("-how-many", "-pooled", "-chosen")  # panels that write a line of text
FRAME = {"width": 400, "height": 250}

Filter = dict[str, Any]


def shown_by(id_: str) -> Filter:
    """Returns a filter for the demo's documents or for those of the recorded campaigns; on the
    dashboard Real against emulated only for the entry that was measured on both sides.
    """
    names = CAMPAIGNS[1:] if NOT_IN_THE_DEMO.fullmatch(id_) else CAMPAIGNS[:1]
    shown: Filter = {"terms": {"ccmix.campaign.name": list(names)}}
    if id_.startswith("ccmix-real-emulated-"):
        return {"bool": {"filter": [shown, {"term": {"ccmix.entry": ON_BOTH_SIDES}}]}}
    return shown


def has_numbers(rows: list[Row]) -> bool:
    return any(
        value not in (None, {"value": None})
        for row in rows
        for name, value in row.items()
        if name != "key"
    )


@pytest.mark.parametrize("id_", PANELS)
def test_fields_are_there_and_of_a_type_that_the_panel_can_use(id_: str, filled: Node) -> None:
    panel = PANELS[id_]
    fields = sorted(panel.fields | {"@timestamp"})
    known = filled("GET", f"/{panel.index}/_field_caps?fields={','.join(fields)}&filters=-parent")[
        "fields"
    ]
    assert sorted(known) == fields
    for name in fields:
        ((type_, caps),) = known[name].items()
        assert type_ == FIELDS[name].type
        assert caps["aggregatable"]
    if isinstance(panel, LensPanel):
        numbers = {
            column["sourceField"]
            for column in panel.metrics.values()
            if column["dataType"] == "number"
        }
        counted = {
            column["sourceField"]
            for column in panel.metrics.values()
            if column["operationType"] in {"count", "unique_count"}
        }
        assert {type_ for name in numbers - counted for type_ in known[name]} <= {"double", "long"}


@pytest.mark.parametrize("id_", PANELS)
def test_there_is_data(id_: str, filled: Node) -> None:
    assert has_numbers(PANELS[id_].rows(Filtered(filled, shown_by(id_))))


def changed(field: str, value: Any) -> Any:
    if field in OTHER_SIDE:
        one, other = OTHER_SIDE[field]
        return other if value == one else one
    match FIELDS[field].type:
        case "double" | "long":
            return value * 3 + 7
        case "boolean":
            return not value
        case "date":
            return A_YEAR_MS
        case _:
            return ["wrong"] if isinstance(value, list) else "wrong"


class WrongValues:
    """Puts other values into fields of documents, field by field, and at the end the right values
    again.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._before = b""

    def put(self, affected: list[Hit], field: str) -> None:
        wrong = (
            hit["_source"] | {field: changed(field, hit["_source"][field])} for hit in affected
        )
        written = b"".join(
            lines(hit["_index"], hit["_id"], one) for hit, one in zip(affected, wrong, strict=True)
        )
        bulk(self._node, self._before + written)
        self._before = b"".join(
            lines(hit["_index"], hit["_id"], hit["_source"]) for hit in affected
        )

    def take_back(self) -> None:
        if self._before:
            bulk(self._node, self._before)
            self._before = b""


@pytest.fixture
def wrong_values(filled: Node) -> Iterator[WrongValues]:
    values = WrongValues(filled)
    yield values
    values.take_back()


def rounded(value: Any) -> Any:
    """Removes digits that depend on the order in which Elasticsearch adds numbers."""
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return float(f"{value:.9g}") if isinstance(value, float) else value


def reads(column: dict[str, Any], field: str) -> bool:
    return column["sourceField"] == field or field in json.dumps(kql_of(column))


def affected_by(panel: Panel, field: str, node: Node, shown_now: Filter) -> list[Hit]:
    """Returns documents of a bucket of the panel that have the field, and all fields that the
    bucket needs to count them.
    """
    if isinstance(panel, LensPanel):
        conditions = [panel.body(Filtered(node))["query"]]
        conditions += [kql_of(column) for column in panel.columns.values() if reads(column, field)][
            :1
        ]
        terms = [
            column["sourceField"]
            for column in panel.columns.values()
            if column["operationType"] == "terms"
        ]
        buckets = [
            column["sourceField"] for column in panel.columns.values() if column["isBucketed"]
        ]
        metrics = [
            column["sourceField"]
            for column in panel.metrics.values()
            if column["operationType"] != "count"
        ]
    else:
        aggregations = panel.body()["aggs"]["all"]
        rows = aggregations["aggs"]["rows"]
        sources = [kind for source in rows["composite"]["sources"] for kind in source.values()]
        conditions = [aggregations["filter"]]
        terms = [kind["terms"]["field"] for kind in sources if "terms" in kind]
        buckets = [each["field"] for kind in sources for each in kind.values()]
        metrics = [each["field"] for metric in rows["aggs"].values() for each in metric.values()]
    counted = [] if field in metrics else metrics[:1]
    there = [
        shown_now,
        *SHOWN_WHERE.get(field, ()),
        *({"exists": {"field": name}} for name in {*buckets, *counted, field}),
    ]
    (first,) = hits(node, panel.index, {"bool": {"filter": conditions + there}}, most=1)
    same = [
        {"terms": {name: value if isinstance(value, list) else [value]}}
        for name in terms
        for value in (first["_source"][name],)
    ]
    return hits(
        node, panel.index, {"bool": {"filter": conditions + there + same}}, most=BUCKET_OF_CHANGES
    )


def read_by_the_request(panel: Panel) -> list[str]:
    """Returns all fields; the filter by time, which a dashboard adds, is not the panel's."""
    return sorted(panel.fields - ({"@timestamp"} if isinstance(panel, VegaPanel) else set()))


@pytest.mark.parametrize("id_", PANELS)
def test_wrong_values_change_the_panel(id_: str, filled: Node, wrong_values: WrongValues) -> None:
    panel, now = PANELS[id_], shown_by(id_)
    search = Filtered(filled, now)
    right = panel.rows(search)
    drawn = render(panel.drawn(right) | FRAME) if isinstance(panel, VegaPanel) else ""
    blind = []
    changed = [
        (field, affected_by(panel, field, filled, now)) for field in read_by_the_request(panel)
    ]
    for field, affected in changed:
        wrong_values.put(affected, field)
        wrong = panel.rows(search)
        same_picture = isinstance(panel, VegaPanel) and render(panel.drawn(wrong) | FRAME) == drawn
        if rounded(wrong) == rounded(right) or (same_picture and shown(panel, field)):
            blind.append(field)
    wrong_values.take_back()
    assert not blind
    assert rounded(panel.rows(search)) == rounded(right)


def test_a_document_too_many_changes_a_mere_count(filled: Node) -> None:
    panel, search = PANELS["ccmix-campaigns-runs"], Filtered(filled)
    right = panel.rows(search)
    (one,) = hits(filled, panel.index, {"match_all": {}}, most=1)
    bulk(filled, lines(one["_index"], "one-too-many", one["_source"]))
    assert panel.rows(search) == [{"runs": right[0]["runs"] + 1}]
    bulk(filled, f'{{"delete":{{"_index":"{one["_index"]}","_id":"one-too-many"}}}}\n'.encode())


def test_what_is_summed_is_in_every_document(filled: Node) -> None:
    """The sum over nothing is 0, a number that was never measured."""
    for id_, panel in PANELS.items():
        if not isinstance(panel, LensPanel):
            continue
        for column in panel.metrics.values():
            if column["operationType"] == "sum":
                without = {"bool": {"must_not": [{"exists": {"field": column["sourceField"]}}]}}
                both = {"bool": {"filter": [panel.body(Filtered(filled))["query"], without]}}
                assert filled("POST", f"/{panel.index}/_count", {"query": both})["count"] == 0, id_


def test_zero_is_0_and_what_was_not_measured_is_a_dash(filled: Node) -> None:
    """Two hosts have no drops, but the probe of one of them did not look."""
    index, drops = "ccmix-hosts", "ccmix.host.softnet_drops"
    (found,) = hits(filled, index, {"exists": {"field": drops}}, most=1)
    known = {name: value for name, value in found["_source"].items() if name != drops}
    bulk(
        filled,
        lines(index, "zero", known | {"host.name": "looked", drops: 0})
        + lines(index, "none", known | {"host.name": "not-looked"}),
    )
    only = Filtered(filled, {"terms": {"host.name": ["looked", "not-looked"]}})
    table, line = PANELS["ccmix-health-hosts"], PANELS["ccmix-health-softnet"]
    assert isinstance(table, LensPanel)
    rows = {row["host"]: row["drops"] for row in table.rows(only)}
    assert rows == {"looked": 0, "not-looked": None}
    assert {host: written(table, "drops", value) for host, value in rows.items()} == {
        "looked": "0",
        "not-looked": "-",
    }
    assert [(row["host"], row["value"]) for row in line.rows(only)] == [("looked", 0)]
    for name in ("zero", "none"):
        bulk(filled, f'{{"delete":{{"_index":"{index}","_id":"{name}"}}}}\n'.encode())


def shown(panel: Panel, field: str) -> bool:
    """Returns whether a Vega-Lite chart draws a field; some fields only separate rows, or are for a
    neighbouring chart.
    """
    assert isinstance(panel, VegaPanel)
    rows = panel.body()["aggs"]["all"]["aggs"]["rows"]
    keys = [
        (f"key.{name}", kind)
        for source in rows["composite"]["sources"]
        for name, kind in source.items()
    ]
    metrics = [(f"{name}.value", kind) for name, kind in rows["aggs"].items()]
    names = [
        name for name, kind in keys + metrics for each in kind.values() if each["field"] == field
    ]
    drawing = json.dumps({name: part for name, part in panel.spec.items() if name != "data"})
    return not names or any(name in drawing for name in names)


@pytest.mark.parametrize("id_", VEGA)
def test_vega_lite_compiles_and_draws_every_row_that_it_should(id_: str, filled: Node) -> None:
    panel = VEGA[id_]
    svg = render(panel.drawn(panel.rows(Filtered(filled))) | FRAME)
    assert svg.count("<path") > 5 or id_.endswith(SENTENCES)
    assert "no data" not in svg
    assert "NaN" not in svg
    assert "undefined" not in svg


@pytest.mark.parametrize("id_", VEGA)
def test_rows_of_vega_lite_are_fewer_than_one_answer_may_have(id_: str, filled: Node) -> None:
    rows = VEGA[id_].body()["aggs"]["all"]["aggs"]["rows"]["composite"]["size"]
    assert len(VEGA[id_].rows(Filtered(filled))) < rows


def test_the_table_has_the_numbers_of_the_report(filled: Node) -> None:
    [chart] = choose(load_results([DEMO]), ["table"]).charts
    panel = VEGA["ccmix-ccas-goodput-table"]
    rows = panel.rows(Filtered(filled, shown_by("ccmix-ccas-goodput-table")))

    def cells(spec: dict[str, Any]) -> list[str]:
        return sorted(re.findall(r'font-size="11px"[^>]*>([\d.]+[kMG]?)</text>', render(spec)))

    assert cells(panel.drawn(rows)) == cells(chart.spec)
    assert len(rows) == 16
