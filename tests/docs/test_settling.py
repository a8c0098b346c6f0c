"""Tests that the page on settling has the numbers in archive/ of runs with twice the duration."""

import csv
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pytest

from ccmix.analysis.comparison import MARGIN, MetricSample, unpaired
from ccmix.analysis.intervals import t_quantile
from ccmix.analysis.statistics import shown
from support.commands import REPOSITORY

ARCHIVE = REPOSITORY / "archive"
PAGE = (REPOSITORY / "docs" / "explanation" / "settling.md").read_text()
PROSE = " ".join(PAGE.split())

Row = Mapping[str, str]
Key = tuple[str, ...]


def rows_of(lines: Iterable[str]) -> dict[Key, Row]:
    """Returns the rows of `ccmix report --format csv` by entry, condition and group."""
    return {
        (
            row["entry"],
            *(value for name, value in row.items() if name.startswith("condition.")),
            row["group"],
        ): row
        for row in csv.DictReader(lines)
    }


def archived(name: str) -> dict[Key, Row]:
    return rows_of((ARCHIVE / name).read_text().splitlines())


@pytest.fixture
def demo() -> dict[Key, Row]:
    return archived("demo-60s.csv")


def mean_bps(row: Row) -> float:
    return float(row["goodput_mean_bps"])


def half_bps(row: Row) -> float:
    """Returns half of the mean's 95% interval."""
    return (float(row["goodput_ci95_high_bps"]) - float(row["goodput_ci95_low_bps"])) / 2


def sample(row: Row) -> MetricSample:
    """Returns as many values as the row has runs, with their mean and their deviation."""
    steps = np.arange(int(row["runs"])) - (int(row["runs"]) - 1) / 2
    values = mean_bps(row) * (1 + float(row["goodput_cv"]) * steps / steps.std(ddof=1))
    return MetricSample(tuple(values.tolist()))


def interval(shorter: Row, longer: Row) -> tuple[float, float]:
    """Returns the 95% interval of `ccmix compare` of the ratio of both means."""
    found = unpaired(sample(shorter), sample(longer), MARGIN)
    assert found.interval
    return found.interval


def moved(shorter: Row, longer: Row) -> float:
    """Returns by how much the mean has moved, in halves of the shorter runs' 95% interval."""
    return abs(mean_bps(longer) - mean_bps(shorter)) / half_bps(shorter)


def numbers(shorter: Row, longer: Row) -> Iterator[str]:
    for row in (shorter, longer):
        yield f"{shown('goodput_bps', mean_bps(row))} ± {shown('goodput_bps', half_bps(row))}"
    low, high = interval(shorter, longer)
    yield from (f"{mean_bps(longer) / mean_bps(shorter):.3f}", f"{low:.3f} to {high:.3f}")
    yield f"{moved(shorter, longer):.2f}"


def table(shorter: Mapping[Key, Row], longer: Mapping[Key, Row], names: Mapping[Key, str]) -> str:
    lines = (
        " | ".join(["", names[key], *numbers(row, longer[key]), ""]).strip()
        for key, row in shorter.items()
    )
    return "\n".join(lines)


def tutorial_names(rows: Mapping[Key, Row]) -> dict[Key, str]:
    return {key: f"{key[1].removesuffix('bdp')} BDP | {key[2]}" for key in rows}


def demo_names(rows: Mapping[Key, Row]) -> dict[Key, str]:
    rtts = {"5ms": "10 ms", "44ms": "88 ms"}
    losses = {"0%": "", "0.1%": ", 0.1%"}
    return {key: f"{key[0]} | {rtts[key[1]]}{losses[key[2]]} | {key[3]}" for key in rows}


def those_that_moved(shorter: Mapping[Key, Row], longer: Mapping[Key, Row]) -> list[Key]:
    return [key for key, row in shorter.items() if moved(row, longer[key]) > 1]


def those_without_1(shorter: Mapping[Key, Row], longer: Mapping[Key, Row]) -> list[Key]:
    intervals = {key: interval(row, longer[key]) for key, row in shorter.items()}
    return [key for key, (low, high) in intervals.items() if not low <= 1 <= high]


def test_the_page_has_the_tutorial_with_twice_the_duration() -> None:
    shorter, longer = archived("tutorial.csv"), archived("tutorial-twice.csv")
    assert len(shorter) == len(longer) == 10
    assert table(shorter, longer, tutorial_names(shorter)) in PAGE
    assert those_without_1(shorter, longer) == []
    assert those_that_moved(shorter, longer) == [
        ("share", "1bdp", "cubic"),
        ("share", "1bdp", "bbr"),
    ]


def test_the_page_has_the_demo_with_twice_the_duration(demo: dict[Key, Row]) -> None:
    longer = archived("demo-twice.csv")
    assert len(demo) == len(longer) == 28
    assert table(demo, longer, demo_names(demo)) in PAGE
    assert {row["invalid"] for row in (*demo.values(), *longer.values())} == {"0"}
    assert {row["not_settled"] for row in longer.values()} == {"0"}
    unsettled = {
        key[:3]: row["not_settled"] for key, row in demo.items() if row["not_settled"] != "0"
    }
    assert unsettled == {("mixed-bbr2", "5ms", "0.1%"): "1"}
    same = [28 - len(those(demo, longer)) for those in (those_without_1, those_that_moved)]
    assert (
        "By the first reading {} of 28 rows are the same, by the second {}.".format(*same) in PROSE
    )
    assert all(abs(mean_bps(longer[key]) / mean_bps(row) - 1) < 0.05 for key, row in demo.items())
    assert {key[0] for key in those_that_moved(demo, longer)} == {
        "all-cubic",
        "all-bbr2",
        "mixed",
        "mixed-bbr2",
    }


def test_twelve_runs_of_the_demo_are_the_same_as_the_longer_ones(demo: dict[Key, Row]) -> None:
    twelve, longer = archived("demo-twelve.csv"), archived("demo-twice.csv")
    assert {row["runs"] for row in twelve.values()} == {"12"}
    assert {(row["invalid"], row["not_settled"]) for row in twelve.values()} == {("0", "0")}
    names = demo_names(twelve)
    table = [
        f"| {names[key]} | {' | '.join([*numbers(row, longer[key])][:-1])} |"
        for key, row in twelve.items()
    ]
    assert "\n".join(table) in PAGE
    assert those_without_1(twelve, {key: longer[key] for key in twelve}) == []
    beside = ("mixed-bbr2", "44ms", "0.1%", "cubic")
    assert mean_bps(twelve[beside]) > mean_bps(demo[beside]) + half_bps(demo[beside])


@pytest.mark.parametrize(
    ("shorter", "longer", "count"),
    [("tutorial-1bdp", "tutorial-1bdp-twice", 2), ("demo-twelve", "demo-twelve-twice", 4)],
)
def test_the_means_of_twelve_runs_move_less_than_their_interval(
    shorter: str, longer: str, count: int
) -> None:
    after = archived(f"{longer}.csv")
    before = {key: row for key, row in archived(f"{shorter}.csv").items() if key in after}
    assert {row["runs"] for row in (*before.values(), *after.values())} == {"12"}
    assert {(row["invalid"], row["not_settled"]) for row in after.values()} == {("0", "0")}
    assert those_that_moved(before, after) == those_without_1(before, after) == []
    assert len(before) == count
    for key, row in before.items():
        if key[-1] == "cubic":
            means = [
                f"{shown('goodput_bps', mean_bps(each))} ± {shown('goodput_bps', half_bps(each))}"
                for each in (row, after[key])
            ]
            assert (
                f"from {means[0]} to {means[1]}, by {moved(row, after[key]):.2f} of half the "
                "interval" in PROSE
            )


@pytest.mark.parametrize(("runs", "of"), [(3, 38), (12, 100)])
def test_how_often_chance_moves_a_mean_by_more_than_its_interval(runs: int, of: int) -> None:
    """Draws first and second halves of runs that vary alike: a longer run is the mean of both."""
    halves = np.random.default_rng(18).standard_normal((2, 400_000, runs))
    moves = np.abs(halves.mean(axis=0).mean(axis=1) - halves[0].mean(axis=1))
    half = t_quantile(0.975, runs - 1) * halves[0].std(axis=1, ddof=1) / np.sqrt(runs)
    assert 1 / np.mean(moves > half) == pytest.approx(of, rel=0.05)
    assert f"one row in {of}" in PROSE
