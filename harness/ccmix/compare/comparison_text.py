"""Writes the results of a comparison as sentences and lines of tables."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from ccmix.analysis.comparison import significant
from ccmix.analysis.counting import longest_settling, needed_duration
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL, MOST_ITERATIONS
from ccmix.analysis.statistics import shown, shown_mean
from ccmix.compare.differences import Difference
from ccmix.compare.groups import ComparedRange
from ccmix.compare.matching import Cell, KnownPath
from ccmix.compare.verdicts import Compared, ComparedCondition, Tested
from ccmix.units import format_count, format_few, format_percent, format_time

TIMES_FROM = 2.0  # from this ratio on, '2.2 times' is easier to read than '120% more'

OVERVIEW = (
    "A",
    "B",
    "runs",
    "group",
    "goodput of A",
    "goodput of B",
    "B/A",
    "95% interval",
    "verdict",
    "retransmitted",
    "median RTT",
)
HEADINGS = ("group", "metric", "A", "B", "B/A", "95% interval", "verdict")
NOTHING_DIFFERS = (
    "In the conditions that both have, hosts, kernels, tools, paths and traffic are the same, as "
    "far as runs record them."
)
DIFFERENCE_HEADINGS = ("what", "A", "B", "conditions")
NONE = "–"
MOST_VALUES = 4  # of a setting, and of conditions, in a line


def relation(ratio: float) -> str:
    """Returns B's value relative to A's: '2.2 times', '4.5% less', 'as much'."""
    if ratio >= TIMES_FROM:
        return f"{ratio:.3g} times"
    if f"{ratio:.12g}" == "1":
        return "as much"
    return f"{format_percent(abs(ratio - 1))} {'more' if ratio >= 1 else 'less'}"


def interval(tested: Tested) -> str:
    """Returns '95% CI of B/A 0.960 to 1.040'."""
    if not tested.found or not tested.found.interval:
        return ""
    low, high = tested.found.interval
    return f"95% CI of B/A {low:.3f} to {high:.3f}"


def verdict(tested: Tested, margin: float) -> str:
    """Returns 'different: B has 45% less (95% CI of B/A 0.512 to 0.588)'."""
    within = f"within ±{format_percent(margin)}"
    ratio = tested.found.ratio if tested.found else None
    has = f"B has {relation(ratio)}" if ratio is not None else "there is no ratio"
    known = f" ({interval(tested)})" if interval(tested) else ""
    if tested.verdict == "same":
        differs = significant(tested.p_different)
        return (
            f"same {within}: "
            f"{has}{', a significant difference within the margin' if differs else ''}{known}"
        )
    if tested.verdict == "different":
        return f"different: {has}{known}"
    where = (
        f"; the only observation of {'AB'[tested.single.endswith('A')]} is {tested.single}"
        if tested.single
        else ""
    )
    return f"can't tell: {has}{known}; {_more(tested)}{where}"


def _more(tested: Tested) -> str:
    if tested.alike:
        campaigns = " and of ".join(tested.alike)
        return (
            f"all runs of {campaigns} are alike: they are one observation, and more "
            "iterations would add no information"
        )
    if tested.runs < LEAST_FOR_INTERVAL:
        return (
            f"each campaign needs at least {LEAST_FOR_INTERVAL} valid runs, and one campaign "
            f"has {tested.runs}"
        )
    if tested.more_runs is None:
        return f"more than {MOST_ITERATIONS:,} runs of each would be needed"
    return f"about {format_count(tested.more_runs, 'more run')} of each would do"


def condition_verdict(compared: ComparedCondition, margin: float) -> str:
    """Returns one sentence on the goodput of all groups of a condition."""
    if len(compared.goodputs) == 1:
        return verdict(compared.goodputs[0], margin)
    parts = [f"{tested.group}: {verdict(tested, margin)}" for tested in compared.goodputs]
    return f"{compared.verdict}. {'; '.join(parts)}"


def summary(compared: Compared) -> str:
    """Returns a sentence with the number of conditions by verdict."""
    verdicts = [condition.verdict for condition in compared.conditions]
    counts = [(word, verdicts.count(word)) for word in ("same", "different")]
    counted = ", ".join(f"{count} {word}" for word, count in counts)
    unknown = len(compared.conditions) - sum(count for _, count in counts)
    count = len(compared.conditions)
    alike = sum(
        any(tested.alike for tested in condition.goodputs) for condition in compared.conditions
    )
    warning = (
        f". In {format_count(alike, 'condition')} all runs of A or of B have the same goodput, "
        "as happens if "
        "nothing is random: they are one observation, without an interval and a verdict"
    )
    unsettled = [
        condition
        for condition in compared.conditions
        if condition.a.not_settled or condition.b.not_settled
    ]
    return (
        f"{format_count(count, 'condition')} in both: goodput {counted}, {unknown} undecided "
        f"(margin ±{format_percent(compared.margin)}){warning if alike else ''}{_longer(unsettled)}"
    )


def _longer(unsettled: Sequence[ComparedCondition]) -> str:
    """Returns a sentence with the number of conditions whose runs were too short, and with the
    duration that suffices for the worst of them.
    """
    cells = [cell for condition in unsettled for cell in (condition.a, condition.b)]
    worst = longest_settling(result.finished for cell in cells for result in cell.valid)
    if worst is None:
        return ""
    return (
        f". In {format_count(len(unsettled), 'condition')} runs have not settled: longer runs may "
        f"have other goodputs; {needed_duration(worst)}"
    )


def difference_lines(differences: Sequence[Difference]) -> list[tuple[str, ...]]:
    """Returns the lines under DIFFERENCE_HEADINGS: a line for each difference, or for all
    differences of a setting if there are many.
    """
    lines = []
    for what, group in groupby(differences, key=attrgetter("what")):
        alike = list(group)
        for some in [alike] if len(alike) > MOST_VALUES else ([each] for each in alike):
            texts = [
                format_few(_each(some, side), MOST_VALUES) for side in ("a", "b", "conditions")
            ]
            lines.append((what, *texts[:2], texts[2] or "all"))
    return lines


def _each(differences: Sequence[Difference], name: str) -> list[str]:
    return list(dict.fromkeys(text for each in differences for text in getattr(each, name)))


def not_compared(compared: Compared) -> Iterator[tuple[str, str]]:
    """Yields the names of unmatched conditions, each with a heading that says who has them."""
    a, b = ([cell.name for cell in cells] for cells in (compared.only_a, compared.only_b))
    both = [name for name in a if name in b]
    found = (
        ("In both by name, but with other traffic or another path", both),
        ("Only in A", [name for name in a if name not in both]),
        ("Only in B", [name for name in b if name not in both]),
    )
    yield from ((where, format_few(names, MOST_VALUES)) for where, names in found if names)


def overview(compared: Compared) -> list[tuple[str, ...]]:
    """Returns a line under OVERVIEW for each condition and group."""
    return [
        tuple(_overview(condition, tested))
        for condition in compared.conditions
        for tested in condition.goodputs
    ]


def _overview(condition: ComparedCondition, tested: Tested) -> Iterator[str]:
    group, _, *goodput = _line(tested)
    runs = (f"{len(cell.valid)}{_not_valid(cell)}" for cell in (condition.a, condition.b))
    yield from (condition.a.name, condition.b.name, ", ".join(runs), group)
    yield from goodput
    for metric in ("retransmission_rate", "rtt_median_s"):
        of_group = next(
            (other for other in condition.tested if (other.group, other.metric) == (group, metric)),
            None,
        )
        spreads = (of_group.a, of_group.b) if of_group else (None, None)
        yield ", ".join(shown(metric, spread.mean if spread else None) for spread in spreads)


def title(condition: ComparedCondition | ComparedRange) -> str:
    """Returns 'one delay=5ms: 5 valid runs in A, 5 valid runs in B', with both names if
    they differ.
    """
    a, b = condition.a, condition.b
    names = a.name if a.name == b.name else f"{a.name} and {b.name}"
    return f"{names}: {_runs(a)} in A, {_runs(b)} in B"


def _runs(cell: Cell) -> str:
    runs = format_count(len(cell.valid), "valid run")
    return f"{runs}{_unsettled(cell)}{_over(cell.path)}{_not_valid(cell)}"


def _not_valid(cell: Cell) -> str:
    """Returns ' (8 not valid: ≥ 31.2 Gbit/s, lower bound)', or nothing."""
    return "".join(f" ({each.runs} not valid: {each}, {each.meaning})" for each in cell.not_valid)


def _unsettled(cell: Cell) -> str:
    """Returns ' (2 not settled: duration = 300s would do)', or nothing."""
    worst = cell.longest_unsettled
    return f" ({cell.not_settled} not settled: {needed_duration(worst)})" if worst else ""


def _over(path: KnownPath) -> str:
    if path.rtt_s is None:
        return ""
    return (
        f" over {'' if path.rtt_is_base else 'at most '}{format_time(float(f'{path.rtt_s:.3g}'))}"
    )


def lines(condition: ComparedCondition) -> list[tuple[str, ...]]:
    """Returns the lines under HEADINGS."""
    return [_line(tested) for tested in condition.tested if tested.a or tested.b]


def _line(tested: Tested) -> tuple[str, ...]:
    test = tested.found
    low_high = (
        f"{test.interval[0]:.3f} to {test.interval[1]:.3f}" if test and test.interval else NONE
    )
    ratio = f"{test.ratio:.3f}" if test and test.ratio is not None else NONE
    spreads = (shown_mean(tested.metric, side) if side else NONE for side in (tested.a, tested.b))
    return tested.group, tested.metric, *spreads, ratio, low_high, _verdict(tested)


def _verdict(tested: Tested) -> str:
    """Returns "can't tell: above all of A"."""
    return tested.verdict + (f": {tested.single}" if tested.single else "")


def distribution_sentences(condition: ComparedCondition) -> Iterator[str]:
    """Yields sentences with the 5th, 50th and 95th percentile of goodput per interval, and the
    distance of the distributions.
    """
    for group in condition.groups:
        if (of := group.distributions) is None:
            continue
        a, b = (
            ", ".join(shown("goodput_bps", quantiles[at]) for at in (0, 2, 4))
            for quantiles in (of.a_quantiles_bps, of.b_quantiles_bps)
        )
        lengths = (
            f"{of.a_interval_s:g} s"
            if of.a_interval_s == of.b_interval_s
            else (f"{of.a_interval_s:g} s in A and {of.b_interval_s:g} s in B")
        )
        yield (
            f"{group.name}: goodput in intervals of {lengths}, 5th, 50th, 95th percentile: A {a}; "
            f"B {b}; largest distance of the distributions {format_percent(of.apart)}"
        )
