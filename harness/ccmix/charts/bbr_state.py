"""What one BBR flow is doing over time, from its socket: state, estimates, RTT and window.

Of BBR's first version: analysis/bbr.py says how its state is known.
"""

import polars as pl

from ccmix.analysis import bbr
from ccmix.charts import encodings
from ccmix.charts.encodings import RATE_AXIS, Part, name, quantity, rows

WIDTH, STRIP_HEIGHT, HEIGHT = 640, 18, 110
MOST_POINTS = 700  # of a line: about one a pixel
STATES = {
    "startup": "#D55E00", "drain": "#E69F00", "probe_bw, up": "#0072B2", "probe_bw, down": "#56B4E9",
    "probe_bw, cruise": "#DDEBF5", "probe_rtt": "#000000",
}  # fmt: skip
RATES = {"bandwidth estimate": "#0072B2", "delivery rate": "#E69F00"}
DELAYS = {"smoothed RTT": "#D55E00", "min RTT": "#0072B2"}
WINDOWS = {"cwnd": "#0072B2", "in flight": "#E69F00"}


def phase() -> pl.Expr:
    """A name in STATES: the state, and of probe_bw what the pacing gain does in its cycle."""
    gain = pl.col("bbr_pacing_gain")
    cycle = pl.when(gain > 1).then(pl.lit("up")).when(gain < 1).then(pl.lit("down")).otherwise(pl.lit("cruise"))
    state = bbr.state()
    return pl.when(state == "probe_bw").then(pl.concat_str(pl.lit("probe_bw, "), cycle)).otherwise(state)


def state_over_time(samples: pl.DataFrame) -> Part:
    """A strip of states, and below rates, RTTs and windows.

    samples: of one socket, in order: time_s, bbr_state (phase()), bbr_bandwidth_bps, delivery_rate_bps, rtt_s,
    bbr_min_rtt_s, cwnd_packets, in_flight_packets. A sample's state is drawn until the next one.
    """
    end_s = encodings.largest(samples, "time_s")
    time: Part = {"domain": [0, end_s], "nice": False}
    every = -(-samples.height // MOST_POINTS)
    lines = samples.gather_every(every).with_columns(
        pl.col("bbr_bandwidth_bps", "delivery_rate_bps").round_sig_figs(4),
        pl.col("time_s").round(4),
        rtt_ms=(pl.col("rtt_s") * 1e3).round_sig_figs(4),
        min_rtt_ms=(pl.col("bbr_min_rtt_s") * 1e3).round_sig_figs(4),
    )
    plots = [
        _states(samples, end_s, time),
        _lines(lines, {"bandwidth estimate": "bbr_bandwidth_bps", "delivery rate": "delivery_rate_bps"}, RATES,
               "bit/s", RATE_AXIS, time),
        _lines(lines, {"smoothed RTT": "rtt_ms", "min RTT": "min_rtt_ms"}, DELAYS,
               "RTT (ms)", {"tickCount": 4}, time),
        _lines(lines, {"cwnd": "cwnd_packets", "in flight": "in_flight_packets"}, WINDOWS,
               "packets", {"format": "~s", "tickCount": 4}, time),
    ]  # fmt: skip
    for plot in plots[:-1]:
        x = plot["encoding"]["x"]
        x["title"], x["axis"] = None, {"labels": False}
    return {"vconcat": plots, "spacing": 6, "resolve": {"scale": {"color": "independent"}}}


def _states(samples: pl.DataFrame, end_s: float, time: Part) -> Part:
    """Rectangles from where the state changes to where it changes next."""
    changes = samples.filter(
        pl.col("bbr_state").ne_missing(pl.col("bbr_state").shift()) | (pl.int_range(pl.len()) == 0)
    )
    spans = changes.select(
        "bbr_state", pl.col("time_s").clip(0).round(4), to_s=pl.col("time_s").shift(-1, fill_value=end_s).round(4)
    ).filter(pl.col("to_s") > pl.col("time_s"), pl.col("bbr_state").is_not_null())
    there = [state for state in STATES if state in spans["bbr_state"]]
    scale = {"domain": there, "range": [STATES[state] for state in there]}
    return {
        "data": rows(spans),
        "width": WIDTH, "height": STRIP_HEIGHT,
        "mark": "rect",
        "encoding": {
            "x": quantity("time_s", None, **time), "x2": {"field": "to_s"},
            "color": name("bbr_state", None, scale=scale, legend={"orient": "top", "columns": len(there)}),
        },
    }  # fmt: skip


def _lines(
    lines: pl.DataFrame, fields: dict[str, str], colours: dict[str, str], title: str, axis: Part, time: Part
) -> Part:
    columns = list(fields.values())
    return {
        "data": rows(lines.select("time_s", *columns)),
        "transform": [
            {"fold": columns, "as": ["column", "value"]},
            {"filter": "isValid(datum.value) && datum.time_s >= 0"},
            {"calculate": " : ".join(
                [f"datum.column === '{field}' ? '{label}'" for label, field in fields.items()] + ["null"]
            ), "as": "line"},
        ],
        "width": WIDTH, "height": HEIGHT,
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.3},
        "encoding": {
            "x": encodings.time(**time),
            "y": quantity("value", title, axis),
            "color": name("line", None, scale={"domain": list(colours), "range": list(colours.values())},
                          legend={"symbolType": "stroke", "symbolStrokeWidth": 3}),
        },
    }  # fmt: skip
