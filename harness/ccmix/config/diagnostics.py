"""Collects the mistakes and notices of one INI file, each with its place, while values are read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.config import ini
from ccmix.config.keys import KeyTable, Member
from ccmix.config.problems import Problem, quoted


@dataclass(frozen=True)
class Setting:
    """Holds the value of a key, of a member of a family as a Member, and the text that it was read from."""

    text: str
    value: Any


class Diagnostics:
    """Collects `problems`, which stop everything, and `notices` about what has no effect."""

    def __init__(self, file: ini.IniFile) -> None:
        self._file = file
        self.problems = list(file.problems)
        self.notices: list[Problem] = []

    @property
    def folder(self) -> Path:
        """The folder of the INI file, which other files are relative to."""
        return self._file.path.parent

    def problem(self, section: ini.Section, key: str | None, message: str) -> None:
        self.problems.append(self._placed(section, key, message))

    def notice(self, section: ini.Section, key: str | None, message: str) -> None:
        self.notices.append(self._placed(section, key, message))

    def read(
        self, section: ini.Section, keys: KeyTable, name: str, text: str, place: str | None = None
    ) -> Setting | None:
        """Reads the value of a key; returns None, and notes problems of the key `place`, where it can't be read."""
        key, place = keys[name], place or name
        before = len(self.problems)
        member = value = None
        if key.member:
            try:
                member = key.member(name.partition(".")[2])
            except ValueError as error:
                self.problem(section, place, str(error))
        try:
            value = key.read(text)
        except ValueError as error:
            self.problem(section, place, f"{quoted(text)} {error}" if key.kind.shown else str(error))
        if len(self.problems) > before:
            return None
        return Setting(text, Member(member, value) if key.member else value)

    def _placed(self, section: ini.Section, key: str | None, message: str) -> Problem:
        if key not in section.key_lines and key in self._file.default.key_lines:
            section = self._file.default  # where it stands
        line = section.key_lines.get(key or "") or section.line or None
        name = None if section is self._file.default and key is None else section.name
        return Problem(self._file.path, line, name, key, message)
