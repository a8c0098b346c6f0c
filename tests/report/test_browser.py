"""The reports in a real browser: no complaints, nothing asked of a network, charts drawn, all of it readable."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browser import PHONE, chromium, dead_links, opened, too_wide, violations
from ccmix.report.html import write_report
from ccmix.report.results import load_results


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def report(make_campaign: Callable[..., Path]) -> Path:
    outdir = make_campaign("all-cubic", "mixed")
    return write_report(load_results([outdir]), outdir / "report.html")


def test_opens_in_silence_and_without_a_network(browser: Browser, report: Path) -> None:
    there = opened(browser, report)
    assert there.said == []
    assert there.asked == [report.as_uri()]


def test_charts_and_strips_are_drawn(browser: Browser, report: Path) -> None:
    page = opened(browser, report).page
    charts = page.locator("figure svg")
    assert charts.count() >= 2
    for chart in charts.all():
        box = chart.bounding_box()
        assert box
        assert box["width"] > 300
        assert box["height"] > 100
    of_time = page.locator("figure:has-text('delay=') svg")
    assert of_time.locator("path[stroke-width]").count() >= 2 * 2 * 2  # a bold line for each CCA, entry and condition
    page.locator("#run-2").evaluate("one => one.parentElement.open = true")
    strip = page.locator("#run-2 svg.strip")
    assert [line.get_attribute("stroke") for line in strip.locator("polyline").all()] == ["#D55E00", "#0072B2"]
    box = strip.bounding_box()
    assert box
    assert box["height"] > 50


def test_a_run_is_one_click_away(browser: Browser, report: Path) -> None:
    page = opened(browser, report).page
    command = page.locator("#run-2 pre")
    assert not command.is_visible()
    page.locator("summary", has_text="#2:").first.click()
    assert command.is_visible()
    page.goto(f"{report.as_uri()}#run-5")  # an address of a run, to be passed on, unfolds it
    assert page.locator("#run-5 pre").is_visible()


def test_links_lead_somewhere(browser: Browser, report: Path) -> None:
    page = opened(browser, report).page
    assert page.locator("a[href]").count() > 10
    assert dead_links(page) == []


def test_accessible(browser: Browser, report: Path) -> None:
    assert violations(opened(browser, report).page) == []


def test_fits_a_phone(browser: Browser, report: Path) -> None:
    page = opened(browser, report, PHONE).page
    assert not too_wide(page)
    assert violations(page) == []  # and unfolds everything
    assert not too_wide(page)


def test_prints_the_answer_and_the_charts(browser: Browser, report: Path) -> None:
    page = opened(browser, report).page
    page.emulate_media(media="print")
    assert page.locator(".answer").is_visible()
    assert page.locator("figure svg").first.is_visible()
    assert page.get_by_role("region", name="Shares, start-up and queues").is_visible()  # folded on the screen
    assert not page.locator("nav").is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")
