"""How close the lab is to published numbers, in words."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ccmix.papers import score_text
from ccmix.papers.experiment import Criterion, PublishedComparison, Tried
from ccmix.papers.measuring import MeasuredRuns
from ccmix.papers.reading import PublishedNumber
from ccmix.papers.scores import Score, rank_correlation, scores
from paper_pages.summaries import sentence_on_scores
from papers.runs import NEAR, run_of

RATES = {"10mbit": 1e7, "100mbit": 1e8, "250mbit": 2.5e8, "1gbit": 1e9}
SLOTS = (Tried("slots", "ACKs in slots"),)


def scored(
    fractions: Sequence[float],
    criterion: Criterion,
    others: Sequence[float] = (),
    published: float = 0.8,
) -> Score:
    """Returns the score of cubic's utilisations of the first rates; `others` are those with
    ACKs in slots.
    """
    numbers = [
        PublishedNumber(
            "kernel 5.13", "cubic", "goodput_bps", published * bps, "table", {"rate": rate}
        )
        for rate, bps in RATES.items()
    ]
    runs = MeasuredRuns(
        tuple(
            run_of({"cubic": fraction * bps}, 1, {"rate": rate}, entry)
            for entry, each in (("entry", fractions), ("slots", others))
            for (rate, bps), fraction in zip(RATES.items(), each, strict=False)
        )
    )
    comparison = PublishedComparison(
        "kernel 5.13", "entry", "utilisation", criterion, ("cubic",), tried=SLOTS if others else ()
    )
    [score] = scores([comparison], numbers, runs, None)
    return score


ANY, WITHIN = Criterion(most_factor=2.0), Criterion(least_within=0.9)


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (scored((0.8, 0.8, 0.8, 0.8), ANY), ""),
        (
            scored((0.8, 0.8, 0.2, 0.1), ANY),
            "2 of 4 cells are off by more than 2 times, at most 8.00 times",
        ),
        (
            scored((0.8, 0.8, 0.2, 0.1), ANY, (0.8, 0.8, 0.7, 0.1)),
            "2 of 4 cells are off by more than 2 times, at most 8.00 times, of which ACKs in "
            "slots explains 1",
        ),
        (
            scored((0.1, 0.8), ANY, (0.1, 0.8)),
            "1 of 2 cells is off by more than 2 times, at most 8.00 times, which ACKs in slots "
            "did not explain",
        ),
        (scored((0.8, 0.8, 0.6, 0.5), WITHIN), "50% of 4 cells within 0.05 instead of 90%"),
    ],
)
def test_why_it_is_not_met(score: Score, words: str) -> None:
    assert score_text.why_not_met(score) == words


def test_a_rank_that_is_too_low() -> None:
    numbers = [
        PublishedNumber("s", "bbr", "retransmits", rank, "table", {"n": str(rank)})
        for rank in (1, 2, 3, 4)
    ]
    runs = MeasuredRuns(
        tuple(
            run_of({"bbr": value}, 1, {"n": str(n)})
            for n, value in ((1, 2), (2, 1), (3, 4), (4, 3))
        )
    )
    goodputs = [
        PublishedNumber("s", "bbr", "goodput_bps", n.value, n.origin, n.at) for n in numbers
    ]
    [score] = scores([PublishedComparison("s", "entry", "goodput_bps", NEAR)], goodputs, runs, None)
    assert score_text.why_not_met(score) == "rank correlation 0.60 instead of at least 0.95"


def test_why_it_cannot_be_told() -> None:
    ranks = Criterion(least_rank=0.95)
    assert (
        score_text.met(scored((0.8, 0.7), ranks)) == "undecided: 2 cells have no rank correlation"
    )
    assert score_text.met(scored((0.8, 0.7, 0.6), ranks)) == (
        "undecided: all cells of one side are equal, so there are no ranks"
    )
    assert score_text.met(scored((0.8, 0.8), ANY)) == "met"
    assert score_text.met(scored((0.1, 0.8), ANY)) == "not met"


def test_as_many_cells_as_have_no_ranks_are_named_too_few() -> None:
    few = score_text.LEAST_FOR_RANKS - 1
    assert rank_correlation(range(few), range(few)) is None
    assert rank_correlation(range(few + 1), range(few + 1)) is not None


def test_a_sentence_on_a_figure_has_what_is_near_what_is_not_and_what_cannot_be_told() -> None:
    near, far, untold = scored((0.8,), ANY), scored((0.1,), ANY), scored((0.8,), NEAR)
    which = "utilisation of cubic (kernel 5.13)"
    off = f"{which}: 1 of 1 cells is off by more than 2 times, at most 8.00 times"
    assert sentence_on_scores([near, far, untold]) == (
        f"The lab meets the criterion for {which}. It does not meet the criterion for {off}. "
        f"The criterion is undecided for {which}: 1 cell has no rank correlation."
    )
    assert sentence_on_scores([far]) == f"The lab does not meet the criterion for {off}."


def test_what_is_for_comparison_is_not_judged() -> None:
    score = scored((0.1,), NEAR)
    shown = replace(score, comparison=replace(score.comparison, criterion=None))
    assert sentence_on_scores([shown]) == (
        "Only for comparison, without a criterion: utilisation of cubic (kernel 5.13), 1 cell at "
        "most 8.00 times off."
    )


def test_a_difference_that_is_too_large_is_said_beside_the_factor() -> None:
    score = scored((0.65, 0.8), Criterion(most_factor=2.0, most_apart=0.1))
    assert (
        score_text.why_not_met(score)
        == "1 of 2 cells is off by more than 2 times or 0.1, at most 1.23 times"
    )


def test_what_was_tried_and_explains_all_is_said_of_what_is_near_too() -> None:
    explained = scored((0.1,), ANY, (0.8,))
    assert sentence_on_scores([explained]) == (
        "The lab meets the criterion for utilisation of cubic (kernel 5.13): 1 of 1 cells is off "
        "by more than 2 times, at most 8.00 times, of which ACKs in slots explains 1."
    )


def test_what_is_not_met_is_said_with_the_score_of_what_was_tried_in_all_cells() -> None:
    for others, words in (
        ((0.8, 0.8, 0.8), "with ACKs in slots: rank correlation 1.000, met"),
        (
            (0.8, 0.5, 0.8),
            "with ACKs in slots: 66.7% of 3 cells within 0.05 instead of 90%, not met",
        ),
    ):
        score = scored((0.8, 0.6, 0.6), WITHIN, others)
        assert score_text.met(score) == f"not met; {words}"
        assert sentence_on_scores([score]).endswith(f", and {words}.")


def test_a_column_without_explanations_is_left_out() -> None:
    near, far = scored((0.8,), ANY), scored((0.1,), ANY)
    for score, columns in ((near, 3), (far, 4)):
        assert {len(row) for row in score_text.cell_table(score, score.pairs)} == {columns}


def test_what_was_tried_and_explains_nothing_is_said_with_its_number() -> None:
    for tried, words in ((0.2, "not explained by ACKs in slots: 20%"), (0.8, "ACKs in slots: 80%")):
        score = scored((0.1,), ANY, (tried,))
        [_, row] = score_text.cell_table(score, score.pairs)
        assert row[-1].startswith(words)
    score = scored((0.1,), ANY)
    [_, row] = score_text.cell_table(score, score.pairs)
    assert row[-1] == "not explained"
