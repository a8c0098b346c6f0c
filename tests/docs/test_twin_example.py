"""Tests the how-to on the twin of a path: its example is what its commands print."""

from pathlib import Path

import pytest

from support import REPOSITORY, Ccmix

pytestmark = [pytest.mark.lab, pytest.mark.deep, pytest.mark.timeout(900)]

PAGE = REPOSITORY / "docs" / "howto" / "find-the-twin-of-a-path.md"


def test_the_example_is_what_the_commands_print(tmp_path: Path) -> None:
    ccmix, out = Ccmix(tmp_path), tmp_path / "path"
    done = ccmix("run", REPOSITORY / "configs" / "path.ini", "--lab", "--only", "path", "-o", out, timeout=800)
    assert done.returncode == 0, done.stderr
    shown = ccmix("twin", out)
    assert shown.returncode == 0, shown.stderr
    block = "".join(f"    {line}\n" for line in shown.stdout.splitlines())
    assert block in PAGE.read_text()
