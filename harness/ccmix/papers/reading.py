"""Reads the experiments that repeat papers, and the papers' published numbers, from TOML and CSV.

They are in configs/papers in a clone, and in the package in a wheel.

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
    Number,
    OverBuffer,
    Paper,
    PaperTable,
    Plots,
    PublishedComparison,
    Quotient,
    RunNumber,
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
    """Reports a mistake in a TOML file of configs/papers, with the file and the key."""


@dataclass(frozen=True)
class PublishedNumber:
    """Holds a number that a paper has published: a row of an experiment's CSV file, in SI units.
    Shares are fractions.

    `series` names the rows of a figure or table, `origin` says where in the paper the number is,
    and `at` has the values of swept keys, such as {'rate': '1gbit'}.
    """

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
    """Returns the path of the CSV file with an experiment's published numbers. There is no such
    file if nothing was published.
    """
    return FOLDER / "published" / f"{name}.csv"


def read_published(name: str) -> list[PublishedNumber]:
    """Returns the numbers that the paper has published for an experiment, in the order of its CSV
    file; empty if it has no file.
    """
    file = published_of(name)
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [_published_number(row) for row in csv.DictReader(lines)]


def _published_number(row: dict[str, str]) -> PublishedNumber:
    """Reads a row of the CSV file of published numbers. Columns that are not in PUBLISHED_COLUMNS
    are swept keys of the INI file; a key with an empty cell does not apply to the row.
    """
    at = {key: value for key, value in row.items() if key not in PUBLISHED_COLUMNS and value}
    return PublishedNumber(
        row["series"], row["cca"], row["quantity"], float(row["value"]), row["origin"], at
    )


def of_series(
    numbers: list[PublishedNumber], comparison: PublishedComparison
) -> list[PublishedNumber]:
    """Returns the published numbers that a comparison uses, in the order of the file: those with
    the comparison's series, quantity and CCAs. If the comparison is of utilisations, these are
    goodputs, because papers publish goodputs instead.
    """
    quantity = PUBLISHED_AS.get(comparison.quantity, comparison.quantity)
    return [
        number
        for number in numbers
        if (number.series, number.quantity) == (comparison.series, quantity)
        and (not comparison.ccas or number.cca in comparison.ccas)
    ]


def read_experiments(folder: Path) -> tuple[Experiment, ...]:
    """Reads papers.toml in the folder, and the TOML file of each experiment that it lists. Returns
    the experiments in the order of the list. Raises PaperError or OSError.
    """
    experiments: list[Experiment] = []
    # `place` names a table in error messages, here and in the functions below
    for place, author, table in _named(_toml(folder / "papers.toml"), "papers.toml: "):
        names = _read(list[str], table.pop("experiments", []), f"{place}.experiments")
        paper = _read(Paper, table | {"author": author}, place)
        experiments += [read_experiment(folder / f"{name}.toml", paper) for name in names]
    return tuple(experiments)


def read_experiment(file: Path, paper: Paper) -> Experiment:
    """Reads the TOML file of an experiment. All of its statements, comparisons and figures may use
    the tables [tried.NAME] and [axes.KEY] and the key `entry`.

    Raises OSError, or PaperError with a message that begins with the name of the file and of the
    table.
    """
    table, place = _toml(file), file.name
    tried = {
        name: _read(Tried, tried_table, tried_place)
        for tried_place, name, tried_table in _named(table.pop("tried", {}), f"{place}: tried.")
    }
    axes = {
        key: _read(SweptAxis, {"key": key, **axis_table}, axis_place)
        for axis_place, key, axis_table in _named(table.pop("axes", {}), f"{place}: axes.")
    }
    shared = _Shared(str(table.pop("entry", "")), tried, axes)
    readers = {"statements": _statement, "comparisons": _comparison, "figures": _figure}
    parts = {
        key: [
            read(part_table, shared, part_place)
            for part_place, part_table in _tables(table, key, f"{place}: ")
        ]
        for key, read in readers.items()
    }
    return _read(Experiment, {"name": file.stem, "paper": paper, **table, **parts}, place)


@dataclass(frozen=True)
class _Shared:
    """Holds what all tables of an experiment's TOML file may use: the entry of tables that name
    none ('' if there is no such default), and by name the tried settings and the axes.
    """

    entry: str
    tried: Mapping[str, Tried]
    axes: Mapping[str, SweptAxis]

    def with_entry(self, table: Table) -> Table:
        """Returns the table, with the file's default entry if it names no entry itself."""
        return {"entry": self.entry, **table} if self.entry else table

    def with_tried(self, table: Table, place: str) -> Table:
        """Returns the table with the names in its key `tried` replaced by the settings that the
        file defines as [tried.NAME]. Raises PaperError if a name is not defined; `place` is the
        table's name in the message.
        """
        names = _words(table, "tried", place)
        return table | {"tried": [_known(self.tried, name, f"{place}.tried") for name in names]}


def _statement(table: Table, shared: _Shared, place: str) -> Statement:
    """Reads a statement of a paper from its TOML table. `place` is the table's name in error
    messages, and `shared` has the definitions that all tables of the file may use.
    """
    bounds = [
        _bound(each, shared, at)
        for at, every in _tables(table, "bounds", f"{place}.")
        for each in combinations(every)
    ]
    if not bounds:
        raise PaperError(f"{place}: 'bounds' is missing")
    return _read(Statement, shared.with_tried(table, place) | {"bounds": bounds}, place)


def _comparison(table: Table, shared: _Shared, place: str) -> PublishedComparison:
    """Reads a comparison of the lab's runs with published numbers from its TOML table. `place` is
    the table's name in error messages, and `shared` has the definitions that all tables of the file
    may use.
    """
    return _read(PublishedComparison, shared.with_entry(shared.with_tried(table, place)), place)


def combinations(table: Table) -> Iterator[Table]:
    """Yields a copy of the table for each combination of the words in its lists, so that one TOML
    table can stand for many bounds. The last list varies fastest.

    {'cca': ['bbr', 'cubic'], 'least': 1} gives {'cca': 'bbr', 'least': 1}, {'cca': 'cubic', ...}.
    """
    for values in itertools.product(*map(_choices, table.values())):
        yield dict(zip(table, values, strict=True))


def _choices(value: object) -> list[object]:
    """Returns the values that one key of a table takes in combinations(): each word of a list of
    words, each combination of a table, or only the value itself.
    """
    if isinstance(value, dict):
        return list(combinations(value))
    return (
        value
        if isinstance(value, list) and all(isinstance(each, str) for each in value)
        else [value]
    )


def _bound(table: Table, shared: _Shared, place: str) -> Bound:
    """Reads a bound from a TOML table: a number of the runs, and its limits 'least' and 'most'.

    The table's key `kind` says whether the number was measured ("number", the default) or is a
    ratio ("ratio", "ratio of means"). The other keys describe the number. Raises PaperError if the
    table has neither 'least' nor 'most'.

    shared: has the entry that is used if the table names none
    place: the table's name in error messages
    """
    kind = _known(KINDS, table.pop("kind", "number"), f"{place}.kind")
    limits = {key: table.pop(key) for key in ("least", "most") if key in table}
    if not limits:
        raise PaperError(f"{place}: give 'least', 'most' or both")
    return _read(Bound, limits | {"number": kind(shared.with_entry(table), place)}, place)


def _number(table: Table, place: str) -> RunNumber:
    """Reads the number of a bound whose kind is 'number': a single number of the runs."""
    return _read(RunNumber, table, place)


def _ratio(table: Table, place: str) -> Quotient:
    """Reads the number of a bound that is a ratio of two numbers, or of two means.

    Each side has the keys of its own table, `over` or `under`, and all keys that are outside both.
    Each table in the list `mean` has the keys in which the numbers of a mean differ; without the
    list, a side is a single number. Raises PaperError if a side is missing.
    """
    if missing := [side for side in SIDES if side not in table]:
        raise PaperError(f"{place}: '{missing[0]}' is missing")
    common = {key: value for key, value in table.items() if key not in (*SIDES, "mean")}
    cells = [cell for _, each in _tables(table, "mean", f"{place}.") for cell in combinations(each)]
    sides = (_joined(_table(table, side, place), common, place) for side in SIDES)
    return Quotient(
        *(
            tuple(_number(_joined(cell, side, place), place) for cell in cells or [{}])
            for side in sides
        )
    )


KINDS: dict[str, Callable[[Table, str], Number]] = {
    "number": _number,
    "ratio": _ratio,
    "ratio of means": _ratio,
}
"""The kinds of bounds."""


def _joined(part: Table, common: Table, place: str) -> Table:
    """Returns a table with the keys of both tables; those of `part` win. Their tables `at` (values
    of swept keys) are joined in the same way, but there the values of `common` win.
    """
    at: Table = {"at": _table(part, "at", place) | _table(common, "at", place)}
    return common | part | at


FIGURES: dict[str, tuple[type[Figure], str]] = {
    "plots": (Plots, "panels"),
    "maps": (Maps, "rows"),
    "over buffer": (OverBuffer, ""),
    "table": (PaperTable, "lines"),
}
"""The kinds of figures, each with the key of its tables that have an entry."""


def _figure(table: Table, shared: _Shared, place: str) -> Figure:
    """Reads a figure of a paper from its TOML table. The keys `x` and `y` may name an axis that the
    file defines as [axes.KEY]. `place` is the table's name in error messages.
    """
    kind, part = _known(FIGURES, table.pop("kind", "plots"), f"{place}.kind")
    for axis in ("x", "y"):
        if axis in table:
            table[axis] = shared.axes.get(str(table[axis]), table[axis])
    if part:
        table[part] = [shared.with_entry(each) for _, each in _tables(table, part, f"{place}.")]
    return _read(kind, table, place)


def _toml(file: Path) -> Table:
    """Reads a TOML file. Raises PaperError if it is not valid TOML, and OSError."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise PaperError(f"{file.name}: {error}") from error


def _table(table: Table, key: str, place: str) -> Table:
    """Returns the TOML table at this key; empty if it is missing."""
    return _read(Table, table.get(key, {}), f"{place}.{key}")


def _words(table: Table, key: str, place: str) -> list[str]:
    """Returns the list of strings at this key; empty if it is missing."""
    return _read(list[str], table.get(key, []), f"{place}.{key}")


def _tables(table: Table, key: str, place: str) -> list[tuple[str, Table]]:
    """Returns the TOML tables of the array `key`, each with its name for error messages. The name
    is `place`, then the key, then the table's `name` or else its number: 'fig1.rows.2'.
    """
    tables = _read(list[Table], table.get(key, []), f"{place}{key}")
    return [
        (f"{place}{key}.{each.get('name', number)}", each)
        for number, each in enumerate(tables, start=1)
    ]


def _named(table: object, prefix: str) -> list[tuple[str, str, Table]]:
    """Returns the tables that a TOML table contains, such as [tried.a] and [tried.b] in `tried`.
    Each is a triple: its full name for error messages, which begins with `prefix`; its name, such
    as 'a'; and the table.
    """
    tables = _read(dict[str, Table], table, prefix.rstrip(":. "))
    return [(f"{prefix}{name}", name, each) for name, each in tables.items()]


def _known(values: Mapping[str, _T], name: object, place: str) -> _T:
    """Returns the value with this name. Raises PaperError if no value has this name, and suggests a
    similar one; `place` is the place of the name in the TOML file.
    """
    if str(name) not in values:
        raise PaperError(f"{place}: '{name}' is not known{nearest(str(name), values)}")
    return values[str(name)]


@functools.cache
def _adapter(kind: Hashable) -> TypeAdapter[tuple[object]]:
    """Returns pydantic's validator for a type, which refuses unknown keys. It validates a tuple
    that contains one value of the type, because pydantic accepts this setting for a tuple but not
    for a dataclass by itself.
    """
    return TypeAdapter(tuple[kind], config=ConfigDict(extra="forbid"))  # type: ignore[valid-type,arg-type]


def _read(kind: type[_T], value: object, place: str) -> _T:
    """Turns a value from TOML into this type, such as a dataclass. Raises PaperError, which names
    the first wrong key; `place` is the value's name in this message.
    """
    try:
        return cast(_T, _adapter(cast(Hashable, kind)).validate_python((value,))[0])
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        counted_from_1 = (each + 1 if isinstance(each, int) else each for each in first["loc"][1:])
        *outer, key = (place, *counted_from_1)
        where = ".".join(map(str, outer))
        if first["type"] == "missing":
            raise PaperError(f"{where}: '{key}' is missing") from error
        if first["type"] == "unexpected_keyword_argument":
            raise PaperError(f"{where}: '{key}' is not a key of this table") from error
        place = f"{where}.{key}" if where else str(key)
        raise PaperError(f"{place}: {first['msg']}, not {first['input']!r:.60}") from error


EXPERIMENTS = read_experiments(FOLDER)


def by_name() -> dict[str, Experiment]:
    """Returns all experiments by their names, in the order of papers.toml."""
    return {experiment.name: experiment for experiment in EXPERIMENTS}
