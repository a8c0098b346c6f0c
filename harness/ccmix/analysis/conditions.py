"""What a condition is, so that it is found again in another archive: on a real path and on its emulated twin alike."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ccmix.analysis.counting import imported
from ccmix.model import Run, Topology, Traffic


def mix(summary: Mapping[str, Any]) -> str:
    """The CCAs of the groups, each once, in their order."""
    return ",".join(dict.fromkeys(group["cca"] for group in summary["metrics"]["groups"]))


def condition_key(run: Run, summary: Mapping[str, Any]) -> str:
    """Entry, condition, mix and streams: the same for a path and its emulated twin."""
    return f"{run.entry} {run.condition_name} {mix(summary)} {run.traffic.streams or '-'}"


def traffic_asked(run: Run, summary: Mapping[str, Any]) -> Traffic:
    """What was asked for. Of an imported run without the interval, which is that of its samples: no two logs have the
    same to the millisecond.
    """
    return replace(run.traffic, interval_s=0.0) if imported(summary) else run.traffic


def smallest_ping_s(summary: Mapping[str, Any]) -> float | None:
    """Of the pings before the traffic."""
    pings = summary["ping_rtt_s"]
    seen = [ping for of_host in pings.values() for ping in of_host] if isinstance(pings, dict) else pings
    return min(seen, default=None)


def base_rtt_s(run: Run, summary: Mapping[str, Any]) -> float | None:
    """That of an emulated path (of several senders the largest), else the smallest ping; of a run that was imported
    without any, what else tells it.
    """
    if isinstance(run.path, Topology):
        return run.path.base_rtt_s
    ping_s = smallest_ping_s(summary)
    told: float | None = (summary["facts"].get("imported") or {}).get("base_rtt_s")
    return told if ping_s is None else ping_s
