"""Draws what one BBR flow is doing over time: state, estimates, RTT and window, as its socket reports them.

analysis/bbr.py says how the states are known, which are those of BBR's first version and of the later ones.
"""

from collections.abc import Collection, Mapping, Sequence

import polars as pl

from ccmix.analysis import bbr
from ccmix.charts import encodings
from ccmix.charts.encodings import RATE_AXIS, name, quantity
from ccmix.charts.json_types import Part
from ccmix.charts.source import ChartSource, inline

WIDTH, STRIP_HEIGHT, HEIGHT = 640, 18, 110
MOST_POINTS = 700  # of a line: about one a pixel
STATES = {
    "startup": "#D55E00", "drain": "#E69F00", "probe_bw, up": "#0072B2", "probe_bw, down": "#56B4E9",
    "probe_bw, cruise": "#DDEBF5", "probe_bw, refill": "#009E73", "probe_rtt": "#CC79A7",
}  # fmt: skip
Lines = Mapping[str, tuple[str, str]]  # column: its name in the legend, and its colour
RATES = {
    "bbr_bandwidth_bps": ("bandwidth estimate", "#0072B2"), "delivery_rate_bps": ("delivery rate", "#E69F00"),
    "bbr_bw_lo_bps": ("bw_lo", "#CC79A7"),
}  # fmt: skip
DELAYS = {"rtt_ms": ("smoothed RTT", "#D55E00"), "min_rtt_ms": ("min RTT", "#0072B2")}
WINDOWS = {
    "cwnd_packets": ("cwnd", "#0072B2"), "in_flight_packets": ("in flight", "#E69F00"),
    "bbr_inflight_hi_packets": ("inflight_hi", "#009E73"), "bbr_inflight_lo_packets": ("inflight_lo", "#CC79A7"),
}  # fmt: skip
BOUNDS = ("bbr_bw_lo_bps", "bbr_inflight_hi_packets", "bbr_inflight_lo_packets")  # that the later versions set


def phase(known: Collection[str]) -> pl.Expr:
    """Returns a name in STATES: the state, and for probe_bw also its part, or that of the pacing gain's cycle.

    Of rows of sockets.parquet, whose columns are `known`.
    """
    gain = pl.col("bbr_pacing_gain")
    cycle = pl.when(gain > 1).then(pl.lit("up")).when(gain < 1).then(pl.lit("down")).otherwise(pl.lit("cruise"))
    state = bbr.state(known)
    named = (
        pl.when(state == "probe_bw")
        .then(pl.concat_str(pl.lit("probe_bw, "), cycle))
        .otherwise(state.str.replace("probe_bw_", "probe_bw, ", literal=True))
    )
    return pl.when(named.is_in(list(STATES))).then(named)


def states(source: ChartSource, x: Part, y: Part | None = None, there: Sequence[str] = tuple(STATES)) -> Part:
    """Draws a strip of states as one view, each from time_s to to_s; y separates flows.

    Rows: time_s, to_s, bbr_state (phase()). there: those of STATES that the legend names.
    """
    scale = {"domain": list(there), "range": [STATES[state] for state in there]}
    colour = name("bbr_state", None, scale=scale, legend={"orient": "top", "columns": len(there)})
    encoding = {"x": x, "x2": {"field": "to_s"}, "color": colour} | ({"y": y} if y else {})
    return source.view({"mark": "rect", "encoding": encoding})


def lines_of(source: ChartSource, x: Part, columns: Lines, title: str, axis: Part) -> Part:
    """Draws steps of several columns over time_s as one view; `columns` gives their names in the legend and colours.

    A line of BOUNDS has gaps, where they are not set. Other lines go on where a sample has no value.
    """
    with_gaps = "".join(f" || datum.column === '{name}'" for name in columns if name in BOUNDS)
    there = f"(isValid(datum.value){with_gaps})" if with_gaps else "isValid(datum.value)"
    folded = (
        {"fold": list(columns), "as": ["column", "value"]},
        {"filter": f"{there} && datum.time_s >= 0"},
        {"calculate": " : ".join(
            [f"datum.column === '{column}' ? '{label}'" for column, (label, _) in columns.items()] + ["null"]
        ), "as": "line"},
    )  # fmt: skip
    scale = {"domain": [label for label, _ in columns.values()], "range": [colour for _, colour in columns.values()]}
    return source.view(
        {
            "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.3},
            "encoding": {
                "x": x,
                "y": quantity("value", title, axis),
                "color": name("line", None, scale=scale, legend={"symbolType": "stroke", "symbolStrokeWidth": 3}),
            },
        },
        *folded,
    )


def rates(source: ChartSource, x: Part, columns: Lines = RATES) -> Part:
    """Draws lines of those of RATES that are in `columns`."""
    return lines_of(source, x, columns, "bit/s", RATE_AXIS)


def delays(source: ChartSource, x: Part) -> Part:
    """Draws lines of rtt_ms and min_rtt_ms."""
    return lines_of(source, x, DELAYS, "RTT (ms)", {"tickCount": 4})


def windows(source: ChartSource, x: Part, columns: Lines = WINDOWS) -> Part:
    """Draws lines of those of WINDOWS that are in `columns`."""
    return lines_of(source, x, columns, "packets", {"format": "~s", "tickCount": 4})


def state_over_time(samples: pl.DataFrame) -> Part:
    """Draws a strip of states, and below it rates, RTTs and windows.

    samples: those of one socket, in order: time_s, bbr_state (phase()), bbr_bandwidth_bps, delivery_rate_bps, rtt_s,
    bbr_min_rtt_s, cwnd_packets, in_flight_packets, and BOUNDS, which have a line where one was set. A sample's state is
    drawn until the next one.
    """
    end_s = encodings.largest(samples, "time_s")
    spans = _spans(samples, end_s)
    lines = samples.gather_every(-(-samples.height // MOST_POINTS)).with_columns(
        pl.col("bbr_bandwidth_bps", "delivery_rate_bps").round_sig_figs(4),
        pl.col(*BOUNDS).round_sig_figs(4).fill_null(strategy="forward", limit=1),  # as long as the sample's state
        pl.col("time_s").round(4),
        rtt_ms=(pl.col("rtt_s") * 1e3).round_sig_figs(4),
        min_rtt_ms=(pl.col("bbr_min_rtt_s") * 1e3).round_sig_figs(4),
    )
    time = encodings.time(domain=[0, end_s], nice=False)
    above = time | {"title": None, "axis": {"labels": False}}

    def there(columns: Lines) -> Lines:
        unset = [name for name in BOUNDS if lines[name].null_count() == lines.height]
        return {name: line for name, line in columns.items() if name not in unset}

    def of(columns: Lines) -> ChartSource:
        return inline(lines.select("time_s", *columns))

    drawn = [state for state in STATES if state in spans["bbr_state"]]
    of_rates, of_windows = there(RATES), there(WINDOWS)
    plots = [
        {"width": WIDTH, "height": STRIP_HEIGHT, **states(inline(spans), above, there=drawn)},
        {"width": WIDTH, "height": HEIGHT, **rates(of(of_rates), above, of_rates)},
        {"width": WIDTH, "height": HEIGHT, **delays(of(DELAYS), above)},
        {"width": WIDTH, "height": HEIGHT, **windows(of(of_windows), time, of_windows)},
    ]
    return {"vconcat": plots, "spacing": 6, "resolve": {"scale": {"color": "independent"}}}


def _spans(samples: pl.DataFrame, end_s: float) -> pl.DataFrame:
    """Returns the spans in which the state stays the same: time_s, to_s, bbr_state."""
    changes = samples.filter(
        pl.col("bbr_state").ne_missing(pl.col("bbr_state").shift()) | (pl.int_range(pl.len()) == 0)
    )
    return changes.select(
        "bbr_state", pl.col("time_s").clip(0).round(4), to_s=pl.col("time_s").shift(-1, fill_value=end_s).round(4)
    ).filter(pl.col("to_s") > pl.col("time_s"), pl.col("bbr_state").is_not_null())
