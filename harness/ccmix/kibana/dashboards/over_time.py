"""Goodput of groups over the time of a run, as a chart for one run or for several beside each other."""

from collections.abc import Mapping
from typing import Any

from ccmix.kibana.data_views import INTERVALS
from ccmix.kibana.vega import VegaLite, cca_encoding, metric, steps, terms

STEP_S = 1.0
# A step may hold several intervals of a flow, or none: the mean over the flows' intervals times the number of flows.
GROUP_GOODPUT = "datum.goodput.value * datum.flows.value"


def goodput_over_time(title: str, keys: Mapping[str, str], encoding: Mapping[str, Any]) -> VegaLite:
    """A line for each group and value of the other keys (a field for each name), the mean over runs.

    Shorter steps than the interval of the samples would leave gaps; those of one second suit intervals up to that.
    """
    names = [f"key.{name}" for name in (*keys, "group", "cca", "elapsed")]
    return VegaLite(
        title,
        INTERVALS,
        {
            **{name: terms(field) for name, field in keys.items()},
            "run": terms("ccmix.run.id"),
            "group": terms("ccmix.group.name"),
            "cca": terms("ccmix.cca"),
            "elapsed": steps("ccmix.elapsed_s", STEP_S),
        },
        {"goodput": metric("avg", "ccmix.goodput_bps"), "flows": metric("cardinality", "ccmix.flow.id")},
        {
            "transform": [
                {"calculate": GROUP_GOODPUT, "as": "group_goodput"},
                {
                    "aggregate": [{"op": "mean", "field": "group_goodput", "as": "goodput_bps"}],
                    "groupby": names,
                },
            ],
            "mark": {"type": "line", "interpolate": "linear", "tooltip": True},
            "encoding": {
                "x": {"field": "key.elapsed", "type": "quantitative", "title": "time since the traffic began (s)"},
                "y": {"field": "goodput_bps", "type": "quantitative", "axis": {"format": ".2s"},
                      "title": "goodput (bit/s)"},
                **cca_encoding("key.cca"),
                "detail": {"field": "key.group", "type": "nominal"},
                **encoding,
            },
        },
    )  # fmt: skip
