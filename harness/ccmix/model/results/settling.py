"""Says whether a run was long enough: what its goodput over the measured time shows."""

from dataclasses import dataclass
from typing import Literal

Quantity = Literal["goodput", "share"]


@dataclass(frozen=True)
class Trend:
    """Describes how the goodput of a group, or its share of the run's goodput, went over the measured time."""

    group: str
    quantity: Quantity
    change: float  # mean of the last quarter of the measured time less that of the first, over the mean
    factor: float | None  # mean of the last quarter, or after a step, over that before; None where that is 0
    seen: bool  # whether it is a trend or a step, and large enough to matter
    step_s: float | None = None  # of the measured time, until a step; None: it is none


@dataclass(frozen=True, kw_only=True)
class Settling:
    """Says whether goodputs and shares show no trend over a measured time that is long enough to tell.

    `settled` is None where this can't be judged.
    """

    settled: bool | None
    reasons: tuple[str, ...] = ()  # why it is not True, a clause each
    trends: tuple[Trend, ...] = ()
    warm_up_s: float | None = None  # of the measured time, of the group with the longest
    slowest: str | None = None  # what takes longest on this path
    slowest_period_s: float | None = None
    enough_s: float | None = None  # the measured time that would do, where this one does not
    enough_omit_s: float | None = None  # the omitted time that would do, where only the warm-up has a trend
