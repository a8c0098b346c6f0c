"""Checks the parts of an emulated path, and the settings of its hosts, against what was read back.

Its netems are checked in netem_fields.py, and its rates and queues in queue_fields.py.
"""

import polars as pl

from ccmix.analysis.validity.applied import Observed, Problems
from ccmix.analysis.validity.hosts import WINDOW_FRACTION, configured_windows, seen_windows
from ccmix.conditions.layout import NAMESPACE_PREFIX, layout
from ccmix.conditions.sysctl import TCP_RMEM, tcp_rmem
from ccmix.model import STOCK_KERNEL
from ccmix.units import format_bytes


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
