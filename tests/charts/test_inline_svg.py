"""Tests drawings of Vega as parts of a page."""

from xml.etree import ElementTree as ET

from ccmix.charts.draw import SVG, inline

DRAWN = """<svg xmlns="http://www.w3.org/2000/svg" class="marks" width="10" height="10" viewBox="0 0 10 10">
<defs><clipPath id="clip1"><rect width="5"/></clipPath></defs>
<g role="graphics-object" aria-label="a mark">
<path clip-path="url(#clip1)" d="M1.23456,7L-0.049,12.5Z" stroke-width="2.55"/></g>
<text>3.14159 &amp; more</text></svg>"""


def test_identifiers_are_the_drawings_own() -> None:
    root = ET.fromstring(inline(DRAWN, "chart7", "two lines").svg)
    assert root.find(f".//{{{SVG}}}clipPath").get("id") == "chart7-clip1"  # type: ignore[union-attr]
    assert root.find(f".//{{{SVG}}}path").get("clip-path") == "url(#chart7-clip1)"  # type: ignore[union-attr]


def test_it_is_one_image_with_a_text() -> None:
    text = inline(DRAWN, "chart7", 'lines "over" time & loss <1%').svg
    root = ET.fromstring(text)
    assert (root.get("role"), root.get("aria-label")) == ("img", 'lines "over" time & loss <1%')
    assert text.count("aria-") == 1
    assert text.startswith("<svg ")  # no prefix of a namespace, which HTML doesn't have


def test_coordinates_are_rounded_and_nothing_else() -> None:
    text = inline(DRAWN, "chart7", "").svg
    assert 'd="M1.2,7L-0.0,12.5Z"' in text
    assert 'stroke-width="2.55"' in text
    assert "3.14159 &amp; more" in text


TITLED = """<svg xmlns="http://www.w3.org/2000/svg" width="200" height="120" viewBox="0 0 200 120">
<g transform="translate(50,68)"><g class="mark-group role-frame root"><g transform="translate(0,0)"><g>
<g class="mark-group role-scope"><g class="mark-group role-title"><g transform="translate(0,-22)">
<text transform="translate(0,10)" font-size="13px">a panel</text></g></g></g>
<text text-anchor="end" transform="translate(-9,30)" font-size="10px">a label of twenty le</text>
<g class="mark-group role-title"><g transform="translate(0,-60)"><text font-size="14px">the title</text></g></g>
</g></g></g></g></svg>"""


def test_the_page_has_the_title_so_the_drawing_has_none_and_no_room_for_it() -> None:
    drawing = inline(TITLED, "chart7", "")
    root = ET.fromstring(drawing.svg)
    assert [text.text for text in root.iter(f"{{{SVG}}}text")] == [
        "a panel",
        "a label of twenty le",
    ]
    left, top, width, height = map(float, (root.get("viewBox") or "").split())
    assert (top, height) == (68 - 22 + 10 - 13 - 6, 120 - 37)
    assert (left, width) == (
        -30,
        200 + 30 + 14,
    )  # 15% of a letter's size for each of 20 letters, and of 7 at 13 pixels
    assert drawing.width == width


AXIS = """<svg xmlns="http://www.w3.org/2000/svg" width="200" height="120" viewBox="0 0 200 120">
<g class="mark-group role-axis"><text text-anchor="end" font-size="10px">0.15%</text>
<text text-anchor="middle" transform="translate(-38,90) rotate(-90)" font-size="11px">goodput</text></g></svg>"""


def test_the_title_of_a_vertical_axis_keeps_away_from_wider_labels() -> None:
    drawing = inline(AXIS, "chart7", "")
    assert 'transform="translate(-7.5,0) translate(-38,90) rotate(-90)"' in drawing.svg
    assert drawing.width == 200 + 2 * 8  # of the label, and of the title
