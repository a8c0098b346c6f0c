"""The commands on the pages: each is a command of ccmix, with options that it has."""

import re
import shlex
from pathlib import Path

import pytest

from support.commands import REPOSITORY, called

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
CODE = re.compile(r"(?:^    [^\n]*\n)+|^```sh\n.*?^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^ *(?:\.venv/bin/|docker compose run dtn )?ccmix (\S.*)$", re.MULTILINE)


def command_lines(page: Path) -> list[str]:
    """Returns the arguments of `ccmix` in the page's blocks of code."""
    text = page.read_text().replace("\\\n", " ")
    return [command for block in CODE.findall(text) for command in SHOWN.findall(block)]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if command_lines(page)], ids=lambda page: page.stem
)
def test_every_command_is_one(page: Path) -> None:
    for line in command_lines(page):
        called(shlex.split(line, comments=True))


def test_commands_are_found() -> None:
    assert sum(len(command_lines(page)) for page in PAGES) > 50
