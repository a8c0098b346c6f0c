"""Defines Kibana charts of single runs: goodput over time, BBR's states, completion times.

It also has the sentences above such charts, for example how many runs pass the filters.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ccmix.charts import over_time
from ccmix.charts.distributions import distribution
from ccmix.charts.encodings import ChartSource, Part, colour_by_cca, dash, name, quantity, time
from ccmix.kibana.charts import cumulative_shares
from ccmix.kibana.saved_objects import COMPLETIONS, GROUPS, INTERVALS, RUNS, SOCKETS, DataView
from ccmix.kibana.vega import (
    VegaLite,
    aggregate,
    calculate,
    count_distinct,
    known_keys,
    metric,
    steps,
    terms,
)
from ccmix.terms import BBRS

MOST_RUNS = 200  # in a list of runs
FONT_SIZE = 13
STEP_S = 1.0


def number_of_runs() -> VegaLite:
    """Returns a chart that is a sentence: how many runs pass the filters, and whether the list of
    runs below it has room for all of them.
    """
    newest = (
        f"'The list below has the newest {MOST_RUNS} of ' + datum.runs + "
        "' runs: filter for the others'"
    )
    return _sentence(
        "Number of runs",
        RUNS,
        {"runs": "ccmix.run.id"},
        f"datum.runs > {MOST_RUNS} ? {newest} : 'The list below has all ' + datum.runs + "
        "' runs, the newest first'",
    )


def compared_runs() -> VegaLite:
    """Returns a chart that is a sentence above the comparison of two runs: whether the filters
    leave exactly two runs.
    """
    passes = "(datum.runs === 1 ? ' passes' : ' pass')"
    other_number = (
        f"{_with_plural('runs', 'run')} + {passes} + ' the filters: choose two in the last one'"
    )
    return _sentence(
        "Compared runs",
        RUNS,
        {"runs": "ccmix.run.id"},
        f"datum.runs === 2 ? 'Two runs: a solid and a dashed line' : {other_number}",
    )


def pooled_conditions() -> VegaLite:
    """Returns a chart that is a sentence: how many conditions (combinations of swept path settings)
    and campaigns the bars and boxes below it pool, and how to filter them.
    """
    counts = {"campaigns": "ccmix.campaign.id", "conditions": "ccmix.condition.key"}
    counted = (
        f"{_with_plural('conditions', 'condition')} + ' of ' + "
        f"{_with_plural('campaigns', 'campaign')} + ': '"
    )
    return _sentence(
        "Pooled conditions",
        GROUPS,
        counts,
        f"datum.conditions + datum.campaigns > 2 ? {counted} + "
        "'bars, boxes and distributions pool them, lines and heat maps do not. Filter by "
        "campaign, entry, mix, RTT, "
        "loss and buffer' : 'One condition of one campaign'",
    )


def _with_plural(column: str, noun: str) -> str:
    """Returns a Vega expression for the number in a column with its noun: '1 run' or '2 runs'."""
    return f"datum.{column} + (datum.{column} === 1 ? ' {noun}' : ' {noun}s')"


def _sentence(title: str, view: DataView, counts: Mapping[str, str], formula: str) -> VegaLite:
    """Returns a chart that is a line of text, which the Vega expression `formula` computes.

    The formula may use columns with numbers of different values: `counts` has, for each column, the
    field whose values are counted.
    """
    return VegaLite(
        title,
        view,
        {"kind": terms("event.dataset")},  # a single row: all documents are of the same kind
        {name: metric("cardinality", field) for name, field in counts.items()},
        _text,
        calculate(**{name: f"datum.{name}.value" for name in counts}, sentence=formula),
    )


def _text(source: ChartSource) -> Part:
    """Draws the column `sentence` as a text at the top left, without a frame."""
    return source.view(
        {
            "view": {"stroke": None},
            "mark": {"type": "text", "align": "left", "baseline": "top", "fontSize": FONT_SIZE},
            "encoding": {
                "x": {"value": 0},
                "y": {"value": 0},
                "text": {"field": "sentence", "type": "nominal"},
            },
        }
    )


def goodput_over_time(
    title: str,
    keys: Mapping[str, str] = MappingProxyType({}),
    channels: Mapping[str, Any] = MappingProxyType({}),
    transform: Sequence[Mapping[str, Any]] = (),
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
            **{name: terms(field) for name, field in keys.items()},
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
            *map(dict, transform),
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


SAMPLE_STEP_S = 0.1
_BBR_NEEDS = f"samples of sockets with the CCA {', '.join(BBRS)}"
_OF_SENDERS = ({"term": {"ccmix.end": "sender"}}, {"term": {"ccmix.final": False}})
_BOUNDS = {name: line for name, line in over_time.WINDOWS.items() if name in over_time.BOUNDS}
# The phase of a sample, as over_time.phase() computes it
PHASE = (
    "datum.key.state === 'probe_bw' "
    "? 'probe_bw, ' + (datum.key.gain > 1 ? 'up' : datum.key.gain < 1 ? 'down' : 'cruise') "
    ": replace(datum.key.state, 'probe_bw_', 'probe_bw, ')"
)

BBR_STATES = VegaLite(
    "State of each BBR flow",
    SOCKETS,
    {
        "step": steps("ccmix.elapsed_s", SAMPLE_STEP_S),
        **known_keys("run", "flow"),
        "state": terms("ccmix.bbr.state"),
        "gain": terms("ccmix.bbr.pacing_gain"),
    },
    {"time_s": metric("min", "ccmix.elapsed_s")},
    lambda source: over_time.states(source, time(), name("flow")),
    [
        *calculate(time_s="datum.time_s.value", run="datum.key.run", bbr_state=PHASE),
        count_distinct("runs", "run"),
        *calculate(flow="datum.runs > 1 ? datum.run + ' ' + datum.key.flow : datum.key.flow"),
        {
            "window": [{"op": "lead", "field": "time_s", "as": "next_s"}],
            "sort": [{"field": "time_s"}],
            "groupby": ["flow"],
        },
        {"filter": "isValid(datum.next_s)"},
        *calculate(to_s="datum.next_s"),
    ],
    _OF_SENDERS,
    _BBR_NEEDS,
)
BBR_RATES = VegaLite(
    "BBR's estimate of the bottleneck's rate, its bound bw_lo, and the delivery rate: means over "
    "flows",
    SOCKETS,
    {"step": steps("ccmix.elapsed_s", SAMPLE_STEP_S)},
    {
        "estimate": metric("avg", "ccmix.bbr.bandwidth_bps"),
        "delivered": metric("avg", "ccmix.socket.delivery_rate_bps"),
        "bw_lo": metric("avg", "ccmix.bbr.bw_lo_bps"),
    },
    lambda source: over_time.rates(source, time()),
    calculate(
        time_s="datum.key.step",
        bbr_bandwidth_bps="datum.estimate.value",
        delivery_rate_bps="datum.delivered.value",
        bbr_bw_lo_bps="datum.bw_lo.value",
    ),
    (*_OF_SENDERS, {"exists": {"field": "ccmix.bbr.bandwidth_bps"}}),
    _BBR_NEEDS,
)
BBR_BOUNDS = VegaLite(
    "Bounds of BBR's later versions on what is in flight: means over flows",
    SOCKETS,
    {"step": steps("ccmix.elapsed_s", SAMPLE_STEP_S)},
    {
        "hi": metric("avg", "ccmix.bbr.inflight_hi_packets"),
        "lo": metric("avg", "ccmix.bbr.inflight_lo_packets"),
    },
    lambda source: over_time.windows(source, time(), _BOUNDS),
    calculate(
        time_s="datum.key.step",
        bbr_inflight_hi_packets="datum.hi.value",
        bbr_inflight_lo_packets="datum.lo.value",
    ),
    (*_OF_SENDERS, {"exists": {"field": "ccmix.bbr.inflight_hi_packets"}}),
    "samples of sockets with the CCA bbr2 or bbr3 in the lab",
)

_COMPLETIONS_NEED = "an http or workload source"
_COMPLETIONS = VegaLite(
    "Time of each request and short flow",
    COMPLETIONS,
    known_keys("run", "group", "cca", "number", "bytes"),
    {"seconds": metric("avg", "ccmix.seconds")},
    lambda source: source.view(
        {
            "mark": {"type": "point", "filled": True, "opacity": 0.7, "size": 40},
            "encoding": {
                "x": {
                    "field": "key.bytes",
                    "type": "quantitative",
                    "scale": {"type": "log"},
                    "axis": {"format": ".2s"},
                    "title": "size (bytes)",
                },
                "y": {
                    "field": "seconds.value",
                    "type": "quantitative",
                    "scale": {"type": "log"},
                    "axis": {"format": "~s"},
                    "title": "time (s)",
                },
                "color": {"field": "key.group", "type": "nominal", "title": "group"},
                "shape": {"field": "key.cca", "type": "nominal", "title": "CCA"},
                "tooltip": [
                    {"field": f"key.{name}", "type": "nominal", "title": name}
                    for name in ("group", "number", "bytes", "run")
                ],
            },
        }
    ),
    [{"filter": "isValid(datum.seconds.value)"}],
    needs=_COMPLETIONS_NEED,
)
_COMPLETION_TIMES = VegaLite(
    "Distribution of the times of requests and short flows",
    COMPLETIONS,
    known_keys("run", "group", "cca", "number"),
    {"seconds": metric("avg", "ccmix.seconds")},
    lambda source: distribution(
        source,
        quantity("seconds", "completion time (s)", {"tickCount": 5}),
        colour_by_cca() | dash("group", "group"),
    ),
    [
        *calculate(
            seconds="datum.seconds.value",
            group="datum.key.group",
            cca="datum.key.cca",
            series="datum.key.group + ' ' + datum.key.cca",
        ),
        *cumulative_shares("seconds"),
    ],
    needs=_COMPLETIONS_NEED,
)

_POINTS = colour_by_cca(field="key.cca")
_POINTS["color"]["legend"] |= {"symbolType": "circle", "symbolStrokeWidth": 0}
_EACH_RUN = VegaLite(
    "Goodput and retransmissions of each run; pale: not valid",
    GROUPS,
    {
        **known_keys("run", "group", "cca", "mix", "condition"),
        "verdict": terms("ccmix.validity.status"),
    },
    {
        "goodput": metric("avg", "ccmix.goodput_bps"),
        "retransmission_rate": metric("avg", "ccmix.retransmission_rate"),
    },
    lambda source: source.view(
        {
            "mark": {"type": "point", "filled": True, "size": 50},
            "encoding": {
                "x": {
                    "field": "retransmission_rate.value",
                    "type": "quantitative",
                    "axis": {"format": ".1%"},
                    "title": "retransmission rate",
                },
                "y": {
                    "field": "goodput.value",
                    "type": "quantitative",
                    "axis": {"format": ".2s"},
                    "title": "goodput of the group (bit/s)",
                },
                **_POINTS,
                "shape": {"field": "key.mix", "type": "nominal", "title": "mix"},
                "opacity": {
                    "condition": {"test": "datum.key.verdict === 'valid'", "value": 0.7},
                    "value": 0.2,
                },
                "tooltip": [
                    {"field": f"key.{name}", "type": "nominal", "title": name}
                    for name in ("verdict", "condition", "mix", "group", "run")
                ],
            },
        }
    ),
)

CHARTS = {
    "how-many-runs": number_of_runs(),
    "what-is-pooled": pooled_conditions(),
    "which-runs": compared_runs(),
    "goodput-over-time": goodput_over_time("Goodput and retransmissions of each group"),
    "goodput-of-two-runs": goodput_over_time(
        "Goodput and retransmissions of each group",
        {"entry": "ccmix.entry", "condition": "ccmix.condition.name"},
        {
            "strokeDash": {
                "field": "which",
                "type": "nominal",
                "title": "run",
                "legend": {"labelLimit": 300},
                "scale": {"range": [[1, 0], [6, 4], [2, 3]]},
            }
        },
        [
            {
                "calculate": "datum.key.entry + ', ' + datum.key.condition + ', ' + datum.key.run",
                "as": "which",
            }
        ],
        ["which"],
    ),
    "bbr-states": BBR_STATES,
    "bbr-rates": BBR_RATES,
    "bbr-bounds": BBR_BOUNDS,
    "completions": _COMPLETIONS,
    "completion-times": _COMPLETION_TIMES,
    "each-run": _EACH_RUN,
}
