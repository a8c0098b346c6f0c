"""Makes a drawing of Vega a part of an HTML page."""

import re
from xml.etree import ElementTree as ET

SVG = "http://www.w3.org/2000/svg"
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def inline(svg: str, name: str, alt_text: str) -> str:
    """Returns the drawing as one image with an alternative text, and with identifiers that are unique in the page.

    Rounds coordinates to a tenth of a pixel. Raises xml.etree.ElementTree.ParseError for what is not XML.
    """
    ET.register_namespace("", SVG)
    root = ET.fromstring(svg)
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
    root.set("role", "img")
    root.set("aria-label", alt_text)
    return ET.tostring(root, encoding="unicode")
