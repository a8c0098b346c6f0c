"""Sets up an emulated path (a dumbbell topology) in network namespaces of this machine.

conditions/layout.py plans it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ccmix.agent.journal import Journal
from ccmix.conditions import rtnetlink
from ccmix.conditions.layout import (
    NAMESPACE_PREFIX,
    ROUTERS,
    EmulatingDevice,
    End,
    Layout,
    Pair,
    PathRoute,
    layout,
)
from ccmix.conditions.namespaces import offloads_off, sysctl_file, write_sysctls
from ccmix.conditions.sysctl import LARGEST_BUFFER_BYTES, TCP_RMEM, changed_sysctls, tcp_rmem
from ccmix.conditions.tc import run_tc
from ccmix.hosts import CommandError, EnteredNamespace, Host, LocalHost
from ccmix.hosts.local import NAMES, entered
from ccmix.model import Topology

IPV6_OFF = "net.ipv6.conf.all.disable_ipv6"
LINKS_AT_ONCE = 200  # ip keeps each namespace open, and a process may have 1024 open files
# For paths that lose bursts: TCP tries a connection 127 times, once a second (MAX_TCP_SYNCNT in
# Linux's tcp.h)
PATIENT = {"net.ipv4.tcp_syn_retries": "127", "net.ipv4.tcp_syn_linear_timeouts": "127"}


@dataclass(frozen=True)
class Dumbbell:
    """Gives access to the hosts and devices of an emulated path that has been set up."""

    layout: Layout

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Returns the pairs of a sender and its receiver."""
        return self.layout.pairs

    @property
    def bottleneck(self) -> EmulatingDevice:
        """Returns the device that has the path's rate and buffer."""
        return self.layout.bottleneck

    @property
    def devices(self) -> dict[str, EmulatingDevice]:
        """Returns the devices with qdiscs that emulate the path, by their purpose, such as
        'bottleneck'.
        """
        return {device.what: device for device in self.layout.emulating}

    def pair(self, sender: str) -> Pair:
        """Returns the pair of hosts to which the sender with this name belongs."""
        return next(pair for pair in self.pairs if pair.sender.name == sender)

    def pair_of(self, end: str) -> Pair:
        """Returns the pair of hosts to which the sender or receiver with this name belongs; the
        first pair, if several senders share the receiver.
        """
        return next(pair for pair in self.pairs if end in (pair.sender.name, pair.receiver))

    def host(self, namespace: str) -> Host:
        """Returns a host or router of the path, by the name of its namespace without 'ccmix-', to
        run commands there. Changes made through it need no undo, because they disappear with the
        path.
        """
        return EnteredNamespace(NAMESPACE_PREFIX + namespace)

    @property
    def ends(self) -> tuple[Host, ...]:
        """Returns all senders and receivers, to run commands in their namespaces."""
        return tuple(
            map(self.host, (*(pair.sender.name for pair in self.pairs), *self.layout.receivers))
        )

    def sender(self, pair: Pair) -> Host:
        """Returns the pair's sender, to run commands in its namespace."""
        return self.host(pair.sender.name)

    def receiver(self, pair: Pair) -> Host:
        """Returns the pair's receiver, to run commands in its namespace."""
        return self.host(pair.receiver)


@contextmanager
def dumbbell(topology: Topology, journal: Journal) -> Iterator[Dumbbell]:
    """Sets up the path of a topology in network namespaces of this machine while the context lasts,
    and removes it at the end. Needs root and netem. `journal` keeps the undos, in case that ccmix
    dies. Raises CommandError.

    The namespaces have fixed names, so there can be only one such path at a time.
    """
    local = LocalHost(journal)
    plan = layout(topology)
    with ExitStack() as changes:
        changes.enter_context(changed_sysctls(local, _machine_sysctls(topology)))
        changes.enter_context(_namespaces(local, plan.namespaces))
        _connect(plan, topology)
        yield Dumbbell(plan)


@contextmanager
def _namespaces(local: LocalHost, names: Sequence[str]) -> Iterator[None]:
    """Creates network namespaces with these names, after the prefix 'ccmix-', and deletes them when
    the context ends. A single process creates all of them. Raises CommandError if one of them
    exists already.
    """
    names = [NAMESPACE_PREFIX + name for name in names]
    for name in names:
        if (NAMES / name).exists():
            raise CommandError(
                "localhost",
                ["ip", "netns", "add", name],
                "it exists: another ccmix run has it, or a dead run left it ('ccmix restore' "
                "removes it)",
            )
    add, delete = (
        ["sh", "-c", f'printf "netns {command} %s\\n" "$@" | ip {options} -batch -', "sh", *names]
        for command, options in (("add", ""), ("del", "-force"))
    )
    shown = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    with local.changed(f"namespaces {shown}", add, delete):
        yield


def _machine_sysctls(topology: Topology) -> dict[str, str]:
    """Returns the sysctls that all namespaces share, by name. Their values are so high that they do
    not disturb the emulated path.

    tcp_mem limits the memory of all sockets, in pages. If it is too small, as by default on a small
    machine, the kernel shrinks the receiver's window. netdev_max_backlog limits the packets that a
    veth device hands to its peer; its default of 1000 packets is less than a burst.
    """
    needed_bytes = 64 * (topology.bdp_bytes + topology.buffer_bytes) + 2**30
    pages = int(needed_bytes / 4096)
    return {
        "net.ipv4.tcp_mem": f"{pages} {pages * 3 // 2} {pages * 2}",
        "net.core.netdev_max_backlog": "1000000",
    }


def _namespace_sysctls(
    namespace: str, topology: Topology, window_bytes: int | None
) -> dict[str, str]:
    """Returns the sysctls of a host or router of the path, by name. `window_bytes` limits a
    receiver's window; None: no limit.

    IPv6 is off, because its router solicitations would also pass the bottleneck. Routers have no
    sockets, so they do not look for the socket of each packet (early demux).
    """
    quiet = {IPV6_OFF: "1"} if sysctl_file(IPV6_OFF).exists() else {}
    if namespace in ROUTERS:
        return quiet | {"net.ipv4.ip_forward": "1", "net.ipv4.ip_early_demux": "0"}
    return (
        quiet
        | {
            TCP_RMEM: tcp_rmem(topology, window_bytes),
            "net.ipv4.tcp_wmem": f"4096 131072 {LARGEST_BUFFER_BYTES}",
            "net.ipv4.tcp_no_metrics_save": "1",
        }
        | ({"net.ipv4.tcp_ecn": "1"} if topology.ecn else {})
        | (PATIENT if topology.control == "beside" else {})
    )


def _connect(plan: Layout, topology: Topology) -> None:
    """Connects the namespaces by veth links as planned, and sets up their addresses, routes,
    qdiscs, offloads and sysctls. No undo is needed, because all of this disappears with the
    namespaces. Raises CommandError or OSError.
    """
    mtu = topology.mtu_bytes
    local = LocalHost()
    commands = [
        f"link add {_device(near, mtu)} type veth peer name {_device(far, mtu)}"
        for near, far in plan.links
    ]
    for begin in range(0, len(commands), LINKS_AT_ONCE):
        local.run(["ip", "-batch", "-"], stdin="\n".join(commands[begin : begin + LINKS_AT_ONCE]))
    # by namespace: each of its devices with the one at the other end of the link
    ends: dict[str, list[tuple[End, End]]] = {}
    for near, far in plan.links:
        for end, other in ((near, far), (far, near)):
            ends.setdefault(end.place.namespace, []).append((end, other))
    # by namespace: its receive window, emulating devices and routes
    windows = {pair.receiver: pair.sender.receiver_window_bytes for pair in plan.pairs}
    emulating: dict[str, list[EmulatingDevice]] = {}
    for device in plan.emulating:
        emulating.setdefault(device.place.namespace, []).append(device)
    routes: dict[str, list[PathRoute]] = {}
    for route in plan.routes:
        routes.setdefault(route.namespace, []).append(route)
    for namespace, devices in ends.items():
        host = EnteredNamespace(NAMESPACE_PREFIX + namespace)
        with entered(host.name):
            write_sysctls(_namespace_sysctls(namespace, topology, windows.get(namespace)))
            if not topology.offloads:
                offloads_off(end.place.device for end, _ in devices)
            rtnetlink.carry_out(_requests(devices, routes.get(namespace, ())))
        if namespace in emulating:
            batch = [
                (device, line) for device in emulating[namespace] for line in device.lines("add")
            ]
            run_tc(host, topology, batch)


def _requests(
    ends: Sequence[tuple[End, End]], routes: Sequence[PathRoute]
) -> list[rtnetlink.RtnetlinkRequest]:
    """Returns the requests to the kernel that set up the network of one namespace: addresses of its
    devices, routes, and permanent ARP entries, so that no ARP packets pass the path.

    ends: for each device of the namespace, the device and the other end of its link
    """
    requests = [rtnetlink.up("lo")]
    for end, other in ends:
        device = end.place.device
        requests += [rtnetlink.address(device, address) for address in end.addresses]
        requests.append(rtnetlink.up(device))
        requests += [rtnetlink.neighbour(device, ip, other.mac) for ip in other.ips]
    return requests + [
        rtnetlink.route(route.network, route.gateway, route.table) for route in routes
    ]


def _device(end: End, mtu_bytes: int) -> str:
    """Returns one end of a veth link as arguments of `ip link add`: its name, MAC address, MTU and
    namespace.
    """
    return (
        f"{end.place.device} address {end.mac} mtu {mtu_bytes} netns "
        f"{NAMESPACE_PREFIX}{end.place.namespace}"
    )
