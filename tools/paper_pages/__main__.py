"""`tools/papers` writes the pages on all repeated papers from the archives of their runs.

It reads archive/papers, and writes docs/papers.md, docs/papers, and their charts and CSV tables.
"""

from collections.abc import Mapping
from pathlib import Path

from ccmix.files import write_whole
from paper_pages.page import IMAGES, page

REPOSITORY = Path(__file__).parents[2]


def main() -> None:
    """Writes the overview, the pages of papers, charts and CSV tables, and removes older ones."""
    made = page(REPOSITORY / "archive" / "papers")
    _write_all(REPOSITORY / "docs" / IMAGES, "*.svg", made.charts)
    write_whole(REPOSITORY / "docs" / "papers.md", made.text)
    _write_all(REPOSITORY / "docs" / "papers", "*.md", made.papers)
    _write_all(REPOSITORY / "archive" / "papers", "*.csv", made.tables)


def _write_all(folder: Path, pattern: str, texts: Mapping[str, str]) -> None:
    """Writes files (text by file name) into the folder, after removing all files there that match
    the pattern, such as '*.svg', so that no outdated file stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(pattern):
        old.unlink()
    for name, text in texts.items():
        write_whole(folder / name, text)


if __name__ == "__main__":
    main()
