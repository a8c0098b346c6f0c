"""Shows the mesh that pScheduler measures: a matrix of pairs of hosts, and how they change."""

from ccmix.charts.table import goodput_cells
from ccmix.kibana.dashboard import Control, Dashboard, Panel
from ccmix.kibana.dashboards import common
from ccmix.kibana.data_views import FLOWS, GROUPS
from ccmix.kibana.lens import XY, Count, Heatmap, Lens, LensTable, Metric, Terms, Times
from ccmix.kibana.vega import VegaLite, members, metric, terms

_MESH = "ccmix.path.kind: pscheduler"
_SOURCE = Terms("source.address", "source")
_DESTINATION = Terms("destination.domain", "destination")
_PAIR = Terms("ccmix.path.pair", "path")
_GOODPUT = Metric("average", "ccmix.goodput_bps", "goodput of the group, mean")


# The goodput of a pair is the sum over the groups of its runs, then the mean over runs.
_MATRIX = VegaLite(
    "Goodput of each pair: from the left to the top",
    GROUPS,
    {
        "source": terms("source.address"),
        "destination": terms("destination.domain"),
        "run": terms("ccmix.run.id"),
    },
    {"goodput": metric("sum", "ccmix.goodput_bps")},
    lambda source: goodput_cells(
        source,
        {"field": "destination", "type": "nominal", "title": "destination"},
        {"field": "source", "type": "nominal", "title": "source"},
        domainMin=0,
    ),
    [
        *members(source="datum.key.source", destination="datum.key.destination", goodput="datum.goodput.value"),
        {
            "aggregate": [{"op": "mean", "field": "goodput", "as": "goodput_bps"}, {"op": "count", "as": "runs"}],
            "groupby": ["source", "destination"],
        },
    ],
    ({"term": {"ccmix.path.kind": "pscheduler"}},),
    "runs by pScheduler",
)

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
        Panel(
            "time",
            Lens("Goodput over time", GROUPS, {"pair": _PAIR, "time": Times(), "goodput": _GOODPUT},
                 XY("line", "time", ("goodput",), "pair"), _MESH),
            24, 14, leads_to="run",
        ),
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
