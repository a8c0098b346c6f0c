"""Goodput of groups over the time of a run, as a chart for one run or for several beside each other."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ccmix.charts.encodings import of_cca
from ccmix.charts.time_series import goodput_lines
from ccmix.kibana.data_views import INTERVALS
from ccmix.kibana.vega import VegaLite, metric, steps, terms

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
    lines = goodput_lines(of_cca())
    made = [
        *transform,
        {"calculate": GROUP_GOODPUT, "as": "group_goodput"},
        *({"calculate": f"datum.key.{name}", "as": name} for name in ("group", "cca", "time_s")),
        {
            "aggregate": [{"op": "mean", "field": "group_goodput", "as": "goodput_bps"}],
            "groupby": ["group", "cca", "time_s", *apart],
        },
    ]
    return VegaLite(
        title,
        INTERVALS,
        {
            **{name: terms(field) for name, field in keys.items()},
            "run": terms("ccmix.run.id"),
            "group": terms("ccmix.group.name"),
            "cca": terms("ccmix.cca"),
            "time_s": steps("ccmix.elapsed_s", STEP_S),
        },
        {"goodput": metric("avg", "ccmix.goodput_bps"), "flows": metric("cardinality", "ccmix.flow.id")},
        {**lines, "transform": made, "encoding": lines["encoding"] | encoding},
    )
