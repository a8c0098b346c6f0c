"""Where mistakes and notices of one INI file are collected, each with its place."""

from pathlib import Path
from typing import Any

from ccmix.config import ini
from ccmix.config.keys import Key
from ccmix.config.problems import Problem, quoted


class Telling:
    """`problems` stop everything; `notices` are of what has no effect."""

    def __init__(self, file: ini.IniFile) -> None:
        self._file = file
        self.problems = list(file.problems)
        self.notices: list[Problem] = []

    @property
    def folder(self) -> Path:
        """Of the INI file, which other files are relative to."""
        return self._file.path.parent

    def problem(self, section: ini.Section, key: str | None, message: str) -> None:
        self.problems.append(self._placed(section, key, message))

    def notice(self, section: ini.Section, key: str | None, message: str) -> None:
        self.notices.append(self._placed(section, key, message))

    def read(self, section: ini.Section, key: Key, text: str, name: str | None = None) -> Any:
        """A value; None, and a problem of the key `name`, where it can't be read."""
        try:
            return key.read(text)
        except ValueError as error:
            self.problem(section, name or key.name, f"{quoted(text)} {error}" if key.kind.told else str(error))
            return None

    def _placed(self, section: ini.Section, key: str | None, message: str) -> Problem:
        if key not in section.key_lines and key in self._file.default.key_lines:
            section = self._file.default  # where it stands
        line = section.key_lines.get(key or "") or section.line or None
        name = None if section is self._file.default and key is None else section.name
        return Problem(self._file.path, line, name, key, message)
