"""Writes the comparison of two campaigns, A and B, as sentences and as lines of tables."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from ccmix.analysis.comparison import significant
from ccmix.analysis.counting import longest_settling, needed_duration
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL, MOST_ITERATIONS
from ccmix.analysis.statistics import shown, shown_mean
from ccmix.compare.cells import Cell, KnownPath
from ccmix.compare.differences import Difference
from ccmix.compare.groups import ComparedRange
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
    """Says how much B has if A has 1: '2.2 times', '4.5% less', 'as much'."""
    if ratio >= TIMES_FROM:
        return f"{ratio:.3g} times"
    if f"{ratio:.12g}" == "1":
        return "as much"
    return f"{format_percent(abs(ratio - 1))} {'more' if ratio >= 1 else 'less'}"


def interval(tested: Tested) -> str:
    """Returns '95% CI of B/A 0.960 to 1.040'; '' if there are too few runs for an interval."""
    if not tested.found or not tested.found.interval:
        return ""
    low, high = tested.found.interval
    return f"95% CI of B/A {low:.3f} to {high:.3f}"


def verdict(tested: Tested, margin: float) -> str:
    """Returns the verdict on a metric, with its reason.

    Example: 'different: B has 45% less (95% CI of B/A 0.512 to 0.588)'. If the test can't tell, the
    text says how many more runs would help.
    """
    ratio = tested.found.ratio if tested.found else None
    has = f"B has {relation(ratio)}" if ratio is not None else "there is no ratio"
    known = f" ({interval(tested)})" if interval(tested) else ""
    if tested.verdict == "same":
        differs = significant(tested.p_different)
        remark = ", a significant difference within the margin" if differs else ""
        return f"same within ±{format_percent(margin)}: {has}{remark}{known}"
    if tested.verdict == "different":
        return f"different: {has}{known}"
    single = ""
    if tested.single:
        campaign = "B" if tested.single.endswith("A") else "A"
        single = f"; the only observation of {campaign} is {tested.single}"
    return f"can't tell: {has}{known}; {_runs_that_would_decide(tested)}{single}"


def _runs_that_would_decide(tested: Tested) -> str:
    """Says how many more runs would allow a verdict, or why more runs would not help."""
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
    """Returns the verdict on a condition in one sentence, with the goodput of each group.

    `margin` is the relative difference, such as 0.05, up to which B counts as the same.
    """
    if len(compared.goodputs) == 1:
        return verdict(compared.goodputs[0], margin)
    parts = [f"{tested.group}: {verdict(tested, margin)}" for tested in compared.goodputs]
    return f"{compared.verdict}. {'; '.join(parts)}"


def summary(compared: Compared) -> str:
    """Counts the conditions by verdict, in a sentence for the top of the comparison.

    Further sentences warn of conditions whose runs all have the same goodput, and of runs that were
    too short.
    """
    verdicts = [condition.verdict for condition in compared.conditions]
    counts = [(word, verdicts.count(word)) for word in ("same", "different")]
    counted = ", ".join(f"{count} {word}" for word, count in counts)
    unknown = len(compared.conditions) - sum(count for _, count in counts)
    count = len(compared.conditions)
    alike = sum(
        any(tested.alike for tested in condition.goodputs) for condition in compared.conditions
    )
    warning_if_alike = (
        f". In {format_count(alike, 'condition')} all runs of A or of B have the same goodput, "
        "as happens if "
        "nothing is random: they are one observation, without an interval and a verdict"
    )
    unsettled = [
        condition
        for condition in compared.conditions
        if condition.a.not_settled or condition.b.not_settled
    ]
    more = f"{warning_if_alike if alike else ''}{_duration_that_suffices(unsettled)}"
    return (
        f"{format_count(count, 'condition')} in both: goodput {counted}, {unknown} undecided "
        f"(margin ±{format_percent(compared.margin)}){more}"
    )


def _duration_that_suffices(unsettled: Sequence[ComparedCondition]) -> str:
    """Counts the conditions whose goodput had not settled when the run ended, in a sentence with
    the duration that suffices for the slowest; '' without any.
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
    """Returns the rows of a table with the columns DIFFERENCE_HEADINGS.

    Each difference has a row, but a setting with more than MOST_VALUES differences has only one.
    """
    lines: list[tuple[str, ...]] = []
    for setting, group in groupby(differences, key=attrgetter("what")):
        of_setting = list(group)
        is_long = len(of_setting) > MOST_VALUES
        for line in [of_setting] if is_long else ([each] for each in of_setting):
            columns = (
                dict.fromkeys(text for each in line for text in getattr(each, field))
                for field in ("a", "b", "conditions")
            )
            a, b, conditions = (format_few(list(texts), MOST_VALUES) for texts in columns)
            lines.append((setting, a, b, conditions or "all"))
    return lines


def not_compared(compared: Compared) -> Iterator[tuple[str, str]]:
    """Yields (heading, names) of conditions without a match, such as ('Only in A', 'one, two')."""
    a, b = ([cell.name for cell in cells] for cells in (compared.only_a, compared.only_b))
    both = [name for name in a if name in b]
    lists = (
        ("In both by name, but with other traffic or another path", both),
        ("Only in A", [name for name in a if name not in both]),
        ("Only in B", [name for name in b if name not in both]),
    )
    yield from ((heading, format_few(names, MOST_VALUES)) for heading, names in lists if names)


def overview(compared: Compared) -> list[tuple[str, ...]]:
    """Returns the rows of a table with the columns OVERVIEW, one for each condition and group."""
    return [
        tuple(_overview_cells(condition, tested))
        for condition in compared.conditions
        for tested in condition.goodputs
    ]


def _overview_cells(condition: ComparedCondition, tested: Tested) -> Iterator[str]:
    """Yields the cells of a row under OVERVIEW: a group's goodput in A and in B, the test of their
    difference, and the group's retransmissions and RTT.
    """
    group, _, *goodput = _metric_row(tested)
    runs = (f"{len(cell.valid)}{_not_valid_text(cell)}" for cell in (condition.a, condition.b))
    yield from (condition.a.name, condition.b.name, ", ".join(runs), group)
    yield from goodput
    for metric in ("retransmission_rate", "rtt_median_s"):
        test = next(
            (other for other in condition.tested if (other.group, other.metric) == (group, metric)),
            None,
        )
        spreads = (test.a, test.b) if test else (None, None)
        yield ", ".join(shown(metric, spread.mean if spread else None) for spread in spreads)


def title(condition: ComparedCondition | ComparedRange) -> str:
    """Returns the heading of a condition, with both names if A and B call it differently.

    Example: 'one delay=5ms: 5 valid runs in A, 5 valid runs in B'.
    """
    a, b = condition.a, condition.b
    names = a.name if a.name == b.name else f"{a.name} and {b.name}"
    return f"{names}: {_runs_text(a)} in A, {_runs_text(b)} in B"


def _runs_text(cell: Cell) -> str:
    """Returns '5 valid runs over 20 ms', and how many more are not settled or not valid.

    `cell` has the runs of a condition in one campaign.
    """
    runs = format_count(len(cell.valid), "valid run")
    return f"{runs}{_unsettled_text(cell)}{_rtt_text(cell.path)}{_not_valid_text(cell)}"


def _not_valid_text(cell: Cell) -> str:
    """Returns ' (8 not valid: ≥ 31.2 Gbit/s, lower bound)'; '' if all runs are valid."""
    return "".join(f" ({each.runs} not valid: {each}, {each.meaning})" for each in cell.not_valid)


def _unsettled_text(cell: Cell) -> str:
    """Returns ' (2 not settled: duration = 300s would do)'; '' if all runs have settled."""
    worst = cell.longest_unsettled
    return f" ({cell.not_settled} not settled: {needed_duration(worst)})" if worst else ""


def _rtt_text(path: KnownPath) -> str:
    """Returns ' over 20 ms', the path's base RTT; ' over at most 25 ms' if it was measured under
    load.
    """
    if path.rtt_s is None:
        return ""
    return (
        f" over {'' if path.rtt_is_base else 'at most '}{format_time(float(f'{path.rtt_s:.3g}'))}"
    )


def lines(condition: ComparedCondition) -> list[tuple[str, ...]]:
    """Returns the rows of a table with the columns HEADINGS, one for each group and metric."""
    return [_metric_row(tested) for tested in condition.tested if tested.a or tested.b]


def _metric_row(tested: Tested) -> tuple[str, ...]:
    """Returns the cells of a row under HEADINGS: one metric of one group in A and B.

    If a campaign has only one observation, the verdict also says where this observation lies among
    those of the other campaign: "can't tell: above all of A".
    """
    test = tested.found
    verdict = tested.verdict + (f": {tested.single}" if tested.single else "")
    low_high = (
        f"{test.interval[0]:.3f} to {test.interval[1]:.3f}" if test and test.interval else NONE
    )
    ratio = f"{test.ratio:.3f}" if test and test.ratio is not None else NONE
    spreads = (shown_mean(tested.metric, side) if side else NONE for side in (tested.a, tested.b))
    return tested.group, tested.metric, *spreads, ratio, low_high, verdict


def distribution_sentences(condition: ComparedCondition) -> Iterator[str]:
    """Yields a sentence for each group, on the distribution of its goodput per interval:
    percentiles in A and in B, and the largest distance of the two.
    """
    for group in condition.groups:
        if (pair := group.distributions) is None:
            continue
        a, b = (
            ", ".join(
                shown("goodput_bps", quantiles[position]) for position in (0, 2, 4)
            )  # 5, 50, 95%
            for quantiles in (pair.a_quantiles_bps, pair.b_quantiles_bps)
        )
        lengths = (
            f"{pair.a_interval_s:g} s"
            if pair.a_interval_s == pair.b_interval_s
            else (f"{pair.a_interval_s:g} s in A and {pair.b_interval_s:g} s in B")
        )
        yield (
            f"{group.name}: goodput in intervals of {lengths}, 5th, 50th, 95th percentile: A {a}; "
            f"B {b}; largest distance of the distributions {format_percent(pair.apart)}"
        )
