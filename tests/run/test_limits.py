"""Tests when a run may begin: daily windows, also past midnight, and budgets of bytes."""

import datetime
from dataclasses import replace

import pytest

from ccmix.generators.most_sent import most_sent_bytes
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
from ccmix.run.limits import Budget, seconds_until_open
from support import iperf3_traffic, with_groups

HOUR_S = 3600.0
PATH = HostPath("localhost", Destination("h", "h", "h"), "iperf3", Commands(), rate_budget=(2000.0, 86400.0))
TRAFFIC = iperf3_traffic((Group("cubic"),), streams=2, duration_s=8.0, omit_s=2.0, interval_s=0.5, pacing_bps=400.0)
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
def test_a_window(window: tuple[float, float], lasts_s: float, now: datetime.datetime, waits_s: float) -> None:
    assert seconds_until_open(window, lasts_s, now) == waits_s


def test_a_window_in_another_zone_s_time() -> None:
    now = at(0, 30).astimezone(datetime.timezone(datetime.timedelta(hours=-8)))
    assert seconds_until_open((HOUR_S, 5 * HOUR_S), 60, now) == 1800


def test_before_the_first_run_its_pacing_says_what_it_will_send() -> None:
    assert Budget().refusal(RUN, 0) is None  # 2 streams x 400 bit/s x 10 s = 1000 bytes
    faster = replace(RUN, traffic=replace(TRAFFIC, pacing_bps=801.0))
    assert "a run sends 2 kB: together more than 2 kB" in (Budget().refusal(faster, 0) or "")
    assert Budget().refusal(UNPACED, 0) is None


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
def test_the_most_that_pacing_lets_a_run_send(groups: str, pacing_bps: float | None, sent_bytes: float | None) -> None:
    traffic = with_groups(replace(TRAFFIC, pacing_bps=pacing_bps), *parse_groups(groups))
    assert most_sent_bytes(PATH, traffic) == sent_bytes


def test_a_bottleneck_bounds_what_is_sent() -> None:
    emulated = replace(PATH, netem=Netem(0.01, rate_bps=1600.0))
    assert most_sent_bytes(emulated, UNPACED.traffic) == 2000
    assert most_sent_bytes(emulated, TRAFFIC) == 1000
    assert most_sent_bytes(replace(PATH, profile=Netem(0.01, rate_bps=800.0)), UNPACED.traffic) == 1000
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


def test_nothing_begins_when_all_of_the_budget_is_used() -> None:
    budget = Budget()
    budget.add("one", 100, 2000)
    assert "2 kB were sent in the period" in (budget.refusal(UNPACED, 101) or "")


def test_the_largest_run_so_far_says_what_the_next_will_send() -> None:
    budget = Budget()
    budget.add("one", 100, 600)
    assert budget.refusal(RUN, 101) is None
    budget.add("one", 200, 700)
    assert budget.refusal(RUN, 201) is None  # 1300 and 700
    budget.add("one", 300, 100)
    assert "1.4 kB were sent in the period" in (budget.refusal(RUN, 301) or "")


def test_what_was_sent_before_the_period_does_not_count() -> None:
    budget = Budget()
    budget.add("one", 100, 1500)
    assert budget.refusal(RUN, 101) is not None
    assert budget.refusal(RUN, 100 + 86400) is None


def test_each_entry_has_a_budget_of_its_own() -> None:
    budget = Budget()
    budget.add("other", 100, 1_000_000)
    assert budget.refusal(RUN, 101) is None


def test_without_a_budget_nothing_is_refused() -> None:
    budget = Budget()
    budget.add("one", 100, 1_000_000)
    assert budget.refusal(replace(RUN, path=replace(PATH, rate_budget=None)), 101) is None


def test_a_run_that_settled_may_last_to_its_limit_next_time() -> None:
    """It sent 500 bytes, and would have sent 2000 until its limit: more than the 1500 that are left."""
    budget = Budget()
    budget.add("one", 0, 500, stretched=4.0)
    assert "a run sends 2 kB: together more than 2 kB" in (budget.refusal(UNPACED, 1) or "")
    shorter = Budget()
    shorter.add("one", 0, 500, stretched=3.0)
    assert shorter.refusal(UNPACED, 1) is None


def by_pscheduler(**spec: str) -> Run:
    """Returns a run of two streams and 10 s that pScheduler is asked for, with further fields of its test."""
    task = PschedulerTask(
        "ps", None, True, None, 300.0, 300.0, spec=tuple((key.replace("_", "-"), spec[key]) for key in spec)
    )
    return replace(RUN, traffic=replace(TRAFFIC, sources=(PschedulerSource("", "src", (Group("cubic"),), 2, task),)))


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
def test_the_most_that_a_task_lets_a_run_send(spec: dict[str, str], sent_bytes: float | None) -> None:
    unpaced = replace(by_pscheduler(**spec).traffic, pacing_bps=None)
    assert most_sent_bytes(PATH, unpaced) == sent_bytes


def test_of_a_task_the_most_that_it_can_send_is_always_expected() -> None:
    """Other runs are ended at their budget; pScheduler's can't be."""
    run = by_pscheduler(bandwidth="400")
    budget = Budget()
    budget.add("one", 100, 600)
    assert budget.refusal(run, 101) is None
    budget.add("one", 102, 600)
    assert "1.2 kB were sent in the period and a run sends 1 kB: together more than 2 kB" in (
        budget.refusal(run, 103) or ""
    )
    assert budget.refusal(RUN, 103) is None


def test_of_steps_that_measure_a_path_their_cap_is_always_expected() -> None:
    """Each is a test of its own, and no budget ends it."""
    run = replace(RUN, traffic=replace(TRAFFIC, sources=(PathSource("", "src", 1600.0),)))
    assert most_sent_bytes(PATH, run.traffic) == 2000
    budget = Budget()
    assert budget.refusal(run, 100) is None
    budget.add("one", 100, 1)
    assert "a run sends 2 kB" in (budget.refusal(run, 101) or "")
    assert budget.refusal(RUN, 101) is None
