"""Statements judged by runs with chosen numbers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ccmix.model.results import Settling
from ccmix.papers import text
from ccmix.papers.experiment import Bound, Of, Quotient, Statement, Tried
from ccmix.papers.judging import JudgedStatement, Judgement, judge
from ccmix.papers.measured import MeasuredRuns, MeasuredSample
from finished_runs import group_metrics
from papers.runs import run_of, run_with

SHARE = Of("share", "entry", cca="bbr", at={"buffer": "1bdp"})


def runs_with_shares(shares: Sequence[float]) -> MeasuredRuns:
    return MeasuredRuns(
        tuple(
            run_of({"bbr": share * 1e6, "cubic": (1 - share) * 1e6}, number, {"buffer": "1bdp"})
            for number, share in enumerate(shares, start=1)
        )
    )


def outcome(shares: Sequence[float], *bounds: Bound) -> Judgement:
    [judged] = judge([Statement("name", "1", "sentence", bounds)], runs_with_shares(shares))
    return judged.outcome


def test_a_bound_holds_or_fails_where_the_whole_interval_is_on_one_side() -> None:
    near = (0.60, 0.61, 0.62)
    assert outcome(near, Bound(SHARE, least=0.5)) is Judgement.HOLDS
    assert outcome(near, Bound(SHARE, most=0.5)) is Judgement.FAILS
    assert outcome(near, Bound(SHARE, least=0.61)) is Judgement.UNTOLD
    assert outcome(near, Bound(SHARE, least=0.5, most=0.7)) is Judgement.HOLDS
    assert outcome(near, Bound(SHARE, least=0.5, most=0.61)) is Judgement.UNTOLD


def test_fewer_than_three_runs_tell_nothing() -> None:
    assert outcome((0.9, 0.9), Bound(SHARE, least=0.5)) is Judgement.UNTOLD


def test_a_statement_holds_if_all_of_its_bounds_hold() -> None:
    near = (0.60, 0.61, 0.62)
    holds, fails, untold = Bound(SHARE, least=0.5), Bound(SHARE, most=0.5), Bound(SHARE, least=0.61)
    unmeasured = Bound(Of("share", "other entry", cca="bbr"), least=0.5)
    assert outcome(near, holds, unmeasured) is Judgement.HOLDS
    assert outcome(near, holds, untold) is Judgement.UNTOLD
    assert outcome(near, holds, untold, fails) is Judgement.FAILS
    assert outcome(near, unmeasured) is Judgement.UNMEASURED


def with_tries(shares: Sequence[float], **others: Sequence[float]) -> JudgedStatement:
    """Returns a statement that asks for at least half, with an entry for each setting that was tried."""
    runs = runs_with_shares(shares).runs
    for entry, each in others.items():
        runs += tuple(replace(run, run=replace(run.run, entry=entry)) for run in runs_with_shares(each).runs)
    tried = tuple(Tried(entry, f"{entry} on") for entry in ("rack", "tso", "hystart"))
    bounds = (Bound(SHARE, least=0.5), Bound(replace(SHARE, at={"buffer": "2bdp"}), least=0.5))
    [judged] = judge([Statement("name", "1", "sentence", bounds, tried=tried)], MeasuredRuns(runs))
    return judged


LOW, HIGH, WIDE = (0.30, 0.31, 0.32), (0.60, 0.61, 0.62), (0.1, 0.5, 0.9)


@pytest.mark.parametrize(
    ("tried", "explained"),
    [
        ({}, ""),
        ({"tso": HIGH}, "with tso on: holds (1 of 2 measured)"),
        ({"tso": WIDE}, "with tso on: cannot be told (1 of 2 measured)"),
        ({"rack": LOW}, "tried rack on: not with that either"),
        ({"rack": LOW, "tso": LOW}, "tried rack on and tso on: neither"),
        ({"rack": LOW, "tso": LOW, "hystart": LOW}, "tried rack on, tso on and hystart on: none of them"),
        ({"rack": LOW, "tso": HIGH}, "with tso on: holds (1 of 2 measured); tried rack on: not with that either"),
    ],
)
def test_what_was_tried_explains_and_changes_no_outcome(tried: dict[str, Sequence[float]], explained: str) -> None:
    judged = with_tries(LOW, **tried)
    assert judged.outcome is Judgement.FAILS
    assert text.explained(judged) == explained


def test_a_statement_that_holds_needs_no_explanation() -> None:
    assert text.explained(with_tries(HIGH, tso=HIGH)) == ""
    assert text.outcome(with_tries(HIGH).judged) == "holds (1 of 2 measured)"


def test_a_ratio_is_of_the_same_iteration() -> None:
    """The iterations differ by far more than the two sides of each."""
    runs = MeasuredRuns(
        tuple(
            run_of({cca: rate * number}, number, {"cca": cca})
            for number in (1, 100, 10_000)
            for cca, rate in (("cubic", 1e3), ("bbr", 2e3))
        )
    )
    ratio = Quotient(Of("goodput_bps", "entry", at={"cca": "bbr"}), Of("goodput_bps", "entry", at={"cca": "cubic"}))
    assert runs.sample(ratio).values == (2.0, 2.0, 2.0)


def test_alternatives_are_pooled() -> None:
    runs = MeasuredRuns(tuple(run_of({"bbr": rate}, 1, {"rtt": rtt}) for rtt, rate in (("1ms", 1.0), ("2ms", 2.0))))
    assert runs.sample(Of("goodput_bps", "entry", at={"rtt": "1ms or 2ms"})).values == (1.0, 2.0)
    assert runs.sample(Of("goodput_bps", "entry", at={"rtt": "2ms"})).values == (2.0,)


def test_values_that_are_pooled_and_were_not_measured_are_named() -> None:
    runs = MeasuredRuns(tuple(run_of({"bbr": 1.0}, 1, {"rtt": rtt}) for rtt in ("1ms", "2ms")))
    of = Of("goodput_bps", "entry", at={"rtt": "1ms or 2ms or 3ms"})
    assert runs.lacking(of) == {"rtt": ("1ms", "2ms")}
    assert runs.lacking(replace(of, at={"rtt": "1ms or 2ms"})) == {}


def test_runs_that_have_not_settled_are_counted() -> None:
    """A ratio has not settled if either side has not; what can't be judged is not marked."""
    settled = (True, False, None, False)
    runs = MeasuredRuns(
        tuple(
            run_of({cca: 1.0}, number, {"cca": cca}, settling=Settling(settled=known if cca == "bbr" else number != 1))
            for number, known in enumerate(settled, start=1)
            for cca in ("bbr", "cubic")
        )
    )
    of = Of("goodput_bps", "entry", at={"cca": "bbr"})
    assert runs.sample(of) == MeasuredSample((1.0,) * 4, not_settled=2)
    assert runs.sample(Quotient(of, replace(of, at={"cca": "cubic"}))).not_settled == 3
    [judged] = judge([Statement("name", "1", "sentence", (Bound(of),))], runs)
    assert text.seen(judged.bounds[0]).endswith(", 2 of 4 runs not settled)")


def test_a_host_is_selected() -> None:
    groups = [group_metrics("bbr", 1.0, host="h1"), group_metrics("bbr", 3.0, host="h2")]
    runs = MeasuredRuns((run_with(groups, 1, {}),))
    assert runs.sample(Of("goodput_bps", "entry", host="h2")).values == (3.0,)
    assert runs.sample(Of("goodput_bps", "entry", cca="bbr")).values == (4.0,)


def test_an_incomplete_selection_is_an_error() -> None:
    runs = MeasuredRuns(
        tuple(run_of({"bbr": 1.0, other: 1.0}, 1, {"cca": f"bbr,{other}"}) for other in ("cubic", "reno"))
    )
    with pytest.raises(ValueError, match="selects several runs"):
        runs.sample(Of("goodput_bps", "entry", cca="bbr"))


def test_flows_that_never_converge_count_with_the_time_that_they_had() -> None:
    runs = MeasuredRuns(
        (run_of({"bbr": 1.0}, 1, {}, convergence_s=12.0), run_of({"bbr": 1.0}, 2, {}, convergence_s=None))
    )
    assert runs.sample(Of("convergence_s", "entry")).values == (12.0, 60.0)
