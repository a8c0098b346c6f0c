"""Formats numbers and statements of papers for people: sentences and the cells of tables."""

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal

from ccmix.analysis.statistics import shown
from ccmix.papers.experiment import Bound, MeanOf, Number, Of, Quantity, Quotient, Statement
from ccmix.papers.judging import (
    JudgedBound,
    JudgedBounds,
    JudgedStatement,
    Judgement,
    MeasuredSample,
)
from ccmix.text.words import joined, listed
from ccmix.units import format_count

NAMES: dict[Quantity, str] = {
    "goodput_bps": "goodput",
    "variation": "coefficient of variation",
    "utilisation": "utilisation",
    "share": "share",
    "retransmits": "retransmitted segments",
    "retransmission_rate": "retransmission rate",
    "fairness": "Jain's index",
    "convergence_s": "time to converge",
    "queue_mean_bdp": "mean queue in BDP",
    "queue_p95_bdp": "95th percentile of the queue in BDP",
    "rtt_p95_s": "95th percentile of RTT",
}
PLURAL: tuple[Quantity, ...] = ("retransmits",)
WITH_DECIMALS_TO = 100.0
WHOLE_FROM = 1000.0  # from here on, numbers have no decimals, and a comma between thousands


def what(number: Number) -> str:
    """Describes a number: 'share of bbr in entry two-flows at rtt=10ms'.

    For a quotient, the settings of both sides are named once: 'goodput of bbr over that of cubic,
    in entry shallow at rate=1gbit'.
    """
    if isinstance(number, Quotient):
        return _of_quotient(number)
    if isinstance(number, MeanOf):
        return (
            f"mean over {len(number.numbers)} cells, the first of which is "
            f"{what(number.numbers[0])}"
        )
    return NAMES[number.quantity] + _whose(number) + _where(number.entry, _at(number))


def _of_quotient(number: Quotient) -> str:
    over, under = number.over, number.under
    if isinstance(over, MeanOf) or isinstance(under, MeanOf) or over.quantity != under.quantity:
        return f"{what(over)}, over {what(under)}"
    common = [each for each in _at(over) if each in _at(under)]
    same_entry, same_whose = over.entry == under.entry, _whose(over) == _whose(under)

    def own(of: Of) -> str:
        return _where(
            "" if same_entry else of.entry, [each for each in _at(of) if each not in common]
        )

    pronoun = "those" if over.quantity in PLURAL else "that"
    that = f"{pronoun}{'' if same_whose else _whose(under)}{own(under)}"
    both = _where(over.entry if same_entry else "", common)
    return f"{NAMES[over.quantity]}{_whose(over)}{own(over)} over {that}" + (
        f",{both}" if both else ""
    )


def _at(of: Of) -> list[str]:
    """Returns the settings, without the CCA if it is that of the flows."""
    settings = [f"{key}={text}" for key, text in of.at.items() if (key, text) != ("cca", of.cca)]
    return settings if of.buffer_bdp is None else [*settings, _buffer(*of.buffer_bdp)]


def _buffer(least: float, below: float) -> str:
    """Returns 'a buffer of 0.4 to 1 BDP', 'a buffer below 0.4 BDP', or 'a buffer from 1 BDP on'."""
    if math.isinf(below):
        return f"a buffer from {least:g} BDP on"
    return f"a buffer of {least:g} to {below:g} BDP" if least else f"a buffer below {below:g} BDP"


def _whose(of: Of) -> str:
    """Returns ' of bbr', ' of the flows of h1' or " of bbr's flows of h1"; '' for all flows."""
    if of.host is None:
        return "" if of.cca is None else f" of {of.cca}"
    return f" of the flows of {of.host}" if of.cca is None else f" of {of.cca}'s flows of {of.host}"


def _where(entry: str, settings: Sequence[str]) -> str:
    return (f" in entry {entry}" if entry else "") + (
        f" at {', '.join(settings)}" if settings else ""
    )


def in_digits(value: float) -> str:
    """Writes a number with three significant digits: '1.54', '1,900'."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= WHOLE_FROM else f"{value:.3g}"


def without_exponent(number: str) -> str:
    """Writes '9.5e-06' as '0.0000095'."""
    return f"{Decimal(number):f}"


def of_quantity(quantity: Quantity, value: float | None) -> str:
    """Writes a number with its unit: '110 Mbit/s', '78.3%'; numbers of segments as '3,159', and
    from 10,000 on rounded: '172,000'.
    """
    if quantity == "variation" and value is not None:
        return without_exponent(f"{value:.4g}")
    if quantity != "retransmits" or value is None or abs(value) < WHOLE_FROM:
        return shown(quantity, value)
    return f"{value:,.0f}" if abs(value) < 10 * WHOLE_FROM else in_digits(value)


def value(number: Number, of: float | None) -> str:
    """Returns a value with its unit; a ratio as a factor."""
    if of is None:
        return "–"
    if isinstance(number, Quotient):
        return f"{in_digits(of)} times"
    return of_quantity(_quantity(number), of)


def _quantity(number: Of | MeanOf) -> Quantity:
    return number.numbers[0].quantity if isinstance(number, MeanOf) else number.quantity


def limits(bound: Bound) -> str:
    """Returns 'at least 50%', 'at most 20%', '40% to 60%', or 'at least as much' for a ratio
    of 1.
    """
    number = bound.number
    if bound.least is not None and bound.most is not None:
        return _range(number, bound.least, bound.most)
    limit, most = (bound.most, True) if bound.least is None else (bound.least, False)
    if isinstance(number, Quotient) and limit == 1:
        return (
            f"at {'most' if most else 'least'} as "
            f"{'many' if _quantity(number.over) in PLURAL else 'much'}"
        )
    return f"at {'most' if most else 'least'} {value(number, limit)}"


def _range(number: Number, low: float, high: float) -> str:
    """Returns '40% to 60%', '0.9 to 1.1 times', or one number if both look the same."""
    if isinstance(number, Quotient):
        first, last = in_digits(low), in_digits(high)
        return f"{last} times" if first == last else f"{first} to {last} times"
    first, last = value(number, low), value(number, high)
    return last if first == last else f"{first} to {last}"


def seen(judged: JudgedBound) -> str:
    """Returns the mean with its interval and the number of runs."""
    number = judged.bound.number
    if isinstance(number, Quotient):
        return sample_text(judged.sample, in_digits, " times")
    return sample_text(judged.sample, lambda of: value(number, of))


def sample_text(sample: MeasuredSample, form: Callable[[float], str], unit: str = "") -> str:
    """Returns '78.3% (75% to 81.5%, 5 runs)', or '7.68 times (6.64 to 8.71, 2 of 5 runs not
    settled)'.
    """
    if sample.mean is None:
        return "–"
    runs = format_count(sample.runs, "run")
    runs = f"{sample.not_settled} of {runs} not settled" if sample.not_settled else runs
    if sample.interval is None:
        return f"{form(sample.mean)}{unit} ({runs}: too few for an interval)"
    low, high = map(form, sample.interval)
    return f"{form(sample.mean)}{unit} ({low} to {high}, {runs})"


def outcome(judged: JudgedBounds) -> str:
    """Returns 'holds', or 'holds (1 of 3 measured)'."""
    partly = f" ({judged.measured} of {len(judged.bounds)} measured)" if judged.in_part else ""
    return judged.outcome.value + partly


def explained(judged: JudgedStatement) -> str:
    """Returns the results with other settings for a statement that does not hold: 'with offloads
    on: 63.6%, holds'.
    """
    return "; ".join(
        f"with {each.setting}: {found(each.judged.bounds)}, {outcome(each.judged)}"
        for each in judged.explaining
    )


def why_untold(judged: JudgedBounds) -> str:
    """Returns why bounds are undecided: too few runs, or intervals that reach beyond a limit; ''
    if they are decided.
    """
    untold = [bound for bound in judged.bounds if bound.outcome is Judgement.UNTOLD]
    if judged.outcome is not Judgement.UNTOLD:
        return ""
    few = sum(bound.sample.interval is None for bound in untold)
    reasons = [
        "fewer than 3 runs" if few else "",
        "the 95% interval is on both sides of a limit" if few < len(untold) else "",
    ]
    return listed([reason for reason in reasons if reason])


def asked(judged: JudgedStatement) -> str:
    """Returns the limits of a statement, each once: 'at least 80%; 0.7 to 0.9'."""
    return "; ".join(dict.fromkeys(limits(bound.bound) for bound in judged.bounds))


def found(bounds: Sequence[JudgedBound]) -> str:
    """Returns the range of the means of a statement's numbers, for each of its limits: '1.54 to
    7.68 times'.
    """
    by_limits: dict[str, list[JudgedBound]] = {}
    for bound in bounds:
        by_limits.setdefault(limits(bound.bound), []).append(bound)
    return "; ".join(filter(None, map(_range_of_means, by_limits.values()))) or "–"


def _range_of_means(bounds: Sequence[JudgedBound]) -> str:
    means = [bound.sample.mean for bound in bounds if bound.sample.mean is not None]
    return _range(bounds[0].bound.number, min(means), max(means)) if means else ""


def reasons(judged: JudgedStatement) -> str:
    """Returns why a statement is undecided, and the results with other settings."""
    return joined("; ", why_untold(judged.judged), explained(judged))


def said(statement: Statement) -> str:
    """Returns the statement's sentence with its reading in brackets."""
    return (
        f"{statement.sentence} ({statement.reading})" if statement.reading else statement.sentence
    )


def section(statement: Statement) -> str:
    """Returns 'section 3.1', or the source itself if it has no such number, such as a slide."""
    return (
        f"section {statement.section}"
        if re.match(r"[IVX]+\b|\d", statement.section)
        else statement.section
    )


def hours(seconds: float) -> str:
    """Writes '11 min' or '2 h 42 min'; less than a minute as '1 min'."""
    whole, minutes = divmod(max(round(seconds / 60), 1), 60)
    return f"{whole} h {minutes} min" if whole else f"{minutes} min"


def ratio(of: float) -> str:
    """Writes by how much two numbers differ: '1.40', '168', '∞'."""
    if not math.isfinite(of):
        return "∞"
    return f"{of:.2f}" if of < WITH_DECIMALS_TO else in_digits(of)
