"""Answers in a few sentences what a campaign shows, then with one sentence for each comparison."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ccmix.analysis.effects import CLOSE, SettingLine, side_of
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.place_settings import HOST_DELAYS, OF_KEYS, swept_text
from ccmix.analysis.settling_text import sentence
from ccmix.analysis.sharing import Alone, Beside, SharedPlace, Sharing, Single
from ccmix.model import HostPath, Topology
from ccmix.report.effects_text import settings_sentences
from ccmix.report.place_text import beginning, phrases
from ccmix.units import format_count, format_percent, format_rate

ONE = "1"  # a ratio that is 1 in its three digits
MOST_NAMED = 3  # pairs of CCAs, or mixes, in the first paragraph
MOST_PLACES = 2  # conditions of one kind that are named each


@dataclass(frozen=True)
class Answer:
    """Holds the sentences of an answer."""

    paragraph: tuple[str, ...]  # the most important ones
    settings: tuple[tuple[str, str], ...]  # the name of each setting that differs, and what it does
    runs: str  # how many are left out, and why
    warnings: tuple[str, ...]  # where iterations are too few, and how many would do
    details: tuple[tuple[str, tuple[str, ...]], ...]  # a heading for each place, and its sentences
    ranges: tuple[str, ...] = ()  # which conditions are one range, since they differ only in what is not known


def answer(
    sharing: Sharing, lines: Sequence[SettingLine] = (), ranges: Iterable[str] = (), paths: Iterable[str] = ()
) -> Answer:
    """Returns the answer from all comparisons or, without any, the largest and the smallest goodput.

    `lines` are those of the settings that differ, `ranges` the sentences on conditions that are one range, `paths`
    those on paths that runs measured.
    """
    where = _Where(sharing)
    paragraph = [*paths, *_alone(sharing.alone, where), *_beside(sharing.beside, where)]
    return Answer(
        paragraph=tuple(paragraph or _extremes(sharing.singles, where)),
        settings=tuple(settings_sentences(lines)),
        runs=_runs(sharing),
        warnings=tuple(_warnings(sharing, where)),
        details=tuple(_details(sharing, where)),
        ranges=tuple(ranges),
    )


class _Where:
    """Names places by what differs between places: 'with 0.1% loss at a base RTT of 88 ms'."""

    def __init__(self, sharing: Sharing) -> None:
        places = [single.place for single in sharing.singles]  # all that have a valid run
        self._several_ends = len({place.dst for place in places}) > 1
        self._several_paths = len({place.name for place in places}) > 1

    def __call__(self, place: SharedPlace) -> str:
        return phrases(_swept(place), **self._front(place))

    def of_all(self, places: Sequence[SharedPlace], every: Sequence[SharedPlace]) -> str:
        """Names each of few places, or what they have in common and none of the others has; '' if that's nothing."""
        first, *more = places
        common = [each for each in _swept(first) if all(each in _swept(place) for place in more)]
        alike = [place for place in every if all(each in _swept(place) for each in common)]
        front = self._front(first)
        if more and common and len(alike) == len(places) and all(self._front(place) == front for place in every):
            return phrases(common, **front)
        names = list(map(self, places))
        return ", and ".join(names) if len(names) <= MOST_PLACES and all(names) else ""

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


def _alone(comparisons: Sequence[Alone], where: _Where) -> Iterable[str]:
    """Yields a sentence for each CCA against its baseline: where they differ most, and what holds elsewhere."""
    pairs = list(dict.fromkeys((comparison.cca, comparison.baseline) for comparison in comparisons))
    for cca, baseline in pairs[:MOST_NAMED]:
        of_pair = [each for each in comparisons if (each.cca, each.baseline) == (cca, baseline)]
        yield _pair(cca, baseline, of_pair, where)
    if len(pairs) > MOST_NAMED:
        yield f"{len(pairs) - MOST_NAMED} more CCAs are compared below."


def _pair(cca: str, baseline: str, comparisons: Sequence[Alone], where: _Where) -> str:
    seen = [comparison for comparison in comparisons if comparison.seen and comparison.ratio]
    if not seen:
        ratios = _factors(comparisons)
        than = _times_of(ratios, f"{baseline}'s")
        mean = f": its mean goodput is {than} ({format_count(len(comparisons), 'condition')})" if ratios else ""
        return f"Alone on the path, {cca} and {baseline} show no significant difference{mean}."
    most = max(seen, key=_apart)
    rest = [comparison for comparison in comparisons if comparison is not most]
    if _apart(most) < math.log1p(CLOSE) and (apart := _within(comparisons)):
        return f"Alone on the path, {cca} and {baseline} carry much the same: they are within {apart}."
    carried = f"{_carries(most)} ({_rates(most)}{_interval(most)})"
    return f"{beginning(where(most.place), f'{cca} alone carries {carried}')}{_elsewhere(rest, where)}."


def _apart(comparison: Alone) -> float:
    return abs(math.log(comparison.ratio.value)) if comparison.ratio and comparison.ratio.value > 0 else math.inf


def _within(comparisons: Sequence[Alone]) -> str:
    """Returns '1.4% of each other (3 conditions)', or nothing if some are further apart than CLOSE."""
    distances = (abs(each.ratio.value - 1) if each.ratio else math.inf for each in comparisons)
    apart = max(distances, default=math.inf)
    return f"{apart * 100:.2g}% of each other ({format_count(len(comparisons), 'condition')})" if apart < CLOSE else ""


def _elsewhere(comparisons: Sequence[Alone], where: _Where) -> str:
    """Says in which other conditions it is more or less, by how much, and in how many there is no difference."""
    if not comparisons:
        return ""
    if apart := _within(comparisons):
        return f"; elsewhere they are within {apart}"
    kinds: dict[str, list[Alone]] = {
        "more": [each for each in comparisons if each.seen and each.result.difference > 0],
        "less": [each for each in comparisons if each.seen and each.result.difference < 0],
        "no significant difference": [each for each in comparisons if not each.seen],
    }
    clauses = []
    every = [each.place for each in comparisons]
    for than, some in kinds.items():
        if some:
            named = where.of_all([each.place for each in some], every)
            ratios = "" if than == "no significant difference" else _by_how_much(some)
            details = ", ".join(filter(None, (ratios, named)))
            clauses.append(f"{than} in {len(some)}" + (f" ({details})" if details else ""))
    return f"; of {len(comparisons)} other condition{'s' * (len(comparisons) > 1)}, {', '.join(clauses)}"


def _by_how_much(comparisons: Sequence[Alone]) -> str:
    ratios = _factors(comparisons)
    return "by less than 0.5%" if ratios == ONE else f"{ratios} times"


def _factors(comparisons: Sequence[Alone]) -> str:
    ratios = [comparison.ratio.value for comparison in comparisons if comparison.ratio]
    return " to ".join(dict.fromkeys(_times(ratio) for ratio in (min(ratios), max(ratios)))) if ratios else ""


def _carries(comparison: Alone) -> str:
    assert comparison.ratio
    return _times_of(_times(comparison.ratio.value), f"{comparison.baseline}'s goodput")


def _times_of(ratios: str, goodput: str) -> str:
    return f"{goodput} to three digits" if ratios == ONE else f"{ratios} times {goodput}"


def _rates(comparison: Alone) -> str:
    return f"{format_rate(comparison.mean_bps)} against {format_rate(comparison.result.baseline_mean)}"


def _interval(comparison: Alone) -> str:
    if not comparison.ratio or not comparison.ratio.interval:
        return ""
    low, high = comparison.ratio.interval
    return f", 95% CI {_times(low)} to {_times(high)}"


def _beside(comparisons: Sequence[Beside], where: _Where) -> Iterable[str]:
    """Yields a sentence for each mix: in how many conditions a group has more or less than its fair share."""
    mixes = list(dict.fromkeys((each.group, each.streams, each.others) for each in comparisons))
    for mix in mixes[:MOST_NAMED]:
        yield _mix([each for each in comparisons if (each.group, each.streams, each.others) == mix], where)
    if len(mixes) > MOST_NAMED:
        yield f"{len(mixes) - MOST_NAMED} more groups in mixes are described below."


def _mix(comparisons: Sequence[Beside], where: _Where) -> str:
    first = comparisons[0]
    take, their = ("takes", "its") if first.streams == 1 else ("take", "their")
    who = f"Beside {_others(first)}, {format_count(first.streams, 'flow')} of {first.group}"
    if not any(comparison.seen for comparison in comparisons):
        shares = _range([comparison.share for comparison in comparisons])
        return (
            f"{who} {take} {shares} of the goodput where {_percent(first.fair_share)} would be fair: "
            "no significant difference."
        )
    kinds = {
        f"{take} more than {their} fair share": [each for each in comparisons if _side(each) > 0],
        f"{take} less than {their} fair share": [each for each in comparisons if _side(each) < 0],
        f"{take} about {their} fair share": [each for each in comparisons if each.seen and not _side(each)],
        f"{'shows' if first.streams == 1 else 'show'} no significant difference": [
            each for each in comparisons if not each.seen
        ],
    }
    (what, some), *others = [(what, some) for what, some in kinds.items() if some]
    fair = f" of the goodput, {_percent(first.fair_share)}," if what.endswith("share") else ""
    clauses = [f"{what}{fair} in {_of(len(some), len(comparisons))}: {_shares(some, comparisons, where)}"]
    clauses += [f"{what} in {len(some)}: {_shares(some, comparisons, where)}" for what, some in others]
    return f"{who} {'; '.join(clauses)}."


def _side(comparison: Beside) -> int:
    return side_of(comparison.share, comparison.fair_share, comparison.seen)


def _shares(comparisons: Sequence[Beside], every: Sequence[Beside], where: _Where) -> str:
    """Returns the share in each condition if they are few, else the least and the most."""
    if len(every) == 1:
        return _share(every[0])
    least = min(comparisons, key=lambda comparison: comparison.share)
    most = max(comparisons, key=lambda comparison: comparison.share)
    if len(comparisons) > 1:
        common = where.of_all([each.place for each in comparisons], [each.place for each in every])
        if common and (len(comparisons) > MOST_PLACES or ", and " not in common):
            return f"{_range([least.share, most.share])} {common}"
    if len(comparisons) > MOST_PLACES:
        return f"from {_at(least, where)} to {_at(most, where)}"
    return ", and ".join(_at(comparison, where) for comparison in comparisons)


def _at(comparison: Beside, where: _Where) -> str:
    return " ".join(filter(None, (_percent(comparison.share), where(comparison.place))))


def _others(comparison: Beside) -> str:
    return " and ".join(f"{format_count(streams, 'flow')} of {name}" for name, streams in comparison.others)


def _share(comparison: Beside) -> str:
    interval = f", 95% CI {_percents(comparison.interval)}" if comparison.interval else ""
    return _percent(comparison.share) + interval


def _extremes(singles: Sequence[Single], where: _Where) -> Iterable[str]:
    """Yields the largest and the smallest goodput, for campaigns with nothing to compare."""
    if not singles:
        yield "No run is valid: what their goodput means is below."
        return
    most = max(singles, key=lambda single: single.goodput_bps.mean)
    least = min(singles, key=lambda single: single.goodput_bps.mean)
    if most is least:
        yield f"{_goodput(most, where)}."
    else:
        yield f"Most goodput: {_goodput(most, where)}. Least: {_goodput(least, where)}."


def _goodput(single: Single, where: _Where) -> str:
    mean, interval = single.goodput_bps.mean, single.goodput_bps.ci95
    interval_text = f", 95% CI {format_rate(interval[0])} to {format_rate(interval[1])}" if interval else ""
    place = f" {where(single.place)}" if where(single.place) else ""
    return f"{single.entry} ({', '.join(single.names)}) carries {format_rate(mean)}{place}{interval_text}"


def _runs(sharing: Sharing) -> str:
    were = "run was" if sharing.imported == 1 else "runs were"
    imported = f" {sharing.imported} {were} imported: ccmix did not check whether their hosts limited them." * (
        sharing.imported > 0
    )
    if not sharing.left_out:
        return imported.strip() or (
            "The only run is valid." if sharing.runs == 1 else f"All {sharing.runs} runs are valid."
        )
    why = ", ".join(f"{count} by {kind}" for kind, count in sharing.left_out)
    out = sharing.runs - sharing.valid
    be = "is" if out == 1 else "are"
    return f"{out} of {sharing.runs} runs {be} left out of all means because of findings: {why}.{imported}"


def _warnings(sharing: Sharing, where: _Where) -> Iterable[str]:
    if sharing.not_settled:
        yield _not_settled(sharing, where)
    every: list[Alone | Beside] = [*sharing.alone, *sharing.beside]
    if alike := sum(comparison.result.alike for comparison in every):
        yield (
            f"{_comparisons(alike, len(every), 'is', 'are')} of iterations that are all alike, "
            "as happens where nothing is random: each is one observation, without an interval and a test."
        )
    if untested := sum(comparison.p_adjusted is None and not comparison.result.alike for comparison in every):
        yield (
            f"{_comparisons(untested, len(every), 'has', 'have')} fewer than {LEAST_FOR_INTERVAL} iterations with "
            f"valid runs: {'it has' if untested == 1 else 'they have'} no interval and no test. "
            f"Run at least {LEAST_FOR_INTERVAL} iterations."
        )
    undecided = [comparison for comparison in every if comparison.p_adjusted is not None and not comparison.seen]
    if undecided:
        needed = [comparison.result.iterations_needed for comparison in undecided]
        known = [count for count in needed if count is not None]
        would = f"about {max(known)} would do" if len(known) == len(needed) else "not even 10,000 would do"
        few = min(comparison.result.blocks for comparison in undecided)
        yield (
            f"{_comparisons(len(undecided), len(every), 'shows', 'show')} no significant difference with "
            f"{few} iterations; to detect one of the size that was measured, {would}."
        )


def _comparisons(count: int, every: int, verb: str, verb_of_many: str) -> str:
    """Returns '2 of 8 comparisons have'; of one, 'The only comparison has'."""
    if every == 1:
        return f"The only comparison {verb}"
    return f"{count} of {every} comparisons {verb if count == 1 else verb_of_many}"


def _not_settled(sharing: Sharing, where: _Where) -> str:
    count = len(sharing.not_settled)
    worst = max(sharing.not_settled, key=lambda settling: settling.enough_s or 0.0)
    runs, have = "run" if sharing.valid == 1 else "runs", "has" if count == 1 else "have"
    places = list(dict.fromkeys(filter(None, map(where, sharing.unsettled_places))))
    at = f", {' and '.join(places)}," if 0 < len(places) <= MOST_PLACES else ""
    return (
        f"{count} of {sharing.valid} valid {runs}{at} {have} not settled: longer ones may have other goodputs and "
        f"shares. {'It is' if count == 1 else 'One is'} {sentence(worst)}."
    )


def _details(sharing: Sharing, where: _Where) -> Iterable[tuple[str, tuple[str, ...]]]:
    by_place: dict[str, list[str]] = {}
    for alone in sharing.alone:
        by_place.setdefault(where(alone.place), []).append(_alone_detail(alone))
    for beside in sharing.beside:
        by_place.setdefault(where(beside.place), []).append(_beside_detail(beside))
    for place, sentences in by_place.items():
        yield beginning(place) or "All runs", tuple(sentences)


def _alone_detail(comparison: Alone) -> str:
    ratio = _carries(comparison) if comparison.ratio else f"as much as {comparison.baseline} at best"
    sentence = f"Alone, {comparison.cca} carries {ratio} ({_rates(comparison)}{_interval(comparison)})"
    return f"{sentence}; {_verdict(comparison)}."


def _beside_detail(comparison: Beside) -> str:
    sentence = (
        f"Beside {_others(comparison)}, {format_count(comparison.streams, 'flow')} of {comparison.group} "
        f"{'takes' if comparison.streams == 1 else 'take'} {_percent(comparison.share)} of the goodput where "
        f"{_percent(comparison.fair_share)} would be fair"
        + (f" (95% CI {_percents(comparison.interval)})" if comparison.interval else "")
    )
    return f"{sentence}; {_verdict(comparison)}."


def _verdict(comparison: Alone | Beside) -> str:
    """Returns a clause about the test."""
    blocks, needed, p_adjusted = comparison.result.blocks, comparison.result.iterations_needed, comparison.p_adjusted
    if comparison.result.alike:
        return f"one observation: {format_count(blocks, 'iteration')}, all alike"
    if p_adjusted is None:
        return f"too few for a test: {format_count(blocks, 'iteration')}"
    p = "p < 0.001" if p_adjusted < 0.001 else f"p = {p_adjusted:.2g}"
    if comparison.seen:
        return f"{p}, {format_count(blocks, 'iteration')}"
    more = "more than 10,000" if needed is None else f"about {max(needed, blocks + 1)}"
    return f"no significant difference ({p}, {format_count(blocks, 'iteration')}; {more} would do)"


def _of(count: int, every: int) -> str:
    if every == 1:
        return "the one condition"
    if count == every == 2:
        return "both conditions"
    return f"all {every} conditions" if count == every else f"{count} of {every} conditions"


def _times(ratio: float) -> str:
    return f"{ratio:.3g}"


def _percent(share: float) -> str:
    return format_percent(share)


def _percents(interval: tuple[float, float] | None) -> str:
    return " to ".join(map(_percent, interval)) if interval else ""


def _range(shares: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(_percent(share) for share in (min(shares), max(shares))))
