"""`ccmix index`: its options and help."""

import math
import sys
from pathlib import Path

import click

from ccmix.cli import options
from ccmix.index.target import PATIENCE


@click.command("index", short_help="Put campaigns into an Elasticsearch, for Kibana.")
@click.argument("outdirs", type=options.PathType(), nargs=-1)
@click.option("--url", metavar="URL", envvar="CCMIX_INDEX_URL", required=True,
              help="Of Elasticsearch 8, such as https://elastic.example.org:9200; without a password.")  # fmt: skip
@click.option("--setup", is_flag=True, help="Make or update templates, indices and the policy for samples first.")
@click.option("--demo", is_flag=True, help="The archives that come with ccmix, into a server that --setup prepares.")
@options.only
@click.option("--credentials", type=options.PathType(dir_okay=False), metavar="FILE",
              help="With 'api-key = ...', or 'user = ...' and 'password = ...'; see CCMIX_INDEX_... too.")  # fmt: skip
@click.option("--ca", type=options.PathType(dir_okay=False), metavar="FILE",
              help="CA certificates that verify the server's  [default: the system's]")  # fmt: skip
@click.option("--spool", type=options.PathType(file_okay=False), metavar="FOLDER",
              help="Where documents wait  [default: in ccmix's state folder]")  # fmt: skip
@click.option("--patience", type=click.FloatRange(0, math.inf, max_open=True), envvar=PATIENCE, default=600.0,
              show_default=True, metavar="SECONDS",
              help="How long the server may take nothing before this gives up.")  # fmt: skip
@click.option("--follow", is_flag=True, hidden=True)
def index(
    outdirs: tuple[Path, ...],
    url: str,
    setup: bool,
    demo: bool,
    only: tuple[str, ...],
    credentials: Path | None,
    ca: Path | None,
    spool: Path | None,
    patience: float,
    follow: bool,
) -> None:
    """Put the campaigns in OUTDIRS into an Elasticsearch, for Kibana.

    Doing it again changes nothing; after a new analysis it replaces what was there. What the server does not take now
    waits on disk and is tried again; what it never takes is kept aside with the reason.

    \b
    ccmix index --url http://localhost:9200 --setup          once
    ccmix index --url http://localhost:9200 results/demo
    """
    from ccmix.cli import index as work  # noqa: PLC0415

    sys.exit(
        work.index(work.Options(outdirs, url, setup, demo, only, credentials, ca, spool, patience, follow))
    )  # fmt: skip
