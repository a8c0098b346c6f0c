"""Tests that the page on the sender's queue has the numbers of archive/, and that the lab
reproduces one of them.
"""

import csv
from pathlib import Path

import pytest

from support.commands import REPOSITORY, Ccmix

ARCHIVE = REPOSITORY / "archive"
OF_LAB = ARCHIVE / "sender-queue.csv"
PAGE = (REPOSITORY / "docs" / "explanation" / "sender-queue.md").read_text()
CELLS = ((100, 200), (250, 200), (1000, 200), (1000, 50))  # Mbit/s, ms of base RTT


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open() as opened:
        return list(csv.DictReader(opened))


def cell_of(row: dict[str, str]) -> tuple[int, int]:
    """Returns rate and base RTT of one of the lab's rows; a key that its entry doesn't sweep is
    the topology's.
    """
    rate = (row["condition.rate"] or "1gbit").replace("1gbit", "1000mbit")
    return int(rate.removesuffix("mbit")), int((row["condition.rtt"] or "200ms").removesuffix("ms"))


def measured(queue: str) -> dict[tuple[int, int], dict[str, str]]:
    return {cell_of(row): row for row in rows_of(OF_LAB) if row["condition.sender-qdisc"] == queue}


def published() -> dict[tuple[int, int], float]:
    """Returns CUBIC's goodputs with kernel 5.13, in Mbit/s."""
    return {
        (int(row["rate_mbps"]), int(row["rtt_ms"])): float(row["cubic_5.13"])
        for row in rows_of(ARCHIVE / "datta-fund-2023.csv")
    }


def in_words(row: dict[str, str]) -> str:
    """Writes a mean and half of its 95% interval, in Mbit/s with three digits."""
    mean, low = float(row["goodput_mean_bps"]) / 1e6, float(row["goodput_ci95_low_bps"]) / 1e6
    digits = 1 if mean < 100 else 0
    half = mean - low
    return f"{mean:.{digits}f} ± {half:.{digits if half >= 1 else 1}f}"


def test_the_page_has_the_table() -> None:
    fq, pfifo, of_others = measured("fq"), measured("pfifo"), published()
    assert fq.keys() == pfifo.keys() == set(CELLS)
    for cell in CELLS:
        words = in_words(fq[cell]), in_words(pfifo[cell])
        assert (
            f"| {cell[0]} Mbit/s | {cell[1]} ms | {of_others[cell]:.0f} | {words[0]} | {words[1]} |"
            in PAGE
        )


def test_the_page_has_the_largest_factors() -> None:
    fq, pfifo, of_others = measured("fq"), measured("pfifo"), published()
    mean = "goodput_mean_bps"
    here = max(float(fq[cell][mean]) / float(pfifo[cell][mean]) for cell in CELLS)
    there = max(float(fq[cell][mean]) / 1e6 / of_others[cell] for cell in CELLS)
    assert f"factor of up to {here:.0f} on this page, and of {there:.0f}" in " ".join(PAGE.split())


def of_paper(ccmix: Ccmix, entry: str) -> list[float]:
    """Returns CUBIC's goodputs at 1 Gbit/s with 50 and 200 ms, in Mbit/s."""
    report = ccmix(
        "report", ARCHIVE / "papers" / "datta-fig2.zip", "--format", "csv"
    ).stdout.splitlines()
    cells = {
        row["condition.ack-delay"]: float(row["goodput_mean_bps"]) / 1e6
        for row in csv.DictReader(report)
        if (row["entry"], row["condition.rate"], row["cca"]) == (entry, "1gbit", "cubic")
    }
    return [cells["50ms"], cells["200ms"]]


@pytest.mark.slow
def test_the_page_has_the_factors_with_and_without_bursts(ccmix: Ccmix) -> None:
    of_others = [published()[1000, rtt_ms] for rtt_ms in (50, 200)]
    factors = {}
    for entry in ("shallow", "shallow-slots", "shallow-joined"):
        ratios = [
            here / there for here, there in zip(of_paper(ccmix, entry), of_others, strict=True)
        ]
        factors[entry] = "{:.1f} and {:.1f} times".format(*ratios)
    page = " ".join(PAGE.split())
    assert f"its goodput is {factors['shallow']} that of kernel 5.13." in page
    assert f"the lab has {factors['shallow-slots']} the goodput of kernel 5.13." in page
    assert f"join packets ({factors['shallow-joined']})" in page
    numbers = [
        f"{mbps:.0f}"
        for mbps in (*of_others, *of_paper(ccmix, "shallow"), *of_paper(ccmix, "shallow-slots"))
    ]
    assert (
        "Kernel 5.13 gave {} and {} Mbit/s, the lab {} and {}, and with slots {} and {}.)".format(
            *numbers
        )
        in page
    )


@pytest.mark.lab
@pytest.mark.deep
@pytest.mark.parametrize("queue", ["fq", "pfifo"])
def test_the_lab_gives_a_cell_again(ccmix: Ccmix, tmp_path: Path, queue: str) -> None:
    """Other builds of the probe or of iperf3 change the numbers of single runs: the mean stays
    within a tenth.
    """
    run = f"short rtt=50ms,sender-qdisc={queue} #1"
    done = ccmix(
        "run",
        REPOSITORY / "configs" / "sender-queue.ini",
        "--lab",
        "--run",
        run,
        "-o",
        tmp_path / "cell",
    )
    assert done.returncode == 0, done.stderr
    [row] = csv.DictReader(
        ccmix("report", tmp_path / "cell", "--format", "csv").stdout.splitlines()
    )
    archived = measured(queue)[1000, 50]
    assert float(row["goodput_mean_bps"]) == pytest.approx(
        float(archived["goodput_mean_bps"]), rel=0.1
    )
