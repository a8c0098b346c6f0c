"""How values of a path are written for people."""

from ccmix.model import (
    Change,
    CommandFlows,
    Flows,
    HttpFlows,
    Iperf3Flows,
    Loss,
    Sender,
    Topology,
    UdpFlows,
    WorkloadFlows,
)
from ccmix.units import format_bytes, format_percent, format_rate, format_time


def loss(value: Loss | None) -> str:
    if value is None:
        return format_percent(0)
    shares = " ".join(map(format_percent, value.parameters))
    return shares if value.model == "random" else f"{value.model} {shares}"


def queue(path: Topology) -> str:
    """'buffer 1.25 MB', with the queue discipline where it is not the FIFO of bytes that stands for itself."""
    buffer = f"buffer {format_bytes(path.buffer_bytes)}"
    if path.queue.kind == "bfifo":
        return buffer
    return f"{buffer}, {' '.join([path.queue.kind, *path.queue.parameters])}"


def base_rtts(path: Topology) -> str:
    """'10 ms', or the range of several hosts: '10 ms to 160 ms'."""
    rtts_s = sorted({sender.base_rtt_s for sender in path.senders})
    return " to ".join(format_time(rtt_s) for rtt_s in ([rtts_s[0], rtts_s[-1]] if len(rtts_s) > 1 else rtts_s))


def losses(path: Topology) -> str:
    return " or ".join(dict.fromkeys(loss(sender.loss) for sender in path.senders))


def own_path(sender: Sender) -> str:
    """What netem does to the data of a sender: 'delay 5 ms, loss 0.1%'."""
    parts = [f"delay {format_time(sender.delay_s)}"]
    if sender.jitter_s:
        parts[0] += f" ± {format_time(sender.jitter_s)}"
    if sender.loss:
        parts.append(f"loss {loss(sender.loss)}")
    if sender.reorder:
        parts.append(f"reorder {format_percent(sender.reorder)}")
    return ", ".join(parts)


def rate(path: Topology) -> str:
    return f"{path.shaper} {format_rate(path.rate_bps)}"


def way_back(sender: Sender) -> str:
    """What netem does to the ACKs of a sender."""
    return own_path(Sender(sender.name, sender.delay_s, jitter_s=sender.jitter_s))


def change(one: Change) -> str:
    """'rate 500 Mbit/s' or 'h2: delay 20 ms'."""
    of_host = f"{one.sender}: " if one.sender else ""
    if one.rate_bps is not None:
        return f"rate {format_rate(one.rate_bps)}"
    return of_host + (f"delay {format_time(one.delay_s)}" if one.delay_s is not None else f"loss {loss(one.loss)}")


def flows(line: Flows, hosts: str) -> str:
    """'short: h1 bbr:1'; the line may be that of several hosts."""
    match line.what:
        case Iperf3Flows(groups=groups):
            what = ",".join(map(str, groups))
        case UdpFlows(rate_bps=rate_bps, udp_streams=streams):
            what = f"udp, {streams} x {format_rate(rate_bps)}"
        case HttpFlows() as http:
            size = format_bytes(http.size_bytes)
            what = f"http, {http.requests} requests of {size}, {http.parallel} at a time, {http.http_cca}"
        case WorkloadFlows() as load:
            what = f"workload {load.distribution}, {format_rate(load.offered_bps)} offered, {load.workload_cca}"
        case CommandFlows(line=shell):
            what = f"command: {shell}"
    late = f", from {format_time(line.start_s)} on" if line.start_s else ""
    return f"{line.name}: {hosts} {what}{late}"
