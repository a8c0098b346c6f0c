"""Checks when flows began to send: from their sockets' samples, and from iperf3's reports."""

import math
from collections.abc import Sequence

import polars as pl

from ccmix.analysis.counters import root_qdisc
from ccmix.analysis.iperf3_tables import FLOW, by_flow
from ccmix.analysis.tables import NO_DATA_BYTES
from ccmix.analysis.validity.applied import Observed, Problems, first_flow_only
from ccmix.analysis.validity.path import own_phases
from ccmix.analysis.validity.traffic_fields import (
    SAMPLES,
    START_S,
    grouped_streams,
    iperf3_reports,
    other_reports,
)
from ccmix.conditions.layout import BOTTLENECK
from ccmix.model import (
    CommandSource,
    Iperf3Source,
    Loss,
    TrafficSource,
    UdpSource,
    WorkloadSource,
)
from ccmix.units import format_time

START_ROUND_TRIPS = 4  # by which ccmix's estimate of the handshakes before the traffic may be wrong
# they drop a packet of a handshake only if they are full
FIFOS = ("bfifo", "pfifo", "pfifo_head_drop")
LOST_SYN_S = 1.2  # the first timeout of a handshake
# segments of a handshake in a row, one of each stream: 1 s, 2 s, 4 s, ... (RFC 6298)
LEAST_LOST, MOST_LOST = 2, 12
LOST_SHARE = 1e-5  # of runs in which more may be lost
LEAST_DRAWN_S = 1e-6  # the unit in which iperf3 and the draw count


def starts(observed: Observed) -> Problems:
    """Checks that each stream, and each source that is not iperf3's, sent its first data at its
    configured time. Only on emulated paths: between hosts, the start of the traffic is itself
    estimated from the sockets.
    """
    began_s = observed.measurement.began_s
    if began_s is None:
        return
    yield from _stream_starts(observed)
    for udp, test in iperf3_reports(observed):
        if isinstance(udp, UdpSource) and test.connected_s is not None:
            yield from _check_start(
                observed, udp, udp.label, test.connected_s - began_s, udp.start_s
            )
    for other, service in other_reports(observed):
        if service.first_s is not None and not isinstance(other, CommandSource):
            yield from _check_start(
                observed, other, other.label, service.first_s - began_s, other.start_s
            )


@first_flow_only
def _stream_starts(observed: Observed) -> Problems:
    """Yields a problem for each TCP stream of iperf3 that did not start at its configured time."""
    zero_s = (observed.measurement.began_s or 0.0) - observed.tables.began_s  # of the tables' time
    first_s = _first_data_times_s(observed)
    for source, group, port in grouped_streams(observed):
        if (source.host, port) in first_s:
            seen_s = first_s[source.host, port] - zero_s
            configured_s = source.start_s + group.delay_s
            yield from _check_start(observed, source, f"port {port}", seen_s, configured_s)


def _first_data_times_s(observed: Observed) -> dict[tuple[str, int], float]:
    """Returns when each flow, (host, port), had first sent data according to its socket's samples,
    in seconds of the tables' time.
    """
    sending = observed.tables.sockets.filter(pl.col("bytes_sent") > NO_DATA_BYTES)
    return by_flow(sending.group_by(FLOW).agg(pl.col("time_s").min()), "time_s")


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
    round_trips_s = START_ROUND_TRIPS * max(phase.longest_rtt_s for _, phase in topology.phases)
    losses = [phase.loss for phase in own_phases(topology, sender) if phase.loss]
    is_fifo = topology.queue.kind in FIFOS
    early_s = START_S + round_trips_s
    late_s = early_s + SAMPLES * observed.run.traffic.interval_s
    if losses or (not is_fifo and _bottleneck_dropped_before(observed, seen_s)):
        streams = source.streams if isinstance(source, Iperf3Source) else 1
        late_s += lost_handshakes_s(losses, streams)
    elif is_fifo and _bottleneck_dropped_before(observed, seen_s):
        late_s += LOST_SYN_S
    if isinstance(source, WorkloadSource):
        late_s = math.inf  # its first flow is drawn, and compared with its schedule
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


@first_flow_only
def relative_starts(observed: Observed) -> Problems:
    """Checks when the streams of one test started, compared with the first of them: the difference
    must fit the delays of their groups. This works even if the start of the traffic is uncertain,
    because one client starts all streams.
    """
    first_s = _first_data_times_s(observed)
    for label in dict.fromkeys(source.label for source, _, _ in grouped_streams(observed)):
        streams = [
            (port, first_s[source.host, port], group.delay_s)
            for source, group, port in grouped_streams(observed)
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


@first_flow_only
def drawn_starts(observed: Observed) -> Problems:
    """Checks that iperf3 started each stream at the time drawn from the run's seed. The drawn times
    keep flows from starting in step.
    """
    different = observed.tables.starts.filter(
        (pl.col("asked_s") - pl.col("used_s")).abs() > LEAST_DRAWN_S / 2
    )
    for flow in different.iter_rows(named=True):
        used, drawn = (format_time(flow[name]) for name in ("used_s", "asked_s"))
        yield "spread", f"port {flow['port']} started {used} after its group, drawn were {drawn}"
