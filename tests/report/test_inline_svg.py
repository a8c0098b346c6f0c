"""Tests drawings of Vega as parts of a page."""

from xml.etree import ElementTree as ET

from ccmix.report.inline_svg import SVG, inline

DRAWN = """<svg xmlns="http://www.w3.org/2000/svg" class="marks" width="10" height="10" viewBox="0 0 10 10">
<defs><clipPath id="clip1"><rect width="5"/></clipPath></defs>
<g role="graphics-object" aria-label="a mark">
<path clip-path="url(#clip1)" d="M1.23456,7L-0.049,12.5Z" stroke-width="2.55"/></g>
<text>3.14159 &amp; more</text></svg>"""


def test_identifiers_are_the_drawings_own() -> None:
    root = ET.fromstring(inline(DRAWN, "chart7", "two lines"))
    assert root.find(f".//{{{SVG}}}clipPath").get("id") == "chart7-clip1"  # type: ignore[union-attr]
    assert root.find(f".//{{{SVG}}}path").get("clip-path") == "url(#chart7-clip1)"  # type: ignore[union-attr]


def test_it_is_one_image_with_a_text() -> None:
    text = inline(DRAWN, "chart7", 'lines "over" time & loss <1%')
    root = ET.fromstring(text)
    assert (root.get("role"), root.get("aria-label")) == ("img", 'lines "over" time & loss <1%')
    assert text.count("aria-") == 1
    assert text.startswith("<svg ")  # no prefix of a namespace, which HTML doesn't have


def test_coordinates_are_rounded_and_nothing_else() -> None:
    text = inline(DRAWN, "chart7", "")
    assert 'd="M1.2,7L-0.0,12.5Z"' in text
    assert 'stroke-width="2.55"' in text
    assert "3.14159 &amp; more" in text
