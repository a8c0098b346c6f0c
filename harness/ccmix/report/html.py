"""The report as one HTML file that needs no network, and its charts as SVG beside it."""

from pathlib import Path
from typing import Any

import altair as alt
import jinja2
import vl_convert

from ccmix.report import text
from ccmix.report.charts import condition_charts
from ccmix.report.results import Results


def write_report(results: Results, file: Path) -> Path:
    """Writes `file`, and a folder of its name without suffix with an SVG for each chart. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    charts = condition_charts(results)
    environment = jinja2.Environment(loader=jinja2.PackageLoader("ccmix.report", "."), autoescape=True)
    page = environment.get_template("page.html").render(
        headings=text.headings(results),
        text_columns=2 + len(results.swept),
        lines=text.lines(results),
        planned=results.planned,
        found=len(results.runs),
        not_valid=[result for result in results.runs if result.summary["validity"]["findings"]],
        charts=[(chart.condition, chart.chart.to_dict()) for chart in charts],
        javascript=vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"),
        measured_on=sorted({_measured_on(result.summary) for result in results.runs}),
    )
    file.write_text(page, encoding="utf-8")
    folder = file.with_suffix("") if file.suffix else file.with_name(f"{file.name}-charts")
    folder.mkdir(exist_ok=True)
    for chart in charts:
        (folder / f"{chart.condition}.svg").write_text(_svg(chart.chart))
    return file


def _measured_on(summary: dict[str, Any]) -> str:
    facts = summary["facts"]
    return f"{summary['where']['machine']}, Linux {facts['kernel']}, {facts['iperf3']}"


def _svg(chart: alt.HConcatChart | alt.VConcatChart) -> str:
    return str(vl_convert.vegalite_to_svg(chart.to_dict()))
