"""Writes the report as a single HTML file without scripts, and its charts as SVG files."""

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccmix.analysis import statistics
from ccmix.analysis.effects import effects
from ccmix.analysis.results import Result, Results
from ccmix.analysis.sharing import sharing
from ccmix.analysis.statistics import Row
from ccmix.archive import Campaign
from ccmix.archive.campaign import runs_by_version
from ccmix.charts import draw
from ccmix.charts.choose import choose
from ccmix.charts.draw import InlineDrawing, inline, narrow
from ccmix.charts.encodings import Chart, evenly_spread
from ccmix.files import make_folder, replacing, write_whole
from ccmix.model.results import FinishedRun
from ccmix.report import heading, results_text
from ccmix.report.answer import answer
from ccmix.report.effects_text import range_sentences
from ccmix.report.heading import Listings, Origin, measured_paths, path_sentence
from ccmix.report.runs import RunSection, TableLine, anchor, colours, sections, views
from ccmix.text.words import html_templates
from ccmix.twin.estimate import HEADINGS as ESTIMATE_HEADINGS
from ccmix.units import format_percent
from ccmix.version import version

# Heading, where the metric is, its name (docs/reference/metrics.md)
COLUMNS = (
    ("share", "group", "share"),
    ("fairness within", "group", "fairness"),
    ("fairness of the run", "run", "fairness"),
    ("utilisation", "run", "utilisation"),
    ("start-up", "group", "startup_s"),
    ("overshoot", "group", "overshoot"),
    ("convergence", "run", "convergence_s"),
    ("queueing delay, median", "group", "queueing_delay_median_s"),
    ("95th percentile", "group", "queueing_delay_p95_s"),
    ("buffer in use", "run", "bottleneck.occupancy_mean"),
    ("dropped there", "run", "bottleneck.drop_rate"),
)
MORE_HEADINGS = tuple(heading for heading, _, _ in COLUMNS)

MOST_RUNS = 2000  # of a page, which has some 15 MB then
MOST_SWEPT = 3  # keys that have a column each
# Pixels. A wider chart is drawn a second time for telephones: scaled down to their screens, its
# letters would be too small to read, and the panels of a drawing can't wrap as text does.
PHONE_WIDTH = 390
OF_A_REPORT = "<!-- a chart of ccmix report -->"  # the first line of each SVG file next to a page


def more_cells(row: Row) -> list[str]:
    """Returns the cells under MORE_HEADINGS: means over the valid runs; a dash if no run has it."""
    return [_cell(row, level, metric) for _, level, metric in COLUMNS]


def _cell(row: Row, level: str, metric: str) -> str:
    """Returns a metric's mean as text; a group's share has its fair share added if it competed.

    `level` is 'group' or 'run': which of the row's metrics is meant.
    """
    spread = (row.group_metrics if level == "group" else row.run_metrics).get(metric)
    if spread is None:
        return "–"
    text = statistics.shown(metric, float(f"{spread.mean:.3g}"))
    if metric == "share" and row.fair_share is not None and row.fair_share < 1:
        return f"{text} (fair: {format_percent(row.fair_share)})"
    return text


def shown(results: Results, drawn: Collection[Path]) -> tuple[Result, ...]:
    """Returns the runs that the page shows: all, or a selection of MOST_RUNS, in their order.

    Chosen first are the runs that a chart shows (`drawn` has their folders), then the runs that are
    not valid, then the first run of each condition, and then all others. A set that doesn't fit is
    thinned evenly.
    """
    if len(results.runs) <= MOST_RUNS:
        return results.runs
    chosen: set[Path] = set()
    for candidates in _sets_by_priority(results, drawn):
        not_chosen = [result for result in candidates if result.folder not in chosen]
        chosen |= {result.folder for result in evenly_spread(not_chosen, MOST_RUNS - len(chosen))}
    return tuple(result for result in results.runs if result.folder in chosen)


def _sets_by_priority(results: Results, drawn: Collection[Path]) -> Iterator[Sequence[Result]]:
    """Yields the sets of runs from which shown() chooses, the most important first."""
    yield [result for result in results.runs if result.folder in drawn]
    yield [result for result in results.runs if not result.valid]
    first_runs: dict[tuple[str, str, str], Result] = {}
    for result in results.runs:
        first_runs.setdefault(result.run.repeated_key, result)
    yield list(first_runs.values())
    yield results.runs


def left_out(results: Results, count: int) -> str:
    """Says which runs the page leaves out; '' if it shows all. `count` is the number shown."""
    total = len(results.runs)
    if count == total:
        return ""
    return (
        f"Of {total:,} runs, {count:,} are shown here: those of the charts, then those that are "
        "not valid, then the first of each condition, as far as there is room. The tables and "
        "charts are made of all runs, and each run's numbers are in run.json in its folder."
    )


@dataclass(frozen=True)
class _Chart:
    """A chart of the page, with links to the runs that it shows."""

    chart: Chart
    drawing: InlineDrawing
    narrow_svg: str | None  # for a telephone, of a wide chart
    runs: list[str]  # anchors of the runs


@dataclass(frozen=True)
class _CampaignView:
    """Describes a campaign at the end of the page, with the commands that repeat it."""

    campaign: Campaign
    about: str
    commands: Origin


def write_report(results: Results, file: Path) -> Path:
    """Writes the report of one or more campaigns to `file`.

    For 'report.html' it also writes the folder 'report-charts' with an SVG for each chart, and
    removes those of an earlier report. Raises OSError.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    runs = [(result.outdir, result.finished) for result in results.runs]
    shares = sharing(runs)
    table = results_text.lines(results, MOST_SWEPT)
    columns = results_text.name_columns(results, MOST_SWEPT)
    table_headings = results_text.headings(results, MOST_SWEPT)
    paths = measured_paths(results)
    setups, chosen = Listings(), choose(results)
    undrawn: list[str] = []
    shown_runs = shown(
        results, {folder for chart in chosen.charts if chart.condition for folder in chart.runs}
    )
    parts = sections(shown_runs)
    origins = {campaign.outdir: Origin(campaign.origin) for campaign in results.campaigns}
    page = (
        html_templates("ccmix.report")
        .get_template("page.html")
        .stream(
            title=heading.title(results),
            folders=heading.folders(results),
            paths=heading.paths(results),
            missing=heading.missing(results),
            finished=len(results.runs),
            planned=results.planned,
            measured_on=sorted({_measured_on(result.finished) for result in results.runs}),
            answer=answer(
                shares, effects(shares, runs), range_sentences(results), map(path_sentence, paths)
            ),
            measured_paths=paths,
            path_headings=ESTIMATE_HEADINGS,
            compared=shares.compared,
            headings=table_headings,
            text_columns=columns,
            lines=_linked_lines(results, parts, table),
            more_headings=[*table_headings[:columns], *MORE_HEADINGS],
            more_lines=_linked_lines(
                results,
                parts,
                [
                    [*line[:columns], *more_cells(row)]
                    for line, row in zip(table, results.rows, strict=True)
                ],
            ),
            notes=list(results_text.notes(results)),
            not_valid=results_text.not_valid_sentences(results),
            charts=list(_draw_charts(chosen.charts, parts, file, undrawn)),
            charts_left_out=[*chosen.left_out, *undrawn],
            runs_left_out=left_out(results, len(shown_runs)),
            sections=((part, views(part, origins, setups)) for part in parts),
            campaigns=[
                _campaign_view(campaign, results.versions_of(campaign))
                for campaign in results.campaigns
            ],
            setups=setups.all,
            version=version().text,
        )
    )
    page.enable_buffering(100)
    with replacing(file) as out:
        out.writelines(part.encode() for part in page)
    return file


def _measured_on(finished: FinishedRun) -> str:
    """Returns the machine, kernel and iperf3 of a run: 'lab, Linux 6.1.0, iperf 3.16'."""
    facts = finished.facts
    return ", ".join(
        filter(None, (finished.execution.machine, f"Linux {facts.kernel}", facts.iperf3))
    )


def _linked_lines(
    results: Results, run_sections: Sequence[RunSection], cells: Sequence[Sequence[str]]
) -> list[TableLine]:
    """Returns the rows of a table with links to the sections of their runs.

    `cells` has the texts of each row, in the order of results.rows.
    """
    section_of = {
        (
            section.runs[0].run.entry,
            section.runs[0].run.condition_name,
            section.runs[0].run.dst,
        ): section
        for section in run_sections
    }
    lines, previous = [], None
    for row, row_cells in zip(results.rows, cells, strict=True):
        section = section_of.get((row.entry, row.condition_name, row.dst))
        shades = colours([(row.group, row.cca)])
        lines.append(
            TableLine(
                row_cells,
                first=previous not in (None, row.entry),
                colour=shades[row.group],
                anchor=section.anchor if section else "",
            )
        )
        previous = row.entry
    return lines


def _draw_charts(
    charts: Sequence[Chart],
    run_sections: Sequence[RunSection],
    file: Path,
    undrawn: list[str],
) -> Iterator[_Chart]:
    """Yields each chart for the page, and writes it as an SVG file next to the page.

    A wide chart is drawn a second time for telephones. Charts link to the shown runs that they are
    made of. Adds a sentence to `undrawn` for each chart with numbers that can't be drawn.
    """
    numbers = {
        result.folder: number
        for section in run_sections
        for number, result in enumerate(section.runs, section.first)
    }
    folder = make_folder(file.with_name(f"{file.stem}-charts"))
    _remove_charts(folder)
    for number, chart in enumerate(charts, 1):
        svg = draw.svg(chart.spec)
        try:
            drawing = inline(svg, f"chart{number}", chart.alt_text)
        except OverflowError:  # the drawing would be infinitely high
            undrawn.append(f"{chart.title}: is left out because its numbers are too large to draw.")
            continue
        write_whole(folder / f"{chart.name}.svg", f"{OF_A_REPORT}\n{svg}", sync=False)
        narrow_svg = None
        if drawing.width > PHONE_WIDTH:
            narrow_svg = inline(draw.svg(narrow(chart.spec)), f"narrow{number}", chart.alt_text).svg
        linked = [numbers[run] for run in chart.runs if run in numbers] if chart.condition else []
        yield _Chart(chart, drawing, narrow_svg, list(map(anchor, linked)))


def _remove_charts(folder: Path) -> None:
    """Removes the charts of an earlier report, and no other files, by their first line."""
    for file in folder.glob("*.svg"):
        if file.is_symlink() or not file.is_file():
            continue
        with file.open("rb") as start:
            is_chart = start.read(len(OF_A_REPORT)) == OF_A_REPORT.encode()
        if is_chart:
            file.unlink()


def _campaign_view(campaign: Campaign, versions: Mapping[str, int]) -> _CampaignView:
    """Describes a campaign for the page: versions, seed, start, and the command that repeats it.

    `versions` says how many runs each version of ccmix has made.
    """
    recorded = campaign.origin
    ccmix = runs_by_version(versions) if len(versions) > 1 else recorded.ccmix
    known = {"ccmix": ccmix, "Python": recorded.python, "seed": recorded.seed}
    about_parts = [f"{name} {value}" for name, value in known.items() if value is not None]
    if (started_s := recorded.started_s) is not None:
        about_parts.append(
            f"begun {datetime.datetime.fromtimestamp(started_s, datetime.UTC):%Y-%m-%d %H:%M} UTC"
        )
    return _CampaignView(campaign, ", ".join(about_parts), Origin(recorded))
