"""Describes what was measured of a run, before any analysis: facts, counters, pings and states."""

from dataclasses import dataclass, field

from ccmix.model.facts import Facts

PingRtts = dict[
    str, tuple[float, ...]
]  # round-trip times in seconds, by the name of the sender; 'src' between hosts


@dataclass(frozen=True)
class QdiscCounters:
    """A queue discipline with its statistics, as `tc -s -j qdisc show` reports it."""

    device: str
    kind: str
    handle: str
    parent: str | None  # None: the device's root
    bytes: int
    packets: int
    drops: int
    backlog_bytes: int
    backlog_packets: int
    limit: int | None = None  # in bytes or packets, whichever the kind counts
    memory_limit_bytes: int | None = None  # of cake
    rate_bytes_per_s: int | None = None  # of tbf
    burst_bytes: int | None = None
    latency_us: int | None = None  # tbf's limit, in tc's form (iproute2, tc/q_tbf.c)
    options: str = "{}"  # all of tc's options, as JSON
    # tc's other counters, as JSON: overlimits, and those of this kind only, such as ce_mark
    statistics: str = "{}"


@dataclass(frozen=True)
class Counters:
    """Counters at one time. Texts are in the kernel's own format: the analysis reads them, and the
    archive keeps them as evidence.
    """

    qdiscs: dict[str, tuple[QdiscCounters, ...]] = field(
        default_factory=dict
    )  # by the purpose of the device
    netstat: dict[str, str] = field(default_factory=dict)  # /proc/net/netstat by host
    softnet: dict[str, str] = field(default_factory=dict)  # /proc/net/softnet_stat by host


@dataclass(frozen=True)
class DeviceState:
    """Holds the kernel's state of a network device of an emulated path."""

    mtu_bytes: int
    addresses: tuple[str, ...]
    offloads: tuple[str, ...]  # the active ones of those that join packets


@dataclass(frozen=True)
class PathState:
    """Holds the kernel's state of an emulated path at one time, without its queue disciplines."""

    devices: dict[str, DeviceState]  # by 'NAMESPACE/DEVICE'
    sysctls: dict[str, dict[str, str]]  # of the senders and receivers, by namespace and name
    classes: dict[str, str] = field(
        default_factory=dict
    )  # output of `tc class show`, by the device's purpose
    parameters: dict[str, str] = field(
        default_factory=dict
    )  # of modules, by their path below /sys/module
    filters: dict[str, str] = field(
        default_factory=dict
    )  # output of `tc -s filter show`, by the device's purpose


@dataclass(frozen=True)
class PathChange:
    """A change of an emulated path, and the counters of the changed devices until then."""

    at_s: float  # as configured
    time_s: float  # wall clock
    qdiscs: dict[str, tuple[QdiscCounters, ...]]


@dataclass(frozen=True)
class SeriesNames:
    """Maps the names in the probe's stream to those of the run."""

    sockets: dict[str, str] = field(
        default_factory=dict
    )  # network namespace to 'sender' or 'receiver'
    queues: dict[str, str] = field(
        default_factory=dict
    )  # 'NAMESPACE/DEVICE' to the device's purpose
    senders: dict[str, str] | None = None  # address to the sender's name; None between hosts


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """All observations of a run that are not series. Times are wall-clock times, in seconds since
    1970.
    """

    facts: Facts
    started_s: float  # when the traffic sources were started
    ended_s: float
    began_s: float | None = (
        None  # when the traffic began; None between hosts, where the sockets show it
    )
    ping_rtt_s: PingRtts  # before the traffic, over the empty path
    ping_before_s: tuple[
        float, ...
    ] = ()  # before the conditions were set; only if those add a delay
    train_s: tuple[float, ...] = ()  # when the replies to a train of packets came
    before: Counters = Counters()
    after: Counters = Counters()
    state_before: PathState | None = (
        None  # of an emulated path, when it had been set up; None between hosts
    )
    state_after: PathState | None = None  # and when the traffic had ended
    changes: tuple[PathChange, ...] = ()
    ports_before: tuple[int, ...] = ()  # of the source's existing connections to the destination
    series: SeriesNames = SeriesNames()
    settled_after_s: float | None = (
        None  # measured time of a run that was ended because it had settled
    )
    clocks_s: dict[str, float] = field(
        default_factory=dict
    )  # by role: how far the host's clock is ahead of this machine's
    diagnostics: tuple[str, ...] = ()
