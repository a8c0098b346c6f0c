"""Tests that text of other people can't act on a terminal, mislead a reader or break a chart."""

import re
import unicodedata
from pathlib import Path

import pytest

from ccmix.charts import draw
from ccmix.cli import output
from ccmix.text.printable import printable, printable_lines
from ccmix.text.tables import TextTable, aligned, csv_text
from ccmix.text.words import html_templates

CLIPBOARD, TITLE = "\x1b]52;c;eA==\x07", "\x1b]0;mine\x1b\\"
DEVICE_CONTROL, COLOUR, C1_COLOUR = "\x1bP1$r\x9c", "\x1b[31m", "\x9b31m"
OVERRIDE, ISOLATE, SEPARATORS = "\u202egpj.exe", "\u2066a\u2069", "a\u2028b\u2029c\x85d\x0bе\rf"
ZERO, DELETE, SURROGATE, MARK = "a\x00b", "a\x7fb", "a\ud800b", "\ufeffa"
HOSTILE = (
    *(CLIPBOARD, TITLE, DEVICE_CONTROL, COLOUR, C1_COLOUR, OVERRIDE, ISOLATE, SEPARATORS),
    *(ZERO, DELETE, SURROGATE, MARK),
)
TOGETHER = "".join(HOSTILE)


def is_safe(text: str) -> bool:
    return all(
        letter in "\n\t" or letter.isprintable() or unicodedata.category(letter) == "Zs"
        for letter in text
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_replaces_what_is_not_printable(text: str) -> None:
    assert len(printable(text)) == len(text)
    assert is_safe(printable(text))
    assert "\n" not in printable(f"{text}\n")
    assert is_safe(printable_lines(text))


@pytest.mark.parametrize("text", ["10 Gbit/s", "10\u202fGbit/s", "5\u00a0ms", "µs – ü", "日本", ""])
def test_keeps_printable_text_and_all_spaces(text: str) -> None:
    assert printable(text) == printable_lines(text) == text


def test_keeps_the_lines_and_tabs_of_a_long_text() -> None:
    assert printable_lines("a\tb\n\nc\x07\n") == "a\tb\n\nc\ufffd\n"
    assert printable("a\tb\nc") == "a\ufffdb\ufffdc"


def test_all_that_a_command_writes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output.put(TOGETHER)
    output.tell(TOGETHER)
    output.put(TOGETHER, tmp_path / "file")
    written = capsys.readouterr()
    for text in (written.out, written.err, (tmp_path / "file").read_text()):
        assert is_safe(text)


def test_tables() -> None:
    table = TextTable(["a", "b"], [[TOGETHER, "x\n| forged |"], ["c", "d"]])
    for text in (table.terminal(), table.markdown(), aligned(table.rows)):
        assert is_safe(text)
        assert not re.search("^ *\\| forged", text, re.MULTILINE)
    assert len(table.markdown().splitlines()) == 4


def test_a_page() -> None:
    environment = html_templates("ccmix.report")
    page = environment.from_string("<p title='{{ x }}'>{{ x }}</p>{{ y | safe }}")
    text = page.render(x=TOGETHER, y="<svg/>")
    assert is_safe(text)
    assert text.endswith("<svg/>")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_chart(text: str) -> None:
    spec = {
        "title": text,
        "data": {"values": [{"x": text, "y": 1}, {"x": "b", text: 2}]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "x", "type": "nominal", "title": f"axis {text}"},
            "y": {"field": "y", "type": "quantitative"},
        },
    }
    drawing = draw.svg(spec)
    assert is_safe(drawing)
    assert is_safe(draw.inline(drawing, "name", text).svg)
    assert draw.png(spec).startswith(b"\x89PNG")


FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "﹦", "﹢", "﹣", "﹫")


@pytest.mark.parametrize("start", FORMULA_STARTS)
@pytest.mark.parametrize("before", ["", " ", "\n", "\t", "\r\n", "\u00a0", "\u3000", " \n "])
def test_a_formula_in_csv_is_text_whatever_precedes_it(start: str, before: str) -> None:
    assert csv_text([[f"{before}{start}SUM(A1)"]]).lstrip('"').startswith("'")
