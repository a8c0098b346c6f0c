"""Describes what is wrong with a file, so that all of it is reported at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

SHOWN = 60  # characters of a wrong word that are repeated
REPLACED = "\ufffd"  # replaces what would move a terminal's cursor
MOST_KNOWN = 25  # words of a list


@dataclass(frozen=True, order=True)
class Problem:
    """Describes one mistake: where it is, and what would be right."""

    file: Path
    line: int | None
    section: str | None
    key: str | None
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        section = f"[{self.section}] " if self.section else ""
        key = f"{self.key} " if self.key else ""
        where = f"{section}{key}".strip()
        sentence = f"{where}: {self.message}" if where else self.message
        line = f"{place}: {' '.join(sentence.split())}"  # one, also where a value has several
        return "".join(letter if letter.isprintable() else REPLACED for letter in line)


class ConfigError(Exception):
    """Reports a file with mistakes, all of them in `problems`."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Contradiction(ValueError):
    """Reports values that are right alone and contradict each other; `key` is the one to change."""

    def __init__(self, key: str | None, message: str) -> None:
        self.key = key
        super().__init__(message)


def quoted(text: str) -> str:
    """Returns a wrong word as it was written; of a long one, its beginning."""
    return f"'{text}'" if len(text) <= SHOWN else f"'{text[:SHOWN]}…'"


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns '; did you mean 'x'?' where a known word is near, else the list of them."""
    choices = sorted(known)
    by_lower_case = {choice.lower(): choice for choice in choices}
    close = get_close_matches(word[:SHOWN].lower(), by_lower_case, n=1)
    more = ", ..." if len(choices) > MOST_KNOWN else ""
    return (
        f"; did you mean '{by_lower_case[close[0]]}'?"
        if close
        else f"; known are {', '.join(choices[:MOST_KNOWN])}{more}"
    )
