"""A comparison for people in a terminal."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from ccmix.analysis.statistics import Spread
from ccmix.compare import words
from ccmix.compare.matching import Cell
from ccmix.compare.paths import KnownPath
from ccmix.compare.surroundings import MOST_VALUES
from ccmix.compare.verdicts import Compared, Condition, Tested
from ccmix.report.numbers import shown
from ccmix.report.terminal import plain
from ccmix.units import format_percent, format_time

OVERVIEW = (
    "A", "B", "runs", "group", "goodput of A", "goodput of B", "B/A", "95% interval", "verdict", "retransmitted",
    "median RTT",
)  # fmt: skip
HEADINGS = ("group", "metric", "A", "B", "B/A", "95% interval", "verdict")
NONE = "–"


def render(compared: Compared) -> str:
    """What differs, then each condition: a sentence and its numbers, then what is in one campaign alone."""
    return "\n".join(_parts(compared)) + "\n"


def _parts(compared: Compared) -> Iterator[str]:
    if compared.differences:
        yield "What differs between A and B besides the results:"
        yield _table(("what", "A", "B"), difference_lines(compared))
    else:
        yield "Hosts, kernels, tools, paths and traffic of A and B are the same, as far as runs record them."
    yield words.summary(compared)
    if compared.conditions:
        yield _table(OVERVIEW, overview(compared))
    for condition in compared.conditions:
        yield ""
        yield f"{title(condition)}\n  {words.condition(condition, compared.margin)}\n  Matched by: {condition.rule}"
        yield _table(HEADINGS, lines(condition))
        yield from (f"  {sentence}" for sentence in distribution_sentences(condition))
    for name, cells in (("A", compared.only_a), ("B", compared.only_b)):
        if cells:
            yield f"\nIn {name} alone: {', '.join(cell.name for cell in cells)}"


def difference_lines(compared: Compared) -> list[tuple[str, str, str]]:
    return [(one.what, _values(one.a), _values(one.b)) for one in compared.differences]


def _values(values: Sequence[str]) -> str:
    more = f", and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
    return ", ".join(values[:MOST_VALUES]) + more or NONE


def overview(compared: Compared) -> list[tuple[str, ...]]:
    """Under OVERVIEW: a line for each condition and group."""
    return [tuple(_overview(condition, one)) for condition in compared.conditions for one in condition.goodputs]


def _overview(condition: Condition, one: Tested) -> Iterator[str]:
    group, _, *goodput = _line(one)
    yield from (condition.a.name, condition.b.name, f"{len(condition.a.valid)}, {len(condition.b.valid)}", group)
    yield from goodput
    for metric in ("retransmission_rate", "rtt_median_s"):
        of_group = next((other for other in condition.tested if (other.group, other.metric) == (group, metric)), None)
        spreads = (of_group.a, of_group.b) if of_group else (None, None)
        yield ", ".join(shown(metric, spread.mean if spread else None) for spread in spreads)


def title(condition: Condition) -> str:
    """'one delay=5ms: 5 runs and 5 runs'; both names where they differ."""
    a, b = condition.a, condition.b
    names = a.name if a.name == b.name else f"{a.name} and {b.name}"
    return f"{names}: {_runs(a)} in A, {_runs(b)} in B"


def _runs(cell: Cell) -> str:
    invalid = len(cell.results) - len(cell.valid)
    left_out = f" ({invalid} more not valid)" if invalid else ""
    return f"{len(cell.valid)} valid run{'s' if len(cell.valid) != 1 else ''}{_over(cell.path)}{left_out}"


def _over(path: KnownPath) -> str:
    if path.rtt_s is None:
        return ""
    return f" over {'' if path.rtt_is_base else 'at most '}{format_time(float(f'{path.rtt_s:.3g}'))}"


def lines(condition: Condition) -> list[tuple[str, ...]]:
    """Under HEADINGS."""
    return [_line(one) for one in condition.tested if one.a or one.b]


def _line(one: Tested) -> tuple[str, ...]:
    found = one.found
    low_high = f"{found.interval[0]:.3f} to {found.interval[1]:.3f}" if found and found.interval else NONE
    ratio = f"{found.ratio:.3f}" if found and found.ratio is not None else NONE
    return one.group, one.metric, _spread(one.metric, one.a), _spread(one.metric, one.b), ratio, low_high, _verdict(one)


def _verdict(one: Tested) -> str:
    """'can't tell: above all of A'."""
    return one.verdict + (f": {one.single}" if one.single else "")


def _spread(metric: str, spread: Spread | None) -> str:
    """'961 Mbit/s ± 12 Mbit/s': the mean, and half of its 95% interval."""
    if spread is None:
        return NONE
    half = f" ± {shown(metric, (spread.ci95[1] - spread.ci95[0]) / 2)}" if spread.ci95 else ""
    return shown(metric, spread.mean) + half


def distribution_sentences(condition: Condition) -> Iterator[str]:
    """Of goodput per interval: the 5th, 50th and 95th percentile, and how far the distributions are apart."""
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
