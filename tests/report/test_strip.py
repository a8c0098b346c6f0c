"""Tests the drawing of a run over time."""

from pathlib import Path
from xml.etree import ElementTree as ET

import polars as pl
import pytest

from ccmix.archive import ArchiveError
from ccmix.report.strip import BOTTOM, HEIGHT, LEFT, MOST_POINTS, RIGHT, TOP, WIDTH, strip

COLOURS = {"cubic": "#D55E00", "bbr": "#0072B2"}


def write(folder: Path, rows: list[dict[str, object]]) -> None:
    pl.DataFrame(rows).write_parquet(folder / "intervals.parquet")


def row(time_s: float, group: str, goodput_bps: float, seconds: float = 1.0) -> dict[str, object]:
    return {"time_s": time_s, "seconds": seconds, "group": group, "goodput_bps": goodput_bps}


def points(line: ET.Element) -> list[tuple[float, float]]:
    return [tuple(map(float, pair.split(","))) for pair in (line.get("points") or "").split()]  # type: ignore[misc]


def test_lines_are_sums_of_flows_on_one_scale(tmp_path: Path) -> None:
    """Two flows of bbr carry 100 Mbit/s together, which is the top; cubic carries half."""
    write(
        tmp_path,
        [
            row(at, *flow)
            for at in (1.0, 2.0)
            for flow in (("bbr", 4e7), ("bbr", 6e7), ("cubic", 5e7))
        ],
    )
    root = ET.fromstring(strip(tmp_path, COLOURS, 0.5))
    bbr, cubic = root.findall("polyline")
    assert (bbr.get("stroke"), cubic.get("stroke")) == (COLOURS["bbr"], COLOURS["cubic"])
    middle, right = (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT
    assert points(bbr) == [(middle, TOP), (right, TOP)]
    assert points(cubic) == [
        (middle, (TOP + HEIGHT - BOTTOM) / 2),
        (right, (TOP + HEIGHT - BOTTOM) / 2),
    ]
    [omitted] = root.findall("rect")
    assert float(omitted.get("width") or 0) == pytest.approx((right - LEFT) / 4, abs=1)
    assert [text.text for text in root.findall("text")] == ["100 Mbit/s", "0", "0 s", "2 s"]
    assert root.get("aria-label") == (
        "Goodput over time: bbr on average 100 Mbit/s, from 100 Mbit/s to 100 Mbit/s; "
        "cubic on average 50.0 Mbit/s, from 50.0 Mbit/s to 50.0 Mbit/s"
    )


def test_a_long_run_is_few_points_of_the_same_mean(tmp_path: Path) -> None:
    write(tmp_path, [row(at / 10, "bbr", 2e7 if at % 2 else 4e7, 0.1) for at in range(1, 6001)])
    [line] = ET.fromstring(strip(tmp_path, COLOURS, 0)).findall("polyline")
    found = points(line)
    assert MOST_POINTS / 2 < len(found) <= MOST_POINTS
    assert len({up for _, up in found}) == 1  # each the mean of as many high as low intervals


def test_a_last_point_of_fewer_intervals_is_no_fall(tmp_path: Path) -> None:
    """121 intervals are 60 points of two intervals each, and another point."""
    write(tmp_path, [row(float(at), "bbr", 1e8) for at in range(1, 122)])
    root = ET.fromstring(strip(tmp_path, COLOURS, 0))
    [line] = root.findall("polyline")
    assert len(points(line)) == 61
    assert {up for _, up in points(line)} == {TOP}
    assert [text.text for text in root.findall("text")][-1] == "121 s"


def test_names_are_text(tmp_path: Path) -> None:
    write(tmp_path, [row(1.0, 'a "b" <c>', 1e6)])
    assert 'a "b" <c> on average' in (ET.fromstring(strip(tmp_path, {}, 0)).get("aria-label") or "")


def test_without_a_series_there_is_nothing(tmp_path: Path) -> None:
    assert strip(tmp_path, COLOURS, 0) == ""
    pl.DataFrame(
        schema={"time_s": float, "seconds": float, "group": str, "goodput_bps": float}
    ).write_parquet(tmp_path / "intervals.parquet")
    assert strip(tmp_path, COLOURS, 0) == ""


def test_a_damaged_series_is_told(tmp_path: Path) -> None:
    (tmp_path / "intervals.parquet").write_text("no parquet")
    with pytest.raises(ArchiveError, match=r"intervals\.parquet: can't be read"):
        strip(tmp_path, COLOURS, 0)
