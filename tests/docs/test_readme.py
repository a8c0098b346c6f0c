"""README's table against the archive of the demo."""

import subprocess

from support import CCMIX, REPOSITORY

COLUMNS = ("entry", "delay", "loss", "group", "streams", "goodput", "CV", "retransmitted", "runs", "not valid")


def test_the_table_has_what_ccmix_report_prints_of_the_demo() -> None:
    argv = [CCMIX, "report", REPOSITORY / "archive/demo.zip"]
    printed = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True).stdout
    headings, *rows = (cells(line, line[0]) for line in printed.splitlines() if line[:1] in ("┃", "│"))
    shown = [cells(line, "|") for line in (REPOSITORY / "README.md").read_text().splitlines() if "bit/s |" in line]
    assert shown == [[row[headings.index(column)] for column in COLUMNS] for row in rows]


def cells(line: str, border: str) -> list[str]:
    return [cell.strip() for cell in line.strip(border).split(border)]
