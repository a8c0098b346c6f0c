"""Tests that docs/reference/hosts.md lists the present caps."""

from ccmix.hosts.caps import CAPS, Cap
from ccmix.units import format_bytes
from support.commands import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "hosts.md"


def row(cap: Cap) -> str:
    """Returns a row of the page."""
    return f"| {cap.what} | {format_bytes(cap.bytes)} | {cap.reason} |"


def test_the_page_has_a_row_for_each_cap() -> None:
    section = PAGE.read_text().partition("\n## Caps\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [row(cap) for cap in CAPS]
