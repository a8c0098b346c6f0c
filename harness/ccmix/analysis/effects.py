"""Computes the effect of a setting, such as the CCA or the buffer, on the results of runs.

Compares settings of campaigns (conditions, entries or groups) with a baseline among them, paired by
block: an iteration, in which every setting was run once. Also compares places (a path with its
traffic) that differ in only one setting, which shows its effect.
"""

import statistics
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self

from ccmix.analysis.comparison import Paired, corrected, holm, paired, significant
from ccmix.analysis.counting import counts, goodput_bps
from ccmix.analysis.places import PlaceSettings, SharedPlace, only_cca, place_of, settings_of
from ccmix.analysis.sharing import Alone, Beside, Sharing
from ccmix.analysis.statistics import OF_GROUP, OF_RUN, value_of
from ccmix.model import condition_name
from ccmix.model.results import FinishedRun, GroupMetrics, Metrics
from ccmix.units import format_few

MOST_NAMED = 4  # settings in a message
ENTRY, GROUP = "entry", "group"  # keys that no condition has
Value = Mapping[Hashable, float]  # of each block, which is an iteration of a campaign
_Circumstances = tuple[str, str, tuple[tuple[str, str], ...]]
"""Entry, destination, and the condition without the baseline's key: what compared runs share."""


@dataclass(frozen=True)
class Baseline:
    """Names the setting with which all other settings are compared, such as 'cca=cubic'.

    key: a swept key of the configuration, 'entry', or 'group' to compare the groups within a run
    value: the value of this key that is the baseline
    metric: the name of the metric that is compared
    """

    key: str
    value: str
    metric: str = "goodput_bps"

    @property
    def metrics(self) -> tuple[str, ...]:
        """Returns the metrics that can be compared."""
        return OF_GROUP if self.key == GROUP else OF_RUN


@dataclass(frozen=True)
class Comparison:
    """Holds the comparison of one value of the baseline's key with the baseline, all else being
    equal.
    """

    entry: str  # '' if entries are compared
    dst: str
    condition: dict[str, str]  # swept keys and their values, without the baseline's key
    value: str  # of the baseline's key
    left_out: int  # blocks without a valid run of both
    result: Paired | None  # None if no block is left
    p_adjusted: float | None  # for the number of comparisons (Holm)

    @property
    def seen(self) -> bool:
        """Returns whether the value and the baseline differ significantly, after the correction for
        all comparisons.
        """
        return significant(self.p_adjusted)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class _Observation:
    """Holds the compared metric of one run, or of one group of it."""

    setting: str  # the value of the baseline's key
    circumstances: _Circumstances
    block: Hashable
    value: float | None  # None if the run is not valid or lacks the metric


def compare_with_baseline(
    baseline: Baseline, finished_runs: Iterable[tuple[Hashable, FinishedRun]]
) -> list[Comparison]:
    """Compares each setting with the baseline, separately for each entry, destination and condition
    of the other keys.

    finished_runs: each run with its campaign (anything hashable that distinguishes campaigns)

    Values are paired by block: an iteration of a campaign, or a single run if its groups are
    compared. p-values are adjusted for the number of comparisons (Holm). Raises ValueError if no
    run has the baseline's value, or if no other setting ran in the same conditions.
    """
    campaigns_and_runs = list(finished_runs)
    observations = [
        observation
        for campaign, finished in campaigns_and_runs
        for observation in _observations(baseline, campaign, finished)
    ]
    values: dict[_Circumstances, dict[str, dict[Hashable, float | None]]] = {}
    for observation in observations:
        values_by_setting = values.setdefault(observation.circumstances, {})
        blocks = values_by_setting.setdefault(observation.setting, {})
        blocks[observation.block] = observation.value
    settings = list(dict.fromkeys(observation.setting for observation in observations))
    if baseline.value not in settings:
        condition_keys = (
            key for _, finished in campaigns_and_runs for key in finished.run.condition
        )
        keys = dict.fromkeys(["entry", "group", *condition_keys])
        available = format_few(settings, MOST_NAMED) or f"no such key, only {', '.join(keys)}"
        raise ValueError(f"nothing has {baseline.key}={baseline.value}: there is {available}")
    compared = [
        (circumstances, setting, *_paired(blocks, values_by_setting[baseline.value]))
        for circumstances, values_by_setting in values.items()
        if baseline.value in values_by_setting
        for setting, blocks in values_by_setting.items()
        if setting != baseline.value
    ]
    if not compared:
        others = [setting for setting in settings if setting != baseline.value]
        reason = (
            f"{format_few(others, MOST_NAMED)} ran in other conditions"
            if others
            else f"there is no other {baseline.key}"
        )
        raise ValueError(f"nothing can be paired with {baseline.key}={baseline.value}: {reason}")
    adjusted = holm([result.p_value if result else None for *_, result in compared])
    return [
        Comparison(entry, dst, dict(condition), setting, left_out, result, p_adjusted)
        for ((entry, dst, condition), setting, left_out, result), p_adjusted in zip(
            compared, adjusted, strict=True
        )
    ]


def _paired(
    values: dict[Hashable, float | None], baseline_values: dict[Hashable, float | None]
) -> tuple[int, Paired | None]:
    """Compares a setting with the baseline, from the values of each block (an iteration). Returns
    how many blocks are left out because they lack one of the two values, and the comparison over
    the other blocks.
    """
    pairs = [(value, baseline_values.get(block)) for block, value in values.items()]
    both = [(value, other) for value, other in pairs if value is not None and other is not None]
    blocks = len(values.keys() | baseline_values.keys())
    return blocks - len(both), paired([value for value, _ in both], [other for _, other in both])


def _observations(
    baseline: Baseline, campaign: Hashable, finished: FinishedRun
) -> Iterator[_Observation]:
    """Yields the values of a run that are compared. If groups are compared, there is one for each
    group; otherwise there is one, or none if the run does not have the baseline's key.
    """
    run, settings = finished.run, finished.run.condition | {ENTRY: finished.run.entry}
    compared: list[tuple[str, Metrics | GroupMetrics]] = []
    if baseline.key == GROUP:
        compared = [(group.group, group) for group in finished.metrics.groups]
    elif baseline.key in settings:
        compared = [(settings[baseline.key], finished.metrics)]
    entry = "" if baseline.key == ENTRY else run.entry
    other_keys = tuple(item for item in run.condition.items() if item[0] != baseline.key)
    for setting, metrics in compared:
        value = value_of(metrics, baseline.metric) if counts(finished) else None
        circumstances = entry, run.dst, other_keys
        yield _Observation(setting, circumstances, (campaign, run.iteration), value)


def comparison_name(comparison: Comparison) -> str:
    """Returns the entry and the condition of a comparison for people: 'grid rate=100mbit', or 'all'
    if it has neither.
    """
    condition = condition_name(comparison.condition) if comparison.condition else ""
    return " ".join(word for word in (comparison.entry, condition) if word) or "all"


@dataclass(frozen=True)
class Subject:
    """Says what a number measures: the goodput of a CCA that runs without others, the ratio of that
    goodput to that of another CCA, or a group's share of the goodput.
    """

    kind: Literal["goodput", "ratio", "share"]
    name: str  # of the CCA, or of the group
    others: tuple[str, ...] = ()  # the baseline of a ratio; the groups that a share competes with
    fair_share: float | None = None  # None unless it is a share


@dataclass(frozen=True)
class Level:
    """Holds the result at one value of a setting, such as buffer = 1 BDP."""

    value: str
    mean: float
    # 1: significantly more than the baseline or the fair share, and not close to it; -1: less; 0:
    # neither
    side: int
    # from the line's first level to this one; None for the first level itself, and if the two have
    # no iteration in common
    change: Paired | None
    p_adjusted: float | None = None  # for all changes of all lines together (Holm)
    iterations_needed: int | None = None  # to decide in spite of this correction

    def with_adjusted_p(self, p_adjusted: float | None, iterations_needed: int | None) -> Self:
        return replace(self, p_adjusted=p_adjusted, iterations_needed=iterations_needed)

    @property
    def seen(self) -> bool:
        """Returns whether the result differs significantly from the result at the line's first
        level, after the correction for the number of comparisons.
        """
        return significant(self.p_adjusted)

    @property
    def undecided(self) -> bool:
        """Returns whether the result would differ significantly if this were the only comparison,
        but does not after the correction. More iterations may decide.
        """
        return not self.seen and self.change is not None and significant(self.change.p_value)


@dataclass(frozen=True)
class SettingLine:
    """Holds the results of places that differ in only one setting, as a line in a chart would show
    them: two levels or more, in the order of the configuration file.
    """

    subject: Subject
    setting: str
    held: tuple[tuple[str, str], ...]  # other settings that differ between this subject's places
    path: str  # name of the emulated path; '' if there are several
    streams: int | None  # of each sender; None if they differ or are not known
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class _PlaceResult:
    """Holds the results of a subject at one place (a path with its traffic).

    known: the settings of the place, as text
    values: a value for each block (iteration)
    side: 1 if the result is significantly above the baseline or the fair share, -1 if below
    """

    subject: Subject
    place: SharedPlace
    known: PlaceSettings
    values: Value
    side: int = 0


def effects(
    sharing: Sharing, runs: Iterable[tuple[Hashable, FinishedRun]]
) -> tuple[SettingLine, ...]:
    """Returns how each setting changes the results, as lines. A line has the results of one subject
    (such as the goodput of a CCA) at places that differ in only one setting. There is a line for
    each setting that differs between the subject's places, and for each combination of the other
    settings.

    runs: the runs from which `sharing` was computed, each with its campaign
    """
    valid = [(campaign, finished) for campaign, finished in runs if counts(finished)]
    results = [*_goodputs(valid), *_ratios(sharing.alone), *_shares(sharing.beside)]
    by_subject: dict[Hashable, dict[PlaceSettings, _PlaceResult]] = {}
    for result in results:
        comparable = by_subject.setdefault((result.subject, result.known.rest), {})
        comparable.setdefault(result.known, result)
    return _adjusted(
        [line for results in by_subject.values() for line in _lines(list(results.values()))]
    )


def _goodputs(valid: Sequence[tuple[Hashable, FinishedRun]]) -> Iterator[_PlaceResult]:
    """Yields the goodput of each CCA that ran without others, for each entry and place.

    valid: the valid runs, each with its campaign
    """
    cells: dict[tuple[str, SharedPlace, str], dict[Hashable, float]] = {}
    for campaign, finished in valid:
        if cca := only_cca(finished):
            values = cells.setdefault((finished.run.entry, place_of(finished), cca), {})
            values[campaign, finished.run.iteration] = goodput_bps(finished)
    for (entry, place, cca), values in cells.items():
        yield _PlaceResult(Subject("goodput", cca), place, settings_of(place, entry), values)


def _ratios(comparisons: Iterable[Alone]) -> Iterator[_PlaceResult]:
    """Yields, for each CCA that ran without others, the ratio of its goodput to that of the
    baseline.
    """
    for alone in comparisons:
        subject = Subject("ratio", alone.cca, (alone.baseline,))
        settings = settings_of(alone.place, "")
        yield _PlaceResult(subject, alone.place, settings, {"all": alone.value}, alone.side)


def _shares(comparisons: Iterable[Beside]) -> Iterator[_PlaceResult]:
    """Yields the share of each group that competed with others at a place. If several entries have
    the same mix of groups at the place, only the first of them counts.
    """
    first_entries: dict[Hashable, Beside] = {}
    for beside in comparisons:
        mix = beside.place, beside.group, beside.streams, beside.others
        first_entries.setdefault(mix, beside)
    for beside in first_entries.values():
        other_groups = tuple(name for name, _ in beside.others)
        subject = Subject("share", beside.group, other_groups, beside.equal)
        settings = settings_of(beside.place, beside.entry)
        yield _PlaceResult(subject, beside.place, settings, beside.shares, beside.side)


def _lines(results: Sequence[_PlaceResult]) -> Iterator[SettingLine]:
    """Yields the lines of each setting, from all results of one subject. A line joins the results
    that differ only in this setting; a result that differs from all others in something else, too,
    is in no line.
    """
    values_by_path: dict[str, dict[str, set[str]]] = {}
    for result in results:
        for key, text in result.known.settings:
            values_by_path.setdefault(result.place.name, {}).setdefault(key, set()).add(text)
    for key in [key for key, _ in results[0].known.settings]:
        by_others: dict[Hashable, list[_PlaceResult]] = {}
        for result in results:
            other_settings = tuple(item for item in result.known.settings if item[0] != key)
            by_others.setdefault(other_settings, []).append(result)
        for line_results in by_others.values():
            if len(line_results) > 1:
                yield _line(key, line_results, values_by_path)


def _line(
    key: str, results: Sequence[_PlaceResult], values_by_path: Mapping[str, Mapping[str, set[str]]]
) -> SettingLine:
    """Makes a line of the setting `key` from results that differ only in this setting. Each result
    is compared with the first one.

    values_by_path: all values of each setting, by the name of the emulated path and the setting.
        The line names only those other settings that have several values.
    """
    names = {result.place.name for result in results}
    first = results[0]
    held = tuple(
        (name, text)
        for name, text in first.known.settings
        if name != key and any(values_by_path[path][name] != {text} for path in names)
    )
    levels = tuple(
        Level(
            value=dict(result.known.settings)[key],
            mean=statistics.fmean(result.values.values()),
            side=result.side,
            change=None if result is first else _change(result.values, first.values),
        )
        for result in results
    )
    streams = {result.place.traffic.streams for result in results}
    return SettingLine(
        subject=first.subject,
        setting=key,
        held=held,
        path=names.pop() if len(names) == 1 else "",
        streams=streams.pop() if len(streams) == 1 else None,
        levels=levels,
    )


def _change(values: Value, first: Value) -> Paired | None:
    """Compares a level of a line with its first level, from the values of the blocks (iterations)
    that both have; None if there are no such blocks.
    """
    blocks = [block for block in values if block in first]
    return paired([values[block] for block in blocks], [first[block] for block in blocks])


def _adjusted(lines: Sequence[SettingLine]) -> tuple[SettingLine, ...]:
    """Returns the lines with p-values that are corrected for the number of changes in all lines
    together (Holm).
    """
    adjusted = iter(corrected([level.change for line in lines for level in line.levels]))
    return tuple(
        replace(line, levels=tuple(level.with_adjusted_p(*next(adjusted)) for level in line.levels))
        for line in lines
    )
