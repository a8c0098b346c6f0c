"""The HTML report, read as a browser reads it, and its charts."""

import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ccmix.charts.choose import choose
from ccmix.report.html import write_report
from ccmix.report.results import Results, load_results
from ccmix.report.text import lines

ODD = "<b>bold</b></script><script>alert(1)</script>"


class Page(HTMLParser):
    """The elements, the cells of the table and the scripts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.links: list[str] = []
        self.rows: list[list[str]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action", "data")]
        self._inside = tag
        if tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")
        elif tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
            return
        self.text += data
        if self._inside == "td":
            self.rows[-1][-1] += data

    @property
    def charts(self) -> list[dict[str, Any]]:
        """The Vega-Lite specifications that the page draws."""
        calls = [script for script in self.scripts if script.startswith('vegaEmbed("#chart')]
        return [json.JSONDecoder().raw_decode(script, script.index("{"))[0] for script in calls]


@pytest.fixture(scope="module")
def report(make_campaign: Callable[..., Path]) -> tuple[Results, Path]:
    """One for all tests, since drawing takes a second."""
    outdir = make_campaign("alone", ODD)
    results = load_results([outdir])
    return results, write_report(results, outdir.parent / "new" / "report.html")


@pytest.fixture(scope="module")
def page(report: tuple[Results, Path]) -> Page:
    return Page(report[1].read_text())


def test_the_page_holds_the_table(report: tuple[Results, Path], page: Page) -> None:
    assert [row for row in page.rows if row] == lines(report[0])
    assert "11 of 12 planned runs" in page.text
    assert "1 runs are missing" in page.text
    assert "Linux 7.2.12-ccmix" in page.text


def test_names_and_findings_are_text(page: Page) -> None:
    assert page.tags["b"] == page.tags["another"] == 0
    assert page.tags["script"] == 3  # Vega's, and one for each chart
    assert any(row[:1] == [ODD] for row in page.rows)
    assert "a path of <another> RTT" in page.text
    assert "alone, delay=5ms, iteration 1:" in page.text


def test_the_page_needs_no_network(page: Page) -> None:
    assert page.links == []
    assert not re.search(r"""@import|url\(""", page.text)


def test_a_chart_for_each_condition(page: Page) -> None:
    assert len(page.charts) == 2
    assert [" ".join(chart["title"]["subtitle"]).split(", ")[:2] for chart in page.charts] == [
        ["1.00 Gbit/s", "base RTT 10 ms"], ["1.00 Gbit/s", "base RTT 88 ms"],
    ]  # fmt: skip
    assert [[panel["title"] for panel in chart["hconcat"]] for chart in page.charts] == [
        ["alone", ODD], ["alone", ODD],
    ]  # fmt: skip


def test_svgs_lie_beside_the_page(report: tuple[Results, Path]) -> None:
    folder = report[1].parent / "report"
    assert sorted(file.name for file in folder.iterdir()) == ["delay=44ms.svg", "delay=5ms.svg"]
    for file in folder.iterdir():
        root = ET.fromstring(file.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = {"".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {"alone", "cubic", "bbr", "goodput (bit/s)"} <= texts
        assert not any(name.endswith("href") for element in root.iter() for name in element.attrib)


def test_a_condition_without_a_valid_run_has_no_chart(report: tuple[Results, Path]) -> None:
    results, _ = report
    assert choose(Results(results.runs[:1], 12)).charts == ()


def test_a_report_without_a_chart_and_without_a_suffix(report: tuple[Results, Path], tmp_path: Path) -> None:
    results, _ = report
    page = Page(write_report(Results(results.runs[:1], 12), tmp_path / "report").read_text())
    assert page.charts == []
    assert [row[-2:] for row in page.rows if row] == [["1", "1"]] * 2
