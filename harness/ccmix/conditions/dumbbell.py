"""A dumbbell of network namespaces: sender, delay router, bottleneck router, receiver, one behind the other.

    h1 eth0 ── west [delay] east ── west [bottleneck] east ── eth0 receiver

Data flows from left to right. [delay] delays both directions with netem and loses data packets; [bottleneck] has the
rate and the buffer, and nothing else queues: so the buffer is what the topology says, and netem's own queue never
counts as one. Delay and bottleneck stand in routers apart from each other as in Gomez et al. 2024, figure 3, and apart
from the hosts, since a qdisc on the sender takes part in TCP's small queues and pacing.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccmix.agent.journal import Journal
from ccmix.conditions import qdisc
from ccmix.conditions.sysctl import changed_sysctls
from ccmix.hosts import CommandError, Host, LocalHost, NamespaceHost
from ccmix.model import Topology

SENDER, DELAY, BOTTLENECK, RECEIVER = "h1", "delay", "bottleneck", "receiver"
SENDER_ADDRESS, RECEIVER_ADDRESS = "10.0.1.1", "10.0.3.2"

LARGEST_WINDOW_BYTES = 512 * 2**20  # the autotuning limit of Tierney et al. 2021, section IV


@dataclass(frozen=True)
class Device:
    """A device of the dumbbell and the qdisc that it gets."""

    host: Host
    name: str
    qdisc: tuple[str, ...]


@dataclass(frozen=True)
class Dumbbell:
    """The hosts of a dumbbell that is up, and the devices that emulate."""

    sender: Host
    receiver: Host
    sender_queue: Device
    data_delay: Device
    ack_delay: Device
    bottleneck: Device

    @property
    def devices(self) -> dict[str, Device]:
        """The emulating devices by what they do."""
        return {
            "sender-queue": self.sender_queue,
            "data-delay": self.data_delay,
            "ack-delay": self.ack_delay,
            "bottleneck": self.bottleneck,
        }


@contextmanager
def dumbbell(topology: Topology, journal: Journal) -> Iterator[Dumbbell]:
    """The topology in namespaces of this machine, which needs root and netem. Raises CommandError.

    Namespaces have fixed names, so a second dumbbell at the same time is refused.
    """
    local = LocalHost(journal)
    hosts = {name: NamespaceHost(f"ccmix-{name}", journal) for name in (SENDER, DELAY, BOTTLENECK, RECEIVER)}
    path = Dumbbell(
        sender=hosts[SENDER],
        receiver=hosts[RECEIVER],
        sender_queue=Device(hosts[SENDER], "eth0", tuple(qdisc.fair_queue())),
        data_delay=Device(hosts[DELAY], "east", tuple(qdisc.netem(topology.delay_s, topology.loss))),
        ack_delay=Device(hosts[DELAY], "west", tuple(qdisc.netem(topology.delay_s, 0.0))),
        bottleneck=Device(
            hosts[BOTTLENECK],
            "east",
            tuple(qdisc.bottleneck(topology.rate_bps, topology.buffer_bytes, topology.packet_bytes)),
        ),
    )
    with ExitStack() as changes:
        changes.enter_context(changed_sysctls(local, _machine_sysctls(topology)))
        for host in hosts.values():
            changes.enter_context(_namespace(local, host))
        _connect(hosts, topology)
        for device in path.devices.values():
            changes.enter_context(qdisc.replaced_qdisc(device.host, device.name, device.qdisc))
        yield path


@contextmanager
def _namespace(local: LocalHost, host: NamespaceHost) -> Iterator[None]:
    add, delete = (["ip", "netns", command, host.name] for command in ("add", "del"))
    if Path("/run/netns", host.name).exists():
        raise CommandError(
            "localhost", add, "it exists: another ccmix run has it, or a dead run left it ('ccmix restore' removes it)"
        )
    with local.changed(f"namespace {host.name}", add, delete):
        yield


def _machine_sysctls(topology: Topology) -> dict[str, str]:
    """Limits that hold for all namespaces together, and that would distort the path under test if they were met.

    TCP memory, in pages: small by default on a small machine; in need of it the kernel shrinks the receiver's window.
    The backlog, in packets: what a veth device hands to its peer waits there, and 1000 packets are less than a burst.
    """
    needed_bytes = 64 * (topology.bdp_bytes + topology.buffer_bytes) + 2**30
    pages = int(needed_bytes / 4096)
    return {
        "net.ipv4.tcp_mem": f"{pages} {pages * 3 // 2} {pages * 2}",
        "net.core.netdev_max_backlog": "1000000",
    }


def _host_sysctls() -> dict[str, str]:
    return {
        "net.ipv4.tcp_rmem": f"4096 131072 {LARGEST_WINDOW_BYTES}",
        "net.ipv4.tcp_wmem": f"4096 131072 {LARGEST_WINDOW_BYTES}",
        "net.ipv4.tcp_no_metrics_save": "1",
    }


def _connect(hosts: dict[str, NamespaceHost], topology: Topology) -> None:
    """Devices, addresses, routes, offloads and TCP limits inside the namespaces; all of it goes when they go."""
    sender, delay, bottleneck, receiver = (hosts[name].name for name in (SENDER, DELAY, BOTTLENECK, RECEIVER))
    links = [
        (sender, "eth0", "10.0.1.1/24", delay, "west", "10.0.1.2/24"),
        (delay, "east", "10.0.2.1/24", bottleneck, "west", "10.0.2.2/24"),
        (bottleneck, "east", "10.0.3.1/24", receiver, "eth0", "10.0.3.2/24"),
    ]
    routes = {
        sender: ["default via 10.0.1.2"],
        delay: ["10.0.3.0/24 via 10.0.2.2"],
        bottleneck: ["10.0.1.0/24 via 10.0.2.1"],
        receiver: ["default via 10.0.3.1"],
    }
    local = LocalHost()
    pairs = [
        f"link add {near_dev} mtu {topology.mtu_bytes} netns {near} type veth "
        f"peer name {far_dev} mtu {topology.mtu_bytes} netns {far}"
        for near, near_dev, _, far, far_dev, _ in links
    ]
    local.run(["ip", "-batch", "-"], stdin="\n".join(pairs))
    for host in hosts.values():
        ends = [(dev, address) for near, dev, address, *_ in links if near == host.name]
        ends += [(dev, address) for *_, far, dev, address in links if far == host.name]
        lines = [f"addr add {address} dev {dev}\nlink set {dev} up" for dev, address in ends]
        lines += ["link set lo up", *(f"route add {route}" for route in routes[host.name])]
        local.run(["ip", "-n", host.name, "-batch", "-"], stdin="\n".join(lines))
        host.run(["sysctl", "-q", "-w", *(f"{name}={value}" for name, value in _host_sysctls().items())])
        if not topology.offloads:
            for dev, _ in ends:
                host.run(["ethtool", "-K", dev, "tso", "off", "gso", "off", "gro", "off"])
    for router in (hosts[DELAY], hosts[BOTTLENECK]):
        router.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
