"""A page of very many runs shows some of them one by one, and reads the whole run.json only of
these.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.analysis import results as analysis_results
from ccmix.analysis.results import Results, load_results
from ccmix.archive import RunFolder
from ccmix.report import html
from ccmix.report.html import left_out, write_report

MOST = 6


@pytest.fixture
def outdir(
    make_campaign: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Makes a campaign of 11 finished runs in 4 conditions, and sets the limit so that these count
    as many; the first run is not valid.
    """
    monkeypatch.setattr(analysis_results, "MANY_RUNS", 1)
    folder = tmp_path / "many"
    shutil.copytree(make_campaign("alone", "mixed"), folder)
    return folder


@pytest.fixture
def results(outdir: Path) -> Results:
    return load_results([outdir], numbers_of_many=True)


def details(page: Path) -> list[str]:
    """Returns the names of the runs that a page shows one by one."""
    return re.findall(r'aria-label="Groups of ([^"]+)"', page.read_text())


def without_charts(page: Path) -> str:
    """Returns a page without its charts, whose drawings number their parts as long as the process
    lives.
    """
    return re.sub("<figure.*?</figure>", "", page.read_text(), flags=re.DOTALL)


def test_a_page_of_few_runs_shows_all(results: Results) -> None:
    assert html.shown(results, set()) == results.runs
    assert left_out(results, len(results.runs)) == ""


def test_first_come_those_of_charts_then_the_invalid_then_the_first_of_each_condition(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MOST_RUNS", MOST)
    drawn = results.runs[-1]
    chosen = html.shown(results, {drawn.folder})
    assert len(chosen) == MOST
    assert drawn in chosen
    assert next(result for result in results.runs if not result.valid) in chosen
    conditions = {(result.run.entry, result.run.condition_name) for result in results.runs}
    assert {(result.run.entry, result.run.condition_name) for result in chosen} == conditions
    assert [result.run.name for result in chosen] == [
        result.run.name for result in results.runs if result in chosen
    ]  # in their order


def test_where_there_is_no_room_for_all_of_a_step_they_are_spread(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MOST_RUNS", 2)
    assert html.shown(results, {result.folder for result in results.runs}) == (
        results.runs[0],
        results.runs[-1],
    )
    monkeypatch.setattr(html, "MOST_RUNS", 1)
    assert html.shown(results, {results.runs[3].folder}) == (results.runs[3],)


def test_a_page_of_many_runs_reads_those_that_it_shows(
    outdir: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MOST_RUNS", MOST)
    opened: list[Path] = []
    read = RunFolder.read
    monkeypatch.setattr(
        RunFolder, "read", lambda folder: opened.append(folder.path) or read(folder)
    )  # type: ignore[func-returns-value]
    page = write_report(results, outdir / "report.html")
    names = details(page)
    assert len(names) == len(opened) == len(set(opened)) == MOST
    text = page.read_text()
    assert "Of 11 runs, 6 are shown here" in text
    assert "Flows of" in text  # which the numbers of many runs lack
    anchors = set(re.findall(r'href="#([^"]+)"', text))
    assert anchors <= set(re.findall(r'id="([^"]+)"', text))


def test_the_page_of_many_runs_is_that_of_few(
    outdir: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(result.numbers_only for result in results.runs)
    of_many = without_charts(write_report(results, outdir / "report.html"))
    monkeypatch.setattr(analysis_results, "MANY_RUNS", 1000)
    whole = load_results([outdir], numbers_of_many=True)
    assert not any(result.numbers_only for result in whole.runs)
    assert without_charts(write_report(whole, outdir / "report.html")) == of_many


def test_a_run_that_was_removed_meanwhile_is_shown_by_its_numbers(
    outdir: Path, results: Results
) -> None:
    name = results.runs[2].run.name
    (results.runs[2].folder / "run.json").unlink()
    (results.runs[3].folder / "run.json").write_text("{")
    page = write_report(results, outdir / "report.html")
    assert name in details(page)
    assert len(details(page)) == len(results.runs)
    sentences = re.findall("Only its numbers are shown: [^<]*", page.read_text())
    assert len(sentences) == 2
    assert "was removed meanwhile" in sentences[0]
