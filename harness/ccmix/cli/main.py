"""Defines the group of all commands, which imports the module of a command when it needs it."""

import importlib
import io
import sys
from typing import Any

import click

from ccmix.cli import output, status

COMMANDS = {  # in the order in which a user meets them, with their modules
    "demo": "demo",
    "init": "init",
    "doctor": "doctor",
    "plan": "plan",
    "run": "run",
    "restore": "restore",
    "report": "report",
    "compare": "compare",
    "twin": "twin",
    "import": "import_",
    "archive": "archive",
    "verify": "verify",
    "reproduce": "reproduce",
    "index": "index",
    "psconfig": "psconfig",
    "lab": "lab",
    "cca": "cca",
    "cache": "cache",
    "version": "version",
    "completion": "completion",
}


class CommandGroup(click.Group):
    """Finds commands by name, and turns errors into lines on standard error and exit statuses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"ccmix.cli.{name}"), name)
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            raise
        except OSError as error:  # of --help or --version, which are printed here
            raise click.ClickException(_line_and_status(error)[0]) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            raise  # click ends quietly if nobody reads any more
        except KeyboardInterrupt:
            ctx.exit(status.INTERRUPTED)
        except Exception as error:
            sentence, exit_status = _line_and_status(error)
            output.tell(sentence)
            ctx.exit(exit_status)


def _line_and_status(error: Exception) -> tuple[str, int]:
    """Returns what a user reads of an error, and the exit status. Raises an error again that no user can mend."""
    from ccmix.agent.journal import JournalError
    from ccmix.archive import ArchiveError
    from ccmix.cluster.errors import ClusterError
    from ccmix.config import ConfigError
    from ccmix.failures import WHAT_TO_DO, located
    from ccmix.hosts import CommandError
    from ccmix.lab.errors import GuestError
    from ccmix.payload import PayloadError
    from ccmix.temporary import TemporaryFolderError
    from ccmix.tools import ToolError

    match error:
        case TemporaryFolderError():
            return str(error), status.WRONG_INPUT
        case ConfigError() | ArchiveError() | ToolError() | ClusterError() | PayloadError():
            return str(error), status.WRONG_INPUT
        case GuestError() | CommandError() | JournalError():
            return str(error), status.BAD
        case OSError(filename=None, errno=number) if number in WHAT_TO_DO:  # files are always named
            output.drop_the_rest()
            return located(error, "standard output"), status.BAD
        case FileNotFoundError(filename=None):  # of getcwd(2)
            return "the working folder was removed: go to another one", status.BAD
        case OSError():
            return located(error), status.BAD
    raise error


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from ccmix.version import version

        click.echo(f"ccmix, version {version().name}")
        ctx.exit()


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
              help="Show the version and exit.")  # fmt: skip
def main() -> None:
    """Measure how TCP congestion control algorithms share a path.

    \b
    ccmix demo --quick                     a first answer, in seconds
    ccmix init lab my-test                 a file to start from: my-test.ini
    ccmix doctor my-test.ini --lab         can it run here, and what to mend
    ccmix plan my-test.ini                 what would run, and for how long
    ccmix run my-test.ini --lab            run it, in the lab, on all cores
    ccmix report results/my-test           the table of what was measured
    ccmix compare results/a results/b      what differs between two campaigns
    ccmix twin results/geneva -o twin.ini  what a measured path is, and its twin
    ccmix import tests.csv -o results/b    what others measured
    ccmix archive pack results/my-test     one file of it, to mail and cite
    ccmix verify my-test.zip               whether its numbers repeat
    ccmix index results/my-test --url URL  all of it into Elasticsearch

    `ccmix COMMAND --help` explains a command, with examples.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal of another encoding shows ? for characters that it lacks
    if not isinstance(sys.stderr, output.Messages):
        sys.stderr = output.Messages(sys.stderr)
