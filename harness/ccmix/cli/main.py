"""The group of all commands. A command's module is imported when it, or the help of the group, is asked for."""

import importlib
import io
import sys
from typing import Any

import click

from ccmix.cli import status

COMMANDS = {  # in the order in which a user meets them, with their modules
    "doctor": "doctor",
    "plan": "plan",
    "run": "run",
    "restore": "restore",
    "report": "report",
    "compare": "compare",
    "import": "import_",
    "index": "index",
    "psconfig": "psconfig",
    "lab": "lab",
}


class Commands(click.Group):
    """The commands by name, and the one place where errors become lines on standard error and exit statuses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"ccmix.cli.commands.{name}"), name)
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            raise
        except OSError as error:  # of --help or --version, which are printed here
            raise click.ClickException(self._told(error)[0]) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            raise  # click ends quietly where nobody reads any more
        except KeyboardInterrupt:
            ctx.exit(status.INTERRUPTED)
        except Exception as error:
            sentence, exit_status = self._told(error)
            click.echo(sentence, err=True)
            ctx.exit(exit_status)

    def _told(self, error: Exception) -> tuple[str, int]:
        from ccmix.cli.errors import told  # noqa: PLC0415

        return told(error)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ccmix")
def main() -> None:
    """Measure how TCP congestion control algorithms share a path.

    \b
    ccmix doctor configs/demo.ini --lab    can it run here, and what to mend
    ccmix plan configs/demo.ini            what would run, and for how long
    ccmix run configs/demo.ini --lab       run it, in the lab, on all cores
    ccmix report results/demo              the table of what was measured
    ccmix compare results/a results/b      what differs between two campaigns
    ccmix import tests.csv -o results/b    what others measured
    ccmix index results/demo --url URL     all of it into Elasticsearch

    `ccmix COMMAND --help` explains a command, with examples.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal of another encoding shows ? for what it lacks
