"""Each complete configuration that a page shows can be read."""

import re
from pathlib import Path

import pytest

from ccmix.config import load
from support.commands import REPOSITORY
from support.pscheduler_stand_in import certificate

FENCED = re.compile(r"^```ini\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = [
    pytest.param(example, id=f"{page.stem} {number}")
    for page in sorted((REPOSITORY / "docs").rglob("*.md"))
    for number, example in enumerate(FENCED.findall(page.read_text()), 1)
    if re.search("^type *=", example, re.MULTILINE)
]


def test_pages_show_examples() -> None:
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_can_be_read(tmp_path: Path, example: str) -> None:
    certificate(tmp_path / "pem").certificate.rename(tmp_path / "ps1.pem")
    config = tmp_path / "example.ini"
    config.write_text(example)
    assert load(config).entries
