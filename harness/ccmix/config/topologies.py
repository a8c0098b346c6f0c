"""Builds the emulated path and the traffic of an entry from the values of its keys."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ccmix.config.host_values import capture_in_router
from ccmix.config.keys import Member
from ccmix.config.problems import Contradiction, nearest, quoted
from ccmix.config.senders import MOST_HOSTS, Delays, WrittenPolicer, delays_from_keys
from ccmix.config.values import Duration
from ccmix.model import (
    AckBottleneck,
    Buffer,
    Change,
    ModuleParameter,
    Policer,
    RateChange,
    Sender,
    Topology,
    Traffic,
    TrafficSource,
)


def topology(settings: Mapping[str, Any], parameter: ModuleParameter | None = None) -> Topology:
    """Builds the emulated path (senders, bottleneck, receivers) from the values of an entry and of
    its [topology NAME] by key. `parameter` is a kernel module parameter, if the entry sweeps one.

    Raises Contradiction, with the key to change, for values that contradict each other.
    """
    senders = _senders(settings)
    return Topology(
        rate_bps=settings["rate"],
        senders=senders,
        buffer=settings["buffer"],
        mtu_bytes=settings["mtu"],
        offloads=settings["offloads"],
        receivers=settings["receivers"],
        shaper=settings["shaper"],
        queue=settings["qdisc"],
        ecn=settings["ecn"],
        spread=settings["spread"],
        burst_bytes=settings.get("burst"),
        control=settings["control"],
        policer=_policer(settings),
        ack_bottleneck=_ack_bottleneck(settings),
        changes=_timed_changes(settings, [sender.name for sender in senders]),
        capture=capture_in_router(settings) if settings["tcpdump"] else None,
        kernel=settings["kernel"],
        host_root=settings["host-root"],
        module_parameter=parameter,
        name=settings["topology"],
    )


def _policer(settings: Mapping[str, Any]) -> Policer | None:
    """Returns the policer before the bottleneck; None if the path has no policer. If the user does
    not give the policer's burst, it follows from the rate, MTU and offloads of the path.
    """
    written: WrittenPolicer | None = settings["policer"]
    return (
        None
        if written is None
        else written.resolve(settings["rate"], settings["mtu"], settings["offloads"])
    )


def _ack_bottleneck(settings: Mapping[str, Any]) -> AckBottleneck | None:
    """Returns the bottleneck that ACKs pass on the way back; None if the path has none, because the
    key ack-rate is not set. Raises Contradiction.
    """
    rate_bps, buffer = settings.get("ack-rate"), settings.get("ack-buffer")
    if rate_bps is None and buffer is not None:
        raise Contradiction(
            "ack-buffer", "has no effect without ack-rate, because ACKs then pass no bottleneck"
        )
    return None if rate_bps is None else AckBottleneck(rate_bps, buffer or Buffer(1, "bdp"))


def _senders(settings: Mapping[str, Any]) -> tuple[Sender, ...]:
    """Returns the senders of a path: h1 to hN if the key hosts is N, then the senders of the keys
    host.NAME. If none of these keys is set, there is only h1.

    If several keys host.NAME set the same for a sender, the last one counts. The path's settings
    apply to senders that don't have their own.
    """
    hosts: dict[str, dict[str, Any]] = {
        f"h{number}": {} for number in range(1, settings.get("hosts", 0) + 1)
    }
    # By host: the delays of its keys host.NAME, the last key first, because it overrides the others
    delays: dict[str, list[Delays]] = {}
    for _, member in _family_members(settings, "host."):
        for name in member.name:
            hosts[name] = hosts.get(name, {}) | member.value
            delays.setdefault(name, []).insert(0, member.value["delays"])
    hosts = hosts or {"h1": {}}
    if len(hosts) > MOST_HOSTS:
        raise Contradiction(
            "hosts" if "hosts" in settings else None,
            f"makes {len(hosts)} hosts, more than {MOST_HOSTS}",
        )
    path_delays = delays_from_keys(settings)
    return tuple(
        Sender(
            name,
            delay_s=0.0,
            loss=host_settings.get("loss", settings["loss"]),
            jitter_s=host_settings.get("jitter_s", settings["jitter"]),
            reorder=host_settings.get("reorder", settings["reorder"]),
            rate_bps=host_settings.get("rate_bps"),
            queue=host_settings.get("queue", settings["sender-qdisc"]),
            receiver_window_bytes=host_settings.get(
                "receiver_window_bytes", settings.get("receiver-window")
            ),
        ).delayed(*_first_delays(name, [*delays.get(name, ()), path_delays]))
        for name, host_settings in hosts.items()
    )


def _first_delays(name: str, candidates: Sequence[Delays]) -> tuple[float, float]:
    """Returns a host's one-way delays of data and of ACKs in seconds, each from the first of
    `candidates` that sets this delay. Raises Contradiction if no candidate sets one of the delays.
    """
    data_s = next((given.data_s for given in candidates if given.data_s is not None), None)
    acks_s = next((given.acks_s for given in candidates if given.acks_s is not None), None)
    if data_s is None and acks_s is None:
        raise Contradiction(
            "delay",
            f"host {name} has no delay: write delay = ... for all hosts, or delay ... in its line",
        )
    if data_s is None or acks_s is None:
        missing, given_key = (
            ("data-delay", "ack-delay") if data_s is None else ("ack-delay", "data-delay")
        )
        raise Contradiction(
            missing,
            f"is missing: host {name} has only {given_key}. Write {missing} too, or delay instead "
            "of "
            "both",
        )
    return data_s, acks_s


def _timed_changes(settings: Mapping[str, Any], hosts: Sequence[str]) -> tuple[Change, ...]:
    """Returns the changes of the path during a run, from keys such as 'at.60s = rate 500mbit',
    sorted by time. Raises Contradiction if a change is too late to have an effect, if two keys have
    the same time, or if a change is for a host that is not in `hosts`.
    """
    changes: list[Change] = []
    key_by_time: dict[float, str] = {}
    traffic_s = settings["omit"] + settings["duration"].seconds
    for key, member in _family_members(settings, "at."):
        at_s = member.name
        if (earlier := key_by_time.setdefault(at_s, key)) != key:
            raise Contradiction(
                key,
                f"is the same time as {earlier}: write one line, with commas between the changes",
            )
        if at_s >= traffic_s:
            raise Contradiction(
                key, f"changes nothing: the traffic (omit and duration) takes {traffic_s:g} s"
            )
        if settings["duration"].settled and at_s > settings["omit"]:
            raise Contradiction(
                key, "changes goodput, so the run can't settle: write a time for duration"
            )
        for change in member.value:
            sender = None if isinstance(change, RateChange) else change.sender
            if sender is not None and sender not in hosts:
                raise Contradiction(
                    key, f"{quoted(sender)} is not a host of the path{nearest(sender, hosts)}"
                )
            changes.append(replace(change, at_s=at_s))
    return tuple(sorted(changes, key=lambda change: change.at_s))


def _family_members(settings: Mapping[str, Any], prefix: str) -> list[tuple[str, Member]]:
    """Returns the keys with a prefix such as 'host.', with their values."""
    return [(name, value) for name, value in settings.items() if name.startswith(prefix)]


def traffic_of_sources(settings: Mapping[str, Any], sources: Sequence[TrafficSource]) -> Traffic:
    """Returns the traffic of these sources, with the duration, interval, pacing and RTT probe that
    an entry's keys set for all of them.
    """
    duration: Duration = settings["duration"]
    return Traffic(
        sources=tuple(sources),
        duration_s=duration.seconds,
        omit_s=settings["omit"],
        interval_s=settings["interval"],
        pacing_bps=settings["pacing"],
        rtt_probe=settings["rtt-probe"],
        at_most_s=duration.seconds if duration.settled else None,
    )
