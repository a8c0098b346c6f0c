"""A small chart of each type from a frame made by hand.

`PYTHONPATH=tests .venv/bin/python -m support.chart_specs` writes the golden files again.
"""

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

from ccmix.analysis.results import load_results
from ccmix.charts import distributions, encodings
from ccmix.charts.choose import choose
from ccmix.charts.encodings import inline
from ccmix.charts.frames import SweptAxis, evenly_spaced_axis, swept_axis
from ccmix.charts.heat_map import MapLayout, Measure, gain_map, goodput_table, heat_map
from ccmix.charts.over_time import BOUNDS, phase, state_over_time, time_series
from ccmix.charts.published import (
    ALL_FLOWS,
    KINDS,
    PlottedNumber,
    SideBySide,
    published_next_to_lab,
    spans,
)
from ccmix.charts.settings import against_setting, share_against_fair_share
from support.published_archives import DEMO

GOLDEN = Path(__file__).parent.parent / "charts" / "golden"


def sweep(key: str, *texts: str) -> SweptAxis:
    found = swept_axis(key, texts)
    assert found
    return found


BUFFERS = sweep("buffer", "0.1bdp", "1bdp", "10bdp")
DELAYS = sweep("delay", "5ms", "50ms", "100ms")
RATES = sweep("rate", "10mbit", "1gbit")
# panel, group, CCA, setting, flows, mix, fairness, goodput, retransmission rate; three iterations
# of each
RUNS = pl.DataFrame(
    [
        {
            "panel": "mixed",
            "entry": "mixed",
            "condition": str(setting),
            "iteration": iteration,
            "group": cca,
            "cca": cca,
            "setting": setting,
            "flows": 2,
            "mix": "cubic + bbr",
            "fairness": 0.5 + 0.1 * iteration,
            "goodput_bps": base * setting + 1e6 * iteration,
            "retransmission_rate": 0.001 * iteration / setting,
        }
        for setting in (0.1, 1.0, 10.0)
        for cca, base in (("cubic", 1e6), ("bbr", 2e6))
        for iteration in (1, 2, 3)
    ]
)
SERIES = pl.DataFrame(
    [
        {
            "entry": entry,
            "iteration": 1,
            "group": cca,
            "cca": cca,
            "time_s": time_s,
            "begin_s": time_s - 1,
            "goodput_bps": 1e8 * time_s,
            "retransmits": 7,
        }
        for entry, ccas in (("alone", ("cubic",)), ("mixed", ("cubic", "bbr")))
        for cca in ccas
        for time_s in (1.0, 2.0)
    ]
)
CELLS = pl.DataFrame(
    [
        {"panel": "bbr", "x": x, "y": y, "value": value}
        for (x, y), value in {
            ("5", "0.01"): 0.0,
            ("50", "0.01"): 1e-5,
            ("100", "0.01"): 0.01,
            ("5", "1"): 0.1,
            ("50", "1"): None,
        }.items()
    ],
    schema={"panel": pl.String, "x": pl.String, "y": pl.String, "value": pl.Float64},
)
BESIDE = pl.DataFrame(
    [
        {
            "panel": panel,
            "number": "share",
            "setting": setting,
            "line": line,
            "cca": cca,
            "published": published,
            "mean": 0.5 * setting / 10,
            "low": 0.4 * setting / 10,
            "high": 0.6 * setting / 10,
        }
        for panel, setting, line, cca, published in (
            ("alone", 1.0, "near", "bbr", False),
            ("alone", 10.0, "near", "bbr", False),
            ("alone", 1.0, "far", "bbr", False),
            ("mixed", 10.0, ALL_FLOWS, ALL_FLOWS, False),
            ("mixed", 10.0, "cubic", "cubic", True),
        )
    ]
)
SHARES = pl.DataFrame(
    [
        {
            "panel": "coexistence",
            "flows_of": flows,
            "cca": cca,
            "share": share + 0.01 * iteration,
            "fair_share": fair,
        }
        for flows, cca, share, fair in (
            ("3 : 1", "cubic", 0.5, 0.75),
            ("3 : 1", "bbr", 0.4, 0.25),
            ("1 : 3", "cubic", 0.1, 0.25),
            ("1 : 3", "bbr", 0.8, 0.75),
        )
        for iteration in (1, 2, 3)
    ]
)
TIMES = pl.DataFrame(
    [
        {"panel": panel, "series": f"web-{cca}: web", "cca": cca, "seconds": seconds * factor}
        for panel, factor in (("buffer=1bdp", 1), ("buffer=10bdp", 2))
        for cca, times in (("cubic", (0.2, 0.1, 0.4)), ("bbr", (0.1, 0.15)))
        for seconds in times
    ]
)
SAMPLES = pl.DataFrame(
    [
        {
            "time_s": 0.1 * number,
            "cca": "bbr",
            "bbr_cwnd_gain": window,
            "bbr_pacing_gain": pacing,
            "bbr_bandwidth_bps": 1e7,
            "delivery_rate_bps": 9e6,
            "rtt_s": 0.02,
            "bbr_min_rtt_s": 0.01,
            "cwnd_packets": 10 * number,
            "in_flight_packets": 8 * number,
            **dict.fromkeys(BOUNDS),
        }
        for number, (window, pacing) in enumerate(
            (
                (0.0, 0.0),
                (2.886719, 2.886719),
                (2.886719, 0.34375),
                (2.0, 1.25),
                (2.0, 0.75),
                (2.0, 1.0),
                (2.0, 1.0),
                (1.0, 1.0),
                (2.0, 1.25),
            )
        )
    ],
    schema_overrides=dict.fromkeys(BOUNDS, pl.Float64),
)
LATER_SAMPLES = pl.DataFrame(
    [
        {
            "time_s": 0.1 * number,
            "cca": "bbr3",
            "bbr_cwnd_gain": 2.0,
            "bbr_pacing_gain": 1.0,
            "bbr_phase": later,
            "bbr_bandwidth_bps": 1e7,
            "delivery_rate_bps": 9e6,
            "rtt_s": 0.02,
            "bbr_min_rtt_s": 0.01,
            "cwnd_packets": 10 * number,
            "in_flight_packets": 8 * number,
            "bbr_bw_lo_bps": low and 8e6,
            "bbr_inflight_hi_packets": high,
            "bbr_inflight_lo_packets": low,
        }
        for number, (later, high, low) in enumerate(
            (
                ("startup", None, None),
                ("drain", 60, None),
                ("probe_bw_down", 60, 40),
                ("probe_bw_cruise", 60, 30),
                ("probe_bw_refill", 60, None),
                ("probe_bw_up", 70, None),
                ("probe_rtt", 70, None),
                ("unknown", 70, None),
            )
        )
    ]
)


SPANS = pl.DataFrame(
    [
        {
            "row": "16 flows",
            "low": 4.9e8,
            "high": 9.1e8,
            "best": 8.6e8,
            "result": 8e8,
            "result_low": 7.3e8,
            "result_high": 8.7e8,
        },
        {
            "row": "1 flow",
            "low": 3e8,
            "high": 5e8,
            "best": None,
            "result": 6e8,
            "result_low": 6e8,
            "result_high": 6e8,
        },
    ]
)


def specs() -> dict[str, dict[str, Any]]:
    """By name of the golden file."""
    means = pl.DataFrame(
        {
            "row": ["cubic", "cubic", "bbr"],
            "column": ["delay=5ms", "delay=50ms", "delay=5ms"],
            "goodput_bps": [1e9, 3.21e8, 9.5e8],
        }
    )
    losses, gain = Measure("retransmission rate", ".2~p"), Measure("goodput gain", "+.0%")
    share = PlottedNumber("share", "share", {"format": ".0%"}, {"domain": [0, 1]})
    boxes = RUNS.select("panel", "group", "cca", "goodput_bps", x=pl.col("setting").cast(pl.String))
    alone = {
        "time-series": time_series(SERIES, {"alone": 1.0, "mixed": 0.0}),
        "setting": against_setting(RUNS, BUFFERS),
        "heat-map-linear": heat_map(CELLS, DELAYS, RATES, losses, "linear"),
        "heat-map-log": heat_map(CELLS, DELAYS, RATES, losses),
        "heat-map-gain": gain_map(CELLS, DELAYS, RATES, ("bbr", "cubic"), gain),
        "heat-map-gain-log": gain_map(CELLS, DELAYS, RATES, ("bbr", "cubic"), gain, "log"),
        "heat-map-columns": heat_map(
            CELLS,
            DELAYS,
            RATES,
            Measure("loss", ".2~p", ticks=(0.0, 0.1)),
            "linear",
            MapLayout(columns=2, cell_width=40, cell_height=20, panels=("bbr", "not measured")),
        ),
        "published-lines": published_next_to_lab(
            BESIDE,
            BUFFERS.channel(),
            [share],
            SideBySide(("alone", "mixed"), columns=2, dashed=("near", "far")),
        ),
        "published-bars": published_next_to_lab(
            BESIDE,
            evenly_spaced_axis("buffer (BDP)"),
            [share],
            SideBySide(("alone", "mixed"), 1, bars=True),
        ),
        "share": share_against_fair_share(SHARES, "flows of cubic : bbr"),
        "box": distributions.boxes(boxes, "buffer (BDP)", encodings.goodput()),
        "span": {
            "width": 300,
            **spans(
                inline(SPANS),
                encodings.goodput(),
                dict(zip(KINDS, ("range", "best estimate", "result"), strict=True)),
            ),
        },
        "distribution": distributions.distributions(TIMES, "completion time"),
        "table": goodput_table(means, ["cubic", "bbr"], ["delay=5ms", "delay=50ms"]),
        "bbr-state": state_over_time(SAMPLES.with_columns(bbr_state=phase(SAMPLES.columns))),
        "bbr-state-later": state_over_time(
            LATER_SAMPLES.with_columns(bbr_state=phase(LATER_SAMPLES.columns))
        ),
    }
    return {
        name: {"$schema": encodings.SCHEMA} | spec for name, spec in alone.items()
    } | _of_the_demo()


def _of_the_demo() -> dict[str, dict[str, Any]]:
    [table] = choose(load_results([DEMO]), ["table"]).charts
    return {"demo-table": table.spec}


def written(spec: dict[str, Any]) -> str:
    return json.dumps(spec, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, spec in specs().items():
        file = GOLDEN / f"{name}.json"
        file.write_text(written(spec), encoding="utf-8")
        sys.stdout.write(f"{file}\n")
