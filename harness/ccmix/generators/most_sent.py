"""Bounds what a run between hosts can send, before it has sent anything."""

from ccmix.generators.pscheduler.task import stream_rate_bps
from ccmix.model import HostPath, Traffic
from ccmix.model.group_grammar import streams_of_groups


def most_sent_bytes(path: HostPath, traffic: Traffic) -> float | None:
    """Returns the most that a run can send: what the pacing of its flows and an emulated bottleneck let pass.

    Returns None where nothing that ccmix knows of bounds it.
    """
    if traffic.seconds is None:
        return None
    rates_bps = [netem.rate_bps for netem in (path.netem, path.profile) if netem and netem.rate_bps is not None]
    bounds = [rate_bps * traffic.seconds / 8 for rate_bps in rates_bps]
    paced = _paced_bytes(traffic, traffic.seconds)
    return min([*bounds, *([] if paced is None else [paced])], default=None)


def _paced_bytes(traffic: Traffic, seconds: float) -> float | None:
    """Returns what pacing lets the one test's flows send, by the key, pScheduler's task or their groups; None if some
    have none. The steps that measure a path have a cap together.
    """
    if traffic.steps:
        return traffic.steps.most_bps * seconds / 8
    if not traffic.streams:
        return None
    of_all = (traffic.pacing_bps, stream_rate_bps(traffic.task) if traffic.task else None)
    sent = 0.0
    for group, streams in zip(traffic.groups, streams_of_groups(traffic.groups, traffic.streams), strict=True):
        rates_bps = [rate_bps for rate_bps in (group.pacing_bps, *of_all) if rate_bps is not None]
        if not rates_bps:
            return None
        sent += streams * min(rates_bps) * max(0.0, seconds - group.delay_s) / 8
    return sent
