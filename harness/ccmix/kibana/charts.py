"""Draws charts of the report over the valid and imported runs that a dashboard shows."""

from dataclasses import dataclass
from typing import Any

from ccmix.charts import distributions, settings
from ccmix.charts.distributions import distribution
from ccmix.charts.encodings import (
    ONE_COLOUR,
    RATE_AXIS,
    Part,
    colour_by_cca,
    dash,
    goodput,
    name,
    quantity,
)
from ccmix.charts.frames import evenly_spaced_axis
from ccmix.charts.heat_map import SCHEME, cells, gain_scale, goodput_cells
from ccmix.charts.settings import shares
from ccmix.kibana.saved_objects import GROUPS
from ccmix.kibana.vega import (
    VegaLite,
    aggregate,
    distinct,
    known_keys,
    means_with_bands,
    members,
    metric,
    terms,
)

COUNTED = ({"term": {"ccmix.validity.counted": True}},)
MOST_ROWS = 30  # the maximum of a readable heat map


@dataclass(frozen=True)
class SweptSetting:
    """Describes a setting on an axis of a chart; `swept` is a pattern of the keys of entries that
    set it.
    """

    field: str
    value: str
    axis: str
    swept: str


SETTINGS = {
    "loss": SweptSetting(
        "ccmix.path.loss", "100 * datum.key.loss", "loss (%)", "loss|netem-loss|loss-sweep"
    ),
    "rtt": SweptSetting(
        "ccmix.path.base_rtt_s",
        "1000 * datum.key.rtt",
        "base RTT (ms)",
        "delay|rtt|netem-lat|lat-sweep|host[.][^=]*",
    ),
    "buffer": SweptSetting("ccmix.path.buffer_bdp", "datum.key.buffer", "buffer (BDP)", "buffer"),
}
# Columns that separate the lines of a chart and the rows of a heat map, besides the mix
_OF_CONDITION = known_keys("campaign", "entry", "condition")
_RUN = {**known_keys("run", "mix"), **_OF_CONDITION}
_GROUP = known_keys("group", "cca")
_GOODPUT = {"goodput": metric("avg", "ccmix.goodput_bps")}
_RETRANSMITTED = {"retransmitted": metric("avg", "ccmix.retransmission_rate")}
_UTILISATION = {"utilisation": metric("avg", "ccmix.utilisation")}
_FAIRNESS = {"fairness": metric("avg", "ccmix.fairness")}


def _against(title: str, by: str, metric_: Part, y: Part, *, by_cca: bool = True) -> VegaLite:
    """Draws a metric against a setting, with bands. Each mix, entry and other condition has a line;
    so has each CCA of these, unless the metric is of whole runs.
    """
    on_x = SETTINGS[by]
    channels = colour_by_cca() if by_cca else {"color": {"value": ONE_COLOUR}}
    [value] = metric_
    cca = {"cca": "datum.key.cca"} if by_cca else {}
    return VegaLite(
        title,
        GROUPS,
        {by: terms(on_x.field), **_RUN} | (_GROUP if by_cca else {}),
        metric_,
        lambda source: settings.banded_lines(
            source, evenly_spaced_axis(on_x.axis), y, channels | dash("line", "mix"), ["line"]
        ),
        [
            *members(setting=on_x.value, **cca, value=f"datum.{value}.value"),
            *apart("line", on_x),
            *means_with_bands("value", ["setting", "line", *cca]),
        ],
        COUNTED,
    )


def apart(name: str, *swept: SweptSetting) -> list[Part]:
    """Returns transforms to a column with the mix and the other differences: campaign, entry, other
    settings.

    Thus only runs are pooled that differ only in the iteration and in the settings `swept`, which
    the axes show. Values that are the same in all rows are left out.
    """
    keys = "|".join(each.swept for each in swept)
    condition = "(datum.key.condition === 'all' ? '' : datum.key.condition)"
    others = (
        f"replace(replace({condition}, regexp('(^|,)({keys})=[^,]*', 'g'), ''), regexp('^,'), '')"
    )
    parts = {"campaign": "datum.key.campaign", "entry": "datum.key.entry", "others": others}
    columns = {part: f"apart_{part}" for part in parts}
    several = [
        {"op": "distinct", "field": column, "as": f"{column}s"} for column in columns.values()
    ]
    written = " + ".join(
        f"(datum.{column}s > 1 && datum.{column} ? ', ' + datum.{column} : '')"
        for column in columns.values()
    )
    return [
        *members(**{columns[part]: formula for part, formula in parts.items()}),
        {"joinaggregate": several},
        *members(**{name: f"datum.key.mix + {written}"}),
    ]


def _share_by_flows() -> VegaLite:
    """Draws the share of each CCA against its fair share, by the numbers of flows of the
    CCAs of a run.
    """
    x: Part = {
        "field": "flows_of",
        "type": "ordinal",
        "title": "flows of each CCA",
        "axis": {"labelAngle": 0},
    }
    return VegaLite(
        "Share of goodput against the fair share",
        GROUPS,
        {**_RUN, **known_keys("cca")},
        {
            "share": metric("sum", "ccmix.goodput_share"),
            "fair": metric("sum", "ccmix.fair_share"),
            "streams": metric("sum", "ccmix.group.streams"),
        },
        lambda source: shares(source, x, colour_by_cca()),
        [
            *members(
                run="datum.key.run",
                cca="datum.key.cca",
                share="datum.share.value",
                fair_share="datum.fair.value",
                flows="datum.streams.value + ' ' + datum.key.cca",
            ),
            {
                "joinaggregate": [{"op": "values", "field": "flows", "as": "all"}],
                "groupby": ["run"],
            },
            {"filter": "length(datum.all) > 1"},
            *members(flows_of="join(pluck(datum.all, 'flows'), ' : ')"),
            *means_with_bands("share", ["flows_of", "cca", "fair_share"]),
        ],
        COUNTED,
    )


def _heat_map(title: str, metric_: Part, format_: str, what: str, **scale: Any) -> VegaLite:
    """Draws a mean over runs by base RTT and loss: a row for each loss and mix, entry and other
    condition.
    """
    [value] = metric_
    return VegaLite(
        title,
        GROUPS,
        _RTT_AND_LOSS | _RUN,
        metric_,
        lambda source: readable(
            cells(source, *_BY_RTT_AND_LOSS, "value", format_, what, {"scheme": SCHEME} | scale),
            _CONDITIONS_TABLE,
        ),
        [
            *members(
                x=SETTINGS["rtt"].value, loss=SETTINGS["loss"].value, of_run=f"datum.{value}.value"
            ),
            *apart("of", SETTINGS["rtt"], SETTINGS["loss"]),
            *members(y="format(datum.loss, '~g') + '%, ' + datum.of"),
            aggregate(["x", "y", "loss"], value=("mean", "of_run")),
            {"filter": "isValid(datum.value)"},
            distinct("rows", "y"),
        ],
        COUNTED,
    )


_RTT_AND_LOSS = {each: terms(SETTINGS[each].field) for each in ("rtt", "loss")}
_CONDITIONS_TABLE = "the table Conditions below has them"
_BY_RTT_AND_LOSS = (
    evenly_spaced_axis(SETTINGS["rtt"].axis) | {"field": "x"},
    evenly_spaced_axis(SETTINGS["loss"].axis)
    | {
        "title": None,
        "field": "y",
        "sort": {"field": "loss", "op": "min", "order": "descending"},
        "axis": {"labelLimit": 260},
    },
)


def readable(drawing: Part, instead: str) -> Part:
    """Returns a heat map of at most MOST_ROWS rows; if there are more, a sentence that names an
    alternative (`instead`).

    The transforms of the drawing make its rows; their column `rows` has the number of rows.
    """
    data = {name: drawing[name] for name in ("data", "transform")}
    view = {name: part for name, part in drawing.items() if name not in data}
    too_many = f"datum.rows + ' rows are too many for a heat map: filter, or see below; {instead}'"
    return data | {
        "layer": [
            {"transform": [{"filter": f"datum.rows <= {MOST_ROWS}"}], **view},
            {
                "transform": [
                    {"filter": f"datum.rows > {MOST_ROWS}"},
                    aggregate([], rows=("max", "rows")),
                    {"calculate": too_many, "as": "sentence"},
                ],
                "mark": {"type": "text", "fontSize": 13, "align": "left"},
                "encoding": {
                    "x": {"value": 0},
                    "y": {"value": 20},
                    "text": {"field": "sentence", "type": "nominal"},
                },
            },
        ]
    }


def _gain_map(first: str, second: str) -> VegaLite:
    """Draws the goodput gain of a CCA over another, each alone, by base RTT and loss."""
    scale = gain_scale((first, second), 1.0, log=True) | {"clamp": True}
    return VegaLite(
        "Goodput gain of BBR over CUBIC, each alone",
        GROUPS,
        _RTT_AND_LOSS | _RUN,
        _GOODPUT,
        lambda source: readable(
            cells(source, *_BY_RTT_AND_LOSS, "value", "+.0%", "goodput gain", scale),
            _CONDITIONS_TABLE,
        ),
        [
            *members(
                x=SETTINGS["rtt"].value,
                loss=SETTINGS["loss"].value,
                mix="datum.key.mix",
                of_run="datum.goodput.value",
            ),
            *members(y="format(datum.loss, '~g') + '%, ' + datum.key.campaign"),
            {"pivot": "mix", "value": "of_run", "groupby": ["x", "y", "loss"], "op": "mean"},
            *members(value=f"datum['{first}'] / datum['{second}'] - 1"),
            {"filter": "isFinite(datum.value)"},
            distinct("rows", "y"),
        ],
        (*COUNTED, {"terms": {"ccmix.mix": [first, second]}}),
    )


def _goodput_boxes() -> VegaLite:
    """Draws boxes of the goodput of runs by mix, with CCAs next to each other."""
    x: Part = {"field": "mix", "type": "ordinal", "title": "mix of CCAs", "axis": {"labelAngle": 0}}
    colour = colour_by_cca()["color"]
    there = {"values": {"expr": "domain('xOffset')"}, "symbolType": "square"}
    return VegaLite(
        "Goodput of runs: median, quartiles, outliers",
        GROUPS,
        {**_RUN, **_GROUP},
        _GOODPUT,
        lambda source: distributions.boxes_by(
            source,
            x,
            name("cca"),
            goodput(),
            {"color": colour | {"legend": colour["legend"] | there}},
        ),
        members(mix="datum.key.mix", cca="datum.key.cca", goodput_bps="datum.goodput.value"),
        COUNTED,
    )


def _goodput_distribution() -> VegaLite:
    """Draws the distribution of the goodput of all runs' groups."""
    x = quantity("goodput_bps", "goodput of the group (bit/s)", RATE_AXIS)
    return VegaLite(
        "Goodput of runs: distribution",
        GROUPS,
        {**_RUN, **_GROUP},
        _GOODPUT,
        lambda source: distribution(source, x, colour_by_cca() | dash("mix", "mix")),
        [
            *members(
                mix="datum.key.mix",
                cca="datum.key.cca",
                goodput_bps="datum.goodput.value",
                series="datum.key.mix + ' ' + datum.key.cca",
            ),
            *shares_at_most("goodput_bps"),
        ],
        COUNTED,
    )


def shares_at_most(value: str) -> list[Part]:
    """Makes two rows of each row: with the share of its series that is smaller, and with the share
    that is not larger.
    """
    return [
        {"filter": f"isValid(datum.{value})"},
        {
            "window": [{"op": "rank", "as": "rank"}, {"op": "cume_dist", "as": "at_most"}],
            "sort": [{"field": value}],
            "groupby": ["series"],
        },
        {"joinaggregate": [{"op": "count", "as": "values"}], "groupby": ["series"]},
        {"calculate": "[(datum.rank - 1) / datum.values, datum.at_most]", "as": "share"},
        {"flatten": ["share"]},
    ]


def _goodput_table() -> VegaLite:
    """Draws means by condition for the groups of each entry."""
    return VegaLite(
        "Goodput of each group and condition",
        GROUPS,
        {
            **_OF_CONDITION,
            **known_keys("group"),
        },
        _GOODPUT,
        lambda source: readable(
            goodput_cells(
                source,
                name("column", axis={"orient": "bottom", "labelExpr": "split(datum.label, ',')"}),
                name("row", axis={"labelLimit": 300}),
                domainMin=0,
            ),
            _CONDITIONS_TABLE,
        ),
        [
            distinct("campaigns", "key.campaign"),
            *members(
                row="(datum.campaigns > 1 ? datum.key.campaign + ', ' : '') + datum.key.entry + "
                "': ' + "
                "datum.key.group",
                column="datum.key.condition",
                of_group="datum.goodput.value",
            ),
            aggregate(["row", "column"], goodput_bps=("mean", "of_group")),
            {"filter": "isValid(datum.goodput_bps)"},
            {
                "joinaggregate": [
                    {"op": "distinct", "field": "row", "as": "lines"},
                    {"op": "distinct", "field": "column", "as": "columns"},
                ],
            },
            *members(rows="max(datum.lines, datum.columns)"),
        ],
        COUNTED,
    )


_GOODPUT_AXIS, _LOSS_AXIS = settings.goodput_axis(), settings.retransmissions_axis()
CHARTS = {
    "goodput-by-loss": _against("Goodput by loss", "loss", _GOODPUT, _GOODPUT_AXIS),
    "goodput-by-rtt": _against("Goodput by base RTT", "rtt", _GOODPUT, _GOODPUT_AXIS),
    "goodput-by-buffer": _against("Goodput by buffer", "buffer", _GOODPUT, _GOODPUT_AXIS),
    "retransmissions-by-rtt": _against(
        "Retransmission rate by base RTT", "rtt", _RETRANSMITTED, _LOSS_AXIS
    ),
    "fairness-by-rtt": _against(
        "Fairness by base RTT", "rtt", _FAIRNESS, settings.fairness_axis(), by_cca=False
    ),
    "fairness-by-buffer": _against(
        "Fairness by buffer", "buffer", _FAIRNESS, settings.fairness_axis(), by_cca=False
    ),
    "share-by-flows": _share_by_flows(),
    "gain-map": _gain_map("bbr", "cubic"),
    "utilisation-map": _heat_map("Utilisation", _UTILISATION, ".0%", "utilisation", domain=[0, 1]),
    "retransmissions-map": _heat_map(
        "Retransmission rate", _RETRANSMITTED, ".2~p", "retransmission rate", domainMin=0
    ),
    "goodput-boxes": _goodput_boxes(),
    "goodput-distribution": _goodput_distribution(),
    "goodput-table": _goodput_table(),
}
