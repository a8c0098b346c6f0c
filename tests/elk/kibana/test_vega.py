"""Tests the Vega-Lite specifications without Elasticsearch and Kibana: they compile without a warning."""

import json
import re
from typing import Any

import pytest
import vl_convert

from ccmix.kibana.dashboards import DASHBOARDS
from ccmix.kibana.preview import render
from ccmix.kibana.vega import ANSWER, VegaLite, answer_of

VEGA = {
    f"{dashboard.name}-{panel.name}": panel.chart
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    if isinstance(panel.chart, VegaLite)
}
COMPILERS = ("5.8", "5.20")  # the oldest that vl-convert has, and the one that draws the previews
IN_KIBANA = {"width": "container", "height": "container"}  # as Kibana sets them


def compiled(spec: dict[str, Any], version: str) -> None:
    """Compiles a specification, and prints warnings as Kibana shows them where they are not hidden."""
    shown = {name: part for name, part in spec.items() if name != "config"} | IN_KIBANA
    vl_convert.vegalite_to_vega(shown | {"data": answer_of([])}, vl_version=version, show_warnings=True)


@pytest.mark.parametrize("version", COMPILERS)
def test_no_specification_compiles_with_a_warning(version: str, capfd: pytest.CaptureFixture[str]) -> None:
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
        {"key": {"cca": cca, "mix": "m"}, "retransmission_rate": {"value": 0.1}, "goodput": {"value": 1e6}}
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
    assert [number for number in shown if number in {"900.0M", "800.0M", "700.0M"}] == ["900.0M", "800.0M"]
    assert shown.count("0") == 2  # of retransmitted
    assert shown.count("-") == 2  # of RTT, which was not measured


@pytest.mark.parametrize("answer", [{"took": 1, "hits": {}}, answer_of([])["values"]], ids=["no index", "no row"])
def test_without_data_a_chart_says_what_it_needs(answer: dict[str, Any]) -> None:
    for name, chart in VEGA.items():
        svg = render(chart.spec() | {"data": {"values": answer, "name": ANSWER}})
        needed = chart.needs or "nothing passes the filters and the time range"
        assert any(text.startswith("no data: ") and needed in text for text in texts(svg)), name
