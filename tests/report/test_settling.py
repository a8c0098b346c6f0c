"""Runs that have not settled are counted, marked and explained wherever results are shown."""

from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from ccmix.analysis.results import Result, Results, load_results
from ccmix.analysis.sharing import sharing
from ccmix.compare import comparison_text
from ccmix.compare.formats import html_page, terminal
from ccmix.compare.verdicts import compare
from ccmix.index.summaries import run_documents
from ccmix.model.results import Settling
from ccmix.report.answer import answer
from ccmix.report.html import write_report
from ccmix.report.results_text import headings, lines, notes

RISES = "bbr's goodput still rises (x1.6 from the first to the last quarter)"
NOT_SETTLED = Settling(
    settled=False, reasons=(RISES,), warm_up_s=3.0, slowest_period_s=10.0, enough_s=120.0
)
WORSE = replace(NOT_SETTLED, reasons=("10 s are too short to tell",), enough_s=600.0)
SENTENCE = "not settled: 10 s are too short to tell; duration = 600s would do"


@pytest.fixture
def campaign(make_campaign: Callable[..., Path]) -> Results:
    """Three iterations each at 5 and 44 ms: the first at 5 ms is not valid and has not settled; two
    at 44 ms have not settled.
    """
    results = load_results([make_campaign("mixed")])
    of_44ms = [result for result in results.runs if result.run.condition["delay"] == "44ms"]
    settlings = {id(results.runs[0]): WORSE, id(of_44ms[0]): NOT_SETTLED, id(of_44ms[1]): WORSE}
    runs = [
        _with(result, settlings.get(id(result), Settling(settled=True))) for result in results.runs
    ]
    return replace(results, runs=tuple(runs))


def _with(result: Result, settling: Settling) -> Result:
    metrics = replace(result.finished.metrics, settling=settling)
    return replace(result, finished=replace(result.finished, metrics=metrics))


def test_the_table_counts_them_and_a_note_says_what_would_do(campaign: Results) -> None:
    assert not campaign.runs[0].valid
    at = headings(campaign).index("not settled")
    assert {(line[1], line[at]) for line in lines(campaign)} == {("5ms", "0"), ("44ms", "2")}
    written = [note for note in notes(campaign) if "settled" in note]
    of_44ms = sum(result.run.condition["delay"] == "44ms" for result in campaign.runs)
    assert written == [f"mixed delay=44ms: 2 of {of_44ms} runs {SENTENCE}"]
    assert lines(campaign)[0][2] != "–"  # goodput is shown all the same


def test_the_answer_warns_of_them(campaign: Results) -> None:
    shares = sharing((result.outdir, result.finished) for result in campaign.runs)
    assert answer(shares).warnings[0] == (
        f"2 of {shares.valid} valid runs, at a base RTT of 88 ms, have not settled: longer ones "
        f"may have other goodputs and shares. One is {SENTENCE}."
    )


def test_the_page_marks_each_of_them(campaign: Results, tmp_path: Path) -> None:
    page = write_report(campaign, tmp_path / "report.html").read_text()
    assert page.count('<span class="status unsettled">not settled</span>') == 3
    assert page.count(f'<p class="warning">{SENTENCE}</p>') == 2


def test_a_comparison_counts_them_and_says_which_duration_would_do(campaign: Results) -> None:
    compared = compare(campaign, campaign)
    by_delay = {
        condition.a.first.run.condition["delay"]: condition for condition in compared.conditions
    }
    title = comparison_text.title(by_delay["44ms"])
    assert title.count("(2 not settled: duration = 600s would do) over") == 2
    assert "not settled" not in comparison_text.title(by_delay["5ms"])
    summary = comparison_text.summary(compared)
    assert summary.endswith(
        "In 1 condition runs have not settled: longer runs may have other goodputs; duration = "
        "600s would do"
    )
    for page in (terminal(compared), html_page(compared, "before", "after")):
        assert title in page
        assert summary in unescape(page)
    said = {
        cell["condition"]["delay"]: cell
        for one in compared.to_json()["conditions"]
        for cell in (one["a"], one["b"])
    }
    assert (said["44ms"]["enough_s"], said["5ms"]["enough_s"]) == (600.0, None)


def test_of_runs_that_need_the_same_duration_the_longest_warm_up_counts(campaign: Results) -> None:
    late, later = (replace(NOT_SETTLED, enough_omit_s=omit_s) for omit_s in (10.0, 30.0))
    [*_, last] = (result for result in campaign.runs if result.run.condition["delay"] == "44ms")
    runs = replace(
        campaign, runs=tuple(_with(each, later if each is last else late) for each in campaign.runs)
    )
    titles = [comparison_text.title(condition) for condition in compare(runs, runs).conditions]
    assert ["omit = 10s, duration = 120s would do" in title for title in titles] == [True, False]
    assert ["omit = 30s, duration = 120s would do" in title for title in titles] == [False, True]


def test_the_index_has_them(campaign: Results) -> None:
    [first, *_] = (
        result for result in campaign.runs if result.finished.metrics.settling == NOT_SETTLED
    )
    by_kind = dict(run_documents(campaign.campaigns[0], first))
    assert (by_kind["runs"]["ccmix.settled"], by_kind["groups"]["ccmix.settled"]) == (False, False)
    assert by_kind["runs"]["ccmix.settling.reasons"] == [RISES]
    assert by_kind["runs"]["ccmix.settling.enough_s"] == 120.0
    [settled, *_] = (
        result
        for result in campaign.runs
        if result.finished.metrics.settling == Settling(settled=True)
    )
    own = dict(run_documents(campaign.campaigns[0], settled))["runs"]
    assert (own["ccmix.settled"], own["ccmix.settling.enough_s"]) == (
        True,
        settled.run.traffic.duration_s,
    )


def test_an_older_run_was_not_judged(campaign: Results) -> None:
    old = replace(campaign.runs[0].finished.metrics, settling=None)
    result = replace(campaign.runs[0], finished=replace(campaign.runs[0].finished, metrics=old))
    assert dict(run_documents(campaign.campaigns[0], result))["runs"]["ccmix.settled"] is None
    assert not [note for note in notes(replace(campaign, runs=(result,))) if "settled" in note]
