"""Shows two chosen runs beside each other: their numbers, and each over time, in lines of its own."""

from ccmix.kibana.dashboard import Control, Dashboard, Panel
from ccmix.kibana.dashboards import common
from ccmix.kibana.dashboards.over_time import goodput_over_time
from ccmix.kibana.dashboards.scope import which_runs
from ccmix.kibana.data_views import GROUPS, INTERVALS, QUEUES, RUNS, SOCKETS, DataView
from ccmix.kibana.lens import XY, Histogram, Lens, LensTable, Metric, Terms

_MOST_RUNS = 10  # in a chart, where somebody chose more
_TIME = Histogram("ccmix.elapsed_s", "time since the traffic began (s)")
_SENDER = "ccmix.end: sender and ccmix.final: false"


def _of_runs(title: str, view: DataView, value: Metric, only: str = "") -> Lens:
    """Draws a line of a value for each run."""
    run = Terms("ccmix.run.id", "run", size=_MOST_RUNS)
    return Lens(title, view, {"run": run, "time": _TIME, "value": value}, XY("line", "time", ("value",), "run"), only)


_NUMBERS = {
    "goodput": Metric("average", "ccmix.goodput_bps", "goodput"),
    "retransmitted": Metric("average", "ccmix.retransmission_rate", "retransmitted"),
    "rtt": Metric("average", "ccmix.rtt_median_s", "RTT, median"),
    "fairness": Metric("average", "ccmix.fairness", "fairness"),
    "utilisation": Metric("average", "ccmix.utilisation", "utilisation"),
}
_RUNS = Lens(
    "Runs: choose two in the filter, or by clicks with Ctrl",
    RUNS,
    {
        **common.newest_runs(mix=Terms("ccmix.mix", "mix"), pair=Terms("ccmix.path.pair", "path")),
        "iteration": Metric("max", "ccmix.run.iteration", "iteration"),
        **_NUMBERS,
    },
    LensTable(("time", "run", "campaign", "entry", "condition", "mix", "pair", "status", "iteration", *_NUMBERS)),
)
_GROUPS = Lens(
    "Groups of the runs",
    GROUPS,
    {
        "run": Terms("ccmix.run.id", "run", size=_MOST_RUNS),
        "group": Terms("ccmix.group.name", "group"),
        "cca": common.BY_CCA,
        "goodput": _NUMBERS["goodput"],
        "share": Metric("average", "ccmix.goodput_share", "share"),
        "retransmitted": _NUMBERS["retransmitted"],
        "rtt": _NUMBERS["rtt"],
    },
    LensTable(("run", "group", "cca", "goodput", "share", "retransmitted", "rtt")),
)

COMPARE = Dashboard(
    "compare",
    "Two runs",
    "Two chosen runs beside each other",
    RUNS,
    (
        common.CAMPAIGN, common.ENTRY, common.CONDITION, common.MIX, common.PAIR, common.KIND,
        Control("ccmix.run.iteration", "Iteration", "rangeSlider"),
        Control("ccmix.run.id", "Runs: choose two"),
    ),
    (
        Panel("chosen", which_runs(), 48, 4),
        Panel("runs", _RUNS, 48, 10, leads_to="run"),
        Panel(
            "goodput",
            goodput_over_time(
                "Goodput and retransmissions of each group",
                {"entry": "ccmix.entry", "condition": "ccmix.condition.name"},
                {"strokeDash": {
                    "field": "which", "type": "nominal", "title": "run", "legend": {"labelLimit": 300},
                    "scale": {"range": [[1, 0], [6, 4], [2, 3]]},
                }},
                [{"calculate": "datum.key.entry + ', ' + datum.key.condition + ', ' + datum.key.run", "as": "which"}],
                ["which"],
            ),
            48, 16,
        ),
        Panel("rtt", _of_runs("RTT of the flows", SOCKETS, Metric("average", "ccmix.rtt_s", "smoothed RTT, mean"),
                              _SENDER), 24, 11),
        Panel("cwnd", _of_runs("Congestion window", SOCKETS,
                               Metric("average", "ccmix.socket.cwnd_bytes", "window of a flow, mean"), _SENDER),
              24, 11),
        Panel("retransmits", _of_runs("Retransmissions", INTERVALS,
                                      Metric("average", "ccmix.retransmits", "segments of a flow, mean")), 24, 11),
        Panel("queue", _of_runs("Queues", QUEUES, Metric("average", "ccmix.queue.backlog_bytes", "backlog, mean"),
                                "ccmix.queue.place: bottleneck"), 24, 11),
        Panel("groups", _GROUPS, 48, 10),
    ),
)  # fmt: skip
