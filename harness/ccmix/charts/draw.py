"""Draws a specification as SVG, PNG or JSON, and puts SVG into a page."""

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
    """Returns the SVG of a Vega-Lite specification. Raises ValueError if it doesn't compile."""
    return str(vl_convert.vegalite_to_svg(spec))


def png(spec: Part, scale: float = 2.0) -> bytes:
    """Returns the specification's picture as PNG, with `scale` pixels for each CSS pixel."""
    return bytes(vl_convert.vegalite_to_png(spec, scale=scale))


def write(chart: Chart, folder: Path, image: Image) -> Path:
    """Writes a file with the chart's name into an existing folder; the format json is the
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
    """Returns the specification for a narrow screen, without the title, whose lines are long."""
    untitled = {name: part for name, part in spec.items() if name != "title"}
    config = spec.get("config", {}) | {"legend": {"orient": "bottom", "columns": _LEGEND_COLUMNS}}
    return _laid_out(untitled) | {"config": config}


def _laid_out(part: Part) -> Part:
    """Returns a view with all of its parts in the new layout; everything else stays as it is."""
    changed = dict(part)
    if "columns" in part and "concat" in part:
        changed["columns"] = 1
    if isinstance(part.get("width"), int | float):
        changed["width"] = min(part["width"], MOST_WIDTH)
    for composed in ("vconcat", "concat", "layer"):
        if composed in changed:
            changed[composed] = [_laid_out(each) for each in changed[composed]]
    legend = part.get("encoding", {}).get("color", {}).get("legend")
    if legend and "columns" in legend:
        colour = part["encoding"]["color"] | {"legend": legend | {"columns": _LEGEND_COLUMNS}}
        changed["encoding"] = part["encoding"] | {"color": colour}
    return changed


@dataclass(frozen=True)
class InlineDrawing:
    """Holds a drawing as a part of a page, and its unscaled width in pixels."""

    svg: str
    width: int


def inline(svg: str, name: str, alt_text: str) -> InlineDrawing:
    """Returns the drawing as a single image with an alternative text, and with identifiers that are
    unique in the page.

    Title and subtitle are left out because the page has them, and both sides have room for wider
    letters. Coordinates are rounded to a tenth of a pixel. Raises xml.etree.ElementTree.ParseError
    if the drawing is not XML.
    """
    ET.register_namespace("", SVG)
    root = ET.fromstring(svg)
    top = _without_title(root)
    left, right = _margins(root)
    left += _titles_apart(root)
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
    wide, high = round(width + left + right), round(height - top)
    for key, size in (
        ("width", f"{wide}"),
        ("height", f"{high}"),
        ("viewBox", f"{-left:g} {top:g} {wide} {high}"),
    ):
        root.set(key, size)
    root.set("role", "img")
    root.set("aria-label", alt_text)
    return InlineDrawing(ET.tostring(root, encoding="unicode"), wide)


def _without_title(root: ET.Element) -> float:
    """Removes the title of the whole drawing, and returns the position of the rest; 0 without a
    title.
    """
    parents = {child: parent for parent in root.iter() for child in parent}
    for title in root.iter(f"{{{SVG}}}g"):
        if title.get("class") == "mark-group role-title" and not _within_panel(title, parents):
            parents[title].remove(title)
            texts = list(root.iter(f"{{{SVG}}}text"))
            return max(
                0,
                round(
                    min((_down(text, parents) - _size(text) for text in texts), default=0.0) - ABOVE
                ),
            )
    return 0.0


def _within_panel(element: ET.Element, parents: dict[ET.Element, ET.Element]) -> bool:
    while element in parents:
        element = parents[element]
        if "role-scope" in element.get("class", ""):
            return True
    return False


def _down(element: ET.Element, parents: dict[ET.Element, ET.Element]) -> float:
    """Returns the distance of an element from the drawing's upper end, in pixels."""
    down = 0.0
    while True:
        if moved := _MOVED.search(element.get("transform", "")):
            down += float(moved[2])
        if element not in parents:
            return down
        element = parents[element]


def _titles_apart(root: ET.Element) -> int:
    """Moves the titles of vertical axes away from wider labels; returns the longest move."""
    most = 0.0
    for axis in root.iter(f"{{{SVG}}}g"):
        if axis.get("class") != "mark-group role-axis":
            continue
        texts = list(axis.iter(f"{{{SVG}}}text"))
        titles = [text for text in texts if "rotate(-90)" in text.get("transform", "")]
        labels = [text for text in texts if text not in titles and text.get("text-anchor") == "end"]
        apart = min(max(map(_more, labels), default=0.0), MOST_MARGIN)
        for title in titles:
            title.set("transform", f"translate({-apart:.1f},0) {title.get('transform')}")
            most = max(most, apart)
    return round(most)


def _more(text: ET.Element) -> float:
    """Returns the pixels by which a text may be wider than in the layout."""
    return len("".join(text.itertext())) * _size(text) * WIDER


def _size(text: ET.Element) -> float:
    return float(text.get("font-size", "10px").removesuffix("px"))


def _margins(root: ET.Element) -> tuple[float, float]:
    """Returns the pixels that the longest label needs in addition at the left and at the right if
    letters are wider.
    """
    left = right = 0.0
    for text in root.iter(f"{{{SVG}}}text"):
        if "rotate" in text.get("transform", ""):
            continue
        more = _more(text)
        anchor = text.get("text-anchor", "start")
        left = max(left, more * {"start": 0.0, "middle": 0.5}.get(anchor, 1.0))
        right = max(right, more * {"start": 1.0, "middle": 0.5}.get(anchor, 0.0))
    return round(min(left, MOST_MARGIN)), round(min(right, MOST_MARGIN))
