"""Writes tables of results, and of comparisons with a baseline, as text, CSV or HTML."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ccmix.analysis.comparison import ALIKE
from ccmix.analysis.counting import (
    MEANINGS,
    imported,
    limit_advice,
    limit_sentences,
    settling_notes,
)
from ccmix.analysis.effects import Baseline, Comparison, comparison_name
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.results import Results
from ccmix.analysis.statistics import Row, shown
from ccmix.model import condition_name
from ccmix.report import heading
from ccmix.report.effects_text import enough, range_sentences
from ccmix.report.heading import MeasuredPath, measured_paths, path_drawing
from ccmix.text.tables import Cell, TextTable, csv_text
from ccmix.text.words import be, html_templates
from ccmix.twin.estimate import HEADINGS as ESTIMATE_HEADINGS
from ccmix.units import format_count, format_percent, format_rate, format_time

COLUMNS = (
    "group",
    "streams",
    "goodput",
    "95% interval",
    "CV",
    "retransmitted",
    "median RTT",
    "runs",
    "not valid",
    "not settled",
)
MOST_NOTES = 10
LEAST_CV = 1e-5  # smaller ones have no number


def cells(row: Row) -> list[str]:
    """Returns the cells of a row under COLUMNS, with a dash for a missing number.

    A row is a group in a condition (a combination of swept values). If no run is valid, the goodput
    has a sign such as ≥, because it is only a bound.
    """
    interval = row.goodput_ci95_bps
    return [
        row.group,
        _range_text(row.streams, row.most_streams),
        ", ".join(map(str, row.not_valid))
        if row.goodput_mean_bps is None
        else format_rate(row.goodput_mean_bps),
        "–" if interval is None else f"± {format_rate((interval[1] - interval[0]) / 2)}",
        "–" if row.goodput_cv is None else _cv_text(row.goodput_cv),
        "–"
        if row.retransmission_rate_mean is None
        else format_percent(row.retransmission_rate_mean),
        "–" if row.rtt_median_s is None else format_time(float(f"{row.rtt_median_s:.3g}")),
        str(row.runs),
        str(row.invalid),
        str(row.not_settled),
    ]


def _range_text(fewest: int, most: int) -> str:
    return f"{fewest} to {most}" if fewest < most else str(most or "–")


def _cv_text(cv: float) -> str:
    return f"< {format_percent(LEAST_CV)}" if 0 < cv < LEAST_CV else format_percent(cv)


def not_valid_sentences(results: Results) -> list[str]:
    """Explains the goodput of runs that are not valid, and how to fix or accept these runs."""
    runs = [result.finished for result in results.runs]
    return [*_shortened(limit_sentences(runs), "conditions"), *limit_advice(runs)]


def headings(results: Results, most_swept: int | None = None) -> list[str]:
    """Returns the headings of the table: one for each swept key, and COLUMNS.

    If more than `most_swept` keys are swept, they share the column 'condition'. None means no
    limit.
    """
    swept = (
        results.swept if most_swept is None or len(results.swept) <= most_swept else ["condition"]
    )
    return ["entry", *(["dst"] if results.between_hosts else []), *swept, *COLUMNS]


def name_columns(results: Results, most_swept: int | None = None) -> int:
    """Returns the number of columns, from the left, that hold names rather than numbers."""
    return len(headings(results, most_swept)) - len(COLUMNS) + 1


def lines(results: Results, most_swept: int | None = None) -> list[list[str]]:
    """Returns the rows of the table as text, in the columns of headings().

    If more than `most_swept` keys are swept, a single column has the values of all of them, such as
    'loss 0.1%, buffer 1bdp'; None means no limit.
    """
    has_own_columns = most_swept is None or len(results.swept) <= most_swept
    return [
        [
            row.entry,
            *([row.dst] if results.between_hosts else []),
            *(
                (row.condition.get(key, "") for key in results.swept)
                if has_own_columns
                else [", ".join(f"{key} {value}" for key, value in row.condition.items())]
            ),
            *cells(row),
        ]
        for row in results.rows
    ]


def terminal_table(results: Results) -> str:
    """Returns the table of results for a terminal, a row per group and condition."""
    names = headings(results)
    return TextTable(
        names,
        lines(results),
        right=range(name_columns(results), len(names)),
        sections=True,
        caption="mean goodput of the group over the valid runs; CV: coefficient of variation",
    ).terminal()


def not_verified_notes(results: Results) -> Iterator[str]:
    """Yields the checks that valid runs could not make, once for all runs of an entry.

    A check, such as that of the loss rate, needs a minimum of data, and a run may be too short.
    """
    run_counts: dict[tuple[str, str], int] = {}
    for result in results.runs:
        texts = result.finished.verdict.not_verified if result.valid else ()
        for check in dict.fromkeys(map(_without_numbers, texts)):
            run_counts.setdefault((result.run.entry, check), 0)
            run_counts[result.run.entry, check] += 1
    for (entry, check), count in run_counts.items():
        yield f"{entry}: in {format_count(count, 'run')}, {check}"


def _without_numbers(not_verified: str) -> str:
    """Returns the sentence on a check without the expected number of losses.

    The number differs between runs; without it, runs of an entry have the same sentence.
    """
    about, of_run, _ = not_verified.partition(" in this run: ")
    return f"{about}: longer runs have more losses" if of_run else about


def notes(results: Results) -> Iterator[str]:
    """Yields the sentences below the table.

    They are about runs that are left out, imported, not valid or not settled, and about rows with
    too few iterations.
    """
    yield from left_out(results.unread)
    if foreign := sum(imported(result.finished) for result in results.runs):
        yield (
            f"{be(foreign, 'run', past=True)} imported: ccmix did not check whether their hosts "
            "limited them, or whether the path was as named; the table counts them"
        )
    for result in results.runs:
        for finding in result.finished.verdict.findings:
            if not finding.accepted:
                yield f"{result.run.name}: {finding.detail}"
    yield from range_sentences(results)
    yield from _shortened(not_verified_notes(results), "sentences")
    yield from _shortened(
        settling_notes(result.finished for result in results.runs if result.valid), "conditions"
    )
    if same := sum(row.goodput_cv is not None and row.goodput_cv <= ALIKE for row in results.rows):
        yield (
            f"{same} of {len(results.rows)} rows have the same goodput in all iterations: nothing "
            "random happened on their path, so they count as one observation and have no interval"
        )
    yield from _too_few_iterations(results.rows)


def left_out(unread: Iterable[str]) -> Iterator[str]:
    """Yields a sentence for each run whose run.json can't be used; `unread` has the reasons."""
    for reason in unread:
        yield f"left out: {reason}: 'ccmix run ... --resume' makes the run again"


def _shortened(sentences: Iterator[str], noun: str) -> Iterator[str]:
    """Yields the first MOST_NOTES sentences, then how many more there are; `noun` says of what."""
    all_sentences = list(sentences)
    yield from all_sentences[:MOST_NOTES]
    if len(all_sentences) > MOST_NOTES:
        yield f"... and the same holds for {len(all_sentences) - MOST_NOTES} more {noun}"


def _too_few_iterations(rows: Sequence[Row]) -> Iterator[str]:
    """Yields how many iterations would narrow each row's interval to ±5% of its goodput.

    Rows with too few iterations for any interval share a sentence.
    """
    wide = [row for row in rows if row.too_few and row.runs - row.invalid >= LEAST_FOR_INTERVAL]
    yield from _shortened((_iterations_sentence(row) for row in wide), "rows")
    if few := sum(row.runs - row.invalid < LEAST_FOR_INTERVAL for row in rows):
        valid = f"fewer than {LEAST_FOR_INTERVAL} valid iterations"
        yield f"{few} of {len(rows)} rows have {valid}, so they have no interval"


def _iterations_sentence(row: Row) -> str:
    """Returns 'bulk rate=1gbit cubic: 5 iterations are too few to know ...; about 12 would do'."""
    name = " ".join([row.entry, condition_name(row.condition), row.group])
    have = f"{name}: {row.runs - row.invalid} iterations are too few to know the goodput to ±5%"
    return f"{have}; {enough(row.iterations_needed)} would do"


def render(results: Results) -> str:
    """Returns the results for a terminal: title, paths, the table, and remarks on invalid runs."""
    finished = (
        f"{len(results.runs)} of {results.planned} planned runs. {heading.missing(results)}"
    ).rstrip()
    above = [
        heading.title(results),
        *heading.paths(results),
        *([finished] if heading.missing(results) else []),
        *heading.mixed_versions(results),
    ]
    paths = "".join(f"{_measured_path_text(path)}\n" for path in measured_paths(results))
    below = "".join(f"{line}\n" for line in not_valid_sentences(results))
    return "".join(f"{line}\n" for line in above) + paths + terminal_table(results) + below


def _measured_path_text(path: MeasuredPath) -> str:
    """Returns a path as a line of stations, and below it the table of its estimates."""
    table = TextTable(ESTIMATE_HEADINGS, path.lines, title=f"The path: {path.title}")
    return f"{path_drawing(path)}\n{table.terminal()}"


def csv_table(rows: Sequence[Row], swept: Sequence[str]) -> str:
    """Returns the rows as CSV, in the units of the columns' names, with a column per swept key."""
    nested = ("condition", "goodput_ci95_bps", "group_metrics", "run_metrics", "not_valid")
    names = [name for name in Row.__dataclass_fields__ if name not in nested]
    invalid_columns = (f"{meaning.replace(' ', '_')}_goodput_mean_bps" for meaning in MEANINGS)
    more = ["goodput_ci95_low_bps", "goodput_ci95_high_bps", *invalid_columns]
    lines: list[list[Cell]] = [[*(f"condition.{key}" for key in swept), *names, *more]]
    for row in rows:
        values = [getattr(row, name) for name in names]
        not_valid = {each.meaning: each.goodput_mean_bps for each in row.not_valid}
        numbers = [*values, *(row.goodput_ci95_bps or (None, None)), *map(not_valid.get, MEANINGS)]
        lines.append([*(row.condition.get(key) for key in swept), *numbers])
    return csv_text(lines)


def against_table(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    """Returns comparisons with a baseline as a text table, a row for each.

    The baseline is one value of a key, such as cca cubic. Each other value is compared with it over
    blocks: pairs of runs of the same iteration that differ only in that key.
    """
    names = against_headings(baseline)
    texts = ("where", baseline.key, "verdict")
    return TextTable(
        names,
        [_against_cells(baseline, comparison) for comparison in comparisons],
        right=[number for number, name in enumerate(names) if name not in texts],
        caption=_against_caption(baseline),
    ).terminal()


def against_headings(baseline: Baseline) -> list[str]:
    """Returns the headings of the table of comparisons with a baseline."""
    return [
        "where",
        baseline.key,
        "blocks",
        "left out",
        "baseline",
        "difference",
        "95% interval",
        "in %",
        "g",
        "p",
        "verdict",
    ]


def against_summary(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    """Counts the comparisons by verdict, in a sentence.

    Example: 'goodput_bps against cca cubic: of 9 comparisons, 4 more, 2 less, 3 undecided.' A
    comparison without a significant difference is undecided.
    """
    decided = Counter(against_verdict(comparison) for comparison in comparisons if comparison.seen)
    counts = [f"{decided[name]} {name}" for name in ("more", "less") if decided[name]]
    if undecided := len(comparisons) - decided.total():
        counts.append(f"{undecided} undecided")
    many = format_count(len(comparisons), "comparison")
    against = f"{baseline.metric} against {baseline.key} {baseline.value}"
    return f"{against}: of {many}, {', '.join(counts)}."


def against_html(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    """Returns the table of comparisons with a baseline as an HTML page of its own."""
    return (
        html_templates("ccmix.report")
        .get_template("against.html")
        .render(
            title=f"{baseline.metric} against {baseline.key} {baseline.value}",
            summary=against_summary(baseline, comparisons),
            caption=_against_caption(baseline),
            headings=against_headings(baseline),
            lines=[{"cells": _against_cells(baseline, comparison)} for comparison in comparisons],
        )
    )


def against_csv(baseline: Baseline, comparisons: Sequence[Comparison]) -> str:
    """Returns the comparisons as CSV, in the metric's unit, with a column for each swept key."""
    keys = list(dict.fromkeys(key for comparison in comparisons for key in comparison.condition))
    numbers = (
        "blocks",
        "baseline_mean",
        "difference",
        "gain_percent",
        "effect_size",
        "p_value",
        "iterations_needed",
    )
    of_condition = ("entry", "dst", *(f"condition.{key}" for key in keys))
    of_comparison = ("metric", "key", "baseline", "setting", "left_out")
    lines: list[list[Cell]] = [
        [*of_condition, *of_comparison, *numbers, "ci95_low", "ci95_high", "p_adjusted", "verdict"]
    ]
    for comparison in comparisons:
        result = comparison.result
        low, high = result.interval if result and result.interval else (None, None)
        compared: list[Cell] = [
            baseline.metric,
            baseline.key,
            baseline.value,
            comparison.value,
            comparison.left_out,
        ]
        values: list[Cell] = [getattr(result, name, None) for name in numbers]
        names: list[Cell] = [
            comparison.entry,
            comparison.dst,
            *(comparison.condition.get(key) for key in keys),
        ]
        lines.append(
            [
                *names,
                *compared,
                *values,
                low,
                high,
                comparison.p_adjusted,
                against_verdict(comparison),
            ]
        )
    return csv_text(lines)


def _against_caption(baseline: Baseline) -> str:
    """Returns the caption of the table, which explains its differences, g and p."""
    return (
        f"{baseline.metric} less that of {baseline.key} {baseline.value}, over the blocks with "
        "valid runs of both; g: effect size (Hedges); p: adjusted for the number of rows (Holm)"
    )


def _against_cells(baseline: Baseline, comparison: Comparison) -> list[str]:
    """Returns the cells of a comparison of one value of the key with the baseline value.

    They are dashes if no block (an iteration) has valid runs of both values.
    """
    dst = "" if comparison.dst in ("", "receiver") else f" {comparison.dst}"
    where = f"{comparison_name(comparison)}{dst}"
    result = comparison.result
    if result is None:
        return [
            where,
            comparison.value,
            "0",
            str(comparison.left_out),
            *["–"] * 6,
            against_verdict(comparison),
        ]
    low_high = result.interval and " to ".join(
        shown(baseline.metric, end) for end in result.interval
    )
    return [
        where,
        comparison.value,
        str(result.blocks),
        str(comparison.left_out),
        shown(baseline.metric, result.baseline_mean),
        shown(baseline.metric, result.difference),
        low_high or "–",
        "–" if result.gain_percent is None else f"{result.gain_percent:+.3g}",
        "–" if result.effect_size is None else f"{result.effect_size:.2f}",
        "–" if comparison.p_adjusted is None else f"{comparison.p_adjusted:.2g}",
        against_verdict(comparison),
    ]


def against_verdict(comparison: Comparison) -> str:
    """Returns 'more', 'less', or "can't tell" with the reason or the iterations that would do."""
    if comparison.result is None:
        return "can't tell: no block has valid runs of both"
    if comparison.result.alike:
        return "can't tell: all iterations are alike and count as one observation"
    if comparison.p_adjusted is None:
        return f"can't tell: at least {LEAST_FOR_INTERVAL} iterations are needed"
    if comparison.seen:
        return "more" if comparison.result.difference > 0 else "less"
    needed = comparison.result.iterations_needed
    if needed is None:
        return "can't tell"
    return f"can't tell: about {max(needed, comparison.result.blocks + 1)} iterations would do"
