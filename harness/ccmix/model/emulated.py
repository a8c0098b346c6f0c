"""An emulated path: what a [topology NAME] section says."""

from dataclasses import dataclass

ETHERNET_HEADER_BYTES = 14  # what a veth device adds to the MTU, and tbf and bfifo count


@dataclass(frozen=True)
class Buffer:
    """A bottleneck buffer as it was asked for; kind is 'byte', 'packet' or 'bdp'."""

    amount: float
    kind: str


@dataclass(frozen=True)
class Topology:
    """An emulated path: one bottleneck, one delay, one loss."""

    rate_bps: float
    delay_s: float
    loss: float
    buffer: Buffer
    mtu_bytes: int
    offloads: bool

    @property
    def base_rtt_s(self) -> float:
        return 2 * self.delay_s

    @property
    def bdp_bytes(self) -> float:
        return self.rate_bps * self.base_rtt_s / 8

    @property
    def packet_bytes(self) -> int:
        """The largest packet on the wire."""
        return self.mtu_bytes + ETHERNET_HEADER_BYTES

    @property
    def buffer_bytes(self) -> int:
        """The buffer in bytes; at least one packet, since less would pass nothing."""
        unit_bytes = {"byte": 1.0, "packet": float(self.packet_bytes), "bdp": self.bdp_bytes}[self.buffer.kind]
        return max(round(self.buffer.amount * unit_bytes), self.packet_bytes)
