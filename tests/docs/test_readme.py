"""The table in the README is that of the demo's archive."""

import subprocess

from support.commands import CCMIX, REPOSITORY

COLUMNS = (
    "entry",
    "delay",
    "loss",
    "group",
    "streams",
    "goodput",
    "CV",
    "retransmitted",
    "runs",
    "not valid",
)


ROWS = 6


def test_the_table_has_rows_that_ccmix_report_prints_of_the_demo() -> None:
    argv = [CCMIX, "report", str(REPOSITORY / "archive/demo.zip")]
    printed = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stdout
    headings, *rows = (
        cells(line, line[0]) for line in printed.splitlines() if line[:1] in ("┃", "│")
    )
    all_rows = [[row[headings.index(column)] for column in COLUMNS] for row in rows]
    shown = [
        cells(line, "|")
        for line in (REPOSITORY / "README.md").read_text().splitlines()
        if "bit/s |" in line
    ]
    assert len(shown) == ROWS
    assert shown == [row for row in all_rows if row in shown]


def cells(line: str, border: str) -> list[str]:
    return [cell.strip() for cell in line.strip(border).split(border)]
