"""Describes an emulated path (bottleneck, senders, changes): an INI section [topology NAME]."""

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
    """Describes a bottleneck's buffer as configured: an amount in bytes, packets or BDP
    (`kind`).
    """

    amount: float
    kind: Literal["byte", "packet", "bdp"]

    def __str__(self) -> str:
        """Returns the buffer as written in an INI file, in the shortest form: '0.5bdp', '100p',
        '64kib'.
        """
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
        """Returns the word that follows a parameter's name: '1000' for 'limit' in ('limit',
        '1000'). Returns None if the parameter is missing, or if no word follows it.
        """
        index = self.parameters.index(name) if name in self.parameters else -1
        return self.parameters[index + 1] if 0 <= index < len(self.parameters) - 1 else None


@dataclass(frozen=True)
class AckBottleneck:
    """Describes a second bottleneck, which only ACKs pass: a token bucket, and below it a FIFO.

    The limit of the FIFO is a number of packets if the buffer is given in packets, otherwise a
    number of bytes.
    """

    rate_bps: float
    buffer: Buffer

    @property
    def counts_packets(self) -> bool:
        """Returns whether the FIFO counts packets; otherwise it counts bytes."""
        return self.buffer.kind == "packet"

    def limit(self, base_rtt_s: float, packet_bytes: int) -> int:
        """Returns the limit of the FIFO, in packets or bytes (see counts_packets). It holds at
        least one full packet.

        `base_rtt_s`, the base RTT of the path, is needed for a buffer in BDP; `packet_bytes` is the
        size of a full packet.
        """
        if self.counts_packets:
            return max(round(self.buffer.amount), 1)
        unit_bytes = 1.0 if self.buffer.kind == "byte" else self.rate_bps * base_rtt_s / 8
        return max(round(self.buffer.amount * unit_bytes), packet_bytes)


@dataclass(frozen=True)
class Policer:
    """Describes a token bucket before the bottleneck. It drops data for which it has no tokens, and
    never queues.

    It counts a packet's bytes with the Ethernet header, as the bottleneck does.
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
        None  # the largest window that the receiver advertises; None: it is not limited
    )
    drawn_delay_s: float = (
        0.0  # drawn from a run's seed: added to the delay of data, but not part of the base RTT
    )

    @property
    def delay_of_acks_s(self) -> float:
        """The delay of ACKs in seconds: the delay of data, unless another one is configured."""
        return self.delay_s if self.ack_delay_s is None else self.ack_delay_s

    @property
    def delay_of_data_s(self) -> float:
        """The delay of data in seconds, including the small random part that the run drew from its
        seed.
        """
        return max(0.0, self.delay_s + self.drawn_delay_s)

    @property
    def base_rtt_s(self) -> float:
        """The configured RTT over empty queues, without the small random part that a run draws from
        its seed.
        """
        return self.delay_s + self.delay_of_acks_s

    def delayed(self, data_s: float, acks_s: float) -> "Sender":
        """Returns the sender with other one-way delays. If both are equal, `ack_delay_s` is None,
        as if only one had been configured.
        """
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

    def device_name(self, purpose: str, sender: Sender) -> str:
        """Returns the name that one of a sender's emulating devices has in results: its purpose,
        such as 'data-delay'. If there are several senders, the sender's name follows: 'data-delay
        h2'.
        """
        return f"{purpose} {sender.name}" if len(self.senders) > 1 else purpose

    @property
    def base_rtt_s(self) -> float:
        """The largest base RTT of the senders."""
        return max(sender.base_rtt_s for sender in self.senders)

    @property
    def longest_rtt_s(self) -> float:
        """The largest RTT that the run can have, in seconds: with all buffers full, the lowest rate
        and the longest delay.
        """
        slowest_bps = min(phase.rate_bps for _, phase in self.phases)
        longest_s = (
            max(phase.base_rtt_s for _, phase in self.phases) + self.buffer_bytes * 8 / slowest_bps
        )
        if self.ack_bottleneck is None:
            return longest_s
        ack_buffer_bytes = self.ack_limit * (
            LARGEST_ACK_BYTES if self.ack_bottleneck.counts_packets else 1
        )
        return longest_s + ack_buffer_bytes * 8 / self.ack_bottleneck.rate_bps

    @property
    def ack_limit(self) -> int:
        """The limit of the ACK bottleneck's queue, in packets or bytes (see
        AckBottleneck.counts_packets). Raises ValueError if the path has no such bottleneck.
        """
        if self.ack_bottleneck is None:
            raise ValueError("the path has no bottleneck of ACKs")
        return self.ack_bottleneck.limit(self.base_rtt_s, self.packet_bytes)

    @property
    def least_rate_bps(self) -> float:
        """The rate at which answers to a train of packets come back if they are as large as the
        requests, as with ping: the rate of the bottleneck for data or of that for ACKs, whichever
        is lower.
        """
        return min(
            [self.rate_bps, *([self.ack_bottleneck.rate_bps] if self.ack_bottleneck else [])]
        )

    @property
    def bdp_bytes(self) -> float:
        """The bandwidth-delay product: the bottleneck's rate times the base RTT."""
        return self.rate_bps * self.base_rtt_s / 8

    @property
    def packet_bytes(self) -> int:
        """The size of the largest packet as tc counts it: the MTU and the Ethernet header."""
        return self.mtu_bytes + ETHERNET_HEADER_BYTES

    @property
    def bottleneck_bucket_bytes(self) -> int:
        """The size of the bottleneck's token bucket: as configured, otherwise the size that
        bucket_bytes() returns for its rate.
        """
        return self.bucket_bytes(self.rate_bps) if self.burst_bytes is None else self.burst_bytes

    def bucket_bytes(self, rate_bps: float) -> int:
        """Returns the size of a token bucket for this rate: the bytes that it lets pass at once
        after a pause.

        This is the size of two packets. With offloads, it is the size of two super-packets of 64
        KiB, but at most the bytes of one millisecond and half of the buffer (and at least two
        packets). A bucket that can't hold a super-packet splits it (net/sched/sch_tbf.c), which
        halves the lab's speed.
        """
        two_packets_bytes = BUCKET_PACKETS * self.packet_bytes
        if not self.offloads:
            return two_packets_bytes
        millisecond_bytes = round(rate_bps * BUCKET_OF_SUPER_PACKETS_S / 8)
        return max(
            two_packets_bytes,
            min(BUCKET_PACKETS * SUPER_PACKET_BYTES, millisecond_bytes, self.buffer_bytes // 2),
        )

    @property
    def buffer_bytes(self) -> int:
        """The size of the buffer in bytes: at least one packet, because nothing could pass a
        smaller buffer.
        """
        return max(round(self.configured_buffer_bytes), self.packet_bytes)

    @property
    def configured_buffer_bytes(self) -> float:
        """The size of the buffer in bytes as it is configured."""
        units = {"byte": 1.0, "packet": float(self.packet_bytes), "bdp": self.bdp_bytes}
        return self.buffer.amount * units[self.buffer.kind]

    @property
    def buffer_packets(self) -> int:
        """The buffer in packets of the largest size, for queues that count packets."""
        return max(round(self.buffer_bytes / self.packet_bytes), 1)

    @property
    def phases(self) -> tuple[tuple[float, "Topology"], ...]:
        """The path over time: pairs of a time, in seconds after the traffic begins, and the path as
        it is from this time on. The first pair is (0.0, self); each time of a change adds one pair.

        A change of the rate does not change the size of the buffers in bytes, even if they are
        configured in BDP.
        """
        phases = [(0.0, self)]
        acks = self.ack_bottleneck
        if acks and not acks.counts_packets:
            acks = replace(acks, buffer=Buffer(self.ack_limit, "byte"))
        changed = replace(self, buffer=Buffer(self.buffer_bytes, "byte"), ack_bottleneck=acks)
        for at_s in sorted({change.at_s for change in self.changes}):
            changed = changed._changed(change for change in self.changes if change.at_s == at_s)
            phases.append((at_s, changed))
        return tuple(phases)

    def _changed(self, changes: Iterable[Change]) -> "Topology":
        """Returns the path after these changes of its rate, or of its senders' delays and
        losses.
        """
        changed = self
        for change in changes:
            if isinstance(change, RateChange):
                changed = replace(changed, rate_bps=change.rate_bps)
            else:
                senders = (_changed(sender, change) for sender in changed.senders)
                changed = replace(changed, senders=tuple(senders))
        return changed


def _changed(sender: Sender, change: DelayChange | LossChange) -> Sender:
    """Returns a sender after a change of delay or loss. If the change is for another sender, the
    sender stays as it is.
    """
    if change.sender not in (None, sender.name):
        return sender
    if isinstance(change, DelayChange):
        return sender.delayed(
            sender.delay_s if change.direction == "ack" else change.delay_s,
            sender.delay_of_acks_s if change.direction == "data" else change.delay_s,
        )
    return replace(sender, loss=change.loss)
