"""Draws time series: goodput and retransmissions of flows, and the inner state of a BBR flow.

A chart of goodput shows one condition (combination of swept values) of the path, its entries side
by side on the same scales, three in a row, so that readers can compare them at a glance, as in
figures 2 to 14 of Tierney et al. 2021. analysis/dynamics.py says how BBR's states are known.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from ccmix.analysis import dynamics
from ccmix.charts import encodings
from ccmix.charts.encodings import (
    RATE_AXIS,
    ChartSource,
    Part,
    colour_scale,
    inline,
    largest,
    name,
    names_in_order,
    plain,
    quantity,
    side_by_side,
    without_labels,
)

WIDTH, STRIP_HEIGHT, HEIGHT = 640, 18, 110
MOST_POINTS = 700  # of a line: about one a pixel
STATES = {
    "startup": "#D55E00",
    "drain": "#E69F00",
    "probe_bw, up": "#0072B2",
    "probe_bw, down": "#56B4E9",
    "probe_bw, cruise": "#DDEBF5",
    "probe_bw, refill": "#009E73",
    "probe_rtt": "#CC79A7",
}
Lines = Mapping[str, tuple[str, str]]  # column: its name in the legend, and its colour
RATES = {
    "bbr_bandwidth_bps": ("bandwidth estimate", "#0072B2"),
    "delivery_rate_bps": ("delivery rate", "#E69F00"),
    "bbr_bw_lo_bps": ("bw_lo", "#CC79A7"),
}
DELAYS = {"rtt_ms": ("smoothed RTT", "#D55E00"), "min_rtt_ms": ("min RTT", "#0072B2")}
WINDOWS = {
    "cwnd_packets": ("cwnd", "#0072B2"),
    "in_flight_packets": ("in flight", "#E69F00"),
    "bbr_inflight_hi_packets": ("inflight_hi", "#009E73"),
    "bbr_inflight_lo_packets": ("inflight_lo", "#CC79A7"),
}
# set by the later versions
BOUNDS = "bbr_bw_lo_bps", "bbr_inflight_hi_packets", "bbr_inflight_lo_packets"


def phase(known: Collection[str]) -> pl.Expr:
    """Returns a Polars expression for the state of a BBR socket, such as 'probe_bw, up' (a name in
    STATES); null if the state is not known.

    It is for rows of sockets.parquet with the columns `known`. Later versions of BBR report the
    part of probe_bw ('up'). For the first version, the part follows from the pacing gain: above 1
    is 'up', below 1 is 'down', and 1 is 'cruise'.
    """
    gain = pl.col("bbr_pacing_gain")
    cycle = (
        pl.when(gain > 1)
        .then(pl.lit("up"))
        .when(gain < 1)
        .then(pl.lit("down"))
        .otherwise(pl.lit("cruise"))
    )
    state = dynamics.bbr_state(known)
    named = (
        pl.when(state == "probe_bw")
        .then(pl.concat_str(pl.lit("probe_bw, "), cycle))
        .otherwise(state.str.replace("probe_bw_", "probe_bw, ", literal=True))
    )
    return pl.when(named.is_in(list(STATES))).then(named)


def states(
    source: ChartSource, x: Part, y: Part | None = None, named_states: Sequence[str] = tuple(STATES)
) -> Part:
    """Returns a view of BBR's states as a strip, in which each state has its colour. If there are
    several flows, the channel y separates them.

    Rows of the source: time_s and to_s (begin and end of a state), bbr_state (as phase() names it).
    named_states: the STATES in the legend
    """
    scale = colour_scale({state: STATES[state] for state in named_states})
    colour = name(
        "bbr_state", None, scale=scale, legend={"orient": "top", "columns": len(named_states)}
    )
    encoding = {"x": x, "x2": {"field": "to_s"}, "color": colour} | ({"y": y} if y else {})
    return source.view({"mark": "rect", "encoding": encoding})


def lines_of(source: ChartSource, x: Part, columns: Lines, title: str, axis: Part) -> Part:
    """Returns a view of several columns over time_s as lines with steps. `columns` has the name in
    the legend and the colour for each column; `title` and `axis` are those of the y axis.

    BBR sets some limits (BOUNDS) only at times. Their lines have gaps while they are not set. Other
    lines go on if a sample has no value.
    """
    with_gaps = "".join(f" || datum.column === '{name}'" for name in columns if name in BOUNDS)
    is_drawn = f"(isValid(datum.value){with_gaps})" if with_gaps else "isValid(datum.value)"
    labels = "".join(
        f"datum.column === '{column}' ? '{label}' : " for column, (label, _) in columns.items()
    )
    folded = (
        {"fold": list(columns), "as": ["column", "value"]},
        {"filter": f"{is_drawn} && datum.time_s >= 0"},
        {"calculate": f"{labels}null", "as": "line"},
    )
    scale = colour_scale(dict(columns.values()))
    return source.view(
        {
            "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.3},
            "encoding": {
                "x": x,
                "y": quantity("value", title, axis),
                "color": name(
                    "line",
                    None,
                    scale=scale,
                    legend={"symbolType": "stroke", "symbolStrokeWidth": 3},
                ),
            },
        },
        *folded,
    )


def rates(source: ChartSource, x: Part, columns: Lines = RATES) -> Part:
    """Returns a view of rates of a BBR flow over time, such as its bandwidth estimate; `columns` is
    a part of RATES.
    """
    return lines_of(source, x, columns, "bit/s", RATE_AXIS)


def delays(source: ChartSource, x: Part) -> Part:
    """Returns a view of two columns over time: rtt_ms (smoothed RTT) and min_rtt_ms."""
    return lines_of(source, x, DELAYS, "RTT (ms)", {"tickCount": 4})


def windows(source: ChartSource, x: Part, columns: Lines = WINDOWS) -> Part:
    """Returns a view of windows of a BBR flow over time, such as cwnd, in packets; `columns` is a
    part of WINDOWS.
    """
    return lines_of(source, x, columns, "packets", {"format": "~s", "tickCount": 4})


def state_over_time(samples: pl.DataFrame) -> Part:
    """Returns a chart of one BBR flow over time: a strip of its states, and below it plots of its
    rates, RTTs and windows.

    samples: the samples of the flow's socket, in order: time_s, bbr_state (as phase() names it),
        bbr_bandwidth_bps, delivery_rate_bps, rtt_s, bbr_min_rtt_s, cwnd_packets, in_flight_packets,
        and BOUNDS, which are drawn if they were set. The state of a sample is drawn until the next
        sample.
    """
    end_s = encodings.largest(samples, "time_s")
    spans = _spans_of_states(samples, end_s)
    lines = samples.gather_every(-(-samples.height // MOST_POINTS)).with_columns(
        pl.col("bbr_bandwidth_bps", "delivery_rate_bps").round_sig_figs(4),
        pl.col(*BOUNDS)
        .round_sig_figs(4)
        .fill_null(strategy="forward", limit=1),  # as long as the sample's state
        pl.col("time_s").round(4),
        rtt_ms=(pl.col("rtt_s") * 1e3).round_sig_figs(4),
        min_rtt_ms=(pl.col("bbr_min_rtt_s") * 1e3).round_sig_figs(4),
    )
    time = encodings.time(domain=[0, end_s], nice=False)
    time_without_labels = without_labels(time)

    def set_columns(columns: Lines) -> Lines:
        """Returns the columns without those of BOUNDS that the flow never set."""
        unset = [name for name in BOUNDS if lines[name].null_count() == lines.height]
        return {name: line for name, line in columns.items() if name not in unset}

    def source_of(columns: Lines) -> ChartSource:
        """Returns the data of a plot: time_s and these columns."""
        return inline(lines.select("time_s", *columns))

    occurring_states = [state for state in STATES if state in spans["bbr_state"]]
    rate_lines, window_lines = set_columns(RATES), set_columns(WINDOWS)
    strip = states(inline(spans), time_without_labels, named_states=occurring_states)
    views = [
        rates(source_of(rate_lines), time_without_labels, rate_lines),
        delays(source_of(DELAYS), time_without_labels),
        windows(source_of(window_lines), time, window_lines),
    ]
    plots = [
        {"width": WIDTH, "height": STRIP_HEIGHT, **strip},
        *({"width": WIDTH, "height": HEIGHT, **view} for view in views),
    ]
    return {"vconcat": plots, "spacing": 6, "resolve": {"scale": {"color": "independent"}}}


def _spans_of_states(samples: pl.DataFrame, end_s: float) -> pl.DataFrame:
    """Returns the spans of time in which a flow's state stays the same: time_s (begin), to_s (end),
    bbr_state. The last span ends at `end_s`. `samples` has the columns time_s and bbr_state.
    """
    changes = samples.filter(
        pl.col("bbr_state").ne_missing(pl.col("bbr_state").shift()) | (pl.int_range(pl.len()) == 0)
    )
    return changes.select(
        "bbr_state",
        pl.col("time_s").clip(0).round(4),
        to_s=pl.col("time_s").shift(-1, fill_value=end_s).round(4),
    ).filter(pl.col("to_s") > pl.col("time_s"), pl.col("bbr_state").is_not_null())


PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 300, 264, 3
# Shares of a panel's height, from the top: the upper part ends and the lower one begins here
GOODPUT_ENDS, RETRANSMITS_BEGIN = 0.68, 0.71
# maximum number of iterations of a panel with a line each; of more, only the range is drawn
MOST_THIN_LINES = 5


@dataclass(frozen=True)
class Scales:
    """Holds the scales that all panels of a chart share, as Vega-Lite has them."""

    time: Part = field(default_factory=dict)
    goodput: Part = field(default_factory=dict)
    retransmits: Part = field(default_factory=dict)
    height: str = "height"
    """Vega's name for the height of a panel, which differs if panels are put together."""


def over_time(
    source: ChartSource,
    channels: Part,
    *,
    apart: Sequence[str] = (),
    scales: Scales | None = None,
    each: Part | None = None,
) -> Part:
    """Returns a view of the goodput of each group of flows as a line, and below it of the segments
    that the group has retransmitted.

    Rows of the source: begin_s and time_s (the interval's begin and end), goodput_bps, retransmits
    (segments in the interval; null if they were not counted), group, cca, low_bps and high_bps (the
    range behind the line), omit_s (seconds at the start that aren't measured; they are grey)
    channels: the channels of the colours and dashes
    apart: further columns that separate lines
    scales: the scales that all panels of a chart share
    each: a layer that is drawn instead of the range, such as a line for each iteration
    """
    scales = scales or Scales()
    lines = [encodings.name(column) for column in ("group", *apart)]
    top = scales.goodput | {"range": [{"expr": f"{GOODPUT_ENDS} * {scales.height}"}, 0]}
    x = encodings.time(**scales.time) | {
        "axis": {"grid": False}
    }  # without a grid, which would end at the end of each part
    omitted = {
        "transform": [
            {"aggregate": [{"op": "max", "field": "omit_s", "as": "to_s"}]},
            {"calculate": "0", "as": "from_s"},
        ],
        "mark": {"type": "rect", "color": "#888888", "opacity": 0.15},
        "encoding": {"x": plain("from_s"), "x2": {"field": "to_s"}},
    }
    spread = {
        "mark": {"type": "area", "opacity": 0.2},
        "encoding": {
            "x": x,
            "y": plain("low_bps") | {"scale": top},
            "y2": {"field": "high_bps"},
            "detail": lines,
            "color": channels["color"],
        },
    }
    line = {
        "mark": encodings.LINE,
        "encoding": {
            "x": x,
            "y": encodings.goodput(**top),
            "detail": lines,
            **channels,
            "tooltip": [
                encodings.name("group", "group"),
                quantity("time_s", "s"),
                quantity("goodput_bps", "bit/s") | {"format": ".3s"},
                quantity("retransmits", "retransmitted"),
            ],
        },
    }
    return source.view(
        {
            "layer": [
                omitted,
                {"layer": [each or spread, line]},
                _retransmissions_layer(x, lines, channels, scales),
            ],
            "resolve": {"scale": {"y": "independent"}},
        }
    )


def _retransmissions_layer(x: Part, lines: list[Part], channels: Part, scales: Scales) -> Part:
    """Returns the layer with the segments that each group has retransmitted: a bar for each
    interval, in the lower part of the panel.

    x: the channel of time
    lines: channels that separate the groups
    channels: has the channel of the colours
    """
    retransmits = "(datum.retransmits || 0)"
    scale = scales.retransmits | {
        "range": [{"expr": scales.height}, {"expr": f"{RETRANSMITS_BEGIN} * {scales.height}"}]
    }
    axis = encodings.RATE_AXIS | {"tickCount": 3, "orient": "left"}
    y = quantity("of_interval", ["retransmitted", "/ interval"], axis, **scale)
    return {
        "transform": [
            {
                "calculate": "[datum.begin_s, datum.begin_s, datum.time_s, datum.time_s]",
                "as": "corner_s",
            },
            {"calculate": f"[0, {retransmits}, {retransmits}, 0]", "as": "of_interval"},
            {"flatten": ["corner_s", "of_interval"]},
        ],
        "mark": {"type": "area", "opacity": 0.45},
        "encoding": {
            "x": x | {"field": "corner_s"},
            "y": y | {"stack": None},
            "detail": lines,
            "color": channels["color"],
        },
    }


def time_series(series: pl.DataFrame, omit_s: dict[str, float]) -> Part:
    """Returns a chart of goodput over time with a panel for each entry: the mean over iterations as
    a bold line, and each iteration as a thin one, or the range of many iterations.

    series: a row per entry, iteration, group and interval: entry, group, cca (str); iteration
        (int); time_s and begin_s (the interval's end and begin), goodput_bps, retransmits (segments
        in the interval; null if they were not counted)
    omit_s: seconds at the start of each entry's runs that aren't measured
    """
    series = series.with_columns(
        pl.col("goodput_bps").round_sig_figs(4), pl.col("time_s", "begin_s").round(4)
    )
    mean = series.group_by("entry", "time_s", "group", "cca", maintain_order=True).agg(
        pl.col("begin_s").mean().round(4),
        pl.col("goodput_bps").mean().round_sig_figs(4),
        pl.col("retransmits").mean().round_sig_figs(3),
        low_bps=pl.col("goodput_bps").min(),
        high_bps=pl.col("goodput_bps").max(),
    )
    channels = encodings.colour_by_cca(series["cca"].unique()) | encodings.lighter_if_not_valid(
        series["group"]
    )
    if series.select("group", "cca").unique().height > series["cca"].n_unique():
        channels |= encodings.dash("group", "group")
    scales = Scales(
        time={"domain": [0, math.ceil(largest(mean, "time_s"))], "nice": False},
        goodput={"domain": [0, largest(series, "goodput_bps")]},
        retransmits={"domain": [0, largest(mean, "retransmits")]},
        height="childHeight",
    )
    panels = {}
    for entry in names_in_order(series, "entry"):
        is_entry = pl.col("entry") == entry
        source = inline(
            mean.filter(is_entry).drop("entry").with_columns(omit_s=pl.lit(omit_s[entry]))
        )
        panel_view = over_time(
            source,
            channels,
            scales=scales,
            each=_lines_of_iterations(series.filter(is_entry), channels, scales),
        )
        panels[entry] = {"width": PANEL_WIDTH, "height": PANEL_HEIGHT, **panel_view}
    return side_by_side(panels, COLUMNS)


def _lines_of_iterations(series: pl.DataFrame, channels: Part, scales: Scales) -> Part | None:
    """Returns a layer with a thin line for each iteration; None if there are more than 5
    iterations, because nobody could tell their lines apart.
    """
    if series["iteration"].n_unique() > MOST_THIN_LINES:
        return None
    return inline(series.select("time_s", "goodput_bps", "group", "cca", "iteration")).view(
        {
            "mark": {"type": "line", "strokeWidth": 0.7, "opacity": 0.4},
            "encoding": {
                "x": plain("time_s"),
                "y": plain("goodput_bps"),
                "detail": [encodings.name("group"), encodings.name("iteration")],
                "color": channels["color"],
            },
        }
    )
