"""Which charts fit the sweeps of a campaign, and what they show in words."""

from collections.abc import Collection
from dataclasses import dataclass

from ccmix.charts import conditions
from ccmix.charts.chart import KINDS, Chart, Kind
from ccmix.report.results import Results

MOST_CONDITIONS = 12  # that have charts of their own in a report


@dataclass(frozen=True)
class Chosen:
    """Charts in the order of a report, and sentences that say what of the campaign isn't drawn, and what draws it."""

    charts: tuple[Chart, ...]
    left_out: tuple[str, ...] = ()


def choose(results: Results, kinds: Collection[Kind] = KINDS, most: int | None = MOST_CONDITIONS) -> Chosen:
    """All charts of these kinds that fit; of valid runs only.

    most: of charts that each show one condition; None: all. Raises ArchiveError where a series can't be read.
    """
    charts: list[Chart] = []
    left_out: list[str] = []
    if "time-series" in kinds:
        drawn, sentence = conditions.time_series_charts(results, most)
        charts += drawn
        left_out += [sentence] if sentence else []
    return Chosen(tuple(charts), tuple(left_out))
