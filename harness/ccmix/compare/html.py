"""Writes a comparison as one HTML file that needs no network."""

import jinja2
import markupsafe

from ccmix.charts.inline_svg import inline
from ccmix.compare import comparison_text, verdict_text
from ccmix.compare.verdicts import Compared
from ccmix.units import format_percent


def render(compared: Compared, name_a: str, name_b: str, chart: str = "") -> str:
    """Returns the page; `chart` is a drawing as SVG."""
    environment = jinja2.Environment(loader=jinja2.PackageLoader("ccmix.compare", "."), autoescape=True)
    drawing = inline(chart, "chart", "Goodput of all conditions; the table has the same numbers") if chart else None
    return environment.get_template("page.html").render(
        name_a=name_a,
        name_b=name_b,
        summary=verdict_text.summary(compared),
        differences=comparison_text.difference_lines(compared),
        chart=markupsafe.Markup(drawing.svg) if drawing else "",
        chart_width=drawing.width if drawing else 0,
        chart_note=f"Grey: within ±{format_percent(compared.margin)} of A's mean.",
        overview_headings=comparison_text.OVERVIEW,
        overview=comparison_text.overview(compared),
        headings=comparison_text.HEADINGS,
        conditions=[
            {
                "title": comparison_text.title(condition),
                "sentence": verdict_text.condition(condition, compared.margin),
                "rule": condition.rule,
                "verdict": condition.verdict.replace("can't tell", "unknown"),
                "lines": comparison_text.lines(condition),
                "distributions": list(comparison_text.distribution_sentences(condition)),
            }
            for condition in compared.conditions
        ],
        alone=[
            (name, [cell.name for cell in cells])
            for name, cells in (("A", compared.only_a), ("B", compared.only_b))
            if cells
        ],
    )
