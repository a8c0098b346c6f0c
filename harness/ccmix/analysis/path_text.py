"""Formats values of a path for people."""

from ccmix.analysis.spread import most_drawn_delay_us
from ccmix.model import (
    Change,
    CommandSource,
    DelayChange,
    GroupedSource,
    HttpSource,
    ImportedSource,
    Iperf3Source,
    Loss,
    PathSource,
    Policer,
    PschedulerSource,
    RateChange,
    Sender,
    Topology,
    TrafficSource,
    UdpSource,
    WorkloadSource,
)
from ccmix.model.group_grammar import format_groups
from ccmix.units import format_bytes, format_exact, format_percent, format_rate, format_time

_DELAYS = {"both": "delay", "data": "data-delay", "ack": "ack-delay"}


def loss(value: Loss | None) -> str:
    return str(value or "0%")


def queue(path: Topology) -> str:
    """'buffer 1.25 MB', with the queue discipline where it is not the FIFO of bytes that stands for itself."""
    buffer = f"buffer {format_bytes(path.buffer_bytes)}"
    if path.queue.kind == "bfifo":
        return buffer
    return f"{buffer}, {path.queue}"


def base_rtts(path: Topology) -> str:
    """Returns '10 ms', or the range of several hosts: '10 ms to 160 ms'."""
    rtts_s = sorted({sender.base_rtt_s for sender in path.senders})
    return " to ".join(format_time(rtt_s) for rtt_s in ([rtts_s[0], rtts_s[-1]] if len(rtts_s) > 1 else rtts_s))


def losses(path: Topology) -> str:
    return " or ".join(dict.fromkeys(loss(sender.loss) for sender in path.senders))


def own_path(sender: Sender) -> str:
    """Describes what netem does to the data of a sender: 'delay 5 ms, loss 0.1%'."""
    parts = [f"delay {format_time(sender.delay_s)}"]
    if sender.jitter_s:
        parts[0] += f" ± {format_time(sender.jitter_s)}"
    if sender.loss:
        parts.append(f"loss {loss(sender.loss)}")
    if sender.reorder:
        parts.append(f"reorder {format_percent(sender.reorder)}")
    return ", ".join(parts)


def sender_queue(sender: Sender) -> str:
    """Describes what queues on a sender's own device: 'tbf 100 Mbit/s, then fq'."""
    shaped = f"tbf {format_rate(sender.rate_bps)}, then " if sender.rate_bps else ""
    return f"{shaped}{sender.queue}"


def receiver_window(sender: Sender) -> str:
    """Returns 'up to 4 MB', of the window that the sender's receiver advertises; '' where none is configured."""
    return "" if sender.receiver_window_bytes is None else f"up to {format_bytes(sender.receiver_window_bytes)}"


def rate(path: Topology) -> str:
    burst = "" if path.burst_bytes is None else f" burst {format_bytes(path.burst_bytes)}"
    return f"{path.shaper} {format_rate(path.rate_bps)}{burst}"


def policer(value: Policer | None) -> str:
    """Returns 'policer 500 Mbit/s burst 1 MB', or 'none'."""
    return f"policer {format_rate(value.rate_bps)} burst {format_bytes(value.burst_bytes)}" if value else "none"


def ack_bottleneck(path: Topology) -> str:
    """Returns 'tbf 10.0 Mbit/s, buffer 50 packets'; '' where ACKs pass none."""
    acks = path.ack_bottleneck
    if acks is None:
        return ""
    buffer = f"{path.ack_limit} packets" if acks.counts_packets else format_bytes(path.ack_limit)
    return f"tbf {format_rate(acks.rate_bps)}, buffer {buffer}"


def way_back(sender: Sender) -> str:
    """Describes what netem does to the ACKs of a sender."""
    return own_path(Sender(sender.name, sender.delay_of_acks_s, jitter_s=sender.jitter_s))


def spread(path: Topology) -> str:
    """Describes what each run draws from its seed: 'starts within 88 ms, delay of data ± 44 us'."""
    delays_us = sorted({most_drawn_delay_us(sender) for sender in path.senders})
    ends = dict.fromkeys(format_time(delay_us / 1e6) for delay_us in (delays_us[0], delays_us[-1]))
    return f"starts within {base_rtts(path)}, delay of data ± {' to '.join(ends)}"


def change(what: Change) -> str:
    """Returns 'rate 500 Mbit/s' or 'h2: delay 20 ms'."""
    if isinstance(what, RateChange):
        return f"rate {format_exact(what.rate_bps, 'bps')}"
    of_host = f"{what.sender}: " if what.sender else ""
    value = (
        f"{_DELAYS[what.direction]} {format_time(what.delay_s)}"
        if isinstance(what, DelayChange)
        else f"loss {loss(what.loss)}"
    )
    return of_host + value


def test(source: GroupedSource) -> str:
    """Returns '8 flows of cubic'."""
    return (
        f"{source.streams or 'an unknown number of'} flow{'' if source.streams == 1 else 's'} of "
        f"{format_groups(source.groups)}"
    )


def traffic_source(source: TrafficSource, hosts: str) -> str:
    """Returns 'short: h1 bbr:1'; several hosts may have the source."""
    match source:
        case Iperf3Source(groups=groups) | PschedulerSource(groups=groups) | ImportedSource(groups=groups):
            what = format_groups(groups)
        case UdpSource(rate_bps=rate_bps, streams=streams):
            what = f"udp, {streams} x {format_rate(rate_bps)}"
        case HttpSource() as http:
            size = format_bytes(http.size_bytes)
            what = f"http, {http.requests} requests of {size}, {http.parallel} at a time, {http.cca}"
        case WorkloadSource() as load:
            what = f"workload {load.distribution}, {format_rate(load.offered_bps)} offered, {load.cca}"
        case CommandSource(line=shell):
            what = f"command: {shell}"
        case PathSource(most_bps=most_bps):
            what = f"steps that measure the path, at most {format_rate(most_bps)}"
    late = f", from {format_time(source.start_s)} on" if source.start_s else ""
    return f"{source.name}: {hosts} {what}{late}"
