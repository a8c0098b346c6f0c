"""Compares settings of campaigns: conditions, entries or groups with a baseline among them, paired
by block. Also compares places that differ in only one setting, which shows its effect.
"""

import statistics
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self

from ccmix.analysis.comparison import Paired, corrected, holm, paired, significant
from ccmix.analysis.counting import counts, goodput_bps, studied_groups
from ccmix.analysis.path_text import PlaceSettings, place_settings
from ccmix.analysis.sharing import Alone, Beside, SharedPlace, Sharing, only_cca, place_of
from ccmix.analysis.statistics import OF_GROUP, OF_RUN, value_of
from ccmix.model import condition_name
from ccmix.model.results import FinishedRun
from ccmix.units import format_few

MOST_NAMED = 4  # settings in a message
ENTRY, GROUP = "entry", "group"  # keys that no condition has
Value = Mapping[Hashable, float]  # of each block, which is an iteration of a campaign
_Mix = tuple[
    SharedPlace, str, int, tuple[tuple[str, int], ...]
]  # with a group, its streams, and the other groups


@dataclass(frozen=True)
class Baseline:
    """`key` is a swept key, 'entry', or 'group' for the groups of the same run; `value` is that of
    the baseline.
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
    """Compares a setting with the baseline, all else being equal; `left_out` counts the blocks that
    lack a valid run of either.
    """

    entry: str
    dst: str
    condition: dict[str, str]
    value: str  # of the baseline's key
    left_out: int
    result: Paired | None
    p_adjusted: float | None

    @property
    def seen(self) -> bool:
        """Returns whether they differ significantly, after the correction for all comparisons."""
        return significant(self.p_adjusted)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class _Value:
    """Holds the metric of a run, or of a group of it; None if the run is not valid or lacks
    the metric.
    """

    setting: str
    like: tuple[
        str, str, tuple[tuple[str, str], ...]
    ]  # entry, destination, condition without the key
    block: Hashable
    value: float | None


def against(
    baseline: Baseline, finished_runs: Iterable[tuple[Hashable, FinishedRun]]
) -> list[Comparison]:
    """Compares finished runs, each with its campaign (anything that distinguishes campaigns).

    A block is an iteration; if groups are compared, it is a run. p-values are adjusted for the
    number of comparisons (Holm). Raises ValueError if nothing has the baseline's value, or if
    nothing can be paired with it.
    """
    campaigns_and_runs = list(finished_runs)
    observations = [
        value
        for campaign, finished in campaigns_and_runs
        for value in _values(baseline, campaign, finished)
    ]
    cells: dict[
        tuple[str, str, tuple[tuple[str, str], ...]], dict[str, dict[Hashable, float | None]]
    ] = {}
    for observation in observations:
        cells.setdefault(observation.like, {}).setdefault(observation.setting, {})[
            observation.block
        ] = observation.value
    if not any(baseline.value in settings for settings in cells.values()):
        keys = dict.fromkeys(
            [
                "entry",
                "group",
                *(key for _, finished in campaigns_and_runs for key in finished.run.condition),
            ]
        )
        settings_there = list(dict.fromkeys(observation.setting for observation in observations))
        there = format_few(settings_there, MOST_NAMED) or f"no such key, only {', '.join(keys)}"
        raise ValueError(f"nothing has {baseline.key}={baseline.value}: there is {there}")
    compared = [
        (like, setting, *_paired(blocks, settings[baseline.value]))
        for like, settings in cells.items()
        if baseline.value in settings
        for setting, blocks in settings.items()
        if setting != baseline.value
    ]
    if not compared:
        others = [
            setting
            for setting in dict.fromkeys(each.setting for each in observations)
            if setting != baseline.value
        ]
        why = (
            f"{format_few(others, MOST_NAMED)} ran in other conditions"
            if others
            else f"there is no other {baseline.key}"
        )
        raise ValueError(f"nothing can be paired with {baseline.key}={baseline.value}: {why}")
    adjusted = holm([result.p_value if result else None for *_, result in compared])
    return [
        Comparison(entry, dst, dict(condition), setting, left_out, result, p_adjusted)
        for ((entry, dst, condition), setting, left_out, result), p_adjusted in zip(
            compared, adjusted, strict=True
        )
    ]


def _paired(
    blocks: dict[Hashable, float | None], others: dict[Hashable, float | None]
) -> tuple[int, Paired | None]:
    """Counts the blocks that are left out, and compares the others."""
    pairs = [(value, others.get(block)) for block, value in blocks.items()]
    both = [(value, other) for value, other in pairs if value is not None and other is not None]
    every = len(blocks.keys() | others.keys())
    return every - len(both), paired([value for value, _ in both], [other for _, other in both])


def _values(baseline: Baseline, campaign: Hashable, finished: FinishedRun) -> Sequence[_Value]:
    run, metrics, valid = finished.run, finished.metrics, counts(finished)
    place = (run.entry, run.dst, tuple(run.condition.items()))
    if baseline.key == GROUP:
        return [
            _Value(
                group.group,
                place,
                (campaign, run.iteration),
                value_of(group, baseline.metric) if valid else None,
            )
            for group in metrics.groups
        ]
    value = value_of(metrics, baseline.metric) if valid else None
    if baseline.key == ENTRY:
        return [_Value(run.entry, ("", *place[1:]), (campaign, run.iteration), value)]
    if baseline.key not in run.condition:
        return []
    rest = tuple(item for item in run.condition.items() if item[0] != baseline.key)
    return [
        _Value(
            run.condition[baseline.key],
            (run.entry, run.dst, rest),
            (campaign, run.iteration),
            value,
        )
    ]


def comparison_name(comparison: Comparison) -> str:
    """Returns a name for the entry and the condition of a comparison."""
    place = [comparison.entry, condition_name(comparison.condition) if comparison.condition else ""]
    return " ".join(word for word in place if word) or "all"


@dataclass(frozen=True)
class Subject:
    """Says what a number measures: the goodput of a CCA that runs without others, its ratio to that
    of another CCA, or the share of a group.
    """

    kind: Literal["goodput", "ratio", "share"]
    name: str
    others: tuple[str, ...] = ()  # the baseline of a ratio; the groups that a share competes with
    fair_share: float | None = None


@dataclass(frozen=True)
class Level:
    """Describes the result at one value of a setting."""

    value: str
    mean: float
    # 1: significantly more than the baseline or the fair share, and not close to it; -1: less; 0:
    # neither
    side: int
    change: (
        Paired | None
    )  # against the line's first level; None of this one, and without common iterations
    p_adjusted: float | None = None  # for all changes of all lines together (Holm)
    iterations_needed: int | None = None  # to decide in spite of this correction

    def judged(self, p_adjusted: float | None, iterations_needed: int | None) -> Self:
        return replace(self, p_adjusted=p_adjusted, iterations_needed=iterations_needed)

    @property
    def seen(self) -> bool:
        """Returns whether the result differs significantly from that of the first level."""
        return significant(self.p_adjusted)

    @property
    def undecided(self) -> bool:
        """Returns whether it would if it were the only comparison."""
        return not self.seen and self.change is not None and significant(self.change.p_value)


@dataclass(frozen=True)
class SettingLine:
    """Describes results at places that differ in only one setting: two levels or more, in the order
    of the file.
    """

    subject: Subject
    setting: str
    held: tuple[tuple[str, str], ...]  # other settings that differ between this subject's places
    path: str  # name of the emulated path; '' if there are several
    streams: int | None  # of each sender; None if they differ or are not known
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class _PlaceResult:
    subject: Subject
    place: SharedPlace
    known: PlaceSettings
    values: Value
    side: int = 0


def effects(
    sharing: Sharing, runs: Iterable[tuple[Hashable, FinishedRun]]
) -> tuple[SettingLine, ...]:
    """Returns a line for each setting in which the places of a subject differ, and for each
    combination of the other settings.
    """
    valid = [(campaign, finished) for campaign, finished in runs if counts(finished)]
    results = [*_goodputs(valid), *_ratios(sharing.alone), *_shares(sharing.beside, valid)]
    by_subject: dict[Hashable, dict[PlaceSettings, _PlaceResult]] = {}
    for result in results:
        by_subject.setdefault((result.subject, result.known.rest), {}).setdefault(
            result.known, result
        )
    return _adjusted(
        [line for alike in by_subject.values() for line in _lines(list(alike.values()))]
    )


def _goodputs(valid: Sequence[tuple[Hashable, FinishedRun]]) -> Iterator[_PlaceResult]:
    """Yields the goodput of each entry's runs with one CCA."""
    cells: dict[tuple[str, SharedPlace, str], dict[Hashable, float]] = {}
    for campaign, finished in valid:
        if cca := only_cca(finished):
            cell = cells.setdefault((finished.run.entry, place_of(finished), cca), {})
            cell[campaign, finished.run.iteration] = goodput_bps(finished)
    for (entry, place, cca), values in cells.items():
        yield _PlaceResult(Subject("goodput", cca), place, _known(place, entry), values)


def _ratios(comparisons: Iterable[Alone]) -> Iterator[_PlaceResult]:
    for alone in comparisons:
        subject = Subject("ratio", alone.cca, (alone.baseline,))
        known = _known(alone.place, "")
        yield _PlaceResult(subject, alone.place, known, {"all": alone.value}, alone.side)


def _shares(
    comparisons: Iterable[Beside], valid: Sequence[tuple[Hashable, FinishedRun]]
) -> Iterator[_PlaceResult]:
    cells: dict[_Mix, dict[Hashable, float]] = {}
    entries: dict[_Mix, str] = {}
    for campaign, finished in valid:
        groups = studied_groups(finished)
        for group in groups:
            others = tuple(
                (other.group, other.streams) for other in groups if other.group != group.group
            )
            mix = place_of(finished), group.group, group.streams, others
            if (
                group.share is not None
                and entries.setdefault(mix, finished.run.entry) == finished.run.entry
            ):
                cells.setdefault(mix, {})[campaign, finished.run.iteration] = group.share
    for beside in comparisons:
        mix = beside.place, beside.group, beside.streams, beside.others
        subject = Subject(
            "share", beside.group, tuple(name for name, _ in beside.others), beside.equal
        )
        yield _PlaceResult(
            subject, beside.place, _known(beside.place, entries[mix]), cells[mix], beside.side
        )


def _known(place: SharedPlace, entry: str) -> PlaceSettings:
    return place_settings(place.path, place.traffic, place.condition, place.dst, entry)


def _lines(results: Sequence[_PlaceResult]) -> Iterator[SettingLine]:
    values_by_path: dict[str, dict[str, set[str]]] = {}
    for result in results:
        for key, text in result.known.settings:
            values_by_path.setdefault(result.place.name, {}).setdefault(key, set()).add(text)
    for key in [key for key, _ in results[0].known.settings]:
        by_others: dict[Hashable, list[_PlaceResult]] = {}
        for result in results:
            by_others.setdefault(
                tuple(item for item in result.known.settings if item[0] != key), []
            ).append(result)
        for alike in by_others.values():
            if len(alike) > 1:
                yield _line(key, alike, values_by_path)


def _line(
    key: str, alike: Sequence[_PlaceResult], values_by_path: Mapping[str, Mapping[str, set[str]]]
) -> SettingLine:
    """Makes a line of results; `values_by_path` has all values of each setting on each emulated
    path.
    """
    names = {result.place.name for result in alike}
    first = alike[0]
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
        for result in alike
    )
    streams = {result.place.traffic.streams for result in alike}
    return SettingLine(
        subject=first.subject,
        setting=key,
        held=held,
        path=names.pop() if len(names) == 1 else "",
        streams=streams.pop() if len(streams) == 1 else None,
        levels=levels,
    )


def _change(values: Value, first: Value) -> Paired | None:
    blocks = [block for block in values if block in first]
    return paired([values[block] for block in blocks], [first[block] for block in blocks])


def _adjusted(lines: Sequence[SettingLine]) -> tuple[SettingLine, ...]:
    found = iter(corrected([level.change for line in lines for level in line.levels]))
    return tuple(
        replace(line, levels=tuple(level.judged(*next(found)) for level in line.levels))
        for line in lines
    )
