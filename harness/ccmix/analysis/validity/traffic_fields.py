"""Compares each field of a configured traffic with what its programs, their sockets and the probes report."""

from collections import Counter
from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import measured
from ccmix.analysis.qdiscs import root_qdisc
from ccmix.analysis.reports import Iperf3TestReport, ServiceReport
from ccmix.analysis.tables import NO_DATA_BYTES
from ccmix.analysis.validity import traffic
from ccmix.analysis.validity.applied import applied_path
from ccmix.analysis.validity.comparison import Limits, Observed, first_of_flows
from ccmix.conditions.layout import BOTTLENECK
from ccmix.generators.distributions import arrivals
from ccmix.generators.workload_ends import HEADER
from ccmix.model import (
    CommandSource,
    Group,
    HttpSource,
    Iperf3Source,
    Loss,
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
START_ROUND_TRIPS = 4  # by which ccmix's guess of what precedes the traffic, its handshakes, may be wrong
FIFOS = ("bfifo", "pfifo", "pfifo_head_drop")  # which drop a packet of a handshake only while they are full
LOST_SYN_S = 1.2  # the first timeout of a handshake
LEAST_LOST, MOST_LOST = 2, 12  # segments of a handshake in a row, one of each stream: 1 s, 2 s, 4 s, ... (RFC 6298)
LOST_SHARE = 1e-5  # of runs in which more may be lost
ENOUGH_SAMPLES = 5  # for their median distance, which the last one is not at
SAMPLES = 2  # between which a first sample may lie
SCHEDULE_S = 0.05  # by which a workload's flow may begin late
NEEDS_ECN = "dctcp"  # asks for ECN whatever the sysctl says, also as dctcp-reno (TCP_CONG_NEEDS_ECN)


def _tests(observed: Observed) -> Iterator[tuple[Iperf3Source | UdpSource, Iperf3TestReport]]:
    for source in observed.run.traffic.sources:
        if isinstance(source, Iperf3Source | UdpSource) and source.label in observed.tables.tests:
            yield source, observed.tables.tests[source.label]


def _services(observed: Observed) -> Iterator[tuple[TrafficSource, ServiceReport]]:
    for source in observed.run.traffic.sources:
        if source.label in observed.tables.services:
            yield source, observed.tables.services[source.label]


def sources(observed: Observed) -> Limits:
    """Compares names, hosts and kinds: each source left a report, of its own protocol, and no other did."""
    tables = observed.tables
    labels = {source.label: source for source in observed.run.traffic.sources}
    for label in sorted({*tables.tests, *tables.services} - set(labels)):
        yield "traffic", f"{label} made traffic, and is not configured"
    for label, source in labels.items():
        if label in tables.tests:
            protocol, configured = tables.tests[label].protocol, "UDP" if isinstance(source, UdpSource) else "TCP"
            if protocol != configured or not isinstance(source, Iperf3Source | UdpSource):
                yield "traffic", f"{label} was {protocol} by iperf3, configured is {source.kind}"
        elif isinstance(source, Iperf3Source | UdpSource) and isinstance(observed.run.path, Topology):
            yield "traffic", f"iperf3 reports no test of {label}"


def streams(observed: Observed) -> Limits:
    for source, test in _tests(observed):
        if test.streams != source.streams:
            yield "traffic", f"{source.label} had {test.streams} streams, configured are {source.streams}"


def groups(observed: Observed) -> Limits:
    """Compares how many streams each group got, by its number: so by its weight and its place."""
    for source, test in _tests(observed):
        if not isinstance(source, Iperf3Source) or len(source.groups) == 1 or test.streams != source.streams:
            continue
        seen = Counter(test.groups.values())
        for number, configured in enumerate(streams_of_groups(source.groups, source.streams), start=1):
            if seen[number] != configured:
                yield (
                    "traffic",
                    f"group {number} of {source.label} had {seen[number]} streams, configured are {configured}",
                )


def duration(observed: Observed) -> Limits:
    """Compares what iperf3 was asked for, and what its timer counted.

    A run that ends when it has settled asks for its limit, and is ended after the time that it measures.
    """
    traffic = observed.run.traffic
    for source, test in _tests(observed):
        configured_s = round(traffic.at_the_limit.of_source(source).measured_s)
        if test.duration_s != configured_s:
            yield (
                "traffic",
                f"{source.label} was to last {format_time(test.duration_s)}, "
                f"configured are {format_time(configured_s)}",
            )
            continue
        until_s = round(traffic.of_source(source).measured_s)
        if test.lasted_s is not None and abs(test.lasted_s - until_s) > LASTED_S + LASTED_FRACTION * until_s:
            was_to = "configured are" if until_s == configured_s else "it had settled after"
            yield "traffic", f"{source.label} lasted {format_time(test.lasted_s)}, {was_to} {format_time(until_s)}"


def omit(observed: Observed) -> Limits:
    for source, test in _tests(observed):
        configured_s = round(observed.run.traffic.of_source(source).omit_s)
        if test.omit_s != configured_s:
            yield (
                "traffic",
                f"{source.label} omitted {format_time(test.omit_s)}, configured are {format_time(configured_s)}",
            )


def interval(observed: Observed) -> Limits:
    """Compares what iperf3 reports, and the distance of the probe's samples."""
    traffic = observed.run.traffic
    for source, test in _tests(observed):
        if test.interval_s is not None and _off(test.interval_s, traffic.goodput_interval_s, RATE_FRACTION):
            yield (
                "traffic",
                f"{source.label} reported each {format_time(test.interval_s)}, "
                f"configured are {format_time(traffic.goodput_interval_s)}",
            )
    if isinstance(observed.run.path, Topology) and observed.tables.bottleneck.height > ENOUGH_SAMPLES:
        samples = measured(observed.run, observed.tables.bottleneck)  # before, some are not on the grid
        apart_s = samples["time_s"].sort().diff().median()
        if isinstance(apart_s, float) and _off(apart_s, traffic.interval_s, 0.1):
            yield (
                "traffic",
                f"queues were sampled each {format_time(round(apart_s, 6))}, "
                f"configured are {format_time(traffic.interval_s)}",
            )


def _off(seen: float, configured: float, share: float) -> bool:
    """Returns whether a value differs from the configured one by more than this share of that."""
    return abs(seen - configured) > share * configured


def pacing(observed: Observed) -> Limits:
    """Compares fq's maxrate on each sending device; path_fields.sender_queues() does where it is the queue's own."""
    traffic_asked, path = observed.run.traffic, observed.run.path
    own, unpaced = set[str](), set[str]()
    for sender in path.senders if isinstance(path, Topology) else ():
        device = observed.run.topology.device_name("sender-queue", sender)
        if sender.queue.parameter("maxrate"):
            own.add(device)
        if not traffic_asked.paces(sender.name):
            unpaced.add(device)
    for device, states in applied_path(observed.measurement).devices.items():
        if not device.startswith("sender-queue") or device in own:
            continue
        applied, configured = states[-1].pacing_bps, None if device in unpaced else traffic_asked.pacing_bps
        if (applied is None) != (configured is None) or (
            applied is not None and configured is not None and abs(applied - configured) > RATE_FRACTION * configured
        ):
            yield "traffic", f"fq of {device} held flows to {_rate(applied)}, configured is {_rate(configured)}"


def group_pacing(observed: Observed) -> Limits:
    """Compares the largest pacing rate that each socket had (SO_MAX_PACING_RATE)."""
    yield from first_of_flows(_paced_otherwise(observed))


def _paced_otherwise(observed: Observed) -> Limits:
    sockets = observed.tables.sockets
    if "max_pacing_rate_bps" not in sockets.columns:
        return
    last = sockets.sort("time_s").group_by(FLOW).agg(pl.col("max_pacing_rate_bps").last())
    seen = {(host, port): rate for host, port, rate in last.select(*FLOW, "max_pacing_rate_bps").iter_rows()}
    for source, group, port in _streams(observed):
        if (source.host, port) in seen:
            applied, configured = seen[source.host, port], group.pacing_bps
            if (applied is None) != (configured is None) or (
                applied is not None
                and configured is not None
                and abs(applied - configured) > RATE_FRACTION * configured
            ):
                yield "traffic", f"port {port} was paced at {_rate(applied)}, configured is {_rate(configured)}"


def _streams(observed: Observed) -> Iterator[tuple[Iperf3Source, Group, int]]:
    """Yields the streams of iperf3's tests with the groups that iperf3 says they belong to."""
    for source, test in _tests(observed):
        if isinstance(source, Iperf3Source):
            for port, number in test.groups.items():
                if number <= len(source.groups):
                    yield source, source.groups[number - 1], port


def starts(observed: Observed) -> Limits:
    """Compares when the first data of each stream, and of each other source, was sent."""
    began_s = observed.measurement.began_s
    if began_s is None or not isinstance(observed.run.path, Topology):
        return
    zero_s = began_s - observed.tables.began_s  # of the tables' time
    sending = observed.tables.sockets.filter(pl.col("bytes_sent") > NO_DATA_BYTES)
    first = sending.group_by(FLOW).agg(pl.col("time_s").min())
    first_s = {(host, port): time_s - zero_s for host, port, time_s in first.select(*FLOW, "time_s").iter_rows()}
    yield from first_of_flows(
        limit
        for source, group, port in _streams(observed)
        if (source.host, port) in first_s
        for limit in _start(
            observed, source, f"port {port}", first_s[source.host, port], source.start_s + group.delay_s
        )
    )
    for udp, test in _tests(observed):
        if isinstance(udp, UdpSource) and test.connected_s is not None:
            yield from _start(observed, udp, udp.label, test.connected_s - began_s, udp.start_s)
    for other, service in _services(observed):
        if service.first_s is not None and not isinstance(other, CommandSource):
            yield from _start(observed, other, other.label, service.first_s - began_s, other.start_s)


def _start(observed: Observed, source: TrafficSource, name: str, seen_s: float, configured_s: float) -> Limits:
    topology = observed.run.topology
    sender = next((sender for sender in topology.senders if sender.name == source.host), None)
    if sender is None:
        return
    phases = [phase for _, phase in topology.phases]
    round_trips_s = START_ROUND_TRIPS * max(phase.longest_rtt_s for phase in phases)
    losses = [own.loss for phase in phases for own in phase.senders if own.name == sender.name and own.loss]
    late_s = START_S + round_trips_s + SAMPLES * observed.run.traffic.interval_s
    if losses or (topology.queue.kind not in FIFOS and _dropped_before(observed, seen_s)):
        late_s += lost_handshakes_s(losses, source.streams if isinstance(source, Iperf3Source) else 1)
    elif _dropped_before(observed, seen_s):
        late_s += LOST_SYN_S
    early_s = START_S + round_trips_s
    if isinstance(source, WorkloadSource):
        late_s = float("inf")  # its first flow is drawn, and compared with its schedule
    if isinstance(source, UdpSource):
        early_s += 6 * round_trips_s  # its control connection comes before
    if not -early_s <= seen_s - configured_s <= late_s:
        yield (
            "traffic",
            f"{name} began after {format_time(round(seen_s, 3))}, configured are {format_time(configured_s)}",
        )


def lost_handshakes_s(losses: Sequence[Loss], streams: int) -> float:
    """Returns by how much the losses of a path may delay the handshakes of so many streams."""
    lost = LEAST_LOST
    while lost < MOST_LOST and any(streams * loss.all_lost(lost + 1) > LOST_SHARE for loss in losses):
        lost += 1
    return 2.0**lost - 0.5


def _dropped_before(observed: Observed, seconds: float) -> bool:
    """Returns whether the bottleneck dropped packets in the first seconds of the traffic, as RED may any of them."""
    counted = root_qdisc(observed.measurement.before.qdiscs[BOTTLENECK]).drops
    zero_s = (observed.measurement.began_s or 0.0) - observed.tables.began_s
    until = observed.tables.bottleneck.filter(pl.col("time_s") - zero_s <= seconds)
    return until.filter(pl.col("drops") > counted).height > 0


def relative_starts(observed: Observed) -> Limits:
    """Compares the streams of one test with each other, which begin at moments that its client keeps by itself."""
    yield from first_of_flows(_started_otherwise(observed))


def _started_otherwise(observed: Observed) -> Limits:
    sending = observed.tables.sockets.filter(pl.col("bytes_sent") > NO_DATA_BYTES)
    first = sending.group_by(FLOW).agg(pl.col("time_s").min())
    first_s = {(host, port): time_s for host, port, time_s in first.select(*FLOW, "time_s").iter_rows()}
    for label in dict.fromkeys(source.label for source, _, _ in _streams(observed)):
        own = [
            (port, first_s[source.host, port], group.delay_s)
            for source, group, port in _streams(observed)
            if source.label == label and (source.host, port) in first_s
        ]
        if not own:
            continue
        _, zero_s, zero_delay_s = min(own, key=lambda stream: stream[1])
        for port, seen_s, delay_s in own:
            apart_s, configured_s = seen_s - zero_s, delay_s - zero_delay_s
            # At most; drawn_starts() compares what it was
            drawn_s = observed.run.topology.base_rtt_s if observed.run.spread else 0.0
            if abs(apart_s - configured_s) > START_S + drawn_s + SAMPLES * observed.run.traffic.interval_s:
                yield (
                    "traffic",
                    f"port {port} began {format_time(round(apart_s, 3))} after the first, "
                    f"configured are {format_time(configured_s)}",
                )


def udp_rates(observed: Observed) -> Limits:
    for source, test in _tests(observed):
        if isinstance(source, UdpSource) and abs(test.rate_bps - source.rate_bps) > RATE_FRACTION * source.rate_bps:
            yield (
                "traffic",
                f"{source.label} sent {format_rate(test.rate_bps)}, configured are {format_rate(source.rate_bps)}",
            )


def http(observed: Observed) -> Limits:
    """Compares the clients' files, what they were asked to fetch, and what came whole."""
    for source, service in _services(observed):
        if not isinstance(source, HttpSource):
            continue
        clients = min(source.parallel, source.requests)
        if service.clients != clients:
            yield "traffic", f"{source.label} had {service.clients} clients, configured are {clients}"
        if service.requests != source.requests:
            yield "traffic", f"{source.label} asked {service.requests} times, configured are {source.requests}"
        others = {size for size in service.answers_bytes if size != source.size_bytes}
        if others and source.size_bytes not in service.answers_bytes:
            yield "traffic", f"{source.label} fetched {max(others)} bytes, configured are {source.size_bytes}"


def workload(observed: Observed) -> Limits:
    """Compares the flows that began with those that the seed draws from the configured sizes and load."""
    run = observed.run
    for source, service in _services(observed):
        if not isinstance(source, WorkloadSource):
            continue
        seconds = run.traffic.total_s - source.start_s
        seed = f"{run.seed} {source.label}"
        drawn = [
            (at_s, max(size_bytes, HEADER.size))
            for at_s, size_bytes in arrivals(source.sizes, source.offered_bps, seconds, seed)
        ]
        begun = service.flows
        if [size_bytes for _, size_bytes in drawn[: len(begun)]] != [size_bytes for _, _, size_bytes in begun]:
            yield "traffic", f"{source.label} sent flows of other sizes than {source.distribution} has"
        elif any(
            abs(at_s - scheduled_s) > SCHEDULE_S for (at_s, _), (scheduled_s, _, _) in zip(drawn, begun, strict=False)
        ):
            yield "traffic", f"{source.label} offered another load than {format_rate(source.offered_bps)}"
        due = sum(at_s < seconds - 2 * START_S for at_s, _ in drawn)
        if len(begun) < due:
            yield "traffic", f"{source.label} began {len(begun)} of {due} flows"


def service_ccas(observed: Observed) -> Limits:
    for source, service in _services(observed):
        if isinstance(source, HttpSource | WorkloadSource) and source.cca != DEFAULT_CCA:
            others = sorted(service.ccas - {source.cca})
            if others:
                yield "cca", f"{source.label} was to run {source.cca} and ran {', '.join(others)}"


def rtt_probe(observed: Observed) -> Limits:
    """Compares that there were questions, and how many a second."""
    probe, asked = observed.run.traffic.rtt_probe, observed.tables.series.rtt
    if probe is None:
        if not asked.is_empty():
            yield "traffic", "questions measured the RTT, and none are configured"
        return
    if asked.height <= SAMPLES:
        yield "traffic", f"{asked.height} questions measured the RTT, configured are {probe.rate_hz} a second"
        return
    times = asked["time_s"].sort().diff()
    apart_s = times.median()
    if isinstance(apart_s, float) and abs(apart_s * probe.rate_hz - 1) > 0.1:
        yield "traffic", f"{1 / apart_s:.4g} questions a second measured the RTT, configured are {probe.rate_hz}"


def negotiated_ecn(observed: Observed) -> Limits:
    """Compares what the sockets negotiated; a CCA that needs ECN asks for it in any case."""
    sockets = observed.tables.sockets
    if not isinstance(observed.run.path, Topology) or "ecn" not in sockets.columns:
        return
    own = sockets.filter(pl.col("ecn").is_not_null(), ~pl.col("cca").str.starts_with(NEEDS_ECN))
    configured = observed.run.topology.ecn
    wrong = own.filter(pl.col("ecn") != configured)
    if not wrong.is_empty():
        port, did = wrong["port"][0], "no ECN" if configured else "ECN"
        yield "ecn", f"port {port} negotiated {did}, configured is {'on' if configured else 'off'}"


def cca(observed: Observed) -> Limits:
    yield from traffic.cca(observed.tables, looked=not observed.measurement.facts.hosts_unseen)


def drawn_starts(observed: Observed) -> Limits:
    yield from first_of_flows(traffic.drawn_starts(observed.tables))


def _rate(rate_bps: float | None) -> str:
    return "no rate" if rate_bps is None else format_rate(rate_bps)
