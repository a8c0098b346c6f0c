"""Describes charts of Lens, Kibana's chart editor, as the JSON that Kibana stores for them.

A chart has columns, which become an aggregation of Elasticsearch, and a drawing. dashboards.yaml
explains how both are written there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ccmix.charts.encodings import COLOURS, NO_CCA
from ccmix.index.fields import FIELDS
from ccmix.kibana.saved_objects import (
    RATE_PATTERN,
    TIME_FIELD,
    VIEWS,
    DataView,
    Json,
    Reference,
    SavedObject,
    filled,
)

LAYER = "data"
SHADES = (
    "#EFF3FF",
    "#BDD7E7",
    "#6BAED6",
    "#3182BD",
    "#08519C",
)  # Blues of ColorBrewer, which colour-blind readers can also distinguish
RATE = "bit/s"
RATE_FORMAT: Json = {
    "id": "custom",
    "params": {"decimals": 1, "pattern": RATE_PATTERN, "suffix": "/s"},
}
# Fields that all documents of their kind have: the sum over another field is 0 without values.
ALWAYS_THERE = ("ccmix.condition.runs", "ccmix.condition.invalid", "ccmix.condition.not_settled")


@dataclass(frozen=True)
class Lens:
    """Describes a chart of the documents that match `only`, a query in Kibana's language KQL.

    `columns` has the columns by name, each as a kind and its arguments ("sum", "ccmix.bytes",
    "bytes"), and `drawing` says how they are drawn, both as dashboards.yaml writes them.
    """

    title: str
    view: DataView
    columns: Mapping[str, Sequence[Any]]
    drawing: Json
    only: str = ""

    def saved(self, id_: str) -> SavedObject:
        """Returns the chart as an object that Kibana can import, with this id. Raises ValueError if
        a sum would show 0 for unmeasured values.
        """
        for kind, *words in self.columns.values():
            if kind == "sum" and not self._all_have(words[0]):
                raise ValueError(
                    f"{id_}: {words[0]} may be missing in all documents, whose sum Kibana would "
                    "show as 0"
                )
        columns = {name: _column(self.view, *words) for name, words in self.columns.items()}
        layer = {
            "columns": columns,
            "columnOrder": list(columns),
            "incompleteColumns": {},
        }
        type_, visualization = _visualization(list(columns), **self.drawing)
        state = filled(
            "lens-state",
            visualization=visualization,
            query={"query": self.only, "language": "kuery"},
            datasourceStates={
                "formBased": {"layers": {LAYER: layer}},
                "textBased": {"layers": {}},
            },
        )
        attributes = filled("lens", title=self.title, visualizationType=type_, state=state)
        name = f"indexpattern-datasource-layer-{LAYER}"
        reference = Reference(name, "index-pattern", self.view.id)
        return SavedObject("lens", id_, attributes, (reference,))

    def _all_have(self, field: str) -> bool:
        """Returns whether all documents of the chart have a value of the field: because all
        documents of this kind have one, or because `only` requires one.
        """
        return field in ALWAYS_THERE or f"{field}: *" in self.only.split(" and ")


def _column(view: DataView, kind: str, *words: Any) -> Json:
    """Returns a column in Lens's JSON. `kind` is "terms", "histogram", "times", "count", or an
    aggregation such as "average"; dashboards.yaml explains the arguments of each.
    """
    if kind == "terms":
        return _terms_column(view, *words)
    if kind == "histogram":
        field, label = words
        histogram = filled("histogram-column")
        return _lens_column(label, view.data_type(field), "range", "interval", field, histogram)
    if kind == "times":
        times = filled("times-column")
        return _lens_column("time", "date", "date_histogram", "interval", TIME_FIELD, times)
    if kind == "count":
        return _number_column("count", "___records___", *words)
    return _metric_column(view, kind, *words)


def _terms_column(
    view: DataView, field: str, label: str, size: int = 50, by: str | None = None
) -> Json:
    """Returns a column that makes a bucket for each of the `size` first values of a field: in
    alphabetical order, or in descending order of the metric column named `by`.
    """
    largest = {"type": "column", "columnId": by}
    parameters = filled(
        "terms-column",
        size=size,
        orderBy=largest if by else {"type": "alphabetical", "fallback": False},
        orderDirection="desc" if by else "asc",
    )
    return _lens_column(label, view.data_type(field), "terms", "ordinal", field, parameters)


def _metric_column(
    view: DataView, operation: str, field: str, label: str, only: str | None = None
) -> Json:
    """Returns a column with an aggregation of a field in each bucket. A sum needs a field that all
    documents of the chart have, because Elasticsearch's sum of no values is 0.
    """
    kind, formats = view.data_type(field), {}
    if operation == "unique_count":
        kind = "number"
    elif kind not in {"number", "date"}:
        raise ValueError(f"{field} is not a number: Lens can't show its {operation}")
    elif FIELDS[field].unit == RATE:
        formats = {"format": RATE_FORMAT}
    return _number_column(operation, field, label, only, kind, **formats)


def _number_column(
    operation: str,
    field: str,
    label: str,
    only: str | None = None,
    kind: str = "number",
    **more_parameters: Json,
) -> Json:
    """Returns a column with a number for each bucket, from the documents that match `only` (KQL;
    None means all).
    """
    # otherwise Kibana writes 0 as "-", which means not measured
    parameters = {"emptyAsNull": False} | more_parameters
    matching = {"filter": {"query": only, "language": "kuery"}} if only else {}
    return _lens_column(label, kind, operation, "ratio", field, parameters) | matching


def _lens_column(
    label: str, data_type: str, operation: str, scale: str, field: str, parameters: Json
) -> Json:
    """Returns a column with the members that all kinds of columns have. A column of scale "ratio"
    is a metric; others make buckets.
    """
    return {
        "label": label,
        "customLabel": True,
        "dataType": data_type,
        "operationType": operation,
        "scale": scale,
        "sourceField": field,
        "isBucketed": scale != "ratio",
        "params": parameters,
    }


_DATA: Json = {"layerId": LAYER, "layerType": "data"}


def _visualization(columns: Sequence[str], kind: str, **options: Any) -> tuple[str, Json]:
    """Returns Lens's name for a kind of drawing of dashboards.yaml, such as "lnsXY", and the
    drawing of these columns in Lens's JSON.
    """
    if kind == "table":
        shown = dict.fromkeys([*options.get("first", ()), *columns])
        return "lnsDatatable", _DATA | {"columns": [{"columnId": name} for name in shown]}
    if kind == "number":  # a single large number
        return "lnsMetric", _DATA | {"metricAccessor": columns[0]}
    if kind == "heat-map":
        return "lnsHeatmap", _heat_map(**options)
    return "lnsXY", _bars_or_lines(kind, **options)


def _bars_or_lines(
    series: str,
    x: str,
    y: Sequence[str],
    split: str | None = None,
    by_cca: bool = False,
    colours: Mapping[str, str] | None = None,
) -> Json:
    """Draws the metric columns `y` over the column `x`, as bars or lines (`series`).

    Each value of the column `split` has its own bars or line, in the colours of CCAs if `by_cca`.
    `colours` gives a metric column its colour.
    """
    layer = _DATA | {
        "seriesType": series,
        "xAccessor": x,
        "accessors": y,
        "position": "top",
        "showGridlines": False,
    }
    if split:
        layer["splitAccessor"] = split
    if by_cca:
        layer["colorMapping"] = cca_colours()
    if colours:
        layer["yConfig"] = [
            {"forAccessor": name, "color": colour} for name, colour in colours.items()
        ]
    return filled("bars-or-lines", preferredSeriesType=series, layers=[layer])


def _heat_map(x: str, y: str, value: str) -> Json:
    """Draws a cell for each pair of values of the columns `x` and `y`, coloured and labelled by the
    metric column `value`.
    """
    return filled("heat-map", xAccessor=x, yAccessor=y, valueAccessor=value, palette=_shades())


def read_lens(entry: Json) -> Lens:
    """Returns the Lens chart that a panel's entry in dashboards.yaml describes."""
    view, only = VIEWS[entry["view"]], entry.get("only", "")
    return Lens(entry["title"], view, entry["columns"], entry["draw"], only)


def _shades() -> Json:
    """Returns Lens's palette for heat maps: the colours SHADES, in equal steps from the smallest
    value to the largest.
    """
    step = 100 / len(SHADES)
    begins = [{"color": colour, "stop": number * step} for number, colour in enumerate(SHADES)]
    ends = [{"color": colour, "stop": (number + 1) * step} for number, colour in enumerate(SHADES)]
    steps = len(SHADES)
    parameters = filled("palette", steps=steps, maxSteps=steps, colorStops=begins, stops=ends)
    return {"type": "palette", "name": "custom", "params": parameters}


def cca_colours() -> Json:
    """Returns Lens's mapping of CCAs to colours; CCAs without a colour are grey."""
    ccas = [
        _assignment({"type": "matchExactly", "values": [cca]}, colour, touched=True)
        for cca, colour in COLOURS.items()
    ]
    others = _assignment({"type": "other"}, NO_CCA, touched=False)
    return filled("cca-colours", assignments=ccas, specialAssignments=[others])


def _assignment(rule: Json, colour: str, *, touched: bool) -> Json:
    """Returns an entry of Lens's colour mapping: the values that match `rule` get this colour.
    `touched` is Lens's mark for an entry that a user has set.
    """
    return {
        "rule": rule,
        "color": {"type": "colorCode", "colorCode": colour},
        "touched": touched,
    }
