"""Tests the Vega-Lite specifications without Elasticsearch and Kibana: they compile without
a warning.
"""

import json
import re
from typing import Any

import pytest
import vl_convert

from ccmix.kibana.dashboards import dashboards
from ccmix.kibana.vega import ANSWER, VegaLite
from support.kibana_preview import render
from support.kibana_requests import answer_of

VEGA = {
    f"{dashboard.name}-{panel.name}": panel.chart
    for dashboard in dashboards()
    for panel in dashboard.panels
    if isinstance(panel.chart, VegaLite)
}
COMPILERS = (
    "5.8",
    "5.20",
)  # the oldest version that vl-convert has, and the version that draws the previews
IN_KIBANA = {"width": "container", "height": "container"}  # as Kibana sets them


def compiled(spec: dict[str, Any], version: str) -> None:
    """Compiles a specification, and prints warnings, which Kibana shows unless they are hidden."""
    shown = {name: part for name, part in spec.items() if name != "config"} | IN_KIBANA
    vl_convert.vegalite_to_vega(
        shown | {"data": answer_of([])}, vl_version=version, show_warnings=True
    )


@pytest.mark.parametrize(
    "version", [pytest.param(COMPILERS[0], marks=pytest.mark.deep), *COMPILERS[1:]]
)
def test_no_specification_compiles_with_a_warning(
    version: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, chart in VEGA.items():
        compiled(chart.spec(), version)
        assert capfd.readouterr() == ("", ""), name


def test_a_warning_would_be_seen(capfd: pytest.CaptureFixture[str]) -> None:
    spec = json.loads(json.dumps(VEGA["ccas-each"].spec()).replace('"sort": "ascending", ', ""))
    compiled(spec, COMPILERS[-1])
    assert "unsorted discrete field" in "".join(capfd.readouterr())


def test_kibana_hides_warnings_in_every_specification() -> None:
    assert all(chart.spec()["config"]["kibana"]["hideWarnings"] for chart in VEGA.values())


def test_the_legend_shows_the_ccas_in_the_data_and_no_others() -> None:
    rows = [
        {
            "key": {"cca": cca, "mix": "m"},
            "retransmission_rate": {"value": 0.1},
            "goodput": {"value": 1e6},
        }
        for cca in ("cubic", "bbr")
    ]
    svg = render(VEGA["ccas-each"].spec() | {"data": answer_of(rows)})
    assert ">cubic</text>" in svg
    assert ">bbr</text>" in svg
    assert ">reno</text>" not in svg


def texts(svg: str) -> list[str]:
    return re.findall(r">([^<>]+)</text>", svg)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (200, "The list below has all 200 runs, the newest first"),
        (225, "The list below has the newest 200 of 225 runs: filter for the others"),
    ],
)
def test_a_list_of_runs_says_whether_it_has_all(runs: int, expected: str) -> None:
    row = {"key": {"kind": "ccmix.runs"}, "runs": {"value": runs}}
    for dashboard in ("campaigns", "run"):
        spec = VEGA[f"{dashboard}-how-many"].spec()
        assert expected in texts(render(spec | {"data": answer_of([row])}))


def test_numbers_of_real_against_emulated_are_those_of_conditions_on_both() -> None:
    def row(condition: str, kind: str, goodput_bps: float) -> dict[str, Any]:
        numbers = {"goodput": goodput_bps, "retransmitted": 0.0, "rtt": None, "runs": 3}
        key = {"condition": condition, "group": "bbr", "kind": kind}
        return {"key": key, **{name: {"value": value} for name, value in numbers.items()}}

    rows = [row("both", "real", 9e8), row("both", "emulated", 8e8), row("alone", "real", 7e8)]
    shown = texts(render(VEGA["real-emulated-numbers"].spec() | {"data": answer_of(rows)}))
    assert [number for number in shown if number in {"900.0M", "800.0M", "700.0M"}] == [
        "900.0M",
        "800.0M",
    ]
    assert shown.count("0") == 2  # of retransmitted
    assert shown.count("-") == 2  # of RTT, which was not measured


NO_INDEX, NO_ROW = {"took": 1, "hits": {}}, answer_of([])["values"]
OF_REQUESTS = ("run-completions",)


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        pytest.param(NO_INDEX, OF_REQUESTS, id="no index"),
        pytest.param(NO_ROW, OF_REQUESTS, id="no row"),
        pytest.param(NO_INDEX, tuple(VEGA), id="no index, all charts", marks=pytest.mark.deep),
        pytest.param(NO_ROW, tuple(VEGA), id="no row, all charts", marks=pytest.mark.deep),
    ],
)
def test_without_data_a_chart_says_what_it_needs(
    answer: dict[str, Any], names: tuple[str, ...]
) -> None:
    for name in names:
        chart = VEGA[name]
        svg = render(chart.spec() | {"data": {"values": answer, "name": ANSWER}})
        needed = chart.needs or "nothing passes the filters and the time range"
        assert any(text.startswith("no data: ") and needed in text for text in texts(svg)), name


def group_row(goodput: float, **key: object) -> dict[str, Any]:
    """Returns a row of a group of a run."""
    known = {
        "campaign": "c",
        "entry": "e",
        "condition": "all",
        "mix": "bbr",
        "cca": "bbr",
        "group": "bbr",
        "run": "r",
    }
    return {"key": known | key, "goodput": {"value": goodput}}


@pytest.mark.parametrize(
    ("differs", "shown"),
    [
        ({"campaign": "other"}, {"bbr, c", "bbr, other"}),
        ({"entry": "other"}, {"bbr, e", "bbr, other"}),
        ({"mix": "bbr,cubic"}, {"bbr", "bbr,cubic"}),
        ({"condition": "delay=5ms,loss=0.1%"}, {"bbr", "bbr, delay=5ms"}),
        ({"condition": "loss=0.1%"}, {"bbr"}),  # the setting on the axis does not separate lines
    ],
)
def test_a_line_pools_only_iterations(differs: dict[str, str], shown: set[str]) -> None:
    rows = [group_row(1e6, loss=0.0), group_row(9e6, loss=0.0, run="s", **differs)]
    svg = render(VEGA["ccas-goodput-loss"].spec() | {"data": answer_of(rows)})
    assert {text for text in texts(svg) if text.startswith("bbr")} - {"bbr"} == shown - {"bbr"}


@pytest.mark.parametrize("rows", [30, 31])
def test_a_heat_map_of_too_many_rows_says_so(rows: int) -> None:
    """At most 30 rows can be read; more are in the table below."""
    data = answer_of([group_row(1e6, group=f"g{number}") for number in range(rows)])
    shown = texts(render(VEGA["ccas-goodput-table"].spec() | {"data": data, "height": 900}))
    assert (shown.count("1.00M") >= 30) == (rows == 30)
    assert any("31 rows are too many for a heat map" in text for text in shown) == (rows == 31)


def test_a_pair_over_time_has_a_line_for_each_mix() -> None:
    """The mean over mixes would be half of each here."""
    rows = [
        {
            "key": {"day": day, "pair": "a > b", "mix": mix, "cca": "bbr", "run": f"{day}{mix}"},
            "goodput": {"value": bps},
        }
        for day in (0, 86_400_000)
        for mix, bps in (("bbr", 2e6), ("cubic,bbr", 1e6))
    ]
    svg = render(VEGA["mesh-time"].spec() | {"data": answer_of(rows)})
    assert {"bbr", "cubic,bbr"} <= set(texts(svg))
    assert (
        len(
            re.findall(
                r'stroke-dasharray="[^"]+" stroke-width="2"|stroke="#0072B2" stroke-width="2"', svg
            )
        )
        >= 2
    )
