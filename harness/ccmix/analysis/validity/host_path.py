"""Checks the settings that ccmix applied for a run between real hosts.

Settings of the network between the hosts are not known.
"""

from collections.abc import Sequence

from ccmix.analysis.counters import grown_by
from ccmix.analysis.series import SRC
from ccmix.analysis.validity.applied import (
    AppliedDevice,
    Observed,
    Problems,
    difference,
)
from ccmix.analysis.validity.netem_fields import delay_difference, loss_difference
from ccmix.analysis.validity.path import RTT_FRACTION, loss, lost_on_return
from ccmix.analysis.validity.queue_fields import rate_difference
from ccmix.conditions.qdisc import NEVER_FULL_PACKETS
from ccmix.model import Netem
from ccmix.units import format_time

# by which the RTT of a path with other traffic may change between two pings
PATH_RTT_LEAST_S = 1e-3


def netem_settings(observed: Observed) -> Problems:
    """Checks the netem that the entry adds on a host: on the device for data, and on the device for
    ACKs if the entry names one.
    """
    path, devices = observed.run.host_path, observed.applied.devices
    if path.netem and path.netem_at:
        yield from _netem_of("data", path.netem, devices.get("data-delay", ()))
        if path.netem_at.ack_device:
            yield from _netem_of("ACKs", Netem(path.netem.delay_s), devices.get("ack-delay", ()))


def profile_settings(observed: Observed) -> Problems:
    """Checks the netem of the destination's profile, which imitates the path to that
    destination.
    """
    path, devices = observed.run.host_path, observed.applied.devices
    if path.profile:
        yield from _netem_of("data by the profile", path.profile, devices.get("profile", ()))


def device(observed: Observed) -> Problems:
    """Checks that the device that ccmix watched and paced is the configured one."""
    configured, device = observed.run.host_path.nic, observed.measurement.facts.device
    if configured and device and configured != device:
        yield "path", f"ccmix watched and paced {device}, configured: {configured}"


def parameter(observed: Observed) -> Problems:
    """Checks the configured parameter of a CCA that is a BPF program, as ccmix-cca read it after
    the traffic. A parameter of a kernel module is checked when it is set.
    """
    configured = observed.run.host_path.module_parameter
    if configured is None:
        return
    for cca, program in (observed.measurement.facts.bpf_ccas or {}).items():
        seen = configured.seen_in(program.parameters.get(configured.name, ""))
        if configured.module == f"tcp_{cca}" and seen != configured.value:
            yield (
                "parameter",
                f"{configured.name} of {cca} was {seen or 'not read back'}, configured: "
                f"{configured.value}",
            )


def _netem_of(
    direction: str, configured: Netem, applied_states: Sequence[AppliedDevice]
) -> Problems:
    """Checks the delay, loss, rate and queue limit of a netem in each state that was read back:
    before and after the traffic. `direction` is used in the messages: 'data', 'ACKs' or 'data by
    the profile'.
    """
    for applied in applied_states:
        netem = applied.netem
        if netem is None:
            yield "path", f"there was no netem for {direction}"
            continue
        yield from delay_difference(f"tc delays {direction}", netem, configured.delay_s)
        yield from loss_difference("tc loses", netem, configured.loss, direction)
        yield from rate_difference(
            f"netem has {{}} for {direction}", netem.rate_bps or 0.0, configured.rate_bps or 0.0
        )
        limit_packets = (
            NEVER_FULL_PACKETS if configured.limit_packets is None else configured.limit_packets
        )
        sentence = f"netem holds {{}} packets of {direction}"
        yield from difference("buffer", sentence, netem.limit_packets, limit_packets, 0.0)


def netem_effects(observed: Observed) -> Problems:
    """Checks two effects of the entry's netem: that it added its delay to ping's RTT, and that it
    lost the configured share of packets. The path has an RTT of its own, so the pings before and
    after netem was set are compared.
    """
    path, measurement = observed.run.host_path, observed.measurement
    netem = path.netem
    if netem is None:
        return
    added_s = netem.delay_s * (2 if path.netem_at and path.netem_at.ack_device else 1)
    added_s += path.profile.delay_s if path.profile else 0.0
    before_s, after_s = (
        min(measurement.ping_before_s, default=None),
        min(measurement.ping_rtt_s.get(SRC, ()), default=None),
    )
    if before_s is not None and after_s is not None:
        grown_s = after_s - before_s
        if abs(grown_s - added_s) > max(PATH_RTT_LEAST_S, RTT_FRACTION * after_s):
            yield (
                "rtt",
                f"netem adds {format_time(round(grown_s, 5))} to ping's RTT, configured: "
                f"{format_time(added_s)}",
            )
    if netem.loss:
        if offloads_on := [name for name, on in (measurement.facts.offloads or {}).items() if on]:
            yield (
                "offloads",
                f"offloads are on ({', '.join(offloads_on)}), so netem loses all packets that they "
                "joined into one",
            )
        elif (
            netem.loss.model == "random" and netem.limit_packets is None
        ):  # otherwise a full queue drops too
            lost = grown_by(measurement, "data-delay", "drops")
            offered = grown_by(measurement, "data-delay", "packets") + lost
            yield from loss(netem.loss, lost, offered)
            yield from lost_on_return(measurement, "ack-delay")
