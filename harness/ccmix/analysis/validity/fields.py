"""Lists every field of an emulated path and its traffic, with the check that verifies it.

A test compares this list with the dataclasses of ccmix.model, and docs/explanation/validity.md with
this list.
"""

from collections.abc import Mapping

from ccmix.analysis.validity import (
    flow_starts,
    netem_fields,
    path_fields,
    queue_fields,
    traffic_fields,
)
from ccmix.analysis.validity.applied import FieldComparison

EXACT = "equal"

PATH = (
    FieldComparison(
        ("Topology.senders", "Sender.name"),
        "network namespaces, and the addresses that the probe knows senders by",
        EXACT,
        path_fields.senders,
    ),
    FieldComparison(
        (
            "Sender.delay_s",
            "Sender.ack_delay_s",
            "Sender.drawn_delay_s",
            "DelayChange.delay_s",
            "DelayChange.direction",
            "DelayChange.sender",
        ),
        "tc: delay of netem, separately for data and ACKs; also pings and the sockets' smallest "
        "RTT",
        "1 us; pings 1%, at least 0.2 ms",
        netem_fields.delays,
    ),
    FieldComparison(("Sender.jitter_s",), "tc: jitter of netem", "10 us", netem_fields.jitter),
    FieldComparison(
        ("Sender.reorder",), "tc: reorder of netem", "six digits", netem_fields.reordering
    ),
    FieldComparison(
        ("Sender.loss", "Loss.model", "Loss.parameters", "LossChange.loss", "LossChange.sender"),
        "tc: loss of netem, its model and all parameters; also netem's count of lost packets",
        "six digits; the count by a binomial test, p < 1e-6",
        netem_fields.loss_parameters,
    ),
    FieldComparison(
        ("Topology.rate_bps", "RateChange.rate_bps"),
        "tc: rate of tbf, or rate and ceil of htb's class; also a train of packets and the "
        "bottleneck's bytes",
        "1%",
        queue_fields.rate,
    ),
    FieldComparison(
        ("Sender.rate_bps",),
        "tc: rate of tbf on the sender's device",
        "1%",
        queue_fields.sender_rates,
    ),
    FieldComparison(
        ("Sender.queue",),
        "tc: qdisc of the sender's device, and its options",
        "as for the bottleneck's queue",
        queue_fields.sender_queues,
    ),
    FieldComparison(
        ("Topology.burst_bytes",),
        "tc: burst of tbf, or of htb's class",
        "2 us at the rate, and 1%",
        queue_fields.burst,
    ),
    FieldComparison(
        ("Topology.policer", "Policer.rate_bps", "Policer.burst_bytes"),
        "tc: whether the bottleneck's device has a policer, and its action",
        "rate 1%; burst 2 us at the rate, and 1%",
        queue_fields.policer,
    ),
    FieldComparison(
        ("Topology.ack_bottleneck", "AckBottleneck.rate_bps", "AckBottleneck.buffer"),
        "tc: rate of tbf on the device that ACKs pass, and the limit of its queue",
        "1%; the limit as for the bottleneck",
        queue_fields.ack_bottleneck,
    ),
    FieldComparison(
        ("Topology.control",),
        "tc: the devices of a link next to the path, and the delay of their netem",
        "1 us",
        netem_fields.control,
    ),
    FieldComparison(
        ("Topology.shaper",), "tc: the bottleneck's root qdisc", EXACT, queue_fields.shaper
    ),
    FieldComparison(
        ("Topology.queue", "Queue.kind"),
        "tc: the qdisc below the shaper",
        EXACT,
        queue_fields.queue_kind,
    ),
    FieldComparison(
        ("Queue.parameters",),
        "tc: options of that qdisc; those that are not configured must have their defaults",
        "2 us, a jiffy of 4 ms if the kernel counts in jiffies, six digits",
        queue_fields.queue_parameters,
    ),
    FieldComparison(("Topology.mtu_bytes",), "MTU of every device", EXACT, path_fields.mtu),
    FieldComparison(
        ("Topology.offloads",), "features of every device (ethtool)", EXACT, path_fields.offloads
    ),
    FieldComparison(
        ("Topology.receivers",),
        "namespaces that have the receivers' addresses",
        EXACT,
        path_fields.receivers,
    ),
    FieldComparison(
        ("Topology.kernel",),
        "the kernel file that the guest was started with, and the release that the guest reports",
        EXACT,
        path_fields.kernel,
    ),
    FieldComparison(
        ("Topology.host_root",),
        "the root file system that the guest was started with",
        EXACT,
        path_fields.host_root,
    ),
    FieldComparison(
        (
            "Topology.module_parameter",
            "ModuleParameter.path",
            "ModuleParameter.value",
            "ModuleParameter.element",
        ),
        "/sys/module, before and after the traffic",
        EXACT,
        path_fields.module_parameter,
    ),
    FieldComparison(
        ("Sender.receiver_window_bytes",),
        "sysctl tcp_rmem of each receiver; also the largest window that each sender saw",
        "equal; windows 3%",
        path_fields.receiver_windows,
    ),
    FieldComparison(
        ("Topology.ecn",), "sysctl tcp_ecn of each sender and receiver", EXACT, path_fields.ecn
    ),
    FieldComparison(("Topology.capture",), "whether tcpdump captured", EXACT, path_fields.capture),
    FieldComparison(
        ("Topology.changes", "RateChange.at_s", "DelayChange.at_s", "LossChange.at_s"),
        "the clock when tc made each change, and tc's options before it",
        "0.1 s",
        netem_fields.changes,
    ),
    FieldComparison(
        ("Topology.buffer", "Buffer.amount", "Buffer.kind"),
        "tc: limit of the bottleneck's queue; also its largest backlog",
        "a packet if it counts packets, otherwise a byte; tbf's built-in queue 2 us at the rate",
        queue_fields.buffer,
    ),
)

TRAFFIC = (
    FieldComparison(
        (
            "Traffic.sources",
            *(
                f"{source}.{field}"
                for source in (
                    "Iperf3Source",
                    "UdpSource",
                    "HttpSource",
                    "WorkloadSource",
                    "CommandSource",
                )
                for field in ("name", "host", "kind")
            ),
        ),
        "the files that each source's programs left",
        EXACT,
        traffic_fields.sources,
    ),
    FieldComparison(
        ("Iperf3Source.streams", "UdpSource.streams"),
        "iperf3's JSON: num_streams",
        EXACT,
        traffic_fields.streams,
    ),
    FieldComparison(
        ("Iperf3Source.groups", "Group.weight"),
        "iperf3's JSON: the group of each connection, and the CCA that it read from the socket",
        EXACT,
        traffic_fields.groups,
    ),
    FieldComparison(
        ("Group.cca",), "iperf3 and the probe, from the socket", EXACT, traffic_fields.cca
    ),
    FieldComparison(
        ("Group.pacing_bps",),
        "the probe: max_pacing_rate of the socket",
        "1%",
        traffic_fields.group_pacing,
    ),
    FieldComparison(
        tuple(
            f"{source}.start_s"
            for source in ("Iperf3Source", "UdpSource", "HttpSource", "WorkloadSource")
        ),
        "the first sample of a socket that had sent data; for UDP, the time of iperf3's connection",
        "0.2 s, 2 intervals, 4 RTTs with a full buffer; 1.2 s later after drops, 3.5 s or more "
        "with an AQM or loss",
        flow_starts.starts,
    ),
    FieldComparison(
        ("Group.delay_s",),
        "the first samples of a test's sockets that had sent data, compared with each other",
        "0.2 s and 2 intervals",
        flow_starts.relative_starts,
    ),
    FieldComparison(
        ("Traffic.duration_s", "Traffic.at_most_s"),
        "iperf3's JSON: duration, and the seconds that it counted",
        "a second; 0.25 s and 1% of the counted seconds",
        traffic_fields.duration,
    ),
    FieldComparison(("Traffic.omit_s",), "iperf3's JSON: omit", "a second", traffic_fields.omit),
    FieldComparison(
        ("Traffic.interval_s",),
        "iperf3's JSON: interval; the time between samples of the bottleneck's queue",
        "1%, for samples 10%",
        traffic_fields.interval,
    ),
    FieldComparison(
        ("Traffic.pacing_bps",),
        "tc: maxrate of fq on the sending device",
        "1%",
        traffic_fields.pacing,
    ),
    FieldComparison(
        ("UdpSource.rate_bps",), "iperf3's JSON: target_bitrate", "1%", traffic_fields.udp_rates
    ),
    FieldComparison(
        ("HttpSource.requests", "HttpSource.size_bytes", "HttpSource.parallel"),
        "the clients' commands and files, and the sizes of their answers",
        EXACT,
        traffic_fields.http,
    ),
    FieldComparison(
        ("WorkloadSource.distribution", "WorkloadSource.sizes", "WorkloadSource.offered_bps"),
        "the flows that the sender began, compared with those that the seed draws",
        "50 ms",
        traffic_fields.workload,
    ),
    FieldComparison(
        ("HttpSource.cca", "WorkloadSource.cca"),
        "the probe, from the sockets",
        EXACT,
        traffic_fields.service_ccas,
    ),
    FieldComparison(
        ("Traffic.rtt_probe", "RttProbe.rate_hz"),
        "the time between the probe's questions",
        "10%",
        traffic_fields.rtt_probe,
    ),
    FieldComparison(
        ("Topology.spread", "RunSpread.starts_s"),
        "iperf3's JSON: when it started each stream",
        "half a microsecond",
        flow_starts.drawn_starts,
    ),
    FieldComparison((), "the probe: ECN of each socket", EXACT, traffic_fields.negotiated_ecn),
)

# Nothing can be compared
NOT_COMPARED: Mapping[str, str] = {
    "Topology.name": "the name of a section, which nothing applies",
    "Topology.kind": "only distinguishes types",
    "RunSpread.delays_s": "part of Sender.drawn_delay_s, which is compared",
    "RunSpread.phase_s": "delays all traffic by less than a tick of the kernel, which no clock "
    "shows",
    "RateChange.kind": "only distinguishes types",
    "DelayChange.kind": "only distinguishes types",
    "LossChange.kind": "only distinguishes types",
    "CommandSource.line": "a user's command, whose purpose is not known; facts.json has the "
    "command that ran",
    "CommandSource.kept": "applies to a command between hosts, which no emulated path has",
    "CommandSource.start_s": "a command may begin to send at any time",
    "RttProbe.tcp_port": "the probe's answers do not show how it was configured, and facts.json "
    "does not have its command",
    **{
        f"{source}.{field}": "belongs to a run between hosts or to an imported run, which is "
        "judged only by its sockets"
        for source in ("PschedulerSource", "ImportedSource")
        for field in ("name", "host", "start_s", "groups", "streams", "kind")
    },
    **{
        f"PathSource.{field}": "belongs to steps that measure a path: steps.json says what was "
        "sent, and when"
        for field in ("name", "host", "start_s", "most_bps", "kind")
    },
    "PschedulerSource.task": "pScheduler reports its task itself, in generators/pscheduler.json",
}
