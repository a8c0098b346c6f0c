"""Shows what BBR, of any version whose states are known, does over the time of a run."""

from ccmix.charts import bbr_state
from ccmix.charts.encodings import name, time
from ccmix.kibana.data_views import SOCKETS
from ccmix.kibana.vega import VegaLite, members, metric, steps, terms
from ccmix.terms import BBRS

STEP_S = 0.1
NEEDS = f"samples of sockets with the CCA {', '.join(BBRS)}"
OF_SENDERS = ({"term": {"ccmix.end": "sender"}}, {"term": {"ccmix.final": False}})
_BOUNDS = {name: line for name, line in bbr_state.WINDOWS.items() if name in bbr_state.BOUNDS}
# The phase of a sample, as bbr_state.phase() computes it
PHASE = (
    "datum.key.state === 'probe_bw' "
    "? 'probe_bw, ' + (datum.key.gain > 1 ? 'up' : datum.key.gain < 1 ? 'down' : 'cruise') "
    ": replace(datum.key.state, 'probe_bw_', 'probe_bw, ')"
)

STATES = VegaLite(
    "State of each BBR flow",
    SOCKETS,
    {
        "step": steps("ccmix.elapsed_s", STEP_S), "run": terms("ccmix.run.id"), "flow": terms("ccmix.flow.id"),
        "state": terms("ccmix.bbr.state"), "gain": terms("ccmix.bbr.pacing_gain"),
    },
    {"time_s": metric("min", "ccmix.elapsed_s")},
    lambda source: bbr_state.states(source, time(), name("flow")),
    [
        *members(time_s="datum.time_s.value", run="datum.key.run", bbr_state=PHASE),
        {"joinaggregate": [{"op": "distinct", "field": "run", "as": "runs"}]},
        *members(flow="datum.runs > 1 ? datum.run + ' ' + datum.key.flow : datum.key.flow"),
        {
            "window": [{"op": "lead", "field": "time_s", "as": "next_s"}],
            "sort": [{"field": "time_s"}], "groupby": ["flow"],
        },
        {"filter": "isValid(datum.next_s)"},
        *members(to_s="datum.next_s"),
    ],
    OF_SENDERS,
    NEEDS,
)  # fmt: skip
RATES = VegaLite(
    "BBR's estimate of the bottleneck's rate, its bound bw_lo, and the delivery rate: means over flows",
    SOCKETS,
    {"step": steps("ccmix.elapsed_s", STEP_S)},
    {
        "estimate": metric("avg", "ccmix.bbr.bandwidth_bps"),
        "delivered": metric("avg", "ccmix.socket.delivery_rate_bps"),
        "bw_lo": metric("avg", "ccmix.bbr.bw_lo_bps"),
    },
    lambda source: bbr_state.rates(source, time()),
    members(
        time_s="datum.key.step",
        bbr_bandwidth_bps="datum.estimate.value",
        delivery_rate_bps="datum.delivered.value",
        bbr_bw_lo_bps="datum.bw_lo.value",
    ),
    (*OF_SENDERS, {"exists": {"field": "ccmix.bbr.bandwidth_bps"}}),
    NEEDS,
)
BOUNDS = VegaLite(
    "Bounds of BBR's later versions on what is in flight: means over flows",
    SOCKETS,
    {"step": steps("ccmix.elapsed_s", STEP_S)},
    {
        "hi": metric("avg", "ccmix.bbr.inflight_hi_packets"),
        "lo": metric("avg", "ccmix.bbr.inflight_lo_packets"),
    },
    lambda source: bbr_state.windows(source, time(), _BOUNDS),
    members(
        time_s="datum.key.step",
        bbr_inflight_hi_packets="datum.hi.value",
        bbr_inflight_lo_packets="datum.lo.value",
    ),
    (*OF_SENDERS, {"exists": {"field": "ccmix.bbr.inflight_hi_packets"}}),
    "samples of sockets with the CCA bbr2 or bbr3 in the lab",
)
