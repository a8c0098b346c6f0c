"""Tests each type of chart: its reviewed specification, Vega-Lite's own schema, and its drawing."""

import json
from typing import Any
from xml.etree import ElementTree as ET

import altair
import polars as pl
import pytest

from ccmix.charts.draw import png, svg
from ccmix.charts.encodings import SCHEMA
from ccmix.charts.heat_map import goodput_table
from support.chart_specs import GOLDEN, specs, written

SPECS = specs()
SVG = "{http://www.w3.org/2000/svg}"


def test_there_is_a_golden_file_of_each() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == set(SPECS)


@pytest.mark.parametrize("name", SPECS)
def test_the_specification_is_the_golden_one(name: str) -> None:
    golden = (GOLDEN / f"{name}.json").read_text(encoding="utf-8")
    assert written(SPECS[name]) == golden, (
        "look at the chart, then: PYTHONPATH=tests .venv/bin/python -m support.chart_specs"
    )


@pytest.mark.parametrize("name", SPECS)
def test_vega_lites_schema_knows_all_of_it(name: str) -> None:
    """Vega-Lite itself ignores unknown properties, such as a misspelt word."""
    altair.Chart.from_dict(SPECS[name], validate=True)


def test_the_schema_finds_a_word_that_is_misspelt() -> None:
    spec = json.loads(json.dumps(SPECS["table"]).replace('"axis"', '"axes"'))
    with pytest.raises(Exception, match="axes"):
        altair.Chart.from_dict(spec, validate=True)


def texts(drawn: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(drawn).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", SPECS)
def test_drawn_as_svg_and_png(name: str) -> None:
    drawn = svg(SPECS[name])
    assert not any(word in drawn for word in ("NaN", "undefined", "Infinity"))
    assert not any(
        "href" in name for element in ET.fromstring(drawn).iter() for name in element.attrib
    )
    assert len(texts(drawn)) > 5
    assert png(SPECS[name], scale=1).startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["time-series", "setting", "share", "distribution", "box"])
def test_a_legend_names_the_ccas_with_their_colours(name: str) -> None:
    drawn = svg(SPECS[name])
    assert {"cubic", "bbr"} <= set(texts(drawn))
    assert "#D55E00" in drawn
    assert "#0072B2" in drawn


def numbers_in_cells(drawn: str, suffix: str) -> dict[str, str]:
    """Returns the text of cells, which is 11 pixels high, and its colour."""
    found = {}
    for element in ET.fromstring(drawn).iter(f"{SVG}text"):
        text = "".join(element.itertext())
        if element.get("font-size") == "11px" and text.endswith(suffix):
            found[text] = element.get("fill", "")
    return found


def test_numbers_are_light_on_dark_cells_and_dark_on_light_ones() -> None:
    cells = numbers_in_cells(svg(SPECS["heat-map-log"]), "%")
    assert cells == {"0%": "black", "0.001%": "white", "1%": "black", "10%": "black"}
    assert numbers_in_cells(svg(SPECS["heat-map-linear"]), "%")["0%"] == "white"


def test_a_cell_without_a_number_is_not_drawn() -> None:
    values = SPECS["heat-map-log"]["concat"][0]["data"]["values"]
    assert ("50", "1") not in {(row["x"], row["y"]) for row in values}


def test_a_gains_colours_are_those_of_the_ccas() -> None:
    def scale(name: str) -> dict[str, Any]:
        layers: list[dict[str, Any]] = SPECS[name]["concat"][0]["layer"]
        found: dict[str, Any] = layers[0]["encoding"]["color"]["scale"]
        return found

    assert scale("heat-map-gain")["range"] == ["#D55E00", "#F7F7F7", "#0072B2"]
    assert scale("heat-map-gain-log")["type"] == "symlog"


def test_a_number_is_rounded_once() -> None:
    """978.53 is 979, and 978.5, to which it could be rounded first, 978 or 979."""
    means = pl.DataFrame({"row": ["bbr"], "column": ["5ms"], "goodput_bps": [978_528_807.5]})
    assert "979M" in texts(svg({"$schema": SCHEMA, **goodput_table(means, ["bbr"], ["5ms"])}))
