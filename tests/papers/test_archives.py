"""Runs of the archives behind the page give the same bytes here."""

import re

import pytest

from support.commands import REPOSITORY, Ccmix

ARCHIVES = REPOSITORY / "archive" / "papers"
QUICK = ("dai-fig1", "zeynali-rtt")  # whose runs take a few seconds
OTHERS = sorted({file.stem for file in ARCHIVES.glob("*.zip")} - set(QUICK))

pytestmark = pytest.mark.lab


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]
)
def test_a_run_of_the_archive_gives_the_same_bytes(name: str, ccmix: Ccmix) -> None:
    """Their commands are those of configs/papers. Of a run, these archives have only run.json."""
    repeated = ccmix("verify", ARCHIVES / f"{name}.zip", "--sample", 1, "-j", 1, "--commands")
    assert repeated.returncode == 1, repeated
    run, last = repeated.stdout.splitlines()
    assert re.fullmatch(r".+ #\d+: lacks counters\.parquet, [^:]+", run), repeated
    assert last == "0 of 1 runs gave the same bytes"
    assert "differs" not in run
    assert "in addition" not in run
