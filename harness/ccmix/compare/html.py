"""A comparison as one HTML file that needs no network."""

import jinja2
import markupsafe

from ccmix.compare import text, words
from ccmix.compare.verdicts import Compared


def render(compared: Compared, name_a: str, name_b: str, chart: str = "") -> str:
    """`chart` is a drawing as SVG."""
    environment = jinja2.Environment(loader=jinja2.PackageLoader("ccmix.compare", "."), autoescape=True)
    return environment.get_template("page.html").render(
        name_a=name_a,
        name_b=name_b,
        summary=words.summary(compared),
        differences=text.difference_lines(compared),
        chart=markupsafe.Markup(chart),
        overview_headings=text.OVERVIEW,
        overview=text.overview(compared),
        headings=text.HEADINGS,
        conditions=[
            {
                "title": text.title(one),
                "words": words.condition(one, compared.margin),
                "rule": one.rule,
                "verdict": one.verdict.replace("can't tell", "unknown"),
                "lines": text.lines(one),
                "distributions": list(text.distribution_sentences(one)),
            }
            for one in compared.conditions
        ],
        alone=[
            (name, [cell.name for cell in cells])
            for name, cells in (("A", compared.only_a), ("B", compared.only_b))
            if cells
        ],
    )
