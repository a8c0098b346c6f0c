"""Judges how many packets netem lost."""

from collections.abc import Iterator

from ccmix.analysis.distributions import binomial_cdf, binomial_tail
from ccmix.units import format_percent

LOSS_P_VALUE = 1e-6  # one false alarm in a million runs


def loss(configured: float, lost_and_offered: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """Judges netem's own count against the binomial distribution of the configured loss."""
    lost, offered = lost_and_offered
    if offered == 0:
        yield "loss", "no packet passed netem"
    elif _binomial_p_value(lost, offered, configured) < LOSS_P_VALUE:
        yield (
            "loss",
            (
                f"netem lost {lost} of {offered} packets ({format_percent(lost / offered)}), "
                f"configured are {format_percent(configured)}"
            ),
        )


def _binomial_p_value(lost: int, offered: int, probability: float) -> float:
    """Returns how likely it is to lose so few or fewer, or so many or more: the rarer one, doubled for both sides."""
    fewer, more = binomial_cdf(lost, offered, probability), binomial_tail(lost, offered, probability)
    return min(1.0, 2 * min(fewer, more))
