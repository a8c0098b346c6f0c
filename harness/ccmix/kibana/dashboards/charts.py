"""Draws charts of the report over the valid and imported runs that a dashboard shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ccmix.charts import box, setting
from ccmix.charts.cells import SCHEME, cells
from ccmix.charts.colours import ONE_COLOUR
from ccmix.charts.distribution import distribution
from ccmix.charts.encodings import RATE_AXIS, dash, name, of_cca, quantity
from ccmix.charts.heat_map import gain_scale
from ccmix.charts.json_types import Part
from ccmix.charts.share import shares
from ccmix.charts.sweep import even
from ccmix.charts.table import goodput_cells
from ccmix.kibana.bands import means_with_bands
from ccmix.kibana.data_views import GROUPS
from ccmix.kibana.vega import VegaLite, members, metric, terms

COUNTED = ({"term": {"ccmix.validity.counted": True}},)
MOST_ROWS = 30  # of a heat map that can be read


@dataclass(frozen=True)
class SweptSetting:
    """Describes a setting that a chart has on an axis; `swept` are the keys of entries that set it, as a pattern."""

    field: str
    value: str
    axis: str
    swept: str


SETTINGS = {
    "loss": SweptSetting("ccmix.path.loss", "100 * datum.key.loss", "loss (%)", "loss|netem-loss|loss-sweep"),
    "rtt": SweptSetting(
        "ccmix.path.base_rtt_s", "1000 * datum.key.rtt", "base RTT (ms)",
        "delay|rtt|netem-lat|lat-sweep|host[.][^=]*",
    ),
    "buffer": SweptSetting("ccmix.path.buffer_bdp", "datum.key.buffer", "buffer (BDP)", "buffer"),
}  # fmt: skip
# What separates the lines of a chart and the rows of a heat map, besides the mix
_OF_CONDITION = {
    "campaign": terms("ccmix.campaign.name"), "entry": terms("ccmix.entry"),
    "condition": terms("ccmix.condition.name"),
}  # fmt: skip
_RUN = {"run": terms("ccmix.run.id"), "mix": terms("ccmix.mix"), **_OF_CONDITION}
_GROUP = {"group": terms("ccmix.group.name"), "cca": terms("ccmix.cca")}
_GOODPUT = {"goodput": metric("avg", "ccmix.goodput_bps")}


def goodput_by(title: str, by: str) -> VegaLite:
    """Draws goodput against a setting, with bands; a line for each CCA of each mix, entry and other condition."""
    return _against(title, by, _GOODPUT, "goodput", setting.goodput_axis())


def retransmissions_by(title: str, by: str) -> VegaLite:
    lost = {"retransmitted": metric("avg", "ccmix.retransmission_rate")}
    return _against(title, by, lost, "retransmitted", setting.retransmissions_axis())


def _against(title: str, by: str, metrics: Mapping[str, Any], value: str, y: Part) -> VegaLite:
    on_x = SETTINGS[by]
    return VegaLite(
        title,
        GROUPS,
        {by: terms(on_x.field), **_RUN, **_GROUP},
        metrics,
        lambda source: setting.banded_lines(source, even(on_x.axis), y, of_cca() | dash("line", "mix"), ["line"]),
        [
            *members(setting=on_x.value, cca="datum.key.cca", value=f"datum.{value}.value"),
            *apart("line", on_x),
            *means_with_bands("value", ["setting", "line", "cca"]),
        ],
        COUNTED,
    )


def apart(name: str, *swept: SweptSetting) -> list[Part]:
    """Returns transforms to a column with the mix and what else differs: campaign, entry, other settings.

    So runs are pooled that differ in nothing but the iteration and the settings `swept`, which the axes show. What is
    the same in all rows is left out.
    """
    keys = "|".join(each.swept for each in swept)
    condition = "(datum.key.condition === 'all' ? '' : datum.key.condition)"
    others = f"replace(replace({condition}, regexp('(^|,)({keys})=[^,]*', 'g'), ''), regexp('^,'), '')"
    parts = {"campaign": "datum.key.campaign", "entry": "datum.key.entry", "others": others}
    columns = {part: f"apart_{part}" for part in parts}
    several = [{"op": "distinct", "field": column, "as": f"{column}s"} for column in columns.values()]
    written = " + ".join(
        f"(datum.{column}s > 1 && datum.{column} ? ', ' + datum.{column} : '')" for column in columns.values()
    )
    return [
        *members(**{columns[part]: formula for part, formula in parts.items()}),
        {"joinaggregate": several},
        *members(**{name: f"datum.key.mix + {written}"}),
    ]


def fairness_by(title: str, by: str) -> VegaLite:
    """Draws Jain's index over all flows of a run, against a setting, with bands; a line for each mix."""
    on_x = SETTINGS[by]
    channels = {"color": {"value": ONE_COLOUR}, **dash("line", "mix")}
    return VegaLite(
        title,
        GROUPS,
        {by: terms(on_x.field), **_RUN},
        {"fairness": metric("avg", "ccmix.fairness")},
        lambda source: setting.banded_lines(source, even(on_x.axis), setting.fairness_axis(), channels, ["line"]),
        [
            *members(setting=on_x.value, value="datum.fairness.value"),
            *apart("line", on_x),
            *means_with_bands("value", ["setting", "line"]),
        ],
        COUNTED,
    )


def share_by_flows(title: str) -> VegaLite:
    """Draws the share of each CCA against its fair share, by the numbers of flows of the CCAs of a run."""
    x: Part = {"field": "flows_of", "type": "ordinal", "title": "flows of each CCA", "axis": {"labelAngle": 0}}
    return VegaLite(
        title,
        GROUPS,
        {**_RUN, "cca": terms("ccmix.cca")},
        {
            "share": metric("sum", "ccmix.goodput_share"),
            "fair": metric("sum", "ccmix.fair_share"),
            "streams": metric("sum", "ccmix.group.streams"),
        },
        lambda source: shares(source, x, of_cca()),
        [
            *members(
                run="datum.key.run", cca="datum.key.cca", share="datum.share.value", fair_share="datum.fair.value",
                flows="datum.streams.value + ' ' + datum.key.cca",
            ),
            {"joinaggregate": [{"op": "values", "field": "flows", "as": "all"}], "groupby": ["run"]},
            {"filter": "length(datum.all) > 1"},
            *members(flows_of="join(pluck(datum.all, 'flows'), ' : ')"),
            *means_with_bands("share", ["flows_of", "cca", "fair_share"]),
        ],
        COUNTED,
    )  # fmt: skip


def _heat_map(title: str, metrics: Mapping[str, Any], value: str, format_: str, what: str, scale: Part) -> VegaLite:
    """Draws a mean over runs by base RTT and loss: a row for each loss and mix, entry and other condition."""
    return VegaLite(
        title,
        GROUPS,
        _RTT_AND_LOSS | _RUN,
        metrics,
        lambda source: readable(cells(source, *_BY_RTT_AND_LOSS, "value", format_, what, scale), _CONDITIONS_TABLE),
        [
            *members(x=SETTINGS["rtt"].value, loss=SETTINGS["loss"].value, of_run=f"datum.{value}.value"),
            *apart("of", SETTINGS["rtt"], SETTINGS["loss"]),
            *members(y="format(datum.loss, '~g') + '%, ' + datum.of"),
            {"aggregate": [{"op": "mean", "field": "of_run", "as": "value"}], "groupby": ["x", "y", "loss"]},
            {"filter": "isValid(datum.value)"},
            *rows_counted("y"),
        ],
        COUNTED,
    )


_RTT_AND_LOSS = {each: terms(SETTINGS[each].field) for each in ("rtt", "loss")}
_CONDITIONS_TABLE = "the table Conditions below has them"
_BY_RTT_AND_LOSS = (
    even(SETTINGS["rtt"].axis) | {"field": "x"},
    even(SETTINGS["loss"].axis) | {
        "title": None,
        "field": "y", "sort": {"field": "loss", "op": "min", "order": "descending"}, "axis": {"labelLimit": 260},
    },
)  # fmt: skip


def rows_counted(field: str) -> list[Part]:
    """Returns the transform to the column `rows`: how many different values the column `field` has."""
    return [{"joinaggregate": [{"op": "distinct", "field": field, "as": "rows"}]}]


def readable(drawing: Part, instead: str) -> Part:
    """Returns a heat map of at most MOST_ROWS rows; of more, a sentence with what to look at `instead`.

    The transforms of the drawing make its rows, with the column `rows` of rows_counted().
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
                    {"aggregate": [{"op": "max", "field": "rows", "as": "rows"}], "groupby": []},
                    {"calculate": too_many, "as": "sentence"},
                ],
                "mark": {"type": "text", "fontSize": 13, "align": "left"},
                "encoding": {"x": {"value": 0}, "y": {"value": 20}, "text": {"field": "sentence", "type": "nominal"}},
            },
        ]
    }


def utilisation_map(title: str) -> VegaLite:
    metrics = {"utilisation": metric("avg", "ccmix.utilisation")}
    return _heat_map(title, metrics, "utilisation", ".0%", "utilisation", {"scheme": SCHEME, "domain": [0, 1]})


def retransmissions_map(title: str) -> VegaLite:
    metrics = {"retransmitted": metric("avg", "ccmix.retransmission_rate")}
    return _heat_map(title, metrics, "retransmitted", ".2~p", "retransmission rate", {"scheme": SCHEME, "domainMin": 0})


def gain_map(title: str, first: str, second: str) -> VegaLite:
    """Draws how much more one CCA carries than another, each alone on the path, by base RTT and loss."""
    scale = gain_scale((first, second), 1.0, log=True) | {"clamp": True}
    return VegaLite(
        title,
        GROUPS,
        _RTT_AND_LOSS | _RUN,
        _GOODPUT,
        lambda source: readable(
            cells(source, *_BY_RTT_AND_LOSS, "value", "+.0%", "goodput gain", scale), _CONDITIONS_TABLE
        ),
        [
            *members(
                x=SETTINGS["rtt"].value, loss=SETTINGS["loss"].value, mix="datum.key.mix", of_run="datum.goodput.value"
            ),
            *members(y="format(datum.loss, '~g') + '%, ' + datum.key.campaign"),
            {"pivot": "mix", "value": "of_run", "groupby": ["x", "y", "loss"], "op": "mean"},
            *members(value=f"datum['{first}'] / datum['{second}'] - 1"),
            {"filter": "isFinite(datum.value)"},
            *rows_counted("y"),
        ],
        (*COUNTED, {"terms": {"ccmix.mix": [first, second]}}),
    )


def goodput_boxes(title: str) -> VegaLite:
    """Draws boxes of the goodput of runs by mix, CCAs beside each other."""
    x: Part = {"field": "mix", "type": "ordinal", "title": "mix of CCAs", "axis": {"labelAngle": 0}}
    colour = of_cca()["color"]
    there = {"values": {"expr": "domain('xOffset')"}, "symbolType": "square"}
    return VegaLite(
        title,
        GROUPS,
        {**_RUN, **_GROUP},
        _GOODPUT,
        lambda source: box.boxes_by(
            source, x, name("cca"), box.goodput(), {"color": colour | {"legend": colour["legend"] | there}}
        ),
        members(mix="datum.key.mix", cca="datum.key.cca", goodput_bps="datum.goodput.value"),
        COUNTED,
    )


def goodput_distribution(title: str) -> VegaLite:
    """Draws the distribution of the goodput of all runs' groups."""
    x = quantity("goodput_bps", "goodput of the group (bit/s)", RATE_AXIS)
    return VegaLite(
        title,
        GROUPS,
        {**_RUN, **_GROUP},
        _GOODPUT,
        lambda source: distribution(source, x, of_cca() | dash("mix", "mix")),
        [
            *members(
                mix="datum.key.mix", cca="datum.key.cca", goodput_bps="datum.goodput.value",
                series="datum.key.mix + ' ' + datum.key.cca",
            ),
            *shares_at_most("goodput_bps"),
        ],
        COUNTED,
    )  # fmt: skip


def shares_at_most(value: str) -> list[Part]:
    """Makes two rows of each: with the share of its series that is smaller, and the share that is at most so large."""
    return [
        {"filter": f"isValid(datum.{value})"},
        {
            "window": [{"op": "rank", "as": "rank"}, {"op": "cume_dist", "as": "at_most"}],
            "sort": [{"field": value}], "groupby": ["series"],
        },
        {"joinaggregate": [{"op": "count", "as": "values"}], "groupby": ["series"]},
        {"calculate": "[(datum.rank - 1) / datum.values, datum.at_most]", "as": "share"},
        {"flatten": ["share"]},
    ]  # fmt: skip


def goodput_table(title: str) -> VegaLite:
    """Draws means by condition for the groups of each entry."""
    return VegaLite(
        title,
        GROUPS,
        {
            **_OF_CONDITION, "group": terms("ccmix.group.name"),
        },
        _GOODPUT,
        lambda source: readable(
            goodput_cells(
                source,
                {
                    "field": "column", "type": "nominal", "title": None,
                    "axis": {"orient": "bottom", "labelExpr": "split(datum.label, ',')"},
                },
                {"field": "row", "type": "nominal", "title": None, "axis": {"labelLimit": 300}},
                domainMin=0,
            ),
            _CONDITIONS_TABLE,
        ),
        [
            {"joinaggregate": [{"op": "distinct", "field": "key.campaign", "as": "campaigns"}]},
            *members(
                row="(datum.campaigns > 1 ? datum.key.campaign + ', ' : '') + datum.key.entry + ': ' + "
                    "datum.key.group",
                column="datum.key.condition", of_group="datum.goodput.value",
            ),
            {"aggregate": [{"op": "mean", "field": "of_group", "as": "goodput_bps"}], "groupby": ["row", "column"]},
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
    )  # fmt: skip
