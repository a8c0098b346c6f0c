"""The HTML report, read as a browser reads it, and its charts."""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from ccmix.report.charts import condition_charts
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
    assert [chart["title"]["text"].split(", ")[:2] for chart in page.charts] == [
        ["1.00 Gbit/s", "base RTT 10 ms"], ["1.00 Gbit/s", "base RTT 88 ms"],
    ]  # fmt: skip
    assert [[panel["vconcat"][0]["title"] for panel in chart["hconcat"]] for chart in page.charts] == [
        ["alone", ODD], ["alone", ODD],
    ]  # fmt: skip


def test_a_chart_draws_valid_runs_only(page: Page) -> None:
    drawn = [
        {(row["entry"], row["iteration"]) for rows in chart["datasets"].values() for row in rows if "iteration" in row}
        for chart in page.charts
    ]
    both = {(entry, iteration) for entry in ("alone", ODD) for iteration in (1, 2, 3)}
    assert drawn == [both - {("alone", 1)}, both - {(ODD, 3)}]


def test_svgs_lie_beside_the_page(report: tuple[Results, Path]) -> None:
    folder = report[1].parent / "report"
    assert sorted(file.name for file in folder.iterdir()) == ["delay=44ms.svg", "delay=5ms.svg"]
    for file in folder.iterdir():
        root = ET.fromstring(file.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = {"".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {"alone", "cubic", "bbr", "goodput (Mbit/s)"} <= texts
        assert not any(name.endswith("href") for element in root.iter() for name in element.attrib)


def test_a_condition_without_a_valid_run_has_no_chart(report: tuple[Results, Path]) -> None:
    results, _ = report
    assert condition_charts(Results(results.runs[:1], 12)) == []


def test_a_report_without_a_chart_and_without_a_suffix(report: tuple[Results, Path], tmp_path: Path) -> None:
    results, _ = report
    page = Page(write_report(Results(results.runs[:1], 12), tmp_path / "report").read_text())
    assert page.charts == []
    assert [row[-2:] for row in page.rows if row] == [["1", "1"]] * 2


def test_settings_of_a_path(report: tuple[Results, Path]) -> None:
    [first, _] = condition_charts(report[0])
    assert first.condition == "delay=5ms"
    assert first.settings == (
        "1.00 Gbit/s, base RTT 10 ms, loss 0% per packet, buffer 1 BDP = 1.25 MB FIFO, MTU 1500, offloads off, "
        "Linux 7.2.12-ccmix"
    )


def test_paths_that_differ_are_not_drawn_as_one(report: tuple[Results, Path]) -> None:
    """Entries without sweeps on two topologies: both have the condition 'all'."""
    results, _ = report
    alike = [replace(result, run=replace(result.run, condition={})) for result in results.runs]
    charts = condition_charts(Results(tuple(alike), 12))
    assert [(chart.condition, chart.settings.split(", ")[1]) for chart in charts] == [
        ("all (1)", "base RTT 10 ms"),
        ("all (2)", "base RTT 88 ms"),
    ]


def test_a_long_run_of_short_intervals_has_a_chart(make_campaign: Callable[..., Path]) -> None:
    """Of more rows than altair takes by itself."""
    outdir = make_campaign("mixed")
    for file in outdir.rglob("intervals.parquet"):
        steps = pl.DataFrame({"step": range(1, 3001)})
        short = steps.select(time_s=pl.col("step") * 0.1, seconds=0.1).join(
            pl.DataFrame({"port": [40000, 40002], "group": ["cubic", "bbr"]}), how="cross"
        )
        short.with_columns(omitted=False, goodput_bps=5e7, retransmits=1).write_parquet(file)
    charts = condition_charts(load_results([outdir]))
    assert len(charts) == 2
    assert all(chart.chart.to_dict() for chart in charts)
