"""Checks each setting of an emulated path against the value read back from the kernel."""

import itertools
from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.analysis.validity import path
from ccmix.analysis.validity.applied import (
    AppliedDevice,
    AppliedNetem,
    AppliedQdisc,
    Observed,
    Problems,
)
from ccmix.analysis.validity.hosts import WINDOW_FRACTION, configured_windows, seen_windows
from ccmix.analysis.validity.queue_options import option_differences, options_of_buffer
from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK, CONTROL, NAMESPACE_PREFIX, layout
from ccmix.conditions.qdisc import sender_queue
from ccmix.conditions.sysctl import TCP_RMEM, tcp_rmem
from ccmix.model import STOCK_KERNEL, Loss, Queue, Sender, Topology
from ccmix.model.netem import gemodel_parameters
from ccmix.units import format_bytes, format_count, format_percent, format_rate, format_time

SIX_DIGITS = 1e-5  # tc prints such numbers with six digits
DELAY_STEP_S = 1e-6  # ccmix gives tc delays in whole microseconds
JITTER_STEP_S = 1e-5
WITHOUT_NETEM = AppliedNetem(0.0, 0.0, None, (), 0.0, None, 0)
SHARE_STEP = 2**-32  # in which netem counts shares (net/sched/sch_netem.c)
LATENCY_STEP_S = (
    2e-6  # in which tc reports the size of tbf's built-in queue; four packets at 25 Gbit/s
)
BURST_FRACTION = 0.01  # htb's comes back in KB
BURST_STEP_BYTES = 32  # by which its bucket comes back smaller, since tc counts it in time
COUNTS_BYTES = ("bfifo", "red", "cake")
CHANGE_TOLERANCE_S = 0.1  # a thread makes the changes, and tc takes its time on a busy machine


def _expected_and_applied(
    configured: Sequence[object], applied_states: Sequence[AppliedDevice]
) -> Iterator[tuple[object, AppliedDevice]]:
    """Pairs the expected settings of a device with its settings as read back: when the path had
    been set up, before each change, and at the end.

    configured: the expected settings in each phase of the run (the time between two changes).
        Successive phases with equal settings count as one, because tc changes nothing between them.
    applied_states: the settings as read back

    If the numbers don't match, which changes() reports, only the first and the last ones are
    paired.
    """
    phases = [phase for phase, _ in itertools.groupby(configured)]
    expected_states = [phases[0], *phases]
    if len(expected_states) != len(applied_states):
        expected_states, applied_states = (
            [phases[0], phases[-1]],
            [applied_states[0], applied_states[-1]],
        )
    yield from zip(expected_states, applied_states, strict=True)


def _each_netem(observed: Observed) -> Iterator[tuple[str, str, Sender, AppliedNetem]]:
    """Pairs each configured netem with the one that tc reports, for every sender, direction and
    phase of the path. Yields four values:

    - a prefix for messages: 'h2: ', or '' if there is only one sender
    - the direction: 'data' or 'ACKs'
    - the configured settings: a Sender with only the values of this direction
    - the netem that tc reports
    """
    topology = observed.topology
    for sender in topology.senders:
        host = f"{sender.name}: " if len(topology.senders) > 1 else ""
        phases = path.own_phases(topology, sender)
        for direction, purpose, settings_in in (
            ("data", "data-delay", _data_settings),
            ("ACKs", "ack-delay", _ack_settings),
        ):
            applied_states = observed.applied.devices.get(topology.device_name(purpose, sender), ())
            if applied_states:
                for configured, applied in _expected_and_applied(
                    [settings_in(phase) for phase in phases], applied_states
                ):
                    assert isinstance(configured, Sender)
                    yield host, direction, configured, applied.netem or WITHOUT_NETEM


def _data_settings(sender: Sender) -> Sender:
    """Returns the sender with only the values that netem applies to its data."""
    return Sender(sender.name, sender.delay_of_data_s, sender.loss, sender.jitter_s, sender.reorder)


def _ack_settings(sender: Sender) -> Sender:
    """Returns the sender with only the values that netem applies to its ACKs, as if they were its
    data.
    """
    return Sender(sender.name, sender.delay_of_acks_s, None, sender.jitter_s)


def senders(observed: Observed) -> Problems:
    """Checks that each configured sender had its network namespace, and that the senders' addresses
    were in the configured order.
    """
    topology, measurement = observed.topology, observed.measurement
    configured = [sender.name for sender in topology.senders]
    by_address = {pair.sender_address: pair.sender.name for pair in layout(topology).pairs}
    if measurement.series.senders is not None and measurement.series.senders != by_address:
        actual = list(measurement.series.senders.values())
        yield (
            "path",
            f"the senders were {', '.join(actual)}, configured: {', '.join(configured)}",
        )
    for name in configured:
        if not any(
            netns_and_device.startswith(f"{NAMESPACE_PREFIX}{name}/")
            for state in observed.applied.states
            for netns_and_device in state.devices
        ):
            yield "path", f"there was no host {name}"


def delays(observed: Observed) -> Problems:
    """Checks the delay of each sender's netem, as tc reports it for data and for ACKs."""
    for host, direction, configured, netem in _each_netem(observed):
        if differs(netem.delay_s, configured.delay_s, DELAY_STEP_S):
            yield (
                "rtt",
                f"{host}tc delays {direction} by {format_time(netem.delay_s)}, configured: "
                f"{format_time(configured.delay_s)}",
            )


def jitter(observed: Observed) -> Problems:
    """Checks the jitter of each sender's netem, as tc reports it for data and for ACKs."""
    for host, direction, configured, netem in _each_netem(observed):
        if differs(netem.jitter_s, configured.jitter_s, JITTER_STEP_S):
            yield (
                "rtt",
                f"{host}tc varies the delay of {direction} by {format_time(netem.jitter_s)}, "
                f"configured: {format_time(configured.jitter_s)}",
            )


def reordering(observed: Observed) -> Problems:
    """Checks the share of reordered packets of each sender's netem, as tc reports it for data and
    for ACKs.
    """
    for host, direction, configured, netem in _each_netem(observed):
        if differs(netem.reorder, configured.reorder):
            yield (
                "path",
                f"{host}tc reorders {format_percent(netem.reorder)} of {direction}, "
                f"configured: {format_percent(configured.reorder)}",
            )


def loss_parameters(observed: Observed) -> Problems:
    """Checks the loss model and its parameters in each sender's netem, as tc reports them."""
    for host, direction, configured, netem in _each_netem(observed):
        yield from loss_difference(netem, configured.loss, direction, host)


def loss_difference(
    netem: AppliedNetem, configured: Loss | None, direction: str, host: str = ""
) -> Problems:
    """Yields a problem if the loss model of a netem, or its parameters, differ from the configured
    loss. `direction` ('data', 'ACKs') and `host` ('h2: ' or '') are used in the message.
    """
    applied, expected = (netem.loss_model, netem.loss_parameters), _tc_loss(configured)
    same = applied[0] == expected[0] and len(applied[1]) == len(expected[1])
    if not same or any(map(differs, applied[1], expected[1])):
        yield (
            "loss",
            f"{host}tc loses {_loss_text(applied)} of {direction}, configured: "
            f"{_loss_text(expected)}",
        )


def _tc_loss(loss: Loss | None) -> tuple[str | None, tuple[float, ...]]:
    """Returns a configured loss in the form in which tc reports it: its model and all parameters,
    including the defaults of gemodel (tc-netem(8)). (None, ()) means no loss.
    """
    if loss is None:
        return None, ()
    if loss.model == "random":
        return loss.model, loss.parameters
    return loss.model, gemodel_parameters(loss.parameters)


def differs(applied: float, configured: float, step: float = SHARE_STEP) -> bool:
    """Returns whether a number in tc's output differs from the configured one by more than `step`
    plus the error of tc's six digits.
    """
    return abs(applied - configured) > step + SIX_DIGITS * configured


def _loss_text(loss: tuple[str | None, tuple[float, ...]]) -> str:
    """Formats a loss for messages: 'gemodel 1% 10% 100% 0%', or 'nothing' for (None, ())."""
    model, shares = loss
    return f"{model} {' '.join(format_percent(share) for share in shares)}" if model else "nothing"


def rate(observed: Observed) -> Problems:
    """Checks the rate that the kernel has for the bottleneck's shaper (tbf, or htb's class) in each
    phase. The actual rate of packets is checked by path.rate().
    """
    topology, applied = observed.topology, observed.applied
    rates = [phase.rate_bps for _, phase in topology.phases]
    states = applied.devices[BOTTLENECK]
    if states[0].root.kind == "htb":
        class_rates = applied.class_rates_bps(BOTTLENECK)
        if applied.states and not class_rates:
            yield "rate", "tc shows no class of htb"
        for configured_bps, rate_and_ceil in zip((rates[0], rates[-1]), class_rates, strict=False):
            for applied_bps in set(rate_and_ceil):
                yield from _rate_difference(applied_bps, configured_bps)
        return
    for configured, state in _expected_and_applied(rates, states):
        assert isinstance(configured, float | int)
        yield from _rate_difference(state.bucket_bps or 0.0, configured)


def _rate_difference(applied_bps: float, configured_bps: float, host: str = "") -> Problems:
    """Yields a problem if two rates differ by more than 1%. `host` begins the message: 'h2: '."""
    if abs(applied_bps - configured_bps) > path.RATE_FRACTION * configured_bps:
        yield (
            "rate",
            f"{host}the kernel has {format_rate(applied_bps)}, configured: "
            f"{format_rate(configured_bps)}",
        )


def sender_rates(observed: Observed) -> Problems:
    """Checks the rate of the token bucket on each sender's own device, if it is configured to have
    one.
    """
    topology, applied = observed.topology, observed.applied
    for sender in topology.senders:
        host = f"{sender.name}'s own device: "
        for state in applied.devices.get(topology.device_name("sender-queue", sender), ()):
            if (sender.rate_bps is None) != (state.bucket_bps is None):
                seen = format_rate(state.bucket_bps) if state.bucket_bps else "no rate"
                configured = format_rate(sender.rate_bps) if sender.rate_bps else "none"
                yield "rate", f"{host}the kernel has {seen}, configured: {configured}"
            elif sender.rate_bps and state.bucket_bps:
                yield from _rate_difference(state.bucket_bps, sender.rate_bps, host)


def sender_queues(observed: Observed) -> Problems:
    """Checks the qdisc of each sender's own device, and its options. This qdisc is the root, or if
    the device has a rate, the qdisc below the token bucket.
    """
    topology, applied = observed.topology, observed.applied
    for sender in topology.senders:
        kind, *words = sender_queue(sender.queue)
        configured = Queue(kind, tuple(words))
        for state in applied.devices.get(topology.device_name("sender-queue", sender), ()):
            present = state.root if sender.rate_bps is None else state.leaf
            if present is None or present.kind != kind:
                yield (
                    "sender-queue",
                    f"{sender.name} has {present.kind if present else 'none'}, configured: {kind}",
                )
                continue
            ignored = (
                () if "maxrate" in words else ("maxrate",)
            )  # which traffic_fields.pacing() compares
            options = {
                name: value for name, value in present.options.items() if name not in ignored
            }
            for difference in option_differences(configured, topology.packet_bytes, options):
                yield "sender-queue", f"{sender.name}'s {kind} has {difference}"


def shaper(observed: Observed) -> Problems:
    """Checks that the bottleneck's root qdisc is the configured shaper, tbf or htb."""
    for state in observed.applied.devices[BOTTLENECK]:
        if state.root.kind != observed.topology.shaper:
            yield (
                "queue",
                f"the bottleneck's shaper was {state.root.kind}, configured: "
                f"{observed.topology.shaper}",
            )


def queue_kind(observed: Observed) -> Problems:
    """Checks that the qdisc below the bottleneck's shaper is of the configured kind, such as
    'fq_codel'.
    """
    topology = observed.topology
    for state in observed.applied.devices[BOTTLENECK]:
        kind = (
            state.leaf.kind if state.leaf else "bfifo"
        )  # tbf's built-in queue counts bytes (net/sched/sch_tbf.c)
        if kind != topology.queue.kind:
            yield "queue", f"the bottleneck had {kind}, configured: {topology.queue.kind}"


def queue_parameters(observed: Observed) -> Problems:
    """Checks all options of the bottleneck's queue; those that are not configured must have tc's
    defaults.
    """
    topology = observed.topology
    for state in observed.applied.devices[BOTTLENECK]:
        if state.leaf and state.leaf.kind == topology.queue.kind:
            buffer_options = options_of_buffer(topology)
            for difference in option_differences(
                topology.queue, topology.packet_bytes, state.leaf.options, buffer_options
            ):
                yield "queue", f"the bottleneck's {topology.queue.kind} had {difference}"


def mtu(observed: Observed) -> Problems:
    """Checks the MTU of every network device of the path. The problem names one wrong device and
    the number of wrong ones.
    """
    configured = observed.topology.mtu_bytes
    for state in observed.applied.states:
        wrong = {
            name: device.mtu_bytes
            for name, device in state.devices.items()
            if device.mtu_bytes != configured
        }
        for name, mtu_bytes in list(wrong.items())[:1]:
            yield (
                "path",
                f"the MTU of {len(wrong)} devices, such as {name}, was {mtu_bytes}, "
                f"configured: {configured}",
            )


def offloads(observed: Observed) -> Problems:
    """Checks that some device has offloads (TSO, GRO and so on) if they are configured, and
    otherwise none.
    """
    topology = observed.topology
    for state in observed.applied.states:
        on = [name for name, device in state.devices.items() if device.offloads]
        if topology.offloads and not on:
            yield "offloads", "all offloads are off, configured: on"
        elif on and not topology.offloads:
            features = state.devices[on[0]].offloads
            yield (
                "offloads",
                f"on are {', '.join(features)} of "
                f"{on[0]}{f' and {len(on) - 1} more' if on[1:] else ''}",
            )


def receivers(observed: Observed) -> Problems:
    """Checks that the address to which each sender sends belongs to the configured receiver's
    namespace.
    """
    topology, applied = observed.topology, observed.applied
    if not applied.states:
        return
    for pair in layout(topology).pairs:
        seen, configured = (
            applied.receivers(pair.receiver_address),
            NAMESPACE_PREFIX + pair.receiver,
        )
        if seen != {configured}:
            actual = ", ".join(sorted(seen)) or "no host"
            yield "path", f"{pair.sender.name}'s receiver was {actual}, configured: {configured}"


def kernel(observed: Observed) -> Problems:
    """Checks that the lab's guest ran the configured kernel: the guest was started with its file,
    and reports the release of this file. Outside the lab, the configured kernel must be the stock
    one.
    """
    configured, facts = observed.topology.kernel, observed.measurement.facts
    lab = facts.lab_kernel
    if lab is None:
        if configured != STOCK_KERNEL:
            yield "kernel", f"no guest of the lab ran, configured: {configured}"
    elif lab.name != configured:
        yield "kernel", f"the guest was started with {lab.name}, configured: {configured}"
    elif lab.release != facts.kernel:
        yield (
            "kernel",
            f"the guest reports kernel {facts.kernel}, but the file of {lab.name} is {lab.release}",
        )


def host_root(observed: Observed) -> Problems:
    """Checks whether the lab's guest ran on the host's root file system or on the lab's own
    userland, as configured.
    """
    configured, guest_root = observed.topology.host_root, observed.measurement.facts.guest_root
    if guest_root is not None and configured != (guest_root.userland_sha256 is None):
        root, other = "this machine's file system", "the lab's userland"
        seen, wanted = (other, root) if configured else (root, other)
        yield "host-root", f"the guest had {seen}, configured: {wanted}"


def module_parameter(observed: Observed) -> Problems:
    """Checks that the configured parameter of a kernel module had its value in /sys/module, before
    and after the traffic. If none is configured, checks that none was set.
    """
    configured = observed.topology.module_parameter
    for state in observed.applied.states:
        if configured is None:
            for parameter, text in state.parameters.items():
                yield "parameter", f"{parameter} was set to {text}, configured: nothing"
            continue
        read = state.parameters.get(configured.path)
        seen = None if read is None else configured.seen_in(read)
        if seen != configured.value:
            element = f", element {configured.element}," if configured.element else ""
            yield (
                "parameter",
                f"{configured.path}{element} was {seen or 'not read back'}, configured: "
                f"{configured.value}",
            )


def ecn(observed: Observed) -> Problems:
    """Checks the sysctl tcp_ecn of all senders and receivers: with 1, a host asks for ECN; with 2,
    it only agrees to ECN.
    """
    configured = observed.topology.ecn
    for state in observed.applied.states:
        wrong = [
            end
            for end, values in state.sysctls.items()
            if (values.get("net.ipv4.tcp_ecn") == "1") != configured
        ]
        if wrong:
            asks = "does not ask" if configured else "asks"
            yield "ecn", f"{wrong[0]} {asks} for ECN, configured: {'on' if configured else 'off'}"


def receiver_windows(observed: Observed) -> Problems:
    """Checks the sysctl tcp_rmem of each receiver, and that no sender was offered a window above
    the configured one.
    """
    topology = observed.topology
    any_configured = bool(configured_windows(topology))
    for state in observed.applied.states:
        for pair in layout(topology).pairs:
            read_back = state.sysctls.get(NAMESPACE_PREFIX + pair.receiver, {}).get(TCP_RMEM)
            if read_back is None and not any_configured:
                continue  # it is read back only if a window is configured
            actual = (read_back or "not read back").split()
            configured = tcp_rmem(topology, pair.sender.receiver_window_bytes)
            if actual != configured.split():
                yield (
                    "receiver-window",
                    f"tcp_rmem of {pair.sender.name}'s receiver was {' '.join(actual)}, "
                    f"configured: {configured}",
                )
    for host, seen_bytes in (
        seen_windows(observed.tables).group_by("host").agg(pl.col("window_bytes").max()).rows()
    ):
        configured_bytes = configured_windows(topology).get(host)
        if configured_bytes and seen_bytes > configured_bytes * (1 + WINDOW_FRACTION):
            sizes = format_bytes(seen_bytes), format_bytes(configured_bytes)
            yield (
                "receiver-window",
                f"{host} saw a window of {sizes[0]}, configured: {sizes[1]} at most",
            )


def capture(observed: Observed) -> Problems:
    """Checks that tcpdump captured packets if a capture is configured, and did not if none is
    configured.
    """
    configured, captured = (
        observed.run.path.capture is not None,
        observed.measurement.facts.capture is not None,
    )
    if configured != captured:
        seen, expected = ("on" if on else "off" for on in (captured, configured))
        yield "probe", f"tcpdump was {seen}, configured: {expected}"


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
            applied_bytes = _number(options.get("limit", options.get("memlimit")))
            if applied_bytes != topology.buffer_bytes:
                yield "buffer", _bytes_text(applied_bytes, topology.buffer_bytes)
        else:
            yield from _limit_difference(state.leaf, topology.buffer_packets)


def burst(observed: Observed) -> Problems:
    """Checks the size of the bottleneck's token bucket, before and after the traffic. tc counts the
    size as a time in whole microseconds at the rate, so a difference of some bytes is allowed.
    """
    topology, applied = observed.topology, observed.applied
    states = applied.devices[BOTTLENECK]
    sizes = [topology.bottleneck_bucket_bytes, topology.phases[-1][1].bottleneck_bucket_bytes]
    rates = [topology.rate_bps, topology.phases[-1][1].rate_bps]
    seen: Sequence[float] = [
        _number(state.root.options.get("burst")) for state in (states[0], states[-1])
    ]
    if states[0].root.kind == "htb":
        seen = applied.class_bursts_bytes(BOTTLENECK)
    for applied_bytes, configured, rate_bps in zip(seen, sizes, rates, strict=False):
        step_bytes = LATENCY_STEP_S * rate_bps / 8 + BURST_FRACTION * configured + 1
        if abs(applied_bytes - configured) > step_bytes:
            yield (
                "queue",
                f"the bucket had {format_bytes(applied_bytes)}, configured: "
                f"{format_bytes(configured)}",
            )


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
    for actual in policers:
        if abs(actual.rate_bps - configured.rate_bps) > path.RATE_FRACTION * configured.rate_bps:
            rates = format_rate(actual.rate_bps), format_rate(configured.rate_bps)
            yield "policer", f"the policer passes {rates[0]}, configured: {rates[1]}"
        step_bytes = (
            LATENCY_STEP_S * configured.rate_bps / 8 + BURST_FRACTION * configured.burst_bytes + 1
        )
        if abs(actual.burst_bytes - configured.burst_bytes) > step_bytes:
            sizes = format_bytes(round(actual.burst_bytes)), format_bytes(configured.burst_bytes)
            yield "policer", f"the policer's burst is {sizes[0]}, configured: {sizes[1]}"
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
            yield from _rate_difference(state.bucket_bps or 0.0, acks.rate_bps, "ACKs: ")
            if (state.leaf is not None) != acks.counts_packets:
                counted = "packets" if state.leaf else "bytes"
                yield "queue", f"the bottleneck of ACKs counted {counted}"
            elif state.leaf:
                yield from _limit_difference(state.leaf, topology.ack_limit, "ACKs: ")
            else:
                yield from _tbf_limit_difference(state.root, topology.ack_limit, "ACKs: ")


def control(observed: Observed) -> Problems:
    """Checks that each sender has a separate link for iperf3's control connection, which bypasses
    the bottleneck, if that is configured; and the delays of this link.
    """
    topology = observed.topology
    for sender in topology.senders:
        for direction, delay_s in (("data", sender.delay_s), ("ack", sender.delay_of_acks_s)):
            device = topology.device_name(f"{CONTROL}-{direction}", sender)
            states = observed.applied.devices.get(device, ())
            if bool(states) != (topology.control == "beside"):
                yield (
                    "path",
                    f"{sender.name} had {'a' if states else 'no'} link next to the path, "
                    f"configured: control = {topology.control}",
                )
                break
            for state in states:
                applied_s = (state.netem or WITHOUT_NETEM).delay_s
                if differs(applied_s, delay_s, DELAY_STEP_S):
                    yield (
                        "rtt",
                        f"{sender.name}: tc delays control by {format_time(applied_s)}, "
                        f"configured: {format_time(delay_s)}",
                    )


def _tbf_limit_difference(root: AppliedQdisc, configured_bytes: int, host: str = "") -> Problems:
    """Yields a problem if the limit of tbf's built-in queue is not the configured one. `host`
    begins the message.

    tc reports the limit as a latency, (limit - burst) / rate, in whole microseconds, so some bytes
    are lost. Only a limit below the burst is reported in bytes (iproute2, tc/q_tbf.c).
    """
    limit_bytes, latency_us, bytes_per_s, burst_bytes = (
        _number(root.options.get(name)) for name in ("limit", "lat", "rate", "burst")
    )
    applied_bytes, tolerance_bytes = limit_bytes, 0.0
    if "limit" not in root.options:
        applied_bytes = latency_us * 1e-6 * bytes_per_s + burst_bytes
        tolerance_bytes = LATENCY_STEP_S * bytes_per_s + BURST_STEP_BYTES
    if abs(applied_bytes - configured_bytes) > tolerance_bytes:
        yield "buffer", _bytes_text(applied_bytes, configured_bytes, host)


def _bytes_text(applied_bytes: float, configured_bytes: int, host: str = "") -> str:
    """Formats two sizes for a problem: 'the kernel has 1 MB, configured: 2 MB'."""
    return (
        f"{host}the kernel has {format_bytes(applied_bytes)}, configured: "
        f"{format_bytes(configured_bytes)}"
    )


def _limit_difference(leaf: AppliedQdisc, configured_packets: int, host: str = "") -> Problems:
    """Yields a problem if the limit of a queue that counts packets is not the configured one."""
    packets = _number(leaf.options.get("limit"))
    if packets != configured_packets:
        yield (
            "buffer",
            f"{host}the kernel has {packets:g} packets, configured: {configured_packets}",
        )


def _number(value: object) -> float:
    """Returns a value of tc's JSON as a float; 0 if it is missing or not a number."""
    return float(value) if isinstance(value, int | float) else 0.0


def changes(observed: Observed) -> Problems:
    """Checks that the changes of the path (of rate, delay or loss) were made, at the configured
    times, and on each device as often as configured.
    """
    topology, actual_times_s = observed.topology, observed.applied.changes_s
    configured_s = [at_s for at_s, _ in topology.phases[1:]]
    if len(actual_times_s) != len(configured_s):
        made = format_count(len(actual_times_s), "change")
        yield "changes", f"the run made {made}, configured: {len(configured_s)}"
    for at_s, actual_s in zip(configured_s, actual_times_s, strict=False):
        if abs(actual_s - at_s) > CHANGE_TOLERANCE_S:
            yield (
                "changes",
                f"the path was changed after {format_time(round(actual_s, 3))}, configured: "
                f"{format_time(at_s)}",
            )
    for device, setting_count in _changed_devices(topology):
        states = observed.applied.devices.get(device, ())
        # one state was read before each change, and two at the start and at the end
        actual_changes, configured_changes = len(states) - 2, setting_count - 1
        if states and actual_changes != configured_changes:
            yield (
                "changes",
                f"{device} was changed {actual_changes} times, configured: {configured_changes}",
            )


def _changed_devices(topology: Topology) -> Iterator[tuple[str, int]]:
    """Yields each device that changes of the path may affect, and how many different settings it
    has one after the other in a run: one more than its changes.
    """
    yield BOTTLENECK, _count_runs_of_equal([phase.rate_bps for _, phase in topology.phases])
    for sender in topology.senders:
        phases = path.own_phases(topology, sender)
        yield (
            topology.device_name("data-delay", sender),
            _count_runs_of_equal([_data_settings(phase) for phase in phases]),
        )
        yield (
            topology.device_name("ack-delay", sender),
            _count_runs_of_equal([_ack_settings(phase) for phase in phases]),
        )


def _count_runs_of_equal(settings: Sequence[object]) -> int:
    """Counts settings that differ from the one before, and the first one: 2 for [5, 5, 7], 3 for
    [5, 7, 5].
    """
    return len(list(itertools.groupby(settings)))
