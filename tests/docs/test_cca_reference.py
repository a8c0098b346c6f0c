"""Tests how bench/cca_reference.py judges a measurement, on rows made from the reference, and that
the lab gives one.
"""

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import REPOSITORY, loaded

Row = dict[str, str]
Cells = dict[tuple[str, str], str]

BENCH = REPOSITORY / "bench" / "cca_reference.py"
REFERENCE = REPOSITORY / "archive" / "cca-reference.csv"
MEASURED = REPOSITORY / "archive" / "cca-reference-lab.csv"
PAGE = REPOSITORY / "docs" / "explanation" / "cca.md"
CCA = "bbr3"  # whose rows the tests change


def reference_rows() -> list[Row]:
    with REFERENCE.open() as file:
        return list(csv.DictReader(file))


SCRIPT = loaded(BENCH)


def judged(rows: list[Row]) -> Cells:
    """Returns the cells of the table of goals, by goal and CCA."""
    reference, lab = SCRIPT.judged_table(reference_rows()), SCRIPT.judged_table(rows)
    return cells_of("\n".join(SCRIPT.score(reference, lab)))


def tables(measured: Path, *options: str) -> str:
    argv: list[str | Path] = [sys.executable, BENCH, "--measured", measured, *options]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def cells_of(text: str) -> Cells:
    head, _, *lines = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.strip().splitlines()
    )
    return {
        (line[0], cca): cell for line in lines for cca, cell in zip(head[2:], line[2:], strict=True)
    }


def condition(row: Row) -> tuple[str, ...]:
    names = ("block", "rate_bps", "rtt_ms", "buffer", "loss", "partner", "start_offset_s")
    return tuple(row[name] for name in names)


def changed(
    conditions: int, wanted: Callable[[Row], bool], change: Callable[[Row], Row]
) -> list[Row]:
    """Returns the reference's rows; those of the first wanted conditions, as many as given, are
    changed.
    """
    rows = reference_rows()
    chosen = list(
        dict.fromkeys(condition(row) for row in rows if row["cca"] == CCA and wanted(row))
    )[:conditions]
    return [
        row | change(row) if row["cca"] == CCA and condition(row) in chosen else row for row in rows
    ]


def times(column: str, by: float) -> Callable[[Row], Row]:
    return lambda row: {column: str(float(row[column]) * by)}


def plus(column: str, more: float) -> Callable[[Row], Row]:
    return lambda row: {column: str(float(row[column]) + more)}


def with_share(more: float) -> Callable[[Row], Row]:
    """Moves this fraction of the total goodput of both groups from the partner to the group."""

    def change(row: Row) -> Row:
        own_bps, partner_bps = float(row["goodput_bps"]), float(row["partner_goodput_bps"])
        moved_bps = more * (own_bps + partner_bps)
        return {
            "goodput_bps": str(own_bps + moved_bps),
            "partner_goodput_bps": str(partner_bps - moved_bps),
        }

    return change


def light(row: Row) -> bool:
    return row["block"] in ("a1", "b", "c1") and float(row["loss"]) < 0.02


def heavy(row: Row) -> bool:
    return float(row["loss"]) >= 0.02


def lossy(row: Row) -> bool:
    """Returns whether a single flow retransmits more than 0.1% in each of the reference's runs."""
    return row["block"] in ("a1", "c1") and float(row["retransmitted_share"]) > 0.001


def beside_cubic(row: Row) -> bool:
    return row["block"] == "c2"


def two_flows(row: Row) -> bool:
    return row["block"] == "d" and row["start_offset_s"] in ("", "0")


def anything(_: Row) -> bool:
    return True


def test_the_page_has_the_table_of_what_was_measured() -> None:
    reference = SCRIPT.judged_table(reference_rows())
    lab = SCRIPT.judged_table(SCRIPT.read_rows(MEASURED))
    assert "\n".join(SCRIPT.score(reference, lab)) in PAGE.read_text()
    assert lab.keys() == {
        where for where in reference if where.cca in ("cubic", "bbr", "bbr2", "bbr3")
    }


def test_the_reference_reaches_its_own_goals() -> None:
    cells = judged(reference_rows())
    assert [name for name, cell in cells.items() if cell == "none"] == [
        ("share against cubic, within 5 points", "cubic"),
        ("share against cubic, within 10 points", "cubic"),
    ]
    for (goal, _), cell in cells.items():
        within, _, of = cell.partition(" of ")
        assert cell == "none" or within == of, goal
    assert cells["goodput of one flow, loss below 2%, within 3%", "bbr2"] == "29 of 29"
    assert (
        cells["goodput of one flow, loss of 2% and more, within a factor of 2", "bbr2"] == "3 of 3"
    )
    assert cells["share against cubic, within 5 points", "bbr2"] == "3 of 3"
    assert cells["Jain's index of the last 60 s, within 0.05", "bbr2"] == "8 of 8"


@pytest.mark.parametrize(
    ("goal", "allowed", "wanted", "change"),
    [
        ("goodput of one flow, loss below 2%, within 3%", 2, light, times("goodput_bps", 0.96)),
        ("goodput of one flow, loss below 2%, within 10%", 0, light, times("goodput_bps", 1.11)),
        (
            "goodput of one flow, loss of 2% and more, within a factor of 2",
            0,
            heavy,
            times("goodput_bps", 2.1),
        ),
        (
            "goodput of one flow, loss of 2% and more, within a factor of 2",
            0,
            heavy,
            times("goodput_bps", 0.45),
        ),
        ("median RTT, within 15%", 4, anything, times("rtt_median_ms", 1.16)),
        ("95th percentile of RTT, within 25%", 9, anything, times("rtt_p95_ms", 0.74)),
        ("share against cubic, within 5 points", 1, beside_cubic, with_share(0.06)),
        ("share against cubic, within 10 points", 0, beside_cubic, with_share(-0.11)),
        ("Jain's index of the last 60 s, within 0.05", 1, two_flows, plus("jain_last60s", -0.06)),
    ],
)
def test_a_goal_is_missed_with_one_condition_more_than_it_allows(
    goal: str, allowed: int, wanted: Callable[[Row], bool], change: Callable[[Row], Row]
) -> None:
    enough = judged(changed(allowed, wanted, change))
    within, of = map(int, enough[goal, CCA].split(" of "))
    assert of - within == allowed
    too_few = judged(changed(allowed + 1, wanted, change))
    assert too_few[goal, CCA] == f"{within - 1} of {of}, missed"
    assert "missed" not in too_few[goal, "bbr2"]


def test_the_rate_of_retransmissions_counts_where_the_reference_has_some() -> None:
    goal = "retransmission rate, where above 0.1%, within a factor of 1.5"
    of = int(judged(reference_rows())[goal, CCA].split(" of ")[1])
    allowed = of // 5
    enough = judged(changed(allowed, lossy, times("retransmitted_share", 0.6)))
    assert enough[goal, CCA] == f"{of - allowed} of {of}"
    too_few = judged(changed(allowed + 1, lossy, times("retransmitted_share", 0.6)))
    assert too_few[goal, CCA] == f"{of - allowed - 1} of {of}, missed"
    none = [
        row
        for row in reference_rows()
        if row["cca"] == CCA and float(row["retransmitted_share"]) <= 0.001
    ]
    assert none
    few = changed(
        len(none), lambda row: row in none and light(row), lambda _: {"retransmitted_share": "0.5"}
    )
    assert judged(few)[goal, CCA].endswith(f" of {of}")


def test_a_condition_without_a_valid_run_is_outside() -> None:
    goal = "goodput of one flow, loss below 2%, within 10%"
    assert (
        judged(changed(1, light, lambda _: {"verdict": "limited"}))[goal, CCA] == "28 of 29, missed"
    )


def test_a_condition_that_was_not_measured_is_not_judged() -> None:
    cells = judged([row for row in reference_rows() if row["block"] == "c1"])
    assert cells["goodput of one flow, loss below 2%, within 3%", CCA] == "8 of 8"
    assert cells["share against cubic, within 5 points", CCA] == "none"
    assert cells["the reference's rows that were measured", CCA].startswith("8 of ")


def test_a_condition_that_the_reference_lacks_is_refused(tmp_path: Path) -> None:
    measured = tmp_path / "measured.csv"
    measured.write_text(REFERENCE.read_text().replace(",0.25 bdp,", ",0.3 bdp,"))
    done = subprocess.run(
        [sys.executable, BENCH, "--measured", measured], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "the reference has no bbr, 100 Mbit/s, 20 ms, 0.3 bdp" in done.stderr


def test_seeds_and_starts_are_judged_by_their_mean() -> None:
    """Of two starts, one gives the group 20 points more and the other 20 less; of two seeds, one 3
    times as much.
    """
    rows = []
    for row in reference_rows():
        if row["cca"] == CCA and row["block"] == "c2":
            rows += [row | with_share(0.2)(row), row | with_share(-0.2)(row)]
        elif row["cca"] == CCA and heavy(row):
            rows += [row, row | times("goodput_bps", 0.5)(row)]
        else:
            rows.append(row)
    cells = judged(rows)
    assert cells["share against cubic, within 5 points", CCA] == "3 of 3"
    assert cells["goodput of one flow, loss of 2% and more, within a factor of 2", CCA] == "3 of 3"


def test_each_row_names_what_is_outside() -> None:
    """The worst conditions come first."""
    text = tables(REFERENCE, "--rows")
    assert "| b | 100 Mbit/s, 40 ms, 1 bdp, loss 10.00% |" in text
    assert "| c2 | 100 Mbit/s, 20 ms, 10 bdp, against cubic |" in text
    assert "| d | 100 Mbit/s, 20 ms, 16 bdp, against bbr3, 30 s later |" in text


@pytest.mark.lab
@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_the_lab_gives_conditions_of_the_reference_again(tmp_path: Path) -> None:
    """Measures one flow, one that competes with CUBIC, and two of one CCA. A measurement that is
    already complete is continued.
    """
    argv: list[str | Path] = [
        sys.executable,
        BENCH,
        "-o",
        tmp_path / "out",
        "--csv",
        tmp_path / "measured.csv",
        "--cca",
        "bbr",
    ]
    argv += ["--block", "c1", "c2", "d", "--only", "buffer=1bdp", "--same-start"]
    first = subprocess.run(argv, check=True, capture_output=True, text=True)
    cells = cells_of(first.stdout)
    assert cells["goodput of one flow, loss below 2%, within 3%", "bbr"] == "1 of 1"
    assert cells["median RTT, within 15%", "bbr"] == "5 of 5"
    assert cells["share against cubic, within 10 points", "bbr"] == "1 of 1"
    assert cells["Jain's index of the last 60 s, within 0.05", "bbr"] == "2 of 2"
    assert cells_of(tables(tmp_path / "measured.csv")) == cells
    runs = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("run.json")}
    assert len(runs) == 4
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == first.stdout
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("run.json")} == runs
