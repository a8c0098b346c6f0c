"""The plain data of finished runs and campaigns: verdicts, settling, metrics, their JSON files.

docs/reference/metrics.md describes the metrics; run.json and campaign.json contain these classes.
"""

from dataclasses import dataclass, field
from typing import Literal

from ccmix.model.facts import Facts, LabKernel
from ccmix.model.measurement import PingRtts
from ccmix.model.run import Run

Status = Literal["valid", "limited", "unknown"]

Quantity = Literal["goodput", "share"]
MachineKind = Literal["lab", "namespaces", "hosts", "imported"]


@dataclass(frozen=True)
class Finding:
    """One reason why a run is not valid."""

    kind: str  # a key of terms.LIMITS
    detail: str
    accepted: bool  # by the entry's accept-limits, which leaves the run valid


@dataclass(frozen=True)
class Verdict:
    """The judgement on a run. The status is 'valid', 'limited' if something other than path and CCA
    limited the run, or 'unknown' if probes did not observe enough to tell.
    """

    status: Status
    findings: tuple[Finding, ...] = ()
    not_verified: tuple[
        str, ...
    ] = ()  # sentences: settings that no observation of this run could confirm

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """Returns the findings that make the run not valid: all except those that the entry accepts
        (its key accept-limits).
        """
        return tuple(finding for finding in self.findings if not finding.accepted)


@dataclass(frozen=True)
class Trend:
    """Describes how the goodput of a group, or its share of the run's goodput, changed over the
    measured time.
    """

    group: str
    quantity: Quantity
    change: (
        float  # mean of the last quarter of the measured time less that of the first, over the mean
    )
    factor: (
        float | None
    )  # mean of the last quarter, or after a step, over the mean before; None if that is 0
    seen: bool  # whether it is a trend or a step, and large enough to matter
    step_s: float | None = None  # of the measured time, until a step; None: it is none


@dataclass(frozen=True, kw_only=True)
class Settling:
    """Says whether goodputs and shares show no trend, over a measured time that is long enough to
    tell. `settled` is None if this can't be judged.
    """

    settled: bool | None
    reasons: tuple[str, ...] = ()  # why it is not True, as clauses
    trends: tuple[Trend, ...] = ()
    warm_up_s: float | None = None  # of the measured time, of the group with the longest
    slowest: str | None = None  # the slowest process on this path
    slowest_period_s: float | None = None
    enough_s: float | None = None  # the measured time that would be enough, if this one is not
    enough_omit_s: float | None = (
        None  # the omitted time that would be enough, if only the warm-up has a trend
    )


@dataclass(frozen=True, kw_only=True)
class DelayMetrics:
    """Percentiles over RTT samples of the measured time, interpolated linearly; None
    without samples.
    """

    rtt_median_s: float | None = None
    rtt_p95_s: float | None = None
    rtt_p99_s: float | None = None
    queueing_delay_median_s: float | None = None  # RTT less base RTT
    queueing_delay_p95_s: float | None = None
    queueing_delay_p99_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class StartupMetrics:
    """Describes how flows reach their steady goodput. The values are None if the flows have no
    steady goodput, or if other events disturb the start.
    """

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
    counted_by: str | None = (
        None  # 'receiver', 'sender' or 'generator': the end that counted the goodput
    )
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
    """RTTs under load, from the probe's answered questions."""

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
    netem_loss: (
        float | None
    )  # packets that netem lost / packets that it received in the data direction
    bottleneck: BottleneckMetrics | None = None
    policer: PolicerMetrics | None = None  # None: there is none
    receiver_window_limited: float | None = (
        None  # fraction of the busy time; None: no window is configured
    )
    cpu_s_per_gbit: dict[str, float] = field(
        default_factory=dict
    )  # by host: core seconds per gigabit of goodput
    rtt_probe: RttProbeMetrics | None = None
    settling: Settling | None = None  # None: of an older archive
    groups: tuple[GroupMetrics, ...] = ()
    completions: tuple[CompletionMetrics, ...] = ()
    flows: tuple[FlowMetrics, ...] = ()


@dataclass(frozen=True)
class Execution:
    """Describes where and when a run was executed."""

    # a guest of the lab, namespaces of this machine, real hosts, or somebody else's hosts
    machine: MachineKind
    real_seconds: float | None = None
    memory_bytes: int | None = None  # of the guest
    measured_s: float | None = None  # wall clock at the end, in seconds since 1970
    retries: tuple[str, ...] = ()  # the reason of each failed try
    ccmix: str | None = (
        None  # its version; a resumed campaign may have runs of several. None: not recorded
    )
    diagnostics: tuple[
        str, ...
    ] = ()  # facts that a reader should know, though they do not make the run invalid
    # How the guest was confined on the host: 'landlock ABI', 'namespaces', or 'none: REASONS';
    # None: no guest, or older
    confinement: str | None = None
    # SHA-256 of the manifest of the installed package that made the run; None: a clone, the Debian
    # package, or older
    package: str | None = None


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A run with its results. Times are wall-clock times (in the lab, the guest's), in seconds
    since 1970.
    """

    run: Run
    execution: Execution
    facts: Facts
    started_s: float | None  # None: an imported run whose source reports no times
    began_s: float | None  # when the traffic began
    ended_s: float | None
    settled_after_s: float | None = (
        None  # measured time of a run that was ended because it had settled
    )
    ping_rtt_s: PingRtts
    metrics: Metrics
    verdict: Verdict


@dataclass(frozen=True)
class ImportedFile:
    """Names a file that an import read."""

    name: str
    kind: str  # a key of importing.sources.KINDS
    sha256: str


@dataclass(frozen=True)
class ImportOverrides:
    """Holds facts that the user states about all runs of an import because their sources lack them;
    None: not stated.
    """

    entry: str | None = None
    src: str | None = None
    dst: str | None = None
    base_rtt_s: float | None = None
    rate_bps: float | None = None
    cca: str | None = None
    settings: tuple[str, ...] = ()  # columns of tables that are settings and not results
    columns: str | None = None  # of tables: their other names, see importing.tables
    name_pattern: str | None = None  # of the files' names, with {FIELD} where a setting stands


@dataclass(frozen=True)
class ImportIdentity:
    """Identifies an import: the same files with the same overrides are the same import."""

    files: tuple[ImportedFile, ...]
    overrides: ImportOverrides = ImportOverrides()


@dataclass(frozen=True)
class CampaignOrigin:
    """Describes how a campaign was made; None: not recorded."""

    ccmix: str | None = None  # version
    python: str | None = None  # version
    command: tuple[str, ...] = ()
    seed: int | None = None
    lab: bool | None = None  # whether the runs on emulated paths were made in the lab
    started_s: float | None = None  # wall clock, in seconds since 1970
    imported: ImportIdentity | None = None  # None: ccmix made the runs
    kernels: tuple[
        LabKernel, ...
    ] = ()  # kernels of the lab that the runs need, as they were at the start
    userland_sha256: str | None = (
        None  # of the lab's userland, as it was at the start; None also without the lab
    )


@dataclass(frozen=True)
class CampaignPlan:
    """Holds the runs of a campaign, in their order, and the INI text that they come from."""

    origin: CampaignOrigin
    ini: str
    runs: tuple[Run, ...]
    title: str = ""  # '' if the INI file gives none
    file_order: tuple[int, ...] = ()
    """The place of each run in the order of the INI file, from 0; empty if the runs are in this
    order.
    """
    unknown: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For each entry that has some, its swept keys whose values cover unknown properties of its
    path.
    """
