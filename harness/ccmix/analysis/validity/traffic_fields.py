"""Checks the configured traffic against the reports of its programs, sockets and probes."""

from collections import Counter
from collections.abc import Iterator, Sequence

import polars as pl

from ccmix.analysis.counters import root_qdisc
from ccmix.analysis.iperf3_tables import FLOW
from ccmix.analysis.measured import measured
from ccmix.analysis.reports import Iperf3TestReport, ServiceReport
from ccmix.analysis.tables import NO_DATA_BYTES, RunTables
from ccmix.analysis.validity.applied import Observed, Problems, first_of_flows
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


def _iperf3_reports(
    observed: Observed,
) -> Iterator[tuple[Iperf3Source | UdpSource, Iperf3TestReport]]:
    """Yields each configured iperf3 source (TCP or UDP) with iperf3's own report about it. A source
    without a report is skipped: sources() reports it.
    """
    for source in observed.run.traffic.sources:
        if isinstance(source, Iperf3Source | UdpSource) and source.label in observed.tables.tests:
            yield source, observed.tables.tests[source.label]


def _other_reports(observed: Observed) -> Iterator[tuple[TrafficSource, ServiceReport]]:
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
            protocol, configured = (
                tables.tests[label].protocol,
                "UDP" if isinstance(source, UdpSource) else "TCP",
            )
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
    for source, test in _iperf3_reports(observed):
        if test.streams != source.streams:
            yield _difference(source, f"had {test.streams} streams", source.streams)


def groups(observed: Observed) -> Problems:
    """Checks how many streams of an iperf3 test each group got, where a group is the streams of one
    CCA. The configured number follows from the groups' weights and their order.
    """
    for source, test in _iperf3_reports(observed):
        if (
            not isinstance(source, Iperf3Source)
            or len(source.groups) == 1
            or test.streams != source.streams
        ):
            continue
        counts = Counter(test.groups.values())
        for group_number, expected in enumerate(
            streams_of_groups(source.groups, source.streams), start=1
        ):
            if counts[group_number] != expected:
                yield (
                    "traffic",
                    f"group {group_number} of {source.label} had {counts[group_number]} streams, "
                    f"configured: {expected}",
                )


def duration(observed: Observed) -> Problems:
    """Checks the duration that iperf3 was asked for, and how long it really sent.

    If a run is to end once it has settled (its goodput shows no trend), iperf3 is asked for the
    maximum duration, and ended earlier.
    """
    traffic = observed.run.traffic
    for source, test in _iperf3_reports(observed):
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
    for source, test in _iperf3_reports(observed):
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
    for source, test in _iperf3_reports(observed):
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
        applied, configured = (
            states[-1].pacing_bps,
            None if device in unpaced else traffic.pacing_bps,
        )
        if _rate_differs(applied, configured):
            yield (
                "traffic",
                f"fq of {device} held flows to {_rate_text(applied)}, configured: "
                f"{_rate_text(configured)}",
            )


def group_pacing(observed: Observed) -> Problems:
    """Checks the pacing rate of each socket (SO_MAX_PACING_RATE) against that of its group. Yields
    one problem, which names the first wrong flow, and the number of further ones.
    """
    yield from first_of_flows(_pacing_problems(observed))


def _pacing_problems(observed: Observed) -> Problems:
    """Yields a problem for each iperf3 stream whose socket had another maximum pacing rate than
    configured for its group. Yields nothing if no probe sampled this rate.
    """
    sockets = observed.tables.sockets
    if "max_pacing_rate_bps" not in sockets.columns:
        return
    last_rates = sockets.sort("time_s").group_by(FLOW).agg(pl.col("max_pacing_rate_bps").last())
    rates_bps = {
        (host, port): rate_bps
        for host, port, rate_bps in last_rates.select(*FLOW, "max_pacing_rate_bps").iter_rows()
    }
    for source, group, port in _grouped_streams(observed):
        if (source.host, port) in rates_bps:
            applied, configured = rates_bps[source.host, port], group.pacing_bps
            if _rate_differs(applied, configured):
                yield (
                    "traffic",
                    f"port {port} was paced at {_rate_text(applied)}, configured: "
                    f"{_rate_text(configured)}",
                )


def _grouped_streams(observed: Observed) -> Iterator[tuple[Iperf3Source, Group, int]]:
    """Yields each TCP stream of iperf3: its source, its group, and its port at the sender."""
    for source, test in _iperf3_reports(observed):
        if isinstance(source, Iperf3Source):
            for port, group_number in test.groups.items():
                if group_number <= len(source.groups):
                    yield source, source.groups[group_number - 1], port


def _first_data_times_s(observed: Observed) -> dict[tuple[str, int], float]:
    """Returns when each flow, (host, port), had first sent data according to its socket's samples,
    in seconds of the tables' time.
    """
    sending = observed.tables.sockets.filter(pl.col("bytes_sent") > NO_DATA_BYTES)
    first = sending.group_by(FLOW).agg(pl.col("time_s").min())
    return {(host, port): time_s for host, port, time_s in first.iter_rows()}


def starts(observed: Observed) -> Problems:
    """Checks that each stream, and each source that is not iperf3's, sent its first data at its
    configured time. Only on emulated paths: between hosts, the start of the traffic is itself
    estimated from the sockets.
    """
    began_s = observed.measurement.began_s
    if began_s is None or not isinstance(observed.run.path, Topology):
        return
    zero_s = began_s - observed.tables.began_s  # of the tables' time
    first_s = _first_data_times_s(observed)
    yield from first_of_flows(
        limit
        for source, group, port in _grouped_streams(observed)
        if (source.host, port) in first_s
        for limit in _check_start(
            observed,
            source,
            f"port {port}",
            first_s[source.host, port] - zero_s,
            source.start_s + group.delay_s,
        )
    )
    for udp, test in _iperf3_reports(observed):
        if isinstance(udp, UdpSource) and test.connected_s is not None:
            yield from _check_start(
                observed, udp, udp.label, test.connected_s - began_s, udp.start_s
            )
    for other, service in _other_reports(observed):
        if service.first_s is not None and not isinstance(other, CommandSource):
            yield from _check_start(
                observed, other, other.label, service.first_s - began_s, other.start_s
            )


def _check_start(
    observed: Observed, source: TrafficSource, name: str, seen_s: float, configured_s: float
) -> Problems:
    """Yields a problem if the first data of a flow was sent too early or too late. How late it may
    be depends on the duration of handshakes, on the sampling interval, and on whether SYNs may have
    been lost.

    name: the flow's name in the message
    seen_s, configured_s: when it sent its first data, and when it was to begin, in seconds after
        the traffic began
    """
    topology = observed.topology
    sender = next((sender for sender in topology.senders if sender.name == source.host), None)
    if sender is None:
        return
    phases = [phase for _, phase in topology.phases]
    round_trips_s = START_ROUND_TRIPS * max(phase.longest_rtt_s for phase in phases)
    configured_losses = [
        sender_then.loss
        for phase in phases
        for sender_then in phase.senders
        if sender_then.name == sender.name and sender_then.loss
    ]
    late_s = START_S + round_trips_s + SAMPLES * observed.run.traffic.interval_s
    if configured_losses or (
        topology.queue.kind not in FIFOS and _bottleneck_dropped_before(observed, seen_s)
    ):
        late_s += lost_handshakes_s(
            configured_losses, source.streams if isinstance(source, Iperf3Source) else 1
        )
    elif _bottleneck_dropped_before(observed, seen_s):
        late_s += LOST_SYN_S
    early_s = START_S + round_trips_s
    if isinstance(source, WorkloadSource):
        late_s = float("inf")  # its first flow is drawn, and compared with its schedule
    if isinstance(source, UdpSource):
        early_s += 6 * round_trips_s  # its control connection comes before
    if not -early_s <= seen_s - configured_s <= late_s:
        yield (
            "traffic",
            f"{name} began after {format_time(round(seen_s, 3))}, configured: "
            f"{format_time(configured_s)}",
        )


def lost_handshakes_s(losses: Sequence[Loss], streams: int) -> float:
    """Returns how many seconds late streams may start because segments of a handshake were lost
    several times in a row: about the sum of TCP's timeouts of 1, 2, 4, ... seconds.

    The number of losses in a row is the smallest for which one more would be improbable
    (LOST_SHARE), given the configured `losses` and the number of streams.
    """
    lost_in_a_row = LEAST_LOST
    while lost_in_a_row < MOST_LOST and any(
        streams * loss.all_lost(lost_in_a_row + 1) > LOST_SHARE for loss in losses
    ):
        lost_in_a_row += 1
    return 2.0**lost_in_a_row - 0.5


def _bottleneck_dropped_before(observed: Observed, seconds: float) -> bool:
    """Returns whether the bottleneck dropped any packet in the first `seconds` of the traffic,
    which may have been a packet of a handshake.
    """
    drops_at_start = root_qdisc(observed.measurement.before.qdiscs[BOTTLENECK]).drops
    offset_s = (observed.measurement.began_s or 0.0) - observed.tables.began_s
    samples = observed.tables.bottleneck.filter(pl.col("time_s") - offset_s <= seconds)
    return samples.filter(pl.col("drops") > drops_at_start).height > 0


def relative_starts(observed: Observed) -> Problems:
    """Checks when the streams of one test started, compared with the first of them. This works even
    if the start of the traffic is uncertain, because one client starts all streams.
    """
    yield from first_of_flows(_start_problems(observed))


def _start_problems(observed: Observed) -> Problems:
    """Yields a problem for each stream whose start, counted from the start of its test's first
    stream, does not fit the delay of its group.
    """
    first_s = _first_data_times_s(observed)
    for label in dict.fromkeys(source.label for source, _, _ in _grouped_streams(observed)):
        streams = [
            (port, first_s[source.host, port], group.delay_s)
            for source, group, port in _grouped_streams(observed)
            if source.label == label and (source.host, port) in first_s
        ]
        if not streams:
            continue
        _, first_seen_s, first_delay_s = min(streams, key=lambda stream: stream[1])
        for port, seen_s, delay_s in streams:
            after_first_s, configured_s = seen_s - first_seen_s, delay_s - first_delay_s
            # The maximum; drawn_starts() compares the actual value
            drawn_at_most_s = observed.topology.base_rtt_s if observed.run.spread else 0.0
            if (
                abs(after_first_s - configured_s)
                > START_S + drawn_at_most_s + SAMPLES * observed.run.traffic.interval_s
            ):
                yield (
                    "traffic",
                    f"port {port} began {format_time(round(after_first_s, 3))} after the first, "
                    f"configured: {format_time(configured_s)}",
                )


def udp_rates(observed: Observed) -> Problems:
    """Checks the target rate of each UDP test (iperf3 -b), as iperf3 reports it for each stream."""
    for source, test in _iperf3_reports(observed):
        if isinstance(source, UdpSource) and _differs(test.rate_bps, source.rate_bps):
            sent = f"sent {format_rate(test.rate_bps)}"
            yield _difference(source, sent, format_rate(source.rate_bps))


def http(observed: Observed) -> Problems:
    """Checks the number of http clients and of their requests, and the size of the complete
    answers.
    """
    for source, service in _other_reports(observed):
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
    for source, service in _other_reports(observed):
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
    for source, service in _other_reports(observed):
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
    distances_s = pings["time_s"].sort().diff()
    median_s = distances_s.median()
    if isinstance(median_s, float) and abs(median_s * probe.rate_hz - 1) > 0.1:
        yield (
            "traffic",
            f"the RTT was probed {1 / median_s:.4g} times a second, configured: {probe.rate_hz}",
        )


def negotiated_ecn(observed: Observed) -> Problems:
    """Checks whether the sockets negotiated ECN as configured. Sockets with DCTCP are left out,
    because this CCA always asks for ECN.
    """
    sockets = observed.tables.sockets
    if not isinstance(observed.run.path, Topology) or "ecn" not in sockets.columns:
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
    socket and the one that the probe saw. Without a probe, only iperf3's reading is compared.

    If no CCA was configured, iperf3 and the probe must agree. Samples taken before a socket had
    sent more than iperf3's cookie are ignored, because iperf3 sets the CCA after the cookie. DCTCP
    without ECN becomes 'dctcp-reno' (net/ipv4/tcp_dctcp.c).
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


def drawn_starts(observed: Observed) -> Problems:
    """Checks that iperf3 started each stream at the time drawn from the run's seed. Yields one
    problem, which names the first wrong flow, and the number of further ones.
    """
    yield from first_of_flows(_drawn_start_problems(observed.tables))


def _drawn_start_problems(tables: RunTables) -> Problems:
    """Yields a problem for each stream that iperf3 did not start at the time drawn from the run's
    seed. The drawn times keep flows from starting in step.
    """
    different = tables.starts.filter(
        (pl.col("asked_s") - pl.col("used_s")).abs() > LEAST_DRAWN_S / 2
    )
    for flow in different.iter_rows(named=True):
        used, drawn = (format_time(flow[name]) for name in ("used_s", "asked_s"))
        yield "spread", f"port {flow['port']} started {used} after its group, drawn were {drawn}"


def flows_with_samples(run: Run, tables: RunTables) -> int:
    """Returns the number of flows whose sockets were sampled at least twice in the measured
    time.
    """
    return measured(run, tables.sockets).group_by(FLOW).len().filter(pl.col("len") > 1).height


def _rate_text(rate_bps: float | None) -> str:
    """Formats a rate for messages; None is 'no rate'."""
    return "no rate" if rate_bps is None else format_rate(rate_bps)
