"""Writes the parts of a Markdown page: tables, blocks to open, and prose of at most WIDTH columns."""

import textwrap
from collections.abc import Iterator, Sequence

WIDTH = 100
AS_THEY_ARE = ("|", "#", "<")  # lines of tables, headings and HTML


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', 'or') for cell in row)} |"
    yield ""


def to_open(summary: str, lines: Sequence[str]) -> Iterator[str]:
    """Yields lines that readers see when they open them; GitHub, GitLab and Forgejo show them so."""
    yield f"<details><summary>{summary}</summary>\n"
    yield from lines
    yield "</details>\n"


def wrapped(markdown: str) -> str:
    """Returns the text with prose of at most WIDTH columns; tables, headings and HTML stay as they are."""
    blocks = ("\n".join(_lines(block)) for block in markdown.split("\n\n"))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _lines(block: str) -> Iterator[str]:
    prose: list[str] = []
    for line in block.splitlines():
        if line.startswith((*AS_THEY_ARE, "- ")):
            yield from _filled(prose)
            prose = []
        if line.startswith(AS_THEY_ARE):
            yield line
        else:
            prose.append(line)
    yield from _filled(prose)


def _filled(prose: Sequence[str]) -> list[str]:
    if not prose:
        return []
    indent = "  " if prose[0].startswith("- ") else ""
    return textwrap.wrap(
        " ".join(line.strip() for line in prose), WIDTH, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
