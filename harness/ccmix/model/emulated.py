"""Describes an emulated path: the content of a section [topology NAME]."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from ccmix.model.netem import Loss
from ccmix.model.real import Capture, ModuleParameter
from ccmix.units import SIZE_BYTES

ETHERNET_HEADER_BYTES = (
    14  # the bytes that a veth device adds to the MTU, which tbf and bfifo count
)
LARGEST_ACK_BYTES = (
    94  # Ethernet, IP and TCP with all 40 bytes of options, such as three SACK blocks (RFC 2018)
)
STOCK_KERNEL = "stock"  # the kernel that set-up builds for the lab
BUCKET_PACKETS = (
    2  # the minimum that keeps the rate exact: one in transmission, one that collects tokens
)
SUPER_PACKET_BYTES = 70_000  # 64 KiB of TSO, and the headers that each of its packets will have
BUCKET_OF_SUPER_PACKETS_S = 0.001  # at most; the kernel's own TSO joins about as much paced data


@dataclass(frozen=True)
class Buffer:
    """Describes a bottleneck buffer as requested, in units of `kind`."""

    amount: float
    kind: Literal["byte", "packet", "bdp"]

    def __str__(self) -> str:
        """Returns the buffer as written in an INI file: '0.5bdp', '100p', '64kib'."""
        if self.kind != "byte":
            return f"{self.amount:.12g}{self.kind if self.kind == 'bdp' else 'p'}"
        units = [(name, size) for name, size in SIZE_BYTES.items() if size <= max(self.amount, 1)]
        return min((f"{self.amount / size:.12g}{name}" for name, size in reversed(units)), key=len)


@dataclass(frozen=True)
class Queue:
    """Describes a queue discipline with parameters in the form of tc(8). The bottleneck's limit is
    the buffer.
    """

    kind: str = "bfifo"
    parameters: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Returns the queue discipline in the form of tc(8): 'fq_codel limit 1000'."""
        return " ".join([self.kind, *self.parameters])

    def parameter(self, name: str) -> str | None:
        """Returns the value after a parameter's name; None if it is not given."""
        at = self.parameters.index(name) if name in self.parameters else -1
        return self.parameters[at + 1] if 0 <= at < len(self.parameters) - 1 else None


@dataclass(frozen=True)
class AckBottleneck:
    """Describes a second bottleneck, which only ACKs pass: a token bucket, and below it a FIFO.

    The FIFO counts packets of any size if the buffer is given in packets, otherwise bytes.
    """

    rate_bps: float
    buffer: Buffer

    @property
    def counts_packets(self) -> bool:
        return self.buffer.kind == "packet"

    def limit(self, base_rtt_s: float, packet_bytes: int) -> int:
        """Returns the size of the FIFO in packets, or in bytes, which hold at least one of the
        largest packets.
        """
        if self.counts_packets:
            return max(round(self.buffer.amount), 1)
        unit_bytes = 1.0 if self.buffer.kind == "byte" else self.rate_bps * base_rtt_s / 8
        return max(round(self.buffer.amount * unit_bytes), packet_bytes)


@dataclass(frozen=True)
class Policer:
    """Describes a token bucket before the bottleneck. It drops data if it has no tokens, and never
    queues.

    Its bytes include the Ethernet header, like those of the bottleneck.
    """

    rate_bps: float
    burst_bytes: int


@dataclass(frozen=True)
class Sender:
    """Describes a sending host, and the part of the path that only its packets use.

    Jitter acts in each direction, loss and reordering only on data. `rate_bps` is the rate of the
    host's device.
    """

    name: str
    delay_s: float  # of data; of ACKs too, unless `ack_delay_s` is given
    loss: Loss | None = None
    jitter_s: float = 0.0
    reorder: float = 0.0  # share of packets that are not delayed, and so overtake others
    rate_bps: float | None = None
    ack_delay_s: float | None = None  # None: the same as data
    queue: Queue = Queue("fq")  # of the host's own device
    receiver_window_bytes: int | None = (
        None  # the largest that the receiver advertises; None: as large as hosts have
    )
    drawn_delay_s: float = (
        0.0  # drawn from a run's seed: added to the delay of data, but not part of the base RTT
    )

    @property
    def delay_of_acks_s(self) -> float:
        """The delay of ACKs."""
        return self.delay_s if self.ack_delay_s is None else self.ack_delay_s

    @property
    def delay_of_data_s(self) -> float:
        """The delay of data including the delay that the run drew."""
        return max(0.0, self.delay_s + self.drawn_delay_s)

    @property
    def base_rtt_s(self) -> float:
        return self.delay_s + self.delay_of_acks_s

    def delayed(self, data_s: float, acks_s: float) -> "Sender":
        """Returns the sender with these delays; equal delays become one."""
        return replace(self, delay_s=data_s, ack_delay_s=None if acks_s == data_s else acks_s)


@dataclass(frozen=True)
class RateChange:
    """Describes a new rate of the bottleneck, `at_s` after the traffic began."""

    at_s: float
    rate_bps: float
    kind: Literal["rate"] = "rate"


@dataclass(frozen=True)
class DelayChange:
    """Describes a new delay of one sender's path, or of all paths if `sender` is None, `at_s` after
    the traffic began.
    """

    at_s: float
    sender: str | None
    delay_s: float
    kind: Literal["delay"] = "delay"
    direction: Literal["both", "data", "ack"] = "both"


@dataclass(frozen=True)
class LossChange:
    """Describes a new loss of one sender's path, or of all paths if `sender` is None, `at_s` after
    the traffic began.
    """

    at_s: float
    sender: str | None
    loss: Loss | None
    kind: Literal["loss"] = "loss"


Change = RateChange | DelayChange | LossChange


@dataclass(frozen=True)
class Topology:
    """Describes an emulated path: one bottleneck, and the senders' own paths to it."""

    rate_bps: float
    senders: tuple[Sender, ...]  # one at least
    buffer: Buffer
    mtu_bytes: int
    offloads: bool
    receivers: Literal["each", "one"] = "each"  # each sender has its own receiver, or all share one
    shaper: Literal["tbf", "htb"] = "tbf"
    queue: Queue = Queue()
    ecn: bool = False
    burst_bytes: int | None = None  # of the bottleneck's shaper; None: the result of bucket_bytes()
    policer: Policer | None = None
    ack_bottleneck: AckBottleneck | None = None
    control: Literal["path", "beside"] = "path"  # the way of iperf3's control connections
    changes: tuple[Change, ...] = ()
    spread: bool = False  # each run draws its starts and delays from its seed: see RunSpread
    capture: Capture | None = (
        None  # of the traffic between the senders' devices and the delay router
    )
    # name of the guest's kernel; without the lab only the stock one, which is not used
    kernel: str = STOCK_KERNEL
    host_root: bool = (
        False  # the root of the lab's guest is the host's file system, not the lab's own userland
    )
    module_parameter: ModuleParameter | None = (
        None  # applies to all hosts of the path, which share one kernel
    )
    name: str = ""  # of its section
    kind: Literal["emulated"] = "emulated"

    def device_name(self, what: str, sender: Sender) -> str:
        """Returns the name of one of a sender's devices: 'data-delay', or 'data-delay h2' with
        several senders.
        """
        return f"{what} {sender.name}" if len(self.senders) > 1 else what

    @property
    def base_rtt_s(self) -> float:
        """The largest base RTT of the senders."""
        return max(sender.base_rtt_s for sender in self.senders)

    @property
    def longest_rtt_s(self) -> float:
        """The RTT with a full buffer, at the lowest rate and the longest delay of the run."""
        slowest_bps = min(phase.rate_bps for _, phase in self.phases)
        longest_s = (
            max(phase.base_rtt_s for _, phase in self.phases) + self.buffer_bytes * 8 / slowest_bps
        )
        if self.ack_bottleneck is None:
            return longest_s
        acks_bytes = self.ack_limit * (
            LARGEST_ACK_BYTES if self.ack_bottleneck.counts_packets else 1
        )
        return longest_s + acks_bytes * 8 / self.ack_bottleneck.rate_bps

    @property
    def ack_limit(self) -> int:
        """Returns the size of the ACK bottleneck's queue, in bytes or packets. Raises ValueError if
        there is no such bottleneck.
        """
        if self.ack_bottleneck is None:
            raise ValueError("the path has no bottleneck of ACKs")
        return self.ack_bottleneck.limit(self.base_rtt_s, self.packet_bytes)

    @property
    def least_rate_bps(self) -> float:
        """Returns the rate at which packets of one size come back from a round trip."""
        return min(
            [self.rate_bps, *([self.ack_bottleneck.rate_bps] if self.ack_bottleneck else [])]
        )

    @property
    def bdp_bytes(self) -> float:
        return self.rate_bps * self.base_rtt_s / 8

    @property
    def packet_bytes(self) -> int:
        """The largest packet on the wire."""
        return self.mtu_bytes + ETHERNET_HEADER_BYTES

    @property
    def bottleneck_bucket_bytes(self) -> int:
        """The bytes that the bottleneck's token bucket lets pass at once after a pause."""
        return self.bucket_bytes(self.rate_bps) if self.burst_bytes is None else self.burst_bytes

    def bucket_bytes(self, rate_bps: float) -> int:
        """Returns the bytes that a token bucket of `rate_bps` lets pass at once after a pause.

        These are two packets. With offloads on, they are two super-packets, if these take at most a
        millisecond and the buffer holds more: a bucket that can't hold a super-packet splits it
        (net/sched/sch_tbf.c), which halves the lab's speed.
        """
        packets = BUCKET_PACKETS * self.packet_bytes
        if not self.offloads:
            return packets
        millisecond = round(rate_bps * BUCKET_OF_SUPER_PACKETS_S / 8)
        return max(
            packets, min(BUCKET_PACKETS * SUPER_PACKET_BYTES, millisecond, self.buffer_bytes // 2)
        )

    @property
    def buffer_bytes(self) -> int:
        """The buffer in bytes; at least one packet, because a smaller one would let nothing
        pass.
        """
        unit_bytes = {"byte": 1.0, "packet": float(self.packet_bytes), "bdp": self.bdp_bytes}[
            self.buffer.kind
        ]
        return max(round(self.buffer.amount * unit_bytes), self.packet_bytes)

    @property
    def buffer_packets(self) -> int:
        """The buffer in packets of the largest size, for queues that count packets."""
        return max(round(self.buffer_bytes / self.packet_bytes), 1)

    @property
    def phases(self) -> tuple[tuple[float, "Topology"], ...]:
        """Returns the topology after each change and the time of the change, beginning with the
        start. Buffers keep their first size, in bytes.
        """
        phases = [(0.0, self)]
        acks = self.ack_bottleneck
        if acks and not acks.counts_packets:
            acks = replace(acks, buffer=Buffer(self.ack_limit, "byte"))
        fixed = replace(self, buffer=Buffer(self.buffer_bytes, "byte"), ack_bottleneck=acks)
        for at_s in sorted({change.at_s for change in self.changes}):
            fixed = fixed._changed(change for change in self.changes if change.at_s == at_s)
            phases.append((at_s, fixed))
        return tuple(phases)

    def _changed(self, changes: Iterable[Change]) -> "Topology":
        changed = self
        for change in changes:
            if isinstance(change, RateChange):
                changed = replace(changed, rate_bps=change.rate_bps)
            else:
                senders = (_changed(sender, change) for sender in changed.senders)
                changed = replace(changed, senders=tuple(senders))
        return changed


def _changed(sender: Sender, change: DelayChange | LossChange) -> Sender:
    if change.sender not in (None, sender.name):
        return sender
    if isinstance(change, DelayChange):
        return sender.delayed(
            sender.delay_s if change.direction == "ack" else change.delay_s,
            sender.delay_of_acks_s if change.direction == "data" else change.delay_s,
        )
    return replace(sender, loss=change.loss)
