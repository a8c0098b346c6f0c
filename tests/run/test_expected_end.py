"""When a campaign is expected to end, before any run has ended and after."""

from dataclasses import replace

import pytest

from ccmix.model import Group, Run
from ccmix.run.expected_end import ExpectedEnd
from support import TOPOLOGY, host_run, iperf3_traffic

RUN_S = 12.0  # of a run between hosts with 10 s of traffic


def runs(count: int, **path: object) -> list[Run]:
    return [replace(host_run("localhost", "b", **path), iteration=number) for number in range(count)]  # type: ignore[arg-type]


def test_before_any_run_has_ended_the_model_says_it() -> None:
    four = runs(4)
    end = ExpectedEnd(four, in_lab=False)
    assert end.left_s(0.0) == pytest.approx(4 * RUN_S)
    end.started(four[0], 100.0)
    assert end.left_s(105.0) == pytest.approx(4 * RUN_S - 5)


def test_runs_that_take_twice_as_long_correct_it() -> None:
    hundred = runs(100)
    end, now_s = ExpectedEnd(hundred, in_lab=False), 0.0
    for run in hundred[:50]:
        end.started(run, now_s)
        now_s += 2 * RUN_S
        end.ended(run, now_s, finished=True)
    assert end.left_s(now_s) == pytest.approx(50 * 2 * RUN_S, rel=0.05)


def test_runs_that_failed_or_were_skipped_do_not_say_how_long_others_take() -> None:
    four = runs(4)
    end = ExpectedEnd(four, in_lab=False)
    end.started(four[0], 0.0)
    end.ended(four[0], 0.1, finished=False)
    end.ended(four[1], 0.1, finished=False)
    assert end.left_s(0.1) == pytest.approx(2 * RUN_S)


def test_as_many_as_are_seen_at_the_same_time_are_taken_to_be_made_so() -> None:
    path = replace(TOPOLOGY, rate_bps=1e8)
    traffic = iperf3_traffic((Group("bbr"),), 4, 60.0, 0.0, 1.0)
    nine = [Run("one", {}, "receiver", number, 7, traffic, path) for number in range(9)]
    end = ExpectedEnd(nine, in_lab=True)
    alone_s = end.left_s(0.0)
    for run in nine[:3]:
        end.started(run, 0.0)
    assert alone_s / 3 < end.left_s(0.0) < alone_s / 2.5


def test_pauses_count() -> None:
    assert ExpectedEnd(runs(3, pause_s=100.0), in_lab=False).left_s(0.0) > 300


def test_a_run_that_takes_longer_than_expected_does_not_end_in_the_past() -> None:
    [run] = runs(1)
    end = ExpectedEnd([run], in_lab=False)
    end.started(run, 0.0)
    assert end.left_s(1000.0) == 0.0
    end.ended(run, 1000.0, finished=True)
    assert end.left_s(1000.0) == 0.0
