"""The verdict on an experiment: its sentences name what does not hold."""

from collections.abc import Sequence
from dataclasses import replace

from ccmix.model.results import Settling
from ccmix.papers.experiment import BesidePublished, Bound, Experiment, Of, Paper, Statement, Tried
from ccmix.papers.judging import judge
from ccmix.papers.measured import MeasuredRuns
from ccmix.papers.outcome import Reproduction
from ccmix.papers.published import PublishedNumber
from ccmix.papers.scores import scores
from papers.runs import run_of

OF = Of("goodput_bps", "entry", cca="cubic", at={"rate": "10mbit"})
NOT_THERE = replace(OF, at={"rate": "1gbit"})
TRIED = (Tried("other", "offloads on"),)
STATEMENTS = (
    Statement("fast", "1", "", (Bound(OF, least=5e6),)),
    Statement("fast-everywhere", "1", "", (Bound(OF, least=5e6), Bound(NOT_THERE, least=5e8))),
    Statement("slow", "2", "", (Bound(OF, most=5e6),), tried=TRIED),
    Statement("slower", "2", "", (Bound(OF, most=4e6),)),
    Statement("faster", "2", "", (Bound(NOT_THERE, least=5e8),)),
)


def made(statements: Sequence[Statement], published_bps: float | None = None, not_settled: int = 0) -> Reproduction:
    runs = MeasuredRuns(
        tuple(
            run_of({"cubic": rate + number}, number, {"rate": "10mbit"}, entry, settling=Settling(settled=True))
            for entry, rate in (("entry", 8e6), ("other", 4e6))
            for number in (1, 2, 3)
        )
    )
    paper = Paper("author", "title", "link")
    numbers = [PublishedNumber("series", "cubic", "goodput_bps", published_bps or 0, "table", {"rate": "10mbit"})]
    beside = (BesidePublished("series", "entry", "goodput_bps"),) if published_bps else ()
    experiment = Experiment("name", paper, "figure 1", "?", tuple(statements), beside, unsettled="as in the paper")
    return Reproduction(
        experiment, tuple(scores(beside, numbers, runs, None)), tuple(judge(statements, runs)), 6, not_settled
    )


def test_the_verdict_names_what_does_not_hold() -> None:
    assert made(STATEMENTS).verdict == (
        "Of 5 statements 2 hold, 1 of these measured in part. "
        "2 do not hold: slow (with offloads on: holds), slower. "
        "1 was not measured: faster."
    )
    assert made(STATEMENTS[:1]).verdict == "Of 1 statements 1 holds."


def test_the_verdict_names_what_is_not_near_the_published_numbers() -> None:
    assert made((), published_bps=8e7).verdict == (
        "0 of 1 comparisons with published numbers meet the criterion. Not met: goodput in entry beside series."
    )


def test_runs_that_have_not_settled_are_counted_with_the_reason_why_they_count() -> None:
    assert made(()).settling == ""
    assert made((), not_settled=1).settling == "1 of 6 runs has not settled: as in the paper."
    assert made((), not_settled=2).settling == "2 of 6 runs have not settled: as in the paper."
