"""Writes the result table for people in a terminal, and as CSV."""

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table
from rich.text import Text

from ccmix.analysis.comparison import ALIKE
from ccmix.analysis.counting import imported
from ccmix.analysis.intervals import LEAST_FOR_INTERVAL
from ccmix.analysis.limited import MEANINGS, advice, sentences
from ccmix.analysis.results import Results
from ccmix.analysis.settling_text import notes as settling_notes
from ccmix.analysis.statistics import Row
from ccmix.csv_cell import Cell, csv_text
from ccmix.model import condition_name
from ccmix.plain_text import plain
from ccmix.report import heading
from ccmix.report.path_section import HEADINGS, MeasuredPath, drawing, measured_paths
from ccmix.report.ranges_text import range_sentences
from ccmix.units import format_count, format_percent, format_rate, format_time

# A heading for each column, and how a row fills it.
COLUMNS = (
    "group", "streams", "goodput", "95% interval", "CV", "retransmitted", "median RTT", "runs", "not valid",
    "not settled",
)  # fmt: skip
MOST_NOTES = 10
LEAST_CV = 1e-5  # smaller ones have no number


def cells(row: Row) -> list[str]:
    """Returns the row under COLUMNS; a dash where there is no number. Without a valid run, goodputs have a sign."""
    interval = row.goodput_ci95_bps
    return [
        row.group,
        str(row.streams or "–"),
        ", ".join(map(str, row.not_valid)) if row.goodput_mean_bps is None else format_rate(row.goodput_mean_bps),
        "–" if interval is None else f"± {format_rate((interval[1] - interval[0]) / 2)}",
        "–" if row.goodput_cv is None else _cv(row.goodput_cv),
        "–" if row.retransmission_rate_mean is None else format_percent(row.retransmission_rate_mean),
        "–" if row.rtt_median_s is None else format_time(float(f"{row.rtt_median_s:.3g}")),
        str(row.runs),
        str(row.invalid),
        str(row.not_settled),
    ]


def _cv(cv: float) -> str:
    return f"< {format_percent(LEAST_CV)}" if 0 < cv < LEAST_CV else format_percent(cv)


def not_valid_sentences(results: Results) -> list[str]:
    """Returns what the goodput of runs that are not valid means, by condition, and what to do about them."""
    runs = [result.finished for result in results.runs]
    return [*_first(sentences(runs), "conditions"), *advice(runs)]


def headings(results: Results, most_swept: int | None = None) -> list[str]:
    """Returns a heading for each column; one for the whole condition if more keys than `most_swept` are swept."""
    swept = results.swept if most_swept is None or len(results.swept) <= most_swept else ["condition"]
    return ["entry", *(["dst"] if results.between_hosts else []), *swept, *COLUMNS]


def name_columns(results: Results, most_swept: int | None = None) -> int:
    """Returns how many columns hold names, counted from the first."""
    return len(headings(results, most_swept)) - len(COLUMNS) + 1


def lines(results: Results, most_swept: int | None = None) -> list[list[str]]:
    """Returns the whole table as text, under headings()."""
    apart = most_swept is None or len(results.swept) <= most_swept
    return [
        [
            row.entry,
            *([row.dst] if results.between_hosts else []),
            *((row.condition.get(key, "") for key in results.swept) if apart else [_condition(row)]),
            *cells(row),
        ]
        for row in results.rows
    ]


def _condition(row: Row) -> str:
    return ", ".join(f"{key} {value}" for key, value in row.condition.items())


def terminal_table(results: Results) -> Table:
    table = Table(caption="mean goodput of the group over the valid runs; CV: coefficient of variation")
    text_columns = name_columns(results)
    for number, name in enumerate(headings(results)):
        table.add_column(name, justify="left" if number < text_columns else "right", no_wrap=True)
    previous = None
    for line in lines(results):
        if previous not in (None, line[0]):
            table.add_section()
        previous = line[0]
        table.add_row(*map(Text, line))  # names may look like rich's markup
    return table


def not_verified_notes(results: Results) -> Iterator[str]:
    """Yields what valid runs were too short to show, or nothing reports, once for all runs of an entry."""
    runs_of: dict[tuple[str, str], int] = {}
    for result in results.runs:
        texts = result.finished.verdict.not_verified if result.valid else ()
        for about in dict.fromkeys(map(_without_numbers, texts)):
            runs_of.setdefault((result.run.entry, about), 0)
            runs_of[result.run.entry, about] += 1
    for (entry, about), count in runs_of.items():
        yield f"{entry}: in {format_count(count, 'run')}, {about}"


def _without_numbers(not_verified: str) -> str:
    """Returns a sentence of a verdict without how many losses were expected, which differs from run to run."""
    about, of_run, _ = not_verified.partition(" in this run: ")
    return f"{about}: longer runs have more losses" if of_run else about


def notes(results: Results) -> Iterator[str]:
    """Yields which runs are left out, what was imported, why runs are not valid or have not settled, and where
    iterations are too few.
    """
    yield from left_out(results.unread)
    if foreign := sum(imported(result.finished) for result in results.runs):
        yield (
            f"{foreign} run{' was' if foreign == 1 else 's were'} imported: ccmix did not check whether their hosts "
            "limited them, or whether the path was as named; the table counts them"
        )
    for result in results.runs:
        for finding in result.finished.verdict.findings:
            if not finding.accepted:
                yield f"{result.run.name}: {finding.detail}"
    yield from range_sentences(results)
    yield from _first(not_verified_notes(results), "sentences")
    yield from _first(settling_notes(result.finished for result in results.runs if result.valid), "conditions")
    if same := sum(row.goodput_cv is not None and row.goodput_cv <= ALIKE for row in results.rows):
        yield (
            f"{same} of {len(results.rows)} rows have the same goodput in all iterations: nothing random happened on "
            "their path, so they count as one observation and have no interval"
        )
    yield from _too_few(results.rows)


def left_out(unread: Iterable[str]) -> Iterator[str]:
    """Yields a sentence for each run that is left out since its run.json can't be used, of the reasons."""
    for why in unread:
        yield f"left out: {why}: 'ccmix run ... --resume' makes the run again"


def _first(sentences: Iterator[str], of_what: str) -> Iterator[str]:
    """Yields the first MOST_NOTES, and how many more there are."""
    every = list(sentences)
    yield from every[:MOST_NOTES]
    if len(every) > MOST_NOTES:
        yield f"... and the same holds for {len(every) - MOST_NOTES} more {of_what}"


def _too_few(rows: Sequence[Row]) -> Iterator[str]:
    """Yields rows whose goodput is not known to 5% yet, and how many iterations would be enough."""
    wide = [row for row in rows if row.too_few and row.runs - row.invalid >= LEAST_FOR_INTERVAL]
    yield from _first((_wide(row) for row in wide), "rows")
    if few := sum(row.runs - row.invalid < LEAST_FOR_INTERVAL for row in rows):
        valid = f"fewer than {LEAST_FOR_INTERVAL} valid iterations"
        yield f"{few} of {len(rows)} rows have {valid}, so they have no interval"


def _wide(row: Row) -> str:
    name = " ".join([row.entry, condition_name(row.condition), row.group])
    have = f"{name}: {row.runs - row.invalid} iterations are too few to know the goodput to ±5%"
    needed = "more than 10,000" if row.iterations_needed is None else f"about {row.iterations_needed}"
    return f"{have}; {needed} would do"


def render(results: Results) -> str:
    """Returns the table as plain text, as wide as it needs to be, between what it is of and what is not
    valid.
    """
    finished = f"{len(results.runs)} of {results.planned} planned runs. {heading.missing(results)}".rstrip()
    above = [heading.title(results), *heading.paths(results), *([finished] if heading.missing(results) else [])]
    paths = "".join(f"{_measured_path(path)}\n" for path in measured_paths(results))
    below = "".join(f"{line}\n" for line in not_valid_sentences(results))
    return "".join(f"{line}\n" for line in above) + paths + plain(terminal_table(results)) + below


def _measured_path(path: MeasuredPath) -> str:
    """Returns the path as a line of stations, above the table of its estimates."""
    table = Table(title=f"The path: {path.title}", title_justify="left")
    for name in HEADINGS:
        table.add_column(name, no_wrap=True)
    for line in path.lines:
        table.add_row(*map(Text, line))
    return f"{drawing(path)}\n{plain(table)}"


def csv_table(rows: Sequence[Row], swept: Sequence[str]) -> str:
    """Returns the rows with numbers in the units of their names, and a column for each swept key."""
    nested = ("condition", "goodput_ci95_bps", "group_metrics", "run_metrics", "not_valid")
    names = [name for name in Row.__dataclass_fields__ if name not in nested]
    apart = (f"{meaning.replace(' ', '_')}_goodput_mean_bps" for meaning in MEANINGS)
    more = ["goodput_ci95_low_bps", "goodput_ci95_high_bps", *apart]
    lines: list[list[Cell]] = [[*(f"condition.{key}" for key in swept), *names, *more]]
    for row in rows:
        values = [getattr(row, name) for name in names]
        not_valid = {each.meaning: each.goodput_mean_bps for each in row.not_valid}
        numbers = [*values, *(row.goodput_ci95_bps or (None, None)), *map(not_valid.get, MEANINGS)]
        lines.append([*(row.condition.get(key) for key in swept), *numbers])
    return csv_text(lines)
