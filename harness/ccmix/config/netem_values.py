"""Delay and loss as netem takes them, on emulated paths and between hosts."""

from collections.abc import Sequence
from typing import Literal

from ccmix.model import Loss
from ccmix.model.netem import mean_loss
from ccmix.units import format_percent, parse_percent, parse_time

LEAST_DELAY_S = 1e-6  # see conditions/qdisc.py


def delay(text: str, most_s: float) -> float:
    """Returns a delay in seconds. Raises ValueError."""
    delay_s = parse_time(text)
    if 0 < delay_s < LEAST_DELAY_S:
        raise ValueError("is less than 1us, the step in which tc sets delays: write for instance 44ms")
    if delay_s > most_s:
        raise ValueError(f"is more than {most_s:g} s: write for instance 44ms")
    return delay_s


def loss(shares: Sequence[str], model: Literal["random", "gemodel"]) -> Loss | None:
    """Returns the loss that one share describes, of gemodel one to four; None where nothing is lost.

    Raises ValueError also where nothing passes in the long run.
    """
    if not 1 <= len(shares) <= (4 if model == "gemodel" else 1):
        raise ValueError("is no loss: write for instance 0.025% or gemodel 1% 10% 70% 0.1%")
    parameters = tuple(map(parse_percent, shares))
    mean = mean_loss(model, parameters)
    if mean == 1:
        raise ValueError("lets nothing pass: write less loss than 100%")
    return Loss(model, parameters) if mean else None


def check_mean(loss: Loss | None, most_share: float) -> None:
    """Raises ValueError where the loss is more in the mean."""
    if loss and loss.mean > most_share:
        mean, most = format_percent(loss.mean), format_percent(most_share)
        raise ValueError(f"loses {mean} of all packets, and connections need a path that loses {most} at most")
