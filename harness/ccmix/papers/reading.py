"""Reads the experiments and the numbers that were published about them: from configs/papers in a
clone, and from the package in a wheel.

`papers.toml` lists the papers. An experiment has an INI file, a TOML file with its statements,
comparisons and figures, and, if numbers were published, a CSV file with a row for each.
"""

import csv
import functools
import itertools
import tomllib
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ccmix.charts.frames import SweptAxis
from ccmix.config.problems import nearest
from ccmix.papers.experiment import (
    Bound,
    Experiment,
    Figure,
    Maps,
    MeanOf,
    Number,
    Of,
    OverBuffer,
    Paper,
    PaperTable,
    Plots,
    PublishedComparison,
    Quotient,
    Statement,
    Tried,
)

FOLDER = Path(__file__).with_name("experiments")
PUBLISHED_COLUMNS = ("series", "cca", "quantity", "value", "origin")
"""In addition to these, a table has the keys of the INI file that identify a row."""
PUBLISHED_AS = {"utilisation": "goodput_bps"}  # by the quantity that is compared
SIDES = ("over", "under")  # of a ratio
Table = dict[str, object]
_T = TypeVar("_T")


class PaperError(ValueError):
    """Reports a mistake in a TOML file, with the file and the place in it."""


@dataclass(frozen=True)
class PublishedNumber:
    """Holds one published number, in SI units; shares are fractions."""

    series: str
    cca: str
    quantity: str
    value: float
    origin: str
    at: Mapping[str, str]


def ini_of(name: str) -> Path:
    """Returns the INI file of an experiment."""
    return FOLDER / f"{name}.ini"


def published_of(name: str) -> Path:
    """Returns the table of the published numbers of an experiment; not every experiment has one."""
    return FOLDER / "published" / f"{name}.csv"


def read_published(name: str) -> list[PublishedNumber]:
    """Returns the rows of an experiment's table; none if it has no table."""
    file = published_of(name)
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [_published_number(row) for row in csv.DictReader(lines)]


def _published_number(row: dict[str, str]) -> PublishedNumber:
    at = {key: value for key, value in row.items() if key not in PUBLISHED_COLUMNS and value}
    return PublishedNumber(
        row["series"], row["cca"], row["quantity"], float(row["value"]), row["origin"], at
    )


def of_series(
    numbers: list[PublishedNumber], comparison: PublishedComparison
) -> list[PublishedNumber]:
    """Returns the published numbers of a comparison, in the order of the file."""
    quantity = PUBLISHED_AS.get(comparison.quantity, comparison.quantity)
    return [
        number
        for number in numbers
        if (number.series, number.quantity) == (comparison.series, quantity)
        and (not comparison.ccas or number.cca in comparison.ccas)
    ]


def read_experiments(folder: Path) -> tuple[Experiment, ...]:
    """Returns the experiments of all papers, in the order of papers.toml. Raises
    PaperError, OSError.
    """
    experiments: list[Experiment] = []
    for place, author, table in _named(_toml(folder / "papers.toml"), "papers.toml: "):
        names = _read(list[str], table.pop("experiments", []), f"{place}.experiments")
        paper = _read(Paper, table | {"author": author}, place)
        experiments += [read_experiment(folder / f"{name}.toml", paper) for name in names]
    return tuple(experiments)


def read_experiment(file: Path, paper: Paper) -> Experiment:
    """Returns the experiment of a TOML file. Raises PaperError, OSError."""
    table, place = _toml(file), file.name
    shared = _Shared(
        str(table.pop("entry", "")),
        {
            name: _read(Tried, each, at)
            for at, name, each in _named(table.pop("tried", {}), f"{place}: tried.")
        },
        {
            key: _read(SweptAxis, {"key": key, **each}, at)
            for at, key, each in _named(table.pop("axes", {}), f"{place}: axes.")
        },
    )
    parts = {
        key: [read(each, shared, at) for at, each in _tables(table, key, f"{place}: ")]
        for key, read in (
            ("statements", _statement),
            ("comparisons", _comparison),
            ("figures", _figure),
        )
    }
    return _read(Experiment, {"name": file.stem, "paper": paper, **table, **parts}, place)


@dataclass(frozen=True)
class _Shared:
    """Holds the shared data of a file's tables: the default entry, the settings that were tried,
    and axes.
    """

    entry: str
    tried: Mapping[str, Tried]
    axes: Mapping[str, SweptAxis]

    def with_entry(self, table: Table) -> Table:
        return {"entry": self.entry, **table} if self.entry else table

    def with_tried(self, table: Table, place: str) -> Table:
        names = _words(table, "tried", place)
        return table | {"tried": [_known(self.tried, name, f"{place}.tried") for name in names]}


def _statement(table: Table, shared: _Shared, place: str) -> Statement:
    bounds = [
        _bound(each, shared, at)
        for at, every in _tables(table, "bounds", f"{place}.")
        for each in combinations(every)
    ]
    if not bounds:
        raise PaperError(f"{place}: 'bounds' is missing")
    return _read(Statement, shared.with_tried(table, place) | {"bounds": bounds}, place)


def _comparison(table: Table, shared: _Shared, place: str) -> PublishedComparison:
    return _read(PublishedComparison, shared.with_entry(shared.with_tried(table, place)), place)


def combinations(table: Table) -> Iterator[Table]:
    """Yields the table with each combination of the words in its lists; the last list varies
    fastest.
    """
    for values in itertools.product(*map(_choices, table.values())):
        yield dict(zip(table, values, strict=True))


def _choices(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(combinations(value))
    return (
        value
        if isinstance(value, list) and all(isinstance(each, str) for each in value)
        else [value]
    )


def _bound(table: Table, shared: _Shared, place: str) -> Bound:
    kind = _known(KINDS, table.pop("kind", "number"), f"{place}.kind")
    limits = {key: table.pop(key) for key in ("least", "most") if key in table}
    if not limits:
        raise PaperError(f"{place}: give 'least', 'most' or both")
    return _read(Bound, limits | {"number": kind(shared.with_entry(table), place)}, place)


def _number(table: Table, place: str) -> Of:
    return _read(Of, table, place)


def _ratio(table: Table, place: str) -> Quotient:
    return Quotient(*(_number(side, place) for side in _sides(table, place)))


def _ratio_of_means(table: Table, place: str) -> Quotient:
    return Quotient(*(_mean(side, place) for side in _sides(table, place)))


KINDS: dict[str, Callable[[Table, str], Number]] = {
    "number": _number,
    "ratio": _ratio,
    "ratio of means": _ratio_of_means,
}
"""The kinds of bounds. `over` and `under` have the keys that differ between the sides of a ratio,
`mean` has the cells of a mean.
"""


def _sides(table: Table, place: str) -> Iterator[Table]:
    if missing := [side for side in SIDES if side not in table]:
        raise PaperError(f"{place}: '{missing[0]}' is missing")
    common = {key: value for key, value in table.items() if key not in SIDES}
    for side in SIDES:
        yield _joined(_table(table, side, place), common, place)


def _mean(table: Table, place: str) -> MeanOf:
    common = {key: value for key, value in table.items() if key != "mean"}
    cells = [cell for _, each in _tables(table, "mean", f"{place}.") for cell in combinations(each)]
    return MeanOf(tuple(_number(_joined(cell, common, place), place) for cell in cells))


def _joined(part: Table, common: Table, place: str) -> Table:
    at: Table = {"at": _table(part, "at", place) | _table(common, "at", place)}
    return common | part | at


FIGURES: dict[str, type[Figure]] = {
    "plots": Plots,
    "maps": Maps,
    "over buffer": OverBuffer,
    "table": PaperTable,
}
PARTS: dict[type[Figure], str] = {
    Plots: "panels",
    Maps: "rows",
    PaperTable: "lines",
}  # that have an entry each


def _figure(table: Table, shared: _Shared, place: str) -> Figure:
    """Returns a figure; its axes name the axes of the file by their keys."""
    kind = _known(FIGURES, table.pop("kind", "plots"), f"{place}.kind")
    for axis in ("x", "y"):
        if axis in table:
            table[axis] = shared.axes.get(str(table[axis]), table[axis])
    if part := PARTS.get(kind):
        table[part] = [shared.with_entry(each) for _, each in _tables(table, part, f"{place}.")]
    return _read(kind, table, place)


def _toml(file: Path) -> Table:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise PaperError(f"{file.name}: {error}") from error


def _table(table: Table, key: str, place: str) -> Table:
    return _read(Table, table.get(key, {}), f"{place}.{key}")


def _words(table: Table, key: str, place: str) -> list[str]:
    return _read(list[str], table.get(key, []), f"{place}.{key}")


def _tables(table: Table, key: str, place: str) -> list[tuple[str, Table]]:
    """Returns the TOML tables in the list `key`, each with its place for error messages: `place`,
    which ends with a dot, the key, and the table's name or number, such as 'fig1.rows.2'.
    """
    tables = _read(list[Table], table.get(key, []), f"{place}{key}")
    return [
        (f"{place}{key}.{each.get('name', number)}", each)
        for number, each in enumerate(tables, start=1)
    ]


def _named(table: object, prefix: str) -> list[tuple[str, str, Table]]:
    """Returns the tables of a table by their names, each with its place."""
    tables = _read(dict[str, Table], table, prefix.rstrip(":. "))
    return [(f"{prefix}{name}", name, each) for name, each in tables.items()]


def _known(known: Mapping[str, _T], name: object, place: str) -> _T:
    if str(name) not in known:
        raise PaperError(f"{place}: '{name}' is not known{nearest(str(name), known)}")
    return known[str(name)]


@functools.cache
def _adapter(kind: Hashable) -> TypeAdapter[tuple[object]]:
    """Returns the adapter of a tuple of the type, since a bare dataclass takes no configuration."""
    return TypeAdapter(tuple[kind], config=ConfigDict(extra="forbid"))  # type: ignore[valid-type,arg-type]


def _read(kind: type[_T], value: object, place: str) -> _T:
    """Returns a value of this type. Raises PaperError, which names the first wrong key."""
    try:
        return cast(_T, _adapter(cast(Hashable, kind)).validate_python((value,))[0])
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        *outer, key = (
            place,
            *(each + 1 if isinstance(each, int) else each for each in first["loc"][1:]),
        )
        where = ".".join(map(str, outer))
        if first["type"] == "missing":
            raise PaperError(f"{where}: '{key}' is missing") from error
        if first["type"] == "unexpected_keyword_argument":
            raise PaperError(f"{where}: '{key}' is not a key of this table") from error
        place = f"{where}.{key}" if where else str(key)
        raise PaperError(f"{place}: {first['msg']}, not {first['input']!r:.60}") from error


EXPERIMENTS = read_experiments(FOLDER)


def by_name() -> dict[str, Experiment]:
    """Returns the experiments by their names, in the order of the list."""
    return {experiment.name: experiment for experiment in EXPERIMENTS}
