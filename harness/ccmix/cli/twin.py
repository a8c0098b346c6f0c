"""`ccmix twin`: says what a measured path is, and writes the emulated path that stands for it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ccmix.cli import options
from ccmix.cli.output import put, tell


@click.command("twin", short_help="Say what a measured path is, and write its emulated twin.")
@options.outdirs(required=True)
@options.form("table", "json")
@click.option("-o", "--output", type=options.PathType(dir_okay=False), metavar="TWIN.ini",
              help="Write an INI file whose topology is the twin, with the campaign's own tests.")  # fmt: skip
def twin(outdirs: tuple[Path, ...], form: str, output: Path | None) -> None:
    """Estimate what the paths of campaigns, or of single runs, are: RTT, rate, buffer, loss and more, each with its 95%
    interval, or why it can't be told.

    Runs of an entry of type path tell most; other tests of iperf3 tell some of it. A run whose run.json or series are
    damaged is left out.

    \b
    ccmix twin results/geneva
    ccmix twin results/geneva -o geneva-twin.ini
    ccmix run geneva-twin.ini --lab
    """
    from ccmix.archive.packed import opened
    from ccmix.report.results_text import left_out
    from ccmix.twin.estimate_text import table
    from ccmix.twin.ini import ini
    from ccmix.twin.twin import twin_of

    unread: list[str] = []
    with opened(outdirs) as archives:
        twins = twin_of(archives.folders, unread)
        for sentence in left_out(unread):
            tell(archives.rename(sentence))
    if form == "json":
        rows = [
            {"path": each.name, "dst": each.runs[0].run.dst, "estimates": [own.to_json() for own in each.estimates]}
            for each in twins
        ]
        put(json.dumps(rows, indent=1) + "\n")
    else:
        put(table(twins))
    if output:
        put(ini(twins), output)
        tell(f"{output}: run it with ccmix run {output} --lab")
