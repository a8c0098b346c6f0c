"""Tests the guide on the twin of a path: its example is the output of its commands."""

from pathlib import Path

import pytest

from support.commands import REPOSITORY, Ccmix

pytestmark = [pytest.mark.lab, pytest.mark.deep, pytest.mark.timeout(900)]

PAGE = REPOSITORY / "docs" / "howto" / "find-the-twin-of-a-path.md"


def test_the_example_is_what_the_commands_print(tmp_path: Path) -> None:
    ccmix, out, twin = Ccmix(tmp_path), tmp_path / "path", tmp_path / "twin"
    done = ccmix("run", REPOSITORY / "configs" / "path.ini", "--lab", "-o", out, timeout=800)
    assert done.returncode == 0, done.stderr
    shown = ccmix("twin", out, "-o", tmp_path / "twin.ini")
    assert shown.returncode == 0, shown.stderr
    page = PAGE.read_text()
    assert indented(shown.stdout) in page
    done = ccmix("run", tmp_path / "twin.ini", "--lab", "-o", twin, timeout=800)
    assert done.returncode == 0, done.stderr
    compared = ccmix("compare", out, twin)
    assert compared.returncode == 0, compared.stderr
    [line] = [line for line in compared.stdout.splitlines() if line.endswith("(margin ±10%)")]
    assert indented(line) in page


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())
