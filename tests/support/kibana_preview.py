"""Draws a dashboard as one SVG without Kibana: its panels in their places, by Vega-Lite from
Elasticsearch's answers.

What Kibana itself draws differs in style; data, columns, order and the CCAs' colours are those of
the saved objects.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

import vl_convert

from ccmix.charts.encodings import FONT as MEASURED
from ccmix.charts.encodings import colours_of
from ccmix.index.fields import FIELDS
from ccmix.kibana.lens import SHADES
from ccmix.kibana.saved_objects import (
    AS_SECONDS,
    LINKS_HEIGHT,
    WIDTH,
    Dashboard,
    GridPosition,
    Json,
    SavedObject,
)
from ccmix.kibana.saved_objects import Panel as DashboardPanel
from support.kibana_requests import LensPanel, Row, Search, VegaPanel, panel_of

COLUMN, ROW_HEIGHT, GAP, TITLE, HEAD = 25, 21, 8, 20, 62  # pixels
TABLE_ROW, LETTER = 16, 6.2
FONT = f"font-family='{MEASURED}'"
VEGA_LITE = "5.20"
PREFIXES = (("G", 1e9), ("M", 1e6), ("k", 1e3))
# By a field's unit: the factor of its values, the unit's name after that, and d3's format of an
# axis.
AXES = {
    "bit/s": (1, "bit/s", ".2s"),
    "byte": (1, "B", ".2s"),
    "percent": (100, "%", "~r"),
    "s": (1000, "ms", "~r"),
}
_SPOKEN = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')
IN_SECONDS = "ccmix.elapsed_s"


def draw(
    dashboard: Dashboard,
    objects: Mapping[str, SavedObject],
    views: Mapping[str, str],
    search: Search,
) -> str:
    """Returns the SVG. `objects` are all saved objects by id, `views` the index patterns of data
    views by theirs.
    """
    places = dashboard.positions()
    width = WIDTH * COLUMN
    height = HEAD + (max(place.y + place.height for place in places) - LINKS_HEIGHT) * ROW_HEIGHT
    drawn = [
        _framed(
            number, panel, place, _inside(objects[dashboard.panel_id(panel)], views, search, place)
        )
        for number, (panel, place) in enumerate(zip(dashboard.panels, places, strict=True))
    ]
    controls = "   ".join(f"{control.title} ▾" for control in dashboard.controls)
    return (
        "\n".join(
            [
                f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
                f"width='{width}' {FONT}>",
                f"<rect width='{width}' height='{height}' fill='#f4f6f9'/>",
                _text(12, 26, f"ccmix: {dashboard.title}", 18),
                _text(12, 50, controls, 12, colour="#555555"),
                *drawn,
                "</svg>",
            ]
        )
        + "\n"
    )


def render(spec: Mapping[str, Any]) -> str:
    """Returns the SVG of a Vega-Lite specification with data. Raises ValueError if it doesn't
    compile.
    """
    svg: str = vl_convert.vegalite_to_svg(
        {**spec, "config": {"font": MEASURED}}, vl_version=VEGA_LITE
    )
    return svg


def _text(x: float, y: float, text: str, size: int, colour: str = "#1a1c21", more: str = "") -> str:
    return (
        f"<text x='{x:g}' y='{y:g}' font-size='{size}' fill='{colour}' {more}>{escape(text)}</text>"
    )


def _framed(number: int, panel: DashboardPanel, place: GridPosition, inside: str) -> str:
    """Returns a panel with its title, with ids that are unique in the dashboard, and no mark that
    is read aloud.
    """
    x, y = place.x * COLUMN + GAP / 2, HEAD + (place.y - LINKS_HEIGHT) * ROW_HEIGHT + GAP / 2
    width, height = place.width * COLUMN - GAP, place.height * ROW_HEIGHT - GAP
    unique = re.sub(r"""(id=["']|url\(#)([\w-]+)""", rf"\g<1>p{number}-\2", _SPOKEN.sub("", inside))
    return "\n".join(
        [
            f"<g transform='translate({x:g},{y:g})'>",
            f"<rect width='{width:g}' height='{height:g}' rx='4' fill='white' stroke='#d3dae6'/>",
            _text(8, 15, panel.chart.title, 12, more="font-weight='bold'"),
            f"<g transform='translate(6,{TITLE})'>{unique}</g>",
            "</g>",
        ]
    )


def _inside(
    saved: SavedObject, views: Mapping[str, str], search: Search, place: GridPosition
) -> str:
    width, height = place.width * COLUMN - GAP - 12, place.height * ROW_HEIGHT - GAP - TITLE - 6
    line = saved.to_json()
    panel = panel_of(line, dict(views))
    rows = panel.rows(search)
    if not rows:
        return _text(width / 2, height / 2, "no data", 13, "#888888", "text-anchor='middle'")
    if isinstance(panel, VegaPanel):
        return render(panel.drawn(rows) | {"width": width, "height": height})
    state = line["attributes"]["state"]["visualization"]
    frame = {"width": width, "height": height, "autosize": {"type": "fit", "contains": "padding"}}
    match line["attributes"]["visualizationType"]:
        case "lnsXY":
            return render(frame | _xy(panel, state["layers"][0], rows))
        case "lnsHeatmap":
            return render(frame | _heatmap(panel, state, rows))
        case "lnsMetric":
            name = state["metricAccessor"]
            return _text(
                width / 2,
                height / 2 + 14,
                written(panel, name, rows[0][name]),
                40,
                more="text-anchor='middle'",
            )
        case _:
            return _table(
                panel, [column["columnId"] for column in state["columns"]], rows, width, height
            )


def _axis(panel: LensPanel, name: str) -> tuple[float, str, str]:
    column = panel.columns[name]
    field = FIELDS.get(column["sourceField"])
    if field is None or column["operationType"] == "unique_count" or field.name == IN_SECONDS:
        return 1, "", "~s"
    if field.name in AS_SECONDS:
        return 1, "s", "~r"
    return AXES.get(field.unit or "", (1, "", "~s"))


def _scaled(panel: LensPanel, rows: Sequence[Row]) -> list[Row]:
    """Returns the rows in the units of the axes."""
    factors = {name: _axis(panel, name)[0] for name in panel.columns}
    return [
        {
            name: value * factors[name] if isinstance(value, int | float) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _label(panel: LensPanel, name: str) -> str:
    unit = _axis(panel, name)[1]
    label: str = panel.columns[name]["label"]
    return f"{label} ({unit})" if unit else label


def _xy(panel: LensPanel, layer: Mapping[str, Any], rows: Sequence[Row]) -> Json:
    series, x, metrics = layer["seriesType"], layer["xAccessor"], layer["accessors"]
    split = layer.get("splitAccessor")
    sideways = "horizontal" in series
    encoding: Json = {"color": _colour(panel, layer, rows)}
    across: Json = {"field": x, "title": _label(panel, x), **_scale_of(panel, x)}
    value = split or len(metrics) == 1
    along: Json = {
        "field": metrics[0] if value else "value",
        "type": "quantitative",
        "title": _label(panel, metrics[0]) if value else None,
        "axis": {"format": _axis(panel, metrics[0])[2]},
        "stack": "normalize" if "percentage" in series else "zero" if "stacked" in series else None,
    }
    encoding |= {"y": across, "x": along} if sideways else {"x": across, "y": along}
    if series in {"bar", "bar_horizontal"} and split:
        encoding["yOffset" if sideways else "xOffset"] = {"field": split}
    mark = "line" if series == "line" else "area" if series.startswith("area") else "bar"
    points = mark == "line" and panel.columns[x]["operationType"] == "date_histogram"
    drawing = {
        "data": {"values": _scaled(panel, rows)},
        "mark": {"type": mark, "point": points},
        "encoding": encoding,
    }
    return (
        drawing
        if value
        else drawing | {"transform": [{"fold": metrics, "as": ["verdict", "value"]}]}
    )


def _scale_of(panel: LensPanel, name: str) -> Json:
    column = panel.columns[name]
    if column["operationType"] == "date_histogram":
        return {"type": "temporal", "axis": {"format": "%m-%d %H:%M", "tickCount": 5}}
    if column["operationType"] == "range":
        return {"type": "quantitative"}
    return {"type": "ordinal", "axis": {"labelAngle": 0, "labelLimit": 200}}


def _colour(panel: LensPanel, layer: Mapping[str, Any], rows: Sequence[Row]) -> Json:
    """Returns the colour of the saved object, as far as it fixes one."""
    split, given = (
        layer.get("splitAccessor"),
        {axis["forAccessor"]: axis["color"] for axis in layer.get("yConfig", ())},
    )
    if split:
        many: Json = (
            {"legend": None} if panel.columns[split]["sourceField"] == "ccmix.flow.id" else {}
        )
        scale: Json = {"scale": _only_of(rows, split)} if "colorMapping" in layer else {}
        return {
            "field": split,
            "type": "nominal",
            "title": panel.columns[split]["label"],
            **scale,
            **many,
        }
    if len(layer["accessors"]) > 1:
        colours = {"domain": list(given), "range": list(given.values())}
        return {"field": "verdict", "type": "nominal", "title": None, "scale": colours}
    return {"value": given.get(layer["accessors"][0], "#0072B2")}


def _only_of(rows: Sequence[Row], split: str) -> Json:
    """Returns the scale of the CCAs' colours, with only those that occur, for the legend."""
    colours = colours_of(row[split] for row in rows)
    return {"domain": list(colours), "range": list(colours.values())}


def _heatmap(panel: LensPanel, state: Mapping[str, Any], rows: Sequence[Row]) -> Json:
    x, y, value = state["xAccessor"], state["yAccessor"], state["valueAccessor"]
    number = {"field": value, "type": "quantitative", "title": _label(panel, value)}
    return {
        "data": {"values": _scaled(panel, rows)},
        "encoding": {
            "x": {
                "field": x,
                "type": "nominal",
                "title": _label(panel, x),
                "axis": {"labelAngle": 0},
            },
            "y": {
                "field": y,
                "type": "nominal",
                "title": _label(panel, y),
                "axis": {"labelLimit": 200},
            },
        },
        "layer": [
            {
                "mark": {"type": "rect", "opacity": 0.6},
                "encoding": {"color": number | {"scale": {"range": list(SHADES), "domainMin": 0}}},
            },
            {"mark": "text", "encoding": {"text": number | {"format": ".3~s"}}},
        ],
    }


def _table(
    panel: LensPanel, names: Sequence[str], rows: Sequence[Row], width: float, height: float
) -> str:
    """Draws the first rows that there is room for."""
    room = int(height // TABLE_ROW) - 1
    step = width / len(names)
    letters = int(step / LETTER)
    lines = [
        _text(2 + at * step, TABLE_ROW - 4, panel.columns[name]["label"][:letters], 10, "#555555")
        for at, name in enumerate(names)
    ]
    for number, row in enumerate(rows[:room], start=1):
        lines += [
            _text(
                2 + at * step,
                (number + 1) * TABLE_ROW - 4,
                written(panel, name, row[name])[:letters],
                10,
            )
            for at, name in enumerate(names)
        ]
    if len(rows) > room:
        lines.append(
            _text(
                width, height, f"{len(rows) - room} more rows", 10, "#888888", "text-anchor='end'"
            )
        )
    return "\n".join(lines)


def written(panel: LensPanel, name: str, value: Any) -> str:
    """Returns a value of a column in the format of a table; '-' if it is missing."""
    if value is None:
        return "-"
    if not isinstance(value, int | float):
        return str(value)
    if panel.columns[name]["dataType"] == "date":
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    factor, unit, pattern = _axis(panel, name)
    number, prefix = value * factor, ""
    if pattern == ".2s":
        prefix, size = next((pair for pair in PREFIXES if abs(number) >= pair[1]), ("", 1.0))
        number /= size
    return f"{number:,.4g} {prefix}{unit}".strip()
