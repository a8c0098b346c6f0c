"""What a campaign says, in words: few sentences that answer, then one for each comparison. Pure."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.sharing import Alone, Beside, Place, Sharing, Single
from ccmix.model import HostPath
from ccmix.report import words
from ccmix.units import format_percent, format_rate, format_time

ALIKE = 0.05  # of the baseline's goodput: what is called within a few per cent, and not so many times
DELAYS = ("delay", "lat-sweep", "netem-lat")  # swept keys that are told as a base RTT
ONE = "1"  # a ratio that is 1 in its three digits
MOST_NAMED = 3  # pairs of CCAs, or mixes, in the first paragraph


@dataclass(frozen=True)
class Answer:
    """Sentences for people."""

    paragraph: tuple[str, ...]  # the most telling ones
    runs: str  # how many are left out, and why
    warnings: tuple[str, ...]  # where iterations are too few, and how many would do
    details: tuple[tuple[str, tuple[str, ...]], ...]  # a heading for each place, and what was seen there


def answer(found: Sharing) -> Answer:
    """Of all that was compared; where nothing could be, the largest and the smallest goodput."""
    where = _names_of_places(found)
    paragraph = [*_alone(found.alone, where), *_beside(found.beside, where)]
    return Answer(
        paragraph=tuple(paragraph or _extremes(found.singles, where)),
        runs=_runs(found),
        warnings=tuple(_warnings(found)),
        details=tuple(_details(found, where)),
    )


Where = Callable[[Place], str]


def _names_of_places(found: Sharing) -> Where:
    """A place by what differs between those of the campaigns: 'with 0.1% loss at a base RTT of 88 ms'."""
    places = [single.place for single in found.singles]  # all that have a valid run
    several_ends = len({place.dst for place in places}) > 1

    def where(place: Place) -> str:
        parts = [f"to {place.dst}"] if several_ends and isinstance(place.path, HostPath) else []
        parts += [text for key, value in place.condition if (text := _swept(place, key, value))]
        parts.sort(key=lambda part: part.startswith("at a base RTT"))
        return " ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} {parts[-1]}"

    return where


def _swept(place: Place, key: str, value: str) -> str:
    if key in DELAYS:
        if isinstance(place.path, HostPath):
            return f"with {format_time(place.path.netem.delay_s)} of netem each way" if place.path.netem else ""
        return f"at a base RTT of {words.base_rtts(place.path)}"
    if key == "streams":
        return f"with {value} stream{'' if value == '1' else 's'}"
    return f"with {value} loss" if key == "loss" else f"with {key} {value}"


def _alone(found: Sequence[Alone], where: Where) -> Iterable[str]:
    """A sentence for each CCA against its baseline: where they differ most, and how it is elsewhere."""
    pairs = list(dict.fromkeys((one.cca, one.baseline) for one in found))
    for cca, baseline in pairs[:MOST_NAMED]:
        yield _pair(cca, baseline, [one for one in found if (one.cca, one.baseline) == (cca, baseline)], where)
    if len(pairs) > MOST_NAMED:
        yield f"{len(pairs) - MOST_NAMED} more CCAs are compared below."


def _pair(cca: str, baseline: str, found: Sequence[Alone], where: Where) -> str:
    seen = [one for one in found if one.seen and one.ratio]
    if not seen:
        ratios = _factors(found)
        than = "to three digits" if ratios == ONE else f"{ratios} times"
        told = f": its mean goodput is {than} {baseline}'s ({_conditions(len(found))})" if ratios else ""
        return f"Alone on the path, no difference between {cca} and {baseline} can be told{told}."
    most = max(seen, key=_apart)
    rest = [one for one in found if one is not most]
    if _apart(most) < math.log1p(ALIKE) and (apart := _within(found)):
        return f"Alone on the path, {cca} and {baseline} carry much the same: they are within {apart}."
    told = f"{_carries(most)} ({_rates(most)}{_interval(most)})"
    return f"{_sentence(where(most.place), f'{cca} alone carries {told}')}{_elsewhere(rest)}."


def _apart(one: Alone) -> float:
    return abs(math.log(one.ratio.value)) if one.ratio and one.ratio.value > 0 else math.inf


def _within(found: Sequence[Alone]) -> str:
    """'1.4% of each other (3 conditions)'; nothing where some are further apart than ALIKE."""
    apart = max((abs(one.ratio.value - 1) if one.ratio else math.inf for one in found), default=math.inf)
    return f"{apart * 100:.2g}% of each other ({_conditions(len(found))})" if apart < ALIKE else ""


def _elsewhere(found: Sequence[Alone]) -> str:
    """In how many other conditions it is more or less, by how much, and in how many nothing can be told."""
    if not found:
        return ""
    if apart := _within(found):
        return f"; elsewhere they are within {apart}"
    more = [one for one in found if one.seen and one.result.difference > 0]
    less = [one for one in found if one.seen and one.result.difference < 0]
    told = [
        f"{than} in {len(some)} ({'by less than 0.5%' if (ratios := _factors(some)) == ONE else f'{ratios} times'})"
        for than, some in (("more", more), ("less", less))
        if some
    ]
    if unseen := len(found) - len(more) - len(less):
        told.append(f"no difference can be told in {unseen}")
    return f"; of {len(found)} other condition{'s' * (len(found) > 1)}, {', '.join(told)}"


def _factors(found: Sequence[Alone]) -> str:
    ratios = [one.ratio.value for one in found if one.ratio]
    return " to ".join(dict.fromkeys(_times(ratio) for ratio in (min(ratios), max(ratios)))) if ratios else ""


def _conditions(count: int) -> str:
    return f"{count} condition{'' if count == 1 else 's'}"


def _carries(one: Alone) -> str:
    assert one.ratio
    ratio = _times(one.ratio.value)
    return f"{'to three digits' if ratio == ONE else f'{ratio} times'} {one.baseline}'s goodput"


def _rates(one: Alone) -> str:
    return f"{format_rate(one.mean_bps)} against {format_rate(one.result.baseline_mean)}"


def _interval(one: Alone) -> str:
    if not one.ratio or not one.ratio.interval:
        return ""
    low, high = one.ratio.interval
    return f", 95% CI {_times(low)} to {_times(high)}"


def _beside(found: Sequence[Beside], where: Where) -> Iterable[str]:
    """A sentence for each mix: in how many conditions a group has more or less than its fair share."""
    mixes = list(dict.fromkeys((one.group, one.streams, one.others) for one in found))
    for mix in mixes[:MOST_NAMED]:
        yield _mix([one for one in found if (one.group, one.streams, one.others) == mix], where)
    if len(mixes) > MOST_NAMED:
        yield f"{len(mixes) - MOST_NAMED} more groups in mixes are described below."


def _mix(found: Sequence[Beside], where: Where) -> str:
    first = found[0]
    who = f"Beside {_others(first)}, {_flows(first.streams)} of {first.group}"
    more = [one for one in found if one.seen and one.share > one.fair_share]
    less = [one for one in found if one.seen and one.share < one.fair_share]
    told = [
        f"take {than} than their fair share in {_of(len(some), len(found))}, "
        f"{_range([one.share for one in some])} of the goodput where {_percent(first.fair_share)} would be fair"
        for than, some in (("more", more), ("less", less))
        if some
    ]
    if not told:
        shares = _range([one.share for one in found])
        return (
            f"{who} take {shares} of the goodput where {_percent(first.fair_share)} would be fair: "
            "no difference can be told."
        )
    most = max((*more, *less), key=lambda one: abs(one.share - one.fair_share))
    example = f" (farthest {where(most.place)}: {_share(most)})" if len(found) > 1 and where(most.place) else ""
    if len(found) == 1:
        example = f" (95% CI {_percents(most.interval)})" if most.interval else ""
    return f"{who} {' and '.join(told)}{example}."


def _others(one: Beside) -> str:
    return " and ".join(f"{_flows(streams)} of {name}" for name, streams in one.others)


def _flows(count: int) -> str:
    return f"{count} flow{'' if count == 1 else 's'}"


def _share(one: Beside) -> str:
    return f"{_percent(one.share)}, 95% CI {_percents(one.interval)}" if one.interval else _percent(one.share)


def _extremes(found: Sequence[Single], where: Where) -> Iterable[str]:
    """The largest and the smallest goodput, where there is nothing to compare them by."""
    if not found:
        yield "No run is valid, so nothing can be told."
        return
    most = max(found, key=lambda one: one.goodput_bps.mean)
    least = min(found, key=lambda one: one.goodput_bps.mean)
    if most is least:
        yield f"{_goodput(most, where)}."
    else:
        yield f"Most goodput: {_goodput(most, where)}. Least: {_goodput(least, where)}."


def _goodput(one: Single, where: Where) -> str:
    mean, interval = one.goodput_bps.mean, one.goodput_bps.ci95
    told = f", 95% CI {format_rate(interval[0])} to {format_rate(interval[1])}" if interval else ""
    place = f" {where(one.place)}" if where(one.place) else ""
    return f"{one.entry} ({', '.join(one.names)}) carries {format_rate(mean)}{place}{told}"


def _runs(found: Sharing) -> str:
    were = "run was" if found.imported == 1 else "runs were"
    told = f" {found.imported} {were} imported: nobody looked whether their hosts limited them." * (found.imported > 0)
    if not found.left_out:
        return told.strip() or ("The one run is valid." if found.runs == 1 else f"All {found.runs} runs are valid.")
    why = ", ".join(f"{count} by {kind}" for kind, count in found.left_out)
    out = found.runs - found.valid
    be = "is" if out == 1 else "are"
    return f"{out} of {found.runs} runs {be} left out of all numbers, for what their own probes saw: {why}.{told}"


def _warnings(found: Sharing) -> Iterable[str]:
    every: list[Alone | Beside] = [*found.alone, *found.beside]
    if alike := sum(one.result.alike for one in every):
        yield (
            f"{alike} of {len(every)} comparisons {'is' if alike == 1 else 'are'} of iterations that all say the same, "
            "as where nothing random happens: one observation each, of which there is no interval and no test."
        )
    if untested := sum(one.p_adjusted is None and not one.result.alike for one in every):
        yield (
            f"{untested} of {len(every)} comparisons have fewer than {LEAST_FOR_INTERVAL} iterations with valid runs: "
            f"there is no interval and no test. Make at least {LEAST_FOR_INTERVAL} iterations."
        )
    open_ones = [one for one in every if one.p_adjusted is not None and not one.seen]
    if open_ones:
        needed = [one.result.iterations_needed for one in open_ones]
        known = [count for count in needed if count is not None]
        would = f"about {max(known)} would do" if len(known) == len(needed) else "not even 10,000 would do"
        few = min(one.result.blocks for one in open_ones)
        yield (
            f"{len(open_ones)} of {len(every)} comparisons can't tell a difference with {few} iterations; to see one "
            f"of the size that was measured, {would}."
        )


def _details(found: Sharing, where: Where) -> Iterable[tuple[str, tuple[str, ...]]]:
    told: dict[str, list[str]] = {}
    for alone in found.alone:
        told.setdefault(where(alone.place), []).append(_alone_detail(alone))
    for beside in found.beside:
        told.setdefault(where(beside.place), []).append(_beside_detail(beside))
    for place, sentences in told.items():
        yield _sentence(place) or "All runs", tuple(sentences)


def _alone_detail(one: Alone) -> str:
    ratio = _carries(one) if one.ratio else f"as much as {one.baseline} at best"
    told = f"Alone, {one.cca} carries {ratio} ({_rates(one)}{_interval(one)})"
    return f"{told}; {_verdict(one)}."


def _beside_detail(one: Beside) -> str:
    told = (
        f"Beside {_others(one)}, {_flows(one.streams)} of {one.group} take {_percent(one.share)} of the goodput where "
        f"{_percent(one.fair_share)} would be fair" + (f" (95% CI {_percents(one.interval)})" if one.interval else "")
    )
    return f"{told}; {_verdict(one)}."


def _verdict(one: Alone | Beside) -> str:
    """A clause about the test."""
    blocks, needed, p_adjusted = one.result.blocks, one.result.iterations_needed, one.p_adjusted
    if one.result.alike:
        return f"one observation: {_iterations(blocks)}, all alike"
    if p_adjusted is None:
        return f"too few for a test: {_iterations(blocks)}"
    p = "p < 0.001" if p_adjusted < 0.001 else f"p = {p_adjusted:.2g}"
    if one.seen:
        return f"{p}, {_iterations(blocks)}"
    more = "more than 10,000" if needed is None else f"about {max(needed, blocks + 1)}"
    return f"a difference can't be told ({p}, {_iterations(blocks)}; {more} would do)"


def _iterations(count: int) -> str:
    return f"{count} iteration{'' if count == 1 else 's'}"


def _sentence(where: str, rest: str = "") -> str:
    """'With 0.1% loss, bbr ...', or 'Bbr ...' left as it is where there is no place."""
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
