"""Judges what ccmix added to a path between hosts: the RTT and the loss of its netem."""

from collections.abc import Iterator

from ccmix.analysis.qdiscs import grown_by
from ccmix.analysis.series import SRC
from ccmix.analysis.validity.loss import loss
from ccmix.analysis.validity.path import RTT_FRACTION, lost_on_return
from ccmix.model import HostPath, Measurement, Netem
from ccmix.units import format_time

PATH_RTT_LEAST_S = 1e-3  # by which the RTT of a path that others use too may change between two pings


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
            yield from loss(netem.loss.parameters[0], _lost_and_offered(measurement, "data-delay"))
            yield from lost_on_return(measurement, "ack-delay")


def _lost_and_offered(measurement: Measurement, device: str) -> tuple[int, int]:
    lost = grown_by(measurement, device, "drops")
    return lost, grown_by(measurement, device, "packets") + lost
