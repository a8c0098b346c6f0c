"""Tests random loss and bursts, against series whose truth is known."""

from dataclasses import replace

import polars as pl
import pytest

from ccmix.twin.estimate import Estimate
from ccmix.twin.observed import PathRun, PathStep
from ccmix.twin.way import QueueAtBottleneck, binomial_interval, gilbert, loss
from support.synthetic_path import Truth, covers, measured

SEEDS = range(60)
COVERED = 0.9


def estimates(truth: Truth, seed: int = 1) -> dict[str, Estimate]:
    return {each.quantity: each for each in loss(measured(truth, above=(), seed=seed))}


@pytest.mark.parametrize(
    "truth", [Truth(loss=0.001), Truth(loss=0.01), Truth(loss=0.005, burst_packets=5)]
)
def test_intervals_cover_the_loss_in_nine_of_ten_runs(truth: Truth) -> None:
    covered = 0
    for seed in SEEDS:
        estimate = estimates(truth, seed)["random loss"]
        covered += covers(estimate, truth.loss)
    assert covered >= COVERED * len(SEEDS)


def test_bursts_are_told_from_single_losses() -> None:
    assert estimates(Truth(loss=0.01))["burst of losses"].value is None
    length = estimates(Truth(loss=0.01, burst_packets=8))["burst of losses"].value
    assert length is not None
    assert 8 / 1.6 < length < 8 * 1.6


def test_no_loss_seen_leaves_what_so_many_packets_can_hide() -> None:
    estimate = estimates(Truth())["random loss"]
    assert estimate.value == 0
    assert estimate.low == 0
    assert estimate.high == pytest.approx(3.7 / (40 * 12.5e6 / 8 / 1514), rel=0.05)


def test_packets_that_others_overtook_at_the_end_of_the_step_are_not_lost() -> None:
    """The receiver takes them for lost in one interval, and back in the next, which is the last."""
    seen = measured(Truth(), above=())
    below = seen.below
    assert below is not None
    overtaken = pl.Series([*[0] * (below.udp.height - 2), 8, -8], dtype=pl.Int64)
    step = replace(below, udp=below.udp.with_columns(lost_packets=overtaken))
    estimate = loss(replace(seen, steps=(step,)))[0]
    assert (estimate.value, estimate.low) == (0, 0)


FULL_S = 0.02  # of a queue


def beside_bursts(each_s: float, lost: int, *, seen_s: float = FULL_S) -> PathRun:
    """Returns a run in which others fill the queue for 0.1 s, each time so much later, and packets
    are lost then.
    """
    run = measured(Truth(), above=())
    assert run.below
    since_s = pl.col("time_s").mod(each_s)
    udp = run.below.udp.with_columns(
        lost_packets=pl.when(since_s.is_between(0.03, 0.1)).then(lost).otherwise(0)
    )
    waits_s = pl.when(since_s < 0.1).then(seen_s).otherwise(0.0)
    rtt = run.rtt.with_columns(pl.col("rtt_s") + waits_s)
    return replace(run, rtt=rtt, steps=(replace(run.below, udp=udp),))


QUEUE = QueueAtBottleneck(0.02, 0.001, FULL_S, others=True)


def test_what_is_lost_while_others_fill_the_queue_is_no_random_loss() -> None:
    run = beside_bursts(each_s=1, lost=2)
    assert loss(run)[0].value
    estimate = loss(run, QUEUE)[0]
    assert (estimate.value, estimate.low) == (0, 0)
    assert estimate.high is not None
    assert estimate.high < 1e-3


@pytest.mark.parametrize(
    ("run", "queue"),
    [
        pytest.param(beside_bursts(each_s=0.1, lost=2), QUEUE, id="the queue is always full"),
        pytest.param(
            beside_bursts(1, 2), replace(QUEUE, full_s=None), id="ours have a queue of their own"
        ),
        pytest.param(
            beside_bursts(1, 2, seen_s=0.008),
            replace(QUEUE, full_s=0.008),
            id="shorter than a question",
        ),
    ],
)
def test_bursts_that_may_be_others_doing_leave_an_upper_bound(
    run: PathRun, queue: QueueAtBottleneck
) -> None:
    estimate, _, burst = loss(run, queue)
    assert (estimate.value, estimate.low, burst.value) == (None, 0, None)
    assert estimate.high


def test_single_losses_beside_others_bursts_leave_an_upper_bound() -> None:
    run = measured(Truth(loss=0.01), above=())
    steady = QueueAtBottleneck(0.02, 0.001, None, others=True)
    assert loss(run, steady)[0].value
    assert loss(run, replace(steady, bursts=True))[0].value is None


def test_bursts_that_nobody_else_causes_are_the_path_s() -> None:
    alone, _, burst = loss(beside_bursts(1, 2), replace(QUEUE, full_s=None, others=False))
    assert alone.value
    assert burst.value


def test_a_queue_that_is_managed_loses_packets_before_it_is_full() -> None:
    run = beside_bursts(1, 2, seen_s=0.3 * FULL_S)
    assert loss(run, replace(QUEUE, managed=True))[0].value == 0
    assert loss(run, QUEUE)[0].value


def test_the_binomial_interval_is_clopper_and_pearsons() -> None:
    low, high = binomial_interval(4, 20)
    assert (low, high) == pytest.approx((0.0573, 0.4366), abs=1e-4)  # binom.test(4, 20) of R


def test_gilberts_parameters_lose_the_share_in_such_bursts() -> None:
    p, r = gilbert(0.01, 5)
    assert p / (p + r) == pytest.approx(0.01)
    assert 1 / r == pytest.approx(5)


def test_retransmissions_are_an_upper_bound_and_no_value() -> None:
    sockets = pl.DataFrame(
        {"time_s": [1.0, 9.0], "port": [1, 1], "data_segs_out": [0, 10_000], "retransmits": [0, 20]}
    )
    seen = PathRun("a run", (PathStep("test", 0.0, 10.0, 1, "cubic"),), pl.DataFrame(), sockets)
    estimate = loss(seen)[0]
    assert estimate.value is None
    assert estimate.high is not None
    assert 0.002 < estimate.high < 0.004
    assert estimate.unknown
