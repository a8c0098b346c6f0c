"""Tests that names of entries, hosts and CCAs, which strangers may choose, are not formulas
in a spreadsheet.
"""

import csv
import io

import pytest

from ccmix.text.tables import csv_cell, csv_text


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        '=LINK("a")',
        "+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "-",
        "-inf",
        "+1_0",
    ],
)
def test_a_formula_becomes_text(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-3.2", "+1e6", "cubic", "a=b", "", "'=1", -3.2, 7, None])
def test_numbers_and_other_texts_stay(value: str | float | None) -> None:
    assert csv_cell(value) == value


def test_a_table() -> None:
    text = csv_text([["name", "value"], ["=1\n2", -3.2], ["a,b", None]])
    assert list(csv.reader(io.StringIO(text))) == [
        ["name", "value"],
        ["'=1\n2", "-3.2"],
        ["a,b", ""],
    ]
