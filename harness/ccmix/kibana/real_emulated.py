"""Defines Kibana charts that compare valid runs on a real path with runs on its emulated path.

Two conditions are the same if they have the same `ccmix.condition.key`, which has the entry, the
condition, the mix and the streams.
"""

import json

from ccmix.charts.encodings import name, plain, quantity
from ccmix.charts.published import KINDS, spans
from ccmix.kibana.charts import COUNTED
from ccmix.kibana.runs import goodput_over_time
from ccmix.kibana.saved_objects import CONDITIONS, GROUPS, Json
from ccmix.kibana.vega import (
    VegaLite,
    aggregate,
    calculate,
    count_distinct,
    known_keys,
    metric,
    terms,
)

SIDE_COLOURS = {"real": "#000000", "emulated": "#56B4E9"}
_SIDE = "datum.key.kind === 'emulated' ? 'emulated' : 'real'"
_KEYS = {
    "condition": terms("ccmix.condition.key"),
    **known_keys("group"),
    "kind": terms("ccmix.path.kind"),
}
_METRICS = {
    "goodput": metric("avg", "ccmix.goodput_bps"),
    "retransmitted": metric("avg", "ccmix.retransmission_rate"),
    "rtt": metric("avg", "ccmix.rtt_median_s"),
}
# Two rows of a condition and group, real and emulated, become a single row with `real` and
# `emulated`; one-sided rows are dropped.
_ROW = "datum.key.condition + ' ' + datum.key.group"
_SIDE_AND_ROW = calculate(side=_SIDE, row=_ROW)
_ON_BOTH = {"filter": "datum.sides === 2"}


def _real_next_to_emulated(metric_name: str) -> list[Json]:
    """Returns transforms that put the values of a metric on both paths into one row for each
    condition and group, as the columns `real` and `emulated`. Rows that only one path has are
    dropped.
    """
    return [
        *_SIDE_AND_ROW,
        *calculate(value=f"datum.{metric_name}.value"),
        {"pivot": "side", "value": "value", "groupby": ["row"], "op": "mean"},
        {"filter": "isValid(datum.real) && isValid(datum.emulated)"},
    ]


def _difference(title: str, metric_name: str, formula: str, axis: str, format_: str) -> VegaLite:
    """Draws a bar for each condition and group: how the emulated path's value of a metric differs
    from the real path's. `formula` is a Vega expression of datum.real and datum.emulated.
    """
    return VegaLite(
        title,
        GROUPS,
        _KEYS,
        _METRICS,
        lambda source: source.view(
            {
                "mark": {
                    "type": "bar",
                    "color": SIDE_COLOURS["emulated"],
                    "tooltip": {"content": "data"},
                },
                "encoding": {
                    "y": name("row", axis={"labelLimit": 260}),
                    "x": quantity("difference", axis, {"format": format_}),
                },
            }
        ),
        [*_real_next_to_emulated(metric_name), *calculate(difference=formula)],
        COUNTED,
    )


_SIDE_BY_SIDE = VegaLite(
    "Goodput, real and emulated",
    GROUPS,
    _KEYS,
    _METRICS,
    lambda source: source.view(
        {
            "mark": {"type": "bar", "tooltip": True},
            "encoding": {
                "y": name("row", axis={"labelLimit": 260}),
                "yOffset": {"field": "side", "sort": list(SIDE_COLOURS)},
                "x": {
                    "field": "goodput.value",
                    "type": "quantitative",
                    "aggregate": "mean",
                    "axis": {"format": ".2s"},
                    "title": "goodput of the group (bit/s)",
                },
                "color": name(
                    "side",
                    "path",
                    scale={"domain": list(SIDE_COLOURS), "range": list(SIDE_COLOURS.values())},
                ),
            },
        }
    ),
    [
        *_SIDE_AND_ROW,
        count_distinct("sides", "side", "row"),
        _ON_BOTH,
    ],
    COUNTED,
)
_EMULATED_BY_REAL = VegaLite(
    "Emulated against real goodput",
    GROUPS,
    _KEYS,
    _METRICS,
    lambda source: source.view(
        {
            "layer": [
                {
                    "mark": {"type": "line", "color": "#999999"},
                    "transform": [
                        {
                            "aggregate": [
                                {"op": "max", "field": side, "as": side} for side in SIDE_COLOURS
                            ]
                        },
                        {"calculate": "max(datum.real, datum.emulated)", "as": "most"},
                        {"calculate": "0", "as": "none"},
                        {"fold": ["none", "most"], "as": ["end", "same"]},
                    ],
                    "encoding": {
                        "x": plain("same"),
                        "y": plain("same"),
                    },
                },
                {
                    "mark": {
                        "type": "point",
                        "filled": True,
                        "size": 70,
                        "tooltip": {"content": "data"},
                    },
                    "encoding": {
                        "x": quantity("real", "real (bit/s)", {"format": ".2s"}),
                        "y": quantity("emulated", "emulated (bit/s)", {"format": ".2s"}),
                    },
                },
            ],
        }
    ),
    _real_next_to_emulated("goodput"),
    COUNTED,
)
_OVER_TIME = goodput_over_time(
    "Goodput over time, of conditions on both: choose one above",
    {"condition": "ccmix.condition.key", "kind": "ccmix.path.kind"},
    {
        "strokeDash": name(
            "side", "path", scale={"domain": list(SIDE_COLOURS), "range": [[1, 0], [6, 4]]}
        ),
    },
    [
        *calculate(side=_SIDE, condition="datum.key.condition"),
        count_distinct("sides", "side", "condition"),
        _ON_BOTH,
    ],
    ["side"],
)


_BY_SIDE = {
    side: f"datum.key.kind {'===' if side == 'emulated' else '!=='} 'emulated'"
    for side in SIDE_COLOURS
}
RANGE = VegaLite(
    "Goodput of the real path, and the range of its twin",
    CONDITIONS,
    {
        "condition": terms("ccmix.condition.known_key"),
        **known_keys("group"),
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
        quantity(
            "low",
            "goodput of the group (bit/s), mean and its 95% interval",
            {"format": ".2s"},
            zero=False,
        ),
        dict(zip(KINDS, ("range of the twin", "its best estimate", "real"), strict=True)),
    ),
    [
        *calculate(row=_ROW),
        # without an interval, the mean is both ends
        *calculate(
            least="isValid(datum.low.value) ? datum.low.value : datum.goodput.value",
            most="isValid(datum.high.value) ? datum.high.value : datum.goodput.value",
            is_best="toString(datum.key.best) === 'true'",
        ),
        {"filter": "isValid(datum.goodput.value)"},
        *calculate(
            real_mean=f"{_BY_SIDE['real']} ? datum.goodput.value : null",
            real_least=f"{_BY_SIDE['real']} ? datum.least : null",
            real_most=f"{_BY_SIDE['real']} ? datum.most : null",
            twin_mean=f"{_BY_SIDE['emulated']} && datum.is_best ? datum.goodput.value : null",
            twin_least=f"{_BY_SIDE['emulated']} ? datum.least : null",
            twin_most=f"{_BY_SIDE['emulated']} ? datum.most : null",
            side=_SIDE,
        ),
        aggregate(
            ["row"],
            low=("min", "twin_least"),
            high=("max", "twin_most"),
            best=("mean", "twin_mean"),
            result=("mean", "real_mean"),
            result_low=("min", "real_least"),
            result_high=("max", "real_most"),
            sides=("distinct", "side"),
        ),
        _ON_BOTH,
    ],
)


# By column of the table: its title, the value of a row, and its format
_NUMBERS = {
    "goodput": ("goodput (bit/s)", "datum.goodput.value", "format(datum.{}, '.4s')"),
    "retransmitted": (
        "retransmitted (%)",
        "datum.retransmitted.value",
        "format(100 * datum.{}, '.3~f')",
    ),
    "rtt": ("RTT (ms)", "datum.rtt.value", "format(1000 * datum.{}, '.4~r')"),
    "runs": ("runs", "datum.runs.value", "format(datum.{}, 'd')"),
}


def _table_of_both_sides() -> VegaLite:
    """Returns a chart that is a table of numbers, with a row for each condition and group that were
    measured on both paths, and a column for each metric and path.

    It is a Vega text chart because tables of Lens can't leave out the conditions that only one path
    has.
    """
    # By column of the table: a metric on one of the paths, its title, and how Vega computes it
    columns = {f"{side}_{name}": (side, name) for name in _NUMBERS for side in SIDE_COLOURS}
    titles = {column: f"{_NUMBERS[name][0]}, {side}" for column, (side, name) in columns.items()}
    row_values = {
        f"{column}_of": f"datum.side === '{side}' ? {_NUMBERS[name][1]} : null"
        for column, (side, name) in columns.items()
    }
    aggregates = {
        column: ("mean" if name != "runs" else "sum", f"{column}_of")
        for column, (_, name) in columns.items()
    }
    texts = {
        column: f"isValid(datum.{column}) ? {_NUMBERS[name][2].format(column)} : '-'"
        for column, (_, name) in columns.items()
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
                    "y": name("row", axis={"labelLimit": 420}),
                    "x": {
                        "field": "column",
                        "type": "nominal",
                        "title": None,
                        "sort": list(titles.values()),
                        "axis": {
                            "orient": "top",
                            "labelAngle": 0,
                            "labelExpr": "split(datum.label, ', ')",
                            "labelPadding": 16,
                            "ticks": False,
                            "domain": False,
                        },
                    },
                    "text": {"field": "written", "type": "nominal"},
                    "color": {
                        "field": "side",
                        "type": "nominal",
                        "legend": None,
                        "scale": {"domain": list(SIDE_COLOURS), "range": ["#000000", "#0072B2"]},
                    },
                },
            }
        ),
        [
            *_SIDE_AND_ROW,
            *calculate(**row_values),
            aggregate(["row"], **aggregates, sides=("distinct", "side")),
            _ON_BOTH,
            *calculate(**texts),
            {"fold": list(titles), "as": ["number", "written"]},
            *calculate(
                column=f"{json.dumps(titles)}[datum.number]",
                side="split(datum.number, '_')[0]",
            ),
        ],
        COUNTED,
    )


CHARTS = {
    "real-and-emulated": _SIDE_BY_SIDE,
    "difference-goodput": _difference(
        "Difference of goodput",
        "goodput",
        "datum.emulated / datum.real - 1",
        "emulated / real - 1",
        "+.0%",
    ),
    "difference-retransmitted": _difference(
        "Difference of the retransmission rate",
        "retransmitted",
        "datum.emulated - datum.real",
        "emulated minus real",
        "+.2%",
    ),
    "difference-rtt": _difference(
        "Difference of RTT under load",
        "rtt",
        "1000 * (datum.emulated - datum.real)",
        "emulated minus real (ms)",
        "+.1f",
    ),
    "emulated-against-real": _EMULATED_BY_REAL,
    "range-of-the-twin": RANGE,
    "both-over-time": _OVER_TIME,
    "numbers-of-both": _table_of_both_sides(),
}
