"""Tests that docs/reference/doctor-checks.md lists every check."""

import re

import pytest

from ccmix.doctor import rights
from support.commands import REPOSITORY

FINDING = re.compile(
    r'\b(?:(?:DoctorFinding|ok|warn|fail|unknown)\(|lack\(\s*[\w. ]+(?:\(\w+\))?,)\s*f?"([^"{]+)'
)
SOURCES = [path.read_text() for path in (REPOSITORY / "harness" / "ccmix" / "doctor").glob("*.py")]
# The first words of the names of findings that are literal in the source
NAMES = sorted({match[1] for text in SOURCES for match in FINDING.finditer(text)})


def test_the_names_are_found() -> None:
    assert {"cores", "clock", "patched iperf3", "CCA ", "irqbalance"} <= set(NAMES)


@pytest.mark.parametrize(
    "name",
    [
        *NAMES,
        *(f"CAP_{name}" for name in rights.USED_FOR),
        "net.ipv4.tcp_wmem",
        "net.core.wmem_max",
        "lab: kernel",
    ],
)
def test_a_check_is_in_the_guide(name: str) -> None:
    table = (
        (REPOSITORY / "docs" / "reference" / "doctor-checks.md")
        .read_text()
        .partition("## What is checked")[2]
        .partition("\n## ")[0]
    )
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| ")]
    assert any(name.strip().removesuffix(":") in cell for cell in first), first
