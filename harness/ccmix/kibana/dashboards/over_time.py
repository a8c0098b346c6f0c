"""Goodput of groups over the time of a run, as a chart for one run or for several beside each other."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ccmix.kibana.data_views import INTERVALS
from ccmix.kibana.vega import VegaLite, cca_encoding, metric, steps, terms

STEP_S = 1.0
# A step may hold several intervals of a flow, or none: the mean over the flows' intervals times the number of flows.
GROUP_GOODPUT = "datum.goodput.value * datum.flows.value"


def goodput_over_time(
    title: str,
    keys: Mapping[str, str] = MappingProxyType({}),
    encoding: Mapping[str, Any] = MappingProxyType({}),
    transform: Sequence[Mapping[str, Any]] = (),
    apart: Sequence[str] = (),
) -> VegaLite:
    """A line for each group, the mean over runs; and for each value of the members `apart`.

    `transform` may make these, and leave rows out, by `keys`: names of further members `key.NAME`, with their fields.
    Steps of a second suit samples at intervals up to that; longer ones leave gaps.
    """
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
                *transform,
                {"calculate": GROUP_GOODPUT, "as": "group_goodput"},
                *({"calculate": f"datum.key.{name}", "as": name} for name in ("group", "cca", "elapsed")),
                {
                    "aggregate": [{"op": "mean", "field": "group_goodput", "as": "goodput_bps"}],
                    "groupby": ["group", "cca", "elapsed", *apart],
                },
            ],
            "mark": {"type": "line", "tooltip": True},
            "encoding": {
                "x": {"field": "elapsed", "type": "quantitative", "title": "time since the traffic began (s)"},
                "y": {"field": "goodput_bps", "type": "quantitative", "axis": {"format": ".2s"},
                      "title": "goodput (bit/s)"},
                "detail": {"field": "group", "type": "nominal"},
                **cca_encoding("cca"),
                **encoding,
            },
        },
    )  # fmt: skip
