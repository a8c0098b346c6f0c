"""Tests that the page on repeated results has the numbers that archive/ gives of runs without and
with `spread`.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping

import pytest

from ccmix.analysis.statistics import shown
from support.commands import REPOSITORY

PAGE = (REPOSITORY / "docs" / "explanation" / "reproducibility.md").read_text()
PROSE = " ".join(PAGE.split())
PATHS = {
    ("5ms", "0%"): "10 ms",
    ("5ms", "0.1%"): "10 ms, 0.1%",
    ("44ms", "0%"): "88 ms",
    ("44ms", "0.1%"): "88 ms, 0.1%",
}

Row = Mapping[str, str]
Key = tuple[str, str, str, str]


def rows_of(lines: Iterable[str], spread: str) -> dict[Key, Row]:
    """Returns the rows of `ccmix report --format csv` of runs with that `spread`; demo.ini's have
    it on by default.
    """
    return {
        (row["entry"], row["condition.delay"], row["condition.loss"], row["group"]): row
        for row in csv.DictReader(lines)
        if row.get("condition.spread", "on") == spread
    }


@pytest.fixture
def rows() -> dict[str, dict[Key, Row]]:
    """Returns the rows without and with spread; the demo's rows with spread are those of the demo
    itself.
    """
    own, demo = (
        (REPOSITORY / "archive" / f"{name}.csv").read_text().splitlines()
        for name in ("spread", "demo-60s")
    )
    off = rows_of(own, "off")
    on = rows_of(demo, "on") | rows_of(own, "on")
    return {"off": off, "on": {key: on[key] for key in off}}


def ends_bps(row: Row) -> tuple[float, float]:
    """Returns the ends of the mean's 95% interval; both are the mean if all runs are equal."""
    mean = row["goodput_mean_bps"]
    return float(row["goodput_ci95_low_bps"] or mean), float(row["goodput_ci95_high_bps"] or mean)


def mean_text(row: Row) -> str:
    low, high = ends_bps(row)
    return (
        f"{shown('goodput_bps', float(row['goodput_mean_bps']))} ± "
        f"{shown('goodput_bps', (high - low) / 2)}"
    )


def width_bps(row: Row) -> float:
    low, high = ends_bps(row)
    return high - low


def lines(rows: Mapping[str, Mapping[Key, Row]]) -> Iterator[str]:
    for key, off in rows["off"].items():
        entry, delay, loss, group = key
        on = rows["on"][key]
        assert off["runs"] == on["runs"]
        assert {off["invalid"], on["invalid"]} == {"0"}
        name = f"{entry} | {PATHS[delay, loss]} | {group} | {off['runs']}"
        yield f"| {name} | {mean_text(off)} | {mean_text(on)} |"


def apart(rows: Mapping[str, Mapping[Key, Row]]) -> set[Key]:
    """Returns the keys of the rows whose intervals without and with spread don't overlap."""
    found = set()
    for key, row in rows["off"].items():
        (off_low, off_high), (on_low, on_high) = ends_bps(row), ends_bps(rows["on"][key])
        if off_high < on_low or on_high < off_low:
            found.add(key)
    return found


def test_the_page_has_the_means_without_and_with_spread(rows: dict[str, dict[Key, Row]]) -> None:
    assert "\n".join(lines(rows)) in PAGE


def test_spread_does_not_change_the_mean_of_a_flow_alone(rows: dict[str, dict[Key, Row]]) -> None:
    for group in ("cubic", "bbr"):
        key = "one", "44ms", "0%", group
        off, on = (float(rows[spread][key]["goodput_mean_bps"]) for spread in ("off", "on"))
        assert on == pytest.approx(off, rel=0.0001)


def test_intervals_exclude_each_other_only_where_runs_without_spread_are_one_observation(
    rows: dict[str, dict[Key, Row]],
) -> None:
    alone, eight = ("one", "44ms", "0%", "cubic"), ("all-cubic", "5ms", "0%", "cubic")
    assert apart(rows) == {alone, eight}
    assert {width_bps(rows["off"][key]) for key in (alone, eight)} == {0}
    assert f"Of the {len(rows['off'])} rows, {len(rows['off']) - 2} have intervals" in PROSE
    assert f"a single flow, with means {distance(rows, alone):.3%} apart" in PROSE
    assert f"eight flows at 10 ms without loss, {distance(rows, eight):.3%} apart" in PROSE


def distance(rows: Mapping[str, Mapping[Key, Row]], key: Key) -> float:
    """Returns the distance of the means without and with spread, as a fraction."""
    off, on = (float(rows[spread][key]["goodput_mean_bps"]) for spread in ("off", "on"))
    return abs(on / off - 1)


def test_without_spread_the_interval_of_sixteen_flows_is_too_narrow(
    rows: dict[str, dict[Key, Row]],
) -> None:
    off, on = (rows[spread]["sixteen", "44ms", "0%", "cubic"] for spread in ("off", "on"))
    assert f"{width_bps(on) / width_bps(off):.1f} times as wide" in PROSE
