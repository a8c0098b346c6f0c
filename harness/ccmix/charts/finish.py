"""Makes a chart of a drawing: adds title, settings and alternative text."""

import textwrap
from collections.abc import Sequence

from ccmix.analysis.results import Result
from ccmix.archive.folders import file_name
from ccmix.charts.chart import Chart, Kind
from ccmix.charts.encodings import SCHEMA
from ccmix.charts.json_types import Part

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # as wide everywhere as vl-convert's own, by which it places
LETTER_WIDTH = 6.2  # pixels, of the settings' font
TITLE_SIZE, SETTINGS_SIZE = 14, 12
PANEL_WIDTH = 360  # with its axis
MOST_PHRASES = 8  # of an alternative text
MOST_NAME_BYTES = 200  # of a file; ext4 and others have 255


def finished(
    kind: Kind,
    name: str,
    title: str,
    settings: str,
    alt_text: str,
    drawing: Part,
    *,
    results: Sequence[Result],
    panels: int = 1,
    condition: str | None = None,
) -> Chart:
    """Returns the finished chart. `name` becomes that of its file; files of different names differ unless very long.

    panels: as in titled().
    """
    spec = titled(title, settings, alt_text, drawing, panels)
    folders = tuple(result.folder for result in results)
    return Chart(kind, file_name(name)[:MOST_NAME_BYTES], title, settings, alt_text, spec, condition, folders)


def titled(title: str, settings: str, alt_text: str, drawing: Part, panels: int = 1) -> Part:
    """Returns the specification of a drawing with a title, the settings below it, and a description.

    panels: how many are side by side, so how long a line of the settings may be; or as long as the title.
    """
    letters = max(panels * PANEL_WIDTH / LETTER_WIDTH, len(title) * TITLE_SIZE / SETTINGS_SIZE)
    lines = textwrap.wrap(settings, int(letters))
    return {
        "$schema": SCHEMA,
        "description": f"{title}. {settings}. {alt_text}",
        "title": {
            "text": title, "fontSize": TITLE_SIZE, "subtitle": lines, "subtitleFontSize": SETTINGS_SIZE,
            "anchor": "start", "offset": 12,
        },
        "config": {"font": FONT},
        **drawing,
    }  # fmt: skip


def listed(phrases: Sequence[str]) -> str:
    """Returns all phrases, or the first ones and how many more there are: listeners have the tables too."""
    more = len(phrases) - MOST_PHRASES
    return "; ".join(phrases[:MOST_PHRASES]) + (f"; and {more} more" if more > 0 else "")
