"""The archives that come with ccmix's repository."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import ccmix
from ccmix.archive import ArchiveError
from ccmix.archive.packed import SUFFIX
from ccmix.importing import runs, sources
from ccmix.importing.pairs import paired
from ccmix.importing.write import import_identity, write
from ccmix.model.results import CampaignOrigin, ImportOverrides
from ccmix.temporary import temporary_folder

FOLDER = Path(ccmix.__file__).parents[2] / "archive"
TABLE = FOLDER / "tierney-2021-bost-40g.csv"
OVERRIDES = ImportOverrides(entry="{dst}-{streams}", src="bost-dtn.es.net")
NAME = "tierney-2021"
FIRST_IMPORT = CampaignOrigin(  # of every import, so that importing the table again replaces its documents
    ccmix="0.1.0",
    python="3.11.2",
    command=(
        ".venv/bin/ccmix", "import", f"archive/{TABLE.name}", "--entry", "{dst}-{streams}", "--src", "bost-dtn.es.net",
        "-o", f"archive/{NAME}",
    ),
    lab=False,
    started_s=1795267000.5352225,
)  # fmt: skip


@contextlib.contextmanager
def published() -> Iterator[list[Path]]:
    """Yields the packed archives, and a temporary folder with the imported table of Tierney et al. 2021.

    Raises ArchiveError if this installation has none.
    """
    packed = sorted(FOLDER.glob(f"*{SUFFIX}"))
    if not packed:
        raise ArchiveError(f"{FOLDER}: no published archive is there: use --demo in a clone of ccmix's repository")
    with temporary_folder() as place:
        yield [*packed, _imported_table(place / NAME)]


def _imported_table(outdir: Path) -> Path:
    listing = sources.listing([TABLE], None)
    tests = paired(sources.read(listing.sources, OVERRIDES, lambda _: None).runs, OVERRIDES)
    origin = replace(FIRST_IMPORT, imported=import_identity(listing, OVERRIDES))
    write(outdir, runs.plan(tests, OVERRIDES), OVERRIDES, origin, lambda _: None)
    return outdir
