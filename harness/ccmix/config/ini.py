"""Splits an INI file into sections and keys with their line numbers, and interprets no values."""

import io
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.config.problems import ConfigError, Problem, quoted
from ccmix.files import check_regular

DEFAULT = "DEFAULT"
MOST_BYTES = 1_000_000  # of a file that people write
_HEADER = re.compile(r"\[(?P<name>.+)\]")
# A line of one word is a key with an empty value
_SETTING = re.compile(r"(?P<key>[^\s=:]+$|[^=:]+(?=[=:]))[=:]?\s*(?P<value>.*)$")


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

    The rules are those of Python's configparser, which keeps no line numbers: a line that is
    indented more than the line of a key continues its value, until an empty line. Raises
    ConfigError if the text does not begin with a section.
    """
    sections: dict[str, Section] = {}
    problems: list[Problem] = []
    section: Section | None = None
    key, indent = "", 0  # of the value that the next line may continue
    for number, line in enumerate(io.StringIO(text), start=1):
        content, line_indent = line.strip(), len(line) - len(line.lstrip())
        if content.startswith(("#", ";")):
            continue
        if not content:
            indent = sys.maxsize
        elif section and key and line_indent > indent:
            section.own[key] += f"\n{content}"
        elif header := _HEADER.match(content):
            name, key, indent = header["name"], "", line_indent
            section = sections.setdefault(name, Section(name, number, {}, {}, {}))
            if section.line != number:
                problems.append(_duplicate(path, number, section.line, name))
        elif section is None:
            message = f"{content!r} comes before the first section: begin with a line such as"
            raise ConfigError([Problem(path, f"{message} [my-entry]", number)])
        elif setting := _SETTING.match(content):
            key, indent = setting["key"].rstrip().lower(), line_indent
            section.own[key] = setting["value"].strip()
            first = section.key_lines.setdefault(key, number)
            if first != number:
                problems.append(_duplicate(path, number, first, section.name, key))
        else:
            indent = line_indent
            message = "is neither [a section], 'key = value' nor a # comment"
            problems.append(Problem(path, f"{quoted(content)} {message}", number))
    for section in sections.values():
        section.own.update({key: _without_comment(value) for key, value in section.own.items()})
    default = sections.pop(DEFAULT, Section(DEFAULT, 0, {}, {}, {}))
    entries = tuple(_with_inherited(section, default.own) for section in sections.values())
    return IniFile(path, entries, default, tuple(problems))


def _duplicate(
    path: Path, number: int, first: int, section: str, key: str | None = None
) -> Problem:
    """Returns the problem of a key, or of a section's header, that is in two lines."""
    kind = "key" if key else "section"
    message = f"duplicate {kind}, first in line {first}: remove one"
    return Problem(path, message, number, section, key)


def _with_inherited(section: Section, default: dict[str, str]) -> Section:
    """Returns a section with the texts of [DEFAULT] that it inherits. Keys that both have are in
    the order of [DEFAULT].
    """
    own = {key: section.own[key] for key in default | section.own if key in section.own}
    inherited = {key: text for key, text in default.items() if key not in own}
    return replace(section, own=own, inherited=inherited)


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


def read_text(path: Path, most_bytes: int = MOST_BYTES, *, regular: bool = False) -> str:
    """Reads a file that people write. Raises ConfigError if it is missing, longer than
    `most_bytes`, or not UTF-8. With `regular`, for a path that an INI file names, raises it for
    pipes and devices, too.
    """
    try:
        if regular:
            check_regular(path)
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
