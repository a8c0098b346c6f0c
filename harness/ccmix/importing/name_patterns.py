"""Reads settings from the names of files, by a pattern such as '{rate}_{rtt}_{iteration}_{cca}.json'."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccmix.importing.foreign_run import SourceError
from ccmix.importing.foreign_text import writable

IGNORED = "_"  # the name of a field that may stand several times, and is not kept
MOST_PATTERN_LETTERS = 500
MOST_CONSECUTIVE = 2  # numbers per file, from the first to the last, where they count files
_FIELD = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T_ -]?\d\d[-:._]?\d\d(?:[-:._]?\d\d)?)?|\d{8}[T_-]?\d{4,6}|\d{9,}")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class NamePattern:
    """Matches the last parts of a file's path, as many as the pattern has."""

    text: str
    expression: "re.Pattern[str]"
    fields: tuple[str, ...]
    parts: int

    def fields_of(self, file: Path) -> Mapping[str, str] | None:
        """Returns the fields of a file's name; None if the name is not of this pattern."""
        name = "/".join(file.resolve().parts[-self.parts :])
        match = self.expression.fullmatch(writable(name))
        return {field: match[number] for number, field in enumerate(self.fields, 1)} if match else None


def name_pattern(text: str) -> NamePattern:
    """Reads a pattern. Raises SourceError with what is wrong with it."""

    def refused(why: str) -> SourceError:
        return SourceError(
            f"--name-pattern {writable(text)[:100]}: {why}: "
            "write for instance '{rate}_{rtt}_{iteration}_{cca}.json'"
        )

    if len(text) > MOST_PATTERN_LETTERS:
        raise refused(f"is longer than {MOST_PATTERN_LETTERS} letters")
    pieces = _FIELD.split(text)  # literal, field, literal, field, ..., literal
    literals, names = pieces[::2], pieces[1::2]
    if any(brace in literal for literal in literals for brace in "{}"):
        raise refused("has a brace without its other one")
    for name in names:
        if not _NAME.fullmatch(name):
            raise refused(f"{{{name}}} is no name of a field, which has letters, digits, - and _")
    kept = tuple(name for name in names if name != IGNORED)
    if not kept:
        raise refused("has no field")
    if twice := next((name for name in kept if kept.count(name) > 1), None):
        raise refused(f"has {{{twice}}} twice")
    if "" in literals[1:-1]:
        raise refused("has two fields with nothing between them, so that nobody knows where the first ends")
    expression = re.escape(literals[0])
    for name, literal in zip(names, literals[1:], strict=True):
        expression += ("[^/]+?" if name == IGNORED else "([^/]+?)") + re.escape(literal)
    return NamePattern(text, re.compile(expression), kept, text.count("/") + 1)


def differ_in_more_than_a_number(names: Sequence[str]) -> bool:
    """Returns whether names of files differ in more than a date, or a number that counts them."""
    undated = [_DATE.sub("", name) for name in names]
    if len({_NUMBER.sub("0", name) for name in undated}) > 1:
        return True
    differing = {numbers for numbers in zip(*map(_NUMBER.findall, undated), strict=True) if len(set(numbers)) > 1}
    if len(differing) != 1:
        return bool(differing)
    counted = sorted(map(int, differing.pop()))
    return counted[-1] - counted[0] >= MOST_CONSECUTIVE * len(names)
