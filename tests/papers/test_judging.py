"""Statements judged by runs with chosen numbers."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ccmix.model.results import Settling
from ccmix.papers import text
from ccmix.papers.experiment import Bound, Quotient, RunNumber, Statement, Tried
from ccmix.papers.judging import JudgedStatement, Judgement, judge
from ccmix.papers.measuring import MeasuredRuns, MeasuredSample
from papers.runs import quotient, run_of, run_with
from support.finished_runs import group_metrics

SHARE = RunNumber("share", "entry", cca="bbr", at={"buffer": "1bdp"})


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
    assert outcome(near, Bound(SHARE, least=0.61)) is Judgement.UNDECIDED
    assert outcome(near, Bound(SHARE, least=0.5, most=0.7)) is Judgement.HOLDS
    assert outcome(near, Bound(SHARE, least=0.5, most=0.61)) is Judgement.UNDECIDED


def test_fewer_than_three_runs_tell_nothing() -> None:
    assert outcome((0.9, 0.9), Bound(SHARE, least=0.5)) is Judgement.UNDECIDED


def test_a_statement_holds_if_all_of_its_bounds_hold() -> None:
    near = (0.60, 0.61, 0.62)
    holds, fails, untold = Bound(SHARE, least=0.5), Bound(SHARE, most=0.5), Bound(SHARE, least=0.61)
    unmeasured = Bound(RunNumber("share", "other entry", cca="bbr"), least=0.5)
    assert outcome(near, holds, unmeasured) is Judgement.HOLDS
    assert outcome(near, holds, untold) is Judgement.UNDECIDED
    assert outcome(near, holds, untold, fails) is Judgement.FAILS
    assert outcome(near, unmeasured) is Judgement.UNMEASURED


def with_tries(shares: Sequence[float], **others: Sequence[float]) -> JudgedStatement:
    """Returns a statement with the limit "at least half", and an entry for each setting that was
    tried.
    """
    runs = runs_with_shares(shares).runs
    for entry, each in others.items():
        runs += tuple(
            replace(run, run=replace(run.run, entry=entry)) for run in runs_with_shares(each).runs
        )
    tried = tuple(Tried(entry, f"{entry} on") for entry in ("rack", "tso", "hystart"))
    bounds = (Bound(SHARE, least=0.5), Bound(replace(SHARE, at={"buffer": "2bdp"}), least=0.5))
    [judged] = judge([Statement("name", "1", "sentence", bounds, tried=tried)], MeasuredRuns(runs))
    return judged


def test_what_was_tried_may_have_one_cca_alone_and_sweep_none() -> None:
    """The numbers of the other CCA stay those of their own entry."""
    ratio = quotient(
        RunNumber("goodput_bps", "entry", cca="bbr", at={"rate": "1gbit", "cca": "bbr"}),
        RunNumber("goodput_bps", "entry", cca="cubic", at={"rate": "1gbit", "cca": "cubic"}),
    )
    runs = tuple(
        run_of({cca: bps}, number, {"rate": "1gbit", "cca": cca})
        for number in (1, 2, 3)
        for cca, bps in (("bbr", 8e8), ("cubic", 6e8))
    ) + tuple(
        run_of({"cubic": bps}, number, {"rate": rate}, "slots")
        for number in (1, 2, 3)
        for rate, bps in (("1gbit", 1e8), ("10mbit", 1e7))
    )
    tried = (Tried("slots", "ACKs in slots", ccas=("cubic",)), Tried("slots", "all of them"))
    [judged] = judge(
        [Statement("name", "1", "sentence", (Bound(ratio, least=2.0),), tried=tried)],
        MeasuredRuns(runs),
    )
    assert judged.outcome is Judgement.FAILS
    [slots] = judged.tried
    assert slots.judged.bounds[0].sample.values == pytest.approx((8.0, 8.0, 8.0))
    assert text.explained(judged) == "with ACKs in slots: 8 times, holds"


def test_what_was_tried_may_name_entries_and_values_in_its_own_way() -> None:
    """For example if a statement is about two entries, and the buffers of the tried entries count
    packets.
    """
    ratio = quotient(
        RunNumber("goodput_bps", "apart", cca="bbr", at={"buffer": "16bdp"}),
        RunNumber("goodput_bps", "together", cca="bbr", at={"buffer": "16bdp"}),
    )
    runs = tuple(
        run_of({"bbr": bps}, number, {"buffer": buffer}, entry)
        for number in (1, 2, 3)
        for entry, buffer, bps in (
            ("apart", "16bdp", 1e6),
            ("together", "16bdp", 2e6),
            ("apart-packets", "9p", 3e6),
            ("together-packets", "9p", 1e6),
        )
    )
    tried = Tried(
        "apart-packets",
        "packets",
        entries={"together": "together-packets"},
        values={"buffer": {"16bdp": "9p"}, "rate": {"16bdp": "1p"}},
    )
    [judged] = judge(
        [Statement("n", "1", "s", (Bound(ratio, least=1.0),), tried=(tried,))], MeasuredRuns(runs)
    )
    assert text.explained(judged) == "with packets: 3 times, holds"
    assert tried.names == {"apart-packets", "together-packets"}


def test_what_was_tried_stands_for_what_was_not_measured() -> None:
    tried = (Tried("tenth", "a tenth of the rate"),)
    bound = Bound(RunNumber("share", "hundred", cca="bbr", at={"buffer": "1bdp"}), least=0.5)
    run = runs_with_shares(HIGH).runs
    runs = MeasuredRuns(tuple(replace(each, run=replace(each.run, entry="tenth")) for each in run))
    [judged] = judge([Statement("name", "1", "sentence", (bound,), tried=tried)], runs)
    assert judged.outcome is Judgement.UNMEASURED
    assert text.explained(judged) == "with a tenth of the rate: 61%, holds"


LOW, HIGH, WIDE = (0.30, 0.31, 0.32), (0.60, 0.61, 0.62), (0.1, 0.5, 0.9)


@pytest.mark.parametrize(
    ("tried", "explained"),
    [
        ({}, ""),
        ({"tso": HIGH}, "with tso on: 61%, holds (1 of 2 measured)"),
        ({"tso": WIDE}, "with tso on: 50%, undecided (1 of 2 measured)"),
        ({"rack": LOW}, "with rack on: 31%, does not hold (1 of 2 measured)"),
        (
            {"rack": LOW, "tso": HIGH},
            "with rack on: 31%, does not hold (1 of 2 measured); with tso on: 61%, holds (1 of 2 "
            "measured)",
        ),
    ],
)
def test_what_was_tried_explains_and_changes_no_outcome(
    tried: dict[str, Sequence[float]], explained: str
) -> None:
    judged = with_tries(LOW, **tried)
    assert judged.outcome is Judgement.FAILS
    assert text.explained(judged) == explained
    assert judged.holds_if_tried is ("holds" in explained.replace("not hold", ""))


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
    ratio = quotient(
        RunNumber("goodput_bps", "entry", at={"cca": "bbr"}),
        RunNumber("goodput_bps", "entry", at={"cca": "cubic"}),
    )
    assert runs.sample(ratio).values == (2.0, 2.0, 2.0)


def test_runs_are_selected_by_their_buffer() -> None:
    """1.25 MB are half a BDP of 1 Gbit/s and 20 ms, and 1 and 2 BDP of the other rates."""
    runs = MeasuredRuns(
        tuple(
            run_of({"bbr": bps}, 1, {"rate": rate, "cca": "bbr"}, buffer_bytes=1_250_000)
            for rate, bps in (("1gbit", 1.0), ("500mbit", 2.0), ("250mbit", 3.0))
        )
    )
    of = RunNumber("goodput_bps", "entry", cca="bbr", at={"cca": "bbr"})
    assert runs.sample(of).values == (1.0, 2.0, 3.0)
    assert runs.sample(replace(of, buffer_bdp=(0.5, 2.0))).values == (1.0, 2.0)
    assert runs.sample(replace(of, buffer_bdp=(2.0, math.inf))).values == (3.0,)


def goodputs_by_rtt(*iterations: Sequence[float]) -> MeasuredRuns:
    """Returns runs with the goodputs of CUBIC at 1, 2 and 3 ms, in each iteration; None: no run."""
    return MeasuredRuns(
        tuple(
            run_of(
                {"cubic": bps},
                number,
                {"loss": loss, "rtt": rtt},
                settling=Settling(settled=bps != 4.0),
            )
            for number, goodputs in enumerate(iterations, start=1)
            for loss in ("0%", "1%")
            for rtt, bps in zip(("1ms", "2ms", "3ms"), goodputs, strict=False)
        )
    )


def test_a_variation_is_of_the_runs_of_an_iteration() -> None:
    """The standard deviation of 1, 2 and 3 is 1, and that of 2, 2 and 5 the square root of 3."""
    of = RunNumber("variation", "entry", cca="cubic", at={"loss": "0%", "rtt": "1ms or 2ms or 3ms"})
    sample = goodputs_by_rtt((1.0, 2.0, 3.0), (4.0, 4.0, 4.0), (2.0, 2.0, 5.0), (1.0, 2.0)).sample(
        of
    )
    assert sample.values == pytest.approx((0.5, 0.0, math.sqrt(3) / 3))
    assert sample.not_settled == 1
    assert (
        goodputs_by_rtt((1.0, 2.0, 3.0)).sample(replace(of, at={"loss": "0%", "rtt": "1ms"})).values
        == ()
    )
    assert goodputs_by_rtt((1.0, 2.0)).lacking(of) == {"rtt": ("1ms", "2ms")}


def test_a_mean_is_over_numbers_of_the_same_iteration_that_has_all_of_them() -> None:
    of = RunNumber("goodput_bps", "entry", cca="cubic", at={"loss": "0%", "rtt": "1ms"})
    mean = of, replace(of, at={"loss": "1%", "rtt": "3ms"})
    runs = goodputs_by_rtt((1.0, 0.0, 3.0), (3.0, 0.0, 7.0), (1.0,))
    assert runs.sample(Quotient(mean, (of,))).values == pytest.approx((2.0, 5 / 3))


def test_an_interval_of_what_cannot_be_negative_has_no_negative_limit() -> None:
    """Shares and the like are fractions; a goodput's and a ratio's interval is as wide in factors
    on both sides.
    """
    runs = runs_with_shares((0.05, 0.1, 0.5))
    share, goodput = runs.sample(SHARE), runs.sample(replace(SHARE, quantity="goodput_bps"))
    ratio = runs.sample(quotient(SHARE, replace(SHARE, cca="cubic")))
    assert share.interval
    assert share.interval[0] < 0
    for sample in (goodput, ratio):
        assert sample.interval
        assert sample.mean
        low, high = sample.interval
        assert low > 0
        assert sample.mean / low == pytest.approx(high / sample.mean)


def test_further_entries_have_further_iterations() -> None:
    """So a ratio divides the same iteration, also if its other side is of one entry."""
    runs = MeasuredRuns(
        tuple(
            run_of({"bbr": bps}, number, {}, entry)
            for entry, goodputs in (
                ("shallow", (2.0, 6.0)),
                ("again", (12.0,)),
                ("deep", (1.0, 2.0, 3.0)),
            )
            for number, bps in enumerate(goodputs, start=1)
        )
    )
    both = RunNumber("goodput_bps", "shallow or again")
    assert runs.sample(both).values == (2.0, 6.0, 12.0)
    assert runs.sample(quotient(both, replace(both, entry="deep"))).values == (2.0, 3.0, 4.0)


def test_alternatives_are_pooled() -> None:
    runs = MeasuredRuns(
        tuple(run_of({"bbr": rate}, 1, {"rtt": rtt}) for rtt, rate in (("1ms", 1.0), ("2ms", 2.0)))
    )
    assert runs.sample(RunNumber("goodput_bps", "entry", at={"rtt": "1ms or 2ms"})).values == (
        1.0,
        2.0,
    )
    assert runs.sample(RunNumber("goodput_bps", "entry", at={"rtt": "2ms"})).values == (2.0,)


def test_values_that_are_pooled_and_were_not_measured_are_named() -> None:
    runs = MeasuredRuns(tuple(run_of({"bbr": 1.0}, 1, {"rtt": rtt}) for rtt in ("1ms", "2ms")))
    of = RunNumber("goodput_bps", "entry", at={"rtt": "1ms or 2ms or 3ms"})
    assert runs.lacking(of) == {"rtt": ("1ms", "2ms")}
    assert runs.lacking(replace(of, at={"rtt": "1ms or 2ms"})) == {}


def test_runs_that_have_not_settled_are_counted() -> None:
    """A ratio has not settled if either side has not; what can't be judged is not marked."""
    settled = (True, False, None, False)
    runs = MeasuredRuns(
        tuple(
            run_of(
                {cca: 1.0},
                number,
                {"cca": cca},
                settling=Settling(settled=known if cca == "bbr" else number != 1),
            )
            for number, known in enumerate(settled, start=1)
            for cca in ("bbr", "cubic")
        )
    )
    of = RunNumber("goodput_bps", "entry", at={"cca": "bbr"})
    assert runs.sample(of) == MeasuredSample((1.0,) * 4, not_settled=2)
    assert runs.sample(quotient(of, replace(of, at={"cca": "cubic"}))).not_settled == 3
    [judged] = judge([Statement("name", "1", "sentence", (Bound(of),))], runs)
    assert text.seen(judged.bounds[0]).endswith(", 2 of 4 runs not settled)")


def test_a_host_is_selected() -> None:
    groups = [group_metrics("bbr", 1.0, host="h1"), group_metrics("bbr", 3.0, host="h2")]
    runs = MeasuredRuns((run_with(groups, 1, {}),))
    assert runs.sample(RunNumber("goodput_bps", "entry", host="h2")).values == (3.0,)
    assert runs.sample(RunNumber("goodput_bps", "entry", cca="bbr")).values == (4.0,)


def test_an_incomplete_selection_is_an_error() -> None:
    runs = MeasuredRuns(
        tuple(
            run_of({"bbr": 1.0, other: 1.0}, 1, {"cca": f"bbr,{other}"})
            for other in ("cubic", "reno")
        )
    )
    with pytest.raises(ValueError, match="selects several runs"):
        runs.sample(RunNumber("goodput_bps", "entry", cca="bbr"))


def test_flows_that_never_converge_count_with_the_time_that_they_had() -> None:
    runs = MeasuredRuns(
        (
            run_of({"bbr": 1.0}, 1, {}, convergence_s=12.0),
            run_of({"bbr": 1.0}, 2, {}, convergence_s=None),
        )
    )
    assert runs.sample(RunNumber("convergence_s", "entry")).values == (12.0, 60.0)
