"""Tests comparisons against SciPy's, by hand, and against simulations whose truth is known."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ccmix.analysis.comparison import (
    MetricSample,
    corrected,
    holm,
    iterations_to_decide,
    paired,
    unpaired,
)
from ccmix.analysis.sharing import paired_ratio

numbers = st.floats(1, 1e4, allow_nan=False)


def sample(values: object) -> MetricSample:
    return MetricSample(tuple(np.asarray(values, float).tolist()))


def test_pairs_by_hand() -> None:
    """Differences 1, 2 and 3: mean 2, s = 1, t = 2 * sqrt(3) = 3.4641 with 2 degrees of freedom:
    p = 0.0742.
    """
    found = paired([11, 22, 33], [10, 20, 30])
    assert found
    assert (found.blocks, found.baseline_mean, found.difference, found.gain_percent) == (
        3,
        20,
        2,
        10,
    )
    half = 4.302653 / math.sqrt(3)
    assert found.interval == pytest.approx((2 - half, 2 + half), rel=1e-6)
    assert found.p_value == pytest.approx(0.0742, abs=1e-4)
    assert found.effect_size == pytest.approx(2 * (1 - 3 / 7))  # J = 1 - 3 / (4 * 2 - 1)
    # (t(0.975, n-1) + t(0.8, n-1)) / sqrt(n) <= 2: with 4, (3.182 + 0.978) / 2 = 2.08; with 5,
    # 3.718 / 2.236
    assert found.iterations_needed == 5


def power(size: float, count: int, level: float) -> float:
    """Returns the exact power of the two-sided paired test, by the noncentral t distribution."""
    limit = stats.t.ppf(1 - level / 2, count - 1)
    return float(stats.nct.sf(limit, count - 1, size * math.sqrt(count)))


@pytest.mark.parametrize("comparisons", [1, 10, 100])
@pytest.mark.parametrize("values", [(9.0, 10.0, 11.0), (2.0, 5.0, 9.0, 4.0), (-1.0, 2.0, 4.0)])
def test_iterations_among_many_comparisons(values: tuple[float, ...], comparisons: int) -> None:
    """They have a power of 80% at the level that the correction leaves, to one iteration."""
    found = paired(values, [0.0] * len(values))
    assert found
    needed = found.iterations_among(comparisons)
    assert needed
    size = statistics.fmean(values) / statistics.stdev(values)
    level = 0.05 / comparisons
    assert power(size, needed + 1, level) >= 0.8
    assert needed == len(values) + 1 or power(size, needed - 1, level) < 0.8


def test_more_comparisons_need_more_iterations_and_too_many_cannot_be_decided_by_signs() -> None:
    found = paired([11.0, 22, 38], [10, 20, 30])
    assert found
    assert found.iterations_needed
    needed = [found.iterations_among(comparisons) for comparisons in (1, 10, 100, 400, 1000)]
    assert needed == [11, 18, 26, 30, None]  # of signs, p is 1 / 10,000 or more
    none = paired([5.0, 6, 7], [5, 6, 7])
    assert none
    assert none.iterations_among(2) is None


def test_the_correction_asks_for_iterations_of_those_that_are_left() -> None:
    """One is significant anyway, so that two share the level."""
    sure, open_one = paired([10, 10.01, 9.99], [0, 0, 0]), paired([11, 22, 33], [10, 20, 30])
    two = paired([11, 22], [10, 20])
    assert sure
    assert open_one
    (p, _), *others, untested = corrected([sure, open_one, open_one, None, two])
    assert p is not None
    assert p < 0.001
    assert [open_one.iterations_among(comparisons) for comparisons in (2, 3)] == [5, 6]
    assert [needed for _, needed in others[:2]] == [5, 5]
    assert others[2] == (None, None)
    assert untested == (None, None)


def test_too_few_pairs_have_no_p_value() -> None:
    found = paired([11, 22], [10, 20])
    assert found
    assert (found.p_value, found.interval, found.difference) == (None, None, 1.5)
    assert found.effect_size is None  # which the correction for few values would make 0
    assert paired([], []) is None
    nothing = paired([5, 6, 7], [5, 6, 7])
    assert nothing
    assert (nothing.p_value, nothing.effect_size, nothing.iterations_needed) == (1, None, None)
    always = paired([6, 7, 8], [5, 6, 7])
    assert always
    assert (always.p_value, always.iterations_needed) == (0, 3)


@pytest.mark.parametrize("other", [5.0, 6.0])
def test_iterations_that_all_say_the_same_are_one_observation(other: float) -> None:
    found = paired([other, other, other * (1 + 1e-7)], [5, 5, 5])
    assert found
    assert found.alike
    assert (found.p_value, found.interval, found.effect_size, found.iterations_needed) == (
        None,
        None,
        None,
        None,
    )
    assert found.difference == pytest.approx(other - 5, abs=1e-6)
    varied = paired([6, 6, 6.1], [5, 5, 5])
    assert varied
    assert (varied.alike, varied.p_value is None) == (False, False)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=3, max_size=14))
def test_below_15_pairs_it_is_scipy_s_paired_t(pairs: list[tuple[float, float]]) -> None:
    values, baseline = map(list, zip(*pairs, strict=True))
    if np.std(np.subtract(values, baseline)) > 1e-6:
        found = paired(values, baseline)
        assert found
        assert found.p_value == pytest.approx(
            stats.ttest_rel(values, baseline).pvalue, rel=1e-6, abs=1e-12
        )


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.floats(-1, 1))
def test_from_15_pairs_on_it_is_scipy_s_permutation_test(seed: int, shift: float) -> None:
    """SciPy takes twice the smaller tail of 50,000 resamples, ccmix 9,999 resamples: together, they
    have a standard deviation of up to 0.7%.
    """
    rng = np.random.default_rng(seed)
    values, baseline = rng.normal(10 + shift, 1, 20), rng.normal(10, 1, 20)
    found = paired(values.tolist(), baseline.tolist())
    theirs = stats.permutation_test(
        (values - baseline,), np.mean, permutation_type="samples", n_resamples=50_000, rng=1
    ).pvalue
    assert found
    assert found.p_value is not None
    assert found.p_value == pytest.approx(theirs, abs=0.03)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, None, 0.005]) == pytest.approx([0.03, 0.06, 0.06, None, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_refuses_what_the_step_down_refuses(p_values: list[float]) -> None:
    """Follows Holm's own words: from the smallest on, p <= level / (number of those left), until a
    p-value is larger.
    """
    level, refused = 0.05, set()
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[at] * (len(p_values) - rank) > level:
            break
        refused.add(at)
    adjusted = holm(p_values)
    assert {
        at for at, value in enumerate(adjusted) if value is not None and value <= level
    } == refused


@settings(max_examples=50, deadline=None)
@given(st.lists(numbers, min_size=3, max_size=20), st.lists(numbers, min_size=3, max_size=20))
def test_the_difference_of_two_samples_is_scipy_s_welch(a: list[float], b: list[float]) -> None:
    if np.std(a) > 1e-6 and np.std(b) > 1e-6:
        theirs = stats.ttest_ind(a, b, equal_var=False).pvalue
        assert unpaired(sample(a), sample(b)).p_different == pytest.approx(
            theirs, rel=1e-6, abs=1e-12
        )


@settings(max_examples=50, deadline=None)
@given(st.lists(numbers, min_size=3, max_size=20), st.lists(numbers, min_size=3, max_size=20))
def test_the_same_within_a_margin_is_two_of_scipy_s_tests(a: list[float], b: list[float]) -> None:
    if np.std(a) > 1e-6 and np.std(b) > 1e-6:
        above = stats.ttest_ind(
            b, np.multiply(a, 0.9), equal_var=False, alternative="greater"
        ).pvalue
        below = stats.ttest_ind(b, np.multiply(a, 1.1), equal_var=False, alternative="less").pvalue
        assert unpaired(sample(a), sample(b)).p_same == pytest.approx(
            max(above, below), rel=1e-6, abs=1e-12
        )


def test_an_interval_of_the_ratio_ends_where_the_test_does() -> None:
    """At either end of the interval, Welch's test of B against that ratio times A has p = 5%."""
    a, b = np.array([9.0, 10, 11, 10, 10.5]), np.array([12.0, 12.5, 11.5, 12.2, 11.9])
    found = unpaired(sample(a), sample(b))
    assert found.ratio == pytest.approx(b.mean() / a.mean())
    assert found.interval
    for end in found.interval:
        assert stats.ttest_ind(b, a * end, equal_var=False).pvalue == pytest.approx(0.05, abs=1e-6)


def test_the_degrees_of_freedom_are_those_at_each_end() -> None:
    """A has 3 values that vary much, B many similar ones: far above B/A, the test has A's 2 degrees
    of freedom, not B's.
    """
    a, b = np.array([9.0, 11.0, 13.5]), np.array([100.0, 180, 60, 150, 90, 210, 130, 70])
    found = unpaired(sample(a), sample(b))
    assert found.interval
    low, high = found.interval
    assert low < b.mean() / a.mean() < high
    for end in found.interval:
        assert stats.ttest_ind(b, a * end, equal_var=False).pvalue == pytest.approx(0.05, abs=1e-6)
    # with the degrees at B/A the ends were elsewhere
    fixed = stats.ttest_ind(b, a * b.mean() / a.mean(), equal_var=False).df
    assert stats.ttest_ind(b, a * high, equal_var=False).df < 0.8 * fixed


def test_an_interval_without_an_upper_end_is_none() -> None:
    """A differs from 0 with B's degrees of freedom, but not with its own."""
    a, b = [2.0, 9.0, 11.0], [98.0, 180, 60, 150, 90, 210, 130, 70]
    assert stats.ttest_1samp(a, 0).pvalue > 0.05
    assert unpaired(sample(a), sample(b)).interval is None


def test_a_ratio_is_not_below_0() -> None:
    """B may be 0, and so may paired values."""
    a, b = [9.0, 10.0, 11.0, 10.2], [0.1, 5.0, 0.2, 0.1]
    assert stats.ttest_1samp(b, 0).pvalue > 0.05
    found = unpaired(sample(a), sample(b))
    assert found.interval
    assert found.interval[0] == 0
    paired_with = paired_ratio(b, a)
    assert paired_with
    assert paired_with.interval
    assert paired_with.interval[0] == 0


def test_two_samples_without_an_answer() -> None:
    few = unpaired(sample([1, 2]), sample([2, 3, 4]))
    assert (few.ratio, few.interval, few.p_different, few.p_same) == (2, None, None, None)
    below_0 = unpaired(sample([-1, 0, 0]), sample([0, 1, 2]))
    assert (below_0.ratio, below_0.interval, below_0.p_same) == (None, None, None)
    wide = unpaired(sample([0.1, 30, 0.1]), sample([5, 6, 7]))
    assert wide.interval is None


def test_values_that_are_all_alike_are_one_observation() -> None:
    """However many values there are, and even if only one sample is alike. Values that differ by a
    millionth of the mean or more are not alike.
    """
    for a, b in (
        ([2.0] * 3, [2.0] * 30),
        ([2.0] * 3, [4.0, 4.1, 4.2]),
        ([4.0, 4.1, 4.2], [8.0, 8.0 + 8e-7, 8.0]),
    ):
        found = unpaired(sample(a), sample(b))
        assert (found.interval, found.p_different, found.p_same) == (None, None, None)
        assert found.ratio
        assert iterations_to_decide(sample(a), sample(b)) is None
    assert sample([8.0] * 3).observations == 1
    assert sample([0.0] * 3).observations == 1
    apart = sample([8.0, 8.00002, 8.0])
    assert (apart.alike, apart.observations) == (False, 3)
    assert unpaired(apart, sample([8.0, 8.1, 8.2])).interval


def shares(
    trials: int, a_mean: float, b_mean: float, deviation: float, count: int
) -> tuple[float, float, float]:
    """Returns shares of trials: those in which A and B differ, those in which they are the same,
    and those whose interval contains the ratio.
    """
    rng = np.random.default_rng(3)
    different = same = held = 0
    for _ in range(trials):
        found = unpaired(
            sample(rng.normal(a_mean, deviation, count)),
            sample(rng.normal(b_mean, deviation, count)),
        )
        assert found.p_different is not None
        assert found.p_same is not None
        assert found.interval
        different += found.p_different <= 0.05
        same += found.p_same <= 0.05
        held += found.interval[0] <= b_mean / a_mean <= found.interval[1]
    return different / trials, same / trials, held / trials


def most_of(trials: int) -> float:
    """Returns the maximum of a share of 5% within four standard deviations."""
    return 0.05 + 4 * math.sqrt(0.05 * 0.95 / trials)


@pytest.mark.parametrize(
    ("trials", "count", "ratios"),
    [
        (1000, 5, (1.1,)),
        *(
            pytest.param(10_000, count, (0.9, 1.1), marks=pytest.mark.long)
            for count in (3, 5, 10, 30)
        ),
    ],
)
def test_two_samples_alarm_no_more_often_than_they_say(
    trials: int, count: int, ratios: tuple[float, ...]
) -> None:
    """At a ratio of 1.1 or 0.9 nothing may be called the same."""
    different, _, held = shares(trials, 10, 10, 0.5, count)
    assert different < most_of(trials)
    assert 1 - held < most_of(trials)
    for ratio in ratios:
        _, same, held = shares(trials, 10, 10 * ratio, 0.5, count)
        assert same < most_of(trials)
        assert 1 - held < most_of(trials)


def false_alarms(trials: int, comparisons: int, count: int) -> float:
    """Returns the share of families of comparisons between equals, by block, in which any adjusted
    p is at most 5%.
    """
    rng = np.random.default_rng(4)
    alarmed = 0
    for _ in range(trials):
        blocks = rng.lognormal(0, 1, count)  # what all runs of a block have in common
        found = [
            paired(
                (blocks * rng.lognormal(0, 0.2, count)).tolist(),
                (blocks * rng.lognormal(0, 0.2, count)).tolist(),
            )
            for _ in range(comparisons)
        ]
        alarmed += any(
            (p_value or 1) <= 0.05 for p_value in holm([one.p_value for one in found if one])
        )
    return alarmed / trials


@pytest.mark.parametrize(
    ("trials", "comparisons", "count"),
    [
        (400, 5, 5),
        (400, 5, 15),
        *(
            pytest.param(2000, comparisons, count, marks=pytest.mark.long)
            for comparisons in (1, 5, 20)
            for count in (3, 5, 10, 15, 30)
        ),
    ],
)
def test_a_family_of_comparisons_alarms_no_more_often_than_one(
    trials: int, comparisons: int, count: int
) -> None:
    assert false_alarms(trials, comparisons, count) < most_of(trials)


def seen(trials: int, needed: int, b_mean: float, deviation: float) -> float:
    """Returns the share of trials with this number of iterations that decide either way."""
    rng = np.random.default_rng(5)
    told = 0
    for _ in range(trials):
        found = unpaired(
            sample(rng.normal(10, deviation, needed)), sample(rng.normal(b_mean, deviation, needed))
        )
        told += min(found.p_different or 0, found.p_same or 0) <= 0.05
    return told / trials


@pytest.mark.parametrize(("b_mean", "deviation"), [(10.0, 0.8), (12.0, 1.5)])
def test_as_many_iterations_as_recommended_tell_mostly(b_mean: float, deviation: float) -> None:
    """They decide with a power of 80%, if the mean and the deviation of the samples are the true
    ones; 500 trials, four deviations.
    """
    spread = np.array([-1.0, 0, 1]) * deviation
    needed = iterations_to_decide(sample(10 + spread), sample(b_mean + spread))
    assert needed is not None
    assert 0.73 < seen(500, needed, b_mean, deviation) < 0.95
    assert seen(500, needed // 2, b_mean, deviation) < 0.73


def test_no_number_of_iterations_where_nothing_varies_or_is_known() -> None:
    assert iterations_to_decide(sample([1]), sample([1, 2])) is None
    assert iterations_to_decide(sample([0, 0]), sample([1, 2])) is None
    assert iterations_to_decide(sample([5, 5]), sample([5, 5])) is None
    assert iterations_to_decide(sample([5, 5.001]), sample([5, 5.001])) == 3
    on_the_margin = iterations_to_decide(sample([9.9, 10.1]), sample([9.9, 10.1]), margin=1e-6)
    assert on_the_margin is None
