"""Identifies a condition, so that it is found again in another archive, also on the emulated twin of a real path."""

from collections.abc import Collection
from dataclasses import replace

from ccmix.analysis.counting import imported
from ccmix.model import Topology, Traffic, condition_name
from ccmix.model.results import FinishedRun, GroupMetrics


def studied_groups(finished: FinishedRun) -> tuple[GroupMetrics, ...]:
    """Returns the groups without those of cross traffic, which is part of the path to the test beside it."""
    cross = finished.run.cross_groups
    return tuple(group for group in finished.metrics.groups if group.group not in cross)


def goodput_bps(finished: FinishedRun) -> float:
    """Returns the run's goodput, the sum over its studied groups."""
    return sum(float(group.goodput_bps) for group in studied_groups(finished))


def mix(finished: FinishedRun) -> str:
    """Returns the CCAs of the studied groups, each once, in their order."""
    return ",".join(dict.fromkeys(group.cca for group in studied_groups(finished)))


def condition_key(finished: FinishedRun, unknown: Collection[str] = ()) -> str:
    """Returns entry, condition, mix and streams: the same for a path and its emulated twin.

    Without the keys `unknown`, it is the same for a path and the range of its twin.
    """
    run = finished.run
    known = {key: value for key, value in run.condition.items() if key not in unknown}
    return f"{run.entry} {condition_name(known)} {mix(finished)} {run.traffic.streams or '-'}"


def traffic_asked(finished: FinishedRun) -> Traffic:
    """Returns what was asked for, of an imported run without the interval.

    An imported run's interval is that of its samples: no two logs have the same to the millisecond.
    """
    traffic = finished.run.traffic
    return replace(traffic, interval_s=0.0) if traffic.interval_s and imported(finished) else traffic


def smallest_ping_s(finished: FinishedRun) -> float | None:
    """Returns the smallest RTT of the pings before the traffic."""
    return min((rtt_s for rtts_s in finished.ping_rtt_s.values() for rtt_s in rtts_s), default=None)


def base_rtt_s(finished: FinishedRun) -> float | None:
    """Returns the base RTT of an emulated path (of several senders the largest), else the smallest ping.

    For a run that was imported without pings, returns what the import states.
    """
    path = finished.run.path
    if isinstance(path, Topology):
        return path.base_rtt_s
    ping_s = smallest_ping_s(finished)
    if ping_s is None and finished.facts.imported:
        return finished.facts.imported.base_rtt_s
    return ping_s
