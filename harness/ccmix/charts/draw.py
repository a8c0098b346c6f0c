"""Draws charts as pictures, without a browser."""

import json
from pathlib import Path

import vl_convert

from ccmix.charts.chart import Chart, Image
from ccmix.charts.json_types import Part


def svg(spec: Part) -> str:
    """Returns the SVG of a Vega-Lite specification. Raises ValueError where it doesn't compile."""
    return str(vl_convert.vegalite_to_svg(spec))


def png(spec: Part, scale: float = 2.0) -> bytes:
    """Returns the specification's picture as PNG, with `scale` pixels for one of CSS."""
    return bytes(vl_convert.vegalite_to_png(spec, scale=scale))


def write(chart: Chart, folder: Path, image: Image) -> Path:
    """Writes a file of the chart's name into an existing folder; json is the specification. Raises OSError."""
    file = folder / f"{chart.name}.{image}"
    match image:
        case "svg":
            file.write_text(svg(chart.spec), encoding="utf-8")
        case "png":
            file.write_bytes(png(chart.spec))
        case "json":
            file.write_text(json.dumps(chart.spec, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return file
