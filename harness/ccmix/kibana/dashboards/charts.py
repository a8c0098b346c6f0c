"""Draws charts of the report over the valid and imported runs that a dashboard shows."""

from collections.abc import Mapping
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
# By setting: its field, the formula of its value on an axis, and the axis' title
SETTINGS = {
    "loss": ("ccmix.path.loss", "100 * datum.key.loss", "loss (%)"),
    "rtt": ("ccmix.path.base_rtt_s", "1000 * datum.key.rtt", "base RTT (ms)"),
    "buffer": ("ccmix.path.buffer_bdp", "datum.key.buffer", "buffer (BDP)"),
}
_RUN = {"run": terms("ccmix.run.id"), "mix": terms("ccmix.mix")}
_GROUP = {"group": terms("ccmix.group.name"), "cca": terms("ccmix.cca")}
_GOODPUT = {"goodput": metric("avg", "ccmix.goodput_bps")}


def goodput_by(title: str, by: str) -> VegaLite:
    """Draws goodput against a setting, with bands; a line for each CCA of each mix."""
    return _against(title, by, _GOODPUT, "goodput", setting.goodput_axis())


def retransmissions_by(title: str, by: str) -> VegaLite:
    lost = {"retransmitted": metric("avg", "ccmix.retransmission_rate")}
    return _against(title, by, lost, "retransmitted", setting.retransmissions_axis())


def _against(title: str, by: str, metrics: Mapping[str, Any], value: str, y: Part) -> VegaLite:
    field, formula, axis = SETTINGS[by]
    return VegaLite(
        title,
        GROUPS,
        {by: terms(field), **_RUN, **_GROUP},
        metrics,
        lambda source: setting.banded_lines(source, even(axis), y, of_cca() | dash("mix", "mix"), ["mix"]),
        [
            *members(setting=formula, mix="datum.key.mix", cca="datum.key.cca", value=f"datum.{value}.value"),
            *means_with_bands("value", ["setting", "mix", "cca"]),
        ],
        COUNTED,
    )


def fairness_by(title: str, by: str) -> VegaLite:
    """Draws Jain's index over all flows of a run, against a setting, with bands; a line for each mix."""
    field, formula, axis = SETTINGS[by]
    channels = {"color": {"value": ONE_COLOUR}, **dash("mix", "mix")}
    return VegaLite(
        title,
        GROUPS,
        {by: terms(field), **_RUN},
        {"fairness": metric("avg", "ccmix.fairness")},
        lambda source: setting.banded_lines(source, even(axis), setting.fairness_axis(), channels, ["mix"]),
        [
            *members(setting=formula, mix="datum.key.mix", value="datum.fairness.value"),
            *means_with_bands("value", ["setting", "mix"]),
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
    """Draws a mean over runs by base RTT and loss."""
    return VegaLite(
        title,
        GROUPS,
        {each: terms(SETTINGS[each][0]) for each in ("rtt", "loss")} | _RUN,
        metrics,
        lambda source: cells(source, *_BY_RTT_AND_LOSS, "value", format_, what, scale),
        [
            *members(x=SETTINGS["rtt"][1], y=SETTINGS["loss"][1], of_run=f"datum.{value}.value"),
            {"aggregate": [{"op": "mean", "field": "of_run", "as": "value"}], "groupby": ["x", "y"]},
            {"filter": "isValid(datum.value)"},
        ],
        COUNTED,
    )


_BY_RTT_AND_LOSS = (
    even(SETTINGS["rtt"][2]) | {"field": "x"},
    even(SETTINGS["loss"][2]) | {"field": "y", "sort": "descending"},
)


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
        {each: terms(SETTINGS[each][0]) for each in ("rtt", "loss")} | _RUN,
        _GOODPUT,
        lambda source: cells(source, *_BY_RTT_AND_LOSS, "value", "+.0%", "goodput gain", scale),
        [
            *members(x=SETTINGS["rtt"][1], y=SETTINGS["loss"][1], mix="datum.key.mix", of_run="datum.goodput.value"),
            {"pivot": "mix", "value": "of_run", "groupby": ["x", "y"], "op": "mean"},
            *members(value=f"datum['{first}'] / datum['{second}'] - 1"),
            {"filter": "isFinite(datum.value)"},
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
            "entry": terms("ccmix.entry"), "condition": terms("ccmix.condition.name"),
            "group": terms("ccmix.group.name"),
        },
        _GOODPUT,
        lambda source: goodput_cells(
            source,
            {
                "field": "column", "type": "nominal", "title": None,
                "axis": {"orient": "bottom", "labelExpr": "split(datum.label, ',')"},
            },
            {"field": "row", "type": "nominal", "title": None, "axis": {"labelLimit": 300}},
            domainMin=0,
        ),
        [
            *members(
                row="datum.key.entry + ': ' + datum.key.group", column="datum.key.condition",
                of_group="datum.goodput.value",
            ),
            {"aggregate": [{"op": "mean", "field": "of_group", "as": "goodput_bps"}], "groupby": ["row", "column"]},
            {"filter": "isValid(datum.goodput_bps)"},
        ],
        COUNTED,
    )  # fmt: skip
