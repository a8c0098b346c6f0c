"""Joins words into lists, formats counts with their verbs, and makes environments of templates."""

from collections.abc import Sequence

import jinja2
import markupsafe

from ccmix.text.printable import printable_lines
from ccmix.units import format_count


def listed(words: Sequence[str], conjunction: str = "and") -> str:
    """Joins words as in a sentence: 'a, b and c'; `conjunction` is the word before the last one."""
    return joined(f" {conjunction} ", ", ".join(words[:-1]), *words[-1:])


def joined(separator: str, *parts: str) -> str:
    """Joins the parts that are not empty, with a separator between them."""
    return separator.join(filter(None, parts))


def be(count: int, noun: str, past: bool = False) -> str:
    """Formats a count with its noun and verb: '1 run is', '3 runs are', or 'was' and 'were'."""
    verb = ("was", "were") if past else ("is", "are")
    return f"{format_count(count, noun)} {verb[count != 1]}"


def capitalised(sentence: str) -> str:
    """Returns the sentence with its first letter as a capital; the others stay as they are."""
    return sentence[:1].upper() + sentence[1:]


def html_templates(package: str) -> jinja2.Environment:
    """Returns the Jinja environment for a package's HTML templates.

    It escapes values, and replaces characters that are not printable; HTML that is marked as safe
    stays as it is.
    """
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."), autoescape=True, finalize=_printable_value
    )


def _printable_value(value: object) -> object:
    """Returns the value of a template's variable, a text in printable characters."""
    is_text = isinstance(value, str) and not isinstance(value, markupsafe.Markup)
    return printable_lines(str(value)) if is_text else value


def text_templates(package: str) -> jinja2.Environment:
    """Returns the Jinja environment for the Markdown and text templates in a package's folder.

    Values are not escaped, and an undefined variable raises an error.
    """
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=False,  # neither is HTML
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
