"""Tests the reports in a real browser: it reports no errors and needs no network, charts are drawn,
and everything is readable.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from ccmix.analysis.results import load_results
from ccmix.charts.draw import inline, svg
from ccmix.cli.compare import compared
from ccmix.cli.report import against_baseline
from ccmix.report import html
from ccmix.report.html import write_report
from support.browser import (
    PHONE,
    Scheme,
    chromium,
    dead_links,
    opened,
    pale,
    too_wide,
    unfold,
    violations,
)
from support.chart_specs import specs
from support.filled_index import RECORDED

PAGES = ("report", "against", "compare", "ranges", "path")
RECORDED_PATHS = {outdir.name: outdir for outdir in RECORDED}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def pages(make_campaign: Callable[..., Path]) -> dict[str, Path]:
    """Makes the reports: of a campaign, of a comparison with a baseline, of two campaigns, of
    ranges, and of a path.
    """
    outdir, other = make_campaign("all-cubic", "mixed"), make_campaign("all-cubic")
    results = load_results([outdir])
    made = {name: outdir.parent / f"{name}.html" for name in PAGES}
    write_report(results, made["report"])
    made["against"].write_text(
        against_baseline(results, "group=cubic", "share", "html"), encoding="utf-8"
    )
    made["compare"].write_text(compared(outdir, other, 0.1, "html"), encoding="utf-8")
    ranges = compared(RECORDED_PATHS["real"], RECORDED_PATHS["twin"], 0.1, "html")
    made["ranges"].write_text(ranges, encoding="utf-8")
    write_report(load_results([RECORDED_PATHS["path"]]), made["path"])
    return made


@pytest.fixture(scope="module")
def report(pages: dict[str, Path]) -> Path:
    return pages["report"]


@pytest.mark.parametrize("name", PAGES)
def test_opens_in_silence_and_without_a_network(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    there = opened(browser, pages[name])
    assert there.page.locator("h1").inner_text()
    assert there.said == []
    assert there.asked == [pages[name].as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_accessible(browser: Browser, pages: dict[str, Path], name: str, scheme: Scheme) -> None:
    assert violations(opened(browser, pages[name], scheme=scheme).page) == []


@pytest.mark.parametrize(
    ("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(18, 23, 29)")]
)
def test_drawings_can_be_read_on_light_and_on_dark(
    browser: Browser, report: Path, scheme: Scheme, paper: str
) -> None:
    """axe-core doesn't check drawings. Numbers on coloured cells, which are black or white by name,
    are not on the page's background.
    """
    page = opened(browser, report, scheme=scheme).page
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
    texts = "figure svg text:not([fill=black]):not([fill=white])"
    lines = "figure svg .mark-line path"
    assert page.locator(texts).count() > 20
    assert page.locator(lines).count() > 4
    assert pale(page, texts, 4.5) == []
    assert pale(page, lines, 3.0) == []


@pytest.mark.parametrize("name", PAGES)
def test_fits_a_phone(browser: Browser, pages: dict[str, Path], name: str) -> None:
    page = opened(browser, pages[name], PHONE).page
    assert not too_wide(page)
    unfold(page)
    assert not too_wide(page)


def test_charts_over_time_need_no_sideways_scrolling_on_a_phone(
    browser: Browser, report: Path
) -> None:
    """Their panels are one below the other, and their letters stay readable; a wide screen shows
    the wide drawing.
    """
    page = opened(browser, report, {"width": 390, "height": 844}).page
    drawings = page.locator("figure .narrow svg")
    assert drawings.count() > 1
    assert [drawing.bounding_box()["width"] <= 390 for drawing in drawings.all()] == [
        True
    ] * drawings.count()  # type: ignore[index]
    letters = page.locator("figure .narrow svg text").evaluate_all(
        "all => all.map(text => parseFloat(getComputedStyle(text).fontSize) * "
        "text.getScreenCTM().d).filter(size => size > 0)"
    )
    assert min(letters) > 8
    assert not page.locator("figure .wide").first.is_visible()
    desk = opened(browser, report).page
    assert desk.locator("figure .wide").first.is_visible()
    assert not desk.locator("figure .narrow").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_medians_can_be_read_on_light_and_on_dark(
    browser: Browser, tmp_path: Path, scheme: Scheme
) -> None:
    style = Path(html.__file__).with_name("style.css").read_text()
    drawn = inline(svg(specs()["box"]), "chart1", "").svg
    page = tmp_path / "box.html"
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><style>{style}</style><figure>{drawn}</figure>',
        encoding="utf-8",
    )
    there = opened(browser, page, scheme=scheme).page
    medians = "figure svg .role-mark path[fill='#333333']"
    assert there.locator(medians).count() > 2
    assert pale(there, medians, 3.0) == []


@pytest.mark.parametrize("name", ["report", "compare"])
def test_labels_are_not_cut_off(browser: Browser, pages: dict[str, Path], name: str) -> None:
    """Without Liberation Sans, the browser's letters are wider than those of the layout."""
    page = opened(browser, pages[name]).page
    assert page.locator("figure svg text").count() > 20
    cut = page.evaluate(
        """() => [...document.querySelectorAll('figure svg text')].filter(text => {
            const own = text.getBoundingClientRect(), around = text.closest('.scroll, .narrow').getBoundingClientRect();
            return own.left < around.left - 1 || own.right > around.right + 1;
        }).map(text => text.textContent)"""
    )
    assert cut == []


def test_charts_use_the_width_of_the_page(browser: Browser, report: Path) -> None:
    """Each chart is as wide as its part of the page, or 1.4 times as wide as it was drawn."""
    page = opened(browser, report).page
    shares = page.evaluate(
        """() => [...document.querySelectorAll('figure')].map(figure => {
            const svg = figure.querySelector('svg'), wide = svg.getBoundingClientRect().width;
            return Math.max(wide / figure.getBoundingClientRect().width, wide / svg.getAttribute('width') / 1.4);
        })"""
    )
    assert len(shares) >= 2
    assert min(shares) > 0.99


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ranges_and_stations_can_be_read_on_light_and_on_dark(
    browser: Browser, pages: dict[str, Path], scheme: Scheme
) -> None:
    ranges, path = (opened(browser, pages[name], scheme=scheme).page for name in ("ranges", "path"))
    assert pale(ranges, "figure svg text", 4.5) == []
    assert ranges.locator("figure svg .mark-rect path").count() >= 2
    assert path.locator(".stations li:visible").count() == 4


@pytest.mark.parametrize("name", ["report", "compare"])
def test_on_a_phone_goodput_is_seen_at_once(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    page = opened(browser, pages[name], PHONE).page
    goodput = page.locator("td[data-label^=goodput]").first
    box = goodput.bounding_box()
    assert box
    assert box["x"] + box["width"] <= PHONE["width"]
    assert "bit/s" in goodput.inner_text()


def test_a_title_stands_once(browser: Browser, report: Path) -> None:
    page = opened(browser, report, PHONE).page
    titles = page.locator("figure h3").all_inner_texts()
    assert titles
    assert not set(titles) & set(page.locator("figure svg text").all_text_contents())


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(browser: Browser, pages: dict[str, Path], name: str) -> None:
    page = opened(browser, pages[name]).page
    assert dead_links(page) == []
    assert name != "report" or page.locator("a[href]").count() > 10


def test_charts_and_strips_are_drawn(browser: Browser, report: Path) -> None:
    page = opened(browser, report).page
    charts = page.locator("figure .scroll svg")
    assert charts.count() >= 2
    for chart in charts.all():
        box = chart.bounding_box()
        assert box
        assert box["width"] > 150
        assert box["height"] > 100
        assert chart.locator("path[stroke], path[fill], rect[fill]").count() >= 4
    of_time = page.locator("figure:has-text('delay=') svg")
    assert (
        of_time.locator("path[stroke-width]").count() >= 2 * 2 * 2
    )  # a bold line for each CCA, entry and condition
    page.locator("#run-2").evaluate("one => one.parentElement.open = true")
    strip = page.locator("#run-2 svg.strip")
    assert [line.get_attribute("stroke") for line in strip.locator("polyline").all()] == [
        "#D55E00",
        "#0072B2",
    ]
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


def test_prints_the_answer_and_the_charts(browser: Browser, report: Path) -> None:
    page = opened(browser, report, scheme="dark").page
    folded = page.get_by_role("region", name="Shares, start-up and queues")
    assert not folded.is_visible()
    page.emulate_media(media="print")
    assert folded.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".answer").is_visible()
    assert page.locator("figure svg").first.is_visible()
    assert not page.locator("nav").is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")
