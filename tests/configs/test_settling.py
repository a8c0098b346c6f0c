"""Tests that the samples in configs/ settle, by `ccmix plan` and published results, or say which
do not, and why.
"""

import csv
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from ccmix.analysis.lengths import changes_by_design, slowest_period, too_short
from ccmix.config import load
from ccmix.plan import make_plan
from support.commands import REPOSITORY, Ccmix

SAMPLES = sorted((REPOSITORY / "configs").glob("*.ini"))
# The published results of a sample, if it has some
PUBLISHED = {
    "datta-fund": "datta-fund-lab.csv",
    "demo": "demo.zip",
    "real-and-emulated": "real-and-emulated.zip",
    "sender-queue": "sender-queue.csv",
    "spread": "spread.csv",
}
SAID = re.compile(r"Not settled: ([^ ,]+(?:, [^ ,]+)*)\. (?P<why>[A-Z0-9][^.]+)")


def comments(file: Path) -> str:
    return " ".join(
        line.removeprefix("#").strip()
        for line in file.read_text().splitlines()
        if line.startswith("#")
    )


def too_short_entries(file: Path) -> set[str]:
    """Returns the entries with runs whose time is too short, as far as that is known before
    they are made.
    """
    runs = (
        run for run in make_plan(load(file).entries, seed=1) if run.traffic.duration_s is not None
    )
    return {
        run.entry
        for run in runs
        if not changes_by_design(run) and any(too_short(run, slowest_period(run)))
    }


def unsettled_entries(lines: Iterable[str]) -> set[str]:
    """Returns the entries with runs that have not settled, of `ccmix report --format csv`."""
    return {row["entry"] for row in csv.DictReader(lines) if int(row["not_settled"] or 0)}


def report(sample: str, ccmix: Ccmix) -> list[str]:
    archive = REPOSITORY / "archive" / PUBLISHED[sample]
    if archive.suffix == ".csv":
        return archive.read_text().splitlines()
    return ccmix("report", archive, "--format", "csv").stdout.splitlines()


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.stem)
def test_a_sample_says_which_entries_do_not_settle_and_why(file: Path, ccmix: Ccmix) -> None:
    unsettled = too_short_entries(file)
    if file.stem in PUBLISHED:
        unsettled |= unsettled_entries(report(file.stem, ccmix))
    said = SAID.search(comments(file))
    assert set(said[1].split(", ") if said else ()) == unsettled


def test_every_published_result_of_a_sample_is_looked_at() -> None:
    archives = {
        file.name.partition(".")[0].removesuffix("-lab")
        for file in (REPOSITORY / "archive").iterdir()
    }
    assert archives & {file.stem for file in SAMPLES} == set(PUBLISHED)
