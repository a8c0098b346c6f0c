"""Pages in a real browser, Debian's Chromium: what it complains of, what it asks a network for,
and axe-core's word.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium")
Scheme = Literal["light", "dark"]
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yields a browser; skips the test if there is none."""
    if not CHROMIUM:
        pytest.skip("chromium is not installed: tools/setup --dev")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass(frozen=True)
class Opened:
    """A page, and what happened while it was opened: messages on the console and errors, and all
    that it asked for.
    """

    page: Page
    said: list[str]
    asked: list[str]


def opened(
    browser: Browser, file: Path, viewport: dict[str, int] | None = None, scheme: Scheme = "light"
) -> Opened:
    page = browser.new_page(viewport=viewport or DESK, color_scheme=scheme)  # type: ignore[arg-type]
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_load_state("networkidle")
    return Opened(page, said, asked)


def unfold(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")


def violations(page: Page) -> list[str]:
    """Of axe-core's rules, with everything unfolded: contrast, alternative texts, structure."""
    unfold(page)
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['html']}" for rule in found for node in rule["nodes"]]


def pale(page: Page, selector: str, least: float) -> list[str]:
    """Texts and lines of drawings whose contrast to the page (WCAG 2.1) is below `least`."""
    found: list[str] = page.evaluate(CONTRAST, [selector, least])
    return found


CONTRAST = """([selector, least]) => {
    const numbers = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const luminance = colour => numbers(colour)
        .map(value => value / 255)
        .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
        .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
    const page = luminance(getComputedStyle(document.body).backgroundColor);
    const shown = one => one.tagName === 'text' ? getComputedStyle(one).fill : getComputedStyle(one).stroke;
    return [...document.querySelectorAll(selector)].map(one => [one, luminance(shown(one))])
        .filter(([, own]) => (Math.max(own, page) + 0.05) / (Math.min(own, page) + 0.05) < least)
        .map(([one]) => one.outerHTML.slice(0, 200));
}"""


def dead_links(page: Page) -> list[str]:
    """Links whose target is neither in the page nor a file in its folder."""
    return page.evaluate(  # type: ignore[no-any-return]
        """() => [...document.querySelectorAll('a[href]')].map(link => link.getAttribute('href'))
            .filter(href => !href.startsWith('#') || !document.getElementById(decodeURIComponent(href.slice(1))))"""
    )


def too_wide(page: Page) -> bool:
    """Whether the page as a whole scrolls sideways."""
    return bool(
        page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    )
