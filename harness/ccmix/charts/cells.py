"""Cells of a number each, by two names: what all heat maps are, those of Kibana too."""

from typing import Any, Literal

from ccmix.charts.encodings import FAINT, Part
from ccmix.charts.source import Source

SCHEME = "cividis"  # even steps, for the colour-blind too (Nuñez, Anderton and Renslow 2018)
Steps = Literal["linear", "log"]
FONT_SIZE = 11
DIGITS = 9  # of the numbers: so many more than are written that none is rounded twice
DARK = 0.18  # relative luminance (WCAG 2.1) below which white has more contrast than black


def cells(
    source: Source, x: Part, y: Part, value: str, format_: str, title: str, scale: dict[str, Any],
    steps: Steps = "linear",
) -> Part:  # fmt: skip
    """One view: rectangles with the number in them. In logarithmic steps, cells of 0 are grey.

    Rows: what x and y draw, and `value`. scale: of the colours, beside their type.
    """
    colour = {
        "field": value, "type": "quantitative", "title": title, "legend": {"format": format_},
        "scale": {"type": steps, **scale},
    }  # fmt: skip
    ink: Part = {
        "condition": {"test": f"luminance(scale('color', datum['{value}'])) < {DARK}", "value": "white"},
        "value": "black",
    }
    if steps == "log":
        ink["condition"]["test"] = f"datum['{value}'] > 0 && {ink['condition']['test']}"
    text = {"text": {"field": value, "type": "quantitative", "format": format_}, "color": ink}
    coloured: Part = {"mark": {"type": "rect", "tooltip": {"content": "data"}}, "encoding": {"color": colour}}
    layers = [coloured]
    if steps == "log":
        coloured["transform"] = [{"filter": f"datum['{value}'] > 0"}]
        layers.insert(0, {"mark": {"type": "rect", "color": FAINT}})
    layers.append({"mark": {"type": "text", "fontSize": FONT_SIZE}, "encoding": text})
    return source.view({"encoding": {"x": x, "y": y}, "layer": layers})
