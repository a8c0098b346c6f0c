"""Shows the mesh that pScheduler measures: a matrix of pairs of hosts, and how they change."""

from ccmix.charts.encodings import LINE_WIDTH, POINTS, RATE_AXIS, dash, of_cca
from ccmix.charts.table import goodput_cells
from ccmix.kibana.dashboard import Control, Dashboard, Panel
from ccmix.kibana.dashboards import common
from ccmix.kibana.dashboards.charts import readable, rows_counted
from ccmix.kibana.data_views import FLOWS, GROUPS
from ccmix.kibana.lens import XY, Count, Heatmap, Lens, LensTable, Metric, Terms
from ccmix.kibana.vega import VegaLite, members, metric, terms

_MESH = "ccmix.path.kind: pscheduler"
_SOURCE = Terms("source.address", "source")
_DESTINATION = Terms("destination.domain", "destination")
_PAIR = Terms("ccmix.path.pair", "path")
_GOODPUT = Metric("average", "ccmix.goodput_bps", "goodput of the group, mean")


# The goodput of a pair is the sum over the groups of its runs, then the mean over runs.
_MATRIX = VegaLite(
    "Goodput of each pair, the mean of all mixes shown: from the left to the top",
    GROUPS,
    {
        "source": terms("source.address"),
        "destination": terms("destination.domain"),
        "run": terms("ccmix.run.id"),
    },
    {"goodput": metric("sum", "ccmix.goodput_bps")},
    lambda source: readable(
        goodput_cells(
            source,
            {"field": "destination", "type": "nominal", "title": "destination"},
            {"field": "source", "type": "nominal", "title": "source"},
            domainMin=0,
        ),
        "the table Pairs below has them",
    ),
    [
        *members(source="datum.key.source", destination="datum.key.destination", goodput="datum.goodput.value"),
        {
            "aggregate": [{"op": "mean", "field": "goodput", "as": "goodput_bps"}, {"op": "count", "as": "runs"}],
            "groupby": ["source", "destination"],
        },
        *rows_counted("source"),
    ],
    ({"term": {"ccmix.path.kind": "pscheduler"}},),
    "runs by pScheduler",
)

# A line for each pair, mix and CCA: the mean of mixes would change with how often each is measured
_BY_DAY = VegaLite(
    "Goodput of a pair by day, mix and CCA: choose source and destination",
    GROUPS,
    {
        "day": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1d"}},
        "pair": terms("ccmix.path.pair"), "mix": terms("ccmix.mix"), "cca": terms("ccmix.cca"),
        "run": terms("ccmix.run.id"),
    },
    {"goodput": metric("sum", "ccmix.goodput_bps")},
    lambda source: source.view({
        "encoding": {
            "x": {"field": "day", "type": "temporal", "title": None, "axis": {"format": "%Y-%m-%d", "tickCount": 6}},
            "y": {"field": "goodput_bps", "type": "quantitative", "title": "goodput of the CCA's flows (bit/s)",
                  "axis": RATE_AXIS},
            "detail": [{"field": "pair", "type": "nominal"}, {"field": "mix", "type": "nominal"}],
            **of_cca(),
            "tooltip": [{"field": name, "type": "nominal"} for name in ("pair", "mix", "cca", "runs")],
        },
        "layer": [
            {"mark": {"type": "line", "strokeWidth": LINE_WIDTH}, "encoding": dash("line", "mix")},
            {"mark": POINTS},
        ],
    }),
    [
        *members(day="datum.key.day", pair="datum.key.pair", mix="datum.key.mix", cca="datum.key.cca",
                 of_run="datum.goodput.value"),
        {"joinaggregate": [{"op": "distinct", "field": "pair", "as": "pairs"}]},
        *members(line="datum.mix + (datum.pairs > 1 ? ', ' + datum.pair : '')"),
        {
            "aggregate": [{"op": "mean", "field": "of_run", "as": "goodput_bps"}, {"op": "count", "as": "runs"}],
            "groupby": ["day", "pair", "mix", "cca", "line"],
        },
    ],
    ({"term": {"ccmix.path.kind": "pscheduler"}},),
    "runs by pScheduler",
)  # fmt: skip

MESH = Dashboard(
    "mesh",
    "Mesh",
    "Pairs of hosts that pScheduler measures",
    GROUPS,
    (
        common.CAMPAIGN, Control("source.address", "Source"), Control("destination.domain", "Destination"),
        common.MIX, common.CCA, common.STREAMS, common.STATUS,
    ),
    (
        Panel("goodput", _MATRIX, 24, 18),
        Panel(
            "retransmissions",
            Lens(
                "Retransmitted segments of each pair",
                FLOWS,
                {"source": _SOURCE, "destination": _DESTINATION,
                 "lost": Metric("average", "ccmix.retransmits", "segments of a flow, mean")},
                Heatmap("destination", "source", "lost"),
                _MESH,
            ),
            24, 18, leads_to="health",
        ),
        Panel(
            "cca",
            Lens("Goodput of each pair by CCA", GROUPS, {"pair": _PAIR, "cca": common.BY_CCA, "goodput": _GOODPUT},
                 XY("bar_horizontal", "pair", ("goodput",), "cca", by_cca=True), _MESH),
            24, 14, leads_to="run",
        ),
        Panel("time", _BY_DAY, 24, 14),
        Panel(
            "table",
            Lens(
                "Pairs",
                GROUPS,
                {
                    "pair": _PAIR,
                    "mix": Terms("ccmix.mix", "mix"),
                    "cca": common.BY_CCA,
                    "goodput": _GOODPUT,
                    "least": Metric("min", "ccmix.goodput_bps", "least"),
                    "share": Metric("average", "ccmix.goodput_share", "share of the run's goodput"),
                    "rtt": Metric("average", "ccmix.rtt_median_s", "RTT"),
                    "runs": Metric("unique_count", "ccmix.run.id", "runs"),
                    "last": Metric("max", "@timestamp", "last"),
                    "invalid": Count("groups not valid", "not ccmix.validity.status: valid"),
                },
                LensTable(("pair", "mix", "cca", "goodput", "least", "share", "rtt", "runs", "last", "invalid")),
                _MESH,
            ),
            48, 14, leads_to="run",
        ),
    ),
)  # fmt: skip
