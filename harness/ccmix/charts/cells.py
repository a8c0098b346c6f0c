"""Draws cells with a number each, by two names: all heat maps, those of Kibana too, are made of them."""

from collections.abc import Sequence
from typing import Literal

from ccmix.charts.encodings import FAINT
from ccmix.charts.json_types import Part
from ccmix.charts.source import ChartSource

SCHEME = "cividis"  # even steps, for the colour-blind too (Nuñez, Anderton and Renslow 2018)
Steps = Literal["linear", "log"]
FONT_SIZE = 11
DIGITS = 9  # of the numbers: so many more than are written that none is rounded twice
DARK = 0.18  # relative luminance (WCAG 2.1) below which white has more contrast than black


def cells(
    source: ChartSource, x: Part, y: Part, value: str, format_: str, title: str, scale: Part,
    steps: Steps = "linear", ticks: Sequence[float] = (),
) -> Part:  # fmt: skip
    """Draws rectangles with the number in them as one view. In logarithmic steps, cells of 0 are grey.

    Rows: what x and y draw, and `value`. scale: that of the colours, without its type. ticks: the numbers of the
    legend; none: Vega's own choice.
    """
    legend: Part = {"format": format_} | ({"values": list(ticks)} if ticks else {})
    colour = {
        "field": value, "type": "quantitative", "title": title, "legend": legend, "scale": {"type": steps, **scale},
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
