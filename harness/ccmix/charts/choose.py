"""Chooses the charts that fit the sweeps of a campaign."""

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from ccmix.analysis.results import Results
from ccmix.archive import ArchiveError
from ccmix.charts import overview, samples
from ccmix.charts.encodings import KINDS, Chart, Kind
from ccmix.charts.frames import Family, families
from ccmix.charts.heat_map import Choice

MOST_CONDITIONS = 12  # that have charts of their own in a report
OVERVIEWS: dict[Kind, Callable[[Family], Iterator[Chart | str]]] = {
    "setting": overview.settings_charts,
    "box": overview.box_charts,
    "table": overview.table_charts,
}
OF_VALID: dict[Kind, Callable[[Family], Iterator[Chart | str]]] = {
    "share": overview.share_charts,
    "distribution": samples.distribution_charts,
    "box": samples.estimate_charts,
}
OF_CONDITIONS: dict[Kind, Callable[[Results, int | None], tuple[list[Chart], str | None]]] = {
    "time-series": samples.time_series_charts,
    "bbr-state": samples.bbr_state_charts,
}


@dataclass(frozen=True)
class Chosen:
    """Holds charts in the order of a report, and sentences on charts that are not drawn, with the
    command that draws them.
    """

    charts: tuple[Chart, ...]
    left_out: tuple[str, ...] = ()


def choose(
    results: Results,
    kinds: Collection[Kind] = KINDS,
    most: int | None = MOST_CONDITIONS,
    steps: Choice = "auto",
) -> Chosen:
    """Returns all charts of these kinds that fit. Goodput of runs that are not valid is marked.

    most: maximum number of charts of a single condition; None: no limit.
    steps: the steps of the colours of heat maps.
    A chart of a series that can't be read is left out, and a sentence names the file.
    """
    drawn_or_left_out: list[Chart | str] = []
    of_valid = OF_VALID | {"heat-map": functools.partial(overview.heat_maps, steps=steps)}
    valid = [result for result in results.runs if result.valid]
    for of_kind, runs in ((OVERVIEWS, results.runs), (of_valid, valid)):
        for family in families(runs):
            for kind, made in of_kind.items():
                if kind in kinds:
                    drawn_or_left_out += _as_far_as_readable(made(family))
    charts = sorted(
        (each for each in drawn_or_left_out if isinstance(each, Chart)),
        key=lambda chart: KINDS.index(chart.kind),
    )
    sentences = [each for each in drawn_or_left_out if isinstance(each, str)]
    for kind, of_conditions in OF_CONDITIONS.items():
        if kind in kinds:
            try:
                drawn, left_out = of_conditions(results, most)
            except ArchiveError as error:
                drawn, left_out = [], _unreadable(error)
            charts += drawn
            sentences += [left_out] if left_out else []
    return Chosen(tuple(_named_apart(charts)), tuple(sentences))


def _as_far_as_readable(made: Iterator[Chart | str]) -> Iterator[Chart | str]:
    """Yields the charts. If a series can't be read, a sentence replaces its chart and all that
    follow.
    """
    try:
        yield from made
    except ArchiveError as error:
        yield _unreadable(error)


def _unreadable(error: ArchiveError) -> str:
    return f"Charts are left out because a series can't be read: {error}."


def _named_apart(charts: list[Chart]) -> Iterator[Chart]:
    """Yields the charts; charts with the same name get a number in parentheses, which no other
    name has (archive.file_name).
    """
    names = Counter(chart.name.casefold() for chart in charts)
    seen: Counter[str] = Counter()
    for chart in charts:
        key = chart.name.casefold()
        seen[key] += 1
        yield replace(chart, name=f"{chart.name} ({seen[key]})") if names[key] > 1 else chart
