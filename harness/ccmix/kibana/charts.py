"""Defines Kibana charts that resemble each other: lines, heat maps, and goodput over time.

They look like the charts of ccmix's HTML report. vega.yaml has all other charts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ccmix.charts import over_time, settings
from ccmix.charts.encodings import ONE_COLOUR, Part, colour_by_cca, dash
from ccmix.charts.frames import evenly_spaced_axis
from ccmix.charts.heat_map import SCHEME, cells
from ccmix.kibana.saved_objects import GROUPS, INTERVALS
from ccmix.kibana.vega import (
    VegaLite,
    aggregate,
    calculate,
    count_distinct,
    known_keys,
    means_with_bands,
    metric,
    steps,
    terms,
)

STEP_S = 1.0
COUNTED = ({"term": {"ccmix.validity.counted": True}},)
MOST_ROWS = 30  # the maximum of a readable heat map


@dataclass(frozen=True)
class SweptSetting:
    """Describes a setting of the emulated path on an axis of a chart.

    `field` is its field in the documents, `value` a Vega expression for its value in the axis's
    unit, and `axis` the axis's title. `swept` is a regular expression for the keys of the INI file
    that set it: the name of a run's condition lists them as KEY=VALUE.
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
# Keys that separate the lines of a chart and the rows of a heat map, in addition to the mix
_OF_CONDITION = known_keys("campaign", "entry", "condition")
_RUN = {**known_keys("run", "mix"), **_OF_CONDITION}
_GROUP = known_keys("group", "cca")
_GOODPUT = {"goodput": metric("avg", "ccmix.goodput_bps")}
_RETRANSMITTED = {"retransmitted": metric("avg", "ccmix.retransmission_rate")}
_UTILISATION = {"utilisation": metric("avg", "ccmix.utilisation")}
_FAIRNESS = {"fairness": metric("avg", "ccmix.fairness")}


def _lines_against_setting(
    title: str, setting: str, metric_: Part, y: Part, *, by_cca: bool = True
) -> VegaLite:
    """Draws the mean of a metric, with its 95% interval, against a setting (a key of SETTINGS).

    Each mix of CCAs has its own line. Runs of different entries of the INI file, or with different
    values of another swept setting, also have separate lines. With `by_cca`, so have the CCAs of a
    mix. A metric of whole runs, such as fairness, has no CCAs.
    """
    on_x = SETTINGS[setting]
    channels = colour_by_cca() if by_cca else {"color": {"value": ONE_COLOUR}}
    [metric_name] = metric_
    cca = {"cca": "datum.key.cca"} if by_cca else {}
    return VegaLite(
        title,
        GROUPS,
        # a row for each setting, run and group (flows of a run that have the same CCA)
        {setting: terms(on_x.field), **_RUN} | (_GROUP if by_cca else {}),
        metric_,
        lambda source: settings.banded_lines(
            source, evenly_spaced_axis(on_x.axis), y, channels | dash("line", "mix"), ["line"]
        ),
        [
            *calculate(setting=on_x.value, **cca, value=f"datum.{metric_name}.value"),
            *label_lines("line", on_x),
            *means_with_bands("value", ["setting", "line", *cca]),
        ],
        COUNTED,
    )


def label_lines(column: str, *swept: SweptSetting) -> list[Part]:
    """Returns transforms that add a column with a label of each row: its mix of CCAs, and what else
    distinguishes it from other rows (campaign, entry, other settings).

    Rows with the same label become one line, so only runs are averaged that differ only in the
    iteration and in the settings `swept`, which the axes show. The label leaves out the parts that
    are the same in all rows.
    """
    keys = "|".join(each.swept for each in swept)
    # A condition is named 'KEY=VALUE,KEY=VALUE', or 'all' without swept settings
    condition = "(datum.key.condition === 'all' ? '' : datum.key.condition)"
    other_settings = (
        f"replace(replace({condition}, regexp('(^|,)({keys})=[^,]*', 'g'), ''), regexp('^,'), '')"
    )
    parts = {"campaign": "datum.key.campaign", "entry": "datum.key.entry", "others": other_settings}
    names = {part: f"apart_{part}" for part in parts}
    # A part is in the label only if it has several values in the rows
    numbers_of_values = [
        {"op": "distinct", "field": name, "as": f"{name}s"} for name in names.values()
    ]
    differing_parts = " + ".join(
        f"(datum.{name}s > 1 && datum.{name} ? ', ' + datum.{name} : '')" for name in names.values()
    )
    return [
        *calculate(**{names[part]: formula for part, formula in parts.items()}),
        {"joinaggregate": numbers_of_values},
        *calculate(**{column: f"datum.key.mix + {differing_parts}"}),
    ]


def _heat_map(title: str, metric_: Part, format_: str, legend: str, **scale: Any) -> VegaLite:
    """Draws the mean over runs of a metric as a heat map with the base RTT on the x-axis. It has a
    row for each loss rate and mix of CCAs, and for each entry and value of other swept settings.

    `format_` is the number format of the cells, `legend` the title of the colour scale, and `scale`
    has options of Vega's scale.
    """
    [metric_name] = metric_
    return VegaLite(
        title,
        GROUPS,
        _RTT_AND_LOSS | _RUN,  # a row for each run
        metric_,
        lambda source: limit_rows(
            cells(source, *BY_RTT_AND_LOSS, "value", format_, legend, {"scheme": SCHEME} | scale),
            CONDITIONS_TABLE,
        ),
        [
            *calculate(
                x=SETTINGS["rtt"].value,
                loss=SETTINGS["loss"].value,
                of_run=f"datum.{metric_name}.value",
            ),
            *label_lines("of", SETTINGS["rtt"], SETTINGS["loss"]),
            *calculate(y="format(datum.loss, '~g') + '%, ' + datum.of"),
            aggregate(["x", "y", "loss"], value=("mean", "of_run")),
            {"filter": "isValid(datum.value)"},
            count_distinct("rows", "y"),
        ],
        COUNTED,
    )


_RTT_AND_LOSS = {each: terms(SETTINGS[each].field) for each in ("rtt", "loss")}
CONDITIONS_TABLE = "the table Conditions below has them"
BY_RTT_AND_LOSS = (
    evenly_spaced_axis(SETTINGS["rtt"].axis) | {"field": "x"},
    evenly_spaced_axis(SETTINGS["loss"].axis)
    | {
        "title": None,
        "field": "y",
        "sort": {"field": "loss", "op": "min", "order": "descending"},
        "axis": {"labelLimit": 260},
    },
)


def limit_rows(heat_map: Part, alternative: str) -> Part:
    """Returns the heat map if it has at most MOST_ROWS rows; otherwise the drawing is a sentence,
    which ends with `alternative`, such as a table to read instead.

    The number of rows is known only in Vega, so both are layers: transforms of the heat map must
    give each row a column `rows` with that number, and each layer filters by it.
    """
    data = {name: heat_map[name] for name in ("data", "transform")}
    view = {name: part for name, part in heat_map.items() if name not in data}
    too_many = (
        f"datum.rows + ' rows are too many for a heat map: filter, or see below; {alternative}'"
    )
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


def cumulative_shares(column: str) -> list[Part]:
    """Returns transforms that make the points of a CDF, drawn as steps, for each value of the
    column `series`.

    Each row becomes two rows, the ends of a step, with a column `share`. At the lower end, this is
    the share of the series' values that are smaller than the row's value; at the upper end, the
    share of the values that are not larger.
    """
    return [
        {"filter": f"isValid(datum.{column})"},
        # ranks of equal values are equal, so (rank - 1) values are smaller
        {
            "window": [{"op": "rank", "as": "rank"}, {"op": "cume_dist", "as": "at_most"}],
            "sort": [{"field": column}],
            "groupby": ["series"],
        },
        {"joinaggregate": [{"op": "count", "as": "values"}], "groupby": ["series"]},
        {"calculate": "[(datum.rank - 1) / datum.values, datum.at_most]", "as": "share"},
        {"flatten": ["share"]},
    ]


def goodput_over_time(
    title: str,
    keys: Mapping[str, str] = MappingProxyType({}),
    channels: Mapping[str, Any] = MappingProxyType({}),
    transform: Sequence[Part] = (),
    separate_by: Sequence[str] = (),
) -> VegaLite:
    """Returns a chart of each group's goodput over time: the mean over runs, with their range. Runs
    with different values of the columns `separate_by` have separate lines.

    `keys` are further Elasticsearch fields that separate rows, by their names in `key.NAME`; from
    them, `transform` can make the columns of `separate_by` and leave out rows. `channels` are
    further Vega encodings, such as a dash pattern. Samples are pooled in steps of one second, so
    intervals longer than that leave gaps.
    """
    return VegaLite(
        title,
        INTERVALS,
        {
            **{key: terms(field) for key, field in keys.items()},
            **known_keys("run", "group", "cca"),
            "time_s": steps("ccmix.elapsed_s", STEP_S),
        },
        {
            "goodput": metric("avg", "ccmix.goodput_bps"),
            "retransmits": metric("avg", "ccmix.retransmits"),
            "flows": metric("cardinality", "ccmix.flow.id"),
            "omitted": metric("max", "ccmix.omitted"),
        },
        lambda source: over_time.over_time(
            source, colour_by_cca() | dict(channels), apart=separate_by
        ),
        [
            *transform,
            # A step may hold several intervals of a flow, or none: the mean over the flows'
            # intervals, for each flow
            *calculate(
                of_group="datum.goodput.value * datum.flows.value",
                lost="datum.retransmits.value * datum.flows.value",
                omitted_s="datum.omitted.value ? datum.key.time_s : 0",
                group="datum.key.group",
                cca="datum.key.cca",
                time_s="datum.key.time_s",
            ),
            aggregate(
                ["group", "cca", "time_s", *separate_by],
                goodput_bps=("mean", "of_group"),
                low_bps=("min", "of_group"),
                high_bps=("max", "of_group"),
                retransmits=("mean", "lost"),
                omit_s=("max", "omitted_s"),
            ),
            *calculate(begin_s=f"max(0, datum.time_s - {STEP_S:g})"),
        ],
        needs="goodput in intervals, which imported summaries do not have",
    )


_GOODPUT_AXIS, _LOSS_AXIS = settings.goodput_axis(), settings.retransmissions_axis()
CHARTS = {
    "goodput-by-loss": _lines_against_setting("Goodput by loss", "loss", _GOODPUT, _GOODPUT_AXIS),
    "goodput-by-rtt": _lines_against_setting("Goodput by base RTT", "rtt", _GOODPUT, _GOODPUT_AXIS),
    "goodput-by-buffer": _lines_against_setting(
        "Goodput by buffer", "buffer", _GOODPUT, _GOODPUT_AXIS
    ),
    "retransmissions-by-rtt": _lines_against_setting(
        "Retransmission rate by base RTT", "rtt", _RETRANSMITTED, _LOSS_AXIS
    ),
    "fairness-by-rtt": _lines_against_setting(
        "Fairness by base RTT", "rtt", _FAIRNESS, settings.fairness_axis(), by_cca=False
    ),
    "fairness-by-buffer": _lines_against_setting(
        "Fairness by buffer", "buffer", _FAIRNESS, settings.fairness_axis(), by_cca=False
    ),
    "utilisation-map": _heat_map("Utilisation", _UTILISATION, ".0%", "utilisation", domain=[0, 1]),
    "retransmissions-map": _heat_map(
        "Retransmission rate", _RETRANSMITTED, ".2~p", "retransmission rate", domainMin=0
    ),
}
