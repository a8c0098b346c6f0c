"""Describes Kibana charts in Vega-Lite, for drawings that Kibana's chart editor Lens can't make.

Kibana sends a chart's request to Elasticsearch, and inserts the answer as the chart's data.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ccmix.analysis.intervals import LEAST_FOR_INTERVAL, t_quantile
from ccmix.charts.encodings import SCHEMA, ChartSource, Part
from ccmix.kibana.saved_objects import (
    TIME_FIELD,
    DataView,
    Json,
    SavedObject,
    filled,
    json_text,
)

MOST_BUCKETS = 10_000
ANSWER = "answer"  # name of the data that Elasticsearch answers
BUCKETS = "aggregations.all.rows.buckets"  # in this data


@dataclass(frozen=True)
class VegaLite:
    """Describes a chart of rows that Elasticsearch computes with a composite aggregation.

    `keys` are the sources of this aggregation by name, `metrics` its inner aggregations. Each
    combination of keys gives a row with a member `key.NAME` for each key, `NAME.value` for each
    metric, and `doc_count`. `transform` has Vega-Lite transforms that turn these rows into the rows
    that `drawing` takes, which is a chart of ccmix.charts. `match` has Elasticsearch filters that
    all documents must pass. If there are no rows, the chart says so, and names the data that it
    `needs`.
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
        """Returns the chart's Vega-Lite specification as Kibana reads it. Its data is a request
        that Kibana sends with the dashboard's filters and time range.
        """
        answer = {"url": self._request(), "name": ANSWER}
        return {
            "$schema": SCHEMA,
            "autosize": {"type": "fit", "contains": "padding"},
            "config": {"kibana": {"hideWarnings": True}},  # they would cover the data
            "title": _no_data(self.needs),
            **self.drawing(ChartSource(answer, (*self._flatten_answer(), *self.transform))),
        }

    def _flatten_answer(self) -> list[Part]:
        """Returns Vega-Lite transforms that turn Elasticsearch's answer into its rows.

        While there is no index, Elasticsearch's answer has no aggregations, and these transforms
        give no rows. (A path to the rows in the data's `format` would fail for such an answer.)
        """
        names = ("key", "doc_count", *self.metrics)
        return [
            {"calculate": f"isValid(datum.aggregations) ? datum.{BUCKETS} : []", "as": "bucket"},
            {"flatten": ["bucket"]},
            *calculate(**{name: f"datum.bucket.{name}" for name in names}),
        ]

    def _request(self) -> Json:
        """Returns the request for the rows, in the form of Kibana's Vega: %context% and %timefield%
        stand for the dashboard's filters and time range.
        """
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
        """Returns the chart as an object that Kibana can import, with this id."""
        state = {
            "title": self.title,
            "type": "vega",
            "aggs": [],
            "params": {"spec": json.dumps(self.spec(), indent=1)},
        }
        attributes = filled("vega", title=self.title, visState=json_text(state))
        return SavedObject("visualization", id_, attributes)


def _no_data(needs: str) -> Part:
    """Returns a chart title that Vega computes. It is empty if the chart has rows.

    Otherwise it says "no data" and the reason: the chart needs data such as `needs`, or (if `needs`
    is '') nothing passes the dashboard's filters.
    """
    aggregations = f"data('{ANSWER}')[0].aggregations"
    has_rows = f"isValid({aggregations}) && length(data('{ANSWER}')[0].{BUCKETS}) > 0"
    text = (
        f"no data: needs {needs}"
        if needs
        else "no data: nothing passes the filters and the time range"
    )
    return {
        "text": {"expr": f"{has_rows} ? '' : '{text}'"},
        "fontSize": 13,
        "fontWeight": "normal",
        "color": "#69707D",
    }


def terms(field: str) -> Json:
    """Returns a key of a chart (an element of VegaLite.keys) that makes a row for each value of a
    field. Documents without the field have no row.
    """
    return {"terms": {"field": field}}


def steps(field: str, width: float) -> Json:
    """Returns a key of a chart (an element of VegaLite.keys) that makes a row for each step of a
    number. A step is `width` wide, in the field's unit.
    """
    return {"histogram": {"field": field, "interval": width}}


def calculate(**formulas: str) -> list[Part]:
    """Returns Vega-Lite transforms that add a column for each formula, which is a Vega expression:
    calculate(rtt_ms="1000 * datum.rtt.value").
    """
    return [{"calculate": formula, "as": name} for name, formula in formulas.items()]


def metric(operation: str, field: str) -> Json:
    """Returns an Elasticsearch aggregation of a field to one value, such as metric("avg",
    "ccmix.goodput_bps").
    """
    return {operation: {"field": field}}


MOST_QUANTILES = 30  # beyond, Student's t is 2.04 to 1.96


def means_with_bands(value: str, by: Sequence[str]) -> list[Part]:
    """Returns Vega-Lite transforms that pool the rows, one for each run, with the same values in
    the columns `by`. The pooled rows have these columns, and mean, low and high of the column
    `value`.

    low and high are the 95% confidence interval of the mean by Student's t, or with fewer than 3
    runs the smallest and largest value. (From 15 runs on, a report uses a bootstrap.)
    """
    counts = range(LEAST_FOR_INTERVAL, MOST_QUANTILES + 1)
    quantiles = ", ".join(f"{t_quantile(0.975, count - 1):.4g}" for count in counts)
    quantile = f"[{quantiles}][min(datum.runs, {MOST_QUANTILES}) - {LEAST_FOR_INTERVAL}]"
    is_few = f"datum.runs < {LEAST_FOR_INTERVAL}"
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
        {
            "calculate": f"{is_few} ? 0 : {quantile} * datum.deviation / sqrt(datum.runs)",
            "as": "half",
        },
        {"calculate": f"{is_few} ? datum.least : datum.mean - datum.half", "as": "low"},
        {"calculate": f"{is_few} ? datum.most : datum.mean + datum.half", "as": "high"},
    ]


def aggregate(by: Sequence[str], **columns: tuple[str, str]) -> Part:
    """Returns the Vega-Lite transform that pools rows with the same values in the columns `by`.
    Each further column is given as (operation, field): goodput_bps=("mean", "goodput"). The field
    is '' for the operation "count".
    """
    measures = [
        {"op": operation, **({"field": field} if field else {}), "as": name}
        for name, (operation, field) in columns.items()
    ]
    return {"aggregate": measures, "groupby": list(by)}


def count_distinct(name: str, field: str, by: str = "") -> Part:
    """Returns the Vega-Lite transform that adds the column `name`: how many different values a
    field has in all rows, or in the rows with the same value of the column `by`.
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
    """Returns the keys with these names, which several charts use, for VegaLite.keys.

    Each makes a row for each value of its field, such as known_keys("run") for each run.
    """
    return {name: terms(_KEYS[name]) for name in names}
