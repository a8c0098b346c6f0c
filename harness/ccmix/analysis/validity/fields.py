"""Lists all fields of a configured path and traffic, each with how it is compared with what was applied.

A test compares this list with the dataclasses of ccmix.model, and docs/explanation/validity.md with this list.
"""

from collections.abc import Mapping

from ccmix.analysis.validity import path_fields, traffic_fields
from ccmix.analysis.validity.comparison import FieldComparison

EXACT = "equal"

PATH = (
    FieldComparison(
        ("Topology.senders", "Sender.name"),
        "network namespaces, and the addresses that the probe knows senders by", EXACT, path_fields.senders,
    ),
    FieldComparison(
        (
            "Sender.delay_s", "Sender.ack_delay_s", "Sender.drawn_delay_s", "DelayChange.delay_s",
            "DelayChange.direction", "DelayChange.sender",
        ),
        "tc: delay of netem, data and ACKs apart; besides pings and the sockets' smallest RTT",
        "1 us; pings 1%, at least 0.2 ms", path_fields.delays,
    ),
    FieldComparison(("Sender.jitter_s",), "tc: jitter of netem", "10 us", path_fields.jitter),
    FieldComparison(("Sender.reorder",), "tc: reorder of netem", "six digits", path_fields.reordering),
    FieldComparison(
        ("Sender.loss", "Loss.model", "Loss.parameters", "LossChange.loss", "LossChange.sender"),
        "tc: loss of netem, its model and all parameters; besides netem's count of lost packets",
        "six digits; the count by a binomial test, p < 1e-6", path_fields.loss_parameters,
    ),
    FieldComparison(
        ("Topology.rate_bps", "RateChange.rate_bps"),
        "tc: rate of tbf, or rate and ceil of htb's class; besides a train of packets and the bottleneck's bytes",
        "1%", path_fields.rate,
    ),
    FieldComparison(("Sender.rate_bps",), "tc: rate of tbf on the sender's device", "1%", path_fields.sender_rates),
    FieldComparison(
        ("Sender.queue",), "tc: qdisc of the sender's device, and its options", "as those of the bottleneck's queue",
        path_fields.sender_queues,
    ),
    FieldComparison(
        ("Topology.burst_bytes",), "tc: burst of tbf, or of htb's class", "2 us at the rate, and 1%", path_fields.burst
    ),
    FieldComparison(
        ("Topology.ack_bottleneck", "AckBottleneck.rate_bps", "AckBottleneck.buffer"),
        "tc: rate of tbf on the device that ACKs pass, and the limit of its queue",
        "1%; of the limit as the bottleneck's", path_fields.ack_bottleneck,
    ),
    FieldComparison(
        ("Topology.control",), "tc: the devices of a link beside the path, and the delay of their netem", "1 us",
        path_fields.control,
    ),
    FieldComparison(("Topology.shaper",), "tc: the bottleneck's root qdisc", EXACT, path_fields.shaper),
    FieldComparison(("Topology.queue", "Queue.kind"), "tc: the qdisc below the shaper", EXACT, path_fields.queue_kind),
    FieldComparison(
        ("Queue.parameters",),
        "tc: options of that qdisc; what is not configured must have its default",
        "2 us, a jiffy of 4 ms where the kernel counts in jiffies, six digits", path_fields.queue_parameters,
    ),
    FieldComparison(("Topology.mtu_bytes",), "MTU of every device", EXACT, path_fields.mtu),
    FieldComparison(("Topology.offloads",), "features of every device (ethtool)", EXACT, path_fields.offloads),
    FieldComparison(
        ("Topology.receivers",), "namespaces that have the receivers' addresses", EXACT, path_fields.receivers
    ),
    FieldComparison(
        ("Topology.kernel",), "the kernel file that the guest was started with, and the release that the guest reports",
        EXACT, path_fields.kernel,
    ),
    FieldComparison(
        ("Topology.host_root",), "what the guest was started with as its root", EXACT, path_fields.host_root
    ),
    FieldComparison(
        (
            "Topology.module_parameter", "ModuleParameter.path", "ModuleParameter.value", "ModuleParameter.element",
        ),
        "/sys/module, before and after the traffic", EXACT, path_fields.module_parameter,
    ),
    FieldComparison(("Topology.ecn",), "sysctl tcp_ecn of each sender and receiver", EXACT, path_fields.ecn),
    FieldComparison(("Topology.capture",), "whether tcpdump captured", EXACT, path_fields.capture),
    FieldComparison(
        ("Topology.changes", "RateChange.at_s", "DelayChange.at_s", "LossChange.at_s"),
        "the clock when tc made each change, and tc's options before it", "0.1 s", path_fields.changes,
    ),
    FieldComparison(
        ("Topology.buffer", "Buffer.amount", "Buffer.kind"),
        "tc: limit of the bottleneck's queue; besides its largest backlog",
        "a packet where it counts packets, else a byte; tbf's own queue 2 us at the rate", path_fields.buffer,
    ),
)  # fmt: skip

TRAFFIC = (
    FieldComparison(
        (
            "Traffic.sources",
            *(
                f"{source}.{field}"
                for source in ("Iperf3Source", "UdpSource", "HttpSource", "WorkloadSource", "CommandSource")
                for field in ("name", "host", "kind")
            ),
        ),
        "the files that each source's programs left", EXACT, traffic_fields.sources,
    ),
    FieldComparison(
        ("Iperf3Source.streams", "UdpSource.streams"), "iperf3's JSON: num_streams", EXACT, traffic_fields.streams
    ),
    FieldComparison(
        ("Iperf3Source.groups", "Group.weight"),
        "iperf3's JSON: the group of each connection, and the CCA that it read from the socket",
        EXACT, traffic_fields.groups,
    ),
    FieldComparison(("Group.cca",), "iperf3 and the probe, from the socket", EXACT, traffic_fields.cca),
    FieldComparison(
        ("Group.pacing_bps",), "the probe: max_pacing_rate of the socket", "1%", traffic_fields.group_pacing
    ),
    FieldComparison(
        tuple(f"{source}.start_s" for source in ("Iperf3Source", "UdpSource", "HttpSource", "WorkloadSource")),
        "the first sample of a socket that had sent data; of UDP the time of iperf3's connection",
        "0.2 s, 2 intervals, 4 RTTs with a full buffer; 1.2 s later after drops, 3.5 s or more with an AQM or loss",
        traffic_fields.starts,
    ),
    FieldComparison(
        ("Group.delay_s",),
        "the first samples of a test's sockets that had sent data, against each other",
        "0.2 s and 2 intervals", traffic_fields.relative_starts,
    ),
    FieldComparison(
        ("Traffic.duration_s", "Traffic.at_most_s"), "iperf3's JSON: duration, and the seconds that it counted",
        "a second; 0.25 s and 1% of what was counted", traffic_fields.duration,
    ),
    FieldComparison(("Traffic.omit_s",), "iperf3's JSON: omit", "a second", traffic_fields.omit),
    FieldComparison(
        ("Traffic.interval_s",), "iperf3's JSON: interval; the distance of the samples of the bottleneck's queue",
        "1%, of samples 10%", traffic_fields.interval,
    ),
    FieldComparison(("Traffic.pacing_bps",), "tc: maxrate of fq on the sending device", "1%", traffic_fields.pacing),
    FieldComparison(("UdpSource.rate_bps",), "iperf3's JSON: target_bitrate", "1%", traffic_fields.udp_rates),
    FieldComparison(
        ("HttpSource.requests", "HttpSource.size_bytes", "HttpSource.parallel"),
        "the clients' commands and files, and the sizes of their answers", EXACT, traffic_fields.http,
    ),
    FieldComparison(
        ("WorkloadSource.distribution", "WorkloadSource.sizes", "WorkloadSource.offered_bps"),
        "the flows that the sender began, against those that the seed draws", "50 ms", traffic_fields.workload,
    ),
    FieldComparison(
        ("HttpSource.cca", "WorkloadSource.cca"), "the probe, from the sockets", EXACT, traffic_fields.service_ccas
    ),
    FieldComparison(
        ("Traffic.rtt_probe", "RttProbe.rate_hz"), "the distance of the probe's questions", "10%",
        traffic_fields.rtt_probe,
    ),
    FieldComparison(
        ("Topology.spread", "RunSpread.starts_s"), "iperf3's JSON: when it started each stream", "half a microsecond",
        traffic_fields.drawn_starts,
    ),
    FieldComparison((), "the probe: ECN of each socket", EXACT, traffic_fields.negotiated_ecn),
)  # fmt: skip

# Nothing can be compared
NOT_COMPARED: Mapping[str, str] = {
    "Topology.name": "the name of a section, which nothing applies",
    "Topology.kind": "tells types apart",
    "RunSpread.delays_s": "part of Sender.drawn_delay_s, which is compared",
    "RunSpread.phase_s": "less than a tick of the kernel, by which all traffic begins later: no clock shows it",
    "RateChange.kind": "tells types apart",
    "DelayChange.kind": "tells types apart",
    "LossChange.kind": "tells types apart",
    "CommandSource.line": "a line of the user's: what it should do is not known; facts.json has what was run",
    "CommandSource.kept": "of a command between hosts, which no emulated path has",
    "CommandSource.start_s": "a command may send when it likes",
    "RttProbe.tcp_port": "the probe's answers do not say how it asked; facts.json has no line of it",
    **{
        f"{source}.{field}": "of a run between hosts or an imported one, which is judged by its sockets alone"
        for source in ("PschedulerSource", "ImportedSource")
        for field in ("name", "host", "start_s", "groups", "streams", "kind")
    },
    **{
        f"PathSource.{field}": "of steps that find what a path is: steps.json has what was sent, and when"
        for field in ("name", "host", "start_s", "most_bps", "kind")
    },
    "PschedulerSource.task": "pScheduler reports its task itself, in generators/pscheduler.json",
}
