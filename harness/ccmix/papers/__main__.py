"""`python -m ccmix.papers` writes docs/papers.md, docs/papers, their charts and their tables of
cells from the archives in archive/papers.
"""

from collections.abc import Mapping
from pathlib import Path

import ccmix
from ccmix.files import write_whole
from ccmix.papers.page import IMAGES, page

REPOSITORY = Path(ccmix.__file__).parents[2]


def main() -> None:
    """Writes the pages, their charts and tables, in place of all older ones."""
    made = page(REPOSITORY / "archive" / "papers")
    _write_all(REPOSITORY / "docs" / IMAGES, "*.svg", made.charts)
    write_whole(REPOSITORY / "docs" / "papers.md", made.text)
    _write_all(REPOSITORY / "docs" / "papers", "*.md", made.papers)
    _write_all(REPOSITORY / "archive" / "papers", "*.csv", made.tables)


def _write_all(folder: Path, kind: str, texts: Mapping[str, str]) -> None:
    """Writes files in place of all older ones of their kind."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(kind):
        old.unlink()
    for name, written in texts.items():
        write_whole(folder / name, written)


if __name__ == "__main__":
    main()
