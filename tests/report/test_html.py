"""Tests the HTML report as text and tags; test_browser.py tests it in a browser."""

import re
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ccmix.analysis.counting import LEGEND
from ccmix.analysis.results import Results, load_results
from ccmix.charts.choose import choose
from ccmix.report.html import OF_A_REPORT, write_report
from ccmix.report.results_text import lines
from ccmix.report.runs import sections

ODD = "<b>bold</b></script><script>alert(1)</script>"


class Page(HTMLParser):
    """Collects tags, addresses, text, and the cells of each table by its region's name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.addresses: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self.blocks: list[str] = []  # of <pre>
        self._region = ""
        self._within = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        values = dict(attrs)
        self.addresses += [
            values[name] or "" for name in ("src", "href", "action", "data") if name in values
        ]
        if values.get("role") == "region":
            self._region = values.get("aria-label") or ""
        elif tag == "table":
            self.tables[self._region] = []
        elif tag == "tr":
            self.tables[self._region].append([])
        elif tag == "td":
            self.tables[self._region][-1].append("")
            self._within = tag
        elif tag == "pre":
            self.blocks.append("")
            self._within = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._within:
            self._within = ""

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._within == "td":
            self.tables[self._region][-1][-1] += data
        elif self._within == "pre":
            self.blocks[-1] += data

    def rows(self, name: str) -> list[list[str]]:
        return [row for row in self.tables[name] if row]


RESULTS = "Goodput, retransmissions and RTT"


@pytest.fixture(scope="module")
def report(make_campaign: Callable[..., Path]) -> tuple[Results, Path]:
    """Makes a single report for all tests, because drawing takes a second."""
    outdir = make_campaign("alone", ODD)
    results = load_results([outdir])
    return results, write_report(results, outdir.parent / "new" / "report.html")


@pytest.fixture(scope="module")
def page(report: tuple[Results, Path]) -> Page:
    return Page(report[1].read_text())


def test_the_answer_comes_first(report: tuple[Results, Path], page: Page) -> None:
    """Its first sentence and its bullets are open, and all else is in 'more'."""
    shown = " ".join(page.text.split())
    answer = shown.index("66.7% of the goodput in ")
    table = shown.index("Goodput is what the receiver's")
    assert answer < table
    section = report[1].read_text().partition('aria-label="Answer"')[2].partition("</section>")[0]
    opened, _, more = section.partition("<summary>more</summary>")
    assert '<p class="lead">' in opened
    assert "Base RTT:" not in opened
    assert more.index("Base RTT:") < more.index("66.7% of the goodput (50% would be fair;")
    assert "1 of 11 runs is left out of all means because of findings: 1 by rtt." in shown


def test_the_page_holds_the_table(report: tuple[Results, Path], page: Page) -> None:
    assert page.rows(RESULTS) == lines(report[0])
    assert "11 of 12 planned runs" in page.text
    assert "1 run is missing" in page.text
    assert "Linux 7.2.12-ccmix" in page.text
    assert "1.00 Gbit/s, base RTT 10 ms or 88 ms, loss 0%, buffer 1 BDP, qdisc bfifo" in page.text
    assert "Base RTT: no share changes by more than 0.1 percentage points." in page.text


def test_names_and_findings_are_text(page: Page) -> None:
    assert page.tags["b"] == page.tags["another"] == page.tags["script"] == 0
    assert any(row[:1] == [ODD] for row in page.rows(RESULTS))
    assert "a path of <another> RTT" in page.text
    assert any(block.startswith("[topology <a&b>]") for block in page.blocks)


def test_the_page_needs_no_network(report: tuple[Results, Path], page: Page) -> None:
    assert [address for address in page.addresses if not address.startswith("#")] == []
    assert not re.search(r"@import|url\((?!#)", report[1].read_text())


def test_each_run_is_there_with_its_numbers(report: tuple[Results, Path], page: Page) -> None:
    for result in report[0].runs:
        groups = page.rows(f"Groups of {result.run.name}")
        flows = page.rows(f"Flows of {result.run.name}")
        assert [row[1] for row in groups] == ["cubic", "bbr"]
        assert [row[:3] for row in flows] == [
            ["cubic", "cubic h1:40000", "50.0 Mbit/s"],
            ["bbr", "bbr h1:40002", "50.0 Mbit/s"],
        ]
        assert result.folder.relative_to(result.outdir).as_posix() in page.text


def test_each_run_has_the_command_that_repeats_it(report: tuple[Results, Path], page: Page) -> None:
    commands = [shlex.split(block) for block in page.blocks if block.startswith("ccmix run")]
    again = ["ccmix", "run", "test.ini", "--lab", "--seed", "1"]
    assert commands[:-1] == [
        [*again, "--run", result.run.name, "-o", "again"]
        for part in sections(report[0].runs)
        for result in part.runs
    ]
    assert commands[-1] == [
        "ccmix",
        "run",
        "configs/test.ini",
        "--lab",
        "-o",
        "results/test",
        "--seed",
        "1",
    ]


def test_a_chart_for_each_condition_is_one_image_with_words(report: tuple[Results, Path]) -> None:
    text = report[1].read_text()
    drawings = [
        ET.fromstring(drawing)
        for drawing in re.findall(r"<svg[^>]*viewBox.*?</svg>", text, re.DOTALL)
        if "marks" in drawing[:200]
    ]
    narrow = text.count('class="narrow"')
    assert len(drawings) - narrow == len(choose(report[0]).charts) >= 2
    for drawing in drawings:
        assert drawing.get("role") == "img"
        assert len(drawing.get("aria-label") or "") > 40
        assert not any(
            name.startswith("aria-")
            for element in drawing.iter()
            if element is not drawing
            for name in element.attrib
        )


def test_svgs_lie_beside_the_page(report: tuple[Results, Path]) -> None:
    folder = report[1].parent / "report-charts"
    assert {"delay=44ms.svg", "delay=5ms.svg"} <= {file.name for file in folder.iterdir()}
    for file in folder.glob("delay=*.svg"):
        root = ET.fromstring(file.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = {
            "".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")
        }
        assert {"alone", "cubic", "bbr", "goodput (bit/s)"} <= texts
        assert not any(name.endswith("href") for element in root.iter() for name in element.attrib)


def test_a_report_without_a_valid_run_and_without_a_suffix(
    report: tuple[Results, Path], tmp_path: Path
) -> None:
    results, _ = report
    page = Page(write_report(Results(results.runs[:1], 12), tmp_path / "report").read_text())
    assert page.tags["figure"] == 1
    assert "No run is valid: what their goodput means is below." in page.text
    assert (
        "1 of 1 run was not as configured (a path whose RTT is not the one configured): 300 Mbit/s"
        in page.text
    )
    assert LEGEND in page.text
    assert [[row[4], *row[-3:]] for row in page.rows(RESULTS)] == [
        ["≠ 100 Mbit/s", "1", "1", "0"],
        ["≠ 200 Mbit/s", "1", "1", "0"],
    ]


def test_a_report_without_a_chart(report: tuple[Results, Path], tmp_path: Path) -> None:
    results, _ = report
    bare = replace(results.runs[0], folder=tmp_path / "out" / "one" / "all" / "dst" / "001")
    assert (
        Page(write_report(Results((bare,), 12), tmp_path / "report.html").read_text()).tags[
            "figure"
        ]
        == 0
    )


def test_charts_of_an_earlier_report_do_not_stay(
    make_campaign: Callable[..., Path], tmp_path: Path
) -> None:
    """This also holds for a campaign with the name of the page."""
    file = tmp_path / "a.html"
    mixed, alone = (load_results([make_campaign(name)]) for name in ("mixed", "all-cubic"))
    write_report(mixed, file)
    (tmp_path / "a-charts" / "mine.svg").write_text("<svg/>")
    (tmp_path / "a-charts" / "delay=1ms.svg").write_text(f"{OF_A_REPORT}\n<svg/>")
    write_report(alone, file)
    left = {each.name for each in (tmp_path / "a-charts").iterdir()}
    assert "mine.svg" in left
    assert "delay=1ms.svg" not in left
    assert "delay=5ms.svg" in left
    assert not (tmp_path / "a").exists()
