"""Describes charts of Kibana's Lens: columns, which become an aggregation, and what is drawn from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ccmix.charts.colours import COLOURS, NO_CCA
from ccmix.index.fields import FIELDS
from ccmix.kibana.data_views import RATE_PATTERN, DataView
from ccmix.kibana.saved import Json, Reference, SavedObject

LAYER = "data"
SHADES = ("#EFF3FF", "#BDD7E7", "#6BAED6", "#3182BD", "#08519C")  # Blues of ColorBrewer, for the colour-blind too
RATE = "bit/s"
RATE_FORMAT: Json = {"id": "custom", "params": {"decimals": 1, "pattern": RATE_PATTERN, "suffix": "/s"}}
# Fields that all documents with them in their kind have; the sum over other fields would be 0 where there is nothing.
ALWAYS_THERE = ("ccmix.condition.runs", "ccmix.condition.invalid", "ccmix.condition.not_settled")
Operation = Literal["average", "median", "sum", "min", "max", "unique_count"]


@dataclass(frozen=True)
class Terms:
    """Makes a bucket for each value of a field; alphabetical, or the largest of a metric column (`by`) first."""

    field: str
    label: str
    size: int = 50
    by: str | None = None

    def to_json(self, view: DataView) -> Json:
        order = {"type": "column", "columnId": self.by} if self.by else {"type": "alphabetical", "fallback": False}
        return {
            "label": self.label, "customLabel": True, "dataType": view.data_type(self.field), "operationType": "terms",
            "scale": "ordinal", "sourceField": self.field, "isBucketed": True,
            "params": {
                "size": self.size, "orderBy": order, "orderDirection": "desc" if self.by else "asc",
                "otherBucket": False, "missingBucket": False, "parentFormat": {"id": "terms"},
            },
        }  # fmt: skip


@dataclass(frozen=True)
class Histogram:
    """Makes buckets of equal width of a number; Kibana chooses the width."""

    field: str
    label: str

    def to_json(self, view: DataView) -> Json:
        return {
            "label": self.label, "customLabel": True, "dataType": view.data_type(self.field), "operationType": "range",
            "scale": "interval", "sourceField": self.field, "isBucketed": True,
            "params": {"type": "histogram", "ranges": [], "maxBars": "auto", "includeEmptyRows": False},
        }  # fmt: skip


@dataclass(frozen=True)
class Times:
    """Makes buckets of equal width of `@timestamp`; Kibana chooses the width."""

    label: str = "time"

    def to_json(self, view: DataView) -> Json:
        return {
            "label": self.label, "customLabel": True, "dataType": "date", "operationType": "date_histogram",
            "scale": "interval", "sourceField": view.time_field, "isBucketed": True,
            "params": {"interval": "auto", "includeEmptyRows": False, "dropPartials": False},
        }  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """Computes a number for each bucket, from the documents that match `only` (KQL).

    A sum needs a field that all documents of the chart have: of none, its value is 0, and not unknown.
    """

    operation: Operation
    field: str
    label: str
    only: str | None = None

    def to_json(self, view: DataView) -> Json:
        number = self.operation != "unique_count"
        if number and view.data_type(self.field) not in {"number", "date"}:
            raise ValueError(f"{self.field} is not a number: Lens can't show its {self.operation}")
        parameters: Json = {"emptyAsNull": False}  # else Kibana writes 0 as "-", which is what was not measured
        if number and FIELDS[self.field].unit == RATE:
            parameters["format"] = RATE_FORMAT
        return {
            "label": self.label, "customLabel": True,
            "dataType": view.data_type(self.field) if number else "number", "operationType": self.operation,
            "scale": "ratio", "sourceField": self.field, "isBucketed": False, "params": parameters,
            **_filter(self.only),
        }  # fmt: skip


@dataclass(frozen=True)
class Count:
    """Counts the documents of each bucket that match `only` (KQL)."""

    label: str
    only: str | None = None

    def to_json(self, view: DataView) -> Json:
        return {
            "label": self.label, "customLabel": True, "dataType": "number", "operationType": "count",
            "scale": "ratio", "sourceField": "___records___", "isBucketed": False, "params": {"emptyAsNull": False},
            **_filter(self.only),
        }  # fmt: skip


Column = Terms | Histogram | Times | Metric | Count


def _filter(only: str | None) -> Json:
    return {"filter": {"query": only, "language": "kuery"}} if only else {}


@dataclass(frozen=True)
class Lens:
    """Describes a chart of the documents that match `only` (KQL): columns by name, buckets first, the outermost one
    before the others.
    """

    title: str
    view: DataView
    columns: Mapping[str, Column]
    visualization: "XY | LensTable | Heatmap | Number"
    only: str = ""

    def saved(self, id_: str) -> SavedObject:
        """Returns the object. Raises ValueError where a sum would show 0 for what was not measured."""
        for column in self.columns.values():
            if isinstance(column, Metric) and column.operation == "sum" and not self._has(column.field):
                raise ValueError(f"{id_}: {column.field} may be missing: the sum would be 0 then")
        columns = {name: column.to_json(self.view) for name, column in self.columns.items()}
        attributes = {
            "title": self.title,
            "description": "",
            "visualizationType": self.visualization.type,
            "state": {
                "visualization": self.visualization.to_json(),
                "query": {"query": self.only, "language": "kuery"},
                "filters": [],
                "datasourceStates": {
                    "formBased": {
                        "layers": {LAYER: {"columns": columns, "columnOrder": list(columns), "incompleteColumns": {}}}
                    },
                    "textBased": {"layers": {}},
                },
                "internalReferences": [],
                "adHocDataViews": {},
            },
        }
        reference = Reference(f"indexpattern-datasource-layer-{LAYER}", "index-pattern", self.view.id)
        return SavedObject("lens", id_, attributes, (reference,))

    def _has(self, field: str) -> bool:
        """Returns whether all documents of the chart have the field."""
        return field in ALWAYS_THERE or f"{field}: *" in self.only.split(" and ")


Series = Literal["bar", "bar_stacked", "bar_horizontal", "bar_horizontal_stacked", "line", "area_percentage_stacked"]


@dataclass(frozen=True)
class XY:
    """Draws bars or lines, in the CCAs' colours if split by CCA; `colours` are those of metrics by column."""

    series: Series
    x: str
    y: tuple[str, ...]
    split: str | None = None
    by_cca: bool = False
    colours: Mapping[str, str] | None = None
    type: Literal["lnsXY"] = "lnsXY"

    def to_json(self) -> Json:
        layer: Json = {
            "layerId": LAYER, "layerType": "data", "seriesType": self.series, "xAccessor": self.x,
            "accessors": list(self.y), "position": "top", "showGridlines": False,
        }  # fmt: skip
        if self.split:
            layer["splitAccessor"] = self.split
        if self.by_cca:
            layer["colorMapping"] = cca_colours()
        if self.colours:
            layer["yConfig"] = [{"forAccessor": name, "color": colour} for name, colour in self.colours.items()]
        return {
            "legend": {"isVisible": True, "position": "right"},
            "valueLabels": "hide",
            "fittingFunction": "Linear",
            "preferredSeriesType": self.series,
            "axisTitlesVisibilitySettings": {"x": True, "yLeft": True, "yRight": True},
            "layers": [layer],
        }


@dataclass(frozen=True)
class LensTable:
    """Draws all columns as a table."""

    columns: tuple[str, ...]
    type: Literal["lnsDatatable"] = "lnsDatatable"

    def to_json(self) -> Json:
        return {"layerId": LAYER, "layerType": "data", "columns": [{"columnId": name} for name in self.columns]}


@dataclass(frozen=True)
class Heatmap:
    """Draws a cell for each pair of values, coloured by a metric and labelled with it."""

    x: str
    y: str
    value: str
    type: Literal["lnsHeatmap"] = "lnsHeatmap"

    def to_json(self) -> Json:
        return {
            "layerId": LAYER, "layerType": "data", "shape": "heatmap",
            "xAccessor": self.x, "yAccessor": self.y, "valueAccessor": self.value,
            "legend": {"isVisible": True, "position": "right", "type": "heatmap_legend"},
            "gridConfig": {
                "type": "heatmap_grid", "isCellLabelVisible": True, "isYAxisLabelVisible": True,
                "isXAxisLabelVisible": True, "isYAxisTitleVisible": True, "isXAxisTitleVisible": True,
            },
            "palette": _shades(),
        }  # fmt: skip


@dataclass(frozen=True)
class Number:
    """Draws one number, in large."""

    value: str
    type: Literal["lnsMetric"] = "lnsMetric"

    def to_json(self) -> Json:
        return {"layerId": LAYER, "layerType": "data", "metricAccessor": self.value}


def _shades() -> Json:
    """Returns Lens's palette of equal steps from the least value to the largest."""
    step = 100 / len(SHADES)
    return {
        "type": "palette",
        "name": "custom",
        "params": {
            "name": "custom", "steps": len(SHADES), "maxSteps": len(SHADES), "progression": "fixed", "reverse": False,
            "rangeType": "percent", "rangeMin": 0, "rangeMax": 100, "continuity": "all",
            "colorStops": [{"color": colour, "stop": at * step} for at, colour in enumerate(SHADES)],
            "stops": [{"color": colour, "stop": (at + 1) * step} for at, colour in enumerate(SHADES)],
        },
    }  # fmt: skip


def cca_colours() -> Json:
    """Returns Lens's mapping of CCAs to colours; CCAs without a colour are grey.

    Kibana 8.12 needs `assignmentMode`, which later ones ignore, and has no colours that repeat ("loop", since 8.13).
    """
    palette = "eui_amsterdam_color_blind"
    return {
        "paletteId": palette,
        "colorMode": {"type": "categorical"},
        "assignmentMode": "manual",
        "assignments": [
            {
                "rule": {"type": "matchExactly", "values": [cca]},
                "color": {"type": "colorCode", "colorCode": colour},
                "touched": True,
            }
            for cca, colour in COLOURS.items()
        ],
        "specialAssignments": [
            {"rule": {"type": "other"}, "color": {"type": "colorCode", "colorCode": NO_CCA}, "touched": False},
        ],
    }
