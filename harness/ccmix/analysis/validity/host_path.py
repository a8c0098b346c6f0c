"""Judges what ccmix added to a path between hosts: the RTT and the loss of its netem."""

from collections.abc import Iterator, Sequence

from ccmix.analysis.qdiscs import grown_by
from ccmix.analysis.series import SRC
from ccmix.analysis.validity import fields, traffic_fields
from ccmix.analysis.validity.applied import AppliedDevice, applied_path
from ccmix.analysis.validity.comparison import Limits, Observed
from ccmix.analysis.validity.loss import loss
from ccmix.analysis.validity.path import RATE_FRACTION, RTT_FRACTION, lost_on_return
from ccmix.analysis.validity.path_fields import DELAY_STEP_S, SIX_DIGITS, loss_difference
from ccmix.conditions.qdisc import NEVER_FULL_PACKETS
from ccmix.model import HostPath, Measurement, Netem
from ccmix.units import format_rate, format_time

PATH_RTT_LEAST_S = 1e-3  # by which the RTT of a path that others use too may change between two pings
BETWEEN_HOSTS = (  # what ccmix's own iperf3, the sockets and tc tell there, too
    traffic_fields.streams, traffic_fields.groups, traffic_fields.group_pacing, traffic_fields.relative_starts,
    traffic_fields.duration, traffic_fields.omit, traffic_fields.interval, traffic_fields.pacing,
)  # fmt: skip


def applied(observed: Observed, path: HostPath) -> Limits:
    """Compares what tc had of ccmix's netem and pacing, and what ccmix's own iperf3 reports, with the configuration."""
    devices = applied_path(observed.measurement).devices
    if path.netem and path.netem_at:
        yield from _netem_of("data", path.netem, devices.get("data-delay", ()))
        if path.netem_at.ack_device:
            yield from _netem_of("ACKs", Netem(path.netem.delay_s), devices.get("ack-delay", ()))
    for comparison in fields.TRAFFIC:
        if comparison.differences in BETWEEN_HOSTS:
            yield from comparison.differences(observed)


def _netem_of(direction: str, configured: Netem, states: Sequence[AppliedDevice]) -> Limits:
    for state in states:
        netem = state.netem
        if netem is None:
            yield "path", f"there was no netem for {direction}"
            continue
        if abs(netem.delay_s - configured.delay_s) > DELAY_STEP_S + SIX_DIGITS * configured.delay_s:
            yield (
                "rtt",
                f"tc delays {direction} by {format_time(netem.delay_s)}, "
                f"configured are {format_time(configured.delay_s)}",
            )
        yield from loss_difference(netem, configured.loss, direction)
        applied_bps, rate_bps = netem.rate_bps or 0.0, configured.rate_bps or 0.0
        if abs(applied_bps - rate_bps) > RATE_FRACTION * rate_bps:
            yield (
                "rate",
                f"netem has {format_rate(applied_bps)} for {direction}, configured are {format_rate(rate_bps)}",
            )
        limit_packets = NEVER_FULL_PACKETS if configured.limit_packets is None else configured.limit_packets
        if netem.limit_packets != limit_packets:
            yield "buffer", f"netem holds {netem.limit_packets} packets of {direction}, configured are {limit_packets}"


def netem(path: HostPath, netem: Netem, measurement: Measurement) -> Iterator[tuple[str, str]]:
    """Judges the RTT that netem adds, and the packets that it lost, on a path with an RTT and loss of its own."""
    added_s = netem.delay_s * (2 if path.netem_at and path.netem_at.ack_device else 1)
    added_s += path.profile.delay_s if path.profile else 0.0
    before_s, with_s = (
        min(measurement.ping_before_s, default=None),
        min(measurement.ping_rtt_s.get(SRC, ()), default=None),
    )
    if before_s is not None and with_s is not None:
        seen_s = with_s - before_s
        if abs(seen_s - added_s) > max(PATH_RTT_LEAST_S, RTT_FRACTION * with_s):
            yield (
                "rtt",
                f"netem adds {format_time(round(seen_s, 5))} to ping's RTT, configured are {format_time(added_s)}",
            )
    if netem.loss:
        if joined := [name for name, on in (measurement.facts.offloads or {}).items() if on]:
            yield "offloads", f"on are {', '.join(joined)}: netem loses all of the packets joined to one"
        elif netem.loss.model == "random" and netem.limit_packets is None:  # else a full queue drops too
            yield from loss(netem.loss, _lost_and_offered(measurement, "data-delay"))
            yield from lost_on_return(measurement, "ack-delay")


def _lost_and_offered(measurement: Measurement, device: str) -> tuple[int, int]:
    lost = grown_by(measurement, device, "drops")
    return lost, grown_by(measurement, device, "packets") + lost
