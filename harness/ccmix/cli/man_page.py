"""Makes the man page ccmix(1) from the help texts of all commands, with the macros of man(7).

`python -m ccmix.cli.man_page` prints it, as `make man` does.
"""

import inspect
import re
import sys
from collections.abc import Iterator

import click

from ccmix.cli import output
from ccmix.cli.main import main
from ccmix.version import version

LITERAL = "\b"  # click's mark for a paragraph that is not wrapped again
STATUSES = {
    output.GOOD: "success, and all runs are valid",
    output.BAD: "a run failed or was not valid, a check failed, or an error occurred; see the "
    "messages",
    output.WRONG_INPUT: "wrong usage or input; nothing was started",
    output.INTERRUPTED: "interrupted by the user",
}
ROOT = click.Context(main, info_name="ccmix", **main.context_settings)


def page() -> str:
    """Returns the source of the man page, in the language of man(7)."""
    lines = [
        f'.TH CCMIX 1 "" "ccmix {version().text}" "User Commands"',
        ".SH NAME",
        f"ccmix \\- {_with_bold_code(_first_sentence(main))}",
        ".SH SYNOPSIS",
        ".B ccmix",
        r"\fICOMMAND\fR [\fIOPTION\fR]... [\fIARGUMENT\fR]...",
        ".SH DESCRIPTION",
        *help_text(main),
        *_option_lines(main, ROOT),
        ".SH COMMANDS",
        *(line for words, command in commands(main) for line in _command_section(words, command)),
        ".SH EXIT STATUS",
        *(
            line
            for number, meaning in STATUSES.items()
            for line in (".TP", f".B {number}", _with_bold_code(meaning))
        ),
    ]
    return "\n".join(lines) + "\n"


def commands(
    group: click.Group, words: tuple[str, ...] = ("ccmix",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yields all commands below a group, each with its words, such as ('ccmix', 'lab', 'exec').

    A group is yielded before its commands. `words` lead to the group itself.
    """
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


def _command_section(words: tuple[str, ...], command: click.Command) -> Iterator[str]:
    """Yields the lines of the page on one command: heading, usage, help text and options.

    `words` are the words of its command line, such as ('ccmix', 'lab', 'exec').
    """
    name = " ".join(words)
    context = click.Context(command, parent=ROOT, info_name=name)
    yield f".SS {_with_bold_code(name)}"
    yield f".B {_with_bold_code(name)}"
    yield _with_bold_code(" ".join(command.collect_usage_pieces(context)))
    yield ".PP"
    yield from help_text(command)
    yield from _option_lines(command, context)


def help_text(command: click.Command) -> Iterator[str]:
    """Yields the lines of the page for a command's help text. Paragraphs are filled, but examples
    keep their lines.
    """
    for number, paragraph in enumerate(inspect.cleandoc(command.help or "").split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.startswith(LITERAL):
            yield from (".RS 4", ".nf", *map(_escaped, paragraph.splitlines()[1:]), ".fi", ".RE")
        else:
            yield _with_bold_code(" ".join(paragraph.split()))


def _option_lines(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yields the lines of the page for the options of a command, each with its meaning."""
    for parameter in command.get_params(context):
        names, meaning = parameter.get_help_record(context) or ("", "")
        if meaning:
            yield from (
                ".TP",
                f".B {_with_bold_code(names)}",
                _with_bold_code(" ".join(meaning.split())),
            )


def _first_sentence(command: click.Command) -> str:
    """Returns the first sentence of a help text in small letters, as NAME sections have it."""
    return (command.help or "").partition(".")[0].lower().replace("tcp", "TCP")


def _with_bold_code(text: str) -> str:
    """Escapes a text for the page; words between backquotes become bold."""
    return re.sub(r"`([^`]*)`", r"\\fB\1\\fR", _escaped(text))


def _escaped(line: str) -> str:
    """Escapes a line so that man(7) prints it unchanged.

    Backslashes, and a point or apostrophe at the beginning, would start a macro; a plain minus
    could become another dash.
    """
    escaped = line.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    sys.stdout.write(page())
