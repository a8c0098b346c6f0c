"""The report as one HTML file that needs no network, and its charts as SVG beside it."""

from pathlib import Path
from typing import Any

import jinja2
import vl_convert

from ccmix.charts import draw
from ccmix.charts.choose import choose
from ccmix.report import text
from ccmix.report.results import Results


def write_report(results: Results, file: Path) -> Path:
    """Writes `file`, and a folder of its name without suffix with an SVG for each chart. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    chosen = choose(results)
    environment = jinja2.Environment(loader=jinja2.PackageLoader("ccmix.report", "."), autoescape=True)
    page = environment.get_template("page.html").render(
        headings=text.headings(results),
        text_columns=2 + len(results.swept),
        lines=text.lines(results),
        planned=results.planned,
        found=len(results.runs),
        not_valid=[result for result in results.runs if result.summary["validity"]["findings"]],
        charts=[(chart.title, chart.spec) for chart in chosen.charts],
        left_out=chosen.left_out,
        javascript=vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"),
        measured_on=sorted({_measured_on(result.summary) for result in results.runs}),
    )
    file.write_text(page, encoding="utf-8")
    folder = file.with_suffix("") if file.suffix else file.with_name(f"{file.name}-charts")
    folder.mkdir(exist_ok=True)
    for chart in chosen.charts:
        draw.write(chart, folder, "svg")
    return file


def _measured_on(summary: dict[str, Any]) -> str:
    facts = summary["facts"]
    return f"{summary['where']['machine']}, Linux {facts['kernel']}, {facts['iperf3']}"
