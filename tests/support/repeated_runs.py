"""Compares two campaigns, of which one repeats the other."""

from pathlib import Path

from ccmix.archive import Campaign
from ccmix.compare.repeated import compare_run


def same_bytes(first: Path, second: Path) -> None:
    """Asserts that each run left the same files in both, with the same metrics and verdict."""
    for run in Campaign.load(first).runs:
        repetition = compare_run(run, first, second)
        assert repetition.same, repetition
        assert repetition.compared > 5
