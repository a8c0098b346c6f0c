"""Formats numbers with their nouns and lists of words, and makes the environments of templates."""

from collections.abc import Sequence

import jinja2

from ccmix.units import format_count


def listed(words: Sequence[str], last: str = "and") -> str:
    """Returns 'a, b and c'."""
    return joined(f" {last} ", ", ".join(words[:-1]), *words[-1:])


def joined(separator: str, *parts: str) -> str:
    """Returns those of the parts that are not empty, with a separator between them."""
    return separator.join(filter(None, parts))


def be(count: int, noun: str, past: bool = False) -> str:
    """Returns '1 run is' or '3 runs are', or with 'was' and 'were'."""
    verb = ("was", "were") if past else ("is", "are")
    return f"{format_count(count, noun)} {verb[count != 1]}"


def capitalised(sentence: str) -> str:
    """Returns a sentence with a capital letter."""
    return sentence[:1].upper() + sentence[1:]


def html_templates(package: str) -> jinja2.Environment:
    """Returns the environment of the HTML templates in a package."""
    return jinja2.Environment(loader=jinja2.PackageLoader(package, "."), autoescape=True)


def text_templates(package: str) -> jinja2.Environment:
    """Returns the environment of the templates of Markdown and plain text in a package."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."),
        autoescape=False,  # neither is HTML
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
