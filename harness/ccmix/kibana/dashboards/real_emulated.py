"""Shows the same condition on a real and on an emulated path side by side, with the difference, of valid runs only.

Conditions are the same if their `ccmix.condition.key` is: entry, condition, mix and streams.
"""

import json

from ccmix.charts.encodings import quantity
from ccmix.charts.span import KINDS, spans
from ccmix.kibana.dashboard import Control, Dashboard, Panel
from ccmix.kibana.dashboards import common
from ccmix.kibana.dashboards.over_time import goodput_over_time
from ccmix.kibana.data_views import CONDITIONS, GROUPS
from ccmix.kibana.lens import Count, Lens, LensTable, Terms
from ccmix.kibana.saved import Json
from ccmix.kibana.vega import VegaLite, members, metric, terms

SIDE_COLOURS = {"real": "#000000", "emulated": "#56B4E9"}
_SIDE = "datum.key.kind === 'emulated' ? 'emulated' : 'real'"
_KEYS = {
    "condition": terms("ccmix.condition.key"),
    "group": terms("ccmix.group.name"),
    "kind": terms("ccmix.path.kind"),
}
_METRICS = {
    "goodput": metric("avg", "ccmix.goodput_bps"),
    "retransmitted": metric("avg", "ccmix.retransmission_rate"),
    "rtt": metric("avg", "ccmix.rtt_median_s"),
}
_COUNTED = ({"term": {"ccmix.validity.counted": True}},)
# Rows of a condition and group on both sides become one row with `real` and `emulated`; one-sided ones go.
_ROW = {"calculate": "datum.key.condition + ' ' + datum.key.group", "as": "row"}


def _pivot(value: str) -> list[Json]:
    return [
        {"calculate": _SIDE, "as": "side"},
        _ROW,
        {"calculate": f"datum.{value}.value", "as": "value"},
        {"pivot": "side", "value": "value", "groupby": ["row"], "op": "mean"},
        {"filter": "isValid(datum.real) && isValid(datum.emulated)"},
    ]


def _difference(title: str, value: str, formula: str, axis: str, format_: str) -> VegaLite:
    """Draws a bar for each condition and group: how far emulated is from real."""
    return VegaLite(
        title,
        GROUPS,
        _KEYS,
        _METRICS,
        lambda source: source.view(
            {
                "mark": {"type": "bar", "color": SIDE_COLOURS["emulated"], "tooltip": {"content": "data"}},
                "encoding": {
                    "y": {"field": "row", "type": "nominal", "title": None, "axis": {"labelLimit": 260}},
                    "x": {"field": "difference", "type": "quantitative", "title": axis, "axis": {"format": format_}},
                },
            }
        ),
        [*_pivot(value), {"calculate": formula, "as": "difference"}],
        _COUNTED,
    )


_SIDE_BY_SIDE = VegaLite(
    "Goodput, real and emulated",
    GROUPS,
    _KEYS,
    _METRICS,
    lambda source: source.view({
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": "row", "type": "nominal", "title": None, "axis": {"labelLimit": 260}},
            "yOffset": {"field": "side", "sort": list(SIDE_COLOURS)},
            "x": {"field": "goodput.value", "type": "quantitative", "aggregate": "mean", "axis": {"format": ".2s"},
                  "title": "goodput of the group (bit/s)"},
            "color": {"field": "side", "type": "nominal", "title": "path",
                      "scale": {"domain": list(SIDE_COLOURS), "range": list(SIDE_COLOURS.values())}},
        },
    }),
    [
        {"calculate": _SIDE, "as": "side"},
        _ROW,
        {"joinaggregate": [{"op": "distinct", "field": "side", "as": "sides"}], "groupby": ["row"]},
        {"filter": "datum.sides === 2"},
    ],
    _COUNTED,
)  # fmt: skip
_AGAINST = VegaLite(
    "Emulated against real goodput",
    GROUPS,
    _KEYS,
    _METRICS,
    lambda source: source.view({
        "layer": [
            {
                "mark": {"type": "line", "color": "#999999"},
                "transform": [
                    {"aggregate": [{"op": "max", "field": side, "as": side} for side in SIDE_COLOURS]},
                    {"calculate": "max(datum.real, datum.emulated)", "as": "most"},
                    {"calculate": "0", "as": "none"},
                    {"fold": ["none", "most"], "as": ["end", "same"]},
                ],
                "encoding": {
                    "x": {"field": "same", "type": "quantitative"}, "y": {"field": "same", "type": "quantitative"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "tooltip": {"content": "data"}},
                "encoding": {
                    "x": {"field": "real", "type": "quantitative", "title": "real (bit/s)", "axis": {"format": ".2s"}},
                    "y": {"field": "emulated", "type": "quantitative", "title": "emulated (bit/s)",
                          "axis": {"format": ".2s"}},
                },
            },
        ],
    }),
    _pivot("goodput"),
    _COUNTED,
)  # fmt: skip
_OVER_TIME = goodput_over_time(
    "Goodput over time, of conditions on both: choose one above",
    {"condition": "ccmix.condition.key", "kind": "ccmix.path.kind"},
    {
        "strokeDash": {
            "field": "side", "type": "nominal", "title": "path",
            "scale": {"domain": list(SIDE_COLOURS), "range": [[1, 0], [6, 4]]},
        },
    },
    [
        {"calculate": _SIDE, "as": "side"},
        {"calculate": "datum.key.condition", "as": "condition"},
        {"joinaggregate": [{"op": "distinct", "field": "side", "as": "sides"}], "groupby": ["condition"]},
        {"filter": "datum.sides === 2"},
    ],
    ["side"],
)  # fmt: skip


_BY_SIDE = {side: f"datum.key.kind {'===' if side == 'emulated' else '!=='} 'emulated'" for side in SIDE_COLOURS}
RANGE = VegaLite(
    "Goodput of the real path, and the range of its twin",
    CONDITIONS,
    {
        "condition": terms("ccmix.condition.known_key"),
        "group": terms("ccmix.group.name"),
        "kind": terms("ccmix.path.kind"),
        "of_range": terms("ccmix.condition.name"),
        "best": terms("ccmix.condition.best_estimate"),
    },
    {
        "goodput": metric("avg", "ccmix.goodput_bps"),
        "low": metric("min", "ccmix.condition.goodput_ci95_low_bps"),
        "high": metric("max", "ccmix.condition.goodput_ci95_high_bps"),
    },
    lambda source: spans(
        source,
        quantity("low", "goodput of the group (bit/s), mean and its 95% interval", {"format": ".2s"}, zero=False),
        dict(zip(KINDS, ("range of the twin", "its best estimate", "real"), strict=True)),
    ),
    [
        _ROW,
        # without an interval, the mean is both ends
        *members(
            least="isValid(datum.low.value) ? datum.low.value : datum.goodput.value",
            most="isValid(datum.high.value) ? datum.high.value : datum.goodput.value",
            is_best="toString(datum.key.best) === 'true'",
        ),
        {"filter": "isValid(datum.goodput.value)"},
        *members(
            real_mean=f"{_BY_SIDE['real']} ? datum.goodput.value : null",
            real_least=f"{_BY_SIDE['real']} ? datum.least : null",
            real_most=f"{_BY_SIDE['real']} ? datum.most : null",
            twin_mean=f"{_BY_SIDE['emulated']} && datum.is_best ? datum.goodput.value : null",
            twin_least=f"{_BY_SIDE['emulated']} ? datum.least : null",
            twin_most=f"{_BY_SIDE['emulated']} ? datum.most : null",
            side=_SIDE,
        ),
        {
            "aggregate": [
                {"op": operation, "field": field, "as": name}
                for name, (operation, field) in {
                    "low": ("min", "twin_least"), "high": ("max", "twin_most"), "best": ("mean", "twin_mean"),
                    "result": ("mean", "real_mean"), "result_low": ("min", "real_least"),
                    "result_high": ("max", "real_most"), "sides": ("distinct", "side"),
                }.items()
            ],
            "groupby": ["row"],
        },
        {"filter": "datum.sides === 2"},
    ],
)  # fmt: skip


# By column of the table: its title, the value of a row, and how it is written
_NUMBERS = {
    "goodput": ("goodput (bit/s)", "datum.goodput.value", "format(datum.{}, '.4s')"),
    "retransmitted": ("retransmitted (%)", "datum.retransmitted.value", "format(100 * datum.{}, '.3~f')"),
    "rtt": ("RTT (ms)", "datum.rtt.value", "format(1000 * datum.{}, '.4~r')"),
    "runs": ("runs", "datum.runs.value", "format(datum.{}, 'd')"),
}


def _table() -> VegaLite:
    """Writes the numbers of both sides, of conditions that both have: Lens can't leave the others out."""
    measures = [
        {"op": "mean" if name != "runs" else "sum", "field": f"{side}_{name}_of", "as": f"{side}_{name}"}
        for name in _NUMBERS
        for side in SIDE_COLOURS
    ]
    titles = {f"{side}_{name}": f"{title}, {side}" for name, (title, *_) in _NUMBERS.items() for side in SIDE_COLOURS}
    written = {
        f"{side}_{name}": f"isValid(datum.{side}_{name}) ? {how.format(f'{side}_{name}')} : '-'"
        for name, (_, _, how) in _NUMBERS.items()
        for side in SIDE_COLOURS
    }
    return VegaLite(
        "Numbers, of conditions on both",
        GROUPS,
        _KEYS,
        _METRICS | {"runs": metric("cardinality", "ccmix.run.id")},
        lambda source: source.view(
            {
                "mark": {"type": "text", "fontSize": 12},
                "encoding": {
                    "y": {"field": "row", "type": "nominal", "title": None, "axis": {"labelLimit": 420}},
                    "x": {"field": "column", "type": "nominal", "title": None, "sort": list(titles.values()),
                          "axis": {"orient": "top", "labelAngle": 0, "labelExpr": "split(datum.label, ', ')",
                                   "labelPadding": 16, "ticks": False, "domain": False}},
                    "text": {"field": "written", "type": "nominal"},
                    "color": {"field": "side", "type": "nominal", "legend": None,
                              "scale": {"domain": list(SIDE_COLOURS), "range": ["#000000", "#0072B2"]}},
                },
            }
        ),
        [
            {"calculate": _SIDE, "as": "side"},
            _ROW,
            *(
                {"calculate": f"datum.side === '{side}' ? {value} : null", "as": f"{side}_{name}_of"}
                for name, (_, value, _) in _NUMBERS.items()
                for side in SIDE_COLOURS
            ),
            {"aggregate": [*measures, {"op": "distinct", "field": "side", "as": "sides"}], "groupby": ["row"]},
            {"filter": "datum.sides === 2"},
            *members(**written),
            {"fold": list(titles), "as": ["number", "written"]},
            *members(
                column=f"{json.dumps(titles)}[datum.number]", side="split(datum.number, '_')[0]",
            ),
        ],
        _COUNTED,
    )  # fmt: skip


_ALONE = Lens(
    "Runs of each condition and CCA, real and emulated: what has none on one side has no partner",
    GROUPS,
    {
        "condition": Terms("ccmix.condition.key", "condition", size=200),
        "mix": Terms("ccmix.mix", "mix"),
        "real": Count("groups, real", "not ccmix.path.kind: emulated"),
        "emulated": Count("groups, emulated", "ccmix.path.kind: emulated"),
    },
    LensTable(("condition", "mix", "real", "emulated")),
    common.COUNTED,
)

REAL_EMULATED = Dashboard(
    "real-emulated",
    "Real against emulated",
    "The same condition on a real path and on an emulated one, side by side, with the difference; of valid runs",
    GROUPS,
    (
        common.CAMPAIGN, Control("ccmix.condition.known_key", "Condition on both"),
        common.ENTRY, common.MIX, common.CCA, common.PAIR, common.BASE_RTT, common.STREAMS,
    ),
    (
        Panel("goodput", _SIDE_BY_SIDE, 24, 16),
        Panel(
            "difference-goodput",
            _difference("Difference of goodput", "goodput", "datum.emulated / datum.real - 1",
                        "emulated over real, less 1", "+.0%"),
            24, 16,
        ),
        Panel("against", _AGAINST, 16, 13),
        Panel(
            "difference-retransmitted",
            _difference("Difference of the retransmission rate", "retransmitted", "datum.emulated - datum.real",
                        "emulated less real", "+.2%"),
            16, 13,
        ),
        Panel(
            "difference-rtt",
            _difference("Difference of RTT under load", "rtt", "1000 * (datum.emulated - datum.real)",
                        "emulated less real (ms)", "+.1f"),
            16, 13,
        ),
        Panel("range", RANGE, 48, 14),
        Panel("time", _OVER_TIME, 48, 16),
        Panel("numbers", _table(), 48, 14),
        Panel("alone", _ALONE, 48, 10),
    ),
)  # fmt: skip
