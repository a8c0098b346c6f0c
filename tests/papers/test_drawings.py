"""Pictures of figures: published numbers and the lab's, on the same axes and in the same colours."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from ccmix.charts.draw import svg
from ccmix.papers.experiment import MapRow, Maps, Paper, PlotPanel, Plots
from paper_pages.drawing import DrawnFigure, _ticks, drawn
from papers.runs import run_of
from papers.test_figures import CELL, PAIR, maps, material, plots, published

PAPER = Paper("datta", "S. Datta and F. Fund, A title, IMC 2023", "link")


def picture(figure: Maps | Plots) -> DrawnFigure:
    made = drawn(figure, PAPER, PAIR)
    assert made
    return made


def texts(made: DrawnFigure) -> list[str]:
    return [
        "".join(element.itertext())
        for element in ET.fromstring(svg(made.spec)).iter()
        if element.tag.endswith("text")
    ]


def test_maps_are_side_by_side_with_one_scale() -> None:
    made = picture(maps("utilisation"))
    published_map, lab = made.spec["concat"]
    assert (published_map["title"], lab["title"]) == (
        "published, kernel 5.13: bbr2",
        "lab, entry entry: bbr2",
    )
    assert made.spec["columns"] == 2
    for part in ("width", "height"):
        assert published_map[part] == lab[part]
    domains = [published_map["encoding"][axis]["scale"]["domain"] for axis in ("x", "y")]
    assert domains == [["10", "1000"], ["200", "5"]]
    assert lab["encoding"] == published_map["encoding"]
    colours = [view["layer"][0]["encoding"]["color"] for view in (published_map, lab)]
    assert colours[0] == colours[1]
    assert [len(view["data"]["values"]) for view in (published_map, lab)] == [1, 1]
    assert {"70%", "80%"} <= set(texts(made))


def test_gains_are_in_the_colours_of_their_ccas_row_by_row() -> None:
    made = picture(maps("goodput_bps", over="cubic"))
    [row] = made.spec["vconcat"]
    assert [view["title"] for view in row["concat"]] == [
        "published, kernel 5.13: bbr2 over cubic",
        "lab, entry entry: bbr2 over cubic",
    ]
    assert {"+1300%", "+700%"} <= set(texts(made))


def test_a_row_of_which_nothing_was_measured_is_left_out() -> None:
    figure = maps("utilisation")
    rows = (
        *figure.rows,
        MapRow("kernel 5.13", "entry", "bbr3"),
        MapRow("kernel 4.15", "entry", "bbr2"),
    )
    titles = [view["title"] for view in picture(replace(figure, rows=rows)).spec["concat"]]
    assert titles == [
        "published, kernel 5.13: bbr2",
        "lab, entry entry: bbr2",
        "published, kernel 4.15: bbr2",
        "lab, entry entry: bbr2, next to kernel 4.15",
    ]


def test_texts_name_the_settings() -> None:
    made = picture(maps("utilisation"))
    settings = (
        "Left: published (kernel 5.13). Right: the lab's means. Lab: entry entry, buffer 1 BDP, "
        "queue discipline bfifo "
        "at the bottleneck and fq at the sender, offloads off, Linux 7.2.12-ccmix."
    )
    assert made.alt_text == "Datta 2023, Figure 2: title"
    assert made.caption == f"Figure 2, title. {settings}"
    assert made.spec["title"]["text"] == "Datta 2023, Figure 2: title"
    assert " ".join(made.spec["title"]["subtitle"]) == settings


def test_plots_say_what_their_marks_are() -> None:
    figure = plots("goodput_bps", x="cca", series="kernel 5.13")
    numbers = material(*PAIR.runs.runs, numbers=(published("cubic", 5e7),))
    made = drawn(figure, PAPER, numbers)
    assert made
    assert (
        "Diamonds: published (kernel 5.13). Bars: the lab's means with 95% intervals."
        in made.caption
    )
    assert "Lab: entry entry" in made.caption
    [panel] = made.spec["concat"]
    bars, diamonds = panel["vconcat"][0]["layer"]
    assert {row["setting"] for row in bars["data"]["values"]} == {"bbr2", "cubic"}
    assert {row["setting"] for row in diamonds["data"]["values"]} == {"cubic"}


def test_nothing_is_drawn_of_what_the_lab_has_not_measured() -> None:
    assert drawn(maps("utilisation"), PAPER, material()) is None
    other = Plots(
        "Figure 1", "title", ("goodput_bps",), "buffer", (PlotPanel("panel", "other entry"),)
    )
    assert drawn(other, PAPER, PAIR) is None
    mix = Plots(
        "Figure 1",
        "title",
        ("goodput_bps",),
        "rate",
        (PlotPanel("panel", "entry", {"delay": "5ms"}),),
    )
    assert drawn(mix, PAPER, PAIR) is None
    assert (
        drawn(
            replace(maps("utilisation"), rows=(MapRow("kernel 5.13", "entry", "bbr3"),)),
            PAPER,
            PAIR,
        )
        is None
    )


def test_logarithmic_scales_hold_what_is_below_them() -> None:
    """The interval of two runs that differ by a factor of 100 goes below 0."""
    runs = [run_of({"bbr": value}, number, CELL) for number, value in enumerate((1e6, 1e8, 1e7))]
    made = drawn(replace(plots("goodput_bps", x="cca"), log=True), PAPER, material(*runs))
    assert made
    assert "NaN" not in svg(made.spec)
    measured = made.spec["concat"][0]["vconcat"][0]["layer"][1]
    [row] = measured["data"]["values"]
    least, most = measured["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert 0 < least == row["low"] < row["mean"] < most


@pytest.mark.parametrize(
    ("least", "most", "ticks"),
    [(0.9, 12.0, [1.0, 2.0, 5.0, 10.0]), (0.003, 2000.0, [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0])],
)
def test_ticks_of_a_logarithmic_axis(least: float, most: float, ticks: list[float]) -> None:
    assert _ticks(least, most) == ticks
