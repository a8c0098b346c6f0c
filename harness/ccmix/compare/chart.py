"""Draws the goodputs of both campaigns side by side, condition by condition."""

from collections.abc import Iterator, Sequence

from ccmix.analysis.statistics import Spread
from ccmix.charts.colours import COLOURS, ONE_COLOUR
from ccmix.charts.encodings import FAINT, RATE_AXIS, SCHEMA, lighter, name, plain, quantity
from ccmix.charts.json_types import Part
from ccmix.compare import range_chart
from ccmix.compare.verdicts import Compared, ComparedCondition, Tested
from ccmix.units import format_percent

ROW_HEIGHT, WIDTH = 22, 520  # pixels
A, B = "A", "B"


def specifications(compared: Compared, name_a: str, name_b: str) -> list[Part]:
    """Returns the drawings that fit: of ranges, and of conditions."""
    drawings = [range_chart.specification(compared.ranges, name_a, name_b)] if compared.ranges else []
    return [*drawings, *([specification(compared, name_a, name_b)] if compared.conditions else [])]


def stacked(drawings: Sequence[Part]) -> Part:
    """Returns one drawing of all, at least one."""
    if len(drawings) == 1:
        return drawings[0]
    parts = [{name: value for name, value in drawing.items() if name != "$schema"} for drawing in drawings]
    return {"$schema": SCHEMA, "vconcat": parts, "resolve": {"scale": {"color": "independent", "shape": "independent"}}}


def specification(compared: Compared, name_a: str, name_b: str) -> Part:
    """Returns Vega-Lite with data: a panel for each condition and group of A, with lines for A and its matches."""
    points = list(_points(compared))
    within = f"grey: within ±{format_percent(compared.margin)} of A's mean"
    above_0 = all(point["goodput_bps"] > 0 for point in points)
    goodput = quantity(
        "goodput_bps", "goodput (bit/s), mean and its 95% interval", RATE_AXIS,
        type="log" if above_0 else "linear", nice=True,
    )  # fmt: skip
    axis = {"labelLimit": 400, "ticks": False, "domain": False, "titleAngle": 0, "titleAlign": "right",
            "titleX": -4, "titleY": -8, "titleBaseline": "bottom"}  # fmt: skip
    line = name("line", "campaign", sort=None, axis=axis)
    names = [f"A: {name_a}", f"B: {name_b}"]
    legend = {"orient": "top"}
    colour = name("campaign", scale={"domain": names, "range": [ONE_COLOUR, COLOURS["bbr"]]}, legend=legend)
    shape = name("campaign", scale={"domain": names, "range": ["circle", "diamond"]}, legend=legend)
    header = {"labelOrient": "top", "labelAnchor": "start", "labelAngle": 0, "labelFontWeight": "bold"}
    for point in points:
        point["campaign"] = names[point.pop("side") == B]
    return {
        "$schema": SCHEMA,
        "description": f"Goodput of {len(compared.conditions)} conditions in {name_a} (A) and {name_b} (B); {within}.",
        "title": {"text": "Goodput of A and B", "subtitle": within, "anchor": "start"},
        "data": {"values": points},
        "facet": {"row": name("panel", sort=list(dict.fromkeys(point["panel"] for point in points)), header=header)},
        "spec": {
            "width": WIDTH,
            "height": {"step": ROW_HEIGHT},
            "layer": [
                {
                    "mark": {"type": "rect", "color": FAINT},
                    "encoding": {"x": plain("least_bps"), "x2": {"field": "most_bps"}, "y": line},
                },
                {
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {"x": plain("low_bps"), "x2": {"field": "high_bps"}, "y": line, "color": colour},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                    "encoding": {
                        "x": goodput,
                        "y": line,
                        "color": colour,
                        "shape": shape,
                        **lighter((point["line"] for point in points), "line"),
                    },
                },
            ],
        },
        "resolve": {"scale": {"y": "independent"}},
    }


def _points(compared: Compared) -> Iterator[Part]:
    drawn = set()
    matches: dict[str, set[str]] = {}
    for condition in compared.conditions:
        matches.setdefault(condition.a.name, set()).add(condition.b.name)
    for condition in compared.conditions:
        for tested in condition.goodputs:
            if tested.a is None or tested.b is None:
                continue
            alike = matches[condition.a.name] == {condition.a.name}
            panel = _panel(condition, tested, "" if alike else "A: ")
            band = {
                "least_bps": (1 - compared.margin) * tested.a.mean, "most_bps": (1 + compared.margin) * tested.a.mean,
            }  # fmt: skip
            if panel not in drawn:
                yield {"panel": panel, "side": A, "line": A, **_spread(tested.a), **band}
                drawn.add(panel)
            line = B if alike else f"B: {condition.b.name}"
            yield {"panel": panel, "side": B, "line": line, **_spread(tested.b), **band}
    for condition in compared.conditions:
        yield from _not_valid(condition)


def _not_valid(condition: ComparedCondition) -> Iterator[Part]:
    """Yields the goodput of all groups of runs that are not valid, apart from the others' by their meaning."""
    for side, cell in ((A, condition.a), (B, condition.b)):
        for each in cell.not_valid:
            bps = each.goodput_mean_bps
            mean = {"goodput_bps": bps, "low_bps": bps, "high_bps": bps}
            yield {"panel": condition.a.name, "side": side, "line": f"{side} ({each.meaning})", **mean}


def _panel(condition: ComparedCondition, tested: Tested, of_a: str) -> str:
    """Returns the name of A's condition, which `of_a` says to be A's where a condition of B has another name."""
    return f"{of_a}{condition.a.name}{f': {tested.group}' if len(condition.goodputs) > 1 else ''}"


def _spread(spread: Spread) -> Part:
    """Returns mean and interval, its lower end at least a hundredth of the mean, as the scale may be logarithmic."""
    low, high = spread.ci95 or (spread.mean, spread.mean)
    return {"goodput_bps": spread.mean, "low_bps": max(low, spread.mean / 100), "high_bps": high}
