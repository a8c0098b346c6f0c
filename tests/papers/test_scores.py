"""Scores of synthetic numbers whose likeness is known."""

import math
from dataclasses import replace

import pytest

from ccmix.papers import score_text
from ccmix.papers.experiment import Criterion, Experiment, Paper, PublishedComparison, Tried
from ccmix.papers.judging import Judgement
from ccmix.papers.measuring import MeasuredRuns
from ccmix.papers.outcome import Reproduction
from ccmix.papers.reading import PublishedNumber, by_name, read_published
from ccmix.papers.scores import TRIVIAL, Score, rank_correlation, scores
from papers.runs import NEAR, run_of
from support.finished_runs import flow_metrics

RATES = {"10mbit": 1e7, "100mbit": 1e8, "250mbit": 2.5e8, "1gbit": 1e9}


def published(fraction: float = 0.8, **others: float) -> list[PublishedNumber]:
    """Returns a goodput for each rate, which is a fraction of it, unless others gives another."""
    return [
        PublishedNumber(
            "series",
            "cubic",
            "goodput_bps",
            RATES[rate] * others.get(rate, fraction),
            "table",
            {"rate": rate},
        )
        for rate in RATES
    ]


def measured(**fractions: float) -> MeasuredRuns:
    """Returns a run for each rate, with a goodput of 80% of it unless others are given."""
    return MeasuredRuns(
        tuple(
            run_of({"cubic": bps * fractions.get(rate, 0.8)}, 1, {"rate": rate})
            for rate, bps in RATES.items()
        )
    )


def scored(
    numbers: list[PublishedNumber],
    runs: MeasuredRuns,
    rate_bps: float | None = None,
    tried: tuple[Tried, ...] = (),
) -> Score:
    """Returns the score of goodputs."""
    comparison = PublishedComparison("series", "entry", "goodput_bps", NEAR, tried=tried)
    [score] = scores([comparison], numbers, runs, rate_bps)
    return score


def test_equal_numbers_score_full_marks() -> None:
    score = scored(published(), measured())
    assert score.likeness.log_ratio == pytest.approx(0.0)
    assert score.likeness.rank == pytest.approx(1.0)
    assert score.likeness.within == 1.0
    assert score.outcome is Judgement.HOLDS
    assert score.missing == 0


def test_the_trivial_prediction_is_scored_beside() -> None:
    """It uses only the rate: here it is 15% of the rate too high everywhere, and in the right
    order.
    """
    score = scored(published(), measured())
    assert score.trivial
    assert score.trivial.log_ratio == pytest.approx(math.log(TRIVIAL / 0.8))
    assert score.trivial.rank == pytest.approx(1.0)
    assert score.trivial.within == 0.0


def test_utilisations_are_beside_goodputs_over_the_rate() -> None:
    """The goodputs of these cells have the published order, the utilisations the opposite one."""
    numbers = published(**{"10mbit": 0.9, "100mbit": 0.8, "250mbit": 0.7, "1gbit": 0.6})
    runs = measured(**{"10mbit": 0.6, "100mbit": 0.7, "250mbit": 0.8, "1gbit": 0.9})
    by_goodput, by_utilisation = scores(
        [
            PublishedComparison("series", "entry", quantity, NEAR)
            for quantity in ("goodput_bps", "utilisation")
        ],
        numbers,
        runs,
        None,
    )
    assert by_goodput.likeness.rank == pytest.approx(1.0)
    assert by_utilisation.likeness.rank == pytest.approx(-1.0)
    assert [pair.value for pair in by_utilisation.pairs] == pytest.approx([0.9, 0.8, 0.7, 0.6])
    assert by_utilisation.likeness.log_ratio == pytest.approx(by_goodput.likeness.log_ratio)
    assert by_utilisation.likeness.within == by_goodput.likeness.within
    assert by_utilisation.trivial
    assert by_utilisation.trivial.rank is None
    assert by_utilisation.trivial.within == 0.25


def test_the_ceiling_is_how_like_another_series_is() -> None:
    """Datta and Fund's CUBIC in two kernels: the figures of the project's goal."""
    [comparison] = [
        comparison
        for comparison in by_name()["datta-fig2"].comparisons
        if (comparison.series, comparison.entry)
        == ("100 KB, kernel 5.13", "shallow or shallow-again or shallow-largest")
        and (comparison.quantity, comparison.ccas) == ("utilisation", ("cubic",))
    ]
    conditions = [
        {"cca": "cubic", "rate": rate, "ack-delay": rtt}
        for rate in ("100mbit", "1gbit")
        for rtt in ("5ms", "200ms")
    ]
    runs = MeasuredRuns(
        tuple(run_of({"cubic": 9e7}, 1, condition, "shallow") for condition in conditions)
    )
    [score] = scores([comparison], read_published("datta-fig2"), runs, None)
    assert score.ceiling
    assert score.ceiling_of_all
    assert (score.ceiling.cells, score.ceiling_of_all.cells) == (4, 64)
    assert round(score.ceiling_of_all.rank or 0.0, 3) == 0.995
    assert round(score.ceiling_of_all.largest, 2) == 1.68


EXPLAINED = (Tried("with-fq", "fq"), Tried("with-slots", "ACKs in slots"))


def test_a_cell_that_is_far_off_is_explained_by_what_brings_it_near() -> None:
    fractions = {"10mbit": 0.8 * 3, "100mbit": 0.8 / 3}
    runs = measured(**fractions).runs + tuple(
        run_of({"cubic": 0.8 * factor * RATES[rate]}, 1, {"rate": rate}, entry)
        for entry, rate, factor in (
            ("with-fq", "10mbit", 1.9),
            ("with-slots", "10mbit", 2.1),
            ("with-slots", "100mbit", 0.45),
            ("with-slots", "1gbit", 1.0),
        )
    )
    comparison = PublishedComparison(
        "series", "entry", "goodput_bps", Criterion(most_factor=2.0), tried=EXPLAINED
    )
    [score] = scores([comparison], published(), MeasuredRuns(runs), None)
    assert [pair.published.at["rate"] for pair in score.far] == ["10mbit", "100mbit"]
    assert [each.setting for each in score.far[0].explanations] == ["fq"]
    assert [pair.published.at["rate"] for pair in score.unexplained] == ["100mbit"]
    assert score.outcome is Judgement.FAILS
    half = run_of({"cubic": 0.8 * 0.55 * RATES["100mbit"]}, 1, {"rate": "100mbit"}, "with-fq")
    [all_explained] = scores([comparison], published(), MeasuredRuns((*runs, half)), None)
    assert all_explained.outcome is Judgement.HOLDS
    assert all_explained.likeness == score.likeness


@pytest.mark.parametrize(
    ("tried", "met"),
    [({"1gbit": 0.8}, True), ({"1gbit": 0.8 / 3}, False), ({"1gbit": 0.001}, False)],
    ids=["as published", "off by three times", "in another order"],
)
def test_a_setting_that_was_tried_in_all_cells_has_a_score_which_is_not_the_outcome(
    tried: dict[str, float], met: bool
) -> None:
    own, others = measured(**{"1gbit": 0.001}).runs, measured(**tried).runs
    runs = MeasuredRuns(
        (*own, *(replace(each, run=replace(each.run, entry="with-fq")) for each in others))
    )
    score = scored(published(), runs, tried=EXPLAINED)
    assert score.outcome is Judgement.FAILS
    assert [each.setting for each in score.tried] == ["fq"]
    assert score.met_if_tried is met


def test_a_setting_that_was_tried_in_some_cells_has_no_score() -> None:
    other = run_of({"cubic": 8e8}, 1, {"rate": "1gbit"}, "with-fq")
    runs = MeasuredRuns((*measured(**{"1gbit": 0.001}).runs, other))
    score = scored(published(), runs, tried=EXPLAINED)
    assert score.tried == ()
    assert not score.met_if_tried


def test_what_explains_need_not_sweep_the_cca() -> None:
    numbers = [
        PublishedNumber("series", cca, "goodput_bps", 8e8, "table", {"cca": cca, "rate": "1gbit"})
        for cca in ("cubic", "bbr")
    ]
    runs = MeasuredRuns(
        (
            *(run_of({cca: 1e8}, 1, {"cca": cca, "rate": "1gbit"}) for cca in ("cubic", "bbr")),
            run_of({"cubic": 7e8}, 1, {"rate": "1gbit"}, "with-slots"),
        )
    )
    score = scored(numbers, runs, tried=EXPLAINED)
    assert [pair.published.cca for pair in score.unexplained] == ["bbr"]


SHARES = (0.2, 0.5, 0.99)


@pytest.mark.parametrize(("apart", "outcome"), [(0.09, Judgement.HOLDS), (0.11, Judgement.FAILS)])
def test_shares_may_differ_by_so_much(apart: float, outcome: Judgement) -> None:
    """A factor is not enough to judge shares: the second one is off by a fifth at most."""
    numbers = [
        PublishedNumber("series", "cubic", "share", share, "table", {"rtt": f"{number}ms"})
        for number, share in enumerate(SHARES)
    ]
    runs = MeasuredRuns(
        tuple(
            run_of({"cubic": share, "bbr": 1 - share}, 1, {"rtt": f"{number}ms"})
            for number, share in enumerate((SHARES[0], SHARES[1] + apart, SHARES[2]))
        )
    )
    criterion = Criterion(most_factor=2.0, most_apart=0.1)
    [score] = scores(
        [PublishedComparison("series", "entry", "share", criterion)], numbers, runs, None
    )
    assert score.outcome is outcome
    assert score_text.asked(score) == "no cell off by more than 2 times or 0.1"


def test_nothing_retransmitted_on_both_sides_agrees() -> None:
    numbers = [
        PublishedNumber("series", "cubic", "retransmits", 0.0, "table", {"rate": rate})
        for rate in RATES
    ]
    comparison = PublishedComparison("series", "entry", "retransmits", Criterion(least_rank=0.95))
    [score] = scores([comparison], numbers, measured_retransmits(0), None)
    assert score.outcome is Judgement.HOLDS
    [score] = scores([comparison], numbers, measured_retransmits(1), None)
    assert score.outcome is Judgement.UNDECIDED


def measured_retransmits(count: int) -> MeasuredRuns:
    flows = (flow_metrics(5201, "cubic", retransmits=count),)
    return MeasuredRuns(
        tuple(run_of({"cubic": 1.0}, 1, {"rate": rate}, flows=flows) for rate in RATES)
    )


def test_what_is_for_comparison_is_shown_and_not_judged() -> None:
    comparisons = [
        PublishedComparison("series", "entry", "goodput_bps", criterion)
        for criterion in (NEAR, None)
    ]
    judged, shown = scores(comparisons, published(), measured(**{"10mbit": 0.1}), None)
    assert judged.outcome is Judgement.FAILS
    assert (shown.judged, shown.far, shown.outcome) == (False, (), Judgement.UNDECIDED)
    assert shown.likeness == judged.likeness
    assert (score_text.asked(shown), score_text.met(shown)) == (
        "none, only for comparison",
        "–",
    )
    paper = Paper("author", "citation", "link")
    experiment = Experiment("name", paper, "figure 1", "?", (), tuple(comparisons))
    assert Reproduction(experiment, (judged, shown), (), 4, 0).verdict == (
        "Of 1 comparison with published numbers 0 meet their criterion. 1 does not meet its "
        "criterion: goodput in entry entry against 'series' (1 of 4 cells is off by more than "
        "2 times, at most 8.00 times)."
    )
    assert Reproduction(experiment, (shown,), (), 4, 0).verdict == ""


def test_the_log_ratio_is_the_median_and_counts_both_directions() -> None:
    runs = measured(**{"10mbit": 0.8 * 2, "100mbit": 0.8 / 4, "250mbit": 0.8 * 4, "1gbit": 0.8})
    score = scored(published(), runs)
    assert score.likeness.log_ratio == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert [pair.published.at["rate"] for pair in score.far] == ["100mbit", "250mbit"]
    assert score.outcome is Judgement.FAILS


def test_utilisations_are_within_5_percent_of_the_rate() -> None:
    runs = measured(**{"10mbit": 0.849, "100mbit": 0.851, "250mbit": 0.751, "1gbit": 0.749})
    score = scored(published(), runs)
    assert score.likeness.within == 0.5
    three_quarters = Criterion(least_within=0.75)
    [strict] = scores(
        [PublishedComparison("series", "entry", "goodput_bps", three_quarters)],
        published(),
        runs,
        None,
    )
    assert strict.outcome is Judgement.FAILS


def test_cells_that_were_not_measured_are_counted() -> None:
    runs = MeasuredRuns(measured().runs[:3])
    score = scored(published(), runs)
    assert (len(score.pairs), score.missing) == (3, 1)
    too_few = scored(published(), MeasuredRuns(runs.runs[:2]))
    assert too_few.outcome is Judgement.UNDECIDED


def test_a_mean_over_several_values_counts_only_if_all_were_measured() -> None:
    numbers = [
        PublishedNumber("series", "cubic", "goodput_bps", 8e8, "table", {"delay": delays})
        for delays in ("2ms or 5ms or 10ms", "20ms or 30ms")
    ]
    runs = MeasuredRuns(
        tuple(
            run_of({"cubic": 8e8}, number, {"delay": d})
            for d in ("5ms", "20ms", "30ms")
            for number in (1, 2, 3)
        )
    )
    score = scored(numbers, runs, rate_bps=1e9)
    assert [pair.published.at["delay"] for pair in score.pairs] == ["20ms or 30ms"]
    assert score.likeness
    assert score.likeness.cells == 1
    assert (len(score.partial), score.missing) == (1, 0)
    [_, whole, part] = score_text.cell_table(score, (*score.pairs, *score.partial))
    assert whole[2] == "800 Mbit/s (800 Mbit/s to 800 Mbit/s, 6 runs)"
    assert (
        part[2]
        == "800 Mbit/s (800 Mbit/s to 800 Mbit/s, 3 runs), delay: only 5ms of 2ms, 5ms, 10ms"
    )


def test_cells_that_were_all_measured_in_part_tell_nothing() -> None:
    numbers = [
        PublishedNumber("series", "cubic", "goodput_bps", 8e8, "table", {"delay": "2ms or 5ms"})
    ]
    runs = MeasuredRuns((run_of({"cubic": 1.0}, 1, {"delay": "5ms"}),))
    score = scored(numbers, runs, rate_bps=1e9)
    assert score.likeness is None
    assert score.outcome is Judgement.UNDECIDED


def test_a_rate_that_is_not_swept_is_that_of_the_path() -> None:
    numbers = [
        PublishedNumber("series", "cubic", "goodput_bps", 8e8, "table", {"loss": loss})
        for loss in ("0%", "1%")
    ]
    runs = MeasuredRuns(tuple(run_of({"cubic": 8.2e8}, 1, {"loss": loss}) for loss in ("0%", "1%")))
    score = scored(numbers, runs, rate_bps=1e9)
    assert score.likeness.within == 1.0
    assert score.likeness.rank is None


# Values worked out by hand from Spearman's 1 - 6 Σd² / (n (n² - 1)); with ties, Pearson's r of the
# mean ranks
@pytest.mark.parametrize(
    ("a", "b", "rank"),
    [
        ((1, 2, 3, 4, 5), (2, 4, 6, 8, 100), 1.0),
        ((1, 2, 3, 4, 5), (5, 4, 3, 2, 1), -1.0),
        ((1, 2, 3, 4, 5), (2, 1, 4, 3, 5), 1 - 6 * 4 / 120),
        ((1, 2, 2, 3), (1, 2, 3, 4), 4.5 / math.sqrt(4.5 * 5)),
        ((1, 2), (1, 2), None),
        ((1, 2, 3), (5, 5, 5), None),
        ((0, 0, 0), (0, 0, 1), None),
        ((0, 0, 0), (0, 0, 0), 1.0),
        ((0, 0), (0, 0), None),
    ],
)
def test_rank_correlation(a: tuple[float, ...], b: tuple[float, ...], rank: float | None) -> None:
    assert rank_correlation(a, b) == (None if rank is None else pytest.approx(rank))
