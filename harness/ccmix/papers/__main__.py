"""`python -m ccmix.papers` writes docs/papers.md and its charts from the archives in archive/papers."""

from pathlib import Path

import ccmix
from ccmix.archive.replacing import write_whole
from ccmix.papers.page import page
from ccmix.papers.section import IMAGES

REPOSITORY = Path(ccmix.__file__).parents[2]


def main() -> None:
    """Writes the page, and its charts in place of all older ones."""
    made = page(REPOSITORY / "archive" / "papers")
    images = REPOSITORY / "docs" / IMAGES
    images.mkdir(parents=True, exist_ok=True)
    for old in images.glob("*.svg"):
        old.unlink()
    for name, drawn in made.charts.items():
        write_whole(images / name, drawn)
    write_whole(REPOSITORY / "docs" / "papers.md", made.text)


if __name__ == "__main__":
    main()
