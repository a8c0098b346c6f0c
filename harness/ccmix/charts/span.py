"""Draws a result beside the range that unknown keys leave open: the range as a bar, the result as a mark."""

from ccmix.charts.colours import COLOURS, ONE_COLOUR
from ccmix.charts.encodings import name, plain
from ccmix.charts.json_types import Part
from ccmix.charts.source import ChartSource

ROW_HEIGHT, WIDTH = 30, 520  # pixels
BAR_HEIGHT, TICK_HEIGHT = 14, 18
PALE = "#9FC9E3"
KINDS = ("range", "best", "result")


def spans(source: ChartSource, value: Part, labels: Part, row: str = "row") -> Part:
    """Draws a bar from low to high, a tick at the best estimate, and a point with its interval, as one view.

    Rows: the name in `row`, low, high, best (null: not known), result, result_low and result_high, all in the unit of
    `value`, a channel whose field is overridden. `labels` names the KINDS in the legend.
    """
    y = name(row, sort=None, axis={"labelLimit": 420, "ticks": False, "domain": False})
    domain = [labels[kind] for kind in KINDS]
    colours = [PALE, COLOURS["bbr"], ONE_COLOUR]
    legend = {"orient": "top", "symbolType": "square", "symbolOpacity": 1}
    colour = name("kind", scale={"domain": domain, "range": colours}, legend=legend, sort=None)

    def layer(kind: str, mark: Part, field: str, end: str | None = None) -> Part:
        encoding = {"y": y, "x": value | {"field": field}, "color": colour}
        return {
            "transform": [{"calculate": f"{labels[kind]!r}", "as": "kind"}, {"filter": f"isValid(datum.{field})"}],
            "mark": mark,
            "encoding": encoding | ({"x2": {"field": end}} if end else {}),
        }

    return source.view(
        {
            "layer": [
                layer("range", {"type": "bar", "height": BAR_HEIGHT, "stroke": COLOURS["bbr"]}, "low", "high"),
                layer("best", {"type": "tick", "thickness": 3, "height": TICK_HEIGHT}, "best"),
                {
                    "mark": {"type": "rule", "strokeWidth": 2, "color": ONE_COLOUR},
                    "encoding": {"y": y, "x": plain("result_low"), "x2": {"field": "result_high"}},
                },
                layer("result", {"type": "point", "filled": True, "size": 70, "opacity": 1}, "result"),
            ],
        }
    )
