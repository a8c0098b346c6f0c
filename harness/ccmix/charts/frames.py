"""Makes tidy frames of finished runs, and groups entries whose runs can be drawn on the same axes into families."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from ccmix.analysis.conditions import studied_groups
from ccmix.analysis.limited import marked
from ccmix.analysis.results import Result
from ccmix.charts.sweep import SweptAxis, numbers
from ccmix.model import Topology

NUMBERS = ("goodput_bps", "retransmission_rate", "share", "fair_share")
SETTING = "swept "  # before the swept keys that are columns
COLUMNS: dict[str, type[pl.DataType]] = {
    "entry": pl.String, "dst": pl.String, "condition": pl.String, "iteration": pl.Int64, "group": pl.String,
    "cca": pl.String, "streams": pl.Int64, "mix": pl.String, "flows": pl.Int64, "fairness": pl.Float64,
    "utilisation": pl.Float64, **dict.fromkeys(NUMBERS, pl.Float64),
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """Holds the runs of entries on one topology, or between hosts, that sweep the same keys.

    A case is what is drawn apart from others: an entry, its destination where there are several, and the values of
    keys that aren't numbers.
    """

    results: tuple[Result, ...]

    @cached_property
    def sweeps(self) -> list[SweptAxis]:
        """Returns the swept numbers, that with the most values first."""
        axes = [numbers(key, (result.run.condition[key] for result in self.results)) for key in self.keys]
        return sorted(filter(None, axes), key=lambda sweep: -len(sweep.values))

    @property
    def keys(self) -> list[str]:
        return list(self.results[0].run.condition)

    @cached_property
    def groups(self) -> pl.DataFrame:
        """Returns a row per run and group: COLUMNS, `case`, and for each swept key "swept KEY", its value as written.

        goodput_bps, retransmission_rate, share (of the run's goodput), fair_share: of the group; fairness (of all
        flows) and utilisation: of the run; streams: flows of the group, flows: of the run; mix: 'cubic + bbr'. Cross
        traffic beside a test has rows, too, and is none of the run's flows and mix. Groups of a run that is not valid
        are marked (analysis/limited.py), and the run has no fairness.
        """
        swept = {sweep.key for sweep in self.sweeps}
        several = len({result.run.dst for result in self.results}) > 1
        rows = []
        for result in self.results:
            run, metrics, studied = result.run, result.finished.metrics, studied_groups(result.finished)
            phrases = [f"{key}={value}" for key, value in run.condition.items() if key not in swept]
            of_run = {
                "entry": run.entry, "dst": run.dst, "condition": run.condition_name, "iteration": run.iteration,
                "case": " ".join([run.entry, *([run.dst] if several else []), *phrases]),
                "mix": " + ".join(sorted({group.cca for group in studied}, key=cubic_first)),
                "flows": sum(group.streams for group in studied),
                "fairness": metrics.fairness if result.valid else None, "utilisation": metrics.utilisation,
                **{SETTING + key: value for key, value in run.condition.items()},
            }  # fmt: skip
            rows += [
                of_run
                | {"group": marked(group.group, result.finished), "cca": group.cca, "streams": group.streams}
                | {name: getattr(group, name) for name in NUMBERS}
                for group in metrics.groups
            ]
        settings: dict[str, type[pl.DataType]] = {SETTING + key: pl.String for key in self.keys}
        return pl.DataFrame(rows, schema={"case": pl.String} | COLUMNS | settings)


def families(results: Sequence[Result]) -> list[Family]:
    """Returns the families of the runs, in the order of the plan."""
    by_path_and_keys: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        path = result.run.path.name if isinstance(result.run.path, Topology) else ""
        by_path_and_keys.setdefault((path, *sorted(result.run.condition)), []).append(result)
    return [Family(tuple(runs)) for runs in by_path_and_keys.values()]


def cubic_first(cca: str) -> tuple[bool, str]:
    return cca != "cubic", cca


def panels(groups: pl.DataFrame) -> pl.DataFrame:
    """Returns the groups with `panel`: cases of one CCA each share a panel where their CCAs differ, others don't."""
    alone = groups.group_by("case", maintain_order=True).agg(
        pl.col("cca").unique(), one_mix=pl.col("mix").n_unique() == 1, one_cca=pl.col("cca").n_unique() == 1
    )
    single = alone.filter("one_cca", "one_mix")
    ccas = single["cca"].explode().to_list()
    together = single["case"].to_list() if len(set(ccas)) == len(ccas) > 1 else []
    title = pl.lit("each alone: " + ", ".join(together))
    return groups.with_columns(panel=pl.when(pl.col("case").is_in(together)).then(title).otherwise("case"))
