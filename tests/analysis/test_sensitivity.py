"""Tests which of the unknown keys of a range has the largest effect."""

import math

import pytest

from ccmix.analysis.ranges import MetricRange, effects, range_of

SPREAD = (-1.0, 0.0, 1.0)


def grid(means: dict[tuple[str, str], float], spread: tuple[float, ...] = SPREAD) -> MetricRange:
    """Returns a range over buffer and loss, with three runs of each condition around its mean."""
    found = range_of(
        {
            (("buffer", buffer), ("loss", loss)): [mean + apart for apart in spread]
            for (buffer, loss), mean in means.items()
        }
    )
    assert found
    return found


BUFFER_MATTERS = {("1", "0%"): 100.0, ("1", "1%"): 90.0, ("2", "0%"): 300.0, ("2", "1%"): 200.0}


def test_the_key_that_moves_the_metric_most_comes_first_with_the_others_fixed() -> None:
    buffer, loss = effects(grid(BUFFER_MATTERS))
    assert (buffer.key, buffer.low_value, buffer.high_value, buffer.others) == (
        "buffer",
        "1",
        "2",
        (("loss", "0%"),),
    )
    assert buffer.ratio == pytest.approx(3.0)
    assert buffer.explains == pytest.approx(math.log(3) / math.log(300 / 90))
    assert (loss.key, loss.low_value, loss.high_value, loss.others) == (
        "loss",
        "1%",
        "0%",
        (("buffer", "2"),),
    )
    assert loss.ratio == pytest.approx(1.5)
    assert buffer.seen
    assert loss.seen


def test_one_unknown_key_explains_all_of_the_range() -> None:
    [effect] = effects(grid({("1", "0%"): 100.0, ("2", "0%"): 150.0, ("3", "0%"): 120.0}))
    assert (effect.key, effect.low_value, effect.high_value, effect.explains) == (
        "buffer",
        "1",
        "2",
        1.0,
    )


def test_what_may_be_chance_is_not_seen() -> None:
    [effect] = effects(grid({("1", "0%"): 100.0, ("2", "0%"): 103.0}, (-5.0, 0.0, 5.0)))
    assert effect.p is not None
    assert not effect.seen


def test_many_pairs_need_more() -> None:
    """A difference that is significant for a key with two values is not significant between the
    outermost of six values.
    """
    two = effects(grid({("1", "0%"): 100.0, ("6", "0%"): 103.0}))[0]
    six = effects(grid({(str(at), "0%"): 100.0 + 0.6 * (at - 1) for at in range(1, 7)}))[0]
    assert (two.seen, six.seen) == (True, False)
    assert two.p is not None
    assert six.p == pytest.approx(15 * two.p)


def test_of_too_few_runs_there_is_no_test() -> None:
    [effect] = effects(grid({("1", "0%"): 100.0, ("2", "0%"): 300.0}, (0.0, 1.0)))
    assert (effect.p, effect.seen) == (None, False)


def test_a_mean_of_nothing_has_no_ratio_and_comes_first() -> None:
    buffer, loss = effects(
        grid(
            {("1", "0%"): 0.0, ("1", "1%"): 0.0, ("2", "0%"): 300.0, ("2", "1%"): 100.0},
            (0.0, 0.0, 0.0),
        )
    )
    assert (buffer.key, buffer.ratio, buffer.explains) == ("buffer", None, None)
    assert (loss.key, loss.ratio, loss.explains) == ("loss", 3.0, None)
    assert effects(grid({("1", "0%"): 100.0})) == []
