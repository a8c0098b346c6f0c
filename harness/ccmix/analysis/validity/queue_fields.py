"""Checks the rates and queues of an emulated path, at its bottlenecks and its senders."""

from collections.abc import Sequence

from ccmix.analysis.validity import path
from ccmix.analysis.validity.applied import AppliedQdisc, Observed, Problems, difference
from ccmix.analysis.validity.netem_fields import expected_and_applied
from ccmix.analysis.validity.queue_options import option_differences, options_of_buffer
from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK
from ccmix.conditions.qdisc import sender_queue
from ccmix.model import Queue
from ccmix.units import format_bytes, format_rate

# in which tc reports the size of tbf's built-in queue; four packets at 25 Gbit/s
LATENCY_STEP_S = 2e-6
BURST_FRACTION = 0.01  # htb's comes back in KB
BURST_STEP_BYTES = 32  # by which its bucket comes back smaller, since tc counts it in time
COUNTS_BYTES = ("bfifo", "red", "cake")


def rate(observed: Observed) -> Problems:
    """Checks the rate that the kernel has for the bottleneck's shaper (tbf, or htb's class) in each
    phase. The actual rate of packets is checked by path.rate().
    """
    rates_bps = [phase.rate_bps for _, phase in observed.topology.phases]
    states = observed.applied.devices[BOTTLENECK]
    if states[0].root.kind == "htb":
        class_rates = observed.applied.class_rates_bps(BOTTLENECK)
        if observed.applied.states and not class_rates:
            yield "rate", "tc shows no class of htb"
        for configured_bps, rate_and_ceil in zip(
            (rates_bps[0], rates_bps[-1]), class_rates, strict=False
        ):
            for applied_bps in set(rate_and_ceil):
                yield from rate_difference("the kernel has {}", applied_bps, configured_bps)
        return
    for configured_bps, state in expected_and_applied(rates_bps, states):
        yield from rate_difference("the kernel has {}", state.bucket_bps or 0.0, configured_bps)


def rate_difference(
    sentence: str, applied_bps: float, configured_bps: float, kind: str = "rate"
) -> Problems:
    """Yields a problem if two rates differ by more than 1%. In `sentence`, {} stands for the
    applied rate.
    """
    tolerance_bps = path.RATE_FRACTION * configured_bps
    yield from difference(kind, sentence, applied_bps, configured_bps, tolerance_bps, format_rate)


def sender_rates(observed: Observed) -> Problems:
    """Checks the rate of the token bucket on each sender's own device, if it is configured to have
    one.
    """
    topology, applied = observed.topology, observed.applied
    for sender in topology.senders:
        sentence = f"{sender.name}'s own device: the kernel has {{}}"
        for state in applied.devices.get(topology.device_name("sender-queue", sender), ()):
            if (sender.rate_bps is None) != (state.bucket_bps is None):
                seen = format_rate(state.bucket_bps) if state.bucket_bps else "no rate"
                configured = format_rate(sender.rate_bps) if sender.rate_bps else "none"
                yield "rate", f"{sentence.format(seen)}, configured: {configured}"
            elif sender.rate_bps and state.bucket_bps:
                yield from rate_difference(sentence, state.bucket_bps, sender.rate_bps)


def sender_queues(observed: Observed) -> Problems:
    """Checks the qdisc of each sender's own device, and its options. This qdisc is the root, or if
    the device has a rate, the qdisc below the token bucket.
    """
    topology, applied = observed.topology, observed.applied
    for sender in topology.senders:
        kind, *words = sender_queue(sender.queue)
        for state in applied.devices.get(topology.device_name("sender-queue", sender), ()):
            present = state.root if sender.rate_bps is None else state.leaf
            if present is None or present.kind != kind:
                yield (
                    "sender-queue",
                    f"{sender.name} has {present.kind if present else 'none'}, configured: {kind}",
                )
                continue
            options = dict(present.options)
            if "maxrate" not in words:  # then traffic_fields.pacing() compares it
                options.pop("maxrate", None)
            configured = Queue(kind, tuple(words))
            for phrase in option_differences(configured, topology.packet_bytes, options):
                yield "sender-queue", f"{sender.name}'s {kind} has {phrase}"


def shaper(observed: Observed) -> Problems:
    """Checks that the bottleneck's root qdisc is the configured shaper, tbf or htb."""
    configured = observed.topology.shaper
    for state in observed.applied.devices[BOTTLENECK]:
        if state.root.kind != configured:
            yield (
                "queue",
                f"the bottleneck's shaper was {state.root.kind}, configured: {configured}",
            )


def queue_kind(observed: Observed) -> Problems:
    """Checks that the qdisc below the bottleneck's shaper is of the configured kind, such as
    'fq_codel'.
    """
    configured = observed.topology.queue.kind
    for state in observed.applied.devices[BOTTLENECK]:
        # tbf's built-in queue counts bytes (net/sched/sch_tbf.c)
        kind = state.leaf.kind if state.leaf else "bfifo"
        if kind != configured:
            yield "queue", f"the bottleneck had {kind}, configured: {configured}"


def queue_parameters(observed: Observed) -> Problems:
    """Checks all options of the bottleneck's queue; those that are not configured must have tc's
    defaults.
    """
    topology = observed.topology
    for state in observed.applied.devices[BOTTLENECK]:
        if state.leaf and state.leaf.kind == topology.queue.kind:
            buffer_options = options_of_buffer(topology)
            for phrase in option_differences(
                topology.queue, topology.packet_bytes, state.leaf.options, buffer_options
            ):
                yield "queue", f"the bottleneck's {topology.queue.kind} had {phrase}"


def buffer(observed: Observed) -> Problems:
    """Checks the limit of the bottleneck's queue against the configured buffer, in bytes or in
    packets, depending on what the qdisc counts.
    """
    topology = observed.topology
    for state in observed.applied.devices[BOTTLENECK]:
        if state.leaf is None:
            yield from _tbf_limit_difference(state.root, topology.buffer_bytes)
        elif state.leaf.kind in COUNTS_BYTES:
            options = state.leaf.options
            limit_bytes = _number(options.get("limit", options.get("memlimit")))
            yield from _size_difference("the kernel has {}", limit_bytes, topology.buffer_bytes)
        else:
            yield from _limit_difference(state.leaf, topology.buffer_packets)


def _tbf_limit_difference(root: AppliedQdisc, configured_bytes: int, host: str = "") -> Problems:
    """Yields a problem if the limit of tbf's built-in queue is not the configured one. `host`
    begins the message.

    tc reports the limit as a latency, (limit - burst) / rate, in whole microseconds, so some bytes
    are lost. Only a limit below the burst is reported in bytes (iproute2, tc/q_tbf.c).
    """
    limit_bytes, latency_us, bytes_per_s, burst_bytes = (
        _number(root.options.get(name)) for name in ("limit", "lat", "rate", "burst")
    )
    tolerance_bytes = 0.0
    if "limit" not in root.options:
        limit_bytes = latency_us * 1e-6 * bytes_per_s + burst_bytes
        tolerance_bytes = LATENCY_STEP_S * bytes_per_s + BURST_STEP_BYTES
    sentence = f"{host}the kernel has {{}}"
    yield from _size_difference(sentence, limit_bytes, configured_bytes, tolerance_bytes, "buffer")


def _size_difference(
    sentence: str,
    applied_bytes: float,
    configured_bytes: int,
    tolerance_bytes: float = 0.0,
    kind: str = "buffer",
) -> Problems:
    """Yields a problem if two sizes differ by more than the tolerance. In `sentence`, {} stands for
    the applied size.
    """
    yield from difference(
        kind, sentence, applied_bytes, configured_bytes, tolerance_bytes, format_bytes
    )


def _limit_difference(leaf: AppliedQdisc, configured_packets: int, host: str = "") -> Problems:
    """Yields a problem if the limit of a queue that counts packets is not the configured one."""
    sentence = f"{host}the kernel has {{:g}} packets"
    packets = _number(leaf.options.get("limit"))
    yield from difference("buffer", sentence, packets, configured_packets, 0.0)


def _number(value: object) -> float:
    """Returns a value of tc's JSON as a float; 0 if it is missing or not a number."""
    return float(value) if isinstance(value, int | float) else 0.0


def burst(observed: Observed) -> Problems:
    """Checks the size of the bottleneck's token bucket, before and after the traffic."""
    topology, states = observed.topology, observed.applied.devices[BOTTLENECK]
    seen_bytes: Sequence[float] = [
        _number(state.root.options.get("burst")) for state in (states[0], states[-1])
    ]
    if states[0].root.kind == "htb":
        seen_bytes = observed.applied.class_bursts_bytes(BOTTLENECK)
    phases = (topology, topology.phases[-1][1])
    for applied_bytes, phase in zip(seen_bytes, phases, strict=False):
        configured_bytes = phase.bottleneck_bucket_bytes
        tolerance_bytes = _burst_tolerance_bytes(phase.rate_bps, configured_bytes)
        yield from _size_difference(
            "the bucket had {}", applied_bytes, configured_bytes, tolerance_bytes, "queue"
        )


def _burst_tolerance_bytes(rate_bps: float, burst_bytes: int) -> float:
    """Returns by how much the size of a bucket may differ, because tc counts it as a time in whole
    microseconds at the rate.
    """
    return LATENCY_STEP_S * rate_bps / 8 + BURST_FRACTION * burst_bytes + 1


def policer(observed: Observed) -> Problems:
    """Checks that the bottleneck has a policer if one is configured, with the configured rate and
    burst, and that the policer drops packets above the rate.
    """
    configured, applied = observed.topology.policer, observed.applied
    for state in applied.devices[BOTTLENECK]:
        if state.policed != bool(configured):
            seen, wanted = ("a", "none") if state.policed else ("no", "one")
            yield "policer", f"there was {seen} policer, configured: {wanted}"
            return
    if configured is None or not applied.states:
        return
    policers = applied.policers(BOTTLENECK)
    if len(policers) != len(applied.states):
        yield "policer", f"tc shows {len(policers)} policers in {len(applied.states)} states"
    tolerance_bytes = _burst_tolerance_bytes(configured.rate_bps, configured.burst_bytes)
    for actual in policers:
        yield from rate_difference(
            "the policer passes {}", actual.rate_bps, configured.rate_bps, "policer"
        )
        yield from _size_difference(
            "the policer's burst is {}",
            actual.burst_bytes,
            configured.burst_bytes,
            tolerance_bytes,
            "policer",
        )
        if actual.exceed != "drop":
            yield (
                "policer",
                f"the policer's action above the rate is {actual.exceed}, configured: drop",
            )


def ack_bottleneck(observed: Observed) -> Problems:
    """Checks the rate and the queue limit of the second bottleneck, which only ACKs pass."""
    topology, acks = observed.topology, observed.topology.ack_bottleneck
    states = observed.applied.devices.get(ACK_BOTTLENECK, ())
    if bool(states) != bool(acks):
        yield (
            "path",
            f"there was {'a' if states else 'no'} bottleneck of ACKs, configured: "
            f"{'one' if acks else 'none'}",
        )
    elif acks:
        for state in states:
            yield from rate_difference(
                "ACKs: the kernel has {}", state.bucket_bps or 0.0, acks.rate_bps
            )
            if (state.leaf is not None) != acks.counts_packets:
                counted = "packets" if state.leaf else "bytes"
                yield "queue", f"the bottleneck of ACKs counted {counted}"
            elif state.leaf:
                yield from _limit_difference(state.leaf, topology.ack_limit, "ACKs: ")
            else:
                yield from _tbf_limit_difference(state.root, topology.ack_limit, "ACKs: ")
