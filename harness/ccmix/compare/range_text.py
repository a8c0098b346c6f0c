"""Says in sentences and tables whether real results lie in ranges that unknown keys leave open.

An unknown key is a swept key whose value on the real path is not known. A range has the results of
emulated conditions that differ only in unknown keys. The text also says which unknown key matters
most.
"""

import math
from collections.abc import Iterator, Sequence

from ccmix.analysis.comparison import MARGIN
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.ranges import KeyEffect, MetricRange
from ccmix.analysis.statistics import shown, shown_mean
from ccmix.compare.groups import WHOLE, ComparedRange, RangeTested
from ccmix.text.words import listed
from ccmix.units import format_count, format_few, format_percent

HEADINGS = ("A", "B", "runs", "group", "metric", "A", "range of B", "best of B", "verdict")
UNKNOWN_HEADINGS = (
    "unknown",
    "A",
    "group",
    "from",
    "to",
    "ratio",
    "of the range",
    "with",
    "chance",
)
MEMBER_HEADINGS = ("B", "group", "metric", "mean of B", "B/A")
MOST_NAMED = 3  # conditions in a sentence
NONE = "–"


def lines(ranges: Sequence[ComparedRange]) -> list[tuple[str, ...]]:
    """Returns the rows of the table of ranges, with the columns HEADINGS. There is a row for each
    condition of A, and in it for each metric of a group (or of the whole run) that was tested
    against the range of B.
    """
    return [_metric_row(compared, tested) for compared in ranges for tested in compared.tested]


def _metric_row(compared: ComparedRange, tested: RangeTested) -> tuple[str, ...]:
    """Returns the cells of a row under HEADINGS: a metric of A, and the range of B."""
    point = tested.b.point
    return (
        compared.a.name,
        compared.b.name,
        f"{tested.a.runs}, {_runs_of_each(tested.b)}",
        tested.group,
        tested.metric,
        shown_mean(tested.metric, tested.a),
        span(tested.metric, tested.b),
        f"{shown(tested.metric, point.sample.mean)} ({point.name})" if point else NONE,
        verdict(tested),
    )


def _runs_of_each(span: MetricRange) -> str:
    """Returns '3 x 5' for a range of 3 conditions with 5 runs each, '3 x 2 to 5' for 2 to 5
    runs.
    """
    counts = sorted(
        {member.sample.count for member in span.members} | ({0} if span.missing else set())
    )
    each = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{len(span.members) + len(span.missing)} x {each}"


def span(metric: str, of_metric: MetricRange) -> str:
    """Returns the ends of a range, in the metric's unit: '343 Mbit/s to 919 Mbit/s'."""
    return f"{shown(metric, max(of_metric.low, 0.0))} to {shown(metric, of_metric.high)}"


def verdict(tested: RangeTested) -> str:
    """Returns the verdict with its reason.

    Examples: 'in the range', 'outside: by 12% above', "can't tell: the mean is in it, A has fewer
    than 3 runs".
    """
    if tested.verdict == "in the range":
        return tested.verdict
    distance = _distance_text(tested)
    if tested.verdict == "outside":
        return f"outside: {distance}"
    return f"can't tell: {distance or 'the mean is in it'}{_why_not_tested(tested)}"


def _distance_text(tested: RangeTested) -> str:
    """Returns how far A's mean is outside, such as 'by 12% above'; '' if it is in the range."""
    if not tested.outside_by:
        return ""
    side = "above" if tested.outside_by > 0 else "below"
    return (
        f"by {format_percent(abs(tested.outside_by))} {side}"
        if math.isfinite(tested.outside_by)
        else f"{side} 0"
    )


def _why_not_tested(tested: RangeTested) -> str:
    """Returns why there is no test, such as ', A has fewer than 3 runs'; '' if there is one."""
    if tested.a_alike:
        return ", all runs of A are alike: one observation"
    if tested.a.runs < LEAST_FOR_INTERVAL:
        return f", A has fewer than {LEAST_FOR_INTERVAL} runs"
    if tested.b.missing:
        return ", conditions of B have no valid run"
    short = [member for member in tested.b.members if not member.testable]
    if any(member.sample.count >= LEAST_FOR_INTERVAL for member in short):
        return ", runs of B are alike: one observation"
    if short:
        return f", conditions of B have fewer than {LEAST_FOR_INTERVAL} runs"
    return ""


def summary(ranges: Sequence[ComparedRange], margin: float = MARGIN) -> str:
    """Counts the conditions of A by verdict, in a sentence for the top of the comparison."""
    verdicts = [compared.verdict for compared in ranges]
    counted = ", ".join(f"{verdicts.count(word)} {word}" for word in ("in the range", "outside"))
    undecided = verdicts.count("can't tell")
    return (
        f"{format_count(len(ranges), 'condition')} of A compared with a range of B over the "
        f"unknown keys of its path ({', '.join(_unknown_keys(ranges))}): goodput {counted}, "
        f"{undecided} undecided (margin ±{format_percent(margin)})"
    )


def _unknown_keys(ranges: Sequence[ComparedRange]) -> list[str]:
    return list(dict.fromkeys(key for compared in ranges for key in compared.b.unknown))


def condition(compared: ComparedRange) -> str:
    """Returns the verdict on a condition of A in one sentence, with the goodput of each group."""
    parts = [
        f"{tested.group}: {verdict(tested)} ({shown(tested.metric, tested.a.mean)}, B "
        f"{span(tested.metric, tested.b)})"
        for tested in compared.goodputs
    ]
    if len(parts) == 1:
        return parts[0].partition(": ")[2]  # without the only group's name
    return f"{compared.verdict}. {'; '.join(parts)}"


def member_lines(compared: ComparedRange) -> list[tuple[str, ...]]:
    """Returns the rows of a table with the columns MEMBER_HEADINGS: for each condition of a range
    and group, its mean and the ratio to A.
    """
    return [
        (
            member.name,
            tested.group,
            tested.metric,
            shown_mean(tested.metric, member.spread),
            f"{member.sample.mean / tested.a.mean:.3f}" if tested.a.mean > 0 else NONE,
        )
        for tested in compared.tested
        for member in tested.b.members
    ]


def effects(ranges: Sequence[ComparedRange]) -> list[tuple[ComparedRange, str, KeyEffect]]:
    """Returns (condition, group, effect) for each unknown key, the largest effect first.

    An unknown key is a swept key whose value on the real path is not known.

    For each key, these are the condition and the group whose goodput it moves most. The goodput of
    the whole run counts only in a condition that has no groups to compare.
    """
    largest: dict[str, tuple[ComparedRange, str, KeyEffect]] = {}
    for compared in ranges:
        groups = [of_group for of_group in compared.effects if of_group.group != WHOLE] or list(
            compared.effects
        )
        for of_group in groups:
            for effect in of_group.effects:
                if effect.key not in largest or effect.order > largest[effect.key][2].order:
                    largest[effect.key] = compared, of_group.group, effect
    return sorted(largest.values(), key=lambda found: found[2].order, reverse=True)


def unknown_lines(ranges: Sequence[ComparedRange]) -> list[tuple[str, ...]]:
    """Returns the rows of a table with the columns UNKNOWN_HEADINGS, the most important first."""
    return [
        (
            effect.key,
            compared.a.name,
            group,
            f"{shown('goodput_bps', effect.low.sample.mean)} ({effect.low_value})",
            f"{shown('goodput_bps', effect.high.sample.mean)} ({effect.high_value})",
            NONE if effect.ratio is None else f"{effect.ratio:.3f}",
            NONE if effect.explains is None else format_percent(effect.explains),
            ", ".join(f"{key}={value}" for key, value in effect.others) or NONE,
            "not tested" if effect.p is None else "no" if effect.seen else "may be",
        )
        for compared, group, effect in effects(ranges)
    ]


def advice(ranges: Sequence[ComparedRange], margin: float = MARGIN) -> Iterator[str]:
    """Yields advice: which unknown keys can't explain the real result, and which one to measure."""
    outside = [compared for compared in ranges if compared.verdict == "outside"]
    if outside:
        named = format_few([compared.a.name for compared in outside], MOST_NAMED)
        yield (
            f"The real result is outside of the range in {len(outside)} of "
            f"{format_count(len(ranges), 'condition')} "
            f"({named}): no value of {listed(_unknown_keys(outside), 'or')} explains it there. "
            "The path differs from B in another property."
        )
    if near := sum(
        compared.verdict == "can't tell"
        and any(
            tested.verdict == "can't tell" and tested.outside_by != 0
            for tested in compared.goodputs
        )
        for compared in ranges
    ):
        yield (
            f"In {format_count(near, 'condition')} the mean of A is outside of the range, and the "
            "runs are too few, or vary too much, to rule out chance."
        )
    if left := [compared for compared in ranges if compared.verdict != "outside"]:
        yield _measurement_advice(left, margin)


def _measurement_advice(ranges: Sequence[ComparedRange], margin: float) -> str:
    """Names the unknown key to measure, or says why that would not narrow the range.

    Example: 'Measure the buffer: between 0.1bdp and 1bdp the goodput of cubic changes 2.67 times'.
    """
    found = effects(ranges)
    if not found:
        return "Each unknown key has only one value: a measurement would not narrow the range."
    compared, group, effect = found[0]
    times = "from 0" if effect.ratio is None else f"{effect.ratio:.3g} times"
    others = ", ".join(f"{key}={value}" for key, value in effect.others)
    changes = (
        f"between {effect.low_value} and {effect.high_value} the goodput of {group} changes "
        f"{times} ({compared.a.name}{f', with {others}' if others else ''})"
    )
    if effect.rank <= 1 + margin:
        return (
            f"No value of {listed(_unknown_keys(ranges), 'or')} moves the goodput by more than "
            f"{format_percent(margin)}, so a measurement would change little. The key {effect.key} "
            f"has the largest effect: {changes}."
        )
    if effect.p is None:
        return (
            f"Measure the {effect.key}: {changes}. This is not tested: a condition of B needs at "
            f"least {LEAST_FOR_INTERVAL} runs that are not all alike."
        )
    if not effect.seen:
        return (
            f"The key {effect.key} has the largest effect: {changes}, which may be chance. More "
            "iterations of B would decide."
        )
    return f"Measure the {effect.key}: {changes}."


def unknown_of_a(keys: Sequence[str]) -> str:
    """Warns if the INI file of A names unknown keys (`keys`), because only the ranges of B are
    compared; '' if it names none.
    """
    if not keys:
        return ""
    return (
        f"The file of A says that {listed(keys, 'or')} is unknown, but only the ranges of B are "
        "compared. To compare with the ranges of A, name A second."
    )
