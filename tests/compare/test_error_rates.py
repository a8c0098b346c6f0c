"""Tests how often simulated verdicts are wrong: in at most 5% of comparisons, with any number of
conditions.
"""

from collections.abc import Iterator

import numpy as np
import pytest

from ccmix.analysis.comparison import MetricSample, unpaired
from ccmix.analysis.statistics import Spread
from ccmix.compare import verdicts as of_compare
from ccmix.compare.cells import Cell, KnownPath
from ccmix.compare.verdicts import VERDICT_METRIC, ComparedCondition, Word, adjusted

pytestmark = pytest.mark.slow

NOBODY = Cell((), KnownPath(True, None, False))


def condition(
    rng: np.random.Generator, ratio: float, deviation: float, runs: int
) -> ComparedCondition:
    """Makes a condition with A's mean 10 and B's `ratio` times that."""
    a, b = (rng.normal(mean, deviation, runs).tolist() for mean in (10, 10 * ratio))
    found = unpaired(MetricSample(tuple(a)), MetricSample(tuple(b)))
    return ComparedCondition(
        NOBODY,
        NOBODY,
        "",
        (),
        (of_compare.Tested("cubic", VERDICT_METRIC, Spread.of(a), Spread.of(b), found),),
    )


def verdicts(
    trials: int, conditions: int, ratio: float, deviation: float, runs: int
) -> Iterator[set[Word]]:
    """Returns for each simulated comparison the verdicts of its conditions."""
    rng = np.random.default_rng(6)
    for _ in range(trials):
        made = [condition(rng, ratio, deviation, runs) for _ in range(conditions)]
        yield {one.verdict for one in adjusted(made)}


@pytest.mark.parametrize(
    ("ratio", "deviation", "runs", "wrong"),
    [
        (1.0, 1.0, 3, "different"),
        (1.0, 1.0, 5, "different"),
        (1.1, 0.5, 5, "same"),
        (0.9, 0.5, 3, "same"),
    ],
)
def test_a_comparison_is_wrong_no_more_often_than_it_says(
    ratio: float, deviation: float, runs: int, wrong: Word
) -> None:
    """Equal means called different, or means at the very margin called the same; four standard
    deviations of 400 trials are 4.4%.
    """
    found = list(verdicts(400, 8, ratio, deviation, runs))
    assert sum(wrong in words for words in found) / len(found) < 0.094


def test_a_comparison_tells_what_is_plain() -> None:
    """The error rates above would be as small in a test that never decides. This one decides."""
    assert all(words == {"same"} for words in verdicts(20, 8, 1.0, 0.1, 5))
    assert all(words == {"different"} for words in verdicts(20, 8, 2.0, 0.5, 5))
