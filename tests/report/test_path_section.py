"""Tests the part of a report on a path that a run of type path measured: 20 Mbit/s, 20 ms, a buffer
of 50 kB, 0.1% loss.
"""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from ccmix.analysis.results import Results, load_results
from ccmix.cli.report import _answer_text
from ccmix.report import results_text
from ccmix.report.heading import MeasuredPath, Station, measured_paths, path_drawing, path_sentence
from ccmix.report.html import write_report
from support.filled_index import RECORDED

OUTDIRS = {outdir.name: outdir for outdir in RECORDED}
UNTOLD = MeasuredPath(
    "a to b (1 run)", (Station("sender", ()), Station("bottleneck", ("rate ?", "buffer ?"))), ()
)


@pytest.fixture(scope="module")
def results() -> Results:
    return load_results([OUTDIRS["path"]])


@pytest.fixture(scope="module")
def page(results: Results, tmp_path_factory: pytest.TempPathFactory) -> str:
    return unescape(
        write_report(results, tmp_path_factory.mktemp("report") / "report.html").read_text()
    )


def test_a_path_has_its_estimates(results: Results) -> None:
    [path] = measured_paths(results)
    assert path.title == "path, emulated (1 run)"
    lines = {line[0]: line[1:] for line in path.lines}
    assert lines["rate"][0] == "20.0 Mbit/s"
    assert lines["base RTT"][0] == "19.99 ms"
    assert re.fullmatch(r"\d+(\.\d+)? kB to \d+(\.\d+)? kB", lines["buffer"][1])
    assert lines["burst of losses"][0] == "cannot be told"
    assert lines["burst of losses"][2].startswith("because ")


def test_the_drawing_has_the_stations_in_the_order_of_packets(results: Results) -> None:
    [path] = measured_paths(results)
    assert [station.name for station in path.stations] == [
        "sender",
        "bottleneck",
        "the way",
        "receiver",
    ]
    assert re.fullmatch(
        r"sender ── \[bottleneck: rate 20.0 Mbit/s, cross traffic .*, buffer .* kB, queue fifo\] "
        r"── "
        r"\[the way: base RTT 19.99 ms, random loss .*%, reordering .*\] ── "
        r"\[receiver: receiver's window at least .*\]",
        path_drawing(path),
    )


def test_what_cannot_be_told_is_a_question_mark(results: Results) -> None:
    assert path_drawing(UNTOLD) == "sender ── [bottleneck: rate ?, buffer ?]"
    assert (
        path_sentence(UNTOLD)
        == "The path a to b (1 run): nothing is known. Cannot be told: rate, buffer."
    )
    [path] = measured_paths(results)
    assert "?" not in path_drawing(path)
    assert "burst" not in path_drawing(path)  # of losses, or of a policer: most paths have none


def test_the_page_begins_with_the_path(page: str, results: Results) -> None:
    """The steps of the run are not competing groups."""
    [path] = measured_paths(results)
    answer = page[page.index('aria-label="Answer"') : page.index("</section>")]
    assert f'<p class="lead">{path_sentence(path)}</p>' in answer
    assert "competing" not in answer
    assert '<a href="#path">The path</a>' in page
    section = page[page.index('id="path"') : page.index('id="results"')]
    for station in path.stations:
        assert f"<strong>{station.name}</strong>" in section
    for line in path.lines:
        for cell in line:
            assert f">{cell}</td>" in section


def test_the_terminal_has_the_path_above_the_table(results: Results) -> None:
    [path] = measured_paths(results)
    text = results_text.render(results)
    assert (
        text.index(path_drawing(path))
        < text.index("The path: path, emulated (1 run)")
        < text.index("mean goodput of")
    )
    assert _answer_text(results).splitlines()[0] == path_sentence(path)


@pytest.mark.parametrize("name", ["real", "emulated"])
def test_reports_of_other_runs_have_no_such_section(name: str, tmp_path: Path) -> None:
    other = load_results([OUTDIRS[name]])
    assert measured_paths(other) == []
    assert 'id="path"' not in write_report(other, tmp_path / "report.html").read_text()
    assert "The path:" not in results_text.render(other)


def test_a_run_that_is_not_valid_says_nothing_of_its_path(results: Results) -> None:
    [result] = results.runs
    limited = replace(result.finished, verdict=replace(result.finished.verdict, status="limited"))
    assert measured_paths(Results((replace(result, finished=limited),), 1)) == []
