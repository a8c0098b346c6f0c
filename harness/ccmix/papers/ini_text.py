"""Makes the reduced form of an experiment's INI file, which has the full form in its keys.

A comment '# Reduced: KEY = VALUE' says what a key of its section is in the reduced form. Comments of two spaces or more
behind it are further lines of the value.
"""

import re
from collections.abc import Iterator

from ccmix.papers.experiments_folder import ini_of

_REDUCED = re.compile(r"#\s*Reduced:\s*(?P<key>[^\s=]+)\s*=\s*(?P<value>.*)")
_FURTHER = re.compile(r"#(?P<line>\s{2,}\S.*)")
_KEY = re.compile(r"(?P<key>[^\s=\[#;][^=]*?)\s*=")


def form(name: str, *, full: bool) -> str:
    """Returns the text of an experiment's INI file, in its full or in its reduced form. Raises OSError."""
    text = ini_of(name).read_text(encoding="utf-8")
    return text if full else reduced(text)


def reduced(text: str) -> str:
    """Returns the text with the values of its comments '# Reduced:'; what they replace becomes a comment '# Full:'."""
    return "".join(line for section in _sections(text) for line in _reduced_section(section))


def _sections(text: str) -> Iterator[list[str]]:
    """Yields the lines of each section, from its header on."""
    section: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            yield section
            section = []
        section.append(line)
    yield section


def _reduced_section(lines: list[str]) -> Iterator[str]:
    keys = {match["key"] for line in lines if (match := _REDUCED.match(line))}
    replaced = False  # whether the line belongs to a key that has another value in the reduced form
    replacing = False  # whether it belongs to that value
    for line in lines:
        if match := _REDUCED.match(line):
            replacing = True
            yield f"{match['key']} = {match['value']}".rstrip() + "\n"
            continue
        if replacing and (match := _FURTHER.match(line)):
            yield f"{match['line']}\n"
            continue
        replacing = False
        if (key := _KEY.match(line)) or not line.startswith((" ", "\t")):
            replaced = key is not None and key["key"] in keys
        if replaced:
            yield f"# Full: {line}" if key else f"#       {line}"
        else:
            yield line
