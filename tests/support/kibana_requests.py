"""Derives a panel's request to Elasticsearch from its saved object, and the rows from the answer.

Kibana derives its own requests from the same objects; this is ccmix's derivation, for tests and
drawings without Kibana. It covers the operations that ccmix's panels use and raises ValueError for
others. Where Kibana chooses the width of buckets by the room on the screen, here it is a fiftieth
of the range, rounded up to 1, 2 or 5 times a power of ten.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ccmix.kibana.saved_objects import Json
from ccmix.kibana.vega import ANSWER
from ccmix.kibana.vega import BUCKETS as PATH_TO_ROWS

Search = Callable[[str, Json], Json]  # of an index pattern and a body
Row = Json  # column to value
BUCKETS = 50
_CONDITION = re.compile(
    r'(?P<no>not )?(?P<field>[\w.@]+): (?:"(?P<quoted>[^"]*)"|(?P<any>\*)|(?P<plain>[\w.,-]+))'
)
_METRICS = {
    "average": "avg",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "unique_count": "cardinality",
}


def answer_of(rows: Sequence[Json]) -> Json:
    """Returns rows as Vega-Lite data, in the form in which Kibana passes an answer of Elasticsearch
    to Vega.
    """
    answer: Json = {"buckets": list(rows)}
    for name in reversed(PATH_TO_ROWS.split(".")[:-1]):
        answer = {name: answer}
    return {"values": answer, "name": ANSWER}


def rows_of(answer: Json) -> list[Json]:
    """Returns the rows of Elasticsearch's answer; an empty list if there is no index yet."""
    *parts, last = PATH_TO_ROWS.split(".")
    for name in parts:
        answer = answer.get(name, {})
    rows: list[Json] = answer.get(last, [])
    return rows


def kql(text: str) -> Json:
    """Returns the filter of `field: value` conditions joined by `and`, each with an optional `not`
    before it.

    The value `*` is any.
    """
    conditions = []
    for part in text.split(" and ") if text else []:
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise ValueError(f"not understood: {part}")
        value = match["plain"] if match["quoted"] is None else match["quoted"]
        term = (
            {"exists": {"field": match["field"]}}
            if match["any"]
            else {"term": {match["field"]: value}}
        )
        conditions.append({"bool": {"must_not": [term]}} if match["no"] else term)
    return {"bool": {"filter": conditions}}


class LensPanel:
    """Reads a Lens object: its columns, and their fields and rows."""

    def __init__(self, saved: Json, index: str) -> None:
        """Takes `saved`, a line of the file, and `index`, the pattern of the data view that it
        refers to.
        """
        state = saved["attributes"]["state"]
        layer = state["datasourceStates"]["formBased"]["layers"]["data"]
        self.index = index
        self.columns: dict[str, Json] = {
            name: layer["columns"][name] for name in layer["columnOrder"]
        }
        self._only = kql(state["query"]["query"])

    @property
    def fields(self) -> set[str]:
        """Returns all fields that it reads."""
        texts = [
            self._only,
            *(
                kql(column["filter"]["query"])
                for column in self.columns.values()
                if "filter" in column
            ),
        ]
        read = {column["sourceField"] for column in self.columns.values()} - {"___records___"}
        return read.union(*(_fields(text) for text in texts))

    @property
    def metrics(self) -> dict[str, Json]:
        """Returns the columns that are numbers of a bucket."""
        return {name: column for name, column in self.columns.items() if not column["isBucketed"]}

    def body(self, search: Search) -> Json:
        """Returns the request; asks `search` for the range of what has buckets of equal width."""
        metrics = {
            name: _only(column, {_inner(name): _metric(column)})
            if _aggregates(column)
            else {"filter": kql_of(column)}
            for name, column in self.metrics.items()
        }
        aggregations = metrics
        for name, column in reversed(
            [pair for pair in self.columns.items() if pair[1]["isBucketed"]]
        ):
            ordering = (
                column["params"].get("orderBy", {}).get("columnId")
            )  # buckets are ordered by a number of theirs
            own = {ordering: metrics[ordering]} if ordering else {}
            aggregations = {name: self._buckets(column, search) | {"aggs": aggregations | own}}
        return {"size": 0, "track_total_hits": True, "query": self._only, "aggs": aggregations}

    def rows(self, search: Search) -> list[Row]:
        """Returns a row for each innermost bucket, without empty buckets of equal width."""
        answer = search(self.index, self.body(search))
        whole = answer["aggregations"] | {"doc_count": answer["hits"]["total"]["value"]}
        buckets = [name for name, column in self.columns.items() if column["isBucketed"]]
        return list(self._flatten(whole, buckets, {}))

    def _flatten(self, level: Json, buckets: list[str], row: Row) -> Iterator[Row]:
        if not buckets:
            yield row | {
                name: _value(column, level[name], _inner(name))
                for name, column in self.metrics.items()
            }
            return
        name, *deeper = buckets
        for bucket in level[name]["buckets"]:
            if bucket["doc_count"]:
                yield from self._flatten(bucket, deeper, row | {name: bucket["key"]})

    def _buckets(self, column: Json, search: Search) -> Json:
        field, parameters = column["sourceField"], column["params"]
        if column["operationType"] == "terms":
            order = parameters["orderBy"]
            key = "_key" if order["type"] == "alphabetical" else self._order_key(order["columnId"])
            return {
                "terms": {
                    "field": field,
                    "size": parameters["size"],
                    "order": {key: parameters["orderDirection"]},
                }
            }
        width = _width(search(self.index, _range_request(self._only, field)))
        if column["operationType"] == "range" and parameters["type"] == "histogram":
            return {"histogram": {"field": field, "interval": width}}
        if column["operationType"] == "date_histogram":
            return {
                "date_histogram": {
                    "field": field,
                    "fixed_interval": f"{max(1, round(width / 1000))}s",
                }
            }
        raise ValueError(f"no such operation: {column['operationType']}")

    def _order_key(self, name: str) -> str:
        column = self.columns[name]
        if not _aggregates(column):
            return f"{name}>_count" if "filter" in column else "_count"
        return f"{name}>{_inner(name)}"


class VegaPanel:
    """Reads a Vega-Lite visualization: its specification, request and drawing."""

    def __init__(self, saved: Json) -> None:
        self.spec: Json = json.loads(json.loads(saved["attributes"]["visState"])["params"]["spec"])
        self.index: str = self.spec["data"]["url"]["index"]

    @property
    def fields(self) -> set[str]:
        """Returns all fields that it reads."""
        return _fields(self.body()) | {self.spec["data"]["url"]["%timefield%"]}

    def body(self) -> Json:
        """Returns the request without the dashboard's filters."""
        body: Json = self.spec["data"]["url"]["body"]
        return body

    def rows(self, search: Search) -> list[Row]:
        """Returns the rows as Vega gets them."""
        return rows_of(search(self.index, self.body()))

    def drawn(self, rows: Iterable[Row]) -> Json:
        """Returns the specification with these rows as its data, as Vega-Lite takes it
        without Kibana.
        """
        return self.spec | {"data": answer_of(list(rows))}


Panel = LensPanel | VegaPanel


def panel_of(saved: Json, indices: dict[str, str]) -> Panel:
    """Returns the panel of an object of the file; `indices` are the patterns of the data views by
    their ids.
    """
    if saved["type"] == "visualization":
        return VegaPanel(saved)
    return LensPanel(saved, indices[saved["references"][0]["id"]])


def kql_of(column: Json) -> Json:
    return kql(column.get("filter", {}).get("query", ""))


def _inner(name: str) -> str:
    return f"{name}-value"


def _aggregates(column: Json) -> bool:
    return bool(column["operationType"] != "count")


def _only(column: Json, aggregations: Json) -> Json:
    return {"filter": kql_of(column), "aggs": aggregations}


def _metric(column: Json) -> Json:
    field, operation = column["sourceField"], column["operationType"]
    if operation == "median":
        return {"percentiles": {"field": field, "percents": [50]}}
    if operation not in _METRICS:
        raise ValueError(f"no such operation: {operation}")
    return {_METRICS[operation]: {"field": field}}


def _value(column: Json, aggregated: Json, inner: str) -> Any:
    if not _aggregates(column):
        return aggregated["doc_count"]
    if column["operationType"] == "median":
        return aggregated[inner]["values"]["50.0"]
    value = aggregated[inner]["value"]
    # As Kibana's option for sums and counts of values
    hidden = column["operationType"] in {"sum", "unique_count"} and column["params"]["emptyAsNull"]
    return None if hidden and not value else value


def _range_request(only: Json, field: str) -> Json:
    return {"size": 0, "query": only, "aggs": {"range": {"stats": {"field": field}}}}


def _width(answer: Json) -> float:
    range_ = answer["aggregations"]["range"]
    least = ((range_["max"] or 0) - (range_["min"] or 0)) / BUCKETS
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= least)


def _fields(request: Any) -> set[str]:
    """Returns the fields that a request or a filter names."""
    if isinstance(request, list):
        return set[str]().union(*(_fields(each) for each in request))
    if not isinstance(request, dict):
        return set()
    own = {request["field"]} if isinstance(request.get("field"), str) else set()
    terms = set(request["term"]) if isinstance(request.get("term"), dict) else set()
    return own | terms | set[str]().union(*(_fields(each) for each in request.values()))
