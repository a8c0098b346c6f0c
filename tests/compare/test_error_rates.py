"""How often verdicts on simulated conditions are wrong: in 5% of comparisons at most, of however many conditions."""

from collections.abc import Iterator

import numpy as np
import pytest

from ccmix.analysis.comparison import Sample, unpaired
from ccmix.analysis.statistics import Spread
from ccmix.compare import verdicts as of_compare
from ccmix.compare.matching import Cell
from ccmix.compare.paths import KnownPath
from ccmix.compare.verdicts import VERDICT_METRIC, Condition, Word, adjusted

NOBODY = Cell((), KnownPath(True, None, False))


def condition(rng: np.random.Generator, ratio: float, deviation: float, runs: int) -> Condition:
    """Of A's mean 10 and B's `ratio` times that."""
    a, b = (rng.normal(mean, deviation, runs).tolist() for mean in (10, 10 * ratio))
    found = unpaired(Sample(tuple(a)), Sample(tuple(b)))
    return Condition(
        NOBODY, NOBODY, "", (), (of_compare.Tested("cubic", VERDICT_METRIC, Spread.of(a), Spread.of(b), found),)
    )


def verdicts(trials: int, conditions: int, ratio: float, deviation: float, runs: int) -> Iterator[set[Word]]:
    """Of each simulated comparison, those that any of its conditions has."""
    rng = np.random.default_rng(6)
    for _ in range(trials):
        made = [condition(rng, ratio, deviation, runs) for _ in range(conditions)]
        yield {one.verdict for one in adjusted(made)}


@pytest.mark.parametrize(
    ("ratio", "deviation", "runs", "wrong"),
    [(1.0, 1.0, 3, "different"), (1.0, 1.0, 5, "different"), (1.1, 0.5, 5, "same"), (0.9, 0.5, 3, "same")],
)
def test_a_comparison_is_wrong_no_more_often_than_it_says(
    ratio: float, deviation: float, runs: int, wrong: Word
) -> None:
    """Equals called different, or means at the very margin called the same; of 400 trials four deviations are 4.4%."""
    found = list(verdicts(400, 8, ratio, deviation, runs))
    assert sum(wrong in words for words in found) / len(found) < 0.094


def test_a_comparison_tells_what_is_plain() -> None:
    """So that the rates above are not those of a test that never tells anything."""
    assert all(words == {"same"} for words in verdicts(20, 8, 1.0, 0.1, 5))
    assert all(words == {"different"} for words in verdicts(20, 8, 2.0, 0.5, 5))
