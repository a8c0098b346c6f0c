"""`ccmix compare`."""

import json
from dataclasses import dataclass
from pathlib import Path

from ccmix.archive import ArchiveError, Campaign
from ccmix.charts.draw import svg
from ccmix.compare import html, markdown, text
from ccmix.compare.chart import specification
from ccmix.compare.verdicts import compare
from ccmix.report.results import load_results


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    a: Path
    b: Path
    margin: float
    form: str


def compared(options: Options) -> str:
    """What is printed. Raises ArchiveError."""
    made_by = (_version(options.a), _version(options.b))
    found = compare(load_results([options.a]), load_results([options.b]), options.margin, made_by)
    if options.form == "json":
        folders = {"a": str(options.a), "b": str(options.b)}
        return json.dumps(folders | found.to_json(), indent=1) + "\n"
    names = options.a.resolve().name, options.b.resolve().name
    chart = svg(specification(found, *names)) if options.form in ("html", "svg") and found.conditions else ""
    match options.form:
        case "html":
            return html.render(found, *names, chart)
        case "svg" if not chart:
            raise ArchiveError(f"{options.a} and {options.b} have no condition in common: there is nothing to draw")
        case "svg":
            return chart
        case "markdown":
            return markdown.render(found)
        case _:
            return text.render(found)


def _version(outdir: Path) -> str:
    return str(Campaign.load(outdir).about.get("ccmix", "unknown"))
