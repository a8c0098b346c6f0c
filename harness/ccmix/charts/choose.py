"""Makes those charts of a campaign that fit what it sweeps (varies), for a report."""

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

# yields charts, and sentences on charts that would be too large
_MakeCharts = Callable[[Family], Iterator[Chart | str]]
MOST_CONDITIONS = 12  # that have charts of their own in a report
OVERVIEWS: dict[Kind, _MakeCharts] = {
    "setting": overview.settings_charts,
    "box": overview.box_charts,
    "table": overview.table_charts,
}
OF_VALID_RUNS: dict[Kind, _MakeCharts] = {
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
    """Holds charts in the order of a report, and sentences on charts that are not drawn because
    they would be too large, with the command that draws them.
    """

    charts: tuple[Chart, ...]
    left_out: tuple[str, ...] = ()


def choose(
    results: Results,
    kinds: Collection[Kind] = KINDS,
    most: int | None = MOST_CONDITIONS,
    steps: Choice = "auto",
) -> Chosen:
    """Returns all charts of the given kinds that fit the campaign's runs. The goodput of runs that
    are not valid is drawn lighter. If the samples of a run can't be read, the charts that need them
    are left out, and a sentence names the file.

    most: maximum number of charts that show a single condition (one combination of swept values);
        None: no limit
    steps: whether the colours of heat maps have linear or logarithmic steps; "auto": by the values
    """
    drawn_or_left_out: list[Chart | str] = []
    of_valid_runs = OF_VALID_RUNS | {"heat-map": functools.partial(overview.heat_maps, steps=steps)}
    valid = [result for result in results.runs if result.valid]
    for makers, runs in ((OVERVIEWS, results.runs), (of_valid_runs, valid)):
        for family in families(runs):
            for kind, make_charts in makers.items():
                if kind in kinds:
                    drawn_or_left_out += _until_unreadable(make_charts(family))
    charts = sorted(
        (each for each in drawn_or_left_out if isinstance(each, Chart)),
        key=lambda chart: KINDS.index(chart.kind),
    )
    sentences = [each for each in drawn_or_left_out if isinstance(each, str)]
    for kind, make_condition_charts in OF_CONDITIONS.items():
        if kind in kinds:
            try:
                drawn, left_out = make_condition_charts(results, most)
            except ArchiveError as error:
                drawn, left_out = [], _sentence_on_unreadable(error)
            charts += drawn
            sentences += [left_out] if left_out else []
    return Chosen(tuple(_with_unique_names(charts)), tuple(sentences))


def _until_unreadable(made: Iterator[Chart | str]) -> Iterator[Chart | str]:
    """Yields the charts and sentences in `made` until the samples of a run can't be read. Then a
    last sentence says so, and the remaining charts are left out.
    """
    try:
        yield from made
    except ArchiveError as error:
        yield _sentence_on_unreadable(error)


def _sentence_on_unreadable(error: ArchiveError) -> str:
    """Returns the sentence that says that charts are left out, because a file of samples can't be
    read.
    """
    return f"Charts are left out because a series can't be read: {error}."


def _with_unique_names(charts: list[Chart]) -> Iterator[Chart]:
    """Yields the charts with unique names, because names become names of files. Charts whose names
    differ at most in upper and lower case get a number in parentheses, as in 'a (2)'. No other name
    ends like this, because archive.file_name() leaves no parentheses.
    """
    counts = Counter(chart.name.casefold() for chart in charts)
    seen: Counter[str] = Counter()
    for chart in charts:
        key = chart.name.casefold()
        seen[key] += 1
        yield replace(chart, name=f"{chart.name} ({seen[key]})") if counts[key] > 1 else chart
