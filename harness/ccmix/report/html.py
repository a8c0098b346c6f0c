"""Writes the report as one HTML file that needs neither network nor script, and its charts as SVG beside it."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from ccmix.analysis.effects import effects
from ccmix.analysis.results import Results
from ccmix.analysis.sharing import sharing
from ccmix.archive import Campaign
from ccmix.archive.replacing import own_folder, replacing, write_whole
from ccmix.charts import draw
from ccmix.charts.chart import Chart
from ccmix.charts.choose import choose
from ccmix.charts.inline_svg import inline
from ccmix.charts.narrow import narrow
from ccmix.model.results import FinishedRun
from ccmix.report import heading, more, results_text
from ccmix.report.answer import answer
from ccmix.report.facts import Listings
from ccmix.report.path_section import HEADINGS, measured_paths, sentence
from ccmix.report.ranges_text import range_sentences
from ccmix.report.repeat import Origin
from ccmix.report.runs import RunSection, TableLine, anchor, colours, sections, views
from ccmix.report.shown import left_out, shown
from ccmix.version import version

MOST_SWEPT = 3  # keys that have a column each
# Pixels. A wider chart is drawn a second time: scaled down to a telephone's screen its letters are too small to read,
# and the panels of a drawing can't wrap as text does.
PHONE_WIDTH = 390
OF_A_REPORT = "<!-- a chart of ccmix report -->"  # begins each SVG beside a page


@dataclass(frozen=True)
class _Chart:
    title: str
    settings: str
    svg: str
    narrow_svg: str | None  # for a telephone, of a wide chart
    width: int  # pixels
    alt_text: str
    runs: tuple["_Link", ...]


@dataclass(frozen=True)
class _Link:
    anchor: str
    name: str


@dataclass(frozen=True)
class _CampaignView:
    name: str
    about: str
    command: str | None
    config: str
    ini: str


def write_report(results: Results, file: Path) -> Path:
    """Writes `file`, and for 'report.html' the folder 'report-charts' with an SVG for each chart.

    Removes charts of an earlier report from that folder. Raises OSError.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    environment = jinja2.Environment(loader=jinja2.PackageLoader("ccmix.report", "."), autoescape=True)
    runs = [(result.outdir, result.finished) for result in results.runs]
    shares = sharing(runs)
    table, columns = results_text.lines(results, MOST_SWEPT), results_text.name_columns(results, MOST_SWEPT)
    table_headings = results_text.headings(results, MOST_SWEPT)
    paths = measured_paths(results)
    setups, chosen = Listings(), choose(results)
    shown_runs = shown(results, {folder for chart in chosen.charts if chart.condition for folder in chart.runs})
    parts = sections(shown_runs)
    origins = {campaign.outdir: Origin(campaign.origin) for campaign in results.campaigns}
    page = environment.get_template("page.html").stream(
        title=heading.title(results),
        folders=heading.folders(results),
        paths=heading.paths(results),
        missing=heading.missing(results),
        finished=len(results.runs),
        planned=results.planned,
        measured_on=sorted({_measured_on(result.finished) for result in results.runs}),
        answer=answer(shares, effects(shares, runs), range_sentences(results), map(sentence, paths)),
        measured_paths=paths,
        path_headings=HEADINGS,
        compared=shares.compared,
        headings=table_headings,
        text_columns=columns,
        lines=_lines(results, parts, table),
        more_headings=[*table_headings[:columns], *more.HEADINGS],
        more_lines=_lines(
            results,
            parts,
            [[*line[:columns], *more.cells(row)] for line, row in zip(table, results.rows, strict=True)],
        ),
        notes=list(results_text.notes(results)),
        not_valid=results_text.not_valid_sentences(results),
        charts=list(_drawn(chosen.charts, parts, file)),
        charts_left_out=chosen.left_out,
        runs_left_out=left_out(results, len(shown_runs)),
        sections=((part, views(part, origins, setups)) for part in parts),
        campaigns=[_campaign(campaign) for campaign in results.campaigns],
        setups=setups.all,
        version=version().name,
    )
    page.enable_buffering(100)
    with replacing(file) as out:
        out.writelines(part.encode() for part in page)
    return file


def _measured_on(finished: FinishedRun) -> str:
    facts = finished.facts
    return ", ".join(filter(None, (finished.execution.machine, f"Linux {facts.kernel}", facts.iperf3)))


def _lines(results: Results, parts: Sequence[RunSection], cells: Sequence[Sequence[str]]) -> list[TableLine]:
    """Returns the rows of the table, which link to their runs."""
    places = {(part.runs[0].run.entry, part.runs[0].run.condition_name, part.runs[0].run.dst): part for part in parts}
    lines, previous = [], None
    for row, line in zip(results.rows, cells, strict=True):
        part = places.get((row.entry, row.condition_name, row.dst))
        shades = colours([(row.group, row.cca)])
        lines.append(
            TableLine(line, first=previous not in (None, row.entry), colour=shades[row.group],
                 anchor=part.anchor if part else "")
        )  # fmt: skip
        previous = row.entry
    return lines


def _drawn(charts: Sequence[Chart], parts: Sequence[RunSection], file: Path) -> Iterator[_Chart]:
    """Yields each chart for the page, and writes it as a file beside it."""
    numbers = {result.folder: number for part in parts for number, result in enumerate(part.runs, part.first)}
    folder = own_folder(file.with_name(f"{file.stem}-charts"))
    _remove_charts(folder)
    for number, chart in enumerate(charts, 1):
        svg = draw.svg(chart.spec)
        write_whole(folder / f"{chart.name}.svg", f"{OF_A_REPORT}\n{svg}", sync=False)
        drawing = inline(svg, f"chart{number}", chart.alt_text)
        narrow_svg = None
        if drawing.width > PHONE_WIDTH:
            narrow_svg = inline(draw.svg(narrow(chart.spec)), f"narrow{number}", chart.alt_text).svg
        linked = [numbers[run] for run in chart.runs if run in numbers] if chart.condition else []
        yield _Chart(
            title=chart.title,
            settings=chart.settings,
            svg=drawing.svg,
            narrow_svg=narrow_svg,
            width=drawing.width,
            alt_text=chart.alt_text,
            runs=tuple(_Link(anchor(run), str(at)) for at, run in enumerate(linked, 1)),
        )


def _remove_charts(folder: Path) -> None:
    """Removes the charts of an earlier report, and no other files."""
    for file in folder.glob("*.svg"):
        if file.is_symlink() or not file.is_file():
            continue
        with file.open("rb") as start:
            ours = start.read(len(OF_A_REPORT)) == OF_A_REPORT.encode()
        if ours:
            file.unlink()


def _campaign(campaign: Campaign) -> _CampaignView:
    origin, about = Origin(campaign.origin), campaign.origin
    known = {"ccmix": about.ccmix, "Python": about.python, "seed": about.seed}
    about_parts = [f"{name} {value}" for name, value in known.items() if value is not None]
    if (started_s := about.started_s) is not None:
        about_parts.append(f"begun {datetime.datetime.fromtimestamp(started_s, datetime.UTC):%Y-%m-%d %H:%M} UTC")
    return _CampaignView(
        name=campaign.outdir.resolve().name,
        about=", ".join(about_parts),
        command=origin.campaign,
        config=origin.config,
        ini=campaign.ini,
    )
