"""The INI layer: sections, keys and the lines they stand on, with nothing interpreted yet."""

import configparser
import re
from dataclasses import dataclass
from pathlib import Path

from ccmix.config.problems import ConfigError, Problem

DEFAULT = "DEFAULT"

_SECTION = re.compile(r"\[(?P<name>[^]]+)\]")
_KEY = re.compile(r"(?P<name>[^\s=:#;][^=:]*?)\s*[=:]")


@dataclass(frozen=True)
class Section:
    """One section: `own` values, and those inherited from [DEFAULT]; lines by key."""

    name: str
    line: int
    own: dict[str, str]
    inherited: dict[str, str]
    key_lines: dict[str, int]


@dataclass(frozen=True)
class IniFile:
    """A file's sections in order, without [DEFAULT]; `problems` are the mistakes that did not stop the reading."""

    path: Path
    text: str
    sections: tuple[Section, ...]
    default: Section
    problems: tuple[Problem, ...]


def read(path: Path) -> IniFile:
    """The file's sections. Raises ConfigError where nothing can be read: no file, not UTF-8, no section."""
    text = _text(path)
    lines, problems = _scan(path, text)
    parser = configparser.ConfigParser(interpolation=None, strict=False, empty_lines_in_values=False)
    try:
        parser.read_string(text, source=str(path))
    except configparser.MissingSectionHeaderError as error:
        message = f"{error.line.strip()!r} stands before the first section: start with a line such as [my-entry]"
        raise ConfigError([Problem(path, error.lineno, None, None, message)]) from error
    except configparser.ParsingError as error:  # raised after all that could be read was read
        problems += [
            Problem(path, line, None, None, f"{source} is neither a section, a 'key = value' nor a comment (# ...)")
            for line, source in error.errors
        ]

    default = Section(DEFAULT, lines.get((DEFAULT, None), 0), dict(parser.defaults()), {}, _key_lines(lines, DEFAULT))
    sections = []
    for name in parser.sections():
        key_lines = _key_lines(lines, name)
        values = dict(parser.items(name))
        own = {key: value for key, value in values.items() if key in key_lines}
        inherited = {key: value for key, value in values.items() if key not in key_lines}
        sections.append(Section(name, lines[name, None], own, inherited, key_lines))
    return IniFile(path, text, tuple(sections), default, tuple(problems))


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([Problem(path, None, None, None, f"can't be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message = f"byte {error.object[error.start]:#04x} is not UTF-8: save the file as UTF-8"
        raise ConfigError([Problem(path, line, None, None, message)]) from error


def _scan(path: Path, text: str) -> tuple[dict[tuple[str, str | None], int], list[Problem]]:
    """Line numbers of sections (key None) and keys, and all that stands twice: configparser tells only of the first."""
    lines: dict[tuple[str, str | None], int] = {}
    problems: list[Problem] = []
    section = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line[0].isspace() or line[0] in "#;":
            continue
        if header := _SECTION.match(line):
            section, key = header["name"], None
        elif section is not None and (option := _KEY.match(line)):
            key = option["name"].lower()
        else:
            continue
        first = lines.setdefault((section, key), number)
        if first != number:
            problems.append(Problem(path, number, section, key, f"stands twice, first in line {first}: remove one"))
    return lines, problems


def _key_lines(lines: dict[tuple[str, str | None], int], section: str) -> dict[str, int]:
    return {key: line for (name, key), line in lines.items() if name == section and key is not None}
