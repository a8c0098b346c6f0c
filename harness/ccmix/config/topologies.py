"""Turns the settings of an entry into an emulated path, and finds contradictions among them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ccmix.config.flows import check_known
from ccmix.config.host_values import capture_in_router
from ccmix.config.keys import Member
from ccmix.config.problems import Contradiction, nearest, quoted
from ccmix.config.queues import MOST_BANDWIDTH_BPS, red_refusal
from ccmix.config.senders import MOST_HOSTS, AskedPolicer, Delays, delays_of
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
MOST_DURATION_S, MOST_OMIT_S = (
    86400,
    600,
)  # iperf3's own limits (MAX_TIME and MAX_OMIT_TIME in iperf.h)
MOST_ARRIVALS = 1_000_000  # each is a connection
CONTROL_WAITS_S = 10.0  # for the results of the other end (nread_read_timeout of iperf3's net.c)
# until TCP resends a packet of an idle connection: smoothed RTT and its variation (RFC 6298)
DOUBT_RTTS = 2
# Messages that iperf3's control connection sends in a test, one after the other, and about how
# often TCP resends each of them within 10 s: after 0.2 s, then each time after twice the last wait
# (RFC 6298). iperf3 fails if one message gets lost
CONTROL_MESSAGES, CONTROL_TRIES = 12, 6
CONNECTION_TRIES = 128  # of a stream's first packet, see PATIENT of conditions/dumbbell.py
MOST_FAILURES = 0.02  # of tests
MOST_BUCKET_S = (
    2**32 * 64e-9
)  # a full bucket at its rate, in ticks of 64 ns (PSCHED_SHIFT in Linux's pkt_sched.h)
MOST_BUFFER_BYTES = 2**32 - 1  # tbf's limit is of 32 bits (struct tc_tbf_qopt)


def topology(settings: Mapping[str, Any], parameter: ModuleParameter | None = None) -> Topology:
    """Returns the path, with a module's parameter if one is swept. Raises Contradiction."""
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
    return (
        None
        if asked is None
        else asked.on_link(settings["rate"], settings["mtu"], settings["offloads"])
    )


def _ack_bottleneck(settings: Mapping[str, Any]) -> AckBottleneck | None:
    rate_bps, buffer = settings.get("ack-rate"), settings.get("ack-buffer")
    if rate_bps is None and buffer is not None:
        raise Contradiction(
            "ack-buffer", "has no effect without ack-rate, because ACKs then pass no bottleneck"
        )
    return None if rate_bps is None else AckBottleneck(rate_bps, buffer or Buffer(1, "bdp"))


def _senders(settings: Mapping[str, Any]) -> tuple[Sender, ...]:
    """Returns the senders of `hosts` and of host.NAME, in this order, or only h1 without any.

    A later setting of a host overrides an earlier one.
    """
    own: dict[str, dict[str, Any]] = {
        f"h{number}": {} for number in range(1, settings.get("hosts", 0) + 1)
    }
    delays: dict[str, list[Delays]] = {}  # of each host, those that override the next ones first
    for _, sender in _members(settings, "host."):
        for name in sender.name:
            own[name] = own.get(name, {}) | sender.value
            delays.setdefault(name, []).insert(0, sender.value["delays"])
    own = own or {"h1": {}}
    if len(own) > MOST_HOSTS:
        raise Contradiction(
            "hosts" if "hosts" in settings else None,
            f"makes {len(own)} hosts, more than {MOST_HOSTS}",
        )
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
            receiver_window_bytes=given.get(
                "receiver_window_bytes", settings.get("receiver-window")
            ),
        ).delayed(*_delays_of_host(name, [*delays.get(name, ()), of_all]))
        for name, given in own.items()
    )


def _delays_of_host(name: str, delays: Sequence[Delays]) -> tuple[float, float]:
    """Returns the delays of data and of ACKs, each from the first of `delays` that has it."""
    data_s = next((given.data_s for given in delays if given.data_s is not None), None)
    acks_s = next((given.acks_s for given in delays if given.acks_s is not None), None)
    if data_s is None and acks_s is None:
        raise Contradiction(
            "delay",
            f"host {name} has no delay: write delay = ... for all hosts, or delay ... in its line",
        )
    if data_s is None or acks_s is None:
        lacking, given_key = (
            ("data-delay", "ack-delay") if data_s is None else ("ack-delay", "data-delay")
        )
        raise Contradiction(
            lacking,
            f"is missing: host {name} has only {given_key}. Write {lacking} too, or delay instead "
            "of "
            "both",
        )
    return data_s, acks_s


def _changes(settings: Mapping[str, Any], hosts: Sequence[str]) -> tuple[Change, ...]:
    changes: list[Change] = []
    keys: dict[float, str] = {}
    seconds = settings["omit"] + settings["duration"].seconds
    for key, moment in _members(settings, "at."):
        at_s = moment.name
        if (other := keys.setdefault(at_s, key)) != key:
            raise Contradiction(
                key,
                f"is the same time as {other}: write one line, with commas between the changes",
            )
        if at_s >= seconds:
            raise Contradiction(
                key, f"changes nothing: the traffic (omit and duration) takes {seconds:g} s"
            )
        if settings["duration"].settled and at_s > settings["omit"]:
            raise Contradiction(
                key, "changes goodput, so the run can't settle: write a time for duration"
            )
        for change in moment.value:
            sender = None if isinstance(change, RateChange) else change.sender
            if sender is not None and sender not in hosts:
                raise Contradiction(
                    key, f"{quoted(sender)} is not a host of the path{nearest(sender, hosts)}"
                )
            changes.append(replace(change, at_s=at_s))
    return tuple(sorted(changes, key=lambda change: change.at_s))


def _members(settings: Mapping[str, Any], prefix: str) -> list[tuple[str, Member]]:
    return [(name, value) for name, value in settings.items() if name.startswith(prefix)]


def traffic_of(settings: Mapping[str, Any], sources: Sequence[TrafficSource]) -> Traffic:
    """Returns the traffic of these sources, with the times from an entry's keys."""
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
    """Checks that each CCA is known. Not for the user's own lab kernels, which may have more CCAs.

    Raises Contradiction.
    """
    for source in traffic.sources:
        try:
            check_known(replace(traffic, sources=(source,)).ccas)
        except ValueError as error:
            raise Contradiction(
                f"flows.{source.name}" if source.name else "cca", str(error)
            ) from None


def check_traffic(traffic: Traffic, port: int) -> None:
    """Checks the traffic of ccmix's own iperf3, whose first server listens on the port. Raises
    Contradiction.
    """
    asked = traffic.rtt_probe and traffic.rtt_probe.tcp_port
    servers = max(1, len(traffic.named_sources) + (traffic.test is not None))
    if asked and port <= asked < port + servers:
        raise Contradiction(
            "rtt-probe",
            f"asks port {asked}, where iperf3's server takes each question for a test: "
            "write another port",
        )
    if traffic.streams and 0 in streams_of_groups(traffic.groups, traffic.streams):
        number = len(traffic.groups)
        raise Contradiction(
            "cca",
            f"has {number} groups, but with streams = {traffic.streams} some get no stream: write "
            "more streams",
        )
    if not LEAST_INTERVAL_S <= traffic.interval_s <= min(MOST_INTERVAL_S, traffic.measured_s):
        raise Contradiction(
            "interval",
            f"{traffic.interval_s:g}s is not possible: write 1ms to 60s, and at most duration",
        )
    for key, seconds, most in (
        ("duration", traffic.measured_s, MOST_DURATION_S),
        ("omit", traffic.omit_s, MOST_OMIT_S),
    ):
        if seconds != int(seconds) or seconds > most:
            raise Contradiction(
                key, f"{seconds:g}s is not possible: iperf3 takes whole seconds, at most {most}"
            )
    _check_sources(traffic)
    if traffic.steps:
        _check_steps(traffic)
    elif traffic.at_most_s is not None:
        _check_settled(traffic)


def _check_steps(traffic: Traffic) -> None:
    """Checks that the steps that measure a path have enough time and a probe. Raises
    Contradiction.
    """
    if traffic.at_most_s is not None or not LEAST_STEPS_S <= traffic.measured_s <= MOST_STEPS_S:
        raise Contradiction(
            "duration",
            f"must be a time from {LEAST_STEPS_S} to {MOST_STEPS_S} s in an entry of type path",
        )
    if traffic.rtt_probe is None:
        raise Contradiction(
            "rtt-probe", "is none, but an entry of type path reads delays from it: write icmp@100"
        )


def _check_settled(traffic: Traffic) -> None:
    """Checks that iperf3's goodput can show whether a run has settled."""
    for source in traffic.sources:
        key = f"flows.{source.name}" if source.name else "duration"
        if isinstance(source, PschedulerSource):
            raise Contradiction(
                key,
                "can't be settled, because pScheduler's runs can't be ended early: write a time",
            )
        if not isinstance(source, Iperf3Source | UdpSource):
            raise Contradiction(
                key,
                f"is {source.kind}, whose goodput can't be seen during a run, so duration can't "
                "be settled: write a time for duration",
            )
        groups = source.groups if isinstance(source, Iperf3Source) else ()
        begins_s = source.start_s + max((group.delay_s for group in groups), default=0.0)
        if begins_s > traffic.omit_s:
            raise Contradiction(
                "omit" if not source.name else key,
                f"traffic starts after {begins_s:g} s, but a run can settle only once all "
                f"has started: write omit = {begins_s:g}s or more",
            )


def _check_sources(traffic: Traffic) -> None:
    lasts = f"but the traffic (omit and duration) takes {traffic.total_s:g} s"
    for source in traffic.sources:
        key = f"flows.{source.name}" if source.name else "cca"
        if source.start_s >= traffic.total_s:
            raise Contradiction(key, f"starts after {source.start_s:g} s, {lasts}")
        if (
            isinstance(source, WorkloadSource)
            and (number := _arrivals(source, traffic.total_s)) > MOST_ARRIVALS
        ):
            raise Contradiction(
                key, f"makes {number:.3g} flows, more than {MOST_ARRIVALS}: write less load"
            )
        if isinstance(source, GroupedSource):
            _check_delays(key, source.groups, traffic.total_s, lasts)


def _check_delays(key: str, groups: Iterable[Group], seconds: float, lasts: str) -> None:
    for group in groups:
        if group.delay_s >= seconds:
            raise Contradiction(
                key, f"has a group of {group.cca} that starts after {group.delay_s:g} s, {lasts}"
            )


def _arrivals(workload: WorkloadSource, seconds: float) -> float:
    """Returns the expected number of flows."""
    return workload.offered_bps * seconds / 8 / mean_bytes(workload.sizes)


def check_topology(path: Topology) -> None:
    """Raises Contradiction."""
    if path.buffer.kind == "bdp" and path.base_rtt_s == 0:
        raise Contradiction(
            "buffer",
            "is given in BDP, but the BDP of a path without delay is 0: write bytes or packets",
        )
    if path.buffer_bytes > MOST_BUFFER_BYTES:
        size, most = format_bytes(path.buffer_bytes), format_bytes(MOST_BUFFER_BYTES)
        raise Contradiction("buffer", f"comes to {size}, but {path.shaper} holds at most {most}")
    _check_policer(path)
    _check_ack_bottleneck(path)
    if path.burst_bytes is not None and path.burst_bytes < path.packet_bytes:
        raise Contradiction(
            "burst",
            "holds less than a packet with its Ethernet header: write at least "
            f"{path.packet_bytes}b",
        )
    slowest_bps = min(phase.rate_bps for _, phase in path.phases)
    if path.burst_bytes is not None and path.burst_bytes * 8 / slowest_bps > MOST_BUCKET_S:
        raise Contradiction(
            "burst",
            f"is more than {int(MOST_BUCKET_S)} s at {format_rate(slowest_bps)}, which tc "
            "can't count: write less",
        )
    repaired_s = DOUBT_RTTS * path.base_rtt_s + path.longest_rtt_s
    if path.control == "path" and repaired_s > CONTROL_WAITS_S:
        raise Contradiction(
            "buffer",
            f"makes a round trip of {path.longest_rtt_s:.3g} s when it is full. If it drops a "
            f"packet of iperf3's control connection, the answer comes after {repaired_s:.3g} s, "
            f"but iperf3 gives up after {CONTROL_WAITS_S:g} s: write a smaller buffer, a shorter "
            "delay, or control = beside",
        )
    for sender in path.senders:
        if sender.jitter_s > min(sender.delay_s, sender.delay_of_acks_s):
            raise Contradiction(
                "jitter",
                f"of {sender.name} is more than its delay, but a packet can't arrive before it was "
                "sent: write less jitter",
            )
        if sender.reorder and not sender.delay_s:
            raise Contradiction(
                "reorder",
                f"of {sender.name} lets packets skip the delay, but {sender.name} has none: write "
                "a delay",
            )
        if sender.queue.kind == "noqueue" and sender.rate_bps is not None:
            raise Contradiction(
                "sender-qdisc",
                f"of {sender.name} is noqueue, but packets must wait in a queue for the rate of "
                "its "
                "device: write pfifo, for instance",
            )
    windows = {sender.receiver_window_bytes for sender in path.senders}
    if path.receivers == "one" and len(windows) > 1:
        raise Contradiction(
            "receiver-window",
            "differs between hosts, which share one receiver with receivers = one: write one "
            "window",
        )
    for loss in dict.fromkeys(
        sender.loss for _, phase in path.phases for sender in phase.senders if sender.loss
    ):
        _check_bursts(path, loss)
    _check_queue(path)


def _check_bursts(path: Topology, loss: Loss) -> None:
    """Checks that connections outlast the loss. Raises Contradiction."""
    if (
        path.control == "path"
        and CONTROL_MESSAGES * loss.all_lost(1 + CONTROL_TRIES) > MOST_FAILURES
    ):
        raise Contradiction(
            "loss",
            "loses so many packets in a row that iperf3's control connection fails in some tests: "
            "write control = beside",
        )
    if loss.all_lost(CONNECTION_TRIES) > MOST_FAILURES:
        raise Contradiction(
            "loss",
            f"loses {CONNECTION_TRIES} packets in a row too often, so connections can't be made: "
            "write less loss",
        )


def _check_policer(path: Topology) -> None:
    """Checks that the policer's bucket holds the largest packet, and that tc can count it. Raises
    Contradiction.
    """
    policer = path.policer
    if policer is None:
        return
    largest_bytes, what = path.packet_bytes, "a packet with its Ethernet header"
    if path.offloads:
        largest_bytes, what = (
            SUPER_PACKET_BYTES,
            "a super-packet (offloads = on makes them, and a policer drops them whole)",
        )
    if policer.burst_bytes < largest_bytes:
        raise Contradiction(
            "policer",
            f"has a burst that holds less than {what}: write at least {largest_bytes}b, "
            "or leave it out",
        )
    if policer.burst_bytes * 8 / policer.rate_bps > MOST_BUCKET_S:
        raise Contradiction(
            "policer",
            f"has a burst of more than {int(MOST_BUCKET_S)} s of its rate, which tc can't "
            "count: write less",
        )


def _check_ack_bottleneck(path: Topology) -> None:
    acks = path.ack_bottleneck
    if acks is None:
        return
    if acks.buffer.kind == "bdp" and path.base_rtt_s == 0:
        raise Contradiction(
            "ack-buffer",
            "is given in BDP, but the BDP of a path without delay is 0: write bytes or packets",
        )
    if path.ack_limit > MOST_BUFFER_BYTES:
        unit = "packets" if acks.counts_packets else "bytes"
        raise Contradiction(
            "ack-buffer", f"is more than its queue holds: write at most {MOST_BUFFER_BYTES} {unit}"
        )


def check_pacing(path: Topology, traffic: Traffic) -> None:
    """Checks that the senders' queues can pace, if the key pacing is set. Raises Contradiction."""
    for sender in path.senders:
        if not traffic.paces(sender.name):
            continue
        if sender.queue.kind != "fq" or "nopacing" in sender.queue.parameters:
            raise Contradiction(
                "pacing",
                f"needs fq, but {sender.name} has sender-qdisc {sender.queue}: write fq there, or "
                "write cca = CCA@RATE instead of pacing, so that TCP itself paces",
            )
        if "maxrate" in sender.queue.parameters:
            raise Contradiction(
                "pacing",
                f"limits a flow's rate, as does maxrate in the sender-qdisc of {sender.name}: "
                "remove "
                "one",
            )


def _check_queue(path: Topology) -> None:
    """Checks RED's thresholds against the buffer, and the averaging of RED and CHOKe against the
    rate.
    """
    queue = path.queue
    holds = {"red": path.buffer_bytes, "choke": path.buffer_packets}.get(queue.kind)
    if holds is None:
        return
    unit = "b" if queue.kind == "red" else " packets"
    for name in ("min", "max"):
        if (value := queue.parameter(name)) and int(value) > holds:
            raise Contradiction(
                "qdisc",
                f"{queue.kind} has a {name} of {value}{unit}, more than the buffer of "
                f"{holds}{unit}",
            )
    if path.rate_bps > MOST_BANDWIDTH_BPS and queue.parameter("bandwidth") is None:
        most = format_rate(MOST_BANDWIDTH_BPS)
        raise Contradiction(
            "qdisc",
            f"{queue.kind} uses the rate as its bandwidth, which can be at most {most}: write "
            "bandwidth 34gbit",
        )
    if refusal := red_refusal(queue, holds, path.packet_bytes):
        raise Contradiction("qdisc", refusal)
