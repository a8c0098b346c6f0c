"""Defines Kibana charts of a pScheduler mesh: goodput between all pairs of hosts, and by day."""

from ccmix.charts.encodings import (
    LINE_WIDTH,
    POINTS,
    RATE_AXIS,
    colour_by_cca,
    dash,
    name,
    quantity,
)
from ccmix.charts.heat_map import goodput_cells
from ccmix.kibana.charts import limit_rows
from ccmix.kibana.saved_objects import GROUPS
from ccmix.kibana.vega import VegaLite, aggregate, calculate, count_distinct, known_keys, metric

_BY_PSCHEDULER = ({"term": {"ccmix.path.kind": "pscheduler"}},)
_NEEDS = "runs by pScheduler"

# The goodput of a pair is the sum over the groups of its runs, then the mean over runs.
_MATRIX = VegaLite(
    "Goodput of each pair, the mean of all mixes shown: from the left to the top",
    GROUPS,
    known_keys("source", "destination", "run"),
    {"goodput": metric("sum", "ccmix.goodput_bps")},
    lambda source: limit_rows(
        goodput_cells(
            source,
            name("destination", "destination"),
            name("source", "source"),
            domainMin=0,
        ),
        "the table Pairs below has them",
    ),
    [
        *calculate(
            source="datum.key.source",
            destination="datum.key.destination",
            goodput="datum.goodput.value",
        ),
        aggregate(["source", "destination"], goodput_bps=("mean", "goodput"), runs=("count", "")),
        count_distinct("rows", "source"),
    ],
    _BY_PSCHEDULER,
    _NEEDS,
)

# A line for each pair, mix and CCA: a mean of mixes would depend on how often each is measured
_BY_DAY = VegaLite(
    "Goodput of a pair by day, mix and CCA: choose source and destination",
    GROUPS,
    {
        "day": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1d"}},
        **known_keys("pair", "mix", "cca", "run"),
    },
    {"goodput": metric("sum", "ccmix.goodput_bps")},
    lambda source: source.view(
        {
            "encoding": {
                "x": {
                    "field": "day",
                    "type": "temporal",
                    "title": None,
                    "axis": {"format": "%Y-%m-%d", "tickCount": 6},
                },
                "y": quantity("goodput_bps", "goodput of the CCA's flows (bit/s)", RATE_AXIS),
                "detail": [
                    {"field": "pair", "type": "nominal"},
                    {"field": "mix", "type": "nominal"},
                ],
                **colour_by_cca(),
                "tooltip": [
                    {"field": each, "type": "nominal"} for each in ("pair", "mix", "cca", "runs")
                ],
            },
            "layer": [
                {
                    "mark": {"type": "line", "strokeWidth": LINE_WIDTH},
                    "encoding": dash("line", "mix"),
                },
                {"mark": POINTS},
            ],
        }
    ),
    [
        *calculate(
            day="datum.key.day",
            pair="datum.key.pair",
            mix="datum.key.mix",
            cca="datum.key.cca",
            of_run="datum.goodput.value",
        ),
        count_distinct("pairs", "pair"),
        *calculate(line="datum.mix + (datum.pairs > 1 ? ', ' + datum.pair : '')"),
        aggregate(
            ["day", "pair", "mix", "cca", "line"],
            goodput_bps=("mean", "of_run"),
            runs=("count", ""),
        ),
    ],
    _BY_PSCHEDULER,
    _NEEDS,
)

CHARTS = {"mesh-matrix": _MATRIX, "mesh-by-day": _BY_DAY}
