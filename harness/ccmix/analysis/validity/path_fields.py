"""Compares each field of a configured emulated path with the path as it was read back."""

import itertools
from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.analysis.validity import path
from ccmix.analysis.validity.applied import AppliedDevice, AppliedNetem, Options, applied_path
from ccmix.analysis.validity.comparison import Limits, Observed
from ccmix.analysis.validity.hosts import WINDOW_FRACTION, configured_windows, seen_windows
from ccmix.analysis.validity.queue_options import option_differences, options_of_buffer
from ccmix.conditions.layout import ACK_BOTTLENECK, BOTTLENECK, CONTROL, NAMESPACE_PREFIX, layout
from ccmix.conditions.qdisc import sender_queue
from ccmix.conditions.sysctl import TCP_RMEM, tcp_rmem
from ccmix.model import STOCK_KERNEL, Loss, Queue, Sender, Topology
from ccmix.model.netem import gemodel_parameters
from ccmix.units import format_bytes, format_percent, format_rate, format_time

SIX_DIGITS = 1e-5  # tc prints such numbers with six digits
DELAY_STEP_S = 1e-6  # ccmix gives tc delays in whole microseconds
JITTER_STEP_S = 1e-5
SHARE_STEP = 2**-32  # in which netem counts shares (net/sched/sch_netem.c)
LATENCY_STEP_S = 2e-6  # in which tc reports the size of tbf's own queue; at 25 Gbit/s, that is four packets
BURST_FRACTION = 0.01  # htb's comes back in KB
BURST_STEP_BYTES = 32  # by which its bucket comes back smaller, since tc counts it in time
COUNTS_BYTES = ("bfifo", "red", "cake")
CHANGE_TOLERANCE_S = 0.1  # a thread makes the changes, and tc takes its time on a busy machine


def _states(configured: Sequence[object], applied: Sequence[AppliedDevice]) -> Iterator[tuple[object, AppliedDevice]]:
    """Yields what was to be, and what was, when the path had been set up, before each change, and at the end.

    Where not as many changes were made as configured, `changes` says so, and the first and last states remain.
    """
    phases = [phase for phase, _ in itertools.groupby(configured)]
    expected = [phases[0], *phases]
    if len(expected) != len(applied):
        expected, applied = [phases[0], phases[-1]], [applied[0], applied[-1]]
    yield from zip(expected, applied, strict=True)


def _each_netem(observed: Observed) -> Iterator[tuple[str, Sender, str, Sender, AppliedNetem | None]]:
    """Yields for each sender, direction and state: the host as named in sentences, the sender as configured at the
    start, the direction, the sender as configured then, and what its netem did.
    """
    topology, applied = observed.run.topology, applied_path(observed.measurement)
    for sender in topology.senders:
        host = f"{sender.name}: " if len(topology.senders) > 1 else ""
        phases = path.own_phases(topology, sender)
        for direction, device, project in (
            ("data", "data-delay", _of_data),
            ("ACKs", "ack-delay", _of_acks),
        ):
            states = applied.devices.get(topology.device_name(device, sender), ())
            if not states:
                continue
            for then, state in _states([project(phase) for phase in phases], states):
                assert isinstance(then, Sender)
                yield host, sender, direction, then, state.netem


def _of_data(sender: Sender) -> Sender:
    return Sender(sender.name, sender.delay_of_data_s, sender.loss, sender.jitter_s, sender.reorder)


def _of_acks(sender: Sender) -> Sender:
    return Sender(sender.name, sender.delay_of_acks_s, None, sender.jitter_s)


def senders(observed: Observed) -> Limits:
    """Compares the senders' names, by the devices that are theirs, and their order by their addresses."""
    topology, measurement = observed.run.topology, observed.measurement
    configured = [sender.name for sender in topology.senders]
    by_address = {pair.sender_address: pair.sender.name for pair in layout(topology).pairs}
    if measurement.series.senders is not None and measurement.series.senders != by_address:
        seen = list(measurement.series.senders.values())
        yield "path", f"the senders were {', '.join(seen)}, configured are {', '.join(configured)}"
    for name in configured:
        if not any(place.startswith(f"{NAMESPACE_PREFIX}{name}/") for state in applied_path(measurement).states
                   for place in state.devices):  # fmt: skip
            yield "path", f"there was no host {name}"


def delays(observed: Observed) -> Limits:
    for host, _, direction, then, netem in _each_netem(observed):
        applied_s = netem.delay_s if netem else 0.0
        if abs(applied_s - then.delay_s) > DELAY_STEP_S + SIX_DIGITS * then.delay_s:
            yield (
                "rtt",
                f"{host}tc delays {direction} by {format_time(applied_s)}, configured are {format_time(then.delay_s)}",
            )


def jitter(observed: Observed) -> Limits:
    for host, _, direction, then, netem in _each_netem(observed):
        applied_s = netem.jitter_s if netem else 0.0
        if abs(applied_s - then.jitter_s) > JITTER_STEP_S + SIX_DIGITS * then.jitter_s:
            yield (
                "rtt",
                f"{host}tc varies the delay of {direction} by {format_time(applied_s)}, "
                f"configured are {format_time(then.jitter_s)}",
            )


def reordering(observed: Observed) -> Limits:
    for host, _, direction, then, netem in _each_netem(observed):
        applied = netem.reorder if netem else 0.0
        if not _same_share(applied, then.reorder):
            yield (
                "path",
                f"{host}tc reorders {format_percent(applied)} of {direction}, "
                f"configured are {format_percent(then.reorder)}",
            )


def loss_parameters(observed: Observed) -> Limits:
    for host, _, direction, then, netem in _each_netem(observed):
        yield from loss_difference(netem, then.loss, direction, host)


def loss_difference(netem: AppliedNetem | None, configured: Loss | None, direction: str, host: str = "") -> Limits:
    """Compares a netem's loss, its model and parameters."""
    applied = (netem.loss_model, netem.loss_parameters) if netem else (None, ())
    wanted = _tc_loss(configured)
    same = applied[0] == wanted[0] and len(applied[1]) == len(wanted[1])
    if not same or not all(map(_same_share, applied[1], wanted[1])):
        yield "loss", f"{host}tc loses {_loss_text(applied)} of {direction}, configured is {_loss_text(wanted)}"


def _tc_loss(loss: Loss | None) -> tuple[str | None, tuple[float, ...]]:
    """Returns a loss as tc reports it: of gemodel all four parameters (tc-netem(8))."""
    if loss is None:
        return None, ()
    return loss.model, loss.parameters if loss.model == "random" else gemodel_parameters(loss.parameters)


def _same_share(applied: float, configured: float) -> bool:
    return abs(applied - configured) <= SHARE_STEP + SIX_DIGITS * configured


def _loss_text(loss: tuple[str | None, tuple[float, ...]]) -> str:
    model, shares = loss
    return f"{model} {' '.join(format_percent(share) for share in shares)}" if model else "nothing"


def rate(observed: Observed) -> Limits:
    """Compares the kernel's rate in each phase; trains and counters are compared by `path.rate`."""
    topology, applied = observed.run.topology, applied_path(observed.measurement)
    rates = [phase.rate_bps for _, phase in topology.phases]
    states = applied.devices[BOTTLENECK]
    if states[0].root.kind == "htb":
        of_classes = applied.class_rates_bps(BOTTLENECK)
        if applied.states and not of_classes:
            yield "rate", "tc shows no class of htb"
        for configured_bps, pair in zip((rates[0], rates[-1]), of_classes, strict=False):
            for applied_bps in set(pair):
                yield from _rate_difference(applied_bps, configured_bps)
        return
    for configured, state in _states(rates, states):
        assert isinstance(configured, float | int)
        yield from _rate_difference(state.bucket_bps or 0.0, configured)


def _rate_difference(applied_bps: float, configured_bps: float, host: str = "") -> Limits:
    if abs(applied_bps - configured_bps) > path.RATE_FRACTION * configured_bps:
        yield "rate", f"{host}the kernel has {format_rate(applied_bps)}, configured are {format_rate(configured_bps)}"


def sender_rates(observed: Observed) -> Limits:
    topology, applied = observed.run.topology, applied_path(observed.measurement)
    for sender in topology.senders:
        host = f"{sender.name}'s own device: "
        for state in applied.devices.get(topology.device_name("sender-queue", sender), ()):
            if (sender.rate_bps is None) != (state.bucket_bps is None):
                seen = format_rate(state.bucket_bps) if state.bucket_bps else "no rate"
                configured = format_rate(sender.rate_bps) if sender.rate_bps else "none"
                yield "rate", f"{host}the kernel has {seen}, configured is {configured}"
            elif sender.rate_bps and state.bucket_bps:
                yield from _rate_difference(state.bucket_bps, sender.rate_bps, host)


def sender_queues(observed: Observed) -> Limits:
    """Compares the queue discipline of each sender's device, which is below a token bucket where it has a rate."""
    topology, applied = observed.run.topology, applied_path(observed.measurement)
    for sender in topology.senders:
        kind, *words = sender_queue(sender.queue)
        configured = Queue(kind, tuple(words))
        for state in applied.devices.get(topology.device_name("sender-queue", sender), ()):
            present = state.root if sender.rate_bps is None else state.leaf
            if present is None or present.kind != kind:
                yield "sender-queue", f"{sender.name} has {present.kind if present else 'none'}, configured is {kind}"
                continue
            by_pacing = () if "maxrate" in words else ("maxrate",)  # which traffic_fields.pacing() compares
            options = {name: value for name, value in present.options.items() if name not in by_pacing}
            for difference in option_differences(configured, topology.packet_bytes, options):
                yield "sender-queue", f"{sender.name}'s {kind} has {difference}"


def shaper(observed: Observed) -> Limits:
    for state in applied_path(observed.measurement).devices[BOTTLENECK]:
        if state.root.kind != observed.run.topology.shaper:
            yield (
                "queue",
                f"the bottleneck's shaper was {state.root.kind}, configured is {observed.run.topology.shaper}",
            )


def queue_kind(observed: Observed) -> Limits:
    topology = observed.run.topology
    for state in applied_path(observed.measurement).devices[BOTTLENECK]:
        kind = state.leaf.kind if state.leaf else "bfifo"  # tbf's own queue is one of bytes (net/sched/sch_tbf.c)
        if kind != topology.queue.kind:
            yield "queue", f"the bottleneck had {kind}, configured is {topology.queue.kind}"


def queue_parameters(observed: Observed) -> Limits:
    topology = observed.run.topology
    for state in applied_path(observed.measurement).devices[BOTTLENECK]:
        if state.leaf and state.leaf.kind == topology.queue.kind:
            held = options_of_buffer(topology)
            for difference in option_differences(topology.queue, topology.packet_bytes, state.leaf.options, held):
                yield "queue", f"the bottleneck's {topology.queue.kind} had {difference}"


def mtu(observed: Observed) -> Limits:
    configured = observed.run.topology.mtu_bytes
    for state in applied_path(observed.measurement).states:
        others = {place: device.mtu_bytes for place, device in state.devices.items() if device.mtu_bytes != configured}
        for place, mtu_bytes in list(others.items())[:1]:
            yield (
                "path",
                f"the MTU of {len(others)} devices, such as {place}, was {mtu_bytes}, configured is {configured}",
            )


def offloads(observed: Observed) -> Limits:
    """Compares the features of every device, in both directions: to be off, and to be on."""
    topology = observed.run.topology
    for state in applied_path(observed.measurement).states:
        on = [place for place, device in state.devices.items() if device.offloads]
        if topology.offloads and not on:
            yield "offloads", "off are all of them, configured is on"
        elif on and not topology.offloads:
            names = state.devices[on[0]].offloads
            yield "offloads", f"on are {', '.join(names)} of {on[0]}{f' and {len(on) - 1} more' if on[1:] else ''}"


def receivers(observed: Observed) -> Limits:
    """Compares which namespaces have the addresses that the senders send to."""
    topology, applied = observed.run.topology, applied_path(observed.measurement)
    if not applied.states:
        return
    for pair in layout(topology).pairs:
        seen, configured = applied.receivers(pair.receiver_address), NAMESPACE_PREFIX + pair.receiver
        if seen != {configured}:
            place = ", ".join(sorted(seen)) or "no host"
            yield "path", f"{pair.sender.name}'s receiver was {place}, configured is {configured}"


def kernel(observed: Observed) -> Limits:
    """Compares the configured kernel with the file that the guest was started with, and with what the guest reports."""
    configured, facts = observed.run.topology.kernel, observed.measurement.facts
    ran = facts.lab_kernel
    if ran is None:
        if configured != STOCK_KERNEL:
            yield "kernel", f"no guest of the lab ran, configured is {configured}"
    elif ran.name != configured:
        yield "kernel", f"the guest was started with {ran.name}, configured is {configured}"
    elif ran.release != facts.kernel:
        yield "kernel", f"the guest ran {facts.kernel}, and the file of {ran.name} is {ran.release}"


def host_root(observed: Observed) -> Limits:
    """Compares the configured root with that of the guest, if one ran."""
    configured, ran = observed.run.topology.host_root, observed.measurement.facts.guest_root
    if ran is not None and configured != (ran.userland_sha256 is None):
        root, other = "this machine's file system", "the lab's userland"
        seen, wanted = (other, root) if configured else (root, other)
        yield "host-root", f"the guest had {seen}, configured is {wanted}"


def module_parameter(observed: Observed) -> Limits:
    """Compares a module's parameter, as /sys/module had it before the traffic and after it."""
    configured = observed.run.topology.module_parameter
    for state in applied_path(observed.measurement).states:
        if configured is None:
            for parameter, text in state.parameters.items():
                yield "parameter", f"{parameter} was set to {text}, configured is nothing"
            continue
        read = state.parameters.get(configured.path)
        seen = None if read is None else configured.seen_in(read)
        if seen != configured.value:
            element = f", element {configured.element}," if configured.element else ""
            yield (
                "parameter",
                f"{configured.path}{element} was {seen or 'not read back'}, configured is {configured.value}",
            )


def ecn(observed: Observed) -> Limits:
    """Compares the ends' sysctl: 1 to ask for ECN, 2 to grant it when asked (ip-sysctl, tcp_ecn)."""
    configured = observed.run.topology.ecn
    for state in applied_path(observed.measurement).states:
        wrong = [end for end, values in state.sysctls.items() if (values.get("net.ipv4.tcp_ecn") == "1") != configured]
        if wrong:
            asks = "does not ask" if configured else "asks"
            yield "ecn", f"{wrong[0]} {asks} for ECN, configured is {'on' if configured else 'off'}"


def receiver_windows(observed: Observed) -> Limits:
    """Compares the receivers' sysctl, and that no sender saw a larger window than the one that is configured."""
    topology = observed.run.topology
    given = bool(configured_windows(topology))
    for state in applied_path(observed.measurement).states:
        for pair in layout(topology).pairs:
            read_back = state.sysctls.get(NAMESPACE_PREFIX + pair.receiver, {}).get(TCP_RMEM)
            if read_back is None and not given:
                continue  # it is read back where a window is configured
            seen = (read_back or "not read back").split()
            configured = tcp_rmem(topology, pair.sender.receiver_window_bytes)
            if seen != configured.split():
                yield (
                    "receiver-window",
                    f"tcp_rmem of {pair.sender.name}'s receiver was {' '.join(seen)}, configured are {configured}",
                )
    for host, seen_bytes in seen_windows(observed.tables).group_by("host").agg(pl.col("window_bytes").max()).rows():
        configured_bytes = configured_windows(topology).get(host)
        if configured_bytes and seen_bytes > configured_bytes * (1 + WINDOW_FRACTION):
            sizes = format_bytes(seen_bytes), format_bytes(configured_bytes)
            yield "receiver-window", f"{host} saw a window of {sizes[0]}, configured are {sizes[1]} at most"


def capture(observed: Observed) -> Limits:
    """Compares whether tcpdump captured with whether it should. What it lost, it counts itself."""
    configured, captured = observed.run.path.capture is not None, observed.measurement.facts.capture is not None
    if configured != captured:
        seen, asked = ("on" if on else "off" for on in (captured, configured))
        yield "probe", f"tcpdump was {seen}, configured is {asked}"


def buffer(observed: Observed) -> Limits:
    """Compares the limit of the bottleneck's queue, in packets where it counts packets."""
    topology = observed.run.topology
    for state in applied_path(observed.measurement).devices[BOTTLENECK]:
        if state.leaf is None:
            applied_bytes, exact_bytes = _own_queue_of_tbf(state.root.options)
            configured = topology.buffer_bytes
        elif state.leaf.kind in COUNTS_BYTES:
            options = state.leaf.options
            applied_bytes, exact_bytes = _number(options.get("limit", options.get("memlimit"))), 0.0
            configured = topology.buffer_bytes
        else:
            applied_packets, configured = _number(state.leaf.options.get("limit")), topology.buffer_packets
            if applied_packets != configured:
                yield "buffer", f"the kernel has {applied_packets:g} packets, configured are {configured}"
            continue
        if abs(applied_bytes - configured) > exact_bytes:
            yield "buffer", f"the kernel has {format_bytes(applied_bytes)}, configured are {format_bytes(configured)}"


def burst(observed: Observed) -> Limits:
    """Compares the bottleneck's token bucket, which tc counts in whole microseconds at the rate."""
    topology, applied = observed.run.topology, applied_path(observed.measurement)
    states = applied.devices[BOTTLENECK]
    sizes = [topology.bottleneck_bucket_bytes, topology.phases[-1][1].bottleneck_bucket_bytes]
    rates = [topology.rate_bps, topology.phases[-1][1].rate_bps]
    seen: Sequence[float] = [_number(state.root.options.get("burst")) for state in (states[0], states[-1])]
    if states[0].root.kind == "htb":
        seen = applied.class_bursts_bytes(BOTTLENECK)
    for applied_bytes, configured, rate_bps in zip(seen, sizes, rates, strict=False):
        step_bytes = LATENCY_STEP_S * rate_bps / 8 + BURST_FRACTION * configured + 1
        if abs(applied_bytes - configured) > step_bytes:
            yield "queue", f"the bucket had {format_bytes(applied_bytes)}, configured are {format_bytes(configured)}"


def policer(observed: Observed) -> Limits:
    """Compares whether data passes a policer, its rate, its burst, and that it drops what is too much."""
    configured, applied = observed.run.topology.policer, applied_path(observed.measurement)
    for state in applied.devices[BOTTLENECK]:
        if state.policed != bool(configured):
            seen, wanted = ("a", "none") if state.policed else ("no", "one")
            yield "policer", f"there was {seen} policer, configured is {wanted}"
            return
    if configured is None or not applied.states:
        return
    policers = applied.policers(BOTTLENECK)
    if len(policers) != len(applied.states):
        yield "policer", f"tc shows {len(policers)} policers in {len(applied.states)} states"
    for present in policers:
        if abs(present.rate_bps - configured.rate_bps) > path.RATE_FRACTION * configured.rate_bps:
            rates = format_rate(present.rate_bps), format_rate(configured.rate_bps)
            yield "policer", f"the kernel's passes {rates[0]}, configured are {rates[1]}"
        step_bytes = LATENCY_STEP_S * configured.rate_bps / 8 + BURST_FRACTION * configured.burst_bytes + 1
        if abs(present.burst_bytes - configured.burst_bytes) > step_bytes:
            sizes = format_bytes(round(present.burst_bytes)), format_bytes(configured.burst_bytes)
            yield "policer", f"the kernel's burst is {sizes[0]}, configured are {sizes[1]}"
        if present.exceed != "drop":
            yield "policer", f"the kernel's does {present.exceed} to what is too much, configured is drop"


def ack_bottleneck(observed: Observed) -> Limits:
    """Compares the rate and the limit of the bottleneck of ACKs."""
    topology, acks = observed.run.topology, observed.run.topology.ack_bottleneck
    states = applied_path(observed.measurement).devices.get(ACK_BOTTLENECK, ())
    if bool(states) != bool(acks):
        yield (
            "path",
            f"there was {'a' if states else 'no'} bottleneck of ACKs, configured is {'one' if acks else 'none'}",
        )
        return
    for state in states if acks else ():
        assert acks
        yield from _rate_difference(state.bucket_bps or 0.0, acks.rate_bps, "ACKs: ")
        if (state.leaf is not None) != acks.counts_packets:
            yield "queue", f"the bottleneck of ACKs counted {'packets' if state.leaf else 'bytes'}"
        elif state.leaf:
            if (packets := _number(state.leaf.options.get("limit"))) != topology.ack_limit:
                yield "buffer", f"ACKs: the kernel has {packets:g} packets, configured are {topology.ack_limit}"
        else:
            applied_bytes, exact_bytes = _own_queue_of_tbf(state.root.options)
            if abs(applied_bytes - topology.ack_limit) > exact_bytes:
                configured = format_bytes(topology.ack_limit)
                yield "buffer", f"ACKs: the kernel has {format_bytes(applied_bytes)}, configured are {configured}"


def control(observed: Observed) -> Limits:
    """Compares whether each sender has a link beside the path, and its delays."""
    topology, applied = observed.run.topology, applied_path(observed.measurement)
    for sender in topology.senders:
        for what, delay_s in (("data", sender.delay_s), ("ack", sender.delay_of_acks_s)):
            states = applied.devices.get(topology.device_name(f"{CONTROL}-{what}", sender), ())
            if bool(states) != (topology.control == "beside"):
                seen = "a" if states else "no"
                yield (
                    "path",
                    f"{sender.name} had {seen} link beside the path, configured is control = {topology.control}",
                )
                break
            for state in states:
                applied_s = state.netem.delay_s if state.netem else 0.0
                if abs(applied_s - delay_s) > DELAY_STEP_S + SIX_DIGITS * delay_s:
                    seen, configured = format_time(applied_s), format_time(delay_s)
                    yield "rtt", f"{sender.name}: tc delays control by {seen}, configured are {configured}"


def _own_queue_of_tbf(options: Options) -> tuple[float, float]:
    """Returns the limit in bytes, and how exactly tc reports it.

    tc(8) says it as a latency in whole microseconds, limit / rate - burst / rate, and in bytes where it is less than
    the burst (iproute2, tc/q_tbf.c).
    """
    if "limit" in options:
        return _number(options["limit"]), 0.0
    rate, burst_bytes = _number(options.get("rate")), _number(options.get("burst"))
    return _number(options.get("lat")) * 1e-6 * rate + burst_bytes, LATENCY_STEP_S * rate + BURST_STEP_BYTES


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def changes(observed: Observed) -> Limits:
    """Compares the number and the moments of the changes that were made."""
    topology, made_s = observed.run.topology, applied_path(observed.measurement).changes_s
    configured_s = [at_s for at_s, _ in topology.phases[1:]]
    if len(made_s) != len(configured_s):
        yield "changes", f"{len(made_s)} were made, configured are {len(configured_s)}"
    for at_s, seen_s in zip(configured_s, made_s, strict=False):
        if abs(seen_s - at_s) > CHANGE_TOLERANCE_S:
            yield "changes", f"one was made after {format_time(round(seen_s, 3))}, configured are {format_time(at_s)}"
    for device, configured_states in _changed_devices(topology):
        states = applied_path(observed.measurement).devices.get(device, ())
        if states and len(states) - 2 != configured_states - 1:
            yield "changes", f"{device} was changed {len(states) - 2} times, configured are {configured_states - 1}"


def _changed_devices(topology: Topology) -> Iterator[tuple[str, int]]:
    """Yields each device that changes may concern, with the number of states that differ from the one before."""
    yield BOTTLENECK, _distinct([phase.rate_bps for _, phase in topology.phases])
    for sender in topology.senders:
        phases = path.own_phases(topology, sender)
        yield topology.device_name("data-delay", sender), _distinct([_of_data(phase) for phase in phases])
        yield topology.device_name("ack-delay", sender), _distinct([_of_acks(phase) for phase in phases])


def _distinct(states: Sequence[object]) -> int:
    return len(list(itertools.groupby(states)))
