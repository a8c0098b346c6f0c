"""Makes text that may come from other people safe to show: on a terminal, in a page or a chart."""

import unicodedata

REPLACEMENT = "\ufffd"


def printable(text: str) -> str:
    """Returns a line of text with a replacement character for each character that is not printable.

    These are the control characters (which a terminal obeys and SVG forbids), line breaks, marks
    that change the direction of reading, and halves of surrogate pairs. All kinds of spaces stay.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or unicodedata.category(letter) == "Zs" else REPLACEMENT
        for letter in text
    )


def printable_lines(text: str) -> str:
    """Returns a text of several lines as printable() does, but keeps line feeds and tabs."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
