"""The guide on adding a paper shows the project's own files."""

import re

import pytest

from support.commands import REPOSITORY

GUIDE = (REPOSITORY / "docs" / "howto" / "add-a-paper.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
FILES = {
    "ini": "configs/papers/dai-fig1.ini",
    "toml": "configs/papers/dai-fig1.toml",
    "gomez": "configs/papers/gomez-fig7.toml",
    "csv": "configs/papers/published/tierney-table2.csv",
}


@pytest.mark.parametrize(("kind", "block"), BLOCKS)
def test_each_block_is_in_its_file(kind: str, block: str) -> None:
    assert block in (REPOSITORY / FILES[kind]).read_text()


def test_all_kinds_are_shown() -> None:
    assert {kind for kind, _ in BLOCKS} == set(FILES)
