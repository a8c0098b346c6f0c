"""Tests when a run may begin, by daily windows and budgets of bytes, and when a campaign ends."""

import datetime
from dataclasses import replace

import pytest

from ccmix.generators.pscheduler.task import most_sent_bytes
from ccmix.model import (
    Commands,
    CommandSource,
    Destination,
    Group,
    HostPath,
    Netem,
    PathSource,
    PschedulerSource,
    PschedulerTask,
    Run,
    Traffic,
)
from ccmix.model.group_grammar import parse_groups
from ccmix.run.schedule import DAY_S, Budget, ExpectedEnd, latest_end_s, seconds_until_open
from support.model import TOPOLOGY, host_run, iperf3_traffic, with_groups

HOUR_S = 3600.0
PATH = HostPath(
    "localhost", Destination("h", "h", "h"), "iperf3", Commands(), rate_budget=(2000.0, 86400.0)
)
TRAFFIC = iperf3_traffic(
    (Group("cubic"),), streams=2, duration_s=8.0, omit_s=2.0, interval_s=0.5, pacing_bps=400.0
)
RUN = Run("one", {}, "h", 1, 7, TRAFFIC, PATH)


def at(hour: int, minute: int = 0) -> datetime.datetime:
    return datetime.datetime(2026, 11, 20, hour, minute, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("window", "lasts_s", "now", "waits_s"),
    [
        ((1 * HOUR_S, 5 * HOUR_S), 60, at(1), 0),
        ((1 * HOUR_S, 5 * HOUR_S), 60, at(4, 58), 0),
        ((1 * HOUR_S, 5 * HOUR_S), 180, at(4, 58), 20 * HOUR_S + 120),  # would end after 05:00
        ((1 * HOUR_S, 5 * HOUR_S), 60, at(0), HOUR_S),
        ((1 * HOUR_S, 5 * HOUR_S), 60, at(5), 20 * HOUR_S),
        ((22 * HOUR_S, 2 * HOUR_S), 60, at(23), 0),
        ((22 * HOUR_S, 2 * HOUR_S), 60, at(1), 0),
        ((22 * HOUR_S, 2 * HOUR_S), 60, at(2), 20 * HOUR_S),
        ((1 * HOUR_S, 2 * HOUR_S), 9 * HOUR_S, at(1), 0),  # never fits: begins at the opening
        ((1 * HOUR_S, 2 * HOUR_S), 9 * HOUR_S, at(1, 1), 24 * HOUR_S - 60),
    ],
)
def test_a_window(
    window: tuple[float, float], lasts_s: float, now: datetime.datetime, waits_s: float
) -> None:
    assert seconds_until_open(window, lasts_s, now) == waits_s


def test_a_window_in_another_zone_s_time() -> None:
    now = at(0, 30).astimezone(datetime.timezone(datetime.timedelta(hours=-8)))
    assert seconds_until_open((HOUR_S, 5 * HOUR_S), 60, now) == 1800


UNPACED = replace(RUN, traffic=replace(TRAFFIC, pacing_bps=None))


@pytest.mark.parametrize(
    ("groups", "pacing_bps", "sent_bytes"),
    [
        ("cubic", None, None),
        ("cubic", 400.0, 1000.0),
        ("bbr@8K", None, 20_000.0),
        ("bbr@8K", 4000.0, 10_000.0),
        ("bbr@4K", 8000.0, 10_000.0),
        ("cubic,bbr@8K", None, None),
        ("cubic@8K,bbr@16K", None, 30_000.0),
        ("cubic@8K,bbr@16K+4s", None, 22_000.0),  # 10 s of the one, 6 s of the other
        ("bbr@8K+60s,bbr@8K", None, 10_000.0),
    ],
)
def test_the_most_that_pacing_lets_a_run_send(
    groups: str, pacing_bps: float | None, sent_bytes: float | None
) -> None:
    traffic = with_groups(replace(TRAFFIC, pacing_bps=pacing_bps), *parse_groups(groups))
    assert most_sent_bytes(PATH, traffic) == sent_bytes


def test_a_bottleneck_bounds_what_is_sent() -> None:
    emulated = replace(PATH, netem=Netem(0.01, rate_bps=1600.0))
    assert most_sent_bytes(emulated, UNPACED.traffic) == 2000
    assert most_sent_bytes(emulated, TRAFFIC) == 1000
    assert (
        most_sent_bytes(replace(PATH, profile=Netem(0.01, rate_bps=800.0)), UNPACED.traffic) == 1000
    )
    assert most_sent_bytes(replace(PATH, netem=Netem(0.01)), UNPACED.traffic) is None


def test_a_command_may_send_anything() -> None:
    command = Traffic((CommandSource("", "src", "x"),), 10.0, 0.0, 0.5)
    assert most_sent_bytes(PATH, command) is None
    assert Budget().cap_bytes(replace(RUN, traffic=command), 0) == 2000


def test_what_may_exceed_the_budget_is_to_end_with_it() -> None:
    budget = Budget()
    assert budget.cap_bytes(UNPACED, 0) == 2000
    assert budget.cap_bytes(RUN, 0) is None, "it sends 1000 bytes at most"
    budget.add("one", 100, 600)
    budget.add("other", 100, 600)
    assert budget.cap_bytes(UNPACED, 101) == 1400
    assert budget.cap_bytes(RUN, 101) is None
    budget.add("one", 102, 500)
    assert budget.cap_bytes(RUN, 103) == 900, "runs so far were small, and this one may be larger"
    assert budget.cap_bytes(UNPACED, 103 + 86400) == 2000
    assert budget.cap_bytes(replace(RUN, path=replace(PATH, rate_budget=None)), 103) is None


def by_pscheduler(**spec: str) -> Run:
    """Returns a run of two streams and 10 s for pScheduler, with further fields of its
    test.
    """
    task = PschedulerTask(
        "ps",
        None,
        True,
        None,
        300.0,
        300.0,
        spec=tuple((key.replace("_", "-"), spec[key]) for key in spec),
    )
    return replace(
        RUN,
        traffic=replace(
            TRAFFIC, sources=(PschedulerSource("", "src", (Group("cubic"),), 2, task),)
        ),
    )


@pytest.mark.parametrize(
    ("spec", "sent_bytes"),
    [
        ({}, None),
        ({"bandwidth": "400"}, 1000.0),
        ({"bandwidth": '"4k"'}, 10_000.0),
        ({"bandwidth": '"1.5 Ki"'}, 3840.0),
        ({"fq_rate": "800"}, 2000.0),
        ({"bandwidth": "800", "fq_rate": "400"}, 1000.0),
        ({"bandwidth": "0"}, None),  # iperf3's word for no limit
        ({"bandwidth": '"fast"'}, None),
        ({"mss": "1400"}, None),
    ],
)
def test_the_most_that_a_task_lets_a_run_send(
    spec: dict[str, str], sent_bytes: float | None
) -> None:
    unpaced = replace(by_pscheduler(**spec).traffic, pacing_bps=None)
    assert most_sent_bytes(PATH, unpaced) == sent_bytes


def by_steps() -> Run:
    """Returns a run of steps that measure a path; each step is a separate test, which no budget
    ends.
    """
    return replace(RUN, traffic=replace(TRAFFIC, sources=(PathSource("", "src", 1600.0),)))


def test_the_most_that_steps_let_a_run_send() -> None:
    assert most_sent_bytes(PATH, by_steps().traffic) == 2000


def without_budget() -> Run:
    return replace(RUN, path=replace(PATH, rate_budget=None))


TWICE = [("one", 100, 600), ("one", 102, 600)]
THRICE = [("one", 100, 600), ("one", 200, 700), ("one", 300, 100)]


@pytest.mark.parametrize(
    ("sent", "run", "now_s", "reason"),
    [
        # before the first run, its pacing says what it will send: 1000 bytes
        ([], RUN, 0, None),
        (
            [],
            replace(RUN, traffic=replace(TRAFFIC, pacing_bps=801.0)),
            0,
            "a run is expected to send 2 kB: ",
        ),
        ([], UNPACED, 0, None),
        ([("one", 100, 2000)], UNPACED, 101, "2 kB were sent in the period"),
        # the largest so far says what the next will send
        (THRICE[:1], RUN, 101, None),
        (THRICE[:2], RUN, 201, None),
        (THRICE, RUN, 301, "1.4 kB were sent in the period"),
        # what was sent before the period does not count, nor what other entries sent
        ([("one", 100, 1500)], RUN, 101, "1.5 kB were sent"),
        ([("one", 100, 1500)], RUN, 100 + 86400, None),
        ([("other", 100, 1_000_000)], RUN, 101, None),
        ([("one", 100, 1_000_000)], without_budget(), 101, None),
        # a run that settled may last to its limit next time
        (
            [("one", 0, 500, 4.0)],
            UNPACED,
            1,
            "expected to send 2 kB: together more than the budget of 2 kB",
        ),
        ([("one", 0, 500, 3.0)], UNPACED, 1, None),
        # pScheduler's runs and steps can't be ended, so their maximum is expected
        (TWICE[:1], by_pscheduler(bandwidth="400"), 101, None),
        (TWICE, by_pscheduler(bandwidth="400"), 103, "1.2 kB were sent in the period, and a run "),
        (TWICE, RUN, 103, None),
        ([], by_steps(), 100, None),
        ([("one", 100, 1)], by_steps(), 101, "a run is expected to send 2 kB"),
        ([("one", 100, 1)], RUN, 101, None),
    ],
)
def test_a_run_is_refused_that_would_exceed_the_budget(
    sent: list[tuple[str, float, int]], run: Run, now_s: float, reason: str | None
) -> None:
    budget = Budget()
    for each in sent:
        budget.add(*each)
    refusal = budget.refusal(run, now_s)
    assert refusal is None if reason is None else reason in (refusal or "")


@pytest.mark.parametrize(
    ("window", "now_s", "ends_s"),
    [
        ((3600.0, 18000.0), 7200.0, 18000.0),
        ((79200.0, 7200.0), 3 * DAY_S + 80000.0, 4 * DAY_S + 7200.0),
        ((79200.0, 7200.0), 3 * DAY_S + 60.0, 3 * DAY_S + 7200.0),
    ],
)
def test_when_the_window_closes_that_is_open(
    window: tuple[float, float], now_s: float, ends_s: float
) -> None:
    assert latest_end_s(window, now_s) == ends_s


RUN_S = 12.0  # of a run between hosts with 10 s of traffic


def runs(count: int, **path: object) -> list[Run]:
    return [
        replace(host_run("localhost", "b", **path), iteration=number) for number in range(count)
    ]  # type: ignore[arg-type]


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
