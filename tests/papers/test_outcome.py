"""The verdict on an experiment: its sentences name the statements that do not hold."""

from collections.abc import Sequence
from dataclasses import replace

from ccmix.model.results import Settling
from ccmix.papers.experiment import (
    Bound,
    Experiment,
    Paper,
    PublishedComparison,
    RunNumber,
    Statement,
    Tried,
)
from ccmix.papers.judging import judge
from ccmix.papers.measuring import MeasuredRuns
from ccmix.papers.outcome import Reproduction
from ccmix.papers.reading import PublishedNumber
from ccmix.papers.scores import scores
from paper_pages.summaries import sentence, short
from papers.runs import NEAR, run_of

OF = RunNumber("goodput_bps", "entry", cca="cubic", at={"rate": "10mbit"})
NOT_THERE = replace(OF, at={"rate": "1gbit"})
TRIED = (Tried("other", "offloads on"),)
STATEMENTS = (
    Statement("fast", "1", "", (Bound(OF, least=5e6),)),
    Statement("fast-everywhere", "1", "", (Bound(OF, least=5e6), Bound(NOT_THERE, least=5e8))),
    Statement("slow", "2", "", (Bound(OF, most=5e6),), tried=TRIED),
    Statement("slower", "2", "", (Bound(OF, most=4e6),)),
    Statement("faster", "2", "", (Bound(NOT_THERE, least=5e8),)),
)


def made(
    statements: Sequence[Statement],
    published_bps: float | None = None,
    not_settled: int = 0,
    delay: str = "5ms",
) -> Reproduction:
    runs = MeasuredRuns(
        tuple(
            run_of(
                {"cubic": rate + number},
                number,
                {"rate": "10mbit", "delay": "5ms"},
                entry,
                settling=Settling(settled=True),
            )
            for entry, rate in (("entry", 8e6), ("other", 4e6))
            for number in (1, 2, 3)
        )
    )
    paper = Paper("author", "title", "link")
    numbers = [
        PublishedNumber(
            "series", "cubic", "goodput_bps", published_bps or 0, "table", {"delay": delay}
        )
    ]
    beside = (PublishedComparison("series", "entry", "goodput_bps", NEAR),) if published_bps else ()
    experiment = Experiment(
        "name", paper, "figure 1", "?", tuple(statements), beside, unsettled="as in the paper"
    )
    return Reproduction(
        experiment,
        tuple(scores(beside, numbers, runs, None)),
        tuple(judge(statements, runs)),
        6,
        not_settled,
    )


def test_the_verdict_names_what_does_not_hold() -> None:
    assert made(STATEMENTS).verdict == (
        "Of 5 statements 2 hold, 1 of these measured in part. 2 do not hold: slow (with offloads "
        "on: 4.00 Mbit/s, holds), slower. 1 was not measured: faster."
    )
    assert made(STATEMENTS[:1]).verdict == "Of 1 statement 1 holds."


UNTOLD = Statement("around", "2", "", (Bound(OF, least=8e6 + 2, most=8e6 + 3),))


def test_one_sentence_says_what_holds_and_what_is_near() -> None:
    assert sentence(made((*STATEMENTS, UNTOLD))) == (
        "2 of the paper's 6 statements hold in the lab, 2 do not, 1 is undecided and 1 was not "
        "measured."
    )
    assert sentence(made(STATEMENTS[:2])) == "All 2 statements of the paper hold in the lab."
    assert sentence(made(STATEMENTS[2:3], published_bps=8e7)) == (
        "The paper's statement does not hold in the lab; of 1 comparison with published numbers "
        "1 does not meet its criterion."
    )
    assert short(made(STATEMENTS[:1])) == "1 of 1 statement holds"
    assert (
        short(made((*STATEMENTS, UNTOLD)))
        == "2 of 6 statements hold, 1 more with a setting that was tried"
    )
    assert short(made(STATEMENTS[:3], published_bps=8e7)) == (
        "2 of 3 statements hold, 1 more with a setting that was tried; 0 of 1 comparison met"
    )


def test_the_verdict_names_what_is_not_near_the_published_numbers() -> None:
    assert made((), published_bps=8e7).verdict == (
        "Of 1 comparison with published numbers 0 meet their criterion. 1 does not meet its "
        "criterion: goodput in entry entry against 'series' (1 of 1 cells is off by more than "
        "2 times, at most 10.00 times)."
    )


def test_a_comparison_that_cannot_be_told_is_not_one_that_is_not_met() -> None:
    """One cell has no rank, and a cell that was measured only in part does not count."""
    for delay, why in (
        ("5ms", "1 cell has no rank correlation"),
        ("5ms or 9ms", "no cell was measured completely"),
    ):
        untold = made((), published_bps=8e6, delay=delay)
        assert untold.verdict == (
            "Of 1 comparison with published numbers 0 meet their criterion. 1 is undecided: "
            f"goodput in entry entry against 'series' ({why})."
        )
        assert sentence(untold) == "Of 1 comparison with published numbers 1 is undecided."


def test_a_statement_that_cannot_be_told_has_a_reason() -> None:
    assert made((UNTOLD,)).verdict == (
        "Of 1 statement 0 hold. 1 is undecided: around (the 95% interval is on both sides of a "
        "limit)."
    )


def test_runs_that_have_not_settled_are_counted_with_the_reason_why_they_count() -> None:
    assert made(()).settling == ""
    assert made((), not_settled=1).settling == "1 of 6 runs has not settled: as in the paper."
    settling = replace(
        made((), not_settled=2), experiment=replace(made(()).experiment, unsettled="")
    ).settling
    assert settling.startswith(
        "2 of 6 runs have not settled: their results at the end of the maximum duration count"
    )
    assert made((), not_settled=2).settling == "2 of 6 runs have not settled: as in the paper."
