"""Formats a path and its traffic as text for people, and draws each run's random start times.

The start times and delays that are drawn from a run's seed make iterations independent, even if
nothing is lost at random. Flows that start in step over a path of constant delay may stay in step
(Floyd and Jacobson 1992, "On traffic phase effects in packet-switched gateways"). Drawing is not a
part of `model`, because a guest imports all of `model`, and each further module would shift its
traffic by microseconds.
"""

import math
import random
from collections.abc import Iterable

from ccmix.model import (
    Buffer,
    Change,
    CommandSource,
    DelayChange,
    GroupedSource,
    HostPath,
    HttpSource,
    ImportedSource,
    Iperf3Source,
    Loss,
    PathSource,
    Policer,
    PschedulerSource,
    RateChange,
    RunSpread,
    Sender,
    Topology,
    Traffic,
    TrafficSource,
    UdpSource,
    WorkloadSource,
)
from ccmix.model.group_grammar import format_groups
from ccmix.units import format_bytes, format_exact, format_percent, format_rate, format_time

# of the lab's kernel (CONFIG_HZ_1000 of lab/kernel.config), in which TCP's timers count
TICK_S = 0.001
# of the base RTT, at most: no goodput that falls as 1 / RTT then changes by more
DELAY_SHARE = 0.0005
# in a second; tc takes no smaller unit for netem, and iperf3 none for a start
MICROSECONDS = 1_000_000
_DELAYS = {"both": "delay", "data": "data-delay", "ack": "ack-delay"}
BASE_RTT, STREAMS = "base RTT", "streams"
# Swept keys of an emulated path, and the settings of path_settings() that they change
OF_KEYS = {
    "rate": "rate",
    "delay": BASE_RTT,
    "rtt": BASE_RTT,
    "loss": "loss",
    "buffer": "buffer",
    "qdisc": "qdisc",
    "policer": "policer",
    "receiver-window": "receiver-window",
    "jitter": "jitter",
    "reorder": "reorder",
    "mtu": "mtu",
    "ecn": "ecn",
    "sender-qdisc": "sender-qdisc",
    "sender-rate": "sender-qdisc",
    "offloads": "offloads",
    "kernel": "kernel",
    STREAMS: STREAMS,
}
HOST_DELAYS = ("lat-sweep", "netem-lat")


def draw_spread(path: Topology, traffic: Traffic, seed: int) -> RunSpread:
    """Draws the start times of a run's flows and small changes of its senders' delays, from uniform
    distributions, so that its flows do not stay in step. The same seed gives the same values.

    Flows start within the base RTT of their sender; the first of them starts at 0. The whole run
    starts at a random phase of the kernel's timer tick (TICK_S).
    """
    generator = random.Random(f"{seed} spread")
    phase_us = generator.randrange(round(TICK_S * MICROSECONDS))
    delays_us = [
        generator.randint(-most_us, most_us) for most_us in map(most_drawn_delay_us, path.senders)
    ]
    rtts_us = {sender.name: round(sender.base_rtt_s * MICROSECONDS) for sender in path.senders}
    longest_us = max(rtts_us.values())
    starts_us = [
        [
            generator.randrange(max(1, rtts_us.get(source.host, longest_us)))
            for _ in range(_starts(source))
        ]
        for source in traffic.sources
    ]
    first_us = min(min(source_starts_us) for source_starts_us in starts_us)
    return RunSpread(
        phase_us / MICROSECONDS,
        tuple(delay_us / MICROSECONDS for delay_us in delays_us),
        tuple(
            tuple((start_us - first_us) / MICROSECONDS for start_us in source_starts_us)
            for source_starts_us in starts_us
        ),
    )


def most_drawn_delay_us(sender: Sender) -> int:
    """Returns by how many microseconds at most draw_spread() changes the delay of a sender's data:
    a very small share of the RTT, so that the goodput does not change.

    It is 0 below an RTT of 2 ms, and if data is not delayed.
    """
    most_s = min(sender.base_rtt_s * DELAY_SHARE, sender.delay_s)
    return math.floor(most_s * MICROSECONDS + 1e-6)


def _starts(source: TrafficSource) -> int:
    """Returns how many start times are drawn for a source: one for each stream of an iperf3 test,
    otherwise one.
    """
    return source.streams if isinstance(source, Iperf3Source) else 1


def loss(value: Loss | None) -> str:
    """Returns a loss as written in an INI file; '0%' for None."""
    return str(value or "0%")


def queue(path: Topology) -> str:
    """Returns 'buffer 1.25 MB', with the queue discipline unless it is the default FIFO of
    bytes.
    """
    buffer = f"buffer {format_bytes(path.buffer_bytes)}"
    if path.queue.kind == "bfifo":
        return buffer
    return f"{buffer}, {path.queue}"


def base_rtts(path: Topology) -> str:
    """Returns the base RTT of the path as text: '10 ms', or the range of several sending hosts: '10
    ms to 160 ms'.
    """
    rtts_s = sorted({sender.base_rtt_s for sender in path.senders})
    ends_s = [rtts_s[0], rtts_s[-1]] if len(rtts_s) > 1 else rtts_s
    return " to ".join(format_time(rtt_s) for rtt_s in ends_s)


def losses(path: Topology) -> str:
    """Returns the random loss of the path as text: '0.1%', or '0% or 0.1%' if senders differ."""
    return " or ".join(dict.fromkeys(loss(sender.loss) for sender in path.senders))


def netem_of_data(sender: Sender) -> str:
    """Describes what netem does to the data of a sender: 'delay 5 ms ± 1 ms, loss 0.1%, reorder
    1%'.
    """
    parts = [f"delay {format_time(sender.delay_s)}"]
    if sender.jitter_s:
        parts[0] += f" ± {format_time(sender.jitter_s)}"
    if sender.loss:
        parts.append(f"loss {loss(sender.loss)}")
    if sender.reorder:
        parts.append(f"reorder {format_percent(sender.reorder)}")
    return ", ".join(parts)


def sender_queue(sender: Sender) -> str:
    """Describes the queueing disciplines of a sending host's device: 'tbf 100 Mbit/s, then fq'."""
    shaped = f"tbf {format_rate(sender.rate_bps)}, then " if sender.rate_bps else ""
    return f"{shaped}{sender.queue}"


def receiver_window(sender: Sender) -> str:
    """Returns 'up to 4 MB' for the window that the sender's receiver advertises; '' if no window is
    configured.
    """
    return (
        ""
        if sender.receiver_window_bytes is None
        else f"up to {format_bytes(sender.receiver_window_bytes)}"
    )


def rate(path: Topology) -> str:
    """Describes the bottleneck's shaper: 'tbf 100 Mbit/s', followed by its burst if one is
    configured.
    """
    burst = "" if path.burst_bytes is None else f" burst {format_bytes(path.burst_bytes)}"
    return f"{path.shaper} {format_rate(path.rate_bps)}{burst}"


def policer(value: Policer | None) -> str:
    """Describes the policer of a path: 'policer 500 Mbit/s burst 1 MB', or 'none'."""
    return (
        f"policer {format_rate(value.rate_bps)} burst {format_bytes(value.burst_bytes)}"
        if value
        else "none"
    )


def ack_bottleneck(path: Topology) -> str:
    """Describes the second bottleneck, which only ACKs pass: 'tbf 10.0 Mbit/s, buffer 50 packets'.
    Returns '' if the path has no such bottleneck.
    """
    acks = path.ack_bottleneck
    if acks is None:
        return ""
    buffer = f"{path.ack_limit} packets" if acks.counts_packets else format_bytes(path.ack_limit)
    return f"tbf {format_rate(acks.rate_bps)}, buffer {buffer}"


def netem_of_acks(sender: Sender) -> str:
    """Describes what netem does to the ACKs for a sender's data: 'delay 5 ms ± 1 ms'."""
    return netem_of_data(Sender(sender.name, sender.delay_of_acks_s, jitter_s=sender.jitter_s))


def spread(path: Topology) -> str:
    """Describes the ranges from which draw_spread() draws start times and delays: 'starts within 88
    ms, delay of data ± 44 us'.
    """
    delays_us = sorted({most_drawn_delay_us(sender) for sender in path.senders})
    ends = dict.fromkeys(format_time(delay_us / 1e6) for delay_us in (delays_us[0], delays_us[-1]))
    return f"starts within {base_rtts(path)}, delay of data ± {' to '.join(ends)}"


def change(path_change: Change) -> str:
    """Describes a change of the path during the run, such as 'rate 500 Mbit/s'. If it is for only
    one sending host, the host comes first: 'h2: delay 20 ms'.
    """
    if isinstance(path_change, RateChange):
        return f"rate {format_exact(path_change.rate_bps, 'bps')}"
    host = f"{path_change.sender}: " if path_change.sender else ""
    value = (
        f"{_DELAYS[path_change.direction]} {format_time(path_change.delay_s)}"
        if isinstance(path_change, DelayChange)
        else f"loss {loss(path_change.loss)}"
    )
    return host + value


def test(source: GroupedSource) -> str:
    """Describes an iperf3 or pScheduler test: '8 flows of cubic'."""
    return (
        f"{source.streams or 'an unknown number of'} flow{'' if source.streams == 1 else 's'} of "
        f"{format_groups(source.groups)}"
    )


def traffic_source(source: TrafficSource, hosts: str) -> str:
    """Describes a traffic source by its name, its hosts, and what it sends: 'short: h1 bbr:1, from
    5 s on' (one flow of BBR).

    `hosts`: the sending host, or a text for several hosts that have such a source
    """
    match source:
        case (
            Iperf3Source(groups=groups)
            | PschedulerSource(groups=groups)
            | ImportedSource(groups=groups)
        ):
            description = format_groups(groups)
        case UdpSource(rate_bps=rate_bps, streams=streams):
            description = f"udp, {streams} x {format_rate(rate_bps)}"
        case HttpSource() as http:
            size = format_bytes(http.size_bytes)
            description = (
                f"http, {http.requests} requests of {size}, {http.parallel} at a time, {http.cca}"
            )
        case WorkloadSource() as load:
            description = (
                f"workload {load.distribution}, {format_rate(load.offered_bps)} offered, {load.cca}"
            )
        case CommandSource(line=shell):
            description = f"command: {shell}"
        case PathSource(most_bps=most_bps):
            description = f"steps that measure the path, at most {format_rate(most_bps)}"
    start = f", from {format_time(source.start_s)} on" if source.start_s else ""
    return f"{source.name}: {hosts} {description}{start}"


def swept_text(path: Topology | HostPath, key: str, value: str) -> str:
    """Returns the text of a swept value for people. If the path has a setting for the key, it is
    the setting with its unit, such as '10 Mbit/s'; otherwise the value as written in the
    configuration: '10mbit'.
    """
    if isinstance(path, Topology):
        return path_settings(path).get(OF_KEYS.get(key, ""), value)
    if key in HOST_DELAYS and path.netem:
        return format_time(path.netem.delay_s)
    return value


def path_settings(path: Topology) -> dict[str, str]:
    """Returns the settings of an emulated path as text for people, by name: {'rate': '10 Mbit/s',
    'base RTT': '20 ms', ...}.
    """
    senders = path.senders
    return {
        "rate": format_rate(path.rate_bps),
        BASE_RTT: base_rtts(path),
        "loss": losses(path),
        "buffer": buffer_text(path.buffer, path),
        "policer": policer(path.policer),
        "qdisc": str(path.queue),
        "jitter": _each(format_time(sender.jitter_s) for sender in senders),
        "reorder": _each(format_percent(sender.reorder) for sender in senders),
        "mtu": str(path.mtu_bytes),
        "ecn": _switch(path.ecn),
        "sender-qdisc": _each(sender_queue(sender) for sender in senders),
        "receiver-window": _each(receiver_window(sender) or "unset" for sender in senders),
        "offloads": _switch(path.offloads),
        "kernel": path.kernel,
        "host-root": _switch(path.host_root),
    }


def buffer_text(buffer: Buffer, path: Topology) -> str:
    """Returns the size of a path's buffer in the unit in which it is configured: '0.5 BDP', '100
    packets' or '233 kB'.
    """
    match buffer.kind:
        case "bdp":
            return f"{buffer.amount:g} BDP"
        case "packet":
            return f"{buffer.amount:g} packet{'' if buffer.amount == 1 else 's'}"
        case "byte":
            return format_bytes(path.buffer_bytes)


def _each(texts: Iterable[str]) -> str:
    """Joins the different texts of several senders: 'fq or fq_codel', or just 'fq' if all are
    equal.
    """
    return " or ".join(dict.fromkeys(texts))


def _switch(on: bool) -> str:
    """Returns 'on' or 'off'."""
    return "on" if on else "off"
