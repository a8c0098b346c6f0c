"""Answers in a few sentences what a campaign shows, then with one sentence for each comparison."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ccmix.analysis import path_text
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.settling_text import sentence
from ccmix.analysis.sharing import Alone, Beside, SharedPlace, Sharing, Single
from ccmix.model import HostPath
from ccmix.units import format_percent, format_rate, format_time

ALIKE = 0.05  # share of the baseline's goodput: closer means are said to be within some per cent, others so many times
DELAYS = ("delay", "lat-sweep", "netem-lat")  # swept keys that are written as a base RTT
ONE = "1"  # a ratio that is 1 in its three digits
MOST_NAMED = 3  # pairs of CCAs, or mixes, in the first paragraph


@dataclass(frozen=True)
class Answer:
    """Holds the sentences of an answer."""

    paragraph: tuple[str, ...]  # the most important ones
    runs: str  # how many are left out, and why
    warnings: tuple[str, ...]  # where iterations are too few, and how many would do
    details: tuple[tuple[str, tuple[str, ...]], ...]  # a heading for each place, and its sentences


def answer(sharing: Sharing) -> Answer:
    """Returns the answer from all comparisons or, without any, the largest and the smallest goodput."""
    where = _names_of_places(sharing)
    paragraph = [*_alone(sharing.alone, where), *_beside(sharing.beside, where)]
    return Answer(
        paragraph=tuple(paragraph or _extremes(sharing.singles, where)),
        runs=_runs(sharing),
        warnings=tuple(_warnings(sharing)),
        details=tuple(_details(sharing, where)),
    )


Where = Callable[[SharedPlace], str]


def _names_of_places(sharing: Sharing) -> Where:
    """Returns a function that names a place by what differs between places: 'with 0.1% loss at a base RTT of 88 ms'."""
    places = [single.place for single in sharing.singles]  # all that have a valid run
    several_ends = len({place.dst for place in places}) > 1

    def where(place: SharedPlace) -> str:
        parts = [f"to {place.dst}"] if several_ends and isinstance(place.path, HostPath) else []
        parts += [text for key, value in place.condition if (text := _swept(place, key, value))]
        parts.sort(key=lambda part: part.startswith("at a base RTT"))
        return " ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} {parts[-1]}"

    return where


def _swept(place: SharedPlace, key: str, value: str) -> str:
    if key in DELAYS:
        if isinstance(place.path, HostPath):
            return f"with {format_time(place.path.netem.delay_s)} of netem each way" if place.path.netem else ""
        return f"at a base RTT of {path_text.base_rtts(place.path)}"
    if key == "streams":
        return f"with {value} stream{'' if value == '1' else 's'}"
    return f"with {value} loss" if key == "loss" else f"with {key} {value}"


def _alone(comparisons: Sequence[Alone], where: Where) -> Iterable[str]:
    """Yields a sentence for each CCA against its baseline: where they differ most, and what holds elsewhere."""
    pairs = list(dict.fromkeys((comparison.cca, comparison.baseline) for comparison in comparisons))
    for cca, baseline in pairs[:MOST_NAMED]:
        of_pair = [each for each in comparisons if (each.cca, each.baseline) == (cca, baseline)]
        yield _pair(cca, baseline, of_pair, where)
    if len(pairs) > MOST_NAMED:
        yield f"{len(pairs) - MOST_NAMED} more CCAs are compared below."


def _pair(cca: str, baseline: str, comparisons: Sequence[Alone], where: Where) -> str:
    seen = [comparison for comparison in comparisons if comparison.seen and comparison.ratio]
    if not seen:
        ratios = _factors(comparisons)
        than = _times_of(ratios, f"{baseline}'s")
        mean = f": its mean goodput is {than} ({_conditions(len(comparisons))})" if ratios else ""
        return f"Alone on the path, {cca} and {baseline} show no significant difference{mean}."
    most = max(seen, key=_apart)
    rest = [comparison for comparison in comparisons if comparison is not most]
    if _apart(most) < math.log1p(ALIKE) and (apart := _within(comparisons)):
        return f"Alone on the path, {cca} and {baseline} carry much the same: they are within {apart}."
    carried = f"{_carries(most)} ({_rates(most)}{_interval(most)})"
    return f"{_sentence(where(most.place), f'{cca} alone carries {carried}')}{_elsewhere(rest)}."


def _apart(comparison: Alone) -> float:
    return abs(math.log(comparison.ratio.value)) if comparison.ratio and comparison.ratio.value > 0 else math.inf


def _within(comparisons: Sequence[Alone]) -> str:
    """Returns '1.4% of each other (3 conditions)', or nothing if some are further apart than ALIKE."""
    distances = (abs(each.ratio.value - 1) if each.ratio else math.inf for each in comparisons)
    apart = max(distances, default=math.inf)
    return f"{apart * 100:.2g}% of each other ({_conditions(len(comparisons))})" if apart < ALIKE else ""


def _elsewhere(comparisons: Sequence[Alone]) -> str:
    """Says in how many other conditions it is more or less, by how much, and in how many there is no difference."""
    if not comparisons:
        return ""
    if apart := _within(comparisons):
        return f"; elsewhere they are within {apart}"
    more = [each for each in comparisons if each.seen and each.result.difference > 0]
    less = [each for each in comparisons if each.seen and each.result.difference < 0]
    clauses = [
        f"{than} in {len(some)} ({'by less than 0.5%' if (ratios := _factors(some)) == ONE else f'{ratios} times'})"
        for than, some in (("more", more), ("less", less))
        if some
    ]
    if unseen := len(comparisons) - len(more) - len(less):
        clauses.append(f"no significant difference in {unseen}")
    return f"; of {len(comparisons)} other condition{'s' * (len(comparisons) > 1)}, {', '.join(clauses)}"


def _factors(comparisons: Sequence[Alone]) -> str:
    ratios = [comparison.ratio.value for comparison in comparisons if comparison.ratio]
    return " to ".join(dict.fromkeys(_times(ratio) for ratio in (min(ratios), max(ratios)))) if ratios else ""


def _conditions(count: int) -> str:
    return f"{count} condition{'' if count == 1 else 's'}"


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


def _beside(comparisons: Sequence[Beside], where: Where) -> Iterable[str]:
    """Yields a sentence for each mix: in how many conditions a group has more or less than its fair share."""
    mixes = list(dict.fromkeys((each.group, each.streams, each.others) for each in comparisons))
    for mix in mixes[:MOST_NAMED]:
        yield _mix([each for each in comparisons if (each.group, each.streams, each.others) == mix], where)
    if len(mixes) > MOST_NAMED:
        yield f"{len(mixes) - MOST_NAMED} more groups in mixes are described below."


def _mix(comparisons: Sequence[Beside], where: Where) -> str:
    first = comparisons[0]
    who = f"Beside {_others(first)}, {_flows(first.streams)} of {first.group}"
    more = [each for each in comparisons if each.seen and each.share > each.fair_share]
    less = [each for each in comparisons if each.seen and each.share < each.fair_share]
    clauses = [
        f"take {than} than their fair share in {_of(len(some), len(comparisons))}, "
        f"{_range([each.share for each in some])} of the goodput where {_percent(first.fair_share)} would be fair"
        for than, some in (("more", more), ("less", less))
        if some
    ]
    if not clauses:
        shares = _range([comparison.share for comparison in comparisons])
        return (
            f"{who} take {shares} of the goodput where {_percent(first.fair_share)} would be fair: "
            "no significant difference."
        )
    most = max((*more, *less), key=lambda comparison: abs(comparison.share - comparison.fair_share))
    example = f" (farthest {where(most.place)}: {_share(most)})" if len(comparisons) > 1 and where(most.place) else ""
    if len(comparisons) == 1:
        example = f" (95% CI {_percents(most.interval)})" if most.interval else ""
    return f"{who} {' and '.join(clauses)}{example}."


def _others(comparison: Beside) -> str:
    return " and ".join(f"{_flows(streams)} of {name}" for name, streams in comparison.others)


def _flows(count: int) -> str:
    return f"{count} flow{'' if count == 1 else 's'}"


def _share(comparison: Beside) -> str:
    interval = f", 95% CI {_percents(comparison.interval)}" if comparison.interval else ""
    return _percent(comparison.share) + interval


def _extremes(singles: Sequence[Single], where: Where) -> Iterable[str]:
    """Yields the largest and the smallest goodput, for campaigns with nothing to compare."""
    if not singles:
        yield "No run is valid, so there is no result."
        return
    most = max(singles, key=lambda single: single.goodput_bps.mean)
    least = min(singles, key=lambda single: single.goodput_bps.mean)
    if most is least:
        yield f"{_goodput(most, where)}."
    else:
        yield f"Most goodput: {_goodput(most, where)}. Least: {_goodput(least, where)}."


def _goodput(single: Single, where: Where) -> str:
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
    return f"{out} of {sharing.runs} runs {be} left out of all numbers because of findings: {why}.{imported}"


def _warnings(sharing: Sharing) -> Iterable[str]:
    if sharing.not_settled:
        yield _not_settled(sharing)
    every: list[Alone | Beside] = [*sharing.alone, *sharing.beside]
    if alike := sum(comparison.result.alike for comparison in every):
        yield (
            f"{alike} of {len(every)} comparisons {'is' if alike == 1 else 'are'} of iterations that are all alike, "
            "as happens where nothing is random: each is one observation, without an interval and a test."
        )
    if untested := sum(comparison.p_adjusted is None and not comparison.result.alike for comparison in every):
        yield (
            f"{untested} of {len(every)} comparisons have fewer than {LEAST_FOR_INTERVAL} iterations with valid runs: "
            f"they have no interval and no test. Run at least {LEAST_FOR_INTERVAL} iterations."
        )
    undecided = [comparison for comparison in every if comparison.p_adjusted is not None and not comparison.seen]
    if undecided:
        needed = [comparison.result.iterations_needed for comparison in undecided]
        known = [count for count in needed if count is not None]
        would = f"about {max(known)} would do" if len(known) == len(needed) else "not even 10,000 would do"
        few = min(comparison.result.blocks for comparison in undecided)
        yield (
            f"{len(undecided)} of {len(every)} comparisons show no significant difference with {few} iterations; "
            f"to detect one of the size that was measured, {would}."
        )


def _not_settled(sharing: Sharing) -> str:
    count = len(sharing.not_settled)
    worst = max(sharing.not_settled, key=lambda settling: settling.enough_s or 0.0)
    runs, have = "run" if sharing.valid == 1 else "runs", "has" if count == 1 else "have"
    return (
        f"{count} of {sharing.valid} valid {runs} {have} not settled: longer ones may have other goodputs and shares. "
        f"{'It is' if count == 1 else 'One is'} {sentence(worst)}."
    )


def _details(sharing: Sharing, where: Where) -> Iterable[tuple[str, tuple[str, ...]]]:
    by_place: dict[str, list[str]] = {}
    for alone in sharing.alone:
        by_place.setdefault(where(alone.place), []).append(_alone_detail(alone))
    for beside in sharing.beside:
        by_place.setdefault(where(beside.place), []).append(_beside_detail(beside))
    for place, sentences in by_place.items():
        yield _sentence(place) or "All runs", tuple(sentences)


def _alone_detail(comparison: Alone) -> str:
    ratio = _carries(comparison) if comparison.ratio else f"as much as {comparison.baseline} at best"
    sentence = f"Alone, {comparison.cca} carries {ratio} ({_rates(comparison)}{_interval(comparison)})"
    return f"{sentence}; {_verdict(comparison)}."


def _beside_detail(comparison: Beside) -> str:
    sentence = (
        f"Beside {_others(comparison)}, {_flows(comparison.streams)} of {comparison.group} "
        f"take {_percent(comparison.share)} of the goodput where "
        f"{_percent(comparison.fair_share)} would be fair"
        + (f" (95% CI {_percents(comparison.interval)})" if comparison.interval else "")
    )
    return f"{sentence}; {_verdict(comparison)}."


def _verdict(comparison: Alone | Beside) -> str:
    """Returns a clause about the test."""
    blocks, needed, p_adjusted = comparison.result.blocks, comparison.result.iterations_needed, comparison.p_adjusted
    if comparison.result.alike:
        return f"one observation: {_iterations(blocks)}, all alike"
    if p_adjusted is None:
        return f"too few for a test: {_iterations(blocks)}"
    p = "p < 0.001" if p_adjusted < 0.001 else f"p = {p_adjusted:.2g}"
    if comparison.seen:
        return f"{p}, {_iterations(blocks)}"
    more = "more than 10,000" if needed is None else f"about {max(needed, blocks + 1)}"
    return f"no significant difference ({p}, {_iterations(blocks)}; {more} would do)"


def _iterations(count: int) -> str:
    return f"{count} iteration{'' if count == 1 else 's'}"


def _sentence(where: str, rest: str = "") -> str:
    """Returns 'With 0.1% loss, bbr ...', or the rest as it is without a place."""
    if not where:
        return rest
    return where[0].upper() + where[1:] + (f", {rest}" if rest else "")


def _of(count: int, every: int) -> str:
    if every == 1:
        return "the one condition"
    return f"all {every} conditions" if count == every else f"{count} of {every} conditions"


def _times(ratio: float) -> str:
    return f"{ratio:.3g}"


def _percent(share: float) -> str:
    return format_percent(share)


def _percents(interval: tuple[float, float] | None) -> str:
    return " to ".join(map(_percent, interval)) if interval else ""


def _range(shares: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(_percent(share) for share in (min(shares), max(shares))))
