"""Compares each field of a configured emulated path with the settings that were read back."""

import itertools
from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.analysis.validity import path
from ccmix.analysis.validity.applied import (
    AppliedDevice,
    AppliedNetem,
    AppliedQdisc,
    Limits,
    Observed,
)
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
WITHOUT_NETEM = AppliedNetem(0.0, 0.0, None, (), 0.0, None, 0)
SHARE_STEP = 2**-32  # in which netem counts shares (net/sched/sch_netem.c)
LATENCY_STEP_S = (
    2e-6  # in which tc reports the size of tbf's built-in queue; four packets at 25 Gbit/s
)
BURST_FRACTION = 0.01  # htb's comes back in KB
BURST_STEP_BYTES = 32  # by which its bucket comes back smaller, since tc counts it in time
COUNTS_BYTES = ("bfifo", "red", "cake")
CHANGE_TOLERANCE_S = 0.1  # a thread makes the changes, and tc takes its time on a busy machine


def _states(
    configured: Sequence[object], applied: Sequence[AppliedDevice]
) -> Iterator[tuple[object, AppliedDevice]]:
    """Yields the expected and the actual state when the path had been set up, before each change,
    and at the end.

    If the number of changes differs from the configured one, `changes` reports that, and only the
    first and last states are compared.
    """
    phases = [phase for phase, _ in itertools.groupby(configured)]
    expected = [phases[0], *phases]
    if len(expected) != len(applied):
        expected, applied = [phases[0], phases[-1]], [applied[0], applied[-1]]
    yield from zip(expected, applied, strict=True)


def _each_netem(observed: Observed) -> Iterator[tuple[str, str, Sender, AppliedNetem]]:
    """Yields for each sender, direction and state: the host as named in sentences, the direction,
    the sender as configured at that time, and the effects of its netem.
    """
    topology = observed.topology
    for sender in topology.senders:
        host = f"{sender.name}: " if len(topology.senders) > 1 else ""
        phases = path.own_phases(topology, sender)
        for direction, device, project in (
            ("data", "data-delay", _of_data),
            ("ACKs", "ack-delay", _of_acks),
        ):
            states = observed.applied.devices.get(topology.device_name(device, sender), ())
            if states:
                for then, state in _states([project(phase) for phase in phases], states):
                    assert isinstance(then, Sender)
                    yield host, direction, then, state.netem or WITHOUT_NETEM


def _of_data(sender: Sender) -> Sender:
    return Sender(sender.name, sender.delay_of_data_s, sender.loss, sender.jitter_s, sender.reorder)


def _of_acks(sender: Sender) -> Sender:
    return Sender(sender.name, sender.delay_of_acks_s, None, sender.jitter_s)


def senders(observed: Observed) -> Limits:
    """Compares the senders' names, by their devices, and their order, by their addresses."""
    topology, measurement = observed.topology, observed.measurement
    configured = [sender.name for sender in topology.senders]
    by_address = {pair.sender_address: pair.sender.name for pair in layout(topology).pairs}
    if measurement.series.senders is not None and measurement.series.senders != by_address:
        seen = list(measurement.series.senders.values())
        yield "path", f"the senders were {', '.join(seen)}, configured are {', '.join(configured)}"
    for name in configured:
        if not any(
            place.startswith(f"{NAMESPACE_PREFIX}{name}/")
            for state in observed.applied.states
            for place in state.devices
        ):
            yield "path", f"there was no host {name}"


def delays(observed: Observed) -> Limits:
    for host, direction, then, netem in _each_netem(observed):
        if off(netem.delay_s, then.delay_s, DELAY_STEP_S):
            yield (
                "rtt",
                f"{host}tc delays {direction} by {format_time(netem.delay_s)}, configured are "
                f"{format_time(then.delay_s)}",
            )


def jitter(observed: Observed) -> Limits:
    for host, direction, then, netem in _each_netem(observed):
        if off(netem.jitter_s, then.jitter_s, JITTER_STEP_S):
            yield (
                "rtt",
                f"{host}tc varies the delay of {direction} by {format_time(netem.jitter_s)}, "
                f"configured are {format_time(then.jitter_s)}",
            )


def reordering(observed: Observed) -> Limits:
    for host, direction, then, netem in _each_netem(observed):
        if off(netem.reorder, then.reorder):
            yield (
                "path",
                f"{host}tc reorders {format_percent(netem.reorder)} of {direction}, "
                f"configured are {format_percent(then.reorder)}",
            )


def loss_parameters(observed: Observed) -> Limits:
    for host, direction, then, netem in _each_netem(observed):
        yield from loss_difference(netem, then.loss, direction, host)


def loss_difference(
    netem: AppliedNetem, configured: Loss | None, direction: str, host: str = ""
) -> Limits:
    """Compares a netem's loss, its model and parameters."""
    applied, wanted = (netem.loss_model, netem.loss_parameters), _tc_loss(configured)
    same = applied[0] == wanted[0] and len(applied[1]) == len(wanted[1])
    if not same or any(map(off, applied[1], wanted[1])):
        yield (
            "loss",
            f"{host}tc loses {_loss_text(applied)} of {direction}, configured is "
            f"{_loss_text(wanted)}",
        )


def _tc_loss(loss: Loss | None) -> tuple[str | None, tuple[float, ...]]:
    """Returns a loss as tc reports it, with all four parameters of gemodel (tc-netem(8))."""
    if loss is None:
        return None, ()
    return loss.model, loss.parameters if loss.model == "random" else gemodel_parameters(
        loss.parameters
    )


def off(applied: float, configured: float, step: float = SHARE_STEP) -> bool:
    """Returns whether a number of tc, which has six digits, differs by more than `step`."""
    return abs(applied - configured) > step + SIX_DIGITS * configured


def _loss_text(loss: tuple[str | None, tuple[float, ...]]) -> str:
    model, shares = loss
    return f"{model} {' '.join(format_percent(share) for share in shares)}" if model else "nothing"


def rate(observed: Observed) -> Limits:
    """Compares the kernel's rate in each phase; trains and counters are compared by `path.rate`."""
    topology, applied = observed.topology, observed.applied
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
        yield (
            "rate",
            f"{host}the kernel has {format_rate(applied_bps)}, configured are "
            f"{format_rate(configured_bps)}",
        )


def sender_rates(observed: Observed) -> Limits:
    topology, applied = observed.topology, observed.applied
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
    """Compares the queue discipline of each sender's device, which is below a token bucket if the
    device has a rate.
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
                    f"{sender.name} has {present.kind if present else 'none'}, configured is "
                    f"{kind}",
                )
                continue
            by_pacing = (
                () if "maxrate" in words else ("maxrate",)
            )  # which traffic_fields.pacing() compares
            options = {
                name: value for name, value in present.options.items() if name not in by_pacing
            }
            for difference in option_differences(configured, topology.packet_bytes, options):
                yield "sender-queue", f"{sender.name}'s {kind} has {difference}"


def shaper(observed: Observed) -> Limits:
    for state in observed.applied.devices[BOTTLENECK]:
        if state.root.kind != observed.topology.shaper:
            yield (
                "queue",
                f"the bottleneck's shaper was {state.root.kind}, configured is "
                f"{observed.topology.shaper}",
            )


def queue_kind(observed: Observed) -> Limits:
    topology = observed.topology
    for state in observed.applied.devices[BOTTLENECK]:
        kind = (
            state.leaf.kind if state.leaf else "bfifo"
        )  # tbf's built-in queue counts bytes (net/sched/sch_tbf.c)
        if kind != topology.queue.kind:
            yield "queue", f"the bottleneck had {kind}, configured is {topology.queue.kind}"


def queue_parameters(observed: Observed) -> Limits:
    topology = observed.topology
    for state in observed.applied.devices[BOTTLENECK]:
        if state.leaf and state.leaf.kind == topology.queue.kind:
            held = options_of_buffer(topology)
            for difference in option_differences(
                topology.queue, topology.packet_bytes, state.leaf.options, held
            ):
                yield "queue", f"the bottleneck's {topology.queue.kind} had {difference}"


def mtu(observed: Observed) -> Limits:
    configured = observed.topology.mtu_bytes
    for state in observed.applied.states:
        others = {
            place: device.mtu_bytes
            for place, device in state.devices.items()
            if device.mtu_bytes != configured
        }
        for place, mtu_bytes in list(others.items())[:1]:
            yield (
                "path",
                f"the MTU of {len(others)} devices, such as {place}, was {mtu_bytes}, configured "
                f"is {configured}",
            )


def offloads(observed: Observed) -> Limits:
    """Compares the features of every device with the configuration, which may be on or off."""
    topology = observed.topology
    for state in observed.applied.states:
        on = [place for place, device in state.devices.items() if device.offloads]
        if topology.offloads and not on:
            yield "offloads", "all offloads are off, configured is on"
        elif on and not topology.offloads:
            names = state.devices[on[0]].offloads
            yield (
                "offloads",
                f"on are {', '.join(names)} of "
                f"{on[0]}{f' and {len(on) - 1} more' if on[1:] else ''}",
            )


def receivers(observed: Observed) -> Limits:
    """Compares which namespaces have the addresses that the senders send to."""
    topology, applied = observed.topology, observed.applied
    if not applied.states:
        return
    for pair in layout(topology).pairs:
        seen, configured = (
            applied.receivers(pair.receiver_address),
            NAMESPACE_PREFIX + pair.receiver,
        )
        if seen != {configured}:
            place = ", ".join(sorted(seen)) or "no host"
            yield "path", f"{pair.sender.name}'s receiver was {place}, configured is {configured}"


def kernel(observed: Observed) -> Limits:
    """Compares the configured kernel with the file that the guest was started with, and with the
    guest's own report.
    """
    configured, facts = observed.topology.kernel, observed.measurement.facts
    ran = facts.lab_kernel
    if ran is None:
        if configured != STOCK_KERNEL:
            yield "kernel", f"no guest of the lab ran, configured is {configured}"
    elif ran.name != configured:
        yield "kernel", f"the guest was started with {ran.name}, configured is {configured}"
    elif ran.release != facts.kernel:
        yield (
            "kernel",
            f"the guest reports kernel {facts.kernel}, but the file of {ran.name} is {ran.release}",
        )


def host_root(observed: Observed) -> Limits:
    """Compares the configured root with that of the guest, if one ran."""
    configured, ran = observed.topology.host_root, observed.measurement.facts.guest_root
    if ran is not None and configured != (ran.userland_sha256 is None):
        root, other = "this machine's file system", "the lab's userland"
        seen, wanted = (other, root) if configured else (root, other)
        yield "host-root", f"the guest had {seen}, configured is {wanted}"


def module_parameter(observed: Observed) -> Limits:
    """Compares a module's parameter, as /sys/module had it before the traffic and after it."""
    configured = observed.topology.module_parameter
    for state in observed.applied.states:
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
                f"{configured.path}{element} was {seen or 'not read back'}, configured is "
                f"{configured.value}",
            )


def ecn(observed: Observed) -> Limits:
    """Compares the sysctl tcp_ecn of both ends: 1 asks for ECN, 2 only grants it (ip-sysctl)."""
    configured = observed.topology.ecn
    for state in observed.applied.states:
        wrong = [
            end
            for end, values in state.sysctls.items()
            if (values.get("net.ipv4.tcp_ecn") == "1") != configured
        ]
        if wrong:
            asks = "does not ask" if configured else "asks"
            yield "ecn", f"{wrong[0]} {asks} for ECN, configured is {'on' if configured else 'off'}"


def receiver_windows(observed: Observed) -> Limits:
    """Compares the receivers' sysctl, and the largest window that each sender saw, with the
    configured window.
    """
    topology = observed.topology
    given = bool(configured_windows(topology))
    for state in observed.applied.states:
        for pair in layout(topology).pairs:
            read_back = state.sysctls.get(NAMESPACE_PREFIX + pair.receiver, {}).get(TCP_RMEM)
            if read_back is None and not given:
                continue  # it is read back only if a window is configured
            seen = (read_back or "not read back").split()
            configured = tcp_rmem(topology, pair.sender.receiver_window_bytes)
            if seen != configured.split():
                yield (
                    "receiver-window",
                    f"tcp_rmem of {pair.sender.name}'s receiver was {' '.join(seen)}, configured "
                    f"are {configured}",
                )
    for host, seen_bytes in (
        seen_windows(observed.tables).group_by("host").agg(pl.col("window_bytes").max()).rows()
    ):
        configured_bytes = configured_windows(topology).get(host)
        if configured_bytes and seen_bytes > configured_bytes * (1 + WINDOW_FRACTION):
            sizes = format_bytes(seen_bytes), format_bytes(configured_bytes)
            yield (
                "receiver-window",
                f"{host} saw a window of {sizes[0]}, configured are {sizes[1]} at most",
            )


def capture(observed: Observed) -> Limits:
    """Compares whether tcpdump captured with the configuration. It counts lost packets itself."""
    configured, captured = (
        observed.run.path.capture is not None,
        observed.measurement.facts.capture is not None,
    )
    if configured != captured:
        seen, asked = ("on" if on else "off" for on in (captured, configured))
        yield "probe", f"tcpdump was {seen}, configured is {asked}"


def buffer(observed: Observed) -> Limits:
    """Compares the limit of the bottleneck's queue, in packets if it counts packets."""
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


def burst(observed: Observed) -> Limits:
    """Compares the bottleneck's token bucket, which tc counts in whole microseconds at the rate."""
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
                f"the bucket had {format_bytes(applied_bytes)}, configured are "
                f"{format_bytes(configured)}",
            )


def policer(observed: Observed) -> Limits:
    """Compares whether data passes a policer, its rate and burst, and that it drops the packets
    above the rate.
    """
    configured, applied = observed.topology.policer, observed.applied
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
            yield "policer", f"the policer passes {rates[0]}, configured are {rates[1]}"
        step_bytes = (
            LATENCY_STEP_S * configured.rate_bps / 8 + BURST_FRACTION * configured.burst_bytes + 1
        )
        if abs(present.burst_bytes - configured.burst_bytes) > step_bytes:
            sizes = format_bytes(round(present.burst_bytes)), format_bytes(configured.burst_bytes)
            yield "policer", f"the policer's burst is {sizes[0]}, configured are {sizes[1]}"
        if present.exceed != "drop":
            yield (
                "policer",
                f"the policer's action above the rate is {present.exceed}, configured is drop",
            )


def ack_bottleneck(observed: Observed) -> Limits:
    """Compares the rate and the limit of the bottleneck of ACKs."""
    topology, acks = observed.topology, observed.topology.ack_bottleneck
    states = observed.applied.devices.get(ACK_BOTTLENECK, ())
    if bool(states) != bool(acks):
        yield (
            "path",
            f"there was {'a' if states else 'no'} bottleneck of ACKs, configured is "
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


def control(observed: Observed) -> Limits:
    """Compares whether each sender has a control link beside the path, and its delays."""
    topology = observed.topology
    for sender in topology.senders:
        for what, delay_s in (("data", sender.delay_s), ("ack", sender.delay_of_acks_s)):
            device = topology.device_name(f"{CONTROL}-{what}", sender)
            states = observed.applied.devices.get(device, ())
            if bool(states) != (topology.control == "beside"):
                yield (
                    "path",
                    f"{sender.name} had {'a' if states else 'no'} link beside the path, configured "
                    f"is control = {topology.control}",
                )
                break
            for state in states:
                applied_s = (state.netem or WITHOUT_NETEM).delay_s
                if off(applied_s, delay_s, DELAY_STEP_S):
                    yield (
                        "rtt",
                        f"{sender.name}: tc delays control by {format_time(applied_s)}, configured "
                        f"are {format_time(delay_s)}",
                    )


def _tbf_limit_difference(root: AppliedQdisc, configured_bytes: int, where: str = "") -> Limits:
    """Compares the limit of tbf's built-in queue.

    tc(8) reports it as a latency in whole microseconds, limit / rate - burst / rate; if it is less
    than the burst, in bytes (iproute2, tc/q_tbf.c).
    """
    limit, latency_us, rate, burst = (
        _number(root.options.get(name)) for name in ("limit", "lat", "rate", "burst")
    )
    applied_bytes, exact_bytes = limit, 0.0
    if "limit" not in root.options:
        applied_bytes = latency_us * 1e-6 * rate + burst
        exact_bytes = LATENCY_STEP_S * rate + BURST_STEP_BYTES
    if abs(applied_bytes - configured_bytes) > exact_bytes:
        yield "buffer", _bytes_text(applied_bytes, configured_bytes, where)


def _bytes_text(applied_bytes: float, configured_bytes: int, where: str = "") -> str:
    return (
        f"{where}the kernel has {format_bytes(applied_bytes)}, configured are "
        f"{format_bytes(configured_bytes)}"
    )


def _limit_difference(leaf: AppliedQdisc, configured_packets: int, where: str = "") -> Limits:
    """Compares the limit of a queue that counts packets."""
    packets = _number(leaf.options.get("limit"))
    if packets != configured_packets:
        yield (
            "buffer",
            f"{where}the kernel has {packets:g} packets, configured are {configured_packets}",
        )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def changes(observed: Observed) -> Limits:
    """Compares the number and the times of the changes that were made."""
    topology, made_s = observed.topology, observed.applied.changes_s
    configured_s = [at_s for at_s, _ in topology.phases[1:]]
    if len(made_s) != len(configured_s):
        yield "changes", f"{len(made_s)} were made, configured are {len(configured_s)}"
    for at_s, seen_s in zip(configured_s, made_s, strict=False):
        if abs(seen_s - at_s) > CHANGE_TOLERANCE_S:
            yield (
                "changes",
                f"one was made after {format_time(round(seen_s, 3))}, configured are "
                f"{format_time(at_s)}",
            )
    for device, configured_states in _changed_devices(topology):
        states = observed.applied.devices.get(device, ())
        if states and len(states) - 2 != configured_states - 1:
            yield (
                "changes",
                f"{device} was changed {len(states) - 2} times, configured are "
                f"{configured_states - 1}",
            )


def _changed_devices(topology: Topology) -> Iterator[tuple[str, int]]:
    """Yields each device that changes may affect, with the number of its different successive
    states.
    """
    yield BOTTLENECK, _distinct([phase.rate_bps for _, phase in topology.phases])
    for sender in topology.senders:
        phases = path.own_phases(topology, sender)
        yield (
            topology.device_name("data-delay", sender),
            _distinct([_of_data(phase) for phase in phases]),
        )
        yield (
            topology.device_name("ack-delay", sender),
            _distinct([_of_acks(phase) for phase in phases]),
        )


def _distinct(states: Sequence[object]) -> int:
    return len(list(itertools.groupby(states)))
