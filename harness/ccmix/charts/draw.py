"""Draws charts as pictures, without a browser."""

import json
from pathlib import Path

import vl_convert

from ccmix.archive.replacing import replacing, write_whole
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
            write_whole(file, svg(chart.spec), sync=False)
        case "png":
            with replacing(file, sync=False) as out:
                out.write(png(chart.spec))
        case "json":
            write_whole(file, json.dumps(chart.spec, indent=1, ensure_ascii=False) + "\n", sync=False)
    return file
