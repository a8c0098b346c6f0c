"""Checks the values of an entry against each other, and against the limits of tc and iperf3.

Each check raises Contradiction with the key to change.
"""

from collections.abc import Iterable
from dataclasses import replace

from ccmix.config.flows import check_known
from ccmix.config.problems import Contradiction
from ccmix.config.queues import MOST_BANDWIDTH_BPS, red_refusal
from ccmix.config.values import LEAST_INTERVAL_S, MOST_INTERVAL_S
from ccmix.generators.distributions import mean_bytes
from ccmix.model import (
    Buffer,
    Group,
    GroupedSource,
    Iperf3Source,
    Loss,
    PschedulerSource,
    Topology,
    Traffic,
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


def check_ccas(traffic: Traffic) -> None:
    """Checks that each CCA is in Linux or one of ccmix's BBR versions. Called only for the stock
    kernel: kernels that users build for the lab may have more CCAs. Raises Contradiction with the
    key of the source of traffic that has an unknown CCA.
    """
    for source in traffic.sources:
        source_alone = replace(traffic, sources=(source,))
        try:
            check_known(source_alone.ccas)
        except ValueError as error:
            raise Contradiction(
                f"flows.{source.name}" if source.name else "cca", str(error)
            ) from None


def check_traffic(traffic: Traffic, port: int) -> None:
    """Checks the times, streams and ports of the traffic against the limits of iperf3. Raises
    Contradiction. The server of the first test listens on `port`, those of further tests on the
    ports after it.
    """
    probed_port = traffic.rtt_probe and traffic.rtt_probe.tcp_port
    servers = max(1, len(traffic.named_sources) + (traffic.test is not None))
    if probed_port and port <= probed_port < port + servers:
        raise Contradiction(
            "rtt-probe",
            f"asks port {probed_port}, where iperf3's server takes every question for a test: "
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
            f"{traffic.interval_s:g}s is not possible: write a time from 1ms to 60s that is not "
            "longer than duration",
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
    """Checks that an entry of type path, which measures a path by a fixed sequence of steps, has
    enough time and an RTT probe. Raises Contradiction.
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
    """Checks that a run can end once its goodput no longer changes ('duration = settled, at most
    10m'). This needs goodput during the run from iperf3, and all flows started before the measured
    time.
    """
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
    """Checks that each source and each group of streams starts before the traffic ends, and that no
    workload makes too many flows. Raises Contradiction.
    """
    reason = f"but the traffic (omit and duration) takes {traffic.total_s:g} s"
    for source in traffic.sources:
        key = f"flows.{source.name}" if source.name else "cca"
        if source.start_s >= traffic.total_s:
            raise Contradiction(key, f"starts after {source.start_s:g} s, {reason}")
        if (
            isinstance(source, WorkloadSource)
            and (flow_count := _expected_flows(source, traffic.total_s)) > MOST_ARRIVALS
        ):
            raise Contradiction(
                key, f"makes {flow_count:.3g} flows, more than {MOST_ARRIVALS}: write less load"
            )
        if isinstance(source, GroupedSource):
            _check_group_starts(key, source.groups, traffic.total_s, reason)


def _check_group_starts(key: str, groups: Iterable[Group], traffic_s: float, reason: str) -> None:
    """Raises Contradiction for a group of streams whose start is delayed until the traffic has
    ended. `reason` is the end of the message, with the duration of the traffic.
    """
    for group in groups:
        if group.delay_s >= traffic_s:
            raise Contradiction(
                key,
                f"has a group of {group.cca} that starts after {group.delay_s:g} s, {reason}",
            )


def _expected_flows(workload: WorkloadSource, seconds: float) -> float:
    """Returns how many flows a workload starts in that time on average."""
    return workload.offered_bps * seconds / 8 / mean_bytes(workload.sizes)


def check_topology(path: Topology) -> None:
    """Checks the values of an emulated path against each other, and against the limits of tc and
    iperf3. Raises Contradiction with the key to change.
    """
    _check_bdp("buffer", path.buffer, path)
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
    resent_s = DOUBT_RTTS * path.base_rtt_s + path.longest_rtt_s
    if path.control == "path" and resent_s > CONTROL_WAITS_S:
        raise Contradiction(
            "buffer",
            f"makes a round trip of {path.longest_rtt_s:.3g} s when it is full. If it drops a "
            f"packet of iperf3's control connection, the answer comes after {resent_s:.3g} s, "
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
        _check_loss_bursts(path, loss)
    _check_queue(path)


def _check_bdp(key: str, buffer: Buffer, path: Topology) -> None:
    """Raises Contradiction for a buffer in BDP if the path has no delay, and so no BDP."""
    if buffer.kind == "bdp" and path.base_rtt_s == 0:
        raise Contradiction(
            key, "is given in BDP, but the BDP of a path without delay is 0: write bytes or packets"
        )


def _check_loss_bursts(path: Topology, loss: Loss) -> None:
    """Checks that a path does not lose so many packets in a row that connections fail: iperf3's
    control connection, or a stream's handshake. Raises Contradiction.
    """
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
    """Checks that the bucket of the policer holds the largest packet, which would otherwise always
    be dropped, and is not larger than tc can count. Raises Contradiction.
    """
    policer = path.policer
    if policer is None:
        return
    largest_bytes, largest_packet = path.packet_bytes, "a packet with its Ethernet header"
    if path.offloads:
        largest_bytes, largest_packet = (
            SUPER_PACKET_BYTES,
            "a super-packet (offloads = on makes them, and a policer drops them whole)",
        )
    if policer.burst_bytes < largest_bytes:
        raise Contradiction(
            "policer",
            f"has a burst that holds less than {largest_packet}: write at least {largest_bytes}b, "
            "or leave it out",
        )
    if policer.burst_bytes * 8 / policer.rate_bps > MOST_BUCKET_S:
        raise Contradiction(
            "policer",
            f"has a burst of more than {int(MOST_BUCKET_S)} s of its rate, which tc can't "
            "count: write less",
        )


def _check_ack_bottleneck(path: Topology) -> None:
    """Checks the buffer of the bottleneck that ACKs pass: a buffer in BDP needs a path with a
    delay, and tc limits the size. Raises Contradiction.
    """
    bottleneck = path.ack_bottleneck
    if bottleneck is None:
        return
    _check_bdp("ack-buffer", bottleneck.buffer, path)
    if path.ack_limit > MOST_BUFFER_BYTES:
        unit = "packets" if bottleneck.counts_packets else "bytes"
        raise Contradiction(
            "ack-buffer", f"is more than its queue holds: write at most {MOST_BUFFER_BYTES} {unit}"
        )


def check_pacing(path: Topology, traffic: Traffic) -> None:
    """Checks each sender whose flows the key `pacing` limits. Its queue discipline must be fq with
    pacing on, because fq does the pacing. fq must not have a `maxrate`, which would be a second
    limit of a flow's rate. Raises Contradiction.
    """
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
    """Checks the thresholds of RED and CHOKe against the size of the bottleneck's buffer, and their
    averaging against its rate. Raises Contradiction.
    """
    queue = path.queue
    limit = {"red": path.buffer_bytes, "choke": path.buffer_packets}.get(queue.kind)
    if limit is None:
        return
    unit = "b" if queue.kind == "red" else " packets"
    for name in ("min", "max"):
        if (value := queue.parameter(name)) and int(value) > limit:
            raise Contradiction(
                "qdisc",
                f"{queue.kind} has a {name} of {value}{unit}, more than the buffer of "
                f"{limit}{unit}",
            )
    if path.rate_bps > MOST_BANDWIDTH_BPS and queue.parameter("bandwidth") is None:
        most = format_rate(MOST_BANDWIDTH_BPS)
        raise Contradiction(
            "qdisc",
            f"{queue.kind} uses the rate as its bandwidth, which can be at most {most}: write "
            "bandwidth 34gbit",
        )
    if refusal := red_refusal(queue, limit, path.packet_bytes):
        raise Contradiction("qdisc", refusal)
