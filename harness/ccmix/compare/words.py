"""Verdicts as sentences."""

from ccmix.analysis.comparison import SIGNIFICANCE
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL, MOST_ITERATIONS
from ccmix.compare.verdicts import Compared, Condition, Tested
from ccmix.units import format_percent

TIMES_FROM = 2.0  # from this ratio on, '2.2 times' says more than '120% more'


def relation(ratio: float) -> str:
    """What B has of A: '2.2 times', '4.5% less'."""
    if ratio >= TIMES_FROM:
        return f"{ratio:.3g} times"
    return f"{format_percent(abs(ratio - 1))} {'more' if ratio >= 1 else 'less'}"


def interval(one: Tested) -> str:
    """'B/A 95% CI 0.96 to 1.04'."""
    if not one.found or not one.found.interval:
        return ""
    low, high = one.found.interval
    return f"95% CI of B/A {low:.3f} to {high:.3f}"


def verdict(one: Tested, margin: float) -> str:
    """'different: B has 45% less (95% CI of B/A 0.512 to 0.588)'."""
    within = f"within ±{format_percent(margin)}"
    ratio = one.found.ratio if one.found else None
    has = f"B has {relation(ratio)}" if ratio is not None else "no ratio can be told"
    known = f" ({interval(one)})" if interval(one) else ""
    if one.verdict == "same":
        surely = one.p_different is not None and one.p_different <= SIGNIFICANCE
        return f"same {within}: {has}{', surely, but within that' if surely else ''}{known}"
    if one.verdict == "different":
        return f"different: {has}{known}"
    where = f"; the one observation of {'AB'[one.single.endswith('A')]} is {one.single}" if one.single else ""
    return f"can't tell: {has}{known}; {_more(one)}{where}"


def _more(one: Tested) -> str:
    if one.alike:
        campaigns = " and of ".join(one.alike)
        return f"all runs of {campaigns} are alike: one observation, and more tell no more"
    if one.runs < LEAST_FOR_INTERVAL:
        there = f"there {'is' if one.runs == 1 else 'are'} {one.runs}"
        return f"each needs {LEAST_FOR_INTERVAL} valid runs at least, and {there}"
    if one.more_runs is None:
        return f"more than {MOST_ITERATIONS:,} runs of each would be needed"
    return f"about {one.more_runs} more run{'s' if one.more_runs > 1 else ''} of each would do"


def condition(one: Condition, margin: float) -> str:
    """One sentence on all of its groups' goodput."""
    if len(one.goodputs) == 1:
        return verdict(one.goodputs[0], margin)
    parts = [f"{tested.group}: {verdict(tested, margin)}" for tested in one.goodputs]
    return f"{one.verdict}. {'; '.join(parts)}"


def summary(compared: Compared) -> str:
    """How many conditions are the same."""
    counts = [(word, sum(one.verdict == word for one in compared.conditions)) for word in ("same", "different")]
    told = ", ".join(f"{count} {word}" for word, count in counts)
    unknown = len(compared.conditions) - sum(count for _, count in counts)
    count = len(compared.conditions)
    alike = sum(any(tested.alike for tested in one.goodputs) for one in compared.conditions)
    warning = (
        f". In {_conditions(alike)} all runs of A or of B have one goodput, as where nothing random happens: "
        "they are one observation, of which there is neither an interval nor a verdict"
    )
    return (
        f"{_conditions(count)} in both: goodput {told}, {unknown} can't be told "
        f"(margin ±{format_percent(compared.margin)}){warning if alike else ''}"
    )


def _conditions(count: int) -> str:
    return f"{count} condition{'' if count == 1 else 's'}"
