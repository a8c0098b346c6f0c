"""Tests the Vega-Lite specifications without Elasticsearch and Kibana: they compile without a warning."""

import json
from typing import Any

import pytest
import vl_convert

from ccmix.kibana.dashboards import DASHBOARDS
from ccmix.kibana.preview import render
from ccmix.kibana.vega import VegaLite

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
    vl_convert.vegalite_to_vega(shown | {"data": {"values": []}}, vl_version=version, show_warnings=True)


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
    svg = render(VEGA["ccas-each"].spec() | {"data": {"values": rows}})
    assert ">cubic</text>" in svg
    assert ">bbr</text>" in svg
    assert ">reno</text>" not in svg
