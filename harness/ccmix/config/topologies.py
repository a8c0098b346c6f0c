"""Settings of an entry on an emulated path to that path, and what they say against each other."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ccmix.config.capture import capture_in_router
from ccmix.config.groups import check_known
from ccmix.config.keys import Member
from ccmix.config.policers import AskedPolicer
from ccmix.config.problems import Contradiction, nearest, quoted
from ccmix.config.queues import MOST_BANDWIDTH_BPS
from ccmix.config.red import red_refusal
from ccmix.config.senders import MOST_HOSTS, Delays, delays_of
from ccmix.config.values import LEAST_INTERVAL_S, MOST_INTERVAL_S, Duration
from ccmix.generators.distributions import mean_bytes
from ccmix.model import (
    AckBottleneck,
    Buffer,
    Change,
    Group,
    GroupedSource,
    Iperf3Source,
    Loss,
    ModuleParameter,
    Policer,
    PschedulerSource,
    RateChange,
    Sender,
    Topology,
    Traffic,
    TrafficSource,
    UdpSource,
    WorkloadSource,
)
from ccmix.model.emulated import SUPER_PACKET_BYTES
from ccmix.model.group_grammar import streams_of_groups
from ccmix.units import format_bytes, format_rate

LEAST_STEPS_S, MOST_STEPS_S = 30, 600
MOST_DURATION_S, MOST_OMIT_S = 86400, 600  # iperf3's own limits (MAX_TIME and MAX_OMIT_TIME in iperf.h)
MOST_ARRIVALS = 1_000_000  # each is a connection
CONTROL_WAITS_S = 10.0  # for the other end's results (nread_read_timeout of iperf3's net.c)
DOUBT_RTTS = 2  # until TCP misses a packet of a connection that was idle: smoothed RTT and its variation (RFC 6298)
# iperf3's control connection sends so many messages a test, one after the other. Within those 10 s TCP sends each again
# about so many times, 0.2 s after it and then after twice the time before (RFC 6298), and iperf3 fails with one of them
CONTROL_MESSAGES, CONTROL_TRIES = 12, 6
CONNECTION_TRIES = 128  # of a stream's first packet, see PATIENT of conditions/dumbbell.py
MOST_FAILURES = 0.02  # of tests
MOST_BUCKET_S = 2**32 * 64e-9  # a full bucket at its rate, in ticks of 64 ns (PSCHED_SHIFT in Linux's pkt_sched.h)
MOST_BUFFER_BYTES = 2**32 - 1  # tbf's limit is of 32 bits (struct tc_tbf_qopt)


def topology(settings: Mapping[str, Any], parameter: ModuleParameter | None = None) -> Topology:
    """Returns the path with a module's parameter, where one is swept. Raises Contradiction."""
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
        changes=_changes(settings, [sender.name for sender in senders]),
        capture=capture_in_router(settings) if settings["tcpdump"] else None,
        kernel=settings["kernel"],
        host_root=settings["host-root"],
        module_parameter=parameter,
        name=settings["topology"],
    )


def _policer(settings: Mapping[str, Any]) -> Policer | None:
    asked: AskedPolicer | None = settings["policer"]
    return None if asked is None else asked.on_link(settings["rate"], settings["mtu"], settings["offloads"])


def _ack_bottleneck(settings: Mapping[str, Any]) -> AckBottleneck | None:
    rate_bps, buffer = settings.get("ack-rate"), settings.get("ack-buffer")
    if rate_bps is None and buffer is not None:
        raise Contradiction("ack-buffer", "has no effect: without ack-rate, ACKs pass no bottleneck")
    return None if rate_bps is None else AckBottleneck(rate_bps, buffer or Buffer(1, "bdp"))


def _senders(settings: Mapping[str, Any]) -> tuple[Sender, ...]:
    """Returns the senders of `hosts` and of host.NAME, in this order, or h1 alone without any.

    A later setting of a host overrides an earlier one.
    """
    own: dict[str, dict[str, Any]] = {f"h{number}": {} for number in range(1, settings.get("hosts", 0) + 1)}
    delays: dict[str, list[Delays]] = {}  # of each host, the ones that override others first
    for _, sender in _members(settings, "host."):
        for name in sender.name:
            own[name] = own.get(name, {}) | sender.value
            delays.setdefault(name, []).insert(0, sender.value["delays"])
    own = own or {"h1": {}}
    if len(own) > MOST_HOSTS:
        raise Contradiction("hosts" if "hosts" in settings else None, f"has {len(own)} hosts, more than {MOST_HOSTS}")
    of_all = delays_of(settings)
    return tuple(
        Sender(
            name,
            delay_s=0.0,
            loss=given.get("loss", settings["loss"]),
            jitter_s=given.get("jitter_s", settings["jitter"]),
            reorder=given.get("reorder", settings["reorder"]),
            rate_bps=given.get("rate_bps"),
            queue=given.get("queue", settings["sender-qdisc"]),
            receiver_window_bytes=given.get("receiver_window_bytes", settings.get("receiver-window")),
        ).delayed(*_delays_of_host(name, [*delays.get(name, ()), of_all]))
        for name, given in own.items()
    )


def _delays_of_host(name: str, delays: Sequence[Delays]) -> tuple[float, float]:
    """Returns the delay of data and that of ACKs, each the first that is given."""
    data_s = next((given.data_s for given in delays if given.data_s is not None), None)
    acks_s = next((given.acks_s for given in delays if given.acks_s is not None), None)
    if data_s is None and acks_s is None:
        message = f"host {name} has no delay: write delay = ... for all hosts, or delay ... in its line"
        raise Contradiction("delay", message)
    if data_s is None or acks_s is None:
        lacking, given_key = ("data-delay", "ack-delay") if data_s is None else ("ack-delay", "data-delay")
        message = f"is missing: host {name} has {given_key} alone; write {lacking} too, or delay instead of both"
        raise Contradiction(lacking, message)
    return data_s, acks_s


def _changes(settings: Mapping[str, Any], hosts: Sequence[str]) -> tuple[Change, ...]:
    changes: list[Change] = []
    keys: dict[float, str] = {}
    seconds = settings["omit"] + settings["duration"].seconds
    for key, moment in _members(settings, "at."):
        at_s = moment.name
        if (other := keys.setdefault(at_s, key)) != key:
            raise Contradiction(key, f"is the same moment as {other}: write one line, with commas between the changes")
        if at_s >= seconds:
            raise Contradiction(key, f"changes nothing: the traffic, omit and duration, takes {seconds:g} s")
        if settings["duration"].settled and at_s > settings["omit"]:
            raise Contradiction(key, "changes goodput, so that the run can't settle: give duration a time")
        for change in moment.value:
            sender = None if isinstance(change, RateChange) else change.sender
            if sender is not None and sender not in hosts:
                raise Contradiction(key, f"names the host {quoted(sender)}{nearest(sender, hosts)}")
            changes.append(replace(change, at_s=at_s))
    return tuple(sorted(changes, key=lambda change: change.at_s))


def _members(settings: Mapping[str, Any], prefix: str) -> list[tuple[str, Member]]:
    return [(name, value) for name, value in settings.items() if name.startswith(prefix)]


def traffic_of(settings: Mapping[str, Any], sources: Sequence[TrafficSource]) -> Traffic:
    """Returns the traffic of these sources with the times that an entry's keys give."""
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


def check_ccas(traffic: Traffic) -> None:
    """Checks that each CCA is known; a lab kernel of the user's may have others. Raises Contradiction."""
    for source in traffic.sources:
        try:
            check_known(replace(traffic, sources=(source,)).ccas)
        except ValueError as error:
            raise Contradiction(f"flows.{source.name}" if source.name else "cca", str(error)) from None


def check_traffic(traffic: Traffic, port: int) -> None:
    """Checks the traffic of ccmix's own iperf3, whose first server has the port. Raises Contradiction."""
    asked = traffic.rtt_probe and traffic.rtt_probe.tcp_port
    servers = max(1, len(traffic.named_sources) + (traffic.test is not None))
    if asked and port <= asked < port + servers:
        message = f"asks port {asked}, where iperf3's server takes each question for a test: give another port"
        raise Contradiction("rtt-probe", message)
    if traffic.streams and 0 in streams_of_groups(traffic.groups, traffic.streams):
        number = len(traffic.groups)
        raise Contradiction("cca", f"names {number} groups, and with streams = {traffic.streams} not each gets one")
    if not LEAST_INTERVAL_S <= traffic.interval_s <= min(MOST_INTERVAL_S, traffic.measured_s):
        message = f"{traffic.interval_s:g}s: the probes take 1ms to 60s, and no more than duration"
        raise Contradiction("interval", message)
    for key, seconds, most in (
        ("duration", traffic.measured_s, MOST_DURATION_S), ("omit", traffic.omit_s, MOST_OMIT_S)
    ):  # fmt: skip
        if seconds != int(seconds) or seconds > most:
            raise Contradiction(key, f"{seconds:g}s: iperf3 takes whole seconds, {most} at most")
    _check_sources(traffic)
    if traffic.steps:
        _check_steps(traffic)
    elif traffic.at_most_s is not None:
        _check_settled(traffic)


def _check_steps(traffic: Traffic) -> None:
    """Checks that the steps that measure a path have the time and the probe that they need. Raises Contradiction."""
    if traffic.at_most_s is not None or not LEAST_STEPS_S <= traffic.measured_s <= MOST_STEPS_S:
        message = f"is of an entry of type path, whose steps take {LEAST_STEPS_S} to {MOST_STEPS_S} s"
        raise Contradiction("duration", message)
    if traffic.rtt_probe is None:
        raise Contradiction("rtt-probe", "is none, and an entry of type path reads delays from it: write icmp@100")


def _check_settled(traffic: Traffic) -> None:
    """Checks that it can be seen in iperf3's goodput whether a run has settled."""
    for source in traffic.sources:
        key = f"flows.{source.name}" if source.name else "duration"
        if isinstance(source, PschedulerSource):
            raise Contradiction(
                key, "ends a run once it has settled, and pScheduler's runs can't be ended: give a time"
            )
        if not isinstance(source, Iperf3Source | UdpSource):
            message = (
                f"is {source.kind}, whose goodput nobody sees during a run: duration can't be settled, give a time"
            )
            raise Contradiction(key, message)
        groups = source.groups if isinstance(source, Iperf3Source) else ()
        begins_s = source.start_s + max((group.delay_s for group in groups), default=0.0)
        if begins_s > traffic.omit_s:
            message = f"begins after {begins_s:g} s, and a run can settle only with all traffic: omit at least that"
            raise Contradiction("omit" if not source.name else key, message)


def _check_sources(traffic: Traffic) -> None:
    lasts = f"and the traffic, omit and duration, takes {traffic.total_s:g} s"
    for source in traffic.sources:
        key = f"flows.{source.name}" if source.name else "cca"
        if source.start_s >= traffic.total_s:
            raise Contradiction(key, f"begins after {source.start_s:g} s, {lasts}")
        if isinstance(source, WorkloadSource) and (number := _arrivals(source, traffic.total_s)) > MOST_ARRIVALS:
            raise Contradiction(key, f"comes to {number:.3g} flows, {MOST_ARRIVALS} at most: give it less load")
        if isinstance(source, GroupedSource):
            _check_delays(key, source.groups, traffic.total_s, lasts)


def _check_delays(key: str, groups: Iterable[Group], seconds: float, lasts: str) -> None:
    for group in groups:
        if group.delay_s >= seconds:
            raise Contradiction(key, f"a group of {group.cca} begins after {group.delay_s:g} s, {lasts}")


def _arrivals(workload: WorkloadSource, seconds: float) -> float:
    """Returns how many flows are to be expected."""
    return workload.offered_bps * seconds / 8 / mean_bytes(workload.sizes)


def check_topology(path: Topology) -> None:
    """Raises Contradiction."""
    if path.buffer.kind == "bdp" and path.base_rtt_s == 0:
        raise Contradiction(
            "buffer", "is given in BDP, and the BDP of a path without delay is 0: give bytes or packets"
        )
    if path.buffer_bytes > MOST_BUFFER_BYTES:
        size, most = format_bytes(path.buffer_bytes), format_bytes(MOST_BUFFER_BYTES)
        raise Contradiction("buffer", f"comes to {size}: {path.shaper} holds {most} at most")
    _check_policer(path)
    _check_ack_bottleneck(path)
    if path.burst_bytes is not None and path.burst_bytes < path.packet_bytes:
        message = f"holds less than a packet with its Ethernet header: write at least {path.packet_bytes}b"
        raise Contradiction("burst", message)
    slowest_bps = min(phase.rate_bps for _, phase in path.phases)
    if path.burst_bytes is not None and path.burst_bytes * 8 / slowest_bps > MOST_BUCKET_S:
        message = f"is more than {int(MOST_BUCKET_S)} s of {format_rate(slowest_bps)}, which tc can't count: write less"
        raise Contradiction("burst", message)
    repaired_s = DOUBT_RTTS * path.base_rtt_s + path.longest_rtt_s
    if path.control == "path" and repaired_s > CONTROL_WAITS_S:
        message = (
            f"makes a round trip of {path.longest_rtt_s:.3g} s when it is full. If it drops a packet of iperf3's "
            f"control connection, the answer comes after {repaired_s:.3g} s, and iperf3 gives up after "
            f"{CONTROL_WAITS_S:g} s: write a smaller buffer, a shorter delay, or control = beside"
        )
        raise Contradiction("buffer", message)
    for sender in path.senders:
        if sender.jitter_s > min(sender.delay_s, sender.delay_of_acks_s):
            raise Contradiction(
                "jitter", f"of {sender.name} is more than its delay: no packet can be early before it was sent"
            )
        if sender.reorder and not sender.delay_s:
            raise Contradiction("reorder", f"of {sender.name} lets packets pass without delay, and it has none")
        if sender.queue.kind == "noqueue" and sender.rate_bps is not None:
            raise Contradiction(
                "sender-qdisc",
                f"of {sender.name} is noqueue, and its device has a rate, behind which packets must wait",
            )
    windows = {sender.receiver_window_bytes for sender in path.senders}
    if path.receivers == "one" and len(windows) > 1:
        raise Contradiction("receiver-window", "differs between hosts, and receivers = one: a receiver has one window")
    for loss in dict.fromkeys(sender.loss for _, phase in path.phases for sender in phase.senders if sender.loss):
        _check_bursts(path, loss)
    _check_queue(path)


def _check_bursts(path: Topology, loss: Loss) -> None:
    """Checks that connections outlast the loss. Raises Contradiction."""
    if path.control == "path" and CONTROL_MESSAGES * loss.all_lost(1 + CONTROL_TRIES) > MOST_FAILURES:
        message = "loses so much in a row that iperf3's control connection fails in some tests: write control = beside"
        raise Contradiction("loss", message)
    if loss.all_lost(CONNECTION_TRIES) > MOST_FAILURES:
        message = f"loses {CONNECTION_TRIES} packets in a row too often, and no connection is made: write less loss"
        raise Contradiction("loss", message)


def _check_policer(path: Topology) -> None:
    """Checks that the policer's bucket holds what passes it at once, and that tc can count it. Raises Contradiction."""
    policer = path.policer
    if policer is None:
        return
    largest_bytes, what = path.packet_bytes, "a packet with its Ethernet header"
    if path.offloads:
        largest_bytes, what = SUPER_PACKET_BYTES, "a super-packet, which offloads = on make and a policer drops whole"
    if policer.burst_bytes < largest_bytes:
        message = f"has a burst that holds less than {what}: write at least {largest_bytes}b, or leave it out"
        raise Contradiction("policer", message)
    if policer.burst_bytes * 8 / policer.rate_bps > MOST_BUCKET_S:
        message = f"has a burst of more than {int(MOST_BUCKET_S)} s of its rate, which tc can't count: write less"
        raise Contradiction("policer", message)


def _check_ack_bottleneck(path: Topology) -> None:
    acks = path.ack_bottleneck
    if acks is None:
        return
    if acks.buffer.kind == "bdp" and path.base_rtt_s == 0:
        message = "is given in BDP, and the BDP of a path without delay is 0: give bytes or packets"
        raise Contradiction("ack-buffer", message)
    if path.ack_limit > MOST_BUFFER_BYTES:
        unit = "packets" if acks.counts_packets else "bytes"
        message = f"is more than its queue holds: write {MOST_BUFFER_BYTES} {unit} at most"
        raise Contradiction("ack-buffer", message)


def check_pacing(path: Topology, traffic: Traffic) -> None:
    """Checks that the senders' queues can pace, as the key pacing asks. Raises Contradiction."""
    for sender in path.senders:
        if not traffic.paces(sender.name):
            continue
        if sender.queue.kind != "fq" or "nopacing" in sender.queue.parameters:
            message = (
                f"needs fq, and {sender.name} has sender-qdisc {sender.queue}: write fq there, or cca = CCA@RATE "
                "instead of pacing, which TCP itself does"
            )
            raise Contradiction("pacing", message)
        if "maxrate" in sender.queue.parameters:
            message = (
                f"and the maxrate of the sender-qdisc of {sender.name} both say how fast a flow may be: remove one"
            )
            raise Contradiction("pacing", message)


def _check_queue(path: Topology) -> None:
    """Checks RED's thresholds against the buffer, and its and CHOKe's averaging against the rate."""
    queue = path.queue
    holds = {"red": path.buffer_bytes, "choke": path.buffer_packets}.get(queue.kind)
    if holds is None:
        return
    unit = "b" if queue.kind == "red" else " packets"
    for name in ("min", "max"):
        if (value := queue.parameter(name)) and int(value) > holds:
            raise Contradiction(
                "qdisc", f"{queue.kind} has for {name} {value}{unit}, more than the buffer, {holds}{unit}"
            )
    if path.rate_bps > MOST_BANDWIDTH_BPS and queue.parameter("bandwidth") is None:
        most = format_rate(MOST_BANDWIDTH_BPS)
        raise Contradiction(
            "qdisc", f"{queue.kind} takes the rate for its bandwidth, {most} at most: write bandwidth 34gbit"
        )
    if refusal := red_refusal(queue, holds, path.packet_bytes):
        raise Contradiction("qdisc", refusal)
