"""Tests comparisons of conditions, entries and groups with a baseline among them, paired by
block.
"""

from dataclasses import replace

import pytest

from ccmix.analysis.effects import Baseline, Comparison, compare_with_baseline
from ccmix.model import Run
from ccmix.model.results import FinishedRun, Status
from support.finished_runs import finished_run, group_metrics, metrics


def finished_at(
    run: Run, goodput_bps: float, status: Status = "valid", **groups: float
) -> FinishedRun:
    of_groups = [group_metrics(name, value) for name, value in groups.items()]
    return finished_run(run, metrics(of_groups, goodput_bps=goodput_bps), status)


def runs(
    run: Run, values: dict[str, list[float]], delay: str = "5ms"
) -> list[tuple[str, FinishedRun]]:
    """Returns a run for each CCA and iteration."""
    return [
        (
            "a",
            finished_at(
                replace(run, condition={"delay": delay, "cca": cca}, iteration=number), value
            ),
        )
        for cca, of_cca in values.items()
        for number, value in enumerate(of_cca, 1)
    ]


def by_place(found: list[Comparison]) -> dict[tuple[str, str], Comparison]:
    return {(one.condition.get("delay", ""), one.value): one for one in found}


def test_each_setting_against_the_baseline_with_all_else_equal(run: Run) -> None:
    finished = runs(run, {"cubic": [10, 20, 30], "bbr": [11, 22, 33], "reno": [10, 20, 30]})
    finished += runs(run, {"cubic": [5, 6, 5], "bbr": [6, 7, 6]}, delay="44ms")
    found = by_place(compare_with_baseline(Baseline("cca", "cubic"), finished))
    assert set(found) == {("5ms", "bbr"), ("5ms", "reno"), ("44ms", "bbr")}
    bbr = found["5ms", "bbr"]
    assert bbr.result
    assert (bbr.result.blocks, bbr.result.difference, bbr.result.gain_percent, bbr.left_out) == (
        3,
        2,
        10,
        0,
    )
    # 0.0742 of one comparison, the second smallest of three, counts twice
    assert bbr.p_adjusted == pytest.approx(2 * 0.0742, abs=2e-4)
    assert not bbr.seen
    assert found["44ms", "bbr"].seen
    assert found["5ms", "reno"].p_adjusted == 1


def test_blocks_without_a_valid_run_of_both_are_left_out_and_counted(run: Run) -> None:
    finished = runs(run, {"cubic": [10, 20, 30, 40], "bbr": [11, 22, 33]})
    campaign, first = finished[0]
    finished[0] = (campaign, finished_at(first.run, 999, "limited"))
    [bbr] = compare_with_baseline(Baseline("cca", "cubic"), finished)
    assert bbr.result
    assert (bbr.result.blocks, bbr.left_out, bbr.result.difference) == (2, 2, 2.5)
    assert bbr.p_adjusted is None


def test_iterations_of_two_campaigns_are_blocks_of_their_own(run: Run) -> None:
    finished = runs(run, {"cubic": [10, 20, 30], "bbr": [11, 22, 33]})
    [bbr] = compare_with_baseline(
        Baseline("cca", "cubic"), finished + [("b", run) for _, run in finished]
    )
    assert bbr.result
    assert (bbr.result.blocks, bbr.result.difference) == (6, 2)


def test_groups_of_a_run_are_compared_within_it(run: Run) -> None:
    finished = [
        ("a", finished_at(replace(run, iteration=number), 0, cubic=value, bbr=value + 3))
        for number, value in enumerate([10.0, 20.0, 30.0], 1)
    ]
    [bbr] = compare_with_baseline(Baseline("group", "cubic"), finished)
    assert bbr.result
    assert (bbr.value, bbr.result.difference, bbr.result.baseline_mean, bbr.seen) == (
        "bbr",
        3,
        20,
        True,
    )


def test_entries_of_the_same_condition(run: Run) -> None:
    finished = [
        ("a", finished_at(replace(run, entry=entry, iteration=number), value + number))
        for entry, value in (("one", 10), ("two", 20))
        for number in (1, 2, 3)
    ]
    [two] = compare_with_baseline(Baseline("entry", "one"), finished)
    assert two.result
    assert (two.entry, two.value, two.result.difference) == ("", "two", 10)


def test_a_baseline_that_is_not_there(run: Run) -> None:
    finished = runs(run, {"cubic": [10], "bbr": [11]})
    with pytest.raises(ValueError, match="nothing has cca=vegas: there is cubic, bbr"):
        compare_with_baseline(Baseline("cca", "vegas"), finished)
    with pytest.raises(ValueError, match="no such key, only entry, group, "):
        compare_with_baseline(Baseline("mtu", "1500"), finished)


def test_a_baseline_that_nothing_can_be_paired_with(run: Run) -> None:
    with pytest.raises(
        ValueError, match=r"^nothing can be paired with cca=cubic: there is no other cca$"
    ):
        compare_with_baseline(Baseline("cca", "cubic"), runs(run, {"cubic": [10, 11, 12]}))
    finished = [
        (
            "a",
            finished_at(
                replace(run, entry=entry, condition={"delay": delay}, iteration=number),
                value + number,
            ),
        )
        for entry, delay, value in (("one", "5ms", 10), ("two", "7ms", 20))
        for number in (1, 2, 3)
    ]
    with pytest.raises(
        ValueError, match=r"^nothing can be paired with entry=one: two ran in other conditions$"
    ):
        compare_with_baseline(Baseline("entry", "one"), finished)
