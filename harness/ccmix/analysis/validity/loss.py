"""Judges how many packets netem lost, and says when a run is too short to show that."""

import bisect
import math
from collections.abc import Iterator

from ccmix.analysis.distributions import binomial_cdf, binomial_tail
from ccmix.model import Loss
from ccmix.model.netem import gemodel_parameters
from ccmix.units import format_percent

LOSS_P_VALUE = 1e-6  # one false alarm in a million runs
POWER = 0.95
WRONG_SHARE = 0.2  # of the configured loss: what a run must be able to tell from it
BURSTS = 2.0  # by which the tail of a sum of bursts is wider than its variance says: see tests/analysis/test_loss.py


def loss(configured: Loss | None, lost_and_offered: tuple[int, int]) -> Iterator[tuple[str, str]]:
    """Judges netem's own count against the distribution of the configured loss."""
    lost, offered = lost_and_offered
    if offered == 0:
        yield "loss", "no packet passed netem"
    elif loss_p_value(configured, lost, offered) < LOSS_P_VALUE:
        yield (
            "loss",
            f"netem lost {lost} of {offered} packets ({format_percent(lost / offered)}), "
            f"configured are {format_percent(configured.mean if configured else 0.0)}",
        )


def loss_p_value(configured: Loss | None, lost: int, offered: int) -> float:
    """Returns how likely it is to lose so few or fewer, or so many or more: the rarer one, doubled for both sides.

    Losses of gemodel come in bursts, so that they count as fewer independent packets, with the same mean.
    """
    if configured is None:
        return float(lost == 0)
    alike = _packets_alike(configured)
    trials = max(1, round(offered / alike))
    low, high = min(trials, math.ceil(lost / alike)), min(trials, math.floor(lost / alike))
    fewer, more = binomial_cdf(low, trials, configured.mean), binomial_tail(high, trials, configured.mean)
    return min(1.0, 2 * min(fewer, more))


def too_few_losses(configured: Loss, offered: int) -> str | None:
    """Returns a sentence where the test could not tell the configured loss from a fifth of it; None where it could.

    It could where, with a fifth of the loss, the test would report it in at least 95 of 100 runs of this length.
    """
    alike = _packets_alike(configured)
    trials = max(1, round(offered / alike))
    wrong = WRONG_SHARE * configured.mean
    most = bisect.bisect_left(range(trials), POWER, key=lambda losses: binomial_cdf(losses, trials, wrong))
    if loss_p_value(configured, math.floor(most * alike), offered) < LOSS_P_VALUE:
        return None
    return f"loss not verifiable in this run: {configured.mean * offered:.3g} losses expected"


def _packets_alike(configured: Loss) -> float:
    """Returns how many packets count as one whose loss is independent of others."""
    return 1.0 if configured.model == "random" else BURSTS * _variance_ratio(configured)


def _variance_ratio(configured: Loss) -> float:
    """Returns the variance of the number of losses over that of independent ones with the same mean.

    Of a chain of two states whose autocorrelation falls by 1 - p - r with each packet (Gilbert 1960; Elliott 1963).
    """
    to_bad, to_good, loss_in_bad, loss_in_good = gemodel_parameters(configured.parameters)
    bad = to_bad / (to_bad + to_good)
    kept, mean = 1 - to_bad - to_good, configured.mean
    between = bad * (1 - bad) * (loss_in_bad - loss_in_good) ** 2
    if mean in (0.0, 1.0) or kept >= 1:
        return 1.0
    return max(1.0, 1 + 2 * between * kept / (1 - kept) / (mean * (1 - mean)))
