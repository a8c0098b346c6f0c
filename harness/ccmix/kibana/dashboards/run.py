"""Shows everything over time for one run. If several are chosen, each line is the mean over them."""

from ccmix.charts.distribution import distribution
from ccmix.charts.encodings import dash, of_cca, quantity
from ccmix.kibana.dashboard import Control, Dashboard, Panel
from ccmix.kibana.dashboards import bbr, common
from ccmix.kibana.dashboards.charts import shares_at_most
from ccmix.kibana.dashboards.over_time import goodput_over_time
from ccmix.kibana.dashboards.scope import how_many_runs
from ccmix.kibana.data_views import (
    COMPLETIONS,
    FLOWS,
    INTERVALS,
    PACKETS,
    QUEUES,
    RTTS,
    RUNS,
    SOCKETS,
    DataView,
)
from ccmix.kibana.lens import XY, Count, Histogram, Lens, LensTable, Metric, Series, Terms
from ccmix.kibana.vega import VegaLite, members, metric, terms

_TIME = Histogram("ccmix.elapsed_s", "time since the traffic began (s)")
_FLOW = Terms("ccmix.flow.id", "flow", size=100)
_SENDER = "ccmix.end: sender and ccmix.final: false"


def _over_time(
    title: str, view: DataView, split: Terms, value: Metric | Count, only: str = "", series: Series = "line"
) -> Lens:
    """Draws a line of a value for each value of the split."""
    return Lens(
        title,
        view,
        {"split": split, "time": _TIME, "value": value},
        XY(series, "time", ("value",), "split", by_cca=split.field == "ccmix.cca"),
        only,
    )


def _of_packets(title: str, value: Metric, series: Series = "line") -> Lens:
    """Draws a value of what the flows' senders sent."""
    return _over_time(title, PACKETS, common.BY_CCA, value, f"{value.field}: *", series)


def _of_sockets(title: str, field: str, label: str) -> Lens:
    return _over_time(title, SOCKETS, common.BY_CCA, Metric("average", field, label), _SENDER)


_RUNS = Lens(
    "Runs shown: choose one",
    RUNS,
    {
        **common.newest_runs(),
        "not_settled": common.NOT_SETTLED,
        "enough": Metric("max", "ccmix.settling.enough_s", "duration that would do"),
        "goodput": Metric("average", "ccmix.goodput_bps", "goodput"),
        "utilisation": Metric("average", "ccmix.utilisation", "utilisation"),
        "fairness": Metric("average", "ccmix.fairness", "fairness"),
        "convergence": Metric("average", "ccmix.convergence_s", "converged after"),
        "rtt": Metric("average", "ccmix.rtt_median_s", "RTT, median"),
        "retransmitted": Metric("average", "ccmix.retransmission_rate", "retransmitted"),
    },
    LensTable(("time", "run", "campaign", "entry", "condition", "status", "not_settled", "enough", "goodput",
           "utilisation", "fairness", "convergence", "rtt",
           "retransmitted")),
)  # fmt: skip
_FLOWS = Lens(
    "Flows",
    FLOWS,
    {
        "flow": _FLOW,
        "group": Terms("ccmix.group.name", "group"),
        "cca": common.BY_CCA,
        "goodput": Metric("average", "ccmix.goodput_bps", "goodput"),
        "share": Metric("average", "ccmix.goodput_share", "share"),
        "startup": Metric("average", "ccmix.startup_s", "start-up"),
        "convergence": Metric("average", "ccmix.convergence_s", "converged after"),
        "rtt": Metric("average", "ccmix.rtt_median_s", "RTT, median"),
        "rate": Metric("average", "ccmix.retransmission_rate", "retransmitted"),
        "retransmits": Metric("average", "ccmix.retransmits", "segments retransmitted"),
    },
    LensTable(("flow", "group", "cca", "goodput", "share", "startup", "convergence", "rtt", "rate", "retransmits")),
)
_LOST = Metric("sum", "ccmix.retransmits", "segments retransmitted")
_QUEUE = Terms("ccmix.queue.place", "queue")
_BACKLOG = Metric("average", "ccmix.queue.backlog_bytes", "backlog, mean")
_DROPS = Metric("average", "ccmix.queue.drops_per_s", "drops a second, mean")
_STATES = Count("samples of flows")
_COMPLETIONS_NEED = "an http or workload source"
_COMPLETIONS = VegaLite(
    "Time of each request and short flow",
    COMPLETIONS,
    {
        "run": terms("ccmix.run.id"), "group": terms("ccmix.group.name"), "cca": terms("ccmix.cca"),
        "number": terms("ccmix.completion.number"), "bytes": terms("ccmix.completion.bytes"),
    },
    {"seconds": metric("avg", "ccmix.seconds")},
    lambda source: source.view({
        "mark": {"type": "point", "filled": True, "opacity": 0.7, "size": 40},
        "encoding": {
            "x": {"field": "key.bytes", "type": "quantitative", "scale": {"type": "log"}, "axis": {"format": ".2s"},
                  "title": "size (bytes)"},
            "y": {"field": "seconds.value", "type": "quantitative", "scale": {"type": "log"}, "axis": {"format": "~s"},
                  "title": "time (s)"},
            "color": {"field": "key.group", "type": "nominal", "title": "group"},
            "shape": {"field": "key.cca", "type": "nominal", "title": "CCA"},
            "tooltip": [{"field": f"key.{name}", "type": "nominal", "title": name}
                        for name in ("group", "number", "bytes", "run")],
        },
    }),
    [{"filter": "isValid(datum.seconds.value)"}],
    needs=_COMPLETIONS_NEED,
)  # fmt: skip
_COMPLETION_TIMES = VegaLite(
    "Distribution of the times of requests and short flows",
    COMPLETIONS,
    {
        "run": terms("ccmix.run.id"), "group": terms("ccmix.group.name"), "cca": terms("ccmix.cca"),
        "number": terms("ccmix.completion.number"),
    },
    {"seconds": metric("avg", "ccmix.seconds")},
    lambda source: distribution(
        source,
        quantity("seconds", "completion time (s)", {"tickCount": 5}),
        of_cca() | dash("group", "group"),
    ),
    [
        *members(
            seconds="datum.seconds.value", group="datum.key.group", cca="datum.key.cca",
            series="datum.key.group + ' ' + datum.key.cca",
        ),
        *shares_at_most("seconds"),
    ],
    needs=_COMPLETIONS_NEED,
)  # fmt: skip
_REQUESTS = Lens(
    f"Requests and short flows: medians of times (needs {_COMPLETIONS_NEED})",
    COMPLETIONS,
    {
        "group": Terms("ccmix.group.name", "group"),
        "cca": common.BY_CCA,
        "made": Count("begun"),
        "bytes": Metric("average", "ccmix.completion.bytes", "size, mean"),
        "median": Metric("median", "ccmix.seconds", "median"),
        "most": Metric("max", "ccmix.seconds", "longest"),
        "first_byte": Metric("median", "ccmix.completion.first_byte_s", "first byte"),
        "connect": Metric("median", "ccmix.completion.connect_s", "connected"),
    },
    LensTable(("group", "cca", "made", "bytes", "median", "most", "first_byte", "connect")),
)

RUN = Dashboard(
    "run",
    "Run",
    "Everything over time for one run",
    RUNS,
    (
        common.CAMPAIGN, common.ENTRY, common.CONDITION, common.PAIR, common.STATUS,
        Control("ccmix.run.iteration", "Iteration", "rangeSlider"),
        Control("ccmix.run.id", "Run"),
    ),
    (
        Panel("how-many", how_many_runs(), 48, 4),
        Panel("runs", _RUNS, 48, 9, leads_to="real-emulated"),
        Panel("goodput-group", goodput_over_time("Goodput and retransmissions of each group"), 24, 16),
        Panel(
            "goodput-flow",
            _over_time("Goodput of each flow", INTERVALS, _FLOW, Metric("average", "ccmix.goodput_bps", "goodput")),
            24, 16,
        ),
        Panel(
            "retransmits",
            _over_time("Retransmissions", INTERVALS, common.BY_CCA, _LOST, f"{_LOST.field}: *", "bar_stacked"),
            24, 10,
        ),
        Panel("rtt", _of_sockets("RTT of the flows", "ccmix.rtt_s", "smoothed RTT, mean"), 24, 10),
        Panel("cwnd", _of_sockets("Congestion window", "ccmix.socket.cwnd_bytes", "window of a flow, mean"), 24, 10),
        Panel("pacing", _of_sockets("Pacing rate", "ccmix.socket.pacing_rate_bps", "of a flow, mean"), 24, 10),
        Panel("bbr-state",
              _over_time("BBR's states", SOCKETS, Terms("ccmix.bbr.state", "state"), _STATES, _SENDER,
                         "area_percentage_stacked"),
              24, 10),
        Panel("bbr-bandwidth", bbr.RATES, 24, 10),
        Panel("bbr-flows", bbr.STATES, 48, 10),
        Panel("bbr-bounds", bbr.BOUNDS, 48, 10),
        Panel("queue", _over_time("Queues", QUEUES, _QUEUE, _BACKLOG), 24, 10),
        Panel("drops", _over_time("Drops of the queues", QUEUES, _QUEUE, _DROPS), 24, 10),
        Panel("flows", _FLOWS, 48, 12, leads_to="ccas"),
        Panel("probe",
              _over_time("RTT beside the traffic (needs rtt-probe)", RTTS, Terms("ccmix.path.pair", "path"),
                         Metric("average", "ccmix.rtt_s", "RTT, mean")),
              24, 10),
        Panel("packets-rtt",
              _of_packets("RTT from ACKs (needs tcpdump = on)",
                          Metric("average", "ccmix.packets.ack_rtt_mean_s", "of a flow, mean")),
              24, 10),
        Panel("packets-in-flight",
              _of_packets("In flight (needs tcpdump = on)",
                          Metric("max", "ccmix.packets.in_flight_max_bytes", "of a flow, largest")),
              24, 10),
        Panel("packets-retransmitted",
              _of_packets("Retransmitted (needs tcpdump = on)",
                          Metric("sum", "ccmix.packets.retransmitted_bytes", "bytes"), "bar_stacked"),
              24, 10),
        Panel("completions", _COMPLETIONS, 24, 10),
        Panel("completion-times", _COMPLETION_TIMES, 24, 10),
        Panel("requests", _REQUESTS, 24, 10),
    ),
)  # fmt: skip
