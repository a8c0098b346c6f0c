"""The list of changes: its form, and that the newest tag has a section."""

import datetime
import re
import subprocess

import pytest

from support import REPOSITORY

TEXT = (REPOSITORY / "CHANGELOG.md").read_text()
HEADING = re.compile(r"^## \[(?P<version>[^]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)
PARTS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Numbers"}
RELEASES = [(found["version"], found["date"]) for found in HEADING.finditer(TEXT)]


def test_its_sections() -> None:
    (first, no_date), *releases = RELEASES
    assert (first, no_date) == ("Unreleased", None)
    dates = [datetime.date.fromisoformat(date) for _, date in releases]
    assert dates == sorted(dates, reverse=True)
    assert len(set(RELEASES)) == len(RELEASES)
    assert len(re.findall(r"^## ", TEXT, re.MULTILINE)) == len(RELEASES)
    assert set(re.findall(r"^### (.*)$", TEXT, re.MULTILINE)) <= PARTS


def test_lines_are_short() -> None:
    assert [line for line in TEXT.splitlines() if len(line) > 100 and not line.lstrip().startswith("|")] == []


def test_links_lead_somewhere() -> None:
    files = re.findall(r"\]\((?!https?:)([^)#]+)", TEXT)
    assert files
    assert [file for file in files if not (REPOSITORY / file).exists()] == []


def test_the_newest_tag_has_a_section() -> None:
    argv = ["git", "-C", REPOSITORY, "describe", "--tags", "--match", "v[0-9]*", "--abbrev=0"]
    tag = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    if not tag:
        pytest.skip("THE LIST OF CHANGES IS NOT HELD AGAINST A TAG: this clone has none")
    assert tag.removeprefix("v") in dict(RELEASES)
