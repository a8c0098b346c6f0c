"""Figures: which numbers are compared, and that each figure belongs to its experiment."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ccmix.charts.frames import SweptAxis
from ccmix.charts.published import ALL_FLOWS
from ccmix.model import Buffer
from ccmix.model.results import FinishedRun
from ccmix.papers.experiment import (
    ALTERNATIVES,
    CCA,
    BufferPanel,
    Experiment,
    Figure,
    MapRow,
    Maps,
    OverBuffer,
    PlotPanel,
    Plots,
    PublishedComparison,
    Quantity,
    published_series,
    sources,
)
from ccmix.papers.forms import planned
from ccmix.papers.measuring import MeasuredRuns, MeasuredSample
from ccmix.papers.reading import EXPERIMENTS, PublishedNumber, by_name, read_published
from ccmix.papers.scores import scores
from paper_pages.figure_data import (
    GAIN,
    RETRANSMISSION_RATE,
    UTILISATION,
    FigureData,
    PlottedPoint,
    map_cells,
    plot_axis,
    plotted_points,
    points_over_buffer,
)
from paper_pages.page import scores_of, sentence
from papers.runs import NEAR, run_of, run_with
from support.finished_runs import flow_metrics, group_metrics

RATE = SweptAxis("rate", "bandwidth (Mbit/s)", {"10mbit": 10.0, "1gbit": 1000.0}, "log")
RTT = SweptAxis("delay", "RTT (ms)", {"5ms": 5.0, "200ms": 200.0}, "log")
CELL = {"rate": "1gbit", "delay": "200ms"}
each_figure = pytest.mark.parametrize(
    ("experiment", "figure"),
    [(experiment, figure) for experiment in EXPERIMENTS for figure in experiment.figures],
    ids=lambda each: each.name,
)


def published(
    cca: str, value: float, quantity: Quantity = "goodput_bps", **at: str
) -> PublishedNumber:
    return PublishedNumber("kernel 5.13", cca, quantity, value, "table", at)


def material(*runs: FinishedRun, numbers: tuple[PublishedNumber, ...] = ()) -> FigureData:
    return FigureData(numbers, MeasuredRuns(runs), ())


def maps(quantity: Quantity, over: str = "") -> Maps:
    return Maps(
        "Figure 2", "title", quantity, RATE, RTT, (MapRow("kernel 5.13", "entry", "bbr2", over),)
    )


def values(figure: Maps, numbers: FigureData, *, published: bool) -> dict[tuple[str, str], float]:
    cells = list(map_cells(figure, figure.rows[0], numbers, published=published))
    assert [(cell.x, cell.y) for cell in cells] == [
        ("10", "5"),
        ("10", "200"),
        ("1000", "5"),
        ("1000", "200"),
    ]
    return {(cell.x, cell.y): cell.value for cell in cells if cell.value is not None}


PAIR = material(
    *(
        run_of({cca: bps + number}, number, CELL)
        for cca, bps in (("bbr2", 8e8), ("cubic", 1e8))
        for number in (-1, 0, 1)
    ),
    numbers=(
        published("bbr2", 7e8, **CELL),
        published("cubic", 5e7, **CELL),
        published("cubic", 9e6, rate="10mbit", delay="5ms"),
    ),
)


def test_a_map_has_a_cell_where_there_is_a_number() -> None:
    figure = maps("utilisation")
    assert values(figure, PAIR, published=True) == {("1000", "200"): 0.7}
    assert values(figure, PAIR, published=False) == {("1000", "200"): pytest.approx(0.8)}


def test_a_gain_is_of_the_same_cell_and_the_same_source() -> None:
    figure = maps("goodput_bps", over="cubic")
    assert values(figure, PAIR, published=True) == {("1000", "200"): pytest.approx(13.0)}
    assert values(figure, PAIR, published=False) == {("1000", "200"): pytest.approx(7.0)}
    assert sentence(figure, [], PAIR) == (
        "Range over the cells that both have: gain of bbr2 over cubic in 1 cell, +1,300% to +1,300% "
        "published (kernel 5.13) and +700% to +700% in the lab."
    )


def test_the_ranges_of_a_map_without_scores_are_said_in_its_unit() -> None:
    assert sentence(maps("utilisation"), [], PAIR) == (
        "Range over the cells that both have: bbr2 in 1 cell, 70% to 70% published (kernel 5.13) and "
        "80% to 80% in the lab."
    )


def plots(
    *quantities: Quantity,
    x: str = "buffer",
    hosts: Mapping[str, str] | None = None,
    series: str = "",
) -> Plots:
    panel = PlotPanel("panel", "entry", series=series)
    return Plots("Figure 5", "title", quantities, x, (panel,), hosts=hosts or {})


def points(figure: Plots, numbers: FigureData) -> list[PlottedPoint]:
    return list(plotted_points(figure, plot_axis(figure, numbers), numbers))


def places(of: list[PlottedPoint]) -> set[tuple[str, float | str, str, float]]:
    return {(point.number, point.setting, point.line, round(point.mean, 3)) for point in of}


def test_lines_are_of_ccas_and_the_fairness_of_all_flows() -> None:
    runs = (
        run_of({"bbr": 3.0, "cubic": 1.0}, 1, {"buffer": buffer}, fairness=0.8)
        for buffer in ("1bdp", "4bdp")
    )
    assert places(points(plots("goodput_bps", "fairness"), material(*runs))) == {
        ("goodput_bps", setting, *line)
        for setting in (1.0, 4.0)
        for line in (("bbr", 3.0), ("cubic", 1.0))
    } | {("fairness", setting, ALL_FLOWS, 0.8) for setting in (1.0, 4.0)}


def test_lines_of_flows_of_one_cca_are_of_their_hosts() -> None:
    groups = [group_metrics("bbr", 1.0, host="h1"), group_metrics("bbr", 3.0, host="h2")]
    runs = material(
        run_with(groups, 1, {"buffer": "1bdp"}, fairness=0.8),
        run_with(groups, 1, {"buffer": "4bdp"}),
    )
    drawn = points(plots("goodput_bps", "fairness", hosts={"h1": "short", "h2": "long"}), runs)
    assert places(drawn) == {
        ("goodput_bps", setting, *line)
        for setting in (1.0, 4.0)
        for line in (("short", 1.0), ("long", 3.0))
    } | {("fairness", 1.0, ALL_FLOWS, 0.8)}
    assert {point.cca for point in drawn} == {"bbr"}


def test_ccas_may_be_the_axis_and_have_published_numbers_beside() -> None:
    runs = (
        run_of({cca: 3.0, "cubic": 1.0}, 1, {"cca": f"{cca},cubic"}, fairness=0.8)
        for cca in ("bbr", "bbr2")
    )
    numbers = (published("bbr", 0.7, "share"), published("bbr3", 0.6, "share"))
    figure = replace(
        plots("share", "fairness", x=CCA, series="kernel 5.13"), ccas=("bbr", "bbr2", "bbr3")
    )
    drawn = points(figure, material(*runs, numbers=numbers))
    assert places([point for point in drawn if not point.published]) == {
        (*number, cca, value)
        for cca in ("bbr", "bbr2")
        for *number, value in (("share", cca, 0.75), ("fairness", cca, 0.8))
    }
    assert places([point for point in drawn if point.published]) == {
        ("share", "bbr", "bbr", 0.7),
        ("share", "bbr3", "bbr3", 0.6),
    }


def test_a_point_has_the_interval_of_its_runs() -> None:
    runs = (
        run_of({"bbr": value}, number, {"buffer": "1bdp"})
        for number, value in enumerate((1.0, 2.0, 3.0))
    )
    [point] = points(
        replace(plots("goodput_bps"), x=SweptAxis("buffer", "", {"1bdp": 1.0}, "log")),
        material(*runs),
    )
    assert (point.low, point.high) == MeasuredSample((1.0, 2.0, 3.0)).interval
    assert point.mean == 2.0


def test_an_axis_has_the_values_of_the_papers_own_size() -> None:
    experiment = by_name()["gomez-fig5"]
    runs = material(run_of({"bbr": 1.0}, 1, {"cca": "bbr", "buffer": "5bdp"}, "drop-tail"))
    axis = plot_axis(experiment.figures[0], replace(runs, full=planned("gomez-fig5", 1, full=True)))
    assert list(axis.places.values()) == [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]


def test_points_over_the_buffer() -> None:
    """5 MB are a fifth of 1 Gbit/s times 200 ms; 1 of 100 segments of 1250 bytes is retransmitted."""
    panel = BufferPanel("panel", "bbr2", "cubic", (("kernel 5.13", "entry"),))
    figure = OverBuffer(
        "Figure 6", "title", "rate", "delay", (panel,), duration_s=60.0, segment_bytes=1250
    )
    numbers = (
        published("bbr2", 1.5e8, **CELL),
        published("cubic", 5e7, **CELL),
        published("bbr2", 9000.0, "retransmits", **CELL),
        published("cubic", 0.0, "retransmits", **CELL),
    )
    flow = flow_metrics(1, "cubic", retransmits=300_000)
    lab = run_with([group_metrics("cubic", 5e7)], 1, CELL, flows=(flow,))
    path = replace(lab.run.path, buffer=Buffer(5_000_000, "byte"))
    lab = replace(lab, run=replace(lab.run, path=path))
    drawn = list(points_over_buffer(figure, material(lab, numbers=numbers)))
    assert {point.setting for point in drawn} == {0.2}
    assert {(p.published, p.number, p.cca, round(p.mean, 4)) for p in drawn} == {
        (True, GAIN, "bbr2", 2.0),
        (True, UTILISATION, "bbr2", 0.15),
        (True, UTILISATION, "cubic", 0.05),
        (True, RETRANSMISSION_RATE, "bbr2", 0.0099),
        (True, RETRANSMISSION_RATE, "cubic", 0.0),
        (False, UTILISATION, "cubic", 0.05),
        (False, RETRANSMISSION_RATE, "cubic", 0.5),
    }


def test_scores_belong_to_the_figure_of_their_quantity_and_series() -> None:
    comparisons = [
        PublishedComparison("kernel 5.13", "entry", "utilisation", NEAR, (cca,))
        for cca in ("bbr2", "cubic")
    ]
    comparisons.append(PublishedComparison("kernel 5.13", "entry", "goodput_bps", NEAR))
    made = scores(comparisons, list(PAIR.published), PAIR.runs, None)
    assert scores_of(maps("utilisation"), made) == made[:2]
    assert scores_of(maps("goodput_bps", over="cubic"), made) == []
    assert (
        scores_of(
            replace(maps("utilisation"), rows=(MapRow("kernel 4.15", "entry", "cubic"),)), made
        )
        == []
    )
    assert scores_of(plots("goodput_bps", series="kernel 5.13"), made) == made[2:]


def test_a_figure_of_which_nothing_was_published_says_so() -> None:
    assert sentence(plots("goodput_bps"), [], PAIR).startswith("Only the text about this figure")
    assert sentence(replace(plots("goodput_bps"), ours=True), [], PAIR).startswith(
        "This figure is not in the paper"
    )
    assert (
        sentence(plots("share", series="kernel 5.13"), [], PAIR)
        == "The scores of these numbers are above."
    )


@each_figure
def test_a_figure_is_of_entries_and_series_that_there_are(
    experiment: Experiment, figure: Figure
) -> None:
    entries = {
        run.entry for full in (True, False) for run in planned(experiment.name, 1, full=full)
    }
    series = {number.series for number in read_published(experiment.name)}
    assert {entry for _, each in sources(figure) for entry in each.split(ALTERNATIVES)} <= entries
    assert set(published_series(figure)) <= series


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_each_comparison_has_a_figure(experiment: Experiment) -> None:
    for comparison in experiment.comparisons:
        pair = (comparison.series, comparison.entry)
        assert any(pair in sources(figure) for figure in experiment.figures), pair
