"""Answers in one sentence what a campaign shows, then with its strongest effects, then with the
rest.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ccmix.analysis.counting import settling_sentence
from ccmix.analysis.effects import SettingLine
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.path_text import HOST_DELAYS, OF_KEYS, swept_text
from ccmix.analysis.sharing import CLOSE, Alone, Beside, SharedPlace, Sharing, Single, Standing
from ccmix.model import HostPath, Topology
from ccmix.report.effects_text import beginning, enough, phrases, settings_sentences
from ccmix.text.words import be, capitalised, joined, listed
from ccmix.units import format_count, format_percent, format_rate

MOST_BULLETS = 4
WEAK = 0.0, CLOSE
MOST_PLACES = 2  # of runs that have not settled, with names
DECIDED = ("more", "less", "about")
NO_EFFECT = ("about", "no significant difference")
Comparison = Alone | Beside


@dataclass(frozen=True)
class Answer:
    """Holds the sentences of an answer."""

    first: str
    bullets: tuple[str, ...]  # the strongest effects
    more: tuple[str, ...]  # on what no bullet is about
    settings: tuple[tuple[str, str], ...]  # the name of each setting that differs, and what it does
    runs: str  # how many are left out, and why
    warnings: tuple[str, ...]  # where iterations are too few, and how many would do
    details: tuple[tuple[str, tuple[str, ...]], ...]  # a heading for each place, and its sentences


def answer(
    sharing: Sharing,
    lines: Sequence[SettingLine] = (),
    ranges: Iterable[str] = (),
    paths: Iterable[str] = (),
) -> Answer:
    """Returns the answer from all comparisons or, without any, the largest and the smallest
    goodput.

    `lines` are those of the settings that differ, `ranges` the sentences on conditions that are one
    range, `paths` those on paths that runs measured.
    """
    where = _Where(sharing)
    comparisons: list[Comparison] = [*sharing.alone, *sharing.beside]
    first, *rest = [*paths, *_effects(comparisons, where)] or _extremes(sharing.singles, where)
    rest = [*ranges, *rest]
    return Answer(
        first=first,
        bullets=tuple(rest[:MOST_BULLETS]),
        more=tuple(rest[MOST_BULLETS:]),
        settings=tuple(settings_sentences(lines)),
        runs=_runs(sharing),
        warnings=tuple(_warnings(sharing, comparisons, where)),
        details=tuple(_details(comparisons, where)),
    )


class _Where:
    """Names places by what differs between places: 'with 0.1% loss at a base RTT of 88 ms'."""

    def __init__(self, sharing: Sharing) -> None:
        places = [single.place for single in sharing.singles]  # all that have a valid run
        self._several_ends = len({place.dst for place in places}) > 1
        self._several_paths = len({place.name for place in places}) > 1

    def __call__(self, place: SharedPlace) -> str:
        return phrases(_swept(place), **self._front(place))

    def _front(self, place: SharedPlace) -> dict[str, str]:
        emulated = isinstance(place.path, Topology)
        return {
            "path": place.name if self._several_paths else "",
            "dst": place.dst if self._several_ends and not emulated else "",
        }


def _swept(place: SharedPlace) -> list[tuple[str, str]]:
    """Returns the swept settings of a place, by the names of sentences."""
    emulated = isinstance(place.path, Topology)
    return [
        (OF_KEYS.get(key, key) if emulated else key, swept_text(place.path, key, value))
        for key, value in place.condition
        if not (isinstance(place.path, HostPath) and key in HOST_DELAYS and not place.path.netem)
    ]


def _effects(comparisons: Sequence[Comparison], where: _Where) -> Iterator[str]:
    """Yields what the runs with the strongest effect show in all conditions, and then the strongest
    effects in each direction. All conditions of other runs are summed up with their first effect.
    """
    every: dict[Hashable, list[Comparison]] = {}
    for each in comparisons:
        every.setdefault(_subject(each), []).append(each)
    summed: set[Hashable] = set()
    told: set[Hashable] = set()  # with their direction
    for each in sorted(comparisons, key=lambda each: each.strength, reverse=True):
        subject, is_effect = _subject(each), each.standing not in NO_EFFECT and each.strength > WEAK
        direction = subject, each.value > each.equal
        effect = beginning(where(each.place), _effect(each))
        if not summed or (subject not in summed and not is_effect):
            yield f"{_summary(every[subject], where)}."
            sides = sum(one.side for one in every[subject])
            if len(every[subject]) in (1, abs(sides)):  # alike everywhere
                told.add(direction)
        elif subject not in summed:
            others = [other for other in every[subject] if other is not each]
            there = format_count(len(others), "other condition")
            tail = f"; in {there} {_numbers(others)} ({_counted(others)})" if others else ""
            yield f"{effect}{tail}."
            told.add(direction)
        if is_effect and direction not in told:
            yield f"{effect}."
            told.add(direction)
        summed.add(subject)


def _subject(comparison: Comparison) -> Hashable:
    if isinstance(comparison, Alone):
        return comparison.cca, comparison.baseline
    return comparison.group, comparison.streams, comparison.others


def _summary(every: Sequence[Comparison], where: _Where) -> str:
    """Returns 'bbr alone gets more than cubic alone in 9 of 14 conditions, less in 1, not tested in
    4: 0.9 to 453 times cubic's goodput'.
    """
    first = every[0]
    if len(every) == 1:
        return beginning(where(first.place), _effect(first))
    (main, some), *others = _by_standing(every)
    values, fair = _values(every), _fair(first) and f", where {_fair(first)}"
    if main not in DECIDED:
        conditions = _of(len(every), len(every))
        return f"{_who(first)} {values} in {conditions}{fair}: {_counted(every)}"
    rest = "".join(
        f", {_short(first, kind)} in {len(few)}{_shared(few, every)}" for kind, few in others
    )
    in_ = f"{_of(len(some), len(every))}{_shared(some, every)}"
    return f"{_who(first)} {_long(first, main)} in {in_}{rest}: {values}{fair}"


def _by_standing(comparisons: Sequence[Comparison]) -> list[tuple[Standing, list[Comparison]]]:
    """Returns the comparisons by what is known: first the differences, the more frequent first."""
    kinds: dict[Standing, list[Comparison]] = {}
    for each in comparisons:
        kinds.setdefault(each.standing, []).append(each)
    return sorted(kinds.items(), key=lambda kind: (kind[0] not in DECIDED, -len(kind[1])))


def _counted(comparisons: Sequence[Comparison]) -> str:
    """Returns 'undecided in 2, not tested in 4'; of only one kind 'undecided'."""
    kinds = _by_standing(comparisons)
    return ", ".join(
        f"{_short(some[0], kind)}{f' in {len(some)}' * (len(kinds) > 1)}" for kind, some in kinds
    )


def _short(comparison: Comparison, standing: Standing) -> str:
    if standing != "about":
        return standing
    return "about the same" if isinstance(comparison, Alone) else "about fair"


def _long(comparison: Comparison, standing: Standing) -> str:
    """Returns 'more than cubic alone', 'about their fair share'."""
    than = "" if standing == "about" else "than "
    if isinstance(comparison, Beside):
        return f"{standing} {than}{'its' if comparison.streams == 1 else 'their'} fair share"
    return f"{standing} {than or 'as much as '}{comparison.baseline} alone"


def _shared(some: Sequence[Comparison], every: Sequence[Comparison]) -> str:
    """Names the settings that all of these places have, and no others: ' (with qdisc fq_codel)'."""
    swept = [_swept(each.place) for each in some]
    common = [each for each in swept[0] if all(each in other for other in swept)]
    alike = sum(set(common) <= set(_swept(each.place)) for each in every)
    told = some[0].standing in DECIDED and alike == len(some) < len(every)
    return f" ({phrases(common)})" * told


def _who(comparison: Comparison) -> str:
    if isinstance(comparison, Alone):
        return f"{comparison.cca} alone gets"
    others = listed([_flows(*other) for other in comparison.others])
    gets = "gets" if comparison.streams == 1 else "get"
    return f"{_flows(comparison.group, comparison.streams)} competing with {others} {gets}"


def _flows(group: str, streams: int) -> str:
    return format_count(streams, f"{group} flow")


def _fair(comparison: Comparison) -> str:
    if isinstance(comparison, Alone):
        return ""
    return f"{format_percent(comparison.equal)} would be fair"


def _values(comparisons: Sequence[Comparison]) -> str:
    """Returns '36% to 92% of the goodput', '0.98 to 3.57 times cubic's goodput'."""
    first = comparisons[0]
    whole = f"{first.baseline}'s" if isinstance(first, Alone) else "of the"
    return f"{_numbers(comparisons)} {whole} goodput"


def _numbers(comparisons: Sequence[Comparison]) -> str:
    """Returns '36% to 92%', '0.98 to 3.57 times'."""
    values = [comparison.value for comparison in comparisons]
    ends = (_number(comparisons[0], value) for value in (min(values), max(values)))
    times = " times" * isinstance(comparisons[0], Alone)
    return f"{' to '.join(dict.fromkeys(ends))}{times}"


def _number(comparison: Comparison, value: float) -> str:
    """Returns a share as '36%' if groups compete, otherwise a factor as '3.57'; 1 is '1.00'."""
    if isinstance(comparison, Beside):
        return format_percent(value)
    text = f"{value:.3g}"
    return "1.00" if text == "1" else text


def _effect(comparison: Comparison, with_p: bool = False) -> str:
    """Returns 'bbr alone gets 3 times cubic's goodput (9 Mbit/s against 3 Mbit/s; 95% CI ...)'."""
    known = _fair(comparison)
    if isinstance(comparison, Alone):
        known = (
            f"{format_rate(comparison.mean_bps)} against "
            f"{format_rate(comparison.result.baseline_mean)}"
        )
    interval = comparison.interval and " to ".join(
        _number(comparison, end) for end in comparison.interval
    )
    details = joined(
        "; ", known, f"95% CI {interval}" if interval else "", _verdict(comparison, with_p)
    )
    return f"{_who(comparison)} {_values([comparison])} ({details})"


def _verdict(comparison: Comparison, with_p: bool) -> str:
    """Returns a clause about the test; '' of a significant difference without p."""
    p_adjusted, standing = comparison.p_adjusted, comparison.standing
    iterations = format_count(comparison.result.blocks, "iteration")
    if p_adjusted is None:
        return f"not tested: {iterations}{', all alike' * comparison.result.alike}"
    p = f"{'p < 0.001' if p_adjusted < 0.001 else f'p = {p_adjusted:.2g}'}, " * with_p
    if standing not in DECIDED:
        return (
            f"{p}{standing} with {iterations}: {enough(comparison.iterations_needed)} would decide"
        )
    return f"{p}{iterations}" * with_p


def _extremes(singles: Sequence[Single], where: _Where) -> Iterator[str]:
    """Yields the range of goodputs, for campaigns with nothing to compare, and its ends."""
    if not singles:
        yield "No run is valid: what their goodput means is below."
        return
    ranked = sorted(singles, key=lambda single: single.goodput_bps.mean)
    ends = dict.fromkeys((ranked[-1], ranked[0]))
    if len(ends) > 1:
        rates = " to ".join(format_rate(end.goodput_bps.mean) for end in reversed(ends))
        yield f"Goodput is {rates} in {format_count(len(ranked), 'condition')}."
    for end in ends:
        yield f"{_goodput(end, where)}."


def _goodput(single: Single, where: _Where) -> str:
    mean, interval = single.goodput_bps.mean, single.goodput_bps.ci95
    ends = f" (95% CI {' to '.join(map(format_rate, interval))})" if interval else ""
    gets = f"{single.entry} ({', '.join(single.names)}) gets {format_rate(mean)}{ends}"
    return joined(" ", gets, where(single.place))


def _runs(sharing: Sharing) -> str:
    imported = (
        f" {be(sharing.imported, 'run', past=True)} imported: ccmix did not check whether their "
        "hosts limited them." * (sharing.imported > 0)
    )
    if not sharing.left_out:
        return imported.strip() or (
            "The only run is valid." if sharing.runs == 1 else f"All {sharing.runs} runs are valid."
        )
    why = ", ".join(f"{count} by {kind}" for kind, count in sharing.left_out)
    out = sharing.runs - sharing.valid
    verb = "is" if out == 1 else "are"
    return (
        f"{out} of {sharing.runs} runs {verb} left out of all means because of findings: "
        f"{why}.{imported}"
    )


def _warnings(sharing: Sharing, comparisons: Sequence[Comparison], where: _Where) -> Iterator[str]:
    if sharing.not_settled:
        yield _not_settled(sharing, where)
    of_all = f"of {format_count(len(comparisons), 'comparison')}"
    if untested := sum(each.standing == "not tested" for each in comparisons):
        yield (
            f"Not tested: {untested} {of_all}. A test needs at least {LEAST_FOR_INTERVAL} valid "
            "iterations that are not all alike."
        )
    if undecided := [each for each in comparisons if each.standing == "undecided"]:
        needed = [each.iterations_needed for each in undecided]
        most = None if None in needed else max(filter(None, needed))
        iterations = format_count(min(each.result.blocks for each in undecided), "iteration")
        yield (
            f"Undecided: {len(undecided)} {of_all}. {iterations} would be enough for a single "
            f"comparison, but not for {sharing.compared} (Holm's correction). "
            f"{capitalised(enough(most))} would decide all."
        )


def _not_settled(sharing: Sharing, where: _Where) -> str:
    count = len(sharing.not_settled)
    worst = max(sharing.not_settled, key=lambda settling: settling.enough_s or 0.0)
    runs, have = "run" if sharing.valid == 1 else "runs", "has" if count == 1 else "have"
    places = list(dict.fromkeys(filter(None, map(where, sharing.unsettled_places))))
    at = f", {' and '.join(places)}," if 0 < len(places) <= MOST_PLACES else ""
    return (
        f"{count} of {sharing.valid} valid {runs}{at} {have} not settled: longer ones may have "
        f"other goodputs and shares. {'It is' if count == 1 else 'One is'} "
        f"{settling_sentence(worst)}."
    )


def _details(
    comparisons: Sequence[Comparison], where: _Where
) -> Iterator[tuple[str, tuple[str, ...]]]:
    by_place: dict[str, list[str]] = {}
    for each in comparisons:
        by_place.setdefault(where(each.place), []).append(f"{_effect(each, with_p=True)}.")
    for place, sentences in by_place.items():
        yield beginning(place) or "All runs", tuple(sentences)


def _of(count: int, every: int) -> str:
    if count == every:
        return "both conditions" if every == 2 else f"all {every} conditions"
    return f"{count} of {every} conditions"
