"""Describes mistakes in a file with their lines and hints, so that all are reported at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ccmix.failures import WrongInput
from ccmix.text.printable import printable

SHOWN = 60  # characters of a wrong word in a message
MOST_KNOWN = 25  # words of a list


@dataclass(frozen=True)
class Problem:
    """Describes one mistake in a file: its place, and how to correct it. `line` is None if it is
    about no single line.
    """

    file: Path
    message: str
    line: int | None = None
    section: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        """Returns the message in one line, 'FILE:LINE: [SECTION] KEY: MESSAGE', without control
        characters.
        """
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        section = f"[{self.section}] " if self.section else ""
        key = f"{self.key} " if self.key else ""
        where = f"{section}{key}".strip()
        sentence = f"{where}: {self.message}" if where else self.message
        line = f"{place}: {' '.join(sentence.split())}"  # one line, also of a value of several
        return printable(line)


class ConfigError(WrongInput):
    """Reports a file with mistakes, all of them in `problems`."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Contradiction(ValueError):
    """Reports values that are each right but contradict each other; `key` is the one to change."""

    def __init__(self, key: str | None, message: str) -> None:
        self.key = key
        super().__init__(message)


def quoted(text: str) -> str:
    """Returns a wrong word in quotes for a message; only the beginning of a long one."""
    return f"'{text}'" if len(text) <= SHOWN else f"'{text[:SHOWN]}…'"


def about(text: str, error: object) -> str:
    """Joins a wrong value and the error about it into one sentence: '5x' and 'is not a rate' become
    "'5x' is not a rate".

    If the error begins with the quoted value, it is a whole sentence already. If it begins with
    another quoted word, it is about a part of the value, and follows after a colon.
    """
    value, sentence = quoted(text), str(error)
    if sentence.startswith(value):
        return sentence
    return f"{value}: {sentence}" if sentence.startswith("'") else f"{value} {sentence}"


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns a hint at words that are known instead of a wrong one: '; did you mean 'x'?' if one
    is similar, otherwise a list of them.
    """
    choices = sorted(known)
    if not choices:
        return "; none is defined"
    by_lower_case = {choice.lower(): choice for choice in choices}
    close = get_close_matches(word[:SHOWN].lower(), by_lower_case, n=1)
    more = ", ..." if len(choices) > MOST_KNOWN else ""
    return (
        f"; did you mean '{by_lower_case[close[0]]}'?"
        if close
        else f"; known: {', '.join(choices[:MOST_KNOWN])}{more}"
    )
