"""`ccmix compare`."""

import json
from dataclasses import dataclass
from pathlib import Path

from ccmix.archive import Campaign
from ccmix.compare import html, text
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
        names = {"a": str(options.a), "b": str(options.b)}
        return json.dumps(names | found.to_json(), indent=1) + "\n"
    if options.form == "html":
        return html.render(found, options.a.resolve().name, options.b.resolve().name)
    return text.render(found)


def _version(outdir: Path) -> str:
    return str(Campaign.load(outdir).about.get("ccmix", "unknown"))
