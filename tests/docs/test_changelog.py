"""The list of changes: its form, and that its first section is that of this version."""

import datetime
import re

from ccmix.version import RELEASE
from support.commands import REPOSITORY

TEXT = (REPOSITORY / "CHANGELOG.md").read_text()
HEADING = re.compile(r"^## \[(?P<version>[^]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)
PARTS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Numbers"}
RELEASES = [(found["version"], found["date"]) for found in HEADING.finditer(TEXT)]


def test_its_sections() -> None:
    assert RELEASES[0][0] == RELEASE
    in_progress = RELEASES[0][1] is None
    dates = [datetime.date.fromisoformat(date) for _, date in RELEASES[in_progress:]]
    assert dates == sorted(dates, reverse=True)
    assert len(set(RELEASES)) == len(RELEASES)
    assert len(re.findall(r"^## ", TEXT, re.MULTILINE)) == len(RELEASES)
    assert set(re.findall(r"^### (.*)$", TEXT, re.MULTILINE)) <= PARTS


def test_lines_are_short() -> None:
    assert [
        line for line in TEXT.splitlines() if len(line) > 100 and not line.lstrip().startswith("|")
    ] == []


def test_links_lead_somewhere() -> None:
    files = re.findall(r"\]\((?!https?:)([^)#]+)", TEXT)
    assert files
    assert [file for file in files if not (REPOSITORY / file).exists()] == []
