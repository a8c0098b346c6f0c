"""Links, anchors and names of files in the project's Markdown pages lead somewhere."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from support.commands import REPOSITORY

PAGES = sorted(
    REPOSITORY / name
    for name in subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=REPOSITORY,
        text=True,
    ).splitlines()
    if (REPOSITORY / name).is_file()
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`[^`\n]+`")


def without_fences(text: str) -> str:
    return FENCED.sub("", text)


def without_code(text: str) -> str:
    return INLINE.sub("", without_fences(text))


def anchor(heading: str) -> str:
    """Returns the anchor that Git servers give a heading: lower case, hyphens for spaces, no
    punctuation.
    """
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    text = without_fences(page.read_text())
    headings = re.findall(r"^#{1,6} +(.+?)\s*$", text, re.MULTILINE)
    return {anchor(heading) for heading in headings} | set(re.findall(r'<a id="([^"]+)"', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(without_code(page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (fragment and fragment not in anchors(file)):
            broken.append(target)
    assert broken == []


MENTIONED = re.compile(r"(?<![\w./-])(docs/[\w./-]+\.(?:md|svg|png|ini))(?![\w-])")


def test_every_page_that_the_code_names_exists() -> None:
    """Docstrings, messages and configurations name pages by their path from the
    repository's root.
    """
    found = subprocess.check_output(
        ["git", "grep", "-IohE", r"docs/[A-Za-z0-9_./-]+\.(md|svg|png|ini)", "--", ":!archive"],
        cwd=REPOSITORY,
        text=True,
    )
    named = {name for line in found.splitlines() for name in MENTIONED.findall(line)}
    assert named
    assert {name for name in named if not (REPOSITORY / name).is_file()} == set()


DEVELOPMENT = (REPOSITORY / "docs" / "development.md").read_text()
PACKAGE = REPOSITORY / "harness" / "ccmix"
PATH = re.compile(r"`([\w./-]+(?:/|\.(?:py|md|ini|toml|c|h|svg)))`")


def files(cell: str, folder: Path = PACKAGE) -> list[Path]:
    """Returns the files that the paths in a table's cell may mean: below the repository, the
    package, or a folder of it.
    """
    return [
        next(
            (root / path for root in (REPOSITORY, PACKAGE, folder) if (root / path).exists()),
            folder / path,
        )
        for path in PATH.findall(cell)
    ]


def test_the_development_page_names_files_that_exist() -> None:
    missing = []
    for line in without_fences(DEVELOPMENT).splitlines():
        package = re.match(r"\| `(\w+)`", line)
        missing += [
            file
            for file in files(line, PACKAGE / package[1] if package else PACKAGE)
            if not file.exists()
        ]
    assert missing == []


def test_names_of_the_example_are_in_the_files_beside_them() -> None:
    section = DEVELOPMENT.partition("## Where loss is\n")[2].partition("\n## ")[0]
    rows = [
        line.split(" | ") for line in section.splitlines() if line.startswith(("| Where", "| What"))
    ]
    assert len(rows) > 10
    for _, paths, names in rows:
        text = "".join(file.read_text() for file in files(paths))
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b{name}\b", text), (name, paths)
