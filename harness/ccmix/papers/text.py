"""Writes measured numbers and judged statements of a paper as text for sentences and tables."""

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal

from ccmix.analysis.statistics import shown
from ccmix.papers.experiment import Bound, Number, Quantity, Quotient, RunNumber, Statement
from ccmix.papers.judging import JudgedBound, JudgedBounds, JudgedStatement, Judgement
from ccmix.papers.measuring import MeasuredSample
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
    """Describes in words which number of which runs this is, without its value: 'share of bbr in
    entry two-flows at rtt=10ms'.

    For a quotient, the settings of both sides are named once: 'goodput of bbr over that of cubic,
    in entry shallow at rate=1gbit'.
    """
    if isinstance(number, Quotient):
        return _quotient(number)
    return NAMES[number.quantity] + _whose(number) + _where(number.entry, _settings(number))


def _quotient(number: Quotient) -> str:
    """Describes a ratio of two numbers. What both sides have in common (entry, flows, settings) is
    named only once: 'goodput of bbr over that of cubic, in entry shallow at rate=1gbit'.
    """
    over, under = number.over[0], number.under[0]
    if over.quantity != under.quantity or len(number.over) > 1 or len(number.under) > 1:
        return f"{_mean(number.over)}, over {_mean(number.under)}"
    common = [setting for setting in _settings(over) if setting in _settings(under)]
    same_entry, same_whose = over.entry == under.entry, _whose(over) == _whose(under)

    def differing(side: RunNumber) -> str:
        """Describes entry and settings that only this side has."""
        return _where(
            "" if same_entry else side.entry,
            [setting for setting in _settings(side) if setting not in common],
        )

    pronoun = "those" if over.quantity in PLURAL else "that"
    divisor = f"{pronoun}{'' if same_whose else _whose(under)}{differing(under)}"
    both = _where(over.entry if same_entry else "", common)
    return f"{NAMES[over.quantity]}{_whose(over)}{differing(over)} over {divisor}" + (
        f",{both}" if both else ""
    )


def _mean(numbers: Sequence[RunNumber]) -> str:
    """Describes one side of a ratio: a number, or the mean of several."""
    first = what(numbers[0])
    several = f"mean over {len(numbers)} cells, the first of which is "
    return several + first if len(numbers) > 1 else first


def _settings(number: RunNumber) -> list[str]:
    """Returns the settings of the runs from which a number is taken, such as 'rtt=10ms' or 'a
    buffer below 0.4 BDP'. The key 'cca' is left out if its value is the CCA of the number's flows,
    because _whose() names it already.
    """
    settings = [
        f"{key}={text}" for key, text in number.at.items() if (key, text) != ("cca", number.cca)
    ]
    return settings if number.buffer_bdp is None else [*settings, _buffer(*number.buffer_bdp)]


def _buffer(least: float, below: float) -> str:
    """Describes a range of buffers in BDPs: 'a buffer of 0.4 to 1 BDP', 'a buffer below 0.4 BDP' if
    `least` is 0, or 'a buffer from 1 BDP on' if `below` is infinite.
    """
    if math.isinf(below):
        return f"a buffer from {least:g} BDP on"
    return f"a buffer of {least:g} to {below:g} BDP" if least else f"a buffer below {below:g} BDP"


def _whose(number: RunNumber) -> str:
    """Returns the words for the flows that a number is about; '' if it is about all flows.

    Examples: ' of bbr', ' of the flows of h1', " of bbr's flows of h1".
    """
    cca, host = number.cca, number.host
    if host is None:
        return "" if cca is None else f" of {cca}"
    return f" of the flows of {host}" if cca is None else f" of {cca}'s flows of {host}"


def _where(entry: str, settings: Sequence[str]) -> str:
    """Returns ' in entry shallow at rate=1gbit, rtt=10ms', without a part that is empty."""
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
    """Writes a value of this quantity with its unit: '110 Mbit/s', '78.3%'. Counts of segments are
    written as '3,159', and rounded from 10,000 on: '172,000'.
    """
    if quantity == "variation" and value is not None:
        return without_exponent(f"{value:.4g}")
    if quantity != "retransmits" or value is None or abs(value) < WHOLE_FROM:
        return shown(quantity, value)
    return f"{value:,.0f}" if abs(value) < 10 * WHOLE_FROM else in_digits(value)


def value(number: Number, amount: float | None) -> str:
    """Writes an amount in the unit of a number: '78.3%', '110 Mbit/s', or '1.54 times' if the
    number is a ratio. None is written as a dash.
    """
    if amount is None:
        return "–"
    if isinstance(number, Quotient):
        return f"{in_digits(amount)} times"
    return of_quantity(number.quantity, amount)


def limits(bound: Bound) -> str:
    """Writes the limits of a bound: 'at least 50%', 'at most 20%', '40% to 60%', or 'at least as
    much' if a ratio is limited to 1.
    """
    number = bound.number
    if bound.least is not None and bound.most is not None:
        return _range(number, bound.least, bound.most)
    limit = bound.most if bound.least is None else bound.least
    prefix = "at most" if bound.least is None else "at least"
    if isinstance(number, Quotient) and limit == 1:
        return f"{prefix} as {'many' if number.over[0].quantity in PLURAL else 'much'}"
    return f"{prefix} {value(number, limit)}"


def _range(number: Number, low: float, high: float) -> str:
    """Writes two values of a number as a range: '40% to 60%', '0.9 to 1.1 times', or only one of
    them if both look the same after rounding.
    """
    if isinstance(number, Quotient):
        first, last = in_digits(low), in_digits(high)
        return f"{last} times" if first == last else f"{first} to {last} times"
    first, last = value(number, low), value(number, high)
    return last if first == last else f"{first} to {last}"


def seen(judged: JudgedBound) -> str:
    """Writes what the lab measured for a bound, with interval and number of runs: '78.3% (75% to
    81.5%, 5 runs)'.
    """
    number = judged.bound.number
    if isinstance(number, Quotient):
        return sample_text(judged.sample, in_digits, " times")
    return sample_text(judged.sample, lambda amount: value(number, amount))


def sample_text(sample: MeasuredSample, form: Callable[[float], str], unit: str = "") -> str:
    """Writes the mean of a sample with its 95% interval and its number of runs: '78.3% (75% to
    81.5%, 5 runs)', or '7.68 times (6.64 to 8.71, 2 of 5 runs not settled)'.

    `form` writes one number; `unit` follows only the mean.
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
    """Writes the outcome of a statement: 'holds', or 'holds (1 of 3 measured)' if only some of its
    bounds were measured.
    """
    partly = f" ({judged.measured} of {len(judged.bounds)} measured)" if judged.in_part else ""
    return judged.outcome.value + partly


def explained(judged: JudgedStatement) -> str:
    """Writes the results of runs with other settings, which may explain why a statement does not
    hold: 'with offloads on: 63.6%, holds'. '' if the statement holds, or if no other setting was
    measured.
    """
    return "; ".join(
        f"with {each.setting}: {found(each.judged.bounds)}, {outcome(each.judged)}"
        for each in judged.explaining
    )


def why_undecided(judged: JudgedBounds) -> str:
    """Returns the reason why it is undecided whether the bounds of a statement hold: fewer than 3
    runs, or a 95% interval on both sides of a limit. '' if it is decided.
    """
    untold = [bound for bound in judged.bounds if bound.outcome is Judgement.UNDECIDED]
    if judged.outcome is not Judgement.UNDECIDED:
        return ""
    few = sum(bound.sample.interval is None for bound in untold)
    reasons = [
        "fewer than 3 runs" if few else "",
        "the 95% interval is on both sides of a limit" if few < len(untold) else "",
    ]
    return listed([reason for reason in reasons if reason])


def asked(judged: JudgedStatement) -> str:
    """Returns the limits that a statement sets on its numbers, each once: 'at least 80%; 0.7 to
    0.9'.
    """
    return "; ".join(dict.fromkeys(limits(bound.bound) for bound in judged.bounds))


def found(bounds: Sequence[JudgedBound]) -> str:
    """Writes what the lab measured for a statement: for bounds with the same limits, the smallest
    and the largest of the means, such as '1.54 to 7.68 times'; a dash if nothing was measured.
    """
    by_limits: dict[str, list[JudgedBound]] = {}
    for bound in bounds:
        by_limits.setdefault(limits(bound.bound), []).append(bound)
    return "; ".join(filter(None, map(_range_of_means, by_limits.values()))) or "–"


def _range_of_means(bounds: Sequence[JudgedBound]) -> str:
    """Writes the smallest and the largest mean of bounds that have the same limits; '' if none was
    measured.
    """
    means = [bound.sample.mean for bound in bounds if bound.sample.mean is not None]
    return _range(bounds[0].bound.number, min(means), max(means)) if means else ""


def reasons(judged: JudgedStatement) -> str:
    """Returns the reason why a statement is undecided, and the results of runs with other settings,
    joined by ';'. '' if there is neither.
    """
    return joined("; ", why_undecided(judged.judged), explained(judged))


def said(statement: Statement) -> str:
    """Returns the sentence of a statement. If its words had to be read as numbers, this reading
    follows in brackets: 'BBR has a small share (at most 10%)'.
    """
    return (
        f"{statement.sentence} ({statement.reading})" if statement.reading else statement.sentence
    )


def section(statement: Statement) -> str:
    """Says where in the paper the statement is: 'section 3.1', or the text of the TOML file if that
    is not a section's number, such as 'slide 7'.
    """
    return (
        f"section {statement.section}"
        if re.match(r"[IVX]+\b|\d", statement.section)
        else statement.section
    )


def ratio(factor: float) -> str:
    """Writes the factor between two numbers: '1.40', '168', '∞'."""
    if not math.isfinite(factor):
        return "∞"
    return f"{factor:.2f}" if factor < WITH_DECIMALS_TO else in_digits(factor)
