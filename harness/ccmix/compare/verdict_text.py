"""Writes verdicts as sentences."""

from collections.abc import Sequence

from ccmix.analysis.comparison import significant
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL, MOST_ITERATIONS
from ccmix.analysis.settling_text import longest, would_do
from ccmix.compare.verdicts import Compared, ComparedCondition, Tested
from ccmix.units import format_count, format_percent

TIMES_FROM = 2.0  # from this ratio on, '2.2 times' says more than '120% more'


def relation(ratio: float) -> str:
    """Returns what B has of A: '2.2 times', '4.5% less'."""
    if ratio >= TIMES_FROM:
        return f"{ratio:.3g} times"
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
        return f"same {within}: {has}{', a significant difference within the margin' if differs else ''}{known}"
    if tested.verdict == "different":
        return f"different: {has}{known}"
    where = f"; the only observation of {'AB'[tested.single.endswith('A')]} is {tested.single}" if tested.single else ""
    return f"can't tell: {has}{known}; {_more(tested)}{where}"


def _more(tested: Tested) -> str:
    if tested.alike:
        campaigns = " and of ".join(tested.alike)
        return (
            f"all runs of {campaigns} are alike: they are one observation, and more iterations would add no information"
        )
    if tested.runs < LEAST_FOR_INTERVAL:
        return f"each campaign needs at least {LEAST_FOR_INTERVAL} valid runs, and one of them has {tested.runs}"
    if tested.more_runs is None:
        return f"more than {MOST_ITERATIONS:,} runs of each would be needed"
    return f"about {tested.more_runs} more run{'s' if tested.more_runs > 1 else ''} of each would do"


def condition(compared: ComparedCondition, margin: float) -> str:
    """Returns one sentence on the goodput of all groups of a condition."""
    if len(compared.goodputs) == 1:
        return verdict(compared.goodputs[0], margin)
    parts = [f"{tested.group}: {verdict(tested, margin)}" for tested in compared.goodputs]
    return f"{compared.verdict}. {'; '.join(parts)}"


def summary(compared: Compared) -> str:
    """Returns how many conditions are the same."""
    verdicts = [condition.verdict for condition in compared.conditions]
    counts = [(word, verdicts.count(word)) for word in ("same", "different")]
    counted = ", ".join(f"{count} {word}" for word, count in counts)
    unknown = len(compared.conditions) - sum(count for _, count in counts)
    count = len(compared.conditions)
    alike = sum(any(tested.alike for tested in condition.goodputs) for condition in compared.conditions)
    warning = (
        f". In {format_count(alike, 'condition')} all runs of A or of B have the same goodput, as happens where "
        "nothing is random: they are one observation, without an interval and a verdict"
    )
    unsettled = [condition for condition in compared.conditions if condition.a.not_settled or condition.b.not_settled]
    return (
        f"{format_count(count, 'condition')} in both: goodput {counted}, {unknown} undecided "
        f"(margin ±{format_percent(compared.margin)}){warning if alike else ''}{_longer(unsettled)}"
    )


def _longer(unsettled: Sequence[ComparedCondition]) -> str:
    """Returns how many conditions have runs that were too short, and what would do for the worst of them."""
    cells = [cell for condition in unsettled for cell in (condition.a, condition.b)]
    worst = longest(result.finished for cell in cells for result in cell.valid)
    if worst is None:
        return ""
    return (
        f". In {format_count(len(unsettled), 'condition')} runs have not settled: longer ones may have other goodputs; "
        f"{would_do(worst)}"
    )
