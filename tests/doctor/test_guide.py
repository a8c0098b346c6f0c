"""Tests that docs/reference/doctor-checks.md has every check that there is."""

import re

import pytest

from ccmix.doctor import login
from support import REPOSITORY

SOURCES = [path.read_text() for path in (REPOSITORY / "harness" / "ccmix" / "doctor").glob("*.py")]
# The first words of what a Finding is called, where that is written as it is
NAMES = sorted({match[1] for text in SOURCES for match in re.finditer(r'Finding\(\s*f?"([^"{]+)', text)})


def test_the_names_are_found() -> None:
    assert {"cores", "clock", "patched iperf3", "CCA ", "irqbalance"} <= set(NAMES)


@pytest.mark.parametrize("name", [*NAMES, *login.CAPABILITIES, "net.ipv4.tcp_wmem", "net.core.wmem_max", "lab: kernel"])
def test_a_check_is_in_the_guide(name: str) -> None:
    table = (
        (REPOSITORY / "docs" / "reference" / "doctor-checks.md")
        .read_text()
        .partition("## What is checked")[2]
        .partition("\n## ")[0]
    )
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| ")]
    assert any(name.strip().removesuffix(":") in cell for cell in first), first
