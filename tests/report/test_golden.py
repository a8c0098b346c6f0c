"""Compares the tables of a hand-made campaign letter for letter.

To write the files again after an intended change: CCMIX_WRITE_GOLDEN=1 .venv/bin/pytest
tests/report/test_golden.py. Then look at the difference.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ccmix.analysis.results import Results, load_results
from ccmix.cli.report import against_baseline
from ccmix.report import html, results_text

GOLDEN = Path(__file__).parent / "golden"

FORMS: dict[str, Callable[[Results], str]] = {
    "table.txt": results_text.render,
    "notes.txt": lambda results: "".join(f"{note}\n" for note in results_text.notes(results)),
    "table.csv": lambda results: results_text.csv_table(results.rows, results.swept),
    "rows.json": lambda results: (
        json.dumps([row.to_json() for row in results.rows], indent=1) + "\n"
    ),
    "more.txt": lambda results: "".join(
        " | ".join(cells) + "\n"
        for cells in (html.MORE_HEADINGS, *map(html.more_cells, results.rows))
    ),
    "against.txt": lambda results: against_baseline(results, "group=cubic", "share", "table"),
    "against.csv": lambda results: against_baseline(results, "delay=5ms", "goodput_bps", "csv"),
    "against.json": lambda results: against_baseline(results, "entry=alone", "goodput_bps", "json"),
}


@pytest.fixture(scope="module")
def results(make_campaign: Callable[..., Path]) -> Results:
    return load_results([make_campaign("alone", "mixed")])


@pytest.mark.parametrize("name", FORMS)
def test_as_before(results: Results, name: str) -> None:
    """Compares numbers to ten digits, because the last digits depend on a library's approximations."""
    made = re.sub(
        r"\d+\.\d{6,}(?:e-\d+)?", lambda number: f"{float(number[0]):.10g}", FORMS[name](results)
    )
    if os.environ.get("CCMIX_WRITE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / name).write_text(made, encoding="utf-8")
    assert made == (GOLDEN / name).read_text(encoding="utf-8")
