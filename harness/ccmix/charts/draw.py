"""Draws a Vega-Lite specification as SVG, PNG or JSON, and prepares SVG for an HTML page."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import vl_convert

from ccmix.charts.encodings import Chart, Image, Part
from ccmix.files import replacing, write_whole
from ccmix.text.printable import printable_lines

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
    return str(vl_convert.vegalite_to_svg(_printable(spec)))


def png(spec: Part, scale: float = 2.0) -> bytes:
    """Returns the picture of a Vega-Lite specification as PNG. With a `scale` of 2, a CSS pixel has
    2 x 2 pixels of the picture.
    """
    return bytes(vl_convert.vegalite_to_png(_printable(spec), scale=scale))


def _printable(part: Any) -> Any:
    """Returns a part of a Vega-Lite specification with all texts in printable characters: others
    end the process in vl_convert, and are not allowed in SVG.
    """
    match part:
        case str():
            return printable_lines(part)
        case dict():
            return {printable_lines(name): _printable(value) for name, value in part.items()}
        case list() | tuple():
            return [*map(_printable, part)]
    return part


def write(chart: Chart, folder: Path, image: Image) -> Path:
    """Writes a chart into a file in an existing folder, and returns the file's path. `image` is the
    format and the suffix; 'json' writes the Vega-Lite specification. Raises OSError.
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
                file,
                json.dumps(_printable(chart.spec), indent=1, ensure_ascii=False) + "\n",
                sync=False,
            )
    return file


def narrow(spec: Part) -> Part:
    """Returns a Vega-Lite specification changed for a narrow screen, such as a phone's: with all
    panels in one column, the legend below them, and no title, whose lines would be too long.
    """
    untitled = {name: part for name, part in spec.items() if name != "title"}
    config = spec.get("config", {}) | {"legend": {"orient": "bottom", "columns": _LEGEND_COLUMNS}}
    return _with_narrow_layout(untitled) | {"config": config}


def _with_narrow_layout(part: Part) -> Part:
    """Returns a part of a Vega-Lite specification, with its panels in one column, narrower, and
    with fewer legend entries in a row. Everything else stays the same.
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
    """Prepares an SVG drawing for an HTML page. It becomes a single image with an alternative text.
    All of its identifiers begin with `name`, so that they are unique in the page.

    The title and the subtitle are removed, because the page has them. Both sides get room, because
    a browser's letters may be wider than those of the drawing. Coordinates are rounded to a tenth
    of a pixel. Raises xml.etree.ElementTree.ParseError if the drawing is not XML.
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
    root.set("aria-label", printable_lines(alt_text))
    return InlineDrawing(ET.tostring(root, encoding="unicode"), new_width)


def _remove_title(root: ET.Element) -> float:
    """Removes the title of the whole drawing from its SVG. Returns by how many pixels the drawing
    can then be cut at the top; 0 if there was no title.
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
    """Returns whether an SVG element belongs to one of the drawing's panels, and not to the whole
    drawing. `parents` maps each element to its parent.
    """
    while element in parents:
        element = parents[element]
        if "role-scope" in element.get("class", ""):
            return True
    return False


def _distance_from_top(element: ET.Element, parents: dict[ET.Element, ET.Element]) -> float:
    """Returns the distance of an SVG element from the upper end of the drawing, in pixels: the sum
    of the vertical translations of the element and of all elements around it. `parents` maps each
    element to its parent.
    """
    distance = 0.0
    while True:
        if moved := _MOVED.search(element.get("transform", "")):
            distance += float(moved[2])
        if element not in parents:
            return distance
        element = parents[element]


def _move_axis_titles(root: ET.Element) -> int:
    """Moves the titles of vertical axes to the left, because a browser may draw the labels next to
    them wider. Returns the longest move in pixels.
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
    """Returns by how many pixels a browser may draw a text wider than the drawing's layout
    expects.
    """
    return len("".join(text.itertext())) * _font_size(text) * WIDER


def _font_size(text: ET.Element) -> float:
    """Returns the font size of a text in pixels."""
    return float(text.get("font-size", "10px").removesuffix("px"))


def _extra_margins(root: ET.Element) -> tuple[float, float]:
    """Returns how many more pixels the drawing needs at its left and at its right side, because a
    browser may draw its texts wider.
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
