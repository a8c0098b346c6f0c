"""Draws a Vega-Lite specification as SVG, PNG or JSON, and prepares SVG for an HTML page."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import vl_convert

from ccmix.charts.encodings import Chart, Image, Part
from ccmix.files import replacing, write_whole

MOST_WIDTH = 260  # pixels of a panel, without its axis
_LEGEND_COLUMNS = 2
SVG = "http://www.w3.org/2000/svg"
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_MOVED = re.compile(r"translate\(([-\d.e]+)[ ,]+([-\d.e]+)\)")
ABOVE = 6.0  # pixels that are left above the uppermost text
# of its size, by which a browser's letter may be wider than the one that the drawing was laid out
# with
WIDER = 0.15
MOST_MARGIN = 60.0  # pixels


def svg(spec: Part) -> str:
    """Returns the SVG of a Vega-Lite specification. Raises ValueError if it is not valid."""
    return str(vl_convert.vegalite_to_svg(spec))


def png(spec: Part, scale: float = 2.0) -> bytes:
    """Returns the specification's picture as PNG, with `scale` pixels for each CSS pixel."""
    return bytes(vl_convert.vegalite_to_png(spec, scale=scale))


def write(chart: Chart, folder: Path, image: Image) -> Path:
    """Writes a chart into a file with its name in an existing folder; the format json is the
    specification. Raises OSError.
    """
    file = folder / f"{chart.name}.{image}"
    match image:
        case "svg":
            write_whole(file, svg(chart.spec), sync=False)
        case "png":
            with replacing(file, sync=False) as out:
                out.write(png(chart.spec))
        case "json":
            write_whole(
                file, json.dumps(chart.spec, indent=1, ensure_ascii=False) + "\n", sync=False
            )
    return file


def narrow(spec: Part) -> Part:
    """Returns the specification for a narrow screen, such as a phone's: panels in one column, the
    legend below, and no title, whose lines are long.
    """
    untitled = {name: part for name, part in spec.items() if name != "title"}
    config = spec.get("config", {}) | {"legend": {"orient": "bottom", "columns": _LEGEND_COLUMNS}}
    return _with_narrow_layout(untitled) | {"config": config}


def _with_narrow_layout(part: Part) -> Part:
    """Returns a part of a specification with its panels in one column and narrower; everything else
    stays as it is.
    """
    changed = dict(part)
    if "columns" in part and "concat" in part:
        changed["columns"] = 1
    if isinstance(part.get("width"), int | float):
        changed["width"] = min(part["width"], MOST_WIDTH)
    for composition in ("vconcat", "concat", "layer"):
        if composition in changed:
            changed[composition] = [_with_narrow_layout(child) for child in changed[composition]]
    legend = part.get("encoding", {}).get("color", {}).get("legend")
    if legend and "columns" in legend:
        colour = part["encoding"]["color"] | {"legend": legend | {"columns": _LEGEND_COLUMNS}}
        changed["encoding"] = part["encoding"] | {"color": colour}
    return changed


@dataclass(frozen=True)
class InlineDrawing:
    """Holds an SVG drawing as a part of an HTML page, and its unscaled width in pixels."""

    svg: str
    width: int


def inline(svg: str, name: str, alt_text: str) -> InlineDrawing:
    """Prepares an SVG drawing for an HTML page: as a single image with an alternative text, and
    with identifiers that are unique in the page because they begin with `name`.

    Title and subtitle are left out because the page has them. Both sides get room for a browser's
    wider letters. Coordinates are rounded to a tenth of a pixel. Raises
    xml.etree.ElementTree.ParseError if the drawing is not XML.
    """
    ET.register_namespace("", SVG)
    root = ET.fromstring(svg)
    top = _remove_title(root)
    left, right = _extra_margins(root)
    left += _move_axis_titles(root)
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "role" or key.startswith("aria-"):
                del element.attrib[key]  # each mark would be read aloud
            elif key == "id":
                element.set(key, f"{name}-{value}")
            elif key in ("d", "transform"):
                element.set(key, _NUMBER.sub(lambda number: f"{float(number[0]):.1f}", value))
            elif "url(#" in value:
                element.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))
    width, height = (float(root.get(size, "0")) for size in ("width", "height"))
    new_width, new_height = round(width + left + right), round(height - top)
    for key, size in (
        ("width", f"{new_width}"),
        ("height", f"{new_height}"),
        ("viewBox", f"{-left:g} {top:g} {new_width} {new_height}"),
    ):
        root.set(key, size)
    root.set("role", "img")
    root.set("aria-label", alt_text)
    return InlineDrawing(ET.tostring(root, encoding="unicode"), new_width)


def _remove_title(root: ET.Element) -> float:
    """Removes the title of the whole drawing, and returns the vertical position of the rest in
    pixels; 0 without a title.
    """
    parents = {child: parent for parent in root.iter() for child in parent}
    for title in root.iter(f"{{{SVG}}}g"):
        if title.get("class") == "mark-group role-title" and not _within_panel(title, parents):
            parents[title].remove(title)
            texts = root.iter(f"{{{SVG}}}text")
            tops = (_distance_from_top(text, parents) - _font_size(text) for text in texts)
            return max(0, round(min(tops, default=0.0) - ABOVE))
    return 0.0


def _within_panel(element: ET.Element, parents: dict[ET.Element, ET.Element]) -> bool:
    """Returns whether an element is part of a panel, and not of the whole drawing."""
    while element in parents:
        element = parents[element]
        if "role-scope" in element.get("class", ""):
            return True
    return False


def _distance_from_top(element: ET.Element, parents: dict[ET.Element, ET.Element]) -> float:
    """Returns the distance of an element from the drawing's upper end in pixels: the sum of all of
    its translations.
    """
    distance = 0.0
    while True:
        if moved := _MOVED.search(element.get("transform", "")):
            distance += float(moved[2])
        if element not in parents:
            return distance
        element = parents[element]


def _move_axis_titles(root: ET.Element) -> int:
    """Moves the titles of vertical axes to the left, away from labels that a browser may draw
    wider. Returns the longest move in pixels.
    """
    longest_move = 0.0
    for axis in root.iter(f"{{{SVG}}}g"):
        if axis.get("class") != "mark-group role-axis":
            continue
        texts = list(axis.iter(f"{{{SVG}}}text"))
        titles = [text for text in texts if "rotate(-90)" in text.get("transform", "")]
        labels = [text for text in texts if text not in titles and text.get("text-anchor") == "end"]
        move = min(max(map(_extra_width, labels), default=0.0), MOST_MARGIN)
        for title in titles:
            title.set("transform", f"translate({-move:.1f},0) {title.get('transform')}")
            longest_move = max(longest_move, move)
    return round(longest_move)


def _extra_width(text: ET.Element) -> float:
    """Returns the pixels by which a browser may draw a text wider than in the layout."""
    return len("".join(text.itertext())) * _font_size(text) * WIDER


def _font_size(text: ET.Element) -> float:
    return float(text.get("font-size", "10px").removesuffix("px"))


def _extra_margins(root: ET.Element) -> tuple[float, float]:
    """Returns the pixels that texts need at the left and at the right of the drawing if a browser
    draws them wider.
    """
    left = right = 0.0
    for text in root.iter(f"{{{SVG}}}text"):
        if "rotate" in text.get("transform", ""):
            continue
        extra = _extra_width(text)
        anchor = text.get("text-anchor", "start")
        left = max(left, extra * {"start": 0.0, "middle": 0.5}.get(anchor, 1.0))
        right = max(right, extra * {"start": 1.0, "middle": 0.5}.get(anchor, 0.0))
    return round(min(left, MOST_MARGIN)), round(min(right, MOST_MARGIN))
