"""Writes a comparison for people in a terminal."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from rich.table import Table
from rich.text import Text

from ccmix.analysis.metric_text import shown, shown_mean
from ccmix.analysis.settling_text import would_do
from ccmix.compare import range_text, verdict_text
from ccmix.compare.differences import Difference
from ccmix.compare.matching import Cell
from ccmix.compare.paths import KnownPath
from ccmix.compare.ranges import ComparedRange
from ccmix.compare.verdicts import Compared, ComparedCondition, Tested
from ccmix.plain_text import plain
from ccmix.units import format_count, format_few, format_percent, format_time

OVERVIEW = (
    "A", "B", "runs", "group", "goodput of A", "goodput of B", "B/A", "95% interval", "verdict", "retransmitted",
    "median RTT",
)  # fmt: skip
HEADINGS = ("group", "metric", "A", "B", "B/A", "95% interval", "verdict")
NOTHING_DIFFERS = (
    "In the conditions that both have, hosts, kernels, tools, paths and traffic are the same, as far as runs record "
    "them."
)
DIFFERENCE_HEADINGS = ("what", "A", "B", "conditions")
NONE = "–"
MOST_VALUES = 4  # of a setting, and of conditions, in a line


def render(compared: Compared) -> str:
    """Returns what differs, then a sentence and the numbers of each condition, then what one campaign alone has."""
    return "\n".join(_parts(compared)) + "\n"


def _parts(compared: Compared) -> Iterator[str]:
    if compared.differences:
        yield "What differs between A and B besides the results:"
        yield _table(DIFFERENCE_HEADINGS, difference_lines(compared.differences))
    elif compared.conditions or compared.ranges:
        yield NOTHING_DIFFERS
    yield from _ranges(compared)
    if compared.conditions or not compared.ranges:
        yield verdict_text.summary(compared)
    if compared.conditions:
        yield _table(OVERVIEW, overview(compared))
    for condition in compared.conditions:
        yield ""
        yield f"{title(condition)}\n  {verdict_text.condition(condition, compared.margin)}"
        yield f"  Matched by: {condition.rule}"
        yield _table(HEADINGS, lines(condition))
        yield from (f"  {sentence}" for sentence in distribution_sentences(condition))
    yield from (f"\n{where}: {names}" for where, names in not_compared(compared))


def _ranges(compared: Compared) -> Iterator[str]:
    if compared.ranges:
        yield range_text.summary(compared.ranges, compared.margin)
        yield _table(range_text.HEADINGS, range_text.lines(compared.ranges))
        if unknown := range_text.unknown_lines(compared.ranges):
            yield "How far each unknown key moves the goodput of B, the others fixed:"
            yield _table(range_text.UNKNOWN_HEADINGS, unknown)
        yield from range_text.advice(compared.ranges, compared.margin)
    if note := range_text.unknown_of_a(compared.unknown_of_a):
        yield note


def difference_lines(differences: Sequence[Difference]) -> list[tuple[str, ...]]:
    """Returns the lines under DIFFERENCE_HEADINGS, one for each difference, or for all of a setting that are many."""
    lines = []
    for what, group in groupby(differences, key=attrgetter("what")):
        alike = list(group)
        for some in [alike] if len(alike) > MOST_VALUES else ([each] for each in alike):
            texts = [format_few(_each(some, side), MOST_VALUES) for side in ("a", "b", "conditions")]
            lines.append((what, *texts[:2], texts[2] or "all"))
    return lines


def _each(differences: Sequence[Difference], name: str) -> list[str]:
    return list(dict.fromkeys(text for each in differences for text in getattr(each, name)))


def not_compared(compared: Compared) -> Iterator[tuple[str, str]]:
    """Yields where conditions are that the other campaign lacks, and their names."""
    a, b = ([cell.name for cell in cells] for cells in (compared.only_a, compared.only_b))
    both = [name for name in a if name in b]
    found = (
        ("In both by their names, but with other traffic or another path", both),
        ("In A alone", [name for name in a if name not in both]),
        ("In B alone", [name for name in b if name not in both]),
    )
    yield from ((where, format_few(names, MOST_VALUES)) for where, names in found if names)


def overview(compared: Compared) -> list[tuple[str, ...]]:
    """Returns a line under OVERVIEW for each condition and group."""
    return [tuple(_overview(condition, tested)) for condition in compared.conditions for tested in condition.goodputs]


def _overview(condition: ComparedCondition, tested: Tested) -> Iterator[str]:
    group, _, *goodput = _line(tested)
    runs = (f"{len(cell.valid)}{_not_valid(cell)}" for cell in (condition.a, condition.b))
    yield from (condition.a.name, condition.b.name, ", ".join(runs), group)
    yield from goodput
    for metric in ("retransmission_rate", "rtt_median_s"):
        of_group = next((other for other in condition.tested if (other.group, other.metric) == (group, metric)), None)
        spreads = (of_group.a, of_group.b) if of_group else (None, None)
        yield ", ".join(shown(metric, spread.mean if spread else None) for spread in spreads)


def title(condition: ComparedCondition | ComparedRange) -> str:
    """Returns 'one delay=5ms: 5 valid runs in A, 5 valid runs in B', with both names if they differ."""
    a, b = condition.a, condition.b
    names = a.name if a.name == b.name else f"{a.name} and {b.name}"
    return f"{names}: {_runs(a)} in A, {_runs(b)} in B"


def _runs(cell: Cell) -> str:
    return f"{format_count(len(cell.valid), 'valid run')}{_unsettled(cell)}{_over(cell.path)}{_not_valid(cell)}"


def _not_valid(cell: Cell) -> str:
    """Returns ' (8 not valid: ≥ 31.2 Gbit/s, lower bound)', or nothing."""
    return "".join(f" ({each.runs} not valid: {each}, {each.meaning})" for each in cell.not_valid)


def _unsettled(cell: Cell) -> str:
    """Returns ' (2 not settled: duration = 300s would do)', or nothing."""
    worst = cell.longest_unsettled
    return f" ({cell.not_settled} not settled: {would_do(worst)})" if worst else ""


def _over(path: KnownPath) -> str:
    if path.rtt_s is None:
        return ""
    return f" over {'' if path.rtt_is_base else 'at most '}{format_time(float(f'{path.rtt_s:.3g}'))}"


def lines(condition: ComparedCondition) -> list[tuple[str, ...]]:
    """Returns the lines under HEADINGS."""
    return [_line(tested) for tested in condition.tested if tested.a or tested.b]


def _line(tested: Tested) -> tuple[str, ...]:
    test = tested.found
    low_high = f"{test.interval[0]:.3f} to {test.interval[1]:.3f}" if test and test.interval else NONE
    ratio = f"{test.ratio:.3f}" if test and test.ratio is not None else NONE
    spreads = (shown_mean(tested.metric, side) if side else NONE for side in (tested.a, tested.b))
    return tested.group, tested.metric, *spreads, ratio, low_high, _verdict(tested)


def _verdict(tested: Tested) -> str:
    """Returns "can't tell: above all of A"."""
    return tested.verdict + (f": {tested.single}" if tested.single else "")


def distribution_sentences(condition: ComparedCondition) -> Iterator[str]:
    """Yields the 5th, 50th and 95th percentile of goodput per interval, and how far the distributions are apart."""
    for group in condition.groups:
        if (of := group.distributions) is None:
            continue
        a, b = (
            ", ".join(shown("goodput_bps", quantiles[at]) for at in (0, 2, 4))
            for quantiles in (of.a_quantiles_bps, of.b_quantiles_bps)
        )
        lengths = f"{of.a_interval_s:g} s" if of.a_interval_s == of.b_interval_s else (
            f"{of.a_interval_s:g} s in A and {of.b_interval_s:g} s in B"
        )  # fmt: skip
        yield (
            f"{group.name}: goodput in intervals of {lengths}, 5th, 50th, 95th percentile: A {a}; B {b}; "
            f"largest distance of the distributions {format_percent(of.apart)}"
        )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = Table()
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return plain(table).rstrip("\n")
