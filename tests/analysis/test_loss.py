"""Tests the test of netem's losses, on counts drawn as netem draws them: its false alarms, and
which runs are too short.
"""

import random

import pytest

from ccmix.analysis.validity.path import LOSS_P_VALUE, WRONG_SHARE, loss_p_value, too_few_losses
from ccmix.model import Loss

RUNS = 400


def lost_of(loss: Loss, packets: int, drawn: random.Random) -> int:
    """Draws losses as net/sched/sch_netem.c does: with a chain of two states, each of which loses
    packets.
    """
    to_bad, *given = loss.parameters
    to_good, in_bad, in_good = (*given, *(1 - to_bad, 1.0, 0.0)[len(given) :])
    bad, lost = False, 0
    for _ in range(packets):
        if bad:
            lost += drawn.random() < in_bad
            bad = drawn.random() >= to_good
        else:
            lost += drawn.random() < in_good
            bad = drawn.random() < to_bad
    return lost


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters", [(0.01, 0.1), (0.002, 0.05, 0.7), (0.05, 0.5, 0.5, 0.001), (0.001, 0.02)]
)
def test_bursts_alarm_no_more_than_independent_losses(parameters: tuple[float, ...]) -> None:
    """None of 400 runs is near the threshold: a heavier tail than assumed would give small
    p-values.
    """
    loss, drawn = Loss("gemodel", parameters), random.Random(1)
    p_values = [loss_p_value(loss, lost_of(loss, 5000, drawn), 5000) for _ in range(RUNS)]
    assert min(p_values) > 1e-4
    for limit in (0.01, 0.05):
        assert sum(p_value < limit for p_value in p_values) <= limit * RUNS


def test_no_loss_configured_allows_none() -> None:
    assert loss_p_value(None, 0, 10**6) == 1
    assert loss_p_value(None, 1, 10**6) == 0


@pytest.mark.parametrize(("model", "parameters"), [("random", (0.001,)), ("gemodel", (0.01, 0.1))])
def test_no_losses_at_all_are_found_where_the_run_is_long_enough(
    model: str, parameters: tuple[float, ...]
) -> None:
    loss = Loss(model, parameters)  # type: ignore[arg-type]
    offered = next(
        count for count in range(1000, 10**6, 500) if too_few_losses(loss, count) is None
    )
    assert loss_p_value(loss, 0, offered) < LOSS_P_VALUE
    assert (
        loss_p_value(loss, round(0.5 * WRONG_SHARE * loss.mean * offered), offered) < LOSS_P_VALUE
    )
    assert loss_p_value(loss, round(loss.mean * offered), offered) > 0.5


def test_42_independent_losses_are_enough() -> None:
    loss = Loss("random", (0.001,))
    assert too_few_losses(loss, 43_000) is None
    assert too_few_losses(loss, 40_000) == "loss not verifiable in this run: 40 losses expected"
    assert too_few_losses(loss, 500) == "loss not verifiable in this run: 0.5 losses expected"
