"""Tests that two campaigns with other settings have each difference named for each condition, as
the campaigns declare it.

tests/data/compare has the files of both. Their runs are only planned: declared values need no
results.
"""

from pathlib import Path

import pytest

from ccmix.analysis.results import Result, Results
from ccmix.archive import Campaign
from ccmix.compare import comparison_text
from ccmix.compare.formats import terminal
from ccmix.compare.verdicts import Compared, compare
from ccmix.config import load
from ccmix.plan import make_plan
from support.commands import REPOSITORY
from support.finished_runs import campaign_plan, finished_run, group_metrics, metrics

SWAPPED = REPOSITORY / "tests" / "data" / "compare"
HEAD = "[DEFAULT]\ntype = iperf3\nduration = 5s\n[topology t]\nrate = 10mbit\nrtt = 20ms\n"


def results(file: Path) -> Results:
    text = file.read_text()
    config = load(file, text)
    runs = make_plan(config.entries, 1)
    unknown = {entry.name: entry.unknown for entry in config.entries if entry.unknown}
    campaign = Campaign(file.parent / file.stem, campaign_plan(runs, text, unknown))
    found = []
    for run in runs:
        groups = [group_metrics(group.cca) for group in run.traffic.groups]
        folder = campaign.outdir / run.entry / run.condition_name / run.dst / f"{run.iteration:03}"
        found.append(Result(finished_run(run, metrics(groups)), folder))
    return Results(tuple(found), len(runs), campaigns=(campaign,))


def lines(compared: Compared) -> list[tuple[str, ...]]:
    return comparison_text.difference_lines(compared.differences)


def of_texts(folder: Path, a: str, b: str) -> Compared:
    for name, text in (("a", a), ("b", b)):
        (folder / f"{name}.ini").write_text(HEAD + text)
    return compare(results(folder / "a.ini"), results(folder / "b.ini"))


def test_six_conditions_that_differ_are_not_called_the_same() -> None:
    """Loss is swapped between two entries; the other entries differ in the start, the rate of UDP
    or the size of files.
    """
    compared = compare(results(SWAPPED / "swap-a.ini"), results(SWAPPED / "swap-b.ini"))
    assert lines(compared) == [
        ("topology", "t1", "t2", "e1 all"),
        ("topology", "t2", "t1", "e2 all"),
        ("loss", "none", "3%", "e1 all"),
        ("loss", "3%", "none", "e2 all"),
        ("cca", "cubic, bbr", "cubic, bbr+1s", "late all"),
        ("flows.others rate", "1 Mbit/s", "5 Mbit/s", "cross all"),
        ("flows.web size", "15 kB", "150 kB", "http all"),
        ("flows.y rate", "2 Mbit/s", "6 Mbit/s", "named all"),
    ]


@pytest.mark.parametrize(
    ("a", "b", "line"),
    [
        ("cca = cubic@2M", "cca = cubic@6M", ("cca", "cubic@2 Mbit/s", "cubic@6 Mbit/s", "all")),
        ("cca = bbr:1", "cca = bbr:1+1s", ("cca", "bbr", "bbr+1s", "all")),
        (
            "flows.w = h1 workload web-search load 20%",
            "flows.w = h1 workload web-search load 60%",
            ("flows.w load", "2 Mbit/s", "6 Mbit/s", "all"),
        ),
        ("flows.x = h1 cubic:1", "flows.x = h1 udp@1M", ("flows.x type", "iperf3", "udp", "all")),
    ],
)
def test_traffic_that_differs_is_named(
    a: str, b: str, line: tuple[str, ...], tmp_path: Path
) -> None:
    compared = of_texts(tmp_path, f"[e]\ntopology = t\n{a}\n", f"[e]\ntopology = t\n{b}\n")
    assert line in lines(compared)


def test_none_is_a_value_beside_others(tmp_path: Path) -> None:
    """In a range of B it is one of its values; A has one of B's three conditions."""
    a = "[e]\ntopology = t\nsweep.loss = 1%, 2%\n"
    b = "[e]\ntopology = t\n"
    compared = of_texts(
        tmp_path,
        a.replace("1%, 2%", "2%"),
        f"{b}sweep.buffer = 1bdp, 64kib\nsweep.loss = 0%, 1%\nunknown = buffer, loss\n",
    )
    assert ("loss", "2%", "none, 1%", "all") in lines(compared)
    assert ("buffer", "1bdp", "1bdp, 64kib", "all") in lines(compared)


def test_a_setting_of_many_values_has_one_line(tmp_path: Path) -> None:
    """48 conditions have another rate each: the line has the first values, and the first names."""
    entries = [
        f"[topology t{n}]\nrate = {{}}mbit\nrtt = 20ms\n[e{n}]\ntopology = t{n}\n"
        for n in range(48)
    ]
    a, b = (
        "".join(text.format(n + more) for n, text in enumerate(entries, 10)) for more in (0, 100)
    )
    compared = of_texts(tmp_path, a, b)
    [line] = lines(compared)
    assert line == (
        "rate",
        "10 Mbit/s, 11 Mbit/s, 12 Mbit/s, 13 Mbit/s and 44 more",
        "110 Mbit/s, 111 Mbit/s, 112 Mbit/s, 113 Mbit/s and 44 more",
        "e0 all, e1 all, e2 all, e3 all and 44 more",
    )
    assert len(compared.differences) == 48
    [alone] = of_texts(tmp_path, a, "[other]\ntopology = t\ncca = bbr\n").to_json()["only_b"]  # type: ignore[misc]
    assert alone["entry"] == "other"
    listed = dict(
        comparison_text.not_compared(of_texts(tmp_path, a, "[other]\ntopology = t\ncca = bbr\n"))
    )
    assert listed["Only in A"] == "e0 all, e1 all, e2 all, e3 all and 44 more"


def test_nothing_differs_in_identical_campaigns(tmp_path: Path) -> None:
    text = "[e]\ntopology = t\nsweep.cca = cubic, bbr\n"
    compared = of_texts(tmp_path, text, text)
    said = terminal(compared)
    assert said.startswith(
        "In the conditions that both have, hosts, kernels, tools, paths and traffic are the same"
    )
    assert "0% more" not in said
    assert "B has as much" in said


def test_conditions_of_one_name_with_other_ccas_are_named_and_not_compared(tmp_path: Path) -> None:
    compared = of_texts(
        tmp_path, "[e]\ntopology = t\ncca = cubic\n", "[e]\ntopology = t\ncca = bbr\n"
    )
    assert compared.conditions == ()
    assert lines(compared) == [("cca", "cubic", "bbr", "all")]
    assert list(comparison_text.not_compared(compared)) == [
        ("In both by name, but with other traffic or another path", "e all")
    ]
