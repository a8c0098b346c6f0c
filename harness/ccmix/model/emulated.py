"""An emulated path: what a [topology NAME] section says."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from ccmix.model.netem import Loss

ETHERNET_HEADER_BYTES = 14  # what a veth device adds to the MTU, and tbf and bfifo count
BUCKET_PACKETS = 2  # the least that keeps the rate exact: one in transmission, one whose tokens gather
SUPER_PACKET_BYTES = 70_000  # 64 KiB of TSO, and the headers that each of its packets will have
BUCKET_OF_SUPER_PACKETS_S = 0.001  # at most; the kernel's own TSO joins about as much of what it paces


@dataclass(frozen=True)
class Buffer:
    """A bottleneck buffer as it was asked for; kind is 'byte', 'packet' or 'bdp'."""

    amount: float
    kind: str


@dataclass(frozen=True)
class Queue:
    """The bottleneck's queue discipline and its parameters, as tc(8) takes them; the buffer is its limit."""

    kind: str = "bfifo"
    parameters: tuple[str, ...] = ()

    def parameter(self, name: str) -> str | None:
        """The value after a parameter's name; None where it is not given."""
        at = self.parameters.index(name) if name in self.parameters else -1
        return self.parameters[at + 1] if 0 <= at < len(self.parameters) - 1 else None


@dataclass(frozen=True)
class Sender:
    """A sending host, and the path that its packets alone take.

    Delay and jitter act in each direction, loss and reordering on data. `rate_bps` is that of the host's own device.
    """

    name: str
    delay_s: float
    loss: Loss | None = None
    jitter_s: float = 0.0
    reorder: float = 0.0  # share of packets that are not delayed, and so overtake others
    rate_bps: float | None = None

    @property
    def base_rtt_s(self) -> float:
        return 2 * self.delay_s


@dataclass(frozen=True)
class Change:
    """One setting of the path that changes `at_s` after the traffic began; `sender` None: of all of them.

    Of rate_bps, delay_s and loss, one is given; no loss is `Loss("random", (0.0,))`.
    """

    at_s: float
    sender: str | None = None
    rate_bps: float | None = None
    delay_s: float | None = None
    loss: Loss | None = None


@dataclass(frozen=True)
class Topology:
    """An emulated path: one bottleneck, and the senders' own paths to it.

    Delay, loss, jitter and reordering are those of the one sender h1 where there are no `hosts`.
    """

    rate_bps: float
    delay_s: float
    loss: Loss | None
    buffer: Buffer
    mtu_bytes: int
    offloads: bool
    jitter_s: float = 0.0
    reorder: float = 0.0
    hosts: tuple[Sender, ...] = ()
    receivers: Literal["each", "one"] = "each"  # each sender has a receiver, or all have one
    shaper: Literal["tbf", "htb"] = "tbf"
    queue: Queue = Queue()
    ecn: bool = False
    changes: tuple[Change, ...] = ()
    name: str = ""  # of its section

    @property
    def senders(self) -> tuple[Sender, ...]:
        return self.hosts or (Sender("h1", self.delay_s, self.loss, self.jitter_s, self.reorder),)

    def device_name(self, what: str, sender: Sender) -> str:
        """Of an emulating device that is the sender's own: 'data-delay', of several senders 'data-delay h2'."""
        return f"{what} {sender.name}" if len(self.senders) > 1 else what

    @property
    def base_rtt_s(self) -> float:
        """The largest of the senders'."""
        return max(sender.base_rtt_s for sender in self.senders)

    @property
    def longest_rtt_s(self) -> float:
        """With a full buffer, of the slowest and longest path that there will be."""
        slowest_bps = min(phase.rate_bps for _, phase in self.phases)
        return max(phase.base_rtt_s for _, phase in self.phases) + self.buffer_bytes * 8 / slowest_bps

    @property
    def bdp_bytes(self) -> float:
        return self.rate_bps * self.base_rtt_s / 8

    @property
    def packet_bytes(self) -> int:
        """The largest packet on the wire."""
        return self.mtu_bytes + ETHERNET_HEADER_BYTES

    def bucket_bytes(self, rate_bps: float) -> int:
        """What a token bucket of `rate_bps` lets pass at once after a pause.

        Two packets. With offloads on, two super-packets where that is a millisecond or less, and the buffer holds more:
        a bucket that can't hold one takes it apart (net/sched/sch_tbf.c), which costs half of the lab's speed.
        """
        packets = BUCKET_PACKETS * self.packet_bytes
        if not self.offloads:
            return packets
        millisecond = round(rate_bps * BUCKET_OF_SUPER_PACKETS_S / 8)
        return max(packets, min(BUCKET_PACKETS * SUPER_PACKET_BYTES, millisecond, self.buffer_bytes // 2))

    @property
    def buffer_bytes(self) -> int:
        """The buffer in bytes; at least one packet, since less would pass nothing."""
        unit_bytes = {"byte": 1.0, "packet": float(self.packet_bytes), "bdp": self.bdp_bytes}[self.buffer.kind]
        return max(round(self.buffer.amount * unit_bytes), self.packet_bytes)

    @property
    def buffer_packets(self) -> int:
        """The buffer in packets of the largest size, for queues that count packets."""
        return max(round(self.buffer_bytes / self.packet_bytes), 1)

    @property
    def phases(self) -> tuple[tuple[float, "Topology"], ...]:
        """The topology from each moment on, from the start. The buffer stays what it was at the start, in bytes."""
        phases = [(0.0, self)]
        fixed = replace(self, buffer=Buffer(self.buffer_bytes, "byte"))
        for at_s in sorted({change.at_s for change in self.changes}):
            fixed = fixed._changed(change for change in self.changes if change.at_s == at_s)
            phases.append((at_s, fixed))
        return tuple(phases)

    def _changed(self, changes: Iterable[Change]) -> "Topology":
        changed = self
        for change in changes:
            if change.rate_bps is not None:
                changed = replace(changed, rate_bps=change.rate_bps)
                continue
            setting = {"delay_s": change.delay_s} if change.delay_s is not None else {"loss": change.loss}
            hosts = tuple(
                replace(sender, **setting) if change.sender in (None, sender.name) else sender
                for sender in changed.senders
            )
            changed = replace(changed, hosts=hosts)
        return changed
