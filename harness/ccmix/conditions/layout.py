"""Plans an emulated path (a dumbbell): namespaces, links, addresses, routes, qdiscs of all devices.

It changes nothing on the machine.

    h1 eth0 ── west [delay] east ── west [bottleneck] east ── eth0 receiver

Data flows from left to right. [delay] delays both directions with netem and loses data packets.
[bottleneck] has the rate and the buffer. Nothing else queues packets, so the buffer has exactly the
size in the topology, and netem's own queue does not add to it. A policer drops data at the same
device, before its queue. Delay and bottleneck are in separate routers as in Gomez et al. 2024,
figure 3. They are not on the hosts either, because a qdisc on the sender takes part in TCP's small
queues and pacing.

With several senders, each has its own link through [delay], so that each can have its own delay:

  h1 eth0 ── west1 [delay] east1 ── west1 [          ] east ── west [    ] east1 ── eth0 h1-receiver
  h2 eth0 ── west2 [delay] east2 ── west2 [bottleneck]              [exit] east2 ── eth0 h2-receiver

A bottleneck of ACKs is in the exit router, at its west device, through which all packets return.
With it, a path with one receiver has this router, too.

Next to the path, iperf3's control connections can have another link from each sender to its
receiver, which has only the path's delay. A routing table leads there, and the code that starts
iperf3 adds the rule that uses the table.

Addresses identify the sender of a packet: each sender has its own receiver address, even if all
share one receiver, which then has many addresses.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ccmix.conditions import qdisc
from ccmix.conditions.rtnetlink import MAIN_TABLE
from ccmix.model import Sender, Topology

NAMESPACE_PREFIX = "ccmix-"
DELAY, BOTTLENECK, EXIT, RECEIVER = "delay", "bottleneck", "exit", "receiver"
ACK_BOTTLENECK = "ack-bottleneck"  # the purpose of its device
CONTROL = "control"
CONTROL_TABLE = 100  # of routes
ALL = "0.0.0.0/0"
ROUTERS = (DELAY, BOTTLENECK, EXIT)


@dataclass(frozen=True)
class Place:
    """Names a network device and its namespace, without the prefix 'ccmix-' of the namespace."""

    namespace: str
    device: str


@dataclass(frozen=True)
class End:
    """Describes one end of a veth link: the device, its IP addresses, such as '10.0.1.1/24', and
    its MAC address, such as '02:00:00:00:00:01'.
    """

    place: Place
    addresses: tuple[str, ...]
    mac: str = ""

    @property
    def ips(self) -> list[str]:
        """Returns the addresses without the lengths of their prefixes: '10.0.1.1'."""
        return [address.partition("/")[0] for address in self.addresses]


@dataclass(frozen=True)
class PathRoute:
    """Describes a route in the routing table of a namespace: to a network, such as '10.0.3.0/24',
    through a gateway.
    """

    namespace: str
    network: str
    gateway: str
    table: int = MAIN_TABLE


@dataclass(frozen=True)
class EmulatingDevice:
    """Describes a device whose qdiscs emulate a property of the path, such as its rate or delay.

    `what` is its purpose, such as 'bottleneck'. `arguments` has the words of tc for each qdisc,
    class or filter, without verb and device: ('qdisc', 'root', 'netem', ...).
    """

    what: str
    place: Place
    arguments: tuple[tuple[str, ...], ...]

    def lines(self, verb: str) -> list[str]:
        """Returns the lines for `tc -batch` that set up or change the device's qdiscs. With the
        verb 'add', a line is 'qdisc add dev east root netem ...'.
        """
        device = self.place.device
        return [" ".join([first, verb, "dev", device, *rest]) for first, *rest in self.arguments]


@dataclass(frozen=True)
class Pair:
    """Describes a sender and its receiver: their addresses, and the devices that only they use."""

    sender: Sender
    receiver: str
    sender_address: str
    receiver_address: str
    sender_queue: EmulatingDevice
    data_delay: EmulatingDevice
    ack_delay: EmulatingDevice
    # both ends of the link next to the path, if there is one
    control: tuple[EmulatingDevice, ...] = ()


@dataclass(frozen=True)
class Layout:
    """Describes all namespaces, links, routes and devices that a topology needs."""

    pairs: tuple[Pair, ...]
    bottleneck: EmulatingDevice
    links: tuple[tuple[End, End], ...]
    routes: tuple[PathRoute, ...]
    ack_bottleneck: EmulatingDevice | None = None

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Returns the names of all namespaces, each once."""
        return tuple(dict.fromkeys(end.place.namespace for link in self.links for end in link))

    @property
    def receivers(self) -> tuple[str, ...]:
        """Returns the names of the receivers, each once: several senders may share one."""
        return tuple(dict.fromkeys(pair.receiver for pair in self.pairs))

    @property
    def emulating(self) -> tuple[EmulatingDevice, ...]:
        """Returns all devices whose qdiscs emulate the path: those of each pair of hosts, the
        bottleneck, and the ACKs' bottleneck if there is one.
        """
        of_pairs = (device for pair in self.pairs for device in _pair_devices(pair))
        return (*of_pairs, self.bottleneck, *([self.ack_bottleneck] if self.ack_bottleneck else []))


def _pair_devices(pair: Pair) -> tuple[EmulatingDevice, ...]:
    """Returns the emulating devices of a pair of hosts: its sender's queue, its delays, and its
    control link.
    """
    return pair.sender_queue, pair.data_delay, pair.ack_delay, *pair.control


def layout(topology: Topology) -> Layout:
    """Plans the emulated path of a topology, as in the picture at the top of this module.

    Senders are counted from 0. The addresses of sender N and of its receiver begin with 10.N. The
    west side of a router is towards the senders, and the east side towards the receivers. An exit
    router follows the bottleneck if each sender has its own receiver, or if ACKs have a bottleneck.
    """
    senders = topology.senders
    several = len(senders) > 1
    fans_out = several and topology.receivers == "each"
    acks = topology.ack_bottleneck
    has_exit = fans_out or acks is not None
    pairs: list[Pair] = []
    links: list[tuple[End, End]] = []
    routes: list[PathRoute] = []
    far_ends: list[End] = []
    for index, sender in enumerate(senders):
        number = str(index + 1) if several else ""
        west, east = f"west{number}", f"east{number}"
        net = f"10.{index}"
        receiver = f"{sender.name}-{RECEIVER}" if fans_out else RECEIVER
        control: tuple[EmulatingDevice, ...] = ()
        if topology.control == "beside":
            ends = (
                _end(sender.name, CONTROL, f"{net}.5.1/24"),
                _end(receiver, f"{CONTROL}{number}", f"{net}.5.2/24"),
            )
            control = _control_devices(topology, sender, ends)
            links.append(ends)
            routes += [
                PathRoute(sender.name, f"{net}.3.0/24", f"{net}.5.2", CONTROL_TABLE),
                PathRoute(receiver, f"{net}.1.0/24", f"{net}.5.1", CONTROL_TABLE),
            ]
        pairs.append(
            Pair(
                sender,
                receiver,
                f"{net}.1.1",
                f"{net}.3.2",
                EmulatingDevice(
                    topology.device_name("sender-queue", sender),
                    Place(sender.name, "eth0"),
                    _sender_queue(topology, sender),
                ),
                EmulatingDevice(
                    topology.device_name("data-delay", sender),
                    Place(DELAY, east),
                    (_netem(data_netem(sender)),),
                ),
                EmulatingDevice(
                    topology.device_name("ack-delay", sender),
                    Place(DELAY, west),
                    (_netem(ack_netem(sender)),),
                ),
                control,
            )
        )
        # from the sender through both routers
        links.append(
            (_end(sender.name, "eth0", f"{net}.1.1/24"), _end(DELAY, west, f"{net}.1.2/24"))
        )
        links.append((_end(DELAY, east, f"{net}.2.1/24"), _end(BOTTLENECK, west, f"{net}.2.2/24")))
        routes += [
            PathRoute(sender.name, ALL, f"{net}.1.2"),
            PathRoute(DELAY, f"{net}.3.0/24", f"{net}.2.2"),
            PathRoute(BOTTLENECK, f"{net}.1.0/24", f"{net}.2.1"),
        ]
        # to the sender's own receiver, or to the one that all senders share
        if fans_out:
            links.append(
                (_end(EXIT, east, f"{net}.3.1/24"), _end(receiver, "eth0", f"{net}.3.2/24"))
            )
            routes.append(PathRoute(receiver, ALL, f"{net}.3.1"))
        else:
            far_ends.append(_end(RECEIVER, "eth0", f"{net}.3.2/24"))
            routes.append(PathRoute(RECEIVER, f"{net}.1.0/24" if several else ALL, f"{net}.3.1"))
        if has_exit:
            routes.append(PathRoute(BOTTLENECK, f"{net}.3.0/24", "10.255.0.2"))
    # links that all senders share
    if has_exit:
        links.append(
            (_end(BOTTLENECK, "east", "10.255.0.1/24"), _end(EXIT, "west", "10.255.0.2/24"))
        )
        routes.append(PathRoute(EXIT, ALL, "10.255.0.1"))
    if not fans_out:
        near = (EXIT if has_exit else BOTTLENECK, "east")
        links.append(
            (_joined(_end(*near, address) for address in _gateways(far_ends)), _joined(far_ends))
        )
    return Layout(
        tuple(pairs),
        EmulatingDevice(BOTTLENECK, Place(BOTTLENECK, "east"), bottleneck_arguments(topology)),
        tuple(_with_macs(links)),
        tuple(routes),
        ack_bottleneck=_ack_bottleneck(topology),
    )


def _control_devices(
    topology: Topology, sender: Sender, ends: tuple[End, End]
) -> tuple[EmulatingDevice, ...]:
    """Returns both ends of a link for iperf3's control connection that bypasses the emulated path.
    Each end delays packets as the path does in its direction, but the link has no loss and no rate
    limit.
    """
    delays_s = (sender.delay_s, sender.delay_of_acks_s)
    return tuple(
        EmulatingDevice(
            topology.device_name(f"{CONTROL}-{direction}", sender),
            end.place,
            (_netem(qdisc.netem(delay_s)),),
        )
        for direction, end, delay_s in zip(("data", "ack"), ends, delays_s, strict=True)
    )


def _ack_bottleneck(topology: Topology) -> EmulatingDevice | None:
    """Returns the device that limits the rate of ACKs on the way back; None if the topology has no
    such limit.
    """
    if topology.ack_bottleneck is None:
        return None
    arguments = map(tuple, qdisc.ack_bottleneck(topology, topology.ack_bottleneck))
    return EmulatingDevice(ACK_BOTTLENECK, Place(EXIT, "west"), tuple(arguments))


def data_netem(sender: Sender) -> list[str]:
    """Returns tc's words for the netem that delays and loses a sender's data."""
    return qdisc.netem(sender.delay_of_data_s, sender.loss, sender.jitter_s, sender.reorder)


def ack_netem(sender: Sender) -> list[str]:
    """Returns tc's words for the netem that delays the ACKs to a sender."""
    return qdisc.netem(sender.delay_of_acks_s, None, sender.jitter_s)


def bottleneck_arguments(topology: Topology) -> tuple[tuple[str, ...], ...]:
    """Returns tc's words for the bottleneck's device, in the form of EmulatingDevice.arguments: the
    shaper, which limits the rate; the queue below the shaper, unless the shaper's own queue is
    used; and the policer, if the topology has one.
    """
    queue = qdisc.leaf(topology)
    policer = qdisc.policer(topology, topology.policer) if topology.policer else []
    return tuple(map(tuple, [*qdisc.shaper(topology), *([queue] if queue else []), *policer]))


def _netem(arguments: Sequence[str]) -> tuple[str, ...]:
    """Returns tc's words that make a netem the root qdisc of a device."""
    return ("qdisc", "root", *arguments)


def _sender_queue(topology: Topology, sender: Sender) -> tuple[tuple[str, ...], ...]:
    """Returns tc's words for the qdiscs of a sender's device. If the sender has a rate limit of its
    own, a token bucket (tbf) with this rate is above the queue.

    The queue rarely fills, because TCP's small queues limit how much each socket puts into it, as
    with a real slow device.
    """
    if sender.rate_bps is None:
        return (("qdisc", "root", *qdisc.sender_queue(sender.queue)),)
    burst = str(topology.bucket_bytes(sender.rate_bps))
    bucket = (
        "tbf",
        "rate",
        f"{sender.rate_bps:.0f}bit",
        "burst",
        burst,
        "limit",
        str(topology.packet_bytes),
    )
    return (
        ("qdisc", "root", "handle", "1:", *bucket),
        ("qdisc", "parent", qdisc.LEAF_PARENT, "handle", "2:", *qdisc.sender_queue(sender.queue)),
    )


def _end(namespace: str, device: str, address: str) -> End:
    """Returns the end of a veth link at a device with one address. Its MAC address is added
    later.
    """
    return End(Place(namespace, device), (address,))


def _joined(ends: Iterable[End]) -> End:
    """Merges several ends of links at the same device into one end with all of their addresses. A
    receiver that several senders share has such a device.
    """
    ends = list(ends)
    return End(ends[0].place, tuple(address for end in ends for address in end.addresses))


def _with_macs(links: Iterable[tuple[End, End]]) -> Iterator[tuple[End, End]]:
    """Yields the links with MAC addresses at both ends. Otherwise the kernel would choose random
    ones, and runs would not repeat exactly.
    """
    for number, (near, far) in enumerate(links):
        yield replace(near, mac=_mac(2 * number)), replace(far, mac=_mac(2 * number + 1))


def _mac(number: int) -> str:
    """Returns a locally administered MAC address with this number: '02:00:00:00:00:01'."""
    return "02:00:" + number.to_bytes(4).hex(":")


def _gateways(far_ends: Sequence[End]) -> list[str]:
    """Returns for each address of a receiver the address of its gateway, which is in the same
    network: '10.0.3.1/24' for '10.0.3.2/24'.
    """
    return [address.replace(".2/", ".1/") for end in far_ends for address in end.addresses]
