"""Tests what a report says of conditions that are one range."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ccmix.analysis.results import Results, load_results
from ccmix.archive import Campaign, RunFolder
from ccmix.cli.report import _answer_text
from ccmix.model import Group, Run, UdpSource
from ccmix.report import results_text
from ccmix.report.effects_text import range_sentences
from ccmix.report.html import write_report
from support.finished_runs import campaign_plan, finished_run, group_metrics, metrics
from support.model import TOPOLOGY, add_sources, iperf3_traffic

TRAFFIC = iperf3_traffic((Group("cubic"),), 1, 10.0, 0.0, 1.0)
OF_BUFFER = (
    "twin: buffer is not known, so conditions that differ only in it are one range: the goodput "
    "of cubic is somewhere from 40.0 Mbit/s to 90.0 Mbit/s (2 conditions)."
)


def campaign(
    tmp_path: Path,
    unknown: Mapping[str, tuple[str, ...]],
    *goodputs: tuple[dict[str, str], float],
    cross: Sequence[UdpSource] = (),
) -> Results:
    """Makes one run of each condition, which so has no interval; one that carried nothing is
    not valid.
    """
    traffic = add_sources(TRAFFIC, *cross)
    runs = [
        Run("twin", condition, "receiver", 1, 7, traffic, TOPOLOGY) for condition, _ in goodputs
    ]
    Campaign.create(tmp_path / "twin", campaign_plan(runs, unknown=unknown, seed=1))
    for run, (_, goodput_bps) in zip(runs, goodputs, strict=True):
        folder = RunFolder.of(tmp_path / "twin", run)
        folder.begin()
        of_run = metrics(
            [group_metrics("cubic", goodput_bps), *(group_metrics(udp.name) for udp in cross)]
        )
        folder.finish(finished_run(run, of_run, "valid" if goodput_bps else "limited"))
    return load_results([tmp_path / "twin"])


TWO = ({"buffer": "0.1bdp"}, 40e6), ({"buffer": "1bdp"}, 90e6)


def test_conditions_that_differ_in_what_is_not_known(tmp_path: Path) -> None:
    results = campaign(tmp_path, {"twin": ("buffer",)}, *TWO)
    assert list(range_sentences(results)) == [OF_BUFFER]
    assert OF_BUFFER in results_text.notes(results)
    first, bullet, *_, more = _answer_text(results).splitlines()
    assert first == "Goodput is 40.0 Mbit/s to 90.0 Mbit/s in 2 conditions."
    assert (bullet, more) == (f"- {OF_BUFFER}", "For more, open the report:")
    assert f"<li>{OF_BUFFER}</li>" in write_report(results, tmp_path / "report.html").read_text()


def test_the_goodput_of_cross_traffic_is_no_range(tmp_path: Path) -> None:
    results = campaign(
        tmp_path, {"twin": ("buffer",)}, *TWO, cross=[UdpSource("others", "h2", 1e6, 1)]
    )
    assert list(range_sentences(results)) == [OF_BUFFER]


def test_without_unknown_keys_nothing_is_said(tmp_path: Path) -> None:
    results = campaign(tmp_path, {"another": ("buffer",)}, *TWO)
    assert list(range_sentences(results)) == []
    assert "one range" not in write_report(results, tmp_path / "report.html").read_text()


def test_a_range_for_each_condition_that_is_known(tmp_path: Path) -> None:
    unknown = {"twin": ("buffer", "loss")}
    conditions = [
        ({"streams": streams, "buffer": buffer, "loss": "0%"}, goodput)
        for streams, buffer, goodput in (
            ("1", "a", 10e6),
            ("1", "b", 20e6),
            ("4", "a", 30e6),
            ("4", "b", 0.0),
        )
    ]
    [sentence] = range_sentences(campaign(tmp_path, unknown, *conditions))
    assert sentence == (
        "twin: buffer and loss are not known, so conditions that differ only in these are one "
        "range: the goodput of cubic at streams=1 is somewhere from 10.0 Mbit/s to 20.0 Mbit/s (2 "
        "conditions); the goodput of cubic at streams=4 is somewhere from 30.0 Mbit/s to 30.0 "
        "Mbit/s (1 condition)."
    )


@pytest.mark.parametrize(
    ("count", "more"), [(4, "1 more range is in the table"), (5, "2 more ranges are in the table")]
)
def test_many_ranges_are_in_the_table(count: int, more: str, tmp_path: Path) -> None:
    conditions = [({"streams": str(at), "buffer": "a"}, 1e6) for at in range(count)]
    [sentence] = range_sentences(campaign(tmp_path, {"twin": ("buffer",)}, *conditions))
    assert sentence.count("goodput of cubic") == 3
    assert sentence.endswith(f"; {more}.")


def test_without_a_valid_run_there_is_no_range(tmp_path: Path) -> None:
    [sentence] = range_sentences(campaign(tmp_path, {"twin": ("buffer",)}, ({"buffer": "a"}, 0.0)))
    assert sentence.endswith("are one range: no run of them is valid.")
