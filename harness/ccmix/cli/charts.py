"""`ccmix report --charts`: charts as files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ccmix.archive import ArchiveError
from ccmix.charts.chart import KINDS, Image, Kind
from ccmix.charts.choose import choose
from ccmix.charts.draw import write
from ccmix.charts.heat_map import Choice
from ccmix.report.results import Results


@dataclass(frozen=True)
class Options:
    """`kinds`: none are all that fit."""

    folder: Path
    kinds: Sequence[Kind]
    image: Image
    colours: Choice


def drawn(results: Results, options: Options) -> Iterator[Path]:
    """Draws into the folder, which is made; charts of single conditions are limited unless their kind is named.

    Raises ArchiveError and OSError.
    """
    if options.kinds:
        chosen = choose(results, options.kinds, most=None, steps=options.colours)
    else:
        chosen = choose(results, KINDS, steps=options.colours)
    if not chosen.charts:
        raise ArchiveError(f"no chart fits these results of the kinds {', '.join(options.kinds or KINDS)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for chart in chosen.charts:
        yield write(chart, options.folder, options.image)
    for sentence in chosen.left_out:
        click.echo(sentence, err=True)
