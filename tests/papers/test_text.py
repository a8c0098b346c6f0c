"""Numbers and their meanings, in words."""

import math

import pytest

from ccmix.papers import text
from ccmix.papers.experiment import Bound, Number, Quantity, Quotient, RunNumber, Statement
from ccmix.papers.judging import JudgedBound, JudgedBounds, JudgedStatement
from ccmix.papers.measuring import MeasuredSample
from paper_pages.summaries import hours
from papers.runs import quotient

AT = {"rate": "1gbit", "delay": "5ms"}


def goodput(of: str | None = None, entry: str = "shallow", **at: str) -> RunNumber:
    return RunNumber("goodput_bps", entry, cca=of, at=at)


GOODPUT = goodput()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (
            RunNumber("share", "two-flows", cca="bbr", at={"rtt": "10ms"}),
            "share of bbr in entry two-flows at rtt=10ms",
        ),
        (
            RunNumber("share", "long-before-10ms", host="h2"),
            "share of the flows of h2 in entry long-before-10ms",
        ),
        (
            RunNumber("share", "mixed", cca="bbr", host="h2"),
            "share of bbr's flows of h2 in entry mixed",
        ),
        (RunNumber("fairness", "drop-tail"), "Jain's index in entry drop-tail"),
        (
            quotient(goodput("bbr", cca="bbr", **AT), goodput("cubic", cca="cubic", **AT)),
            "goodput of bbr over that of cubic, in entry shallow at rate=1gbit, delay=5ms",
        ),
        (
            quotient(goodput(cca="bbr2", loss="1%"), goodput(cca="bbr2", loss="0%")),
            "goodput at loss=1% over that at loss=0%, in entry shallow at cca=bbr2",
        ),
        (
            quotient(
                RunNumber("retransmits", "loss", at={"cca": "bbr"}),
                RunNumber("retransmits", "loss", at={"cca": "bbr2"}),
            ),
            "retransmitted segments at cca=bbr over those at cca=bbr2, in entry loss",
        ),
        (
            quotient(goodput("bbr", "apart", cca="bbr:1,bbr:1+30s"), goodput("bbr", "together")),
            "goodput of bbr in entry apart at cca=bbr:1,bbr:1+30s over that in entry together",
        ),
        (
            RunNumber(
                "utilisation", "shallow", cca="cubic", at={"cca": "cubic"}, buffer_bdp=(0.0, 0.4)
            ),
            "utilisation of cubic in entry shallow at a buffer below 0.4 BDP",
        ),
        (
            RunNumber("share", "a", buffer_bdp=(0.4, 1.0)),
            "share in entry a at a buffer of 0.4 to 1 BDP",
        ),
        (
            RunNumber("share", "a", buffer_bdp=(1.0, math.inf)),
            "share in entry a at a buffer from 1 BDP on",
        ),
        (
            Quotient((RunNumber("variation", "a", "bbr"), RunNumber("variation", "b")), (GOODPUT,)),
            "mean over 2 cells, the first of which is coefficient of variation of bbr in entry a, "
            "over goodput in entry shallow",
        ),
        (
            Quotient((GOODPUT,), (GOODPUT, GOODPUT)),
            "goodput in entry shallow, over mean over 2 cells, the first of which is goodput in "
            "entry shallow",
        ),
        (
            quotient(RunNumber("share", "a", cca="bbr"), RunNumber("fairness", "a")),
            "share of bbr in entry a, over Jain's index in entry a",
        ),
    ],
)
def test_what_is_compared(number: Number, words: str) -> None:
    assert text.what(number) == words


@pytest.mark.parametrize(
    ("quantity", "value", "words"),
    [
        ("retransmits", 171_900.0, "172,000"),
        ("retransmits", 27_630.0, "27,600"),
        ("retransmits", 3159.2, "3,159"),
        ("retransmits", 524.2, "524.2"),
        ("retransmits", 0.0, "0"),
        ("utilisation", 0.637, "63.7%"),
        ("goodput_bps", 9.65e9, "9.65 Gbit/s"),
        ("goodput_bps", None, "–"),
    ],
)
def test_numbers_have_their_unit(quantity: Quantity, value: float | None, words: str) -> None:
    assert text.of_quantity(quantity, value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1902.0, "1,900 times"),
        (25.04, "25 times"),
        (0.0537, "0.0537 times"),
        (999.7, "1,000 times"),
    ],
)
def test_ratios_are_factors(value: float, words: str) -> None:
    assert text.value(quotient(goodput(), goodput()), value) == words


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        (Bound(goodput(), least=9e9), "at least 9.00 Gbit/s"),
        (Bound(RunNumber("share", "a"), least=0.4, most=0.6), "40% to 60%"),
        (Bound(quotient(goodput(), goodput()), most=1.05), "at most 1.05 times"),
        (Bound(quotient(goodput(), goodput()), least=0.9, most=1.1), "0.9 to 1.1 times"),
        (Bound(quotient(goodput(), goodput()), least=1.0), "at least as much"),
        (
            Bound(quotient(RunNumber("retransmits", "a"), RunNumber("retransmits", "a")), most=1.0),
            "at most as many",
        ),
    ],
)
def test_limits(bound: Bound, words: str) -> None:
    assert text.limits(bound) == words


def judged(*samples: tuple[float, ...]) -> JudgedStatement:
    """Returns a statement that asks for at least twice, with a number for each sample."""
    bounds = tuple(
        JudgedBound(Bound(quotient(goodput(), goodput()), least=2.0), MeasuredSample(sample))
        for sample in samples
    )
    return JudgedStatement(Statement("name", "1", "", ()), JudgedBounds(bounds))


def test_what_was_found_is_the_range_of_the_means() -> None:
    assert text.found(judged((1.5, 1.6), (7.0, 8.0), ()).bounds) == "1.55 to 7.5 times"
    assert text.found(judged((1.5, 1.5)).bounds) == "1.5 times"
    assert text.found(judged(()).bounds) == "–"
    assert text.asked(judged((1.5,), (7.0,))) == "at least 2 times"


def test_the_unit_of_a_ratio_stands_once() -> None:
    assert (
        text.seen(judged((1600.0, 1900.0, 2200.0)).bounds[0])
        == "1,900 times (1,280 to 2,810, 3 runs)"
    )


def test_why_a_statement_cannot_be_told() -> None:
    near, few = (1.9, 2.0, 2.1), (5.0, 5.1)
    assert text.why_undecided(judged(near).judged) == "the 95% interval is on both sides of a limit"
    assert text.why_undecided(judged(few).judged) == "fewer than 3 runs"
    assert text.why_undecided(judged(few, near).judged) == (
        "fewer than 3 runs and the 95% interval is on both sides of a limit"
    )
    assert text.why_undecided(judged(near, (1.0, 1.0, 1.0)).judged) == ""


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("3.1", "section 3.1"),
        ("V.A, figure 2", "section V.A, figure 2"),
        ("II and IV", "section II and IV"),
        ("Slide 'Inter-CCA fairness'", "Slide 'Inter-CCA fairness'"),
        ("Gomez et al. 2024, 2.5", "Gomez et al. 2024, 2.5"),
    ],
)
def test_where_a_statement_is_from(section: str, words: str) -> None:
    assert text.section(Statement("name", section, "", ())) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (5, "1 min"),
        (59 * 60 + 29, "59 min"),
        (59 * 60 + 31, "1 h 0 min"),
        (26.5 * 3600, "26 h 30 min"),
    ],
)
def test_times_are_in_hours_and_minutes(seconds: float, words: str) -> None:
    assert hours(seconds) == words
