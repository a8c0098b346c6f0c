"""Describes charts in Vega-Lite, for what Lens can't draw; Kibana inserts Elasticsearch's answer as their data."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ccmix.charts.encodings import SCHEMA
from ccmix.charts.json_types import Part
from ccmix.charts.source import ChartSource
from ccmix.kibana.data_views import DataView
from ccmix.kibana.saved import Json, SavedObject, embedded

MOST_BUCKETS = 10_000
ANSWER = "answer"  # name of the data that Elasticsearch answers
_BUCKETS = "aggregations.all.rows.buckets"


@dataclass(frozen=True)
class VegaLite:
    """Describes a chart of Elasticsearch's rows: `keys` are sources of a composite aggregation, `metrics` aggregations.

    A row of the chart has a member `key.NAME` for each key, and `NAME.value` for each metric; `doc_count` too.
    `drawing` is one of ccmix.charts, of rows of which `transform` makes those that its docstring names. `match` are
    filters that all documents pass. Without a row the chart says so, and what it `needs`.
    """

    title: str
    view: DataView
    keys: Mapping[str, Json]
    metrics: Mapping[str, Json]
    drawing: Callable[[ChartSource], Part]
    transform: Sequence[Part] = ()
    match: tuple[Json, ...] = ()
    needs: str = ""

    def spec(self) -> Json:
        """Returns the specification as Kibana reads it; its data is a request with the dashboard's filters and time."""
        answer = {"url": self._request(), "name": ANSWER}
        return {
            "$schema": SCHEMA,
            "autosize": {"type": "fit", "contains": "padding"},
            "config": {"kibana": {"hideWarnings": True}},  # they lie over the data, in a user's sight
            "title": _no_data(self.needs),
            **self.drawing(ChartSource(answer, (*self._rows(), *self.transform))),
        }

    def _rows(self) -> list[Part]:
        """Returns transforms of the answer to its rows.

        Where there is no index yet, the answer has no aggregations: a path in the format of the data would fail then.
        """
        names = ("key", "doc_count", *self.metrics)
        return [
            {"calculate": f"isValid(datum.aggregations) ? datum.{_BUCKETS} : []", "as": "bucket"},
            {"flatten": ["bucket"]},
            *members(**{name: f"datum.bucket.{name}" for name in names}),
        ]

    def _request(self) -> Json:
        rows = {
            "composite": {"size": MOST_BUCKETS, "sources": [{name: source} for name, source in self.keys.items()]},
            "aggs": dict(self.metrics),
        }
        matching = {"filter": {"bool": {"filter": list(self.match)}}, "aggs": {"rows": rows}}
        return {
            "%context%": True,
            "%timefield%": self.view.time_field,
            "index": self.view.title,
            "body": {"size": 0, "aggs": {"all": matching}},
        }

    def saved(self, id_: str) -> SavedObject:
        state = {"title": self.title, "type": "vega", "aggs": [], "params": {"spec": json.dumps(self.spec(), indent=1)}}
        search = embedded({"query": {"query": "", "language": "kuery"}, "filter": []})
        attributes = {
            "title": self.title,
            "description": "",
            "visState": embedded(state),
            "uiStateJSON": "{}",
            "version": 1,
            "kibanaSavedObjectMeta": {"searchSourceJSON": search},
        }
        return SavedObject("visualization", id_, attributes)


def answer_of(rows: Sequence[Json]) -> Json:
    """Returns data with these rows, in the form in which Kibana gives Elasticsearch's answer to Vega."""
    answer: Json = {"buckets": list(rows)}
    for name in reversed(_BUCKETS.split(".")[:-1]):
        answer = {name: answer}
    return {"values": answer, "name": ANSWER}


def rows_of(answer: Json) -> list[Json]:
    """Returns the rows of Elasticsearch's answer; none where there is no index."""
    *parts, last = _BUCKETS.split(".")
    for name in parts:
        answer = answer.get(name, {})
    rows: list[Json] = answer.get(last, [])
    return rows


def _no_data(needs: str) -> Part:
    """Returns a title that is empty as long as there are rows."""
    aggregations = f"data('{ANSWER}')[0].aggregations"
    some = f"isValid({aggregations}) && length(data('{ANSWER}')[0].{_BUCKETS}) > 0"
    text = f"no data: needs {needs}" if needs else "no data: nothing passes the filters and the time range"
    return {
        "text": {"expr": f"{some} ? '' : '{text}'"}, "fontSize": 13, "fontWeight": "normal", "color": "#69707D",
    }  # fmt: skip


def terms(field: str) -> Json:
    """Returns a key of each value of a field; documents without the field have no row."""
    return {"terms": {"field": field}}


def steps(field: str, width: float) -> Json:
    """Returns a key of a number in steps of `width`, in the field's unit."""
    return {"histogram": {"field": field, "interval": width}}


def members(**formulas: str) -> list[Part]:
    """Returns columns of a chart's rows, by expressions of a row of the answer."""
    return [{"calculate": formula, "as": name} for name, formula in formulas.items()]


def metric(operation: str, field: str) -> Json:
    """Returns an aggregation of one value."""
    return {operation: {"field": field}}
