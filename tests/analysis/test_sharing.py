"""Tests comparisons of CCAs in separate runs and in the same run, on runs with chosen numbers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ccmix.analysis.sharing import Sharing, sharing
from ccmix.model import Group, HttpSource, Run, Topology, UdpSource
from ccmix.model.results import Finding, FinishedRun, Status
from support.finished_runs import finished_run, group_metrics, metrics
from support.model import TOPOLOGY, add_sources, iperf3_traffic, with_groups, with_senders

TRAFFIC = iperf3_traffic((Group("cubic"),), 8, 10.0, 0.0, 1.0)


def finished(
    entry: str,
    goodputs: dict[str, float],
    iteration: int,
    path: Topology = TOPOLOGY,
    status: Status = "valid",
    campaign: str = "one",
    **condition: str,
) -> tuple[str, FinishedRun]:
    """Returns a run with these bits per second for its groups, which have 4 flows each."""
    total = sum(goodputs.values())
    traffic = with_groups(TRAFFIC, *map(Group, goodputs))
    groups = [
        group_metrics(cca, goodput, streams=4, share=goodput / total, fair_share=1 / len(goodputs))
        for cca, goodput in goodputs.items()
    ]
    findings = [] if status == "valid" else [Finding("cpu", "busy", accepted=False)]
    run = Run(entry, condition, "receiver", iteration, 7, traffic, path)
    return campaign, finished_run(run, metrics(groups), status, findings)


def alone(cca: str, values: Sequence[float], **more: Any) -> list[tuple[str, FinishedRun]]:
    return [finished(f"all-{cca}", {cca: value}, at, **more) for at, value in enumerate(values, 1)]


def test_two_entries_of_one_cca_each_are_compared() -> None:
    found = sharing([*alone("cubic", [100, 110, 120]), *alone("bbr", [200, 215, 245])])
    [one] = found.alone
    assert (one.cca, one.baseline) == ("bbr", "cubic")
    assert one.value == pytest.approx(2)
    assert one.mean_bps == pytest.approx(220)
    assert one.result.baseline_mean == 110
    assert one.standing == "more"
    assert found.compared == 1


def test_cubic_is_the_baseline_wherever_it_stands_else_the_first() -> None:
    assert [one.cca for one in sharing([*alone("bbr", [1, 2]), *alone("cubic", [1, 2])]).alone] == [
        "bbr"
    ]
    assert [
        one.baseline for one in sharing([*alone("htcp", [1, 2]), *alone("bbr", [1, 2])]).alone
    ] == ["htcp"]


def test_only_what_has_the_same_path_and_traffic_is_compared() -> None:
    other = with_senders(TOPOLOGY, delay_s=TOPOLOGY.senders[0].delay_s * 2)
    assert sharing([*alone("cubic", [1, 2, 3]), *alone("bbr", [1, 2, 3], path=other)]).alone == ()


def test_a_sweep_of_the_cca_is_compared_within_its_entry() -> None:
    runs = [
        finished("one", {cca: value}, at, cca=cca)
        for cca, value in (("cubic", 5.0), ("bbr", 8.0))
        for at in (1, 2)
    ]
    [one] = sharing(runs).alone
    assert one.place.condition == ()
    assert one.value == 1.6


def test_names_of_two_entries_with_one_cca_differ() -> None:
    runs = [*alone("cubic", [1, 2]), *alone("bbr", [1, 2]), finished("again", {"bbr": 3.0}, 1)]
    assert [one.cca for one in sharing(runs).alone] == ["bbr (all-bbr)", "bbr (again)"]


def test_iterations_are_paired_and_those_without_a_partner_left_out() -> None:
    [one] = sharing([*alone("cubic", [100, 110]), *alone("bbr", [200, 220, 9000])]).alone
    assert one.result.blocks == 2
    assert one.value == 2
    apart = [*alone("cubic", [1, 2]), *alone("bbr", [1, 2], campaign="two")]
    assert sharing(apart).alone == ()


def test_iterations_that_all_say_the_same_tell_no_interval() -> None:
    [found] = sharing([*alone("cubic", [100, 100, 100]), *alone("bbr", [200, 200, 200])]).alone
    assert (found.standing, found.value, found.interval) == ("not tested", 2.0, None)
    [varied] = sharing([*alone("cubic", [100, 100, 100]), *alone("bbr", [200, 201, 202])]).alone
    assert varied.standing == "more"
    assert varied.interval


def test_shares_in_a_mix() -> None:
    runs = [
        finished("mixed", {"cubic": 20.0, "bbr": share}, at)
        for at, share in enumerate((80.0, 60.0, 180.0), 1)
    ]
    [one] = sharing(runs).beside
    assert (one.group, one.streams, one.others, one.equal) == ("bbr", 4, (("cubic", 4),), 0.5)
    assert one.value == pytest.approx((0.8 + 0.75 + 0.9) / 3)
    assert one.interval
    assert one.interval[0] < one.value < one.interval[1] <= 1
    assert one.standing == "more"


def beside_others(goodputs: dict[str, float], iteration: int) -> tuple[str, FinishedRun]:
    """Makes a run with UDP as cross traffic, which is not a group of the test."""
    campaign, alone = finished("tests", goodputs, iteration)
    run = replace(
        alone.run, traffic=add_sources(alone.run.traffic, UdpSource("others", "h2", 1e6, 1))
    )
    groups = (*alone.metrics.groups, group_metrics("others", 7.0, cca="-"))
    return campaign, replace(alone, run=run, metrics=replace(alone.metrics, groups=groups))


def test_cross_traffic_beside_a_test_is_no_group_of_a_comparison() -> None:
    mixed = [
        beside_others({"cubic": 20.0, "bbr": bbr}, at)
        for at, bbr in enumerate((80.0, 60.0, 180.0), 1)
    ]
    found = sharing(mixed)
    [one] = found.beside
    assert (one.group, one.others, one.value) == (
        "bbr",
        (("cubic", 4),),
        pytest.approx((0.8 + 0.75 + 0.9) / 3),
    )
    [single] = found.singles
    assert (single.names, single.goodput_bps.mean) == (
        ("cubic", "bbr"),
        pytest.approx((100 + 80 + 200) / 3),
    )
    each = [
        beside_others({cca: value}, at)
        for cca in ("cubic", "bbr")
        for at, value in ((1, 2.0), (2, 3.0))
    ]
    assert [(one.cca, one.baseline) for one in sharing(each).alone] == [("bbr", "cubic")]


def test_tests_beside_other_ccas_of_cross_traffic_are_not_compared() -> None:
    def beside_web(cca: str, web_cca: str, iteration: int) -> tuple[str, FinishedRun]:
        campaign, alone = finished("tests", {cca: 2.0}, iteration)
        web = HttpSource("web", "h2", 9, 1000, 1, web_cca)
        return campaign, replace(
            alone, run=replace(alone.run, traffic=add_sources(alone.run.traffic, web))
        )

    alike = [beside_web(cca, "reno", at) for cca in ("cubic", "bbr") for at in (1, 2)]
    assert [(one.cca, one.baseline) for one in sharing(alike).alone] == [("bbr", "cubic")]
    other = [beside_web(cca, cca, at) for cca in ("cubic", "bbr") for at in (1, 2)]
    assert sharing(other).alone == ()


def test_of_three_groups_each_has_a_share() -> None:
    runs = [finished("mixed", {"cubic": 1.0, "bbr": 2.0, "reno": 3.0}, at) for at in (1, 2, 3)]
    assert [(one.group, round(one.value, 3)) for one in sharing(runs).beside] == [
        ("cubic", 0.167),
        ("bbr", 0.333),
        ("reno", 0.5),
    ]


def test_short_flows_have_no_fair_share() -> None:
    campaign, run = finished("mixed", {"cubic": 1.0, "bbr": 2.0}, 1)
    first, second = run.metrics.groups
    without = replace(
        run, metrics=replace(run.metrics, groups=(replace(first, fair_share=None), second))
    )
    assert sharing([(campaign, without)]).beside == ()


def test_runs_that_do_not_count_are_counted_by_why() -> None:
    found: Sharing = sharing(
        [*alone("cubic", [1, 2, 3]), finished("all-cubic", {"cubic": 900.0}, 4, status="limited")]
    )
    assert (found.runs, found.valid, found.left_out) == (4, 3, (("cpu", 1),))
    assert [one.goodput_bps.mean for one in found.singles] == [2]


def test_p_values_are_adjusted_for_all_comparisons() -> None:
    """Of two comparisons with the same numbers, each p is twice that of a single comparison."""
    once = [*alone("cubic", [100, 110, 120]), *alone("bbr", [130, 141, 149])]
    other = replace(TOPOLOGY, rate_bps=TOPOLOGY.rate_bps * 2)
    twice = [
        *once,
        *alone("cubic", [100, 110, 120], path=other),
        *alone("bbr", [130, 141, 149], path=other),
    ]
    [one], both = sharing(once).alone, sharing(twice).alone
    assert one.p_adjusted
    assert [two.p_adjusted for two in both] == [pytest.approx(2 * one.p_adjusted)] * 2
