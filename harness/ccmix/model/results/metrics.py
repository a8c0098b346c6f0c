"""Metrics of a run, of its groups and of its flows; docs/reference/metrics.md defines each of them."""

from dataclasses import dataclass, field

from ccmix.model.results.settling import Settling


@dataclass(frozen=True, kw_only=True)
class DelayMetrics:
    """Percentiles over RTT samples of the measured time, interpolated linearly; None without samples."""

    rtt_median_s: float | None = None
    rtt_p95_s: float | None = None
    rtt_p99_s: float | None = None
    queueing_delay_median_s: float | None = None  # RTT less base RTT
    queueing_delay_p95_s: float | None = None
    queueing_delay_p99_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class StartupMetrics:
    """Describes how flows reach their steady goodput; None if they have none."""

    startup_s: float | None = None
    overshoot: float | None = None  # fraction of the steady goodput


@dataclass(frozen=True, kw_only=True)
class FlowMetrics(DelayMetrics, StartupMetrics):
    """Metrics of one flow in its active time."""

    host: str  # the sender's name; 'src' between hosts
    port: int  # of the sender
    stream: int | None  # number within iperf3's test, from 0
    group: str
    cca_asked: str | None
    cca_used: str | None
    begin_s: float | None = None  # of its active time, since the start of the traffic
    active_s: float | None = None
    goodput_bps: float
    counted_by: str | None = None  # 'receiver', 'sender' or 'generator': who counted the goodput
    throughput_bps: float | None
    retransmits: int | None  # as the traffic source counts them
    bytes_sent: int | None
    data_segments: int | None
    retransmitted_segments: int | None
    retransmission_rate: float | None
    share: float | None  # of the goodput while all TCP flows of the test are active
    convergence_s: float | None


@dataclass(frozen=True, kw_only=True)
class GroupMetrics(DelayMetrics, StartupMetrics):
    """Metrics of the flows of a group together."""

    group: str
    host: str
    cca: str  # several, joined by commas, if the flows differ
    streams: int  # of short flows: those completed
    active_s: float | None = None  # from the begin of its first flow to the end of its last one
    goodput_bps: float
    throughput_bps: float | None
    retransmission_rate: float | None
    fairness: float | None = None  # Jain's index over the group's flows (RFC 5166)
    share: float | None = None  # of the goodput while all TCP flows of the test are active
    fair_share: float | None = None  # the group's share of these flows


@dataclass(frozen=True, kw_only=True)
class CompletionMetrics:
    """Flow completion times of a traffic source with short flows."""

    group: str
    host: str
    cca: str
    begun: int  # flows
    completed: int
    mean_s: float | None
    median_s: float | None
    p95_s: float | None
    p99_s: float | None


@dataclass(frozen=True, kw_only=True)
class BottleneckMetrics:
    """Metrics of the emulated bottleneck's queue in the measured time."""

    backlog_mean_bytes: float
    backlog_median_bytes: float
    backlog_p95_bytes: float
    backlog_p99_bytes: float
    backlog_max_bytes: int
    occupancy_mean: float  # mean backlog / configured buffer
    drops: int  # packets
    drop_rate: float | None  # drops / packets that were to be queued
    utilisation: float  # bytes passed / bytes that the rate would have let pass


@dataclass(frozen=True, kw_only=True)
class PolicerMetrics:
    """Metrics of the policer before the bottleneck in the measured time."""

    drops: int  # packets
    drop_rate: float | None  # drops / packets that reached the policer


@dataclass(frozen=True, kw_only=True)
class RttProbeMetrics:
    """RTTs beside the traffic, of the probe's answered questions."""

    questions: int
    unanswered: float | None  # fraction of the questions
    median_s: float | None
    p95_s: float | None
    p99_s: float | None


@dataclass(frozen=True, kw_only=True)
class Metrics(DelayMetrics, StartupMetrics):
    """Metrics of a whole run."""

    goodput_bps: float
    utilisation: float | None  # goodput / rate of the path
    bytes_sent: int | None
    fairness: float | None  # Jain's index over all TCP flows (RFC 5166)
    fairness_of_groups: float | None  # Jain's index over the groups' mean goodputs per flow
    retransmission_rate: float | None
    convergence_s: float | None
    netem_loss: float | None  # packets that netem lost / packets that it was given in the data direction
    bottleneck: BottleneckMetrics | None = None
    policer: PolicerMetrics | None = None  # None: there is none
    receiver_window_limited: float | None = None  # fraction of the busy time; None: no window is configured
    cpu_s_per_gbit: dict[str, float] = field(default_factory=dict)  # by host: core seconds per gigabit of goodput
    rtt_probe: RttProbeMetrics | None = None
    settling: Settling | None = None  # None: of an older archive
    groups: tuple[GroupMetrics, ...] = ()
    completions: tuple[CompletionMetrics, ...] = ()
    flows: tuple[FlowMetrics, ...] = ()
