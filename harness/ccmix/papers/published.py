"""Reads what was published: tables of numbers, one row each, with their origin."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass

from ccmix.papers.experiment import BesidePublished
from ccmix.papers.experiments_folder import published_of

COLUMNS = ("series", "cca", "quantity", "value", "origin")
"""Beside these, a table has the keys of the INI file by which a row is found again."""
PUBLISHED_AS = {"utilisation": "goodput_bps"}  # by the quantity that is compared


@dataclass(frozen=True)
class PublishedNumber:
    """Holds one published number, in SI units; shares are fractions."""

    series: str
    cca: str
    quantity: str
    value: float
    origin: str
    at: Mapping[str, str]


def read_published(name: str) -> list[PublishedNumber]:
    """Returns the rows of an experiment's table; none where it has no table."""
    file = published_of(name)
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [_number(row) for row in csv.DictReader(lines)]


def of_series(numbers: list[PublishedNumber], comparison: BesidePublished) -> list[PublishedNumber]:
    """Returns the numbers that a comparison is with, in the order of the file."""
    quantity = PUBLISHED_AS.get(comparison.quantity, comparison.quantity)
    return [
        number
        for number in numbers
        if (number.series, number.quantity) == (comparison.series, quantity)
        and (not comparison.ccas or number.cca in comparison.ccas)
    ]


def _number(row: dict[str, str]) -> PublishedNumber:
    at = {key: value for key, value in row.items() if key not in COLUMNS and value}
    return PublishedNumber(row["series"], row["cca"], row["quantity"], float(row["value"]), row["origin"], at)
