"""Delay and loss as netem takes them, on emulated paths and on real ones."""

from collections.abc import Sequence

from ccmix.model import Loss
from ccmix.units import format_percent, parse_percent, parse_time


def delay(text: str, most_s: float) -> float:
    """In seconds. Raises ValueError."""
    delay_s = parse_time(text)
    if delay_s > most_s:
        raise ValueError(f"is more than {most_s:g} s: write for instance 44ms")
    return delay_s


def loss(words: Sequence[str], model: str) -> Loss:
    """Of 'gemodel', one to four words, else one. Raises ValueError also where nothing passes, or nothing any more."""
    if not 1 <= len(words) <= (4 if model == "gemodel" else 1):
        raise ValueError("is no loss: write for instance 0.025% or gemodel 1% 10% 70% 0.1%")
    found = Loss(model, tuple(map(parse_percent, words)))
    if found.mean == 1:
        raise ValueError("lets nothing pass: write less loss than 100%")
    return found


def at_most(found: Loss, share: float) -> Loss:
    """The same. Raises ValueError where it loses more in the mean."""
    if found.mean > share:
        mean, most = format_percent(found.mean), format_percent(share)
        raise ValueError(f"loses {mean} of all packets, and connections need a path that loses {most} at most")
    return found
