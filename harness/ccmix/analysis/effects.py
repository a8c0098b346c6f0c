"""Compares goodputs and shares at places that differ in one setting alone: this is what the setting does."""

import statistics
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ccmix.analysis.comparison import Paired, holm, paired, significant
from ccmix.analysis.conditions import goodput_bps, studied_groups
from ccmix.analysis.counting import counts
from ccmix.analysis.place_settings import PlaceSettings, place_settings
from ccmix.analysis.sharing import Alone, Beside, SharedPlace, Sharing, only_cca, place_of
from ccmix.model.results import FinishedRun

CLOSE = 0.05  # of the baseline or of the fair share: closer results are said to be about the same

Value = Mapping[Hashable, float]  # of each block, which is an iteration of a campaign
_Mix = tuple[SharedPlace, str, int, tuple[tuple[str, int], ...]]  # with a group, its streams, and the other groups


@dataclass(frozen=True)
class Subject:
    """Says what a number is of: the goodput of a CCA that is alone, its ratio to another's, or the share of a group."""

    kind: Literal["goodput", "ratio", "share"]
    name: str
    others: tuple[str, ...] = ()  # the baseline of a ratio; the groups beside that of a share
    fair_share: float | None = None


@dataclass(frozen=True)
class Level:
    """Describes the result at one value of a setting."""

    value: str
    mean: float
    side: int  # 1: significantly more than the baseline or the fair share, and not close to it; -1: less; 0: neither
    change: Paired | None  # against the line's first level; None of this one, and without common iterations
    p_adjusted: float | None = None  # for all changes of all lines together (Holm)

    @property
    def seen(self) -> bool:
        """Returns whether the result differs significantly from that of the first level."""
        return significant(self.p_adjusted)


@dataclass(frozen=True)
class SettingLine:
    """Describes results at places that differ in one setting alone: two levels or more, in the order of the file."""

    subject: Subject
    setting: str
    held: tuple[tuple[str, str], ...]  # other settings that differ between this subject's places
    path: str  # name of the emulated path; '' where there are several
    streams: int | None  # of each sender; None where they differ, and where they are not known
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class _PlaceResult:
    subject: Subject
    place: SharedPlace
    known: PlaceSettings
    values: Value
    side: int = 0


def effects(sharing: Sharing, runs: Iterable[tuple[Hashable, FinishedRun]]) -> tuple[SettingLine, ...]:
    """Returns a line for each setting that the places of a subject differ in, each combination of the others apart."""
    valid = [(campaign, finished) for campaign, finished in runs if counts(finished)]
    results = [*_goodputs(valid), *_ratios(sharing.alone), *_shares(sharing.beside, valid)]
    by_subject: dict[Hashable, dict[PlaceSettings, _PlaceResult]] = {}
    for result in results:
        by_subject.setdefault((result.subject, result.known.rest), {}).setdefault(result.known, result)
    return _adjusted([line for alike in by_subject.values() for line in _lines(list(alike.values()))])


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
        if alone.ratio:
            subject = Subject("ratio", alone.cca, (alone.baseline,))
            side = side_of(alone.ratio.value, 1.0, alone.seen)
            yield _PlaceResult(subject, alone.place, _known(alone.place, ""), {"all": alone.ratio.value}, side)


def _shares(comparisons: Iterable[Beside], valid: Sequence[tuple[Hashable, FinishedRun]]) -> Iterator[_PlaceResult]:
    cells: dict[_Mix, dict[Hashable, float]] = {}
    entries: dict[_Mix, str] = {}
    for campaign, finished in valid:
        groups = studied_groups(finished)
        for group in groups:
            others = tuple((other.group, other.streams) for other in groups if other.group != group.group)
            mix = place_of(finished), group.group, group.streams, others
            if group.share is not None and entries.setdefault(mix, finished.run.entry) == finished.run.entry:
                cells.setdefault(mix, {})[campaign, finished.run.iteration] = group.share
    for beside in comparisons:
        mix = beside.place, beside.group, beside.streams, beside.others
        subject = Subject("share", beside.group, tuple(name for name, _ in beside.others), beside.fair_share)
        side = side_of(beside.share, beside.fair_share, beside.seen)
        yield _PlaceResult(subject, beside.place, _known(beside.place, entries[mix]), cells[mix], side)


def side_of(value: float, baseline: float, seen: bool) -> int:
    """Returns 1 for significantly more than the baseline, -1 for less, 0 for neither or a value close to it."""
    if not seen or abs(value - baseline) < CLOSE * baseline:
        return 0
    return 1 if value > baseline else -1


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
            by_others.setdefault(tuple(item for item in result.known.settings if item[0] != key), []).append(result)
        for alike in by_others.values():
            if len(alike) > 1:
                yield _line(key, alike, values_by_path)


def _line(key: str, alike: Sequence[_PlaceResult], values_by_path: Mapping[str, Mapping[str, set[str]]]) -> SettingLine:
    """Makes a line of results; `values_by_path` are all values of each setting on each emulated path."""
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
    tested = [level.change.p_value if level.change else None for line in lines for level in line.levels]
    adjusted = iter(holm(tested))
    return tuple(
        replace(line, levels=tuple(replace(level, p_adjusted=next(adjusted)) for level in line.levels))
        for line in lines
    )
