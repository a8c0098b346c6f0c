"""The documentation's form: its kinds of pages, the list of all pages, and the width of prose."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
KINDS = {"tutorial", "howto", "reference", "explanation"}
WIDEST = 100


def prose(text: str) -> Iterator[str]:
    """Yields the lines that are neither code nor table, without the targets of links and images."""
    code = False
    for line in text.splitlines():
        if line.startswith("```"):
            code = not code
        elif not code and not line.startswith(("|", "    ")):
            yield re.sub(r"\]\([^)]*\)", "]", line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_lines_of_prose_are_short(page: Path) -> None:
    assert [line for line in prose(page.read_text()) if len(line) > WIDEST] == []


def test_every_page_has_a_kind_and_is_listed() -> None:
    listed = set(re.findall(r"\]\(([^)#]+\.md)\)", (DOCS / "README.md").read_text()))
    of_papers = set(re.findall(r"\]\((papers/\w+\.md)#", (DOCS / "papers.md").read_text()))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}
    assert {page for page in pages if page.startswith("papers/")} == of_papers
    pages -= of_papers
    assert {page.split("/")[0] for page in pages if "/" in page} == KINDS
    assert listed == pages
    assert {page for page in pages if "/" not in page} == {"development.md", "papers.md"}


def test_tutorials_are_few() -> None:
    assert len(list((DOCS / "tutorial").iterdir())) == 2
