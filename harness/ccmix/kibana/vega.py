"""Describes charts in Vega-Lite, for what Lens can't draw; Kibana inserts Elasticsearch's answer
as their data.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ccmix.analysis.intervals import LEAST_FOR_INTERVAL, t_quantile
from ccmix.charts.encodings import SCHEMA, ChartSource, Part
from ccmix.kibana.saved_objects import NO_SEARCH, TIME_FIELD, DataView, Json, SavedObject, embedded

MOST_BUCKETS = 10_000
ANSWER = "answer"  # name of the data that Elasticsearch answers
_BUCKETS = "aggregations.all.rows.buckets"


@dataclass(frozen=True)
class VegaLite:
    """Describes a chart of Elasticsearch's rows: `keys` are sources of a composite aggregation,
    `metrics` aggregations.

    A row of the chart has a member `key.NAME` for each key, `NAME.value` for each metric, and
    `doc_count`. `transform` turns these rows into the rows of `drawing`, a chart of ccmix.charts,
    whose docstring describes them. `match` are filters that all documents pass. Without rows the
    chart says so, and names the data that it `needs`.
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
        """Returns the specification as Kibana reads it; its data is a request with the dashboard's
        filters and time.
        """
        answer = {"url": self._request(), "name": ANSWER}
        return {
            "$schema": SCHEMA,
            "autosize": {"type": "fit", "contains": "padding"},
            "config": {"kibana": {"hideWarnings": True}},  # they would cover the data
            "title": _no_data(self.needs),
            **self.drawing(ChartSource(answer, (*self._rows(), *self.transform))),
        }

    def _rows(self) -> list[Part]:
        """Returns transforms of the answer to its rows.

        Without an index, the answer has no aggregations, and a path in the format of the data would
        fail.
        """
        names = ("key", "doc_count", *self.metrics)
        return [
            {"calculate": f"isValid(datum.aggregations) ? datum.{_BUCKETS} : []", "as": "bucket"},
            {"flatten": ["bucket"]},
            *members(**{name: f"datum.bucket.{name}" for name in names}),
        ]

    def _request(self) -> Json:
        rows = {
            "composite": {
                "size": MOST_BUCKETS,
                "sources": [{name: source} for name, source in self.keys.items()],
            },
            "aggs": dict(self.metrics),
        }
        matching = {"filter": {"bool": {"filter": list(self.match)}}, "aggs": {"rows": rows}}
        return {
            "%context%": True,
            "%timefield%": TIME_FIELD,
            "index": self.view.kind.index_pattern,
            "body": {"size": 0, "aggs": {"all": matching}},
        }

    def saved(self, id_: str) -> SavedObject:
        state = {
            "title": self.title,
            "type": "vega",
            "aggs": [],
            "params": {"spec": json.dumps(self.spec(), indent=1)},
        }
        attributes = {
            "title": self.title,
            "description": "",
            "visState": embedded(state),
            "uiStateJSON": "{}",
            "version": 1,
            "kibanaSavedObjectMeta": {"searchSourceJSON": embedded(NO_SEARCH)},
        }
        return SavedObject("visualization", id_, attributes)


def answer_of(rows: Sequence[Json]) -> Json:
    """Returns data with these rows, in the form in which Kibana gives Elasticsearch's
    answer to Vega.
    """
    answer: Json = {"buckets": list(rows)}
    for name in reversed(_BUCKETS.split(".")[:-1]):
        answer = {name: answer}
    return {"values": answer, "name": ANSWER}


def rows_of(answer: Json) -> list[Json]:
    """Returns the rows of Elasticsearch's answer; none without an index."""
    *parts, last = _BUCKETS.split(".")
    for name in parts:
        answer = answer.get(name, {})
    rows: list[Json] = answer.get(last, [])
    return rows


def _no_data(needs: str) -> Part:
    """Returns a title that is empty as long as there are rows."""
    aggregations = f"data('{ANSWER}')[0].aggregations"
    some = f"isValid({aggregations}) && length(data('{ANSWER}')[0].{_BUCKETS}) > 0"
    text = (
        f"no data: needs {needs}"
        if needs
        else "no data: nothing passes the filters and the time range"
    )
    return {
        "text": {"expr": f"{some} ? '' : '{text}'"},
        "fontSize": 13,
        "fontWeight": "normal",
        "color": "#69707D",
    }


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


MOST_QUANTILES = 30  # beyond, Student's t is 2.04 to 1.96


def means_with_bands(value: str, by: Sequence[str]) -> list[Part]:
    """Returns transforms to rows with the columns `by`, and mean, low and high of the column
    `value`.

    low and high: the 95% interval of the mean by Student's t; below 3 runs their range. (From 15
    runs on, a report uses a bootstrap.)
    """
    counts = range(LEAST_FOR_INTERVAL, MOST_QUANTILES + 1)
    quantiles = ", ".join(f"{t_quantile(0.975, count - 1):.4g}" for count in counts)
    quantile = f"[{quantiles}][min(datum.runs, {MOST_QUANTILES}) - {LEAST_FOR_INTERVAL}]"
    few = f"datum.runs < {LEAST_FOR_INTERVAL}"
    measures = {
        "mean": "mean",
        "stdev": "deviation",
        "valid": "runs",
        "min": "least",
        "max": "most",
    }
    return [
        {
            "aggregate": [{"op": op, "field": value, "as": name} for op, name in measures.items()],
            "groupby": list(by),
        },
        {"filter": "datum.runs > 0"},
        {"calculate": f"{few} ? 0 : {quantile} * datum.deviation / sqrt(datum.runs)", "as": "half"},
        {"calculate": f"{few} ? datum.least : datum.mean - datum.half", "as": "low"},
        {"calculate": f"{few} ? datum.most : datum.mean + datum.half", "as": "high"},
    ]


def aggregate(by: Sequence[str], **columns: tuple[str, str]) -> Part:
    """Returns the transform to a row for each value of `by`: columns by operation and field."""
    measures = [
        {"op": operation, **({"field": field} if field else {}), "as": name}
        for name, (operation, field) in columns.items()
    ]
    return {"aggregate": measures, "groupby": list(by)}


def distinct(name: str, field: str, by: str = "") -> Part:
    """Returns the transform to a column with the number of different values of a field in rows with
    the same `by`.
    """
    measure = {"op": "distinct", "field": field, "as": name}
    return {"joinaggregate": [measure]} | ({"groupby": [by]} if by else {})


_KEYS = {
    "run": "ccmix.run.id",
    "group": "ccmix.group.name",
    "cca": "ccmix.cca",
    "mix": "ccmix.mix",
    "campaign": "ccmix.campaign.name",
    "entry": "ccmix.entry",
    "condition": "ccmix.condition.name",
    "pair": "ccmix.path.pair",
    "flow": "ccmix.flow.id",
    "source": "source.address",
    "destination": "destination.domain",
    "number": "ccmix.completion.number",
    "bytes": "ccmix.completion.bytes",
}


def known_keys(*names: str) -> dict[str, Json]:
    """Returns keys of the names that several charts have."""
    return {name: terms(_KEYS[name]) for name in names}
