"""The plain data that passes from box to box: topologies, traffic and runs. No behaviour but derived quantities."""

from dataclasses import asdict, dataclass
from typing import Any

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


@dataclass(frozen=True)
class Traffic:
    """One iperf3 test: `ccas` are given to the `streams` in turn, each flow is paced to `pacing_bps` at most."""

    ccas: tuple[str, ...]
    streams: int
    duration_s: float
    omit_s: float
    interval_s: float
    pacing_bps: float | None = None

    @property
    def seconds(self) -> float:
        return self.omit_s + self.duration_s


def condition_name(condition: dict[str, str]) -> str:
    """A condition in one word, as in folder names: 'delay=5ms,loss=0.1%'."""
    return ",".join(f"{key}={value}" for key, value in condition.items()) or "all"


@dataclass(frozen=True)
class Run:
    """One condition, one destination, one iteration."""

    entry: str
    condition: dict[str, str]  # swept key to its value as written, in the order of the file
    dst: str
    iteration: int  # from 1
    seed: int  # 0 to 2**32-1
    topology: Topology
    traffic: Traffic
    accept_limits: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Virtual (in the lab) or real seconds of traffic."""
        return self.traffic.seconds

    @property
    def condition_name(self) -> str:
        return condition_name(self.condition)

    @property
    def name(self) -> str:
        """Unique within a plan, for people."""
        return f"{self.entry} {self.condition_name} #{self.iteration}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Run":
        topology = dict(data["topology"])
        traffic = dict(data["traffic"])
        return cls(
            **{key: data[key] for key in ("entry", "condition", "dst", "iteration", "seed")},
            topology=Topology(**(topology | {"buffer": Buffer(**topology["buffer"])})),
            traffic=Traffic(**(traffic | {"ccas": tuple(traffic["ccas"])})),
            accept_limits=tuple(data["accept_limits"]),
        )
