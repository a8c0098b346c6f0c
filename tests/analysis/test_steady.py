"""Tests when a run ends because it has settled, on hand-made series and on random series with fixed
seeds.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from ccmix.analysis.lengths import change, is_steady, looks_s
from ccmix.analysis.settled import batch_means, changes_of
from ccmix.model import Buffer, Group, Run
from support.model import iperf3_traffic, one_sender

Floats = NDArray[np.float64]

INTERVALS = 100  # until the first look
LOOKS = (1, 2, 4, 8)  # in times of the first; the limit is the next doubling
TIMES = (np.arange(16 * INTERVALS) + 0.5) / INTERVALS
RUNS = 200


def noise(over: float, runs: int, seed: int, deviation: float = 0.075) -> Floats:
    """Returns noise around 1 that is correlated (until 1/e) over a part of the time until the first
    look.
    """
    random = np.random.default_rng(seed)
    correlation = np.exp(-1 / (over * INTERVALS))
    steps = random.standard_normal((runs, len(TIMES))) * np.sqrt(1 - correlation**2)
    start = correlation * random.standard_normal((runs, 1))
    series: Floats = 1 + deviation * lfilter([1], [1, -correlation], steps, axis=1, zi=start)[0]
    return series


def ends_at(goodputs: Sequence[Sequence[float]]) -> int | None:
    """Returns the look at which a run of these groups ends; None if it ends at its limit."""
    return next(
        (
            look
            for look in LOOKS
            if is_steady({str(at): own[: look * INTERVALS] for at, own in enumerate(goodputs)})
        ),
        None,
    )


def ended(runs: Floats, groups: int = 1) -> dict[int | None, float]:
    """Returns the share of runs that end at each look; a run has a row for each group."""
    each = runs.reshape(-1, groups, len(TIMES)).tolist()
    ends = [ends_at(goodputs) for goodputs in each]
    return {look: ends.count(look) / len(ends) for look in (*LOOKS, None)}


DRIFTS: dict[str, Callable[[Floats], Floats]] = {
    "rises until 1": lambda t: 1 + np.minimum(t, 1),
    "rises until 2": lambda t: 1 + np.minimum(t / 2, 1),
    "falls until 1": lambda t: 2 - np.minimum(t, 1),
    "approaches within 0.3": lambda t: 2 - np.exp(-t / 0.3),
    "approaches within 1": lambda t: 2 - np.exp(-t),
    "decays within 0.3": lambda t: 1 + np.exp(-t / 0.3),
    "decays within 1": lambda t: 1 + np.exp(-t),
    "warms up": lambda t: 1 + 5 * np.exp(-t / 0.05),
    "doubles at 0.5": lambda t: 1 + (t > 0.5),
}


@pytest.mark.parametrize("over", [pytest.param(0.01, marks=pytest.mark.long), 0.2])
@pytest.mark.parametrize("drift", DRIFTS)
def test_no_run_ends_while_its_goodput_changes_by_30_percent(drift: str, over: float) -> None:
    """Over all looks together, at most 2% of runs end while the change without noise is
    that large.
    """
    means = DRIFTS[drift](TIMES)
    large = [look for look in LOOKS if abs(change(means[: look * INTERVALS].tolist())) >= 0.3]
    assert large
    ends = ended(means * noise(over, RUNS, 1))
    assert sum(ends[look] for look in large) <= 0.02


@pytest.mark.parametrize(
    ("over", "groups", "at_first", "at_limit"),
    [(0.01, 1, 0.99, 0), (0.01, 2, 0.99, 0), (0.2, 1, 0.7, 0), (0.2, 2, 0.5, 0.02)],
)
def test_a_steady_run_ends_soon(over: float, groups: int, at_first: float, at_limit: float) -> None:
    """Most end at the first look. The longer noise is correlated, and the more groups there are,
    the later they end.
    """
    ends = ended(noise(over, RUNS * groups, 2), groups)
    assert ends[1] >= at_first
    assert ends[None] <= at_limit


@pytest.mark.parametrize(
    ("groups", "over", "deviation", "at_first", "at_limit"),
    [
        (1, 0.01, 0.075, 1.0, 0.0),
        (1, 0.2, 0.075, 0.76, 0.0),
        (2, 0.01, 0.075, 1.0, 0.0),
        (2, 0.2, 0.075, 0.59, 0.0),
        pytest.param(8, 0.01, 0.075, 0.99, 0.0, marks=pytest.mark.long),
        pytest.param(8, 0.2, 0.075, 0.1, 0.13, marks=pytest.mark.long),
        (2, 0.2, 0.15, 0.19, 0.2),
    ],
)
def test_the_page_says_how_many_steady_runs_end_when(
    groups: int, over: float, deviation: float, at_first: float, at_limit: float
) -> None:
    """The table of docs/explanation/settling.md has these shares, from more runs than here."""
    ends = ended(noise(over, 500 * groups, 2, deviation), groups)
    assert ends[1] == pytest.approx(at_first, abs=0.05)
    assert ends[None] == pytest.approx(at_limit, abs=0.05)


@pytest.mark.parametrize("over", [0.01, 0.2])
def test_a_change_that_is_slower_than_the_first_look_is_missed_in_half_of_runs(over: float) -> None:
    """The goodput falls by half in four times the time of the first look, so exactly by the allowed
    10% until the first look.
    """
    ends = ended((2 - np.minimum(TIMES / 4, 1)) * noise(over, 500, 1))
    assert ends[1] == pytest.approx(0.49, abs=0.06)
    assert ends[2] + ends[4] + ends[8] <= 0.03


@pytest.mark.parametrize("periods", [5, 5.5, 7.3])
def test_a_sawtooth_ends_at_the_first_look(periods: float) -> None:
    """BBR has one, because it drains the queue for 2% of its cycle; the first look holds at least 5
    cycles.
    """
    phase = (TIMES * periods + np.random.default_rng(3).random((RUNS, 1))) % 1
    assert ended(1 + np.where(phase < 0.02, -1.0, 0.1 * phase))[1] >= 0.98


def test_a_share_may_change_where_no_goodput_does() -> None:
    """Both goodputs jump up and down together, which hides the change of the share."""
    together, share = np.tile([0.5, 1.5], 40), np.linspace(0.46, 0.54, 80)
    own, other = (together * share).tolist(), (together * (1 - share)).tolist()
    assert not is_steady({"cubic": own, "bbr": other})
    assert is_steady({"cubic": together.tolist()})


@pytest.mark.parametrize("count", [20, 21, 22, 23, 57])
def test_the_change_is_that_of_the_verdict(count: int) -> None:
    values = np.random.default_rng(4).random(count)
    assert change(values.tolist()) == pytest.approx(changes_of(batch_means(values[np.newaxis]))[0])
    assert change([0.0] * count) == 0


@pytest.mark.parametrize(
    ("cca", "interval_s", "limit_s", "looks"),
    [
        (
            "cubic",
            0.5,
            100,
            [10, 20, 40, 80],
        ),  # 5 periods of CUBIC's are 1.7 s here, and 10 s are the minimum
        ("bbr", 0.5, 600, [60, 120, 240, 480]),  # 5 cycles
        ("cubic", 2.0, 100, [60]),  # 20 intervals, as a duration that people would write
        ("bbr", 0.5, 60, []),
    ],
)
def test_looks_are_doublings_below_the_limit(
    run: Run, cca: str, interval_s: float, limit_s: float, looks: list[float]
) -> None:
    path = one_sender(
        rate_bps=10e6,
        delay_s=0.005,
        loss=None,
        buffer=Buffer(1, "bdp"),
        mtu_bytes=1500,
        offloads=False,
    )
    traffic = iperf3_traffic(
        (Group(cca),), streams=1, duration_s=limit_s, omit_s=2.0, interval_s=interval_s
    )
    assert list(looks_s(replace(run, path=path, traffic=traffic))) == looks
