"""Compares each field of a configured traffic with the reports of its programs, their sockets and
the probes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.analysis.counters import root_qdisc
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import measured
from ccmix.analysis.reports import Iperf3TestReport, ServiceReport
from ccmix.analysis.tables import NO_DATA_BYTES, RunTables
from ccmix.analysis.validity.applied import Limits, Observed, first_of_flows
from ccmix.conditions.layout import BOTTLENECK
from ccmix.generators.distributions import arrivals
from ccmix.generators.workload_ends import HEADER
from ccmix.model import (
    CommandSource,
    Group,
    HttpSource,
    Iperf3Source,
    Loss,
    Run,
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
START_ROUND_TRIPS = 4  # by which ccmix's estimate of the handshakes before the traffic may be wrong
FIFOS = (
    "bfifo",
    "pfifo",
    "pfifo_head_drop",
)  # they drop a packet of a handshake only if they are full
LOST_SYN_S = 1.2  # the first timeout of a handshake
LEAST_LOST, MOST_LOST = (
    2,
    12,
)  # segments of a handshake in a row, one of each stream: 1 s, 2 s, 4 s, ... (RFC 6298)
LOST_SHARE = 1e-5  # of runs in which more may be lost
ENOUGH_SAMPLES = 5  # for their median distance, since the last sample is not on the grid
SAMPLES = 2  # between which a first sample may lie
SCHEDULE_S = 0.05  # by which a workload's flow may begin late
NEEDS_ECN = (
    "dctcp"  # asks for ECN regardless of the sysctl, also as dctcp-reno (TCP_CONG_NEEDS_ECN)
)

COOKIE_SEGMENTS = 1  # of a connection's cookie, which iperf3 sends before it sets the CCA
LEAST_DRAWN_S = 1e-6  # the unit in which iperf3 and the draw count


def _tests(observed: Observed) -> Iterator[tuple[Iperf3Source | UdpSource, Iperf3TestReport]]:
    for source in observed.run.traffic.sources:
        if isinstance(source, Iperf3Source | UdpSource) and source.label in observed.tables.tests:
            yield source, observed.tables.tests[source.label]


def _services(observed: Observed) -> Iterator[tuple[TrafficSource, ServiceReport]]:
    for source in observed.run.traffic.sources:
        if source.label in observed.tables.services:
            yield source, observed.tables.services[source.label]


def sources(observed: Observed) -> Limits:
    """Compares names, hosts and kinds: each source, and nothing else, left a report, with the right
    protocol.
    """
    tables = observed.tables
    labels = {source.label: source for source in observed.run.traffic.sources}
    for label in sorted({*tables.tests, *tables.services} - set(labels)):
        yield "traffic", f"{label} made traffic, but is not configured"
    for label, source in labels.items():
        if label in tables.tests:
            protocol, configured = (
                tables.tests[label].protocol,
                "UDP" if isinstance(source, UdpSource) else "TCP",
            )
            if protocol != configured or not isinstance(source, Iperf3Source | UdpSource):
                yield (
                    "traffic",
                    f"iperf3 reports {protocol} for {label}, configured is {source.kind}",
                )
        elif isinstance(source, Iperf3Source | UdpSource) and isinstance(
            observed.run.path, Topology
        ):
            yield "traffic", f"iperf3 reports no test of {label}"


def streams(observed: Observed) -> Limits:
    for source, test in _tests(observed):
        if test.streams != source.streams:
            yield _differs(source, f"had {test.streams} streams", source.streams)


def groups(observed: Observed) -> Limits:
    """Compares the number of streams of each group, which follows from its weight and its place."""
    for source, test in _tests(observed):
        if (
            not isinstance(source, Iperf3Source)
            or len(source.groups) == 1
            or test.streams != source.streams
        ):
            continue
        seen = Counter(test.groups.values())
        for number, configured in enumerate(
            streams_of_groups(source.groups, source.streams), start=1
        ):
            if seen[number] != configured:
                yield (
                    "traffic",
                    f"group {number} of {source.label} had {seen[number]} streams, configured "
                    f"are {configured}",
                )


def duration(observed: Observed) -> Limits:
    """Compares the duration that iperf3 was asked for, and the one that its timer counted.

    A run that ends when it has settled asks iperf3 for the maximum duration, and is ended after its
    measured time.
    """
    traffic = observed.run.traffic
    for source, test in _tests(observed):
        configured_s = round(traffic.at_the_limit.of_source(source).measured_s)
        if test.duration_s != configured_s:
            lasts = f"was to last {format_time(test.duration_s)}"
            yield _differs(source, lasts, format_time(configured_s))
            continue
        until_s = round(traffic.of_source(source).measured_s)
        if (
            test.lasted_s is not None
            and abs(test.lasted_s - until_s) > LASTED_S + LASTED_FRACTION * until_s
        ):
            was_to = "configured are" if until_s == configured_s else "it had settled after"
            yield (
                "traffic",
                f"{source.label} lasted {format_time(test.lasted_s)}, {was_to} "
                f"{format_time(until_s)}",
            )


def omit(observed: Observed) -> Limits:
    for source, test in _tests(observed):
        configured_s = round(observed.run.traffic.of_source(source).omit_s)
        if test.omit_s != configured_s:
            yield _differs(source, f"omitted {format_time(test.omit_s)}", format_time(configured_s))


def interval(observed: Observed) -> Limits:
    """Compares the interval that iperf3 reports, and the time between the probe's samples."""
    traffic = observed.run.traffic
    for source, test in _tests(observed):
        if test.interval_s is not None and _off(test.interval_s, traffic.goodput_interval_s):
            reported = f"reported each {format_time(test.interval_s)}"
            yield _differs(source, reported, format_time(traffic.goodput_interval_s))
    if (
        isinstance(observed.run.path, Topology)
        and observed.tables.bottleneck.height > ENOUGH_SAMPLES
    ):
        samples = measured(
            observed.run, observed.tables.bottleneck
        )  # before, some are not on the grid
        apart_s = samples["time_s"].sort().diff().median()
        if isinstance(apart_s, float) and _off(apart_s, traffic.interval_s, 0.1):
            yield (
                "traffic",
                f"queues were sampled each {format_time(round(apart_s, 6))}, "
                f"configured are {format_time(traffic.interval_s)}",
            )


def _off(seen: float, configured: float, share: float = RATE_FRACTION) -> bool:
    """Returns whether a value differs from the configured one by more than a share of the
    latter.
    """
    return abs(seen - configured) > share * configured


def _rate_off(applied: float | None, configured: float | None) -> bool:
    if applied is None or configured is None:
        return applied is not configured
    return _off(applied, configured)


def _differs(source: TrafficSource, seen: str, configured: object) -> tuple[str, str]:
    return "traffic", f"{source.label} {seen}, configured are {configured}"


def pacing(observed: Observed) -> Limits:
    """Compares fq's maxrate on each sending device, unless it is a parameter of the configured
    queue, which path_fields.sender_queues() compares.
    """
    traffic_asked, path = observed.run.traffic, observed.run.path
    own, unpaced = set[str](), set[str]()
    for sender in path.senders if isinstance(path, Topology) else ():
        device = observed.topology.device_name("sender-queue", sender)
        if sender.queue.parameter("maxrate"):
            own.add(device)
        if not traffic_asked.paces(sender.name):
            unpaced.add(device)
    for device, states in observed.applied.devices.items():
        if not device.startswith("sender-queue") or device in own:
            continue
        applied, configured = (
            states[-1].pacing_bps,
            None if device in unpaced else traffic_asked.pacing_bps,
        )
        if _rate_off(applied, configured):
            yield (
                "traffic",
                f"fq of {device} held flows to {_rate(applied)}, configured is {_rate(configured)}",
            )


def group_pacing(observed: Observed) -> Limits:
    """Compares the maximum pacing rate of each socket (SO_MAX_PACING_RATE)."""
    yield from first_of_flows(_paced_otherwise(observed))


def _paced_otherwise(observed: Observed) -> Limits:
    sockets = observed.tables.sockets
    if "max_pacing_rate_bps" not in sockets.columns:
        return
    last = sockets.sort("time_s").group_by(FLOW).agg(pl.col("max_pacing_rate_bps").last())
    seen = {
        (host, port): rate
        for host, port, rate in last.select(*FLOW, "max_pacing_rate_bps").iter_rows()
    }
    for source, group, port in _streams(observed):
        if (source.host, port) in seen:
            applied, configured = seen[source.host, port], group.pacing_bps
            if _rate_off(applied, configured):
                yield (
                    "traffic",
                    f"port {port} was paced at {_rate(applied)}, configured is {_rate(configured)}",
                )


def _streams(observed: Observed) -> Iterator[tuple[Iperf3Source, Group, int]]:
    """Yields the streams of iperf3's tests with the groups that iperf3 reports for them."""
    for source, test in _tests(observed):
        if isinstance(source, Iperf3Source):
            for port, number in test.groups.items():
                if number <= len(source.groups):
                    yield source, source.groups[number - 1], port


def _first_s(observed: Observed) -> dict[tuple[str, int], float]:
    """Returns the time of each flow's first sample after it had sent data, as in the tables."""
    sending = observed.tables.sockets.filter(pl.col("bytes_sent") > NO_DATA_BYTES)
    first = sending.group_by(FLOW).agg(pl.col("time_s").min())
    return {(host, port): time_s for host, port, time_s in first.iter_rows()}


def starts(observed: Observed) -> Limits:
    """Compares when each stream, and each other source, sent its first data."""
    began_s = observed.measurement.began_s
    if began_s is None or not isinstance(observed.run.path, Topology):
        return
    zero_s = began_s - observed.tables.began_s  # of the tables' time
    first_s = _first_s(observed)
    yield from first_of_flows(
        limit
        for source, group, port in _streams(observed)
        if (source.host, port) in first_s
        for limit in _start(
            observed,
            source,
            f"port {port}",
            first_s[source.host, port] - zero_s,
            source.start_s + group.delay_s,
        )
    )
    for udp, test in _tests(observed):
        if isinstance(udp, UdpSource) and test.connected_s is not None:
            yield from _start(observed, udp, udp.label, test.connected_s - began_s, udp.start_s)
    for other, service in _services(observed):
        if service.first_s is not None and not isinstance(other, CommandSource):
            yield from _start(
                observed, other, other.label, service.first_s - began_s, other.start_s
            )


def _start(
    observed: Observed, source: TrafficSource, name: str, seen_s: float, configured_s: float
) -> Limits:
    topology = observed.topology
    sender = next((sender for sender in topology.senders if sender.name == source.host), None)
    if sender is None:
        return
    phases = [phase for _, phase in topology.phases]
    round_trips_s = START_ROUND_TRIPS * max(phase.longest_rtt_s for phase in phases)
    losses = [
        own.loss
        for phase in phases
        for own in phase.senders
        if own.name == sender.name and own.loss
    ]
    late_s = START_S + round_trips_s + SAMPLES * observed.run.traffic.interval_s
    if losses or (topology.queue.kind not in FIFOS and _dropped_before(observed, seen_s)):
        late_s += lost_handshakes_s(
            losses, source.streams if isinstance(source, Iperf3Source) else 1
        )
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
            f"{name} began after {format_time(round(seen_s, 3))}, configured are "
            f"{format_time(configured_s)}",
        )


def lost_handshakes_s(losses: Sequence[Loss], streams: int) -> float:
    """Returns by how much the losses of a path may delay the handshakes of `streams` streams."""
    lost = LEAST_LOST
    while lost < MOST_LOST and any(
        streams * loss.all_lost(lost + 1) > LOST_SHARE for loss in losses
    ):
        lost += 1
    return 2.0**lost - 0.5


def _dropped_before(observed: Observed, seconds: float) -> bool:
    """Returns whether the bottleneck dropped packets in the first seconds of the traffic: RED may
    have dropped any packet.
    """
    counted = root_qdisc(observed.measurement.before.qdiscs[BOTTLENECK]).drops
    zero_s = (observed.measurement.began_s or 0.0) - observed.tables.began_s
    until = observed.tables.bottleneck.filter(pl.col("time_s") - zero_s <= seconds)
    return until.filter(pl.col("drops") > counted).height > 0


def relative_starts(observed: Observed) -> Limits:
    """Compares the starts of the streams of one test with each other, since only its client
    controls them.
    """
    yield from first_of_flows(_started_otherwise(observed))


def _started_otherwise(observed: Observed) -> Limits:
    first_s = _first_s(observed)
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
            # The maximum; drawn_starts() compares the actual value
            drawn_s = observed.topology.base_rtt_s if observed.run.spread else 0.0
            if (
                abs(apart_s - configured_s)
                > START_S + drawn_s + SAMPLES * observed.run.traffic.interval_s
            ):
                yield (
                    "traffic",
                    f"port {port} began {format_time(round(apart_s, 3))} after the first, "
                    f"configured are {format_time(configured_s)}",
                )


def udp_rates(observed: Observed) -> Limits:
    for source, test in _tests(observed):
        if isinstance(source, UdpSource) and _off(test.rate_bps, source.rate_bps):
            sent = f"sent {format_rate(test.rate_bps)}"
            yield _differs(source, sent, format_rate(source.rate_bps))


def http(observed: Observed) -> Limits:
    """Compares the clients' files, the requests that they were asked for, and the complete
    answers.
    """
    for source, service in _services(observed):
        if isinstance(source, HttpSource):
            clients = min(source.parallel, source.requests)
            if service.clients != clients:
                yield _differs(source, f"had {service.clients} clients", clients)
            if service.requests != source.requests:
                yield _differs(source, f"asked {service.requests} times", source.requests)
            others = service.answers_bytes - {source.size_bytes}
            if others and others == service.answers_bytes:
                yield _differs(source, f"fetched {max(others)} bytes", source.size_bytes)


def workload(observed: Observed) -> Limits:
    """Compares the flows that began with those that the seed draws for the configured sizes and
    load.
    """
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
        due = sum(at_s < seconds - 2 * START_S for at_s, _ in drawn)
        if len(begun) < due:
            yield "traffic", f"{source.label} began {len(begun)} of {due} flows"


def service_ccas(observed: Observed) -> Limits:
    for source, service in _services(observed):
        if isinstance(source, HttpSource | WorkloadSource) and source.cca != DEFAULT_CCA:
            others = sorted(service.ccas - {source.cca})
            if others:
                yield "cca", f"{source.label} was to run {source.cca} but ran {', '.join(others)}"


def rtt_probe(observed: Observed) -> Limits:
    """Compares whether there were questions, and how many a second."""
    probe, asked = observed.run.traffic.rtt_probe, observed.tables.series.rtt
    if probe is None:
        if not asked.is_empty():
            yield "traffic", "questions measured the RTT, but none are configured"
        return
    if asked.height <= SAMPLES:
        yield (
            "traffic",
            f"{asked.height} questions measured the RTT, configured are {probe.rate_hz} a second",
        )
        return
    times = asked["time_s"].sort().diff()
    apart_s = times.median()
    if isinstance(apart_s, float) and abs(apart_s * probe.rate_hz - 1) > 0.1:
        yield (
            "traffic",
            f"{1 / apart_s:.4g} questions a second measured the RTT, configured are "
            f"{probe.rate_hz}",
        )


def negotiated_ecn(observed: Observed) -> Limits:
    """Compares the ECN that the sockets negotiated; a CCA that needs ECN always asks for it."""
    sockets = observed.tables.sockets
    if not isinstance(observed.run.path, Topology) or "ecn" not in sockets.columns:
        return
    own = sockets.filter(pl.col("ecn").is_not_null(), ~pl.col("cca").str.starts_with(NEEDS_ECN))
    configured = observed.topology.ecn
    wrong = own.filter(pl.col("ecn") != configured)
    if not wrong.is_empty():
        port, did = wrong["port"][0], "no ECN" if configured else "ECN"
        yield "ecn", f"port {port} negotiated {did}, configured is {'on' if configured else 'off'}"


def cca(observed: Observed) -> Limits:
    """Reports flows for which these CCAs differ: the one that was asked for, the one that iperf3
    read from the socket, and the one that the probe saw.

    If no probe could look, compares the CCA that the generator read, if any. If no CCA was asked
    for, compares only the CCAs that iperf3 read and the probe saw, on a socket that sends more than
    its cookie. DCTCP without ECN becomes 'dctcp-reno' (net/ipv4/tcp_dctcp.c).
    """
    tables, looked = observed.tables, not observed.measurement.facts.hosts_unseen
    segments = pl.col("data_segs_out").cast(pl.Int64)
    sending = tables.sockets.filter(
        segments > (segments.max().over(FLOW) - 1).clip(0, COOKIE_SEGMENTS)
    )
    seen = sending.group_by(FLOW).agg(pl.col("cca").unique())
    for flow in tables.flows.join(seen, on=FLOW, how="left").iter_rows(named=True):
        seen_outside = {cca or "one that ss names differently" for cca in flow["cca"] or ()}
        if flow["cca_asked"] in (None, DEFAULT_CCA):
            known = {cca for cca in flow["cca"] or () if cca}
            used = known | ({flow["cca_used"]} if flow["cca_used"] and known else set())
            if len(used) > 1:
                yield "cca", f"port {flow['port']} ran {', '.join(sorted(used))}"
            continue
        if not looked:
            used = {flow["cca_used"] or flow["cca_asked"]}
        else:
            used = {flow["cca_used"], *(seen_outside or ("none that the probe saw",))}
        if used != {flow["cca_asked"]}:
            yield (
                "cca",
                f"port {flow['port']} was to run {flow['cca_asked']} but ran "
                f"{', '.join(map(str, used))}",
            )


def drawn_starts(observed: Observed) -> Limits:
    yield from first_of_flows(_drawn_otherwise(observed.tables))


def _drawn_otherwise(tables: RunTables) -> Limits:
    """Reports streams that iperf3 did not start at the time that the run had drawn from its
    seed.
    """
    unlike = tables.starts.filter((pl.col("asked_s") - pl.col("used_s")).abs() > LEAST_DRAWN_S / 2)
    for flow in unlike.iter_rows(named=True):
        used, asked = (format_time(flow[name]) for name in ("used_s", "asked_s"))
        yield "spread", f"port {flow['port']} started {used} after its group, drawn were {asked}"


def flows_with_samples(run: Run, tables: RunTables) -> int:
    return measured(run, tables.sockets).group_by(FLOW).len().filter(pl.col("len") > 1).height


def _rate(rate_bps: float | None) -> str:
    return "no rate" if rate_bps is None else format_rate(rate_bps)
