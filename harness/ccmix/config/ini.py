"""Splits an INI file into sections and keys with their line numbers, and interprets no values."""

import configparser
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ccmix.config.problems import ConfigError, Problem, quoted

DEFAULT = "DEFAULT"
MOST_BYTES = 1_000_000  # of a file that people write


@dataclass(frozen=True)
class Section:
    """Holds one section of the file. `own` has the texts of the keys in the section, `inherited`
    those of the keys in [DEFAULT] that the section does not have. `line` is the line number of the
    section's header, and `key_lines` has the line numbers of its own keys.
    """

    name: str
    line: int
    own: dict[str, str]
    inherited: dict[str, str]
    key_lines: dict[str, int]


@dataclass(frozen=True)
class IniFile:
    """Holds the sections of a file in order; [DEFAULT] is only in `default`.

    `problems` are mistakes that did not stop the reading, such as a duplicate key.
    """

    path: Path
    sections: tuple[Section, ...]
    default: Section
    problems: tuple[Problem, ...]


def read(path: Path, text: str) -> IniFile:
    """Returns the sections of an INI file, whose content is `text`; its path is for messages.
    Mistakes in single lines are noted in the result.

    Raises ConfigError if the text does not begin with a section.
    """
    parser = _Parser(path)
    problems = parser.problems
    try:
        parser.read_file(parser.counted(text), source=str(path))
    except configparser.MissingSectionHeaderError as error:
        raise ConfigError(
            [
                Problem(
                    path,
                    f"{error.line.strip()!r} comes before the first section: begin with a line "
                    "such as [my-entry]",
                    parser.number(error.lineno),
                )
            ]
        ) from error
    except configparser.ParsingError as error:  # raised after everything readable was read
        lines_of_file = io.StringIO(text).readlines()
        for line, _ in error.errors:
            number = parser.number(line)
            problems.append(
                Problem(
                    path,
                    f"{quoted(lines_of_file[number - 1].strip())} is neither [a section], "
                    "'key = value' nor a # comment",
                    number,
                )
            )

    lines = parser.lines
    key_lines_by_section: dict[str, dict[str, int]] = {}
    for (name, key), line in lines.items():
        if key is not None:
            key_lines_by_section.setdefault(name, {})[key] = line
    default = Section(
        DEFAULT,
        lines.get((DEFAULT, None), 0),
        own={key: _without_comment(value) for key, value in parser.defaults().items()},
        inherited={},
        key_lines=key_lines_by_section.get(DEFAULT, {}),
    )
    sections = []
    for name in parser.sections():
        key_lines = key_lines_by_section.get(name, {})
        values = {key: _without_comment(value) for key, value in parser.items(name)}
        own = {key: value for key, value in values.items() if key in key_lines}
        inherited = {key: value for key, value in values.items() if key not in key_lines}
        sections.append(Section(name, lines[name, None], own, inherited, key_lines))
    return IniFile(path, tuple(sections), default, tuple(problems))


def section_name(text: str) -> str:
    """Returns a text as a valid section name, with - for each other character; at most 60
    characters.
    """
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:60]


def _without_comment(value: str) -> str:
    """Returns a value, or '' if it is a single line that is a comment, because people write 'dst =
    # get from file'.
    """
    return "" if value.startswith(("#", ";")) and "\n" not in value else value


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Reads a file that people write. Raises ConfigError if it is missing, longer than
    `most_bytes`, or not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise ConfigError([Problem(path, f"is longer than {most_bytes} bytes")])
        return content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([Problem(path, f"can't be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(
            [
                Problem(
                    path,
                    f"byte {error.object[error.start]:#04x} is not UTF-8: save the file as UTF-8",
                    line,
                )
            ]
        ) from error
    except ValueError as error:  # a name with a zero byte
        raise ConfigError([Problem(path, f"can't be read: {error}")]) from error


class _Parser(configparser.ConfigParser):
    """Reads INI text as configparser does, but also notes the line of each section and key, and
    reports all duplicates instead of only the first.

    It overrides two hooks that configparser calls: match() for each possible header, and
    optionxform() for each key. So both agree on what is a header or a key.
    """

    # Like configparser's, but its time only grows in proportion to the line's length. A line of one
    # word is a key with an empty value.
    OPTCRE = re.compile(r"(?P<option>[^\s=:]+$|[^=:]*(?=[=:]))(?P<vi>[=:]?)\s*(?P<value>.*)$")

    def __init__(self, path: Path) -> None:
        super().__init__(interpolation=None, strict=False, empty_lines_in_values=False)
        # configparser only calls its match()
        self.SECTCRE = self  # type: ignore[assignment]
        # The line of each header, by (section, None), and of each key, by (section, key)
        self.lines: dict[tuple[str, str | None], int] = {}
        self.problems: list[Problem] = []
        self._path = path
        self._numbers: list[int] = []  # in the file, of the lines that counted() has yielded
        self._section = DEFAULT  # that of the current line

    def counted(self, text: str) -> Iterator[str]:
        """Yields the lines that are not comments, and remembers their numbers in the file. Comments
        are left out because a comment between two lines of a value would end the value.
        """
        for number, line in enumerate(io.StringIO(text), start=1):
            if not line.lstrip().startswith(("#", ";")):
                self._numbers.append(number)
                yield line

    def number(self, counted: int) -> int:
        """Translates a line number of configparser into a line number of the file. The two differ
        because configparser reads the lines that counted() yields, which has left out the comments.

        counted: the line's number among the yielded lines; the first one has number 1
        """
        return self._numbers[counted - 1]

    def match(self, line: str) -> re.Match[str] | None:
        """Replaces the regular expression for headers (configparser's SECTCRE), to note each
        header's line.
        """
        header = configparser.ConfigParser.SECTCRE.match(line)
        if header:
            self._section = header["header"]
            self._note(None)
        return header

    def optionxform(self, optionstr: str) -> str:
        """Returns a key in lower case, as configparser does, and notes its line."""
        key = optionstr.lower()
        if key:  # a line that starts with = is a ParsingError
            self._note(key)
        return key

    def _note(self, key: str | None) -> None:
        """Notes that the current line has this key, or the header of a section if `key` is None.
        Adds a problem if the key or the section is a duplicate.
        """
        number = self._numbers[-1]
        first = self.lines.setdefault((self._section, key), number)
        if first != number:
            self.problems.append(
                Problem(
                    self._path,
                    f"duplicate {'key' if key else 'section'}, first in line {first}: remove one",
                    number,
                    self._section,
                    key,
                )
            )
