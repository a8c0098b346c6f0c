"""The table of all fields of all documents, from which mappings, templates and docs/reference/index-fields.md are made.

Names are those of the Elastic Common Schema (ECS 8.17) where it has one, else ccmix's terms under `ccmix.`, with the SI
unit at the end. A field means the same in every kind of document that has it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ccmix.analysis.limited import MEANINGS

PREFIX = "ccmix-"
ECS_VERSION = "8.17.0"


@dataclass(frozen=True)
class DocumentKind:
    """A kind of document. Samples lie in an index for each month, `ccmix-NAME-2026.11`, and may be deleted by policy;
    all others in one index, `ccmix-NAME`, and are kept.
    """

    name: str
    meaning: str
    samples: bool = False

    @property
    def dataset(self) -> str:
        return f"ccmix.{self.name}"

    @property
    def index_pattern(self) -> str:
        return f"{PREFIX}{self.name}-*" if self.samples else f"{PREFIX}{self.name}"

    @property
    def first_index(self) -> str:
        """Returns the index that the set-up makes. Of samples it stays empty, and no policy deletes it: Kibana reports
        an error where a pattern matches no index.
        """
        return self.index_pattern.replace("*", "empty")


KINDS = {
    kind.name: kind
    for kind in (
        DocumentKind("campaigns", "a campaign: what was planned, from which text, by which command"),
        DocumentKind("conditions", "statistics over the iterations of a condition, for each destination and group"),
        DocumentKind("runs", "a finished run: what was asked, what came out, the verdict"),
        DocumentKind("groups", "a group of a run"),
        DocumentKind("flows", "a flow of a run"),
        DocumentKind("hosts", "a host in a run: what it is, how its probes did, what its kernel counted"),
        DocumentKind("intervals", "goodput and retransmissions of a flow in an interval", samples=True),
        DocumentKind(
            "sockets",
            "a sample of a flow's socket at one of its ends; what only matters at the other is left out",
            samples=True,
        ),
        DocumentKind("queues", "a sample of a qdisc: the bottleneck's, or the sender's", samples=True),
        DocumentKind("packets", "what a packet capture shows of a connection's direction in 100 ms", samples=True),
        DocumentKind("rtts", "a question of the RTT probe and its answer", samples=True),
        DocumentKind("completions", "an HTTP request, or a short flow of a workload", samples=True),
    )
}

OF_A_RUN = tuple(name for name in KINDS if name not in ("campaigns", "conditions"))
WITH_CONTEXT = tuple(name for name in KINDS if name != "campaigns")
WITH_GROUP = ("conditions", "groups", "flows", "intervals", "sockets", "packets", "completions")
SAMPLES = tuple(kind.name for kind in KINDS.values() if kind.samples)
SUMMARIES = tuple(kind.name for kind in KINDS.values() if not kind.samples)
EVERY = tuple(KINDS)


@dataclass(frozen=True)
class Field:
    """`unit` as in the mapping's metadata: Elasticsearch's own words (s, byte, percent: 1 is 100%), else a plain word;
    None for names and dates. `metric` is 'gauge', or 'counter' for what only grows during a run.
    """

    name: str
    type: str  # Elasticsearch's
    meaning: str
    kinds: tuple[str, ...]
    unit: str | None = None
    metric: str | None = None


def _name(name: str, meaning: str, *kinds: str) -> Field:
    return Field(name, "keyword", meaning, kinds)


def _gauge(name: str, unit: str, meaning: str, *kinds: str) -> Field:
    return Field(name, "double", meaning, kinds, unit, "gauge")


def _count(name: str, unit: str, meaning: str, *kinds: str) -> Field:
    """Describes a whole number that is not a counter of the kernel's."""
    return Field(name, "long", meaning, kinds, unit, "gauge")


def _counter(name: str, unit: str, meaning: str, *kinds: str) -> Field:
    return Field(name, "long", meaning, kinds, unit, "counter")


def _flag(name: str, meaning: str, *kinds: str) -> Field:
    return Field(name, "boolean", meaning, kinds)


_IDENTITY = (
    Field("@timestamp", "date", "when it was: of a campaign, condition or run its begin; of a sample, the run's begin "
          "and the seconds since; in the lab by the clock of the machine that the lab ran on", EVERY),
    _name("event.dataset", "ccmix.KIND", *EVERY),
    _name("event.module", "ccmix", *SUMMARIES),
    _name("ecs.version", "version of ECS", *SUMMARIES),
    _count("ccmix.row", "1", "number of the document among those of its kind and run (or campaign), from 0", *EVERY),
    _name("ccmix.campaign.id", "16 hex digits of the SHA-256 of campaign.json's content", *EVERY),
    _name("ccmix.campaign.name", "name of the INI file", *EVERY),
    _name("ccmix.run.id", "16 hex digits of the SHA-256 of campaign, entry, condition, destination and iteration",
          *OF_A_RUN),
)  # fmt: skip

_CAMPAIGN = (
    _name("agent.type", "ccmix", "campaigns", "runs"),
    _name("agent.version", "version of ccmix that ran it", "campaigns", "runs"),
    Field("event.start", "date", "begin, to the millisecond", ("campaigns", "runs")),
    _count("ccmix.campaign.runs_planned", "runs", "runs of the plan", "campaigns"),
    _count("ccmix.campaign.runs_finished", "runs", "of these, finished", "campaigns"),
    _count("ccmix.campaign.runs_valid", "runs", "of these, valid", "campaigns"),
    _count("ccmix.campaign.seed", "1", "seed of the plan", "campaigns"),
    _name("ccmix.campaign.command", "command line, a word each", "campaigns"),
    _name("ccmix.campaign.entries", "names of all entries that were planned", "campaigns"),
    Field("ccmix.campaign.ini", "text", "text of the INI file", ("campaigns",)),
)

_CONTEXT = (
    _name("ccmix.entry", "entry of the INI file", *WITH_CONTEXT),
    _name("ccmix.condition.name", "swept keys and values, 'delay=5ms,loss=0.1%', or 'all'", *WITH_CONTEXT),
    _name("ccmix.condition.key", "entry, condition, mix and streams: the same for a path and its emulated twin",
          *WITH_CONTEXT),
    _name("ccmix.condition.known_key", "as key, without the swept keys that stand for what is not known of the path: "
          "the same for a path and the range of its emulated twin", *WITH_CONTEXT),
    Field("ccmix.condition.settings", "flattened", "each swept key with its value as written",
          ("conditions", "runs", "groups", "flows", "hosts")),
    _count("ccmix.run.iteration", "1", "from 1", *OF_A_RUN),
    _name("ccmix.mix", "the run's CCAs in the order of its groups, 'cubic,bbr'", *WITH_CONTEXT),
    _count("ccmix.streams", "flows", "flows of the run that were asked for; null: a command decides", *WITH_CONTEXT),
    _gauge("ccmix.pacing_bps", "bit/s", "rate that fq paces each flow to at most; in a group's or flow's document the "
           "smaller of that and the group's own", *WITH_CONTEXT),
    _name("ccmix.validity.status", "valid, limited or unknown; of a condition that of the runs that count, or of "
          "all if none does", "conditions", *OF_A_RUN),
    _flag("ccmix.validity.counted", "whether tables count it: valid, or imported, which others measured", "runs",
          "groups"),
    _name("ccmix.path.kind", "emulated, real (between hosts), or pscheduler (between hosts, by pScheduler)",
          *WITH_CONTEXT),
    _name("ccmix.path.pair", "'SOURCE > DESTINATION' by their names", *WITH_CONTEXT),
    _gauge("ccmix.path.base_rtt_s", "s", "base RTT: configured on an emulated path (of several senders the largest), "
           "else the smallest of ping before the traffic", *WITH_CONTEXT),
    _gauge("ccmix.path.base_rtt_ms", "ms", "the same in milliseconds, for Kibana's filters, which have whole steps",
           *WITH_CONTEXT),
    _name("ccmix.path.loss_label", "ccmix.path.loss in words, '0.1%', for Kibana's filters", *WITH_CONTEXT),
    _name("ccmix.path.buffer_label", "ccmix.path.buffer_bdp in words, '0.5 BDP', for Kibana's filters", *WITH_CONTEXT),
    _gauge("ccmix.path.loss", "percent", "configured loss in the data direction, a fraction; for gemodel the mean of "
           "its two states", *WITH_CONTEXT),
    _gauge("ccmix.path.rate_bps", "bit/s", "configured rate of the bottleneck, or of netem", *WITH_CONTEXT),
    _count("ccmix.path.buffer_bytes", "byte", "configured buffer of the bottleneck", *WITH_CONTEXT),
    _gauge("ccmix.path.buffer_bdp", "BDP", "the same over bottleneck rate times base RTT", *WITH_CONTEXT),
    _name("ccmix.path.qdisc", "queue discipline of the bottleneck", *WITH_CONTEXT),
    _name("source.address", "the sending host: its name in the entry", *WITH_CONTEXT),
    _name("destination.address", "where the traffic goes: the address in the entry", *WITH_CONTEXT),
    _name("destination.domain", "its alias in folders and tables", *WITH_CONTEXT),
)  # fmt: skip

_PATH = (
    _name("ccmix.path.machine", "lab, namespaces or hosts", "runs"),
    _gauge("ccmix.path.delay_s", "s", "configured delay in each direction, the mean of both", "runs"),
    _gauge("ccmix.path.jitter_s", "s", "configured jitter", "runs"),
    _gauge("ccmix.path.reorder", "percent", "configured share of packets that overtake", "runs"),
    _name("ccmix.path.loss_model", "random or gemodel", "runs"),
    _count("ccmix.path.mtu_bytes", "byte", "MTU of the emulated path", "runs"),
    _flag("ccmix.path.ecn", "whether ECN was negotiated on the emulated path", "runs"),
    _flag("ccmix.path.spread", "whether runs on the emulated path drew their starts from their seeds", "runs"),
    _name("ccmix.path.kernel", "kernel of the lab that the emulated path asks for, by its name", "runs"),
    _name("ccmix.path.kernel_sha256", "hash of the file of the lab's kernel that ran", "runs"),
    _flag(
        "ccmix.path.host_root", "whether guests are asked to have the machine's own file system as their root", "runs"
    ),
    _name("ccmix.path.userland_sha256", "hash of the userland that was the root of the lab's guest", "runs"),
    _flag("ccmix.path.repeatable_elsewhere", "whether another machine can give the lab's guest the same root", "runs"),
    _name("ccmix.path.bpf_cca", "CCAs that the sender had as BPF programs, and the programs' hashes", "runs"),
    _name("ccmix.path.module_parameter", "parameter below /sys/module and the value that the run set", "runs"),
    _flag("ccmix.path.offloads", "whether packets may be joined on the emulated path", "runs"),
    _name("ccmix.path.qdisc_parameters", "parameters of the bottleneck's qdisc, as in tc", "runs"),
    _gauge("ccmix.path.ack_rate_bps", "bit/s", "rate of the bottleneck of ACKs", "runs"),
    _gauge("ccmix.path.burst_bytes", "byte", "bucket of the bottleneck's shaper, if configured", "runs"),
    _count(
        "ccmix.path.receiver_window_bytes",
        "byte",
        "largest window of the receivers, the least of them, if configured",
        "runs",
    ),
    _gauge("ccmix.path.policer_rate_bps", "bit/s", "rate of the policer before the bottleneck, if configured", "runs"),
    _gauge("ccmix.path.policer_burst_bytes", "byte", "its burst", "runs"),
    _name("ccmix.path.sender_qdisc", "queues of the senders' devices, kinds and options, as tc reports them", "runs"),
    _gauge("ccmix.path.ping_rtt_s", "s", "smallest RTT of ping before the traffic", "runs"),
    Field("ccmix.destination.metadata", "flattened", "further columns of the list of hosts", ("runs",)),
)


def _estimated(name: str, unit_of_name: str, unit: str, meaning: str) -> tuple[Field, ...]:
    """Returns the fields of a quantity that runs of type path estimate: value, and both ends of its 95% interval."""
    stem = f"ccmix.path.estimate.{name}"
    return (
        _gauge(f"{stem}{unit_of_name}", unit, f"{meaning}, as a run of type path estimates it", "runs"),
        _gauge(f"{stem}_low{unit_of_name}", unit, "lower end of its 95% interval; without a value, it is at least this",
               "runs"),
        _gauge(f"{stem}_high{unit_of_name}", unit, "upper end; without a value, it is at most this", "runs"),
    )  # fmt: skip


_ESTIMATES = (
    *_estimated("base_rtt", "_s", "s", "RTT over empty queues"),
    *_estimated("rtt_noise", "_s", "s", "by how much the RTT varies there"),
    *_estimated("rate", "_bps", "bit/s", "rate of the bottleneck, with Ethernet headers"),
    *_estimated("cross_traffic", "_bps", "bit/s", "what others send through the bottleneck"),
    *_estimated("buffer", "_bytes", "byte", "what the bottleneck's queue holds"),
    *_estimated("policer_burst", "_bytes", "byte", "what a policer passes at once"),
    *_estimated("loss", "", "percent", "loss below the rate, a fraction"),
    *_estimated("loss_burst", "_packets", "packets", "mean length of its bursts"),
    *_estimated("reordering", "", "percent", "packets that overtake others, a fraction"),
    *_estimated("receiver_window", "_bytes", "byte", "largest window of the receiver"),
    *_estimated("mtu", "_bytes", "byte", "MTU of the path"),
    _name("ccmix.path.estimate.queue", "kind of the bottleneck's queue, as a run of type path estimates it", "runs"),
    _name("ccmix.path.estimate.ecn", "whether ECN was negotiated, and packets marked", "runs"),
    _name("ccmix.path.estimate.send_buffer", "whether the sender's buffer limits flows", "runs"),
    _name("ccmix.path.estimate.unknown", "quantities that cannot be told", "runs"),
)
_RUN = (
    _name("ccmix.run.name", "as in `ccmix plan`", "runs"),
    _name("ccmix.run.folder", "folder below the campaign's", "runs"),
    _count("ccmix.run.seed", "1", "the run's own seed", "runs"),
    Field("event.end", "date", "end of the traffic", ("runs",)),
    Field("event.duration", "long", "from start to end", ("runs",), "nanos", "gauge"),
    _name("event.outcome", "success (valid), failure (limited) or unknown", "runs"),
    _name("event.reason", "each finding as a sentence", "runs"),
    _name("ccmix.validity.kinds", "what limited it: rtt, loss, cpu ... (docs/reference/findings.md)", "runs", "groups",
          "flows",
          "hosts"),
    _name("ccmix.validity.meaning", "what the goodput of a run that tables don't count says of its path: "
          f"{', '.join(MEANINGS)}", "runs", "groups", "flows", "hosts"),
    _name("ccmix.validity.accepted_kinds", "findings that the entry accepts", "runs"),
    _name("ccmix.validity.not_verified", "each thing that was configured and that the run could not show, as a "
          "sentence; the run may be valid", "runs"),
    _flag("ccmix.settled", "whether goodputs and shares show no trend over a measured time that is long enough to "
          "tell; null: not judged", "runs", "groups"),
    _name("ccmix.settling.reasons", "why it has not settled, or was not judged", "runs"),
    _gauge("ccmix.settling.warm_up_s", "s", "how much of the measured time is warm-up (MSER-5)", "runs"),
    _gauge("ccmix.settling.slowest_period_s", "s", "what takes longest on the path, and repeats", "runs"),
    _gauge("ccmix.settling.enough_s", "s", "measured time that does: of a run that has settled, its own", "runs"),
    _gauge("ccmix.settling.enough_omit_s", "s", "omitted time that would do, where only the warm-up has a trend",
           "runs"),
    _name("ccmix.run.notices", "what was noticed besides", "runs"),
    _count("ccmix.run.retries", "1", "tries that failed before", "runs"),
    _gauge("ccmix.run.real_seconds", "s", "time that the run took, by the clock of the machine that ran it", "runs"),
    _name("ccmix.generator", "iperf3, or what else made the traffic", "runs"),
    _name("ccmix.generator_version", "in its own words", "runs"),
    _gauge("ccmix.duration_s", "s", "measured time; of conditions the one that was asked for", "runs", "conditions"),
    _gauge("ccmix.omit_s", "s", "omitted time before that", "runs"),
    _gauge("ccmix.interval_s", "s", "between two samples", "runs"),
    _gauge("ccmix.utilisation", "percent", "goodput of the run over the bottleneck's rate, a fraction", "runs",
           "groups"),
    _gauge("ccmix.fairness", "1", "Jain's index over all flows of the run (RFC 5166); of conditions, the mean", "runs",
           "groups", "conditions"),
    _count("network.bytes", "byte", "sent by the flows, retransmissions included", "runs", "flows"),
    _gauge("ccmix.rtt_probe.median_s", "s", "of the RTT probe", "runs"),
    _gauge("ccmix.rtt_probe.p95_s", "s", "of the RTT probe", "runs"),
    _gauge("ccmix.rtt_probe.p99_s", "s", "of the RTT probe", "runs"),
    _gauge("ccmix.rtt_probe.unanswered", "percent", "share of questions without an answer", "runs"),
)  # fmt: skip

_RESULT = (
    _gauge("ccmix.goodput_bps", "bit/s", "application bytes received over time: of the run, group, flow, or of the "
           "flow in the interval; of sockets, acknowledged bytes since the sample before; of conditions, the mean",
           "runs", "groups", "flows", "intervals", "sockets", "conditions"),
    _gauge("ccmix.throughput_bps", "bit/s", "the same as the sender counts; of queues, what left since the sample "
           "before", "groups", "flows", "queues"),
    _gauge("ccmix.goodput_share", "percent", "share of the run's goodput, a fraction", "groups", "flows"),
    _gauge("ccmix.retransmission_rate", "percent", "retransmitted over data segments sent, a fraction; of sockets, "
           "since the sample before; of conditions, the mean", "runs", "groups", "flows", "sockets", "conditions"),
    _gauge("ccmix.rtt_median_s", "s", "median of the smoothed RTTs of the flows' sockets; of conditions, the median "
           "over runs", "runs", "groups", "flows", "conditions"),
    _count("ccmix.retransmits", "segments", "retransmitted: of the whole flow as iperf3 counts, or in the interval",
           "flows", "intervals"),
)  # fmt: skip

_MEASURES = (
    *(
        _gauge(f"ccmix.rtt_{name}_s", "s", f"{meaning} of the smoothed RTTs of the flows' sockets", "runs", "groups",
               "flows")
        for name, meaning in (("p95", "95th percentile"), ("p99", "99th percentile"))
    ),
    *(
        _gauge(f"ccmix.queueing_delay_{name}_s", "s", f"{meaning} of the same less the base RTT", "runs", "groups",
               "flows")
        for name, meaning in (("median", "median"), ("p95", "95th percentile"), ("p99", "99th percentile"))
    ),
    _gauge("ccmix.startup_s", "s", "from the first data to 90% of the steady goodput (docs/reference/metrics.md)",
           "runs",
           "groups", "flows"),
    _gauge("ccmix.overshoot", "percent", "by which goodput first exceeds the steady one, a fraction", "runs", "groups",
           "flows"),
    _gauge("ccmix.fair_share", "percent", "share of the run's flows, a fraction", "groups"),
    _gauge("ccmix.fairness_of_groups", "1", "Jain's index of the groups' goodput per flow", "runs"),
    _gauge("ccmix.convergence_s", "s", "from the start of the last flow until the run is delta-fair (RFC 5166); of "
           "flows, until the flow has its fair share; null: never", "runs", "flows"),
    _gauge("ccmix.netem_loss", "percent", "lost by netem in the data direction, by its own count, a fraction", "runs"),
    _gauge("ccmix.bottleneck.backlog_mean_bytes", "byte", "mean backlog of the bottleneck", "runs"),
    _gauge("ccmix.bottleneck.backlog_p95_bytes", "byte", "95th percentile of it", "runs"),
    _gauge("ccmix.bottleneck.backlog_max_bytes", "byte", "the largest seen", "runs"),
    _gauge("ccmix.bottleneck.occupancy_mean", "percent", "mean backlog over the buffer, a fraction", "runs"),
    _gauge("ccmix.bottleneck.drop_rate", "percent", "share of packets that the bottleneck dropped, a fraction", "runs"),
    _gauge("ccmix.bottleneck.utilisation", "percent", "bytes that it passed, headers and retransmissions included, "
           "over what its rate lets pass, a fraction", "runs"),
    _gauge("ccmix.receiver_window_limited", "percent", "share of the flows' busy time in which a configured window "
           "limited them, a fraction", "runs"),
    _count("ccmix.policer.drops", "packets", "that the policer dropped in the measured time", "runs"),
    _gauge("ccmix.policer.drop_rate", "percent", "share of packets that the policer dropped, a fraction", "runs"),
    _gauge("ccmix.host.cpu_s_per_gbit", "s/Gbit", "time that its cores were busy, per gigabit of the run's goodput",
           "hosts"),
)  # fmt: skip

_CONDITION = (
    _name("ccmix.condition.unknown", "swept keys whose values stand for what is not known of the path", "conditions"),
    _flag(
        "ccmix.condition.best_estimate",
        "whether these keys have the best estimates, the first of their values; true without such keys",
        "conditions",
    ),
    _count("ccmix.condition.runs", "runs", "finished runs", "conditions"),
    _count("ccmix.condition.invalid", "runs", "of these, not valid and left out", "conditions"),
    _count("ccmix.condition.not_settled", "runs", "of those that count, not settled", "conditions"),
    _gauge("ccmix.condition.goodput_cv", "percent", "standard deviation over mean, a fraction", "conditions"),
    _gauge("ccmix.condition.goodput_ci95_low_bps", "bit/s", "lower end of the 95% interval of the mean", "conditions"),
    _gauge("ccmix.condition.goodput_ci95_high_bps", "bit/s", "upper end", "conditions"),
)

_FLOW = (
    _name("ccmix.group.name", "name of the group", *WITH_GROUP),
    _count("ccmix.group.streams", "flows", "flows of the group", "groups", "conditions"),
    _name("ccmix.cca", "CCA of the flow that ran, as the kernel of its sender says", *WITH_GROUP),
    _name("ccmix.flow.id", "'HOST:PORT' of the sender; unique within a run", "flows", "intervals", "sockets",
          "packets"),
    _name("ccmix.flow.cca_asked", "CCA that was asked for", "flows"),
    _count("ccmix.flow.stream", "1", "number of the flow in the order of connecting, from 0", "flows"),
    _count("ccmix.flow.data_segments", "segments", "sent in the measured time", "flows"),
    _count("ccmix.flow.retransmitted_segments", "segments", "sent again in the measured time", "flows"),
    _count("source.port", "1", "TCP port of the sending end", "flows", "intervals", "sockets", "packets"),
    _count("destination.port", "1", "TCP port of the receiving end", "sockets", "packets"),
    Field("source.ip", "ip", "address of the sending end", ("sockets", "packets")),
    Field("destination.ip", "ip", "address of the receiving end", ("sockets", "packets")),
    _name("network.transport", "tcp or udp, of runs all that they have", "runs", "flows"),
    _name("host.name", "the host that it was seen on: its name in the entry or topology",
          "hosts", "flows", "intervals", "sockets", "completions"),
)  # fmt: skip

_HOST = (
    _name("host.os.kernel", "kernel release", "hosts", "runs"),
    _name("ccmix.host.role", "src, dst, or of an emulated path: all (one kernel for all hosts)", "hosts"),
    _name("ccmix.host.kernel_version", "build of the kernel", "hosts"),
    _name("ccmix.host.default_cca", "sysctl tcp_congestion_control", "hosts"),
    Field("ccmix.host.sysctl", "flattened", "sysctls of TCP as the run found them", ("hosts",)),
    _name("ccmix.host.device", "the sending device", "hosts"),
    _count("ccmix.host.cpus", "1", "processors", "hosts"),
    _gauge("ccmix.host.cpu_busy", "percent", "share of time that all cores together were busy, a fraction", "hosts"),
    _gauge("ccmix.host.cpu_busiest_core", "percent", "the same of the busiest core", "hosts"),
    _count("ccmix.host.softnet_drops", "packets", "dropped by the backlog between devices during the traffic", "hosts"),
    _count("ccmix.host.softnet_squeezes", "1", "times that softirq ran out of budget", "hosts"),
    _count("ccmix.host.memory_pressures", "1", "TcpExt.TCPMemoryPressures during the traffic", "hosts"),
    _count("ccmix.host.retransmitted_segments", "segments", "Tcp.RetransSegs during the traffic", "hosts"),
    _count("ccmix.host.probe_samples", "1", "samples that the probe took", "hosts"),
    _count("ccmix.host.probe_missed", "1", "deadlines that it missed", "hosts"),
    _gauge("ccmix.host.probe_longest_delay_s", "s", "longest delay of a sample", "hosts"),
    _name("ccmix.host.probe_failed", "why the probe did not record all", "hosts"),
)

_SAMPLE = (
    _gauge("ccmix.elapsed_s", "s", "since the traffic began, omitted time included; the end of an interval", *SAMPLES),
    _gauge("ccmix.seconds", "s", "length of the interval; of completions, the time that it took; null: cut off",
           "intervals", "completions"),
    _flag("ccmix.omitted", "whether it lies in the omitted time", "intervals"),
    _name("ccmix.end", "sender or receiver", "sockets"),
    _flag("ccmix.final", "last counters of a connection that has ended", "sockets"),
    _name("ccmix.socket.state", "established ...", "sockets"),
    _name("ccmix.socket.ca_state", "open, disorder, cwr, recovery or loss", "sockets"),
    _gauge("ccmix.rtt_s", "s", "smoothed RTT; of rtts, of the question", "sockets", "rtts"),
    _gauge("ccmix.socket.min_rtt_s", "s", "smallest RTT of the kernel's window", "sockets"),
    _gauge("ccmix.socket.rttvar_s", "s", "mean deviation of the RTT", "sockets"),
    _gauge("ccmix.socket.rto_s", "s", "retransmission timeout", "sockets"),
    _count("ccmix.socket.mss_bytes", "byte", "segment size", "sockets"),
    _count("ccmix.socket.cwnd_packets", "packets", "congestion window", "sockets"),
    _count("ccmix.socket.cwnd_bytes", "byte", "congestion window times segment size", "sockets"),
    _count("ccmix.socket.ssthresh_packets", "packets", "slow start threshold; null: infinite", "sockets"),
    _count("ccmix.socket.unacked", "segments", "in flight", "sockets"),
    _count("ccmix.socket.lost", "segments", "taken for lost now", "sockets"),
    _gauge("ccmix.socket.pacing_rate_bps", "bit/s", "the kernel's pacing rate", "sockets"),
    _gauge("ccmix.socket.delivery_rate_bps", "bit/s", "the kernel's delivery rate", "sockets"),
    _flag("ccmix.socket.app_limited", "the delivery rate is what the application gave", "sockets"),
    _counter("ccmix.socket.bytes_sent", "byte", "data sent, retransmissions included", "sockets"),
    _counter("ccmix.socket.bytes_acked", "byte", "acknowledged", "sockets"),
    _counter("ccmix.socket.bytes_received", "byte", "received", "sockets"),
    _counter("ccmix.socket.data_segs_out", "segments", "data segments sent", "sockets"),
    _counter("ccmix.socket.retransmits", "segments", "of these, sent again", "sockets"),
    _counter("ccmix.socket.delivered_ce", "segments", "delivered with CE marks", "sockets"),
    _counter("ccmix.socket.reorderings_seen", "1", "reorderings", "sockets"),
    Field("ccmix.socket.busy_s", "double", "time with data to send", ("sockets",), "s", "counter"),
    Field("ccmix.socket.receiver_window_limited_s", "double", "of it, limited so", ("sockets",), "s", "counter"),
    Field("ccmix.socket.send_buffer_limited_s", "double", "of it, limited so", ("sockets",), "s", "counter"),
    _count("ccmix.socket.send_queue_bytes", "byte", "written and not acknowledged", "sockets"),
    _count("ccmix.socket.recv_queue_bytes", "byte", "received and not read", "sockets"),
    _count("ccmix.socket.send_buffer_bytes", "byte", "limit of the send buffer", "sockets"),
    _count("ccmix.socket.receive_buffer_bytes", "byte", "limit of the receive buffer", "sockets"),
    _name("ccmix.bbr.state", "startup, drain, probe_bw, probe_rtt (BBRv1, by its gains); of bbr2 and bbr3 "
          "probe_bw_down, probe_bw_cruise, probe_bw_refill, probe_bw_up instead of probe_bw", "sockets"),
    _gauge("ccmix.bbr.bandwidth_bps", "bit/s", "estimate of the bottleneck's rate", "sockets"),
    _gauge("ccmix.bbr.min_rtt_s", "s", "estimate of the base RTT", "sockets"),
    _gauge("ccmix.bbr.pacing_gain", "1", "pacing gain", "sockets"),
    _gauge("ccmix.bbr.cwnd_gain", "1", "gain of the congestion window", "sockets"),
    _counter("ccmix.bbr.cycle", "1", "cycles of PROBE_BW that have begun, of bbr2 and bbr3", "sockets"),
    _gauge("ccmix.bbr.bw_lo_bps", "bit/s", "short-term bound of the bandwidth, of bbr2 and bbr3", "sockets"),
    _count("ccmix.bbr.inflight_hi_packets", "packets", "long-term bound of what is in flight", "sockets"),
    _count("ccmix.bbr.inflight_lo_packets", "packets", "short-term bound of what is in flight", "sockets"),
    _gauge("ccmix.dctcp.alpha", "1", "DCTCP's estimate of marks, a fraction", "sockets"),
    _name("ccmix.queue.place", "bottleneck, ack-bottleneck, sender-queue; 'sender-queue h2' of more", "queues"),
    _name("ccmix.queue.device", "network device", "queues"),
    _name("ccmix.queue.kind", "qdisc: tbf, fq ...", "queues"),
    _name("ccmix.queue.parent", "root, or the handle of its parent", "queues"),
    _count("ccmix.queue.backlog_bytes", "byte", "in it now", "queues"),
    _count("ccmix.queue.backlog_packets", "packets", "in it now", "queues"),
    _gauge("ccmix.queue.delay_s", "s", "of the bottleneck: backlog over the configured rate", "queues"),
    _gauge("ccmix.queue.drops_per_s", "packets/s", "since the sample before", "queues"),
    _counter("ccmix.queue.bytes", "byte", "that left it", "queues"),
    _counter("ccmix.queue.packets", "packets", "that left it", "queues"),
    _counter("ccmix.queue.drops", "packets", "dropped", "queues"),
    _counter("ccmix.queue.overlimits", "1", "times over the limit", "queues"),
    _counter("ccmix.queue.ecn_marks", "packets", "marked instead of dropped", "queues"),
    _counter("ccmix.queue.flow_limit_drops", "packets", "of drops, by fq's flow_limit", "queues"),
    _name("ccmix.packets.direction", "a2b (from the end that was seen first) or b2a; only a sender's packets have "
          "a flow and a CCA", "packets"),
    _count("ccmix.packets.connection", "1", "number of the connection in the capture, from 1", "packets"),
    _count("ccmix.packets.packets", "packets", "all, this way", "packets"),
    _count("ccmix.packets.data_packets", "packets", "with payload", "packets"),
    _count("ccmix.packets.payload_bytes", "byte", "payload", "packets"),
    _count("ccmix.packets.retransmitted_bytes", "byte", "captured before", "packets"),
    _count("ccmix.packets.out_of_order_bytes", "byte", "new payload below the highest", "packets"),
    _count("ccmix.packets.ce_packets", "packets", "with a CE mark", "packets"),
    _count("ccmix.packets.duplicate_acks", "ACKs", "duplicates that came back", "packets"),
    _count("ccmix.packets.acked_bytes", "byte", "newly covered by ACKs that came back", "packets"),
    _count("ccmix.packets.in_flight_max_bytes", "byte", "largest amount in flight", "packets"),
    _count("ccmix.packets.receive_window_min_bytes", "byte", "smallest window of the other end", "packets"),
    _gauge("ccmix.packets.ack_rtt_mean_s", "s", "mean RTT from ACKs", "packets"),
    _count("ccmix.rtt_probe.sequence", "1", "number of the question", "rtts"),
    _count("ccmix.completion.number", "1", "number of the request or flow of its host", "completions"),
    _count("ccmix.completion.bytes", "byte", "size", "completions"),
    _gauge("ccmix.completion.connect_s", "s", "until the connection was there", "completions"),
    _gauge("ccmix.completion.first_byte_s", "s", "until the first byte came", "completions"),
)  # fmt: skip

FIELDS = {
    field.name: field
    for field in (
        *_IDENTITY, *_CAMPAIGN, *_CONTEXT, *_PATH, *_ESTIMATES, *_RUN, *_RESULT, *_MEASURES,
        *_CONDITION, *_FLOW, *_HOST, *_SAMPLE,
    )
}  # fmt: skip


def fields_of(kind: str) -> Iterable[Field]:
    """Returns the fields in the order of the table."""
    return (field for field in FIELDS.values() if kind in field.kinds)
