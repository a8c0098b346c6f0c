"""Writes the estimates of a path for a report, and puts them to the stations of its drawing."""

from collections.abc import Sequence

from ccmix.model import HostPath
from ccmix.report.path_section import UNKNOWN, MeasuredPath, Station
from ccmix.twin import estimate_text
from ccmix.twin.base_rtt import BASE_RTT
from ccmix.twin.estimate import Estimate
from ccmix.twin.hosts import MTU, WINDOW
from ccmix.twin.loss import BURST, LOSS
from ccmix.twin.policer import POLICER
from ccmix.twin.queue import BUFFER, QUEUE
from ccmix.twin.rate import CROSS, RATE
from ccmix.twin.reordering import REORDERING
from ccmix.twin.twin import Twin

OF_BOTTLENECK = (RATE, CROSS, BUFFER, QUEUE, POLICER)
OF_WAY = (BASE_RTT, LOSS, BURST, REORDERING, MTU)
OF_RECEIVER = (WINDOW,)
UNUSUAL = (BURST, POLICER)  # what most paths don't have


def measured_path(twin: Twin) -> MeasuredPath:
    """Returns the drawing and the table of a path."""
    path, count = twin.runs[0].run.path, len(twin.runs)
    name = f"{twin.name}, emulated"
    if isinstance(path, HostPath):
        name = twin.name if f" from {path.src}" in twin.name else f"{path.src} to {twin.name}"
    lines = tuple(
        (each.quantity, estimate_text.value(each), estimate_text.interval(each), estimate_text.why(each))
        for each in twin.estimates
    )
    return MeasuredPath(f"{name} ({count} run{'' if count == 1 else 's'})", _stations(twin), lines)


def _stations(twin: Twin) -> tuple[Station, ...]:
    known = {each.quantity: each for each in twin.estimates}

    def station(name: str, quantities: Sequence[str]) -> Station:
        parts = (_part(known[quantity]) for quantity in quantities if quantity in known)
        return Station(name, tuple(part for part in parts if part))

    return (
        Station("sender", ()),
        station("bottleneck", OF_BOTTLENECK),
        station("the way", OF_WAY),
        station("receiver", OF_RECEIVER),
    )


def _part(estimate: Estimate) -> str:
    """Returns 'buffer 48 kB'; a question mark for what can't be told, nothing where that is just the usual."""
    text = estimate_text.value(estimate)
    if text == "cannot be told":
        return "" if estimate.quantity in UNUSUAL else f"{estimate.quantity}{UNKNOWN}"
    return f"{estimate.quantity} {text}"
