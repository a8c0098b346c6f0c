"""Draws goodput and retransmissions of groups over the time of a run, for one run or for several."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ccmix.charts.encodings import of_cca
from ccmix.charts.time_series import over_time
from ccmix.kibana.data_views import INTERVALS
from ccmix.kibana.vega import VegaLite, members, metric, steps, terms

STEP_S = 1.0


def goodput_over_time(
    title: str,
    keys: Mapping[str, str] = MappingProxyType({}),
    channels: Mapping[str, Any] = MappingProxyType({}),
    transform: Sequence[Mapping[str, Any]] = (),
    apart: Sequence[str] = (),
) -> VegaLite:
    """Draws the mean over runs and their range for each group, and for each value of the columns `apart`.

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
            "time_s": steps("ccmix.elapsed_s", STEP_S),
        },
        {
            "goodput": metric("avg", "ccmix.goodput_bps"),
            "retransmits": metric("avg", "ccmix.retransmits"),
            "flows": metric("cardinality", "ccmix.flow.id"),
            "omitted": metric("max", "ccmix.omitted"),
        },
        lambda source: over_time(source, of_cca() | dict(channels), apart=apart),
        [
            *map(dict, transform),
            # A step may hold several intervals of a flow, or none: the mean over the flows' intervals, for each flow
            *members(
                of_group="datum.goodput.value * datum.flows.value",
                lost="datum.retransmits.value * datum.flows.value",
                omitted_s="datum.omitted.value ? datum.key.time_s : 0",
                group="datum.key.group",
                cca="datum.key.cca",
                time_s="datum.key.time_s",
            ),
            {
                "aggregate": [
                    {"op": "mean", "field": "of_group", "as": "goodput_bps"},
                    {"op": "min", "field": "of_group", "as": "low_bps"},
                    {"op": "max", "field": "of_group", "as": "high_bps"},
                    {"op": "mean", "field": "lost", "as": "retransmits"},
                    {"op": "max", "field": "omitted_s", "as": "omit_s"},
                ],
                "groupby": ["group", "cca", "time_s", *apart],
            },
            *members(begin_s=f"max(0, datum.time_s - {STEP_S:g})"),
        ],
        needs="goodput in intervals, which imported summaries do not have",
    )
