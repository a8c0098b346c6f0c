"""Checks the configured traffic against the reports of its programs, sockets and probes."""

from collections import Counter
from collections.abc import Iterator

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW, by_flow
from ccmix.analysis.measured import measured
from ccmix.analysis.reports import Iperf3TestReport, ServiceReport
from ccmix.analysis.validity.applied import Observed, Problems, first_flow_only
from ccmix.generators.distributions import arrivals
from ccmix.generators.workload_ends import HEADER
from ccmix.model import (
    Group,
    HttpSource,
    Iperf3Source,
    Topology,
    TrafficSource,
    UdpSource,
    WorkloadSource,
)
from ccmix.model.group_grammar import DEFAULT_CCA, streams_of_groups
from ccmix.units import format_rate, format_time

RATE_FRACTION = 0.01
LASTED_FRACTION, LASTED_S = 0.01, 0.25  # a client's timer, and what a busy machine adds
START_S = 0.2  # by which a source may begin late on a busy machine
ENOUGH_SAMPLES = 5  # for their median distance, since the last sample is not on the grid
SAMPLES = 2  # between which a first sample may lie
SCHEDULE_S = 0.05  # by which a workload's flow may begin late
# asks for ECN regardless of the sysctl, also as dctcp-reno (TCP_CONG_NEEDS_ECN)
NEEDS_ECN = "dctcp"

COOKIE_SEGMENTS = 1  # of a connection's cookie, which iperf3 sends before it sets the CCA


def iperf3_reports(
    observed: Observed,
) -> Iterator[tuple[Iperf3Source | UdpSource, Iperf3TestReport]]:
    """Yields each configured iperf3 source (TCP or UDP) with iperf3's own report about it. A source
    without a report is skipped: sources() reports it.
    """
    for source in observed.run.traffic.sources:
        if isinstance(source, Iperf3Source | UdpSource) and source.label in observed.tables.tests:
            yield source, observed.tables.tests[source.label]


def other_reports(observed: Observed) -> Iterator[tuple[TrafficSource, ServiceReport]]:
    """Yields each source that is not iperf3's (HTTP, workload, command) with the report
    about it.
    """
    for source in observed.run.traffic.sources:
        if source.label in observed.tables.services:
            yield source, observed.tables.services[source.label]


def sources(observed: Observed) -> Problems:
    """Checks that every configured source left a report, that its protocol (TCP or UDP) is right,
    and that there are no reports of other sources. Between hosts, a source may lack a report.
    """
    tables = observed.tables
    labels = {source.label: source for source in observed.run.traffic.sources}
    for label in sorted({*tables.tests, *tables.services} - set(labels)):
        yield "traffic", f"{label} made traffic, but is not configured"
    for label, source in labels.items():
        if label in tables.tests:
            protocol = tables.tests[label].protocol
            configured = "UDP" if isinstance(source, UdpSource) else "TCP"
            if protocol != configured or not isinstance(source, Iperf3Source | UdpSource):
                yield (
                    "traffic",
                    f"iperf3 reports {protocol} for {label}, configured: {source.kind}",
                )
        elif isinstance(source, Iperf3Source | UdpSource) and isinstance(
            observed.run.path, Topology
        ):
            yield "traffic", f"iperf3 reports no test of {label}"


def streams(observed: Observed) -> Problems:
    """Checks the number of parallel streams of each iperf3 test, as iperf3 reports it."""
    for source, test in iperf3_reports(observed):
        if test.streams != source.streams:
            yield _difference(source, f"had {test.streams} streams", source.streams)


def groups(observed: Observed) -> Problems:
    """Checks how many streams of an iperf3 test each group got, where a group is the streams of one
    CCA. The configured number follows from the groups' weights and their order.
    """
    for source, test in iperf3_reports(observed):
        if not isinstance(source, Iperf3Source) or test.streams != source.streams:
            continue
        counts = Counter(test.groups.values())
        expected_counts = streams_of_groups(source.groups, source.streams)
        for number, expected in enumerate(expected_counts, start=1):
            if len(source.groups) > 1 and counts[number] != expected:
                yield (
                    "traffic",
                    f"group {number} of {source.label} had {counts[number]} streams, "
                    f"configured: {expected}",
                )


def duration(observed: Observed) -> Problems:
    """Checks the duration that iperf3 was asked for, and how long it really sent.

    If a run is to end once it has settled (its goodput shows no trend), iperf3 is asked for the
    maximum duration, and ended earlier.
    """
    traffic = observed.run.traffic
    for source, test in iperf3_reports(observed):
        configured_s = round(traffic.at_the_limit.of_source(source).measured_s)
        if test.duration_s != configured_s:
            lasts = f"was to last {format_time(test.duration_s)}"
            yield _difference(source, lasts, format_time(configured_s))
            continue
        measured_s = round(traffic.of_source(source).measured_s)
        if (
            test.lasted_s is not None
            and abs(test.lasted_s - measured_s) > LASTED_S + LASTED_FRACTION * measured_s
        ):
            reason = "configured:" if measured_s == configured_s else "it had settled after"
            yield (
                "traffic",
                f"{source.label} lasted {format_time(test.lasted_s)}, {reason} "
                f"{format_time(measured_s)}",
            )


def omit(observed: Observed) -> Problems:
    """Checks the omitted time at the start of each iperf3 test (iperf3 -O), as iperf3
    reports it.
    """
    for source, test in iperf3_reports(observed):
        configured_s = round(observed.run.traffic.of_source(source).omit_s)
        if test.omit_s != configured_s:
            yield _difference(
                source, f"omitted {format_time(test.omit_s)}", format_time(configured_s)
            )


def interval(observed: Observed) -> Problems:
    """Checks the interval of iperf3's reports (iperf3 -i), and the interval at which the
    bottleneck's queue was sampled.
    """
    traffic = observed.run.traffic
    for source, test in iperf3_reports(observed):
        if test.interval_s is not None and _differs(test.interval_s, traffic.goodput_interval_s):
            reported = f"reported each {format_time(test.interval_s)}"
            yield _difference(source, reported, format_time(traffic.goodput_interval_s))
    if (
        isinstance(observed.run.path, Topology)
        and observed.tables.bottleneck.height > ENOUGH_SAMPLES
    ):
        samples = measured(
            observed.run, observed.tables.bottleneck
        )  # before, some are not on the grid
        sample_distance_s = samples["time_s"].sort().diff().median()
        if isinstance(sample_distance_s, float) and _differs(
            sample_distance_s, traffic.interval_s, 0.1
        ):
            yield (
                "traffic",
                f"queues were sampled every {format_time(round(sample_distance_s, 6))}, "
                f"configured: {format_time(traffic.interval_s)}",
            )


def _differs(seen: float, configured: float, share: float = RATE_FRACTION) -> bool:
    """Returns whether a value differs from the configured one by more than `share` of the
    configured one.
    """
    return abs(seen - configured) > share * configured


def _rate_differs(applied: float | None, configured: float | None) -> bool:
    """Returns whether two rates differ by more than 1%, or only one of them is None (no rate)."""
    if applied is None or configured is None:
        return applied is not configured
    return _differs(applied, configured)


def _difference(source: TrafficSource, seen: str, configured: object) -> tuple[str, str]:
    """Returns a problem: 'h1 had 3 streams, configured: 4'. `seen` is its middle: 'had 3
    streams'.
    """
    return "traffic", f"{source.label} {seen}, configured: {configured}"


def pacing(observed: Observed) -> Problems:
    """Checks the rate to which fq on each sending device limits each flow (its maxrate) against the
    entry's pacing rate. A device must have no maxrate if the entry does not pace the flows of its
    host.

    Skips devices for whose fq the configuration itself sets a maxrate: path_fields.sender_queues()
    checks that.
    """
    traffic, path = observed.run.traffic, observed.run.path
    configured_elsewhere, unpaced = set[str](), set[str]()  # devices
    for sender in path.senders if isinstance(path, Topology) else ():
        device = observed.topology.device_name("sender-queue", sender)
        if sender.queue.parameter("maxrate"):
            configured_elsewhere.add(device)
        if not traffic.paces(sender.name):
            unpaced.add(device)
    for device, states in observed.applied.devices.items():
        if not device.startswith("sender-queue") or device in configured_elsewhere:
            continue
        applied = states[-1].pacing_bps
        configured = None if device in unpaced else traffic.pacing_bps
        if _rate_differs(applied, configured):
            yield (
                "traffic",
                f"fq of {device} held flows to {_rate_text(applied)}, configured: "
                f"{_rate_text(configured)}",
            )


@first_flow_only
def group_pacing(observed: Observed) -> Problems:
    """Checks the maximum pacing rate (SO_MAX_PACING_RATE) of the socket of each iperf3 stream
    against that of its group. Yields nothing if no probe sampled this rate.
    """
    sockets = observed.tables.sockets
    if "max_pacing_rate_bps" not in sockets.columns:
        return
    last_rates = sockets.sort("time_s").group_by(FLOW).agg(pl.col("max_pacing_rate_bps").last())
    rates_bps = by_flow(last_rates, "max_pacing_rate_bps")
    for source, group, port in grouped_streams(observed):
        if (source.host, port) in rates_bps:
            applied, configured = rates_bps[source.host, port], group.pacing_bps
            if _rate_differs(applied, configured):
                yield (
                    "traffic",
                    f"port {port} was paced at {_rate_text(applied)}, configured: "
                    f"{_rate_text(configured)}",
                )


def grouped_streams(observed: Observed) -> Iterator[tuple[Iperf3Source, Group, int]]:
    """Yields each TCP stream of iperf3: its source, its group, and its port at the sender."""
    for source, test in iperf3_reports(observed):
        if isinstance(source, Iperf3Source):
            for port, group_number in test.groups.items():
                if group_number <= len(source.groups):
                    yield source, source.groups[group_number - 1], port


def udp_rates(observed: Observed) -> Problems:
    """Checks the target rate of each UDP test (iperf3 -b), as iperf3 reports it for each stream."""
    for source, test in iperf3_reports(observed):
        if isinstance(source, UdpSource) and _differs(test.rate_bps, source.rate_bps):
            sent = f"sent {format_rate(test.rate_bps)}"
            yield _difference(source, sent, format_rate(source.rate_bps))


def http(observed: Observed) -> Problems:
    """Checks the number of http clients and of their requests, and the size of the complete
    answers.
    """
    for source, service in other_reports(observed):
        if isinstance(source, HttpSource):
            clients = min(source.parallel, source.requests)
            if service.clients != clients:
                yield _difference(source, f"had {service.clients} clients", clients)
            if service.requests != source.requests:
                yield _difference(source, f"asked {service.requests} times", source.requests)
            other_sizes = service.answers_bytes - {source.size_bytes}
            if other_sizes and other_sizes == service.answers_bytes:
                yield _difference(source, f"fetched {max(other_sizes)} bytes", source.size_bytes)


def workload(observed: Observed) -> Problems:
    """Checks that the flows of a workload had the sizes and start times that follow from the run's
    seed, and that all of them began. The flows are drawn again here, so a workload that sent
    anything else is found.
    """
    run = observed.run
    for source, service in other_reports(observed):
        if not isinstance(source, WorkloadSource):
            continue
        seconds = run.traffic.total_s - source.start_s
        seed = f"{run.seed} {source.label}"
        drawn = [
            (at_s, max(size_bytes, HEADER.size))
            for at_s, size_bytes in arrivals(source.sizes, source.offered_bps, seconds, seed)
        ]
        begun = service.flows
        if [size_bytes for _, size_bytes in drawn[: len(begun)]] != [
            size_bytes for _, _, size_bytes in begun
        ]:
            yield (
                "traffic",
                f"{source.label} sent flows whose sizes were not drawn from {source.distribution}",
            )
        elif any(
            abs(at_s - scheduled_s) > SCHEDULE_S
            for (at_s, _), (scheduled_s, _, _) in zip(drawn, begun, strict=False)
        ):
            yield (
                "traffic",
                f"{source.label} did not offer a load of {format_rate(source.offered_bps)}",
            )
        expected = sum(at_s < seconds - 2 * START_S for at_s, _ in drawn)
        if len(begun) < expected:
            yield "traffic", f"{source.label} began {len(begun)} of {expected} flows"


def service_ccas(observed: Observed) -> Problems:
    """Checks the CCA on the sockets of http and workload sources, unless it is '-', the system's
    default.
    """
    for source, service in other_reports(observed):
        if isinstance(source, HttpSource | WorkloadSource) and source.cca != DEFAULT_CCA:
            other_ccas = sorted(service.ccas - {source.cca})
            if other_ccas:
                yield (
                    "cca",
                    f"{source.label} was to run {source.cca} but ran {', '.join(other_ccas)}",
                )


def rtt_probe(observed: Observed) -> Problems:
    """Checks whether the RTT probe sent its questions (pings or SYNs) at the configured rate, and
    none if no RTT probe is configured.
    """
    probe, pings = observed.run.traffic.rtt_probe, observed.tables.series.rtt
    if probe is None:
        if not pings.is_empty():
            yield "traffic", "a probe measured the RTT, but none is configured"
        return
    if pings.height <= SAMPLES:
        yield (
            "traffic",
            f"the RTT was probed {pings.height} times in the whole run, configured: "
            f"{probe.rate_hz} times a second",
        )
        return
    median_s = pings["time_s"].sort().diff().median()
    if isinstance(median_s, float) and abs(median_s * probe.rate_hz - 1) > 0.1:
        yield (
            "traffic",
            f"the RTT was probed {1 / median_s:.4g} times a second, configured: {probe.rate_hz}",
        )


def negotiated_ecn(observed: Observed) -> Problems:
    """Checks whether the sockets negotiated ECN as configured. Sockets with DCTCP are left out,
    because this CCA always asks for ECN. Only on emulated paths.
    """
    sockets = observed.tables.sockets
    if "ecn" not in sockets.columns:
        return
    checked = sockets.filter(pl.col("ecn").is_not_null(), ~pl.col("cca").str.starts_with(NEEDS_ECN))
    configured = observed.topology.ecn
    wrong = checked.filter(pl.col("ecn") != configured)
    if not wrong.is_empty():
        port, negotiated = wrong["port"][0], "no ECN" if configured else "ECN"
        yield (
            "ecn",
            f"port {port} negotiated {negotiated}, configured: {'on' if configured else 'off'}",
        )


def cca(observed: Observed) -> Problems:
    """Checks the CCA of each flow: the configured CCA must be the one that iperf3 read from the
    socket and the one that the probe, if there is one, saw. If no CCA was configured, both must
    agree. Samples of a socket that had only sent iperf3's cookie are ignored, because iperf3 sets
    the CCA after it. DCTCP without ECN becomes 'dctcp-reno' (net/ipv4/tcp_dctcp.c).
    """
    tables, sockets_sampled = observed.tables, not observed.measurement.facts.hosts_unseen
    segments = pl.col("data_segs_out").cast(pl.Int64)
    sending = tables.sockets.filter(
        segments > (segments.max().over(FLOW) - 1).clip(0, COOKIE_SEGMENTS)
    )
    seen_ccas = sending.group_by(FLOW).agg(pl.col("cca").unique())
    for flow in tables.flows.join(seen_ccas, on=FLOW, how="left").iter_rows(named=True):
        seen_by_probe = {cca or "one that ss names differently" for cca in flow["cca"] or ()}
        if flow["cca_asked"] in (None, DEFAULT_CCA):
            known = {cca for cca in flow["cca"] or () if cca}
            used = known | ({flow["cca_used"]} if flow["cca_used"] and known else set())
            if len(used) > 1:
                yield "cca", f"port {flow['port']} ran {', '.join(sorted(used))}"
            continue
        if not sockets_sampled:
            used = {flow["cca_used"] or flow["cca_asked"]}
        else:
            used = {flow["cca_used"], *(seen_by_probe or ("none that the probe saw",))}
        if used != {flow["cca_asked"]}:
            yield (
                "cca",
                f"port {flow['port']} was to run {flow['cca_asked']} but ran "
                f"{', '.join(map(str, used))}",
            )


def _rate_text(rate_bps: float | None) -> str:
    """Formats a rate for messages; None is 'no rate'."""
    return "no rate" if rate_bps is None else format_rate(rate_bps)
