"""Checks the delay, jitter, loss and order of packets on an emulated path, as tc reports them.

netem makes these effects. Each sender has a netem for its data and one for the ACKs. Their settings
may change during a run, which divides it into phases.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ccmix.analysis.validity import path
from ccmix.analysis.validity.applied import (
    AppliedDevice,
    AppliedNetem,
    Observed,
    Problems,
    difference,
)
from ccmix.conditions.layout import BOTTLENECK, CONTROL
from ccmix.model import Loss, Sender, Topology
from ccmix.model.netem import gemodel_parameters
from ccmix.units import format_count, format_percent, format_time

SIX_DIGITS = 1e-5  # tc prints such numbers with six digits
DELAY_STEP_S = 1e-6  # ccmix gives tc delays in whole microseconds
JITTER_STEP_S = 1e-5
WITHOUT_NETEM = AppliedNetem(0.0, 0.0, None, (), 0.0, None, 0)
SHARE_STEP = 2**-32  # in which netem counts shares (net/sched/sch_netem.c)
CHANGE_TOLERANCE_S = 0.1  # a thread makes the changes, and tc takes its time on a busy machine
_T = TypeVar("_T")


def expected_and_applied(
    configured: Sequence[_T], applied_states: Sequence[AppliedDevice]
) -> Iterator[tuple[_T, AppliedDevice]]:
    """Pairs the expected settings of a device with its settings as read back: when the path had
    been set up, before each change, and at the end.

    configured: the expected settings in each phase of the run. Successive phases with equal
        settings count as one, because tc changes nothing between them.
    applied_states: the settings as read back

    If the numbers don't match, which changes() reports, only the first and the last ones are
    paired.
    """
    phases = [phase for phase, _ in itertools.groupby(configured)]
    if len(phases) + 1 == len(applied_states):
        return zip([phases[0], *phases], applied_states, strict=True)
    return zip((phases[0], phases[-1]), (applied_states[0], applied_states[-1]), strict=True)


def _netems(topology: Topology) -> Iterator[tuple[Sender, str, str, list[Sender]]]:
    """Yields four values for the netem of each sender and direction: the sender, the direction
    ('data' or 'ACKs'), the purpose of the netem's device, and the configured settings in each
    phase, as a Sender with only the values of this direction.
    """
    for sender in topology.senders:
        phases = path.own_phases(topology, sender)
        for direction, purpose, settings_in in (
            ("data", "data-delay", _data_settings),
            ("ACKs", "ack-delay", _ack_settings),
        ):
            device = topology.device_name(purpose, sender)
            yield sender, direction, device, [settings_in(phase) for phase in phases]


def _data_settings(sender: Sender) -> Sender:
    """Returns the sender with only the values that netem applies to its data."""
    return Sender(sender.name, sender.delay_of_data_s, sender.loss, sender.jitter_s, sender.reorder)


def _ack_settings(sender: Sender) -> Sender:
    """Returns the sender with only the values that netem applies to its ACKs, as if they were its
    data.
    """
    return Sender(sender.name, sender.delay_of_acks_s, None, sender.jitter_s)


def _each_netem(observed: Observed) -> Iterator[tuple[str, str, Sender, AppliedNetem]]:
    """Pairs each configured netem with the one that tc reports, for every sender, direction and
    phase of the path. Yields four values:

    - a prefix for messages: 'h2: tc', or 'tc' if there is only one sender
    - the direction: 'data' or 'ACKs'
    - the configured settings: a Sender with only the values of this direction
    - the netem that tc reports
    """
    topology = observed.topology
    for sender, direction, device, phases in _netems(topology):
        tc = f"{sender.name}: tc" if len(topology.senders) > 1 else "tc"
        if applied_states := observed.applied.devices.get(device):
            for configured, applied in expected_and_applied(phases, applied_states):
                yield tc, direction, configured, applied.netem or WITHOUT_NETEM


def delays(observed: Observed) -> Problems:
    """Checks the delay of each sender's netem, as tc reports it for data and for ACKs."""
    for tc, direction, configured, netem in _each_netem(observed):
        yield from delay_difference(f"{tc} delays {direction}", netem, configured.delay_s)


def delay_difference(begin: str, netem: AppliedNetem, configured_s: float) -> Problems:
    """Yields a problem if the delay of a netem is not the configured one. `begin` is the begin of
    the message: 'tc delays data'.
    """
    yield from _netem_difference(
        "rtt", f"{begin} by {{}}", netem.delay_s, configured_s, DELAY_STEP_S, format_time
    )


def _netem_difference(
    kind: str,
    sentence: str,
    applied: float,
    configured: float,
    step: float,
    text: Callable[[float], str],
) -> Problems:
    """Yields a problem if a number of netem differs from the configured one by more than `step`, in
    which the kernel counts, and the six digits that tc prints.
    """
    tolerance = step + SIX_DIGITS * configured
    yield from difference(kind, sentence, applied, configured, tolerance, text)


def jitter(observed: Observed) -> Problems:
    """Checks the jitter of each sender's netem, as tc reports it for data and for ACKs."""
    for tc, direction, configured, netem in _each_netem(observed):
        sentence = f"{tc} varies the delay of {direction} by {{}}"
        yield from _netem_difference(
            "rtt", sentence, netem.jitter_s, configured.jitter_s, JITTER_STEP_S, format_time
        )


def reordering(observed: Observed) -> Problems:
    """Checks the share of reordered packets of each sender's netem, as tc reports it for data and
    for ACKs.
    """
    for tc, direction, configured, netem in _each_netem(observed):
        sentence = f"{tc} reorders {{}} of {direction}"
        yield from _netem_difference(
            "path", sentence, netem.reorder, configured.reorder, SHARE_STEP, format_percent
        )


def loss_parameters(observed: Observed) -> Problems:
    """Checks the loss model and its parameters in each sender's netem, as tc reports them."""
    for tc, direction, configured, netem in _each_netem(observed):
        yield from loss_difference(f"{tc} loses", netem, configured.loss, direction)


def loss_difference(
    begin: str, netem: AppliedNetem, configured: Loss | None, direction: str
) -> Problems:
    """Yields a problem if the loss model of a netem, or its parameters, differ from the configured
    loss. `begin` ('tc loses') and `direction` ('data', 'ACKs') are used in the message.
    """
    model, shares = _tc_loss(configured)
    same = netem.loss_model == model and len(netem.loss_parameters) == len(shares)
    if not same or any(
        abs(applied - share) > SHARE_STEP + SIX_DIGITS * share
        for applied, share in zip(netem.loss_parameters, shares, strict=True)
    ):
        seen = _loss_text(netem.loss_model, netem.loss_parameters)
        yield "loss", f"{begin} {seen} of {direction}, configured: {_loss_text(model, shares)}"


def _tc_loss(loss: Loss | None) -> tuple[str | None, tuple[float, ...]]:
    """Returns a configured loss in the form in which tc reports it: its model and all parameters,
    including the defaults of gemodel (tc-netem(8)). (None, ()) means no loss.
    """
    if loss is None:
        return None, ()
    if loss.model == "random":
        return loss.model, loss.parameters
    return loss.model, gemodel_parameters(loss.parameters)


def _loss_text(model: str | None, shares: Sequence[float]) -> str:
    """Formats a loss for messages: 'gemodel 1% 10% 100% 0%', or 'nothing' without a model."""
    return f"{model} {' '.join(map(format_percent, shares))}" if model else "nothing"


def control(observed: Observed) -> Problems:
    """Checks that each sender has a separate link for iperf3's control connection, which bypasses
    the bottleneck, if that is configured; and the delays of this link.
    """
    topology = observed.topology
    for sender in topology.senders:
        for direction, delay_s in (("data", sender.delay_s), ("ack", sender.delay_of_acks_s)):
            device = topology.device_name(f"{CONTROL}-{direction}", sender)
            states = observed.applied.devices.get(device, ())
            if bool(states) != (topology.control == "beside"):
                yield (
                    "path",
                    f"{sender.name} had {'a' if states else 'no'} link next to the path, "
                    f"configured: control = {topology.control}",
                )
                break
            for state in states:
                begin = f"{sender.name}: tc delays control"
                yield from delay_difference(begin, state.netem or WITHOUT_NETEM, delay_s)


def changes(observed: Observed) -> Problems:
    """Checks that the changes of the path (of rate, delay or loss) were made, at the configured
    times, and on each device as often as configured.
    """
    topology, actual_times_s = observed.topology, observed.applied.changes_s
    configured_s = [at_s for at_s, _ in topology.phases[1:]]
    if len(actual_times_s) != len(configured_s):
        made = format_count(len(actual_times_s), "change")
        yield "changes", f"the run made {made}, configured: {len(configured_s)}"
    for at_s, actual_s in zip(configured_s, actual_times_s, strict=False):
        if abs(actual_s - at_s) > CHANGE_TOLERANCE_S:
            yield (
                "changes",
                f"the path was changed after {format_time(round(actual_s, 3))}, configured: "
                f"{format_time(at_s)}",
            )
    settings_of_devices: list[tuple[str, Sequence[object]]] = [
        (BOTTLENECK, [phase.rate_bps for _, phase in topology.phases]),
        *((device, phases) for _, _, device, phases in _netems(topology)),
    ]
    for device, phases in settings_of_devices:
        states = observed.applied.devices.get(device, ())
        # one state was read before each change, and two at the start and at the end
        actual_changes = len(states) - 2
        configured_changes = sum(later != earlier for earlier, later in itertools.pairwise(phases))
        if states and actual_changes != configured_changes:
            yield (
                "changes",
                f"{device} was changed {actual_changes} times, configured: {configured_changes}",
            )
