"""The tables of a campaign made by hand, letter for letter.

What is meant to change: CCMIX_WRITE_GOLDEN=1 .venv/bin/pytest tests/report/test_golden.py, and look at the difference.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.cli.against import compared
from ccmix.report import more, text
from ccmix.report.results import Results, load_results

GOLDEN = Path(__file__).parent / "golden"

FORMS: dict[str, Callable[[Results], str]] = {
    "table.txt": text.render,
    "notes.txt": lambda results: "".join(f"{note}\n" for note in text.notes(results)),
    "table.csv": lambda results: text.csv_table(results.rows, results.swept),
    "rows.json": lambda results: json.dumps([row.to_json() for row in results.rows], indent=1) + "\n",
    "more.txt": lambda results: "".join(
        " | ".join(cells) + "\n" for cells in (more.HEADINGS, *map(more.cells, results.rows))
    ),
    "against.txt": lambda results: compared(results, "group=cubic", "share", "table"),
    "against.csv": lambda results: compared(results, "delay=5ms", "goodput_bps", "csv"),
    "against.json": lambda results: compared(results, "entry=alone", "goodput_bps", "json"),
}


@pytest.fixture(scope="module")
def results(make_campaign: Callable[..., Path]) -> Results:
    return load_results([make_campaign("alone", "mixed")])


@pytest.mark.parametrize("name", FORMS)
def test_as_before(results: Results, name: str) -> None:
    """Numbers with many digits to ten of them: the last ones are those of a library's approximations."""
    made = re.sub(r"\d+\.\d{6,}(?:e-\d+)?", lambda number: f"{float(number[0]):.10g}", FORMS[name](results))
    if os.environ.get("CCMIX_WRITE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / name).write_text(made, encoding="utf-8")
    assert made == (GOLDEN / name).read_text(encoding="utf-8")
