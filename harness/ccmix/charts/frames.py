"""Makes tables of finished runs for charts, with the swept settings of the path as numbers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import polars as pl

from ccmix.analysis.counting import marked, studied_groups
from ccmix.analysis.results import Result
from ccmix.charts.encodings import Part, names_in_order, quantity
from ccmix.model import Topology
from ccmix.units import RATE_BPS, SIZE_BYTES, TIME_S

LOG_FROM = 20.0  # largest over smallest value
TITLES = {
    "delay": "delay in each direction",
    "netem-lat": "delay in each direction",
    "netem-loss": "loss",
    "rate": "bottleneck rate",
    "streams": "flows",
    "mtu": "MTU",
    "pacing": "pacing of a flow",
}
_BARE = {
    "netem-lat": "ms",
    "netem-loss": "%",
    "mtu": "B",
}  # the units of values that are written without one
_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z%]*)", re.ASCII)
_SHOWN = {
    "time": (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)),
    "rate": (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)),
    "size": (("MB", 1e6), ("kB", 1e3), ("B", 1.0)),
}
Spacing = Literal["linear", "log", "even"]
AXIS = {"format": ".6~g", "labelOverlap": "greedy", "labelFlush": False, "grid": False}


@dataclass(frozen=True)
class SweptAxis:
    """Describes a swept key of the campaign (such as rate) whose values are all numbers of the same
    dimension, and so can be an axis.

    `values` are the numbers on the axis, in the unit of `title`, by the text in the INI file, in
    ascending order: {'10mbit': 10.0, '1gbit': 1000.0}. Spacing "even" gives the same room to each
    value, for values that span decades from 0 on.
    """

    key: str
    title: str
    values: dict[str, float]
    spacing: Spacing

    def channel(self) -> Part:
        """Returns the Vega-Lite channel of the x axis, with a tick at each value. The numbers are
        in the column `setting` of the rows that are drawn.
        """
        numbers = list(self.values.values())
        axis: Part = AXIS | {"values": numbers}
        if self.spacing == "even":
            return evenly_spaced_axis(self.title) | {"axis": axis | {"labelAngle": 0}}
        domain = [numbers[0], numbers[-1]]
        return quantity(
            "setting", self.title, axis, type=self.spacing, domain=domain, nice=False, zero=False
        )

    @property
    def numbers(self) -> pl.Expr:
        """Returns an expression for the numbers on the axis, in the table of Family.groups."""
        return pl.col(SETTING + self.key).replace_strict(self.values, return_dtype=pl.Float64)

    @property
    def labels_of_runs(self) -> pl.Expr:
        """Returns an expression for the labels of the values, in the table of Family.groups."""
        labels = {text: self.label(text) for text in self.values}
        return pl.col(SETTING + self.key).replace_strict(labels)

    def label(self, text: str) -> str:
        """Returns the label of a value on an axis of names: '10' for the text '10mbit' in the INI
        file. The unit is left out, because the axis has it in its title.
        """
        return f"{self.values[text]:.6g}"

    @property
    def labels(self) -> list[str]:
        """Returns the labels of all values, in ascending order."""
        return [self.label(text) for text in self.values]


def evenly_spaced_axis(title: str) -> Part:
    """Returns the channel of an x axis that gives each number in the column `setting` the same
    room, in ascending order.
    """
    return {"field": "setting", "type": "ordinal", "title": title, "axis": AXIS | {"labelAngle": 0}}


def swept_axis(key: str, texts: Iterable[str]) -> SweptAxis | None:
    """Returns an axis for a key that the campaign sweeps (varies) over these values (texts of the
    INI file). None if they can't be an axis: they are not two or more different numbers of the same
    dimension, such as rates.
    """
    number_and_dimension = {text: _read_number(key, text) for text in dict.fromkeys(texts)}
    known = {text: value for text, value in number_and_dimension.items() if value is not None}
    dimensions = {dimension for _, dimension in known.values()}
    if (
        len(known) < len(number_and_dimension)
        or len(dimensions) != 1
        or len({value for value, _ in known.values()}) < 2
    ):
        return None
    largest = max(value for value, _ in known.values())
    unit, unit_size = _unit_for(dimensions.pop(), largest)
    title = TITLES.get(key, key) + (f" ({unit})" if unit else "")
    values = {text: float(f"{value / unit_size:.10g}") for text, (value, _) in known.items()}
    ascending = dict(sorted(values.items(), key=lambda pair: pair[1]))
    return SweptAxis(key, title, ascending, _axis_spacing(list(ascending.values())))


def _read_number(key: str, text: str) -> tuple[float, str] | None:
    """Reads the value of a key as a number. Returns the number in SI units and its dimension: (1e7,
    'rate') for '10mbit'. Other units, such as '%', are their own dimension. None if the text is not
    a number with a known unit.
    """
    match = _NUMBER.fullmatch(text.strip().lower())
    if not match:
        return None
    number, unit = float(match[1]), match[2] or _BARE.get(key, "").lower()
    for dimension, units in (("rate", RATE_BPS), ("time", TIME_S), ("size", SIZE_BYTES)):
        if unit in units:
            return number * units[unit], dimension
    if unit in {"", "%", "bdp", "p"}:
        return number, unit
    return None


def _unit_for(dimension: str, largest: float) -> tuple[str, float]:
    """Returns the unit for the labels of an axis, and its size in SI units: ('Mbit/s', 1e6).
    `largest` is the largest number on the axis in SI units.
    """
    if dimension in _SHOWN:
        return next(
            (unit for unit in _SHOWN[dimension] if largest >= unit[1]), _SHOWN[dimension][-1]
        )
    return {"bdp": "BDP", "p": "packets"}.get(dimension, dimension), 1.0


def _axis_spacing(ascending: list[float]) -> Spacing:
    """Returns how the values of an axis are spaced: 'linear'; or, if they span decades, 'log', or
    'even' if the first value is 0, which has no place on a logarithmic axis.
    """
    least = next(value for value in ascending if value > 0)
    if ascending[-1] / least < LOG_FROM:
        return "linear"
    return "log" if ascending[0] > 0 else "even"


BASELINE = "cubic"
NUMBERS = ("goodput_bps", "retransmission_rate", "share", "fair_share")
SETTING = "swept "  # before the swept keys that are columns
COLUMNS: dict[str, type[pl.DataType]] = {
    "entry": pl.String,
    "dst": pl.String,
    "condition": pl.String,
    "iteration": pl.Int64,
    "group": pl.String,
    "cca": pl.String,
    "streams": pl.Int64,
    "mix": pl.String,
    "flows": pl.Int64,
    "fairness": pl.Float64,
    "utilisation": pl.Float64,
    **dict.fromkeys(NUMBERS, pl.Float64),
}


@dataclass(frozen=True)
class Family:
    """Holds the runs of entries (tests of the campaign) on one topology, or between hosts, that
    sweep the same keys, so that one chart can show them.

    A case is drawn separately: an entry, its destination if there are several, and the values of
    keys that aren't numbers.
    """

    results: tuple[Result, ...]

    @cached_property
    def sweeps(self) -> list[SweptAxis]:
        """Returns an axis for each swept key whose values are numbers. The axis with the most
        values comes first.
        """
        axes = [
            swept_axis(key, (result.run.condition[key] for result in self.results))
            for key in self.keys
        ]
        return sorted(filter(None, axes), key=lambda sweep: -len(sweep.values))

    @property
    def keys(self) -> list[str]:
        """Returns the keys that the runs sweep (vary), in the order of the INI file."""
        return list(self.results[0].run.condition)

    @cached_property
    def groups(self) -> pl.DataFrame:
        """Returns the table from which most charts are made, with a row for each run and group of
        flows: COLUMNS, `case`, and for each swept key a column "swept KEY" with the value as
        written in the INI file.

        case: the entry, its destination if there are several, and its swept values that are not
            numbers
        of the group: streams (number of its flows), goodput_bps, retransmission_rate, share (of the
        run's goodput), fair_share
        of the run: flows (number of all flows), fairness (of all flows), utilisation, mix (its
        CCAs, 'cubic + bbr')

        Groups of cross traffic have rows, too, but don't count in the run's flows and mix. If a run
        is not valid, the names of its groups have a mark (analysis/counting.py), and its fairness
        is null.
        """
        numeric_keys = {sweep.key for sweep in self.sweeps}
        several_destinations = len({result.run.dst for result in self.results}) > 1
        rows = []
        for result in self.results:
            run = result.run
            metrics = result.finished.metrics
            studied = studied_groups(result.finished)
            named_values = [
                f"{key}={value}" for key, value in run.condition.items() if key not in numeric_keys
            ]
            run_columns = {
                "entry": run.entry,
                "dst": run.dst,
                "condition": run.condition_name,
                "iteration": run.iteration,
                "case": " ".join(
                    [run.entry, *([run.dst] if several_destinations else []), *named_values]
                ),
                "mix": " + ".join(sorted({group.cca for group in studied}, key=cubic_first)),
                "flows": sum(group.streams for group in studied),
                "fairness": metrics.fairness if result.valid else None,
                "utilisation": metrics.utilisation,
                **{SETTING + key: value for key, value in run.condition.items()},
            }
            rows += [
                run_columns
                | {
                    "group": marked(group.group, result.finished),
                    "cca": group.cca,
                    "streams": group.streams,
                }
                | {name: getattr(group, name) for name in NUMBERS}
                for group in metrics.groups
            ]
        settings: dict[str, type[pl.DataType]] = {SETTING + key: pl.String for key in self.keys}
        return pl.DataFrame(rows, schema={"case": pl.String} | COLUMNS | settings)


def entry_names(results: Sequence[Result]) -> str:
    """Returns the names of the runs' entries, joined by commas, for the name of a chart."""
    return ",".join(dict.fromkeys(result.run.entry for result in results))


def families(results: Sequence[Result]) -> list[Family]:
    """Groups the runs into families, in the order of the plan. Runs of the same topology (or
    between hosts) that sweep the same keys are a family.
    """
    by_path_and_keys: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        path = result.run.path.name if isinstance(result.run.path, Topology) else ""
        by_path_and_keys.setdefault((path, *sorted(result.run.condition)), []).append(result)
    return [Family(tuple(runs)) for runs in by_path_and_keys.values()]


def cubic_first(cca: str) -> tuple[bool, str]:
    """Returns a key by which CCAs are sorted: CUBIC first, then by name."""
    return cca != "cubic", cca


def panels(groups: pl.DataFrame) -> pl.DataFrame:
    """Adds the column `panel` to the table of Family.groups. A case (an entry with its swept values
    that are not numbers) has a panel of its own. But if several cases have only one CCA each, and
    these CCAs differ, the cases share a panel, so that their CCAs can be compared.
    """
    cases = groups.group_by("case", maintain_order=True).agg(
        pl.col("cca").unique(),
        one_mix=pl.col("mix").n_unique() == 1,
        one_cca=pl.col("cca").n_unique() == 1,
    )
    single_cca_cases = cases.filter("one_cca", "one_mix")
    ccas = single_cca_cases["cca"].explode().to_list()
    cases_of_shared_panel = (
        single_cca_cases["case"].to_list() if len(set(ccas)) == len(ccas) > 1 else []
    )
    title = pl.lit("each alone: " + ", ".join(cases_of_shared_panel))
    return groups.with_columns(
        panel=pl.when(pl.col("case").is_in(cases_of_shared_panel)).then(title).otherwise("case")
    )


def gain_tables(runs: pl.DataFrame) -> dict[tuple[str, str], pl.DataFrame]:
    """Returns the goodput gains of each CCA over a baseline (CUBIC, or the first CCA if CUBIC is
    missing): for each pair of a CCA and the baseline a table with panel, x, y, value (1.0 is 100%).

    The gains are calculated for cases in which each CCA is alone, if these have different CCAs, and
    for cases in which several CCAs compete. In the second kind, goodputs per flow are compared.

    runs: the table Family.groups with three more columns: x and y (the labels of the settings), and
        rest (text of further settings)
    """
    tables_by_pair: dict[tuple[str, str], list[pl.DataFrame]] = {}
    cell_columns = ["x", "y", "rest"]
    single_cca_runs = runs.filter(pl.col("mix") == pl.col("cca"))
    if (
        single_cca_runs.select("case", "cca").unique().height
        == single_cca_runs["cca"].n_unique()
        > 1
    ):
        means = single_cca_runs.group_by("cca", *cell_columns, maintain_order=True).agg(
            pl.col("goodput_bps").mean()
        )
        for pair, frame in _gains_over_baseline(means, cell_columns):
            tables_by_pair.setdefault(pair, []).append(
                frame.with_columns(panel=pl.concat_str(pl.lit("each alone"), "rest"))
            )
    per_flow = pl.col("goodput_bps").sum() / pl.col("streams").sum()
    for (case,), mixed in runs.filter(pl.col("mix") != pl.col("cca")).group_by(
        "case", maintain_order=True
    ):
        means = mixed.group_by("cca", *cell_columns, maintain_order=True).agg(goodput_bps=per_flow)
        for pair, frame in _gains_over_baseline(means, cell_columns):
            title = pl.concat_str(pl.lit(f"{case}, per flow"), "rest")
            tables_by_pair.setdefault(pair, []).append(frame.with_columns(panel=title))
    return {pair: pl.concat(frames) for pair, frames in tables_by_pair.items()}


def _gains_over_baseline(
    means: pl.DataFrame, where: list[str]
) -> Iterator[tuple[tuple[str, str], pl.DataFrame]]:
    """Yields for each CCA other than the baseline: the pair (CCA, baseline), and a table of the
    CCA's goodput gains over the baseline. The baseline is CUBIC, or the first CCA if CUBIC is
    missing. The table has the columns `where`, which identify a cell, and value (1.0 is 100%).

    means: a row per CCA and cell: cca, the columns `where`, goodput_bps
    """
    ccas = names_in_order(means, "cca")
    baseline = BASELINE if BASELINE in ccas else ccas[0]
    of_baseline = means.filter(pl.col("cca") == baseline).select(*where, base="goodput_bps")
    for cca in ccas:
        if cca != baseline:
            compared = means.filter(pl.col("cca") == cca).join(
                of_baseline, on=where, maintain_order="left"
            )
            gain = (pl.col("goodput_bps") - pl.col("base")) / pl.col("base")
            yield (cca, baseline), compared.filter(pl.col("base") > 0).select(*where, value=gain)


def further_settings(keys: list[str]) -> pl.Expr:
    """Returns a Polars expression for a text such as ' loss=0.1%', which has the values of these
    swept keys; '' if there are no keys.
    """
    if not keys:
        return pl.lit("")
    return pl.concat_str([pl.format(" {}={}", pl.lit(key), SETTING + key) for key in keys])
