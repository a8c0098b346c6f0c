"""Tests warnings about the verdict before a run."""

from dataclasses import replace

from ccmix.analysis.validity.verdict import unknown_for_sure
from ccmix.model import Run


def test_an_interval_as_long_as_the_run_leaves_too_few_samples(run: Run) -> None:
    """The measured time is 4 s."""
    assert (
        list(unknown_for_sure([run, replace(run, traffic=replace(run.traffic, interval_s=2.0))]))
        == []
    )
    for interval_s in (4.0, 2.1):
        sparse = replace(run, traffic=replace(run.traffic, interval_s=interval_s))
        [sentence] = unknown_for_sure([run, sparse, sparse])
        assert "so runs will be unknown: set interval to at most 2 s" in sentence


def test_nothing_is_foreseen_of_a_run_of_unknown_length(run: Run) -> None:
    open_ended = replace(run, traffic=replace(run.traffic, duration_s=None, interval_s=60.0))
    assert list(unknown_for_sure([open_ended])) == []
