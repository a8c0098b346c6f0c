#!/usr/bin/env python3
"""Score a campaign of configs/datta-fund.ini against the testbed's cells, and print the tables of
the score.

    bench/datta_fund.py REPORT.csv [PUBLISHED.csv]

REPORT.csv is what `ccmix report OUTDIR --format csv` prints. PUBLISHED.csv has the goodputs of the
testbed, in Mbit/s, a line per cell and a column per CCA and kernel; unless given, it is
archive/datta-fund-2023.csv. A cell is a rate and an RTT. A cell agrees if both utilisations, that
is goodput divided by the rate of the bottleneck, are at most 0.05 apart. Ratios are lab over
published, and their means are geometric ones.
"""

import argparse
import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

PUBLISHED = Path(__file__).resolve().parents[1] / "archive" / "datta-fund-2023.csv"
APART = 0.05  # by which utilisations that agree may differ
RATES_BPS = {"mbit": 1e6, "gbit": 1e9}


@dataclass(frozen=True)
class Cell:
    rate_bps: float
    rtt_s: float


@dataclass(frozen=True)
class Published:
    column: str
    """The CCA and the testbed's kernel, such as cubic_5.13."""
    goodput_bps: dict[Cell, float]

    @property
    def cca(self) -> str:
        return self.column.partition("_")[0]

    @property
    def kernel(self) -> str:
        return self.column.partition("_")[2]


Lab = dict[tuple[str, str], dict[Cell, float]]
"""Goodput in bit/s by the path's variant and CCA, and by cell."""


def rate_bps(text: str) -> float:
    number = text.rstrip("bgimt")
    return float(number) * RATES_BPS[text.removeprefix(number)]


def read_published(file: Path) -> list[Published]:
    """Returns a column per CCA and kernel."""
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    cells = [Cell(float(row["rate_mbps"]) * 1e6, float(row["rtt_ms"]) / 1e3) for row in rows]
    return [
        Published(
            column, {cell: float(row[column]) * 1e6 for cell, row in zip(cells, rows, strict=True)}
        )
        for column in rows[0]
        if column.startswith(("cubic_", "bbr_"))
    ]


def read_report(file: Path) -> Lab:
    """Returns the campaign's mean goodputs. Raises ValueError where runs of a cell were not
    valid."""
    lab: Lab = {}
    with file.open() as lines:
        for row in csv.DictReader(lines):
            rtt_s = float(row["condition.ack-delay"].removesuffix("ms")) / 1e3
            cell = Cell(rate_bps(row["condition.rate"]), rtt_s)
            if row["invalid"] != "0":
                raise ValueError(
                    f"{file}: {row['invalid']} runs of {row['cca']} at {cell} are not valid"
                )
            variant = row["condition.sender-qdisc"] or row["entry"]
            lab.setdefault((variant, row["cca"]), {})[cell] = float(row["goodput_mean_bps"])
    return lab


def agreeing(lab: dict[Cell, float], published: dict[Cell, float], cells: Iterable[Cell]) -> int:
    return sum(abs(lab[cell] - published[cell]) <= APART * cell.rate_bps for cell in cells)


def geometric_mean(
    lab: dict[Cell, float], published: dict[Cell, float], cells: Sequence[Cell]
) -> float:
    return math.exp(sum(math.log(lab[cell] / published[cell]) for cell in cells) / len(cells))


def scores(columns: Sequence[Published], lab: Lab) -> Iterable[str]:
    """Returns the lines of the table: how near each variant comes to each CCA and kernel."""
    yield (
        "| CCA | testbed's kernel | lab | cells | agree | mean ratio | least ratio | largest "
        "ratio |"
    )
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    for column in columns:
        for (variant, cca), goodput_bps in lab.items():
            if cca == column.cca:
                cells = list(column.goodput_bps)
                ratios = [goodput_bps[cell] / column.goodput_bps[cell] for cell in cells]
                yield (
                    f"| {cca} | {column.kernel} | {variant} | {len(cells)} "
                    f"| {agreeing(goodput_bps, column.goodput_bps, cells)} "
                    f"| {geometric_mean(goodput_bps, column.goodput_bps, cells):.2f} "
                    f"| {min(ratios):.2f} | {max(ratios):.2f} |"
                )


def ratios_by_rate(columns: Sequence[Published], lab: Lab) -> Iterable[str]:
    """Returns the lines of the table of CUBIC: the mean ratio over the RTTs of each rate."""
    heads = [
        (f"{variant}, {column.kernel}", goodput_bps, column.goodput_bps)
        for (variant, cca), goodput_bps in lab.items()
        for column in columns
        if cca == column.cca == "cubic"
    ]
    yield "| rate |" + "".join(f" {name} |" for name, *_ in heads)
    yield "|--:|" + "--:|" * len(heads)
    for rate in sorted({cell.rate_bps for cell in columns[0].goodput_bps}):
        cells = [cell for cell in columns[0].goodput_bps if cell.rate_bps == rate]
        means = [geometric_mean(of_lab, published, cells) for _, of_lab, published in heads]
        yield f"| {rate / 1e6:g} Mbit/s |" + "".join(f" {mean:.2f} |" for mean in means)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("published", type=Path, nargs="?", default=PUBLISHED)
    options = parser.parse_args()
    columns, lab = read_published(options.published), read_report(options.report)
    print("\n".join((*scores(columns, lab), "", *ratios_by_rate(columns, lab))))


if __name__ == "__main__":
    main()
