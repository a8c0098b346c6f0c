"""Settings of an entry on an emulated path to that path, and what they say against each other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ccmix.config.problems import nearest, quoted
from ccmix.config.senders import MOST_HOSTS, read_host_names, read_moment
from ccmix.generators.distributions import mean_bytes
from ccmix.model import Change, Sender, Topology, Traffic, WorkloadFlows
from ccmix.model.traffic import streams_of_groups
from ccmix.units import format_bytes

MOST_DURATION_S, MOST_OMIT_S = 86400, 600  # iperf3's own limits (MAX_TIME and MAX_OMIT_TIME in iperf.h)
MOST_ARRIVALS = 1_000_000  # each is a connection
MOST_BUFFER_BYTES = 2**32 - 1  # tbf's limit is of 32 bits (struct tc_tbf_qopt)


def topology(settings: Mapping[str, Any]) -> Topology:
    """Raises ValueError where hosts, or what changes of them, can't be told."""
    hosts = _hosts(settings)
    return Topology(
        rate_bps=settings["rate"],
        delay_s=settings.get("delay", 0.0),
        loss=settings["loss"],
        buffer=settings["buffer"],
        mtu_bytes=settings["mtu"],
        offloads=settings["offloads"],
        jitter_s=settings["jitter"],
        reorder=settings["reorder"],
        hosts=hosts,
        receivers=settings["receivers"],
        shaper=settings["shaper"],
        queue=settings["qdisc"],
        ecn=settings["ecn"],
        changes=_changes(settings, [host.name for host in hosts] or ["h1"]),
    )


def _hosts(settings: Mapping[str, Any]) -> tuple[Sender, ...]:
    """Those of `hosts` and of host.NAME, in this order; what a later line says of a host stands before an earlier."""
    own: dict[str, dict[str, Any]] = {f"h{number}": {} for number in range(1, settings.get("hosts", 0) + 1)}
    for names, given in _members(settings, "host."):
        for name in read_host_names(names):
            own[name] = own.get(name, {}) | given
    if len(own) > MOST_HOSTS:
        raise ValueError(f"has {len(own)} hosts, more than {MOST_HOSTS}")
    if lacking := [name for name, given in own.items() if "delay_s" not in given and "delay" not in settings]:
        raise ValueError(f"host {lacking[0]} has no delay: write delay = ... for all hosts, or delay ... in its line")
    return tuple(
        Sender(
            name,
            delay_s=given["delay_s"] if "delay_s" in given else settings["delay"],
            loss=given.get("loss", settings["loss"]),
            jitter_s=given.get("jitter_s", settings["jitter"]),
            reorder=given.get("reorder", settings["reorder"]),
            rate_bps=given.get("rate_bps"),
        )
        for name, given in own.items()
    )


def _changes(settings: Mapping[str, Any], hosts: Sequence[str]) -> tuple[Change, ...]:
    changes = []
    for moment, given in _members(settings, "at."):
        for change in given:
            if change.sender is not None and change.sender not in hosts:
                raise ValueError(f"at.{moment} names the host {quoted(change.sender)}{nearest(change.sender, hosts)}")
            changes.append(replace(change, at_s=read_moment(moment)))
    return tuple(sorted(changes, key=lambda change: change.at_s))


def _members(settings: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    return [(name.removeprefix(prefix), value) for name, value in settings.items() if name.startswith(prefix)]


def own_traffic(settings: Mapping[str, Any]) -> Traffic:
    """Of ccmix's own iperf3."""
    return Traffic(
        groups=settings["cca"],
        streams=settings["streams"],
        duration_s=settings["duration"],
        omit_s=settings["omit"],
        interval_s=settings["interval"],
        pacing_bps=settings["pacing"],
        rtt_probe=settings["rtt-probe"],
    )


def traffic_contradiction(traffic: Traffic, port: int) -> str | None:
    """What two right values of ccmix's own iperf3, whose server has the port, say against each other."""
    asked, servers = traffic.rtt_probe and traffic.rtt_probe.tcp_port, max(1, len(traffic.flows))
    if asked and port <= asked < port + servers:
        return f"rtt-probe asks port {asked}, where iperf3's server takes each question for a test: give another port"
    if 0 in streams_of_groups(traffic.groups, traffic.streams):
        return f"cca names {len(traffic.groups)} groups, and with streams = {traffic.streams} not each of them gets one"
    if not 0.1 <= traffic.interval_s <= min(60.0, traffic.duration_s):
        return f"interval = {traffic.interval_s:g}s: iperf3 takes 100ms to 60s, and no more than duration"
    for name, seconds, most in (
        ("duration", traffic.duration_s, MOST_DURATION_S), ("omit", traffic.omit_s, MOST_OMIT_S)
    ):  # fmt: skip
        if seconds != int(seconds) or seconds > most:
            return f"{name} = {seconds:g}s: iperf3 takes whole seconds, {most} at most"
    return _flows_contradiction(traffic)


def _flows_contradiction(traffic: Traffic) -> str | None:
    lasts = f"and the traffic takes {traffic.seconds:g} s"
    for line in traffic.flows:
        if line.start_s >= traffic.seconds:
            return f"flows.{line.name} begins after {line.start_s:g} s, {lasts}"
        if isinstance(line.what, WorkloadFlows) and (number := _arrivals(line.what, traffic.seconds)) > MOST_ARRIVALS:
            return f"flows.{line.name} comes to {number:.3g} flows, {MOST_ARRIVALS} at most: give it less load"
    for group in traffic.all_groups:
        if group.delay_s >= traffic.seconds:
            return f"a group of {group.cca} begins after {group.delay_s:g} s, {lasts}"
    return None


def _arrivals(workload: WorkloadFlows, seconds: float) -> float:
    """How many flows are to be expected."""
    return workload.offered_bps * seconds / 8 / mean_bytes(workload.sizes)


def topology_contradiction(path: Topology, seconds: float) -> str | None:
    """What two right values of an emulated path say against each other; `seconds` is how long the traffic takes."""
    if path.buffer.kind == "bdp" and path.base_rtt_s == 0:
        return "buffer is given in BDP, and the BDP of a path without delay is 0: give bytes or packets"
    if path.buffer_bytes > MOST_BUFFER_BYTES:
        size = format_bytes(path.buffer_bytes)
        return f"buffer comes to {size}: {path.shaper} holds {format_bytes(MOST_BUFFER_BYTES)} at most"
    for sender in path.senders:
        if sender.jitter_s > sender.delay_s:
            return f"jitter of {sender.name} is more than its delay: no packet can be early before it was sent"
        if sender.reorder and not sender.delay_s:
            return f"reorder of {sender.name} lets packets pass without delay, and it has none"
    if late := [change.at_s for change in path.changes if change.at_s >= seconds]:
        return f"at.{late[0]:g}s changes nothing: the traffic, omit and duration, takes {seconds:g} s"
    return None
