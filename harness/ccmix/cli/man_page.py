"""Makes the man page of all commands from their help texts, with the macros of man(7).

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
    """Returns the page."""
    lines = [
        f'.TH CCMIX 1 "" "ccmix {version().text}" "User Commands"',
        ".SH NAME",
        f"ccmix \\- {_text(_first_sentence(main))}",
        ".SH SYNOPSIS",
        ".B ccmix",
        r"\fICOMMAND\fR [\fIOPTION\fR]... [\fIARGUMENT\fR]...",
        ".SH DESCRIPTION",
        *help_text(main),
        *_options(main, ROOT),
        ".SH COMMANDS",
        *(line for words, command in commands(main) for line in _command(words, command)),
        ".SH EXIT STATUS",
        *(
            line
            for number, meaning in STATUSES.items()
            for line in (".TP", f".B {number}", _text(meaning))
        ),
    ]
    return "\n".join(lines) + "\n"


def commands(
    group: click.Group, words: tuple[str, ...] = ("ccmix",)
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yields each command below the group with its words, and each group before its commands."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        yield (*words, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


def _command(words: tuple[str, ...], command: click.Command) -> Iterator[str]:
    name = " ".join(words)
    context = click.Context(command, parent=ROOT, info_name=name)
    yield f".SS {_text(name)}"
    yield f".B {_text(name)}"
    yield _text(" ".join(command.collect_usage_pieces(context)))
    yield ".PP"
    yield from help_text(command)
    yield from _options(command, context)


def help_text(command: click.Command) -> Iterator[str]:
    """Yields the paragraphs of the help text."""
    for number, paragraph in enumerate(inspect.cleandoc(command.help or "").split("\n\n")):
        if number:
            yield ".PP"
        if paragraph.startswith(LITERAL):
            yield from (".RS 4", ".nf", *map(_literal, paragraph.splitlines()[1:]), ".fi", ".RE")
        else:
            yield _text(" ".join(paragraph.split()))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        names, meaning = parameter.get_help_record(context) or ("", "")
        if meaning:
            yield from (".TP", f".B {_text(names)}", _text(" ".join(meaning.split())))


def _first_sentence(command: click.Command) -> str:
    return (command.help or "").partition(".")[0].lower().replace("tcp", "TCP")


def _text(text: str) -> str:
    """Returns a line of the page; text between backquotes becomes bold."""
    return re.sub(r"`([^`]*)`", r"\\fB\1\\fR", _literal(text))


def _literal(line: str) -> str:
    """Escapes a line so that man(7) prints it unchanged: backslashes and a leading point are not
    macros, and each minus stays ASCII.
    """
    escaped = line.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    sys.stdout.write(page())
