"""Arguments and options that several commands share."""

from pathlib import Path

import pytest

from support.commands import Ccmix


@pytest.mark.parametrize(
    "command",
    [
        ("report", "circle"),
        ("compare", "circle", "circle"),
        ("import", "circle", "-o", "out"),
        ("run", "lab.ini", "--lab", "-o", "circle"),
        ("archive", "unpack", "circle"),
    ],
    ids=" ".join,
)
def test_a_link_that_leads_to_itself_is_refused(
    command: tuple[str, ...], ccmix: Ccmix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ccmix.folder)
    Path("circle").symlink_to("circle")
    assert ccmix("init", "lab", "lab").returncode == 0
    done = ccmix(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(": the link 'circle' leads to itself\n")
