"""Defines the group of all commands of `ccmix`; imports a command's module only when needed."""

import errno
import importlib
import io
import os
import resource
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from ccmix.agent.journal import JournalError
from ccmix.cli import output
from ccmix.failures import WHAT_TO_DO, Failure, WrongInput, located

COMMANDS = {  # with short help texts, in the order in which users need them
    "demo": "Run an example in the lab: how CUBIC and BBR share a path.",
    "init": "Write a commented INI file to start from.",
    "doctor": "Check whether hosts are fit for a test, and say how to fix them.",
    "plan": "List what would run, where, in which order, and for how long.",
    "run": "Run the entries of an INI file, and print the table of results.",
    "restore": "Undo the changes that a killed run has left on a host.",
    "report": "Print results as a table, JSON, CSV or HTML, or draw charts.",
    "compare": "Compare two campaigns: the differences, and by how much.",
    "twin": "Describe a measured path, and write its emulated twin.",
    "import": "Make an archive of third-party results.",
    "archive": "Pack a campaign into one file, and restore it.",
    "verify": "Repeat the lab runs of an archive, and compare them byte by byte.",
    "reproduce": "Repeat an experiment of a paper, and compare its published numbers.",
    "index": "Put campaigns into an Elasticsearch server, for Kibana.",
    "psconfig": "Write a template for a mesh of perfSONAR hosts.",
    "lab": "Run a command or a shell in a guest of the lab.",
    "cca": "Load BBRv2 and BBRv3 into a running kernel, without a patch.",
    "cache": "List cached builds, and remove those that are not in use.",
    "version": "Print the versions and hashes of ccmix, the kernel and the tools.",
    "completion": "Print a script for the completion of commands in a shell.",
}
MODULES = {  # in ccmix.cli, for commands whose module has another name
    "cache": "installed",
    "completion": "main",
    "demo": "reproduce",
    "import": "import_",
    "restore": "doctor",
    "twin": "compare",
    "verify": "archive",
    "version": "installed",
}
# Limits of a process, with which every command works
LEAST_MEMORY_BYTES, LEAST_FILE_BYTES, LEAST_OPEN_FILES = 4 * 2**30, 2**20, 64
# Commands that draw charts, with a library that reserves addresses for a terabyte
DRAWING = ("demo", "run", "report", "compare", "reproduce")
DRAWS_WITH_BYTES = 2**40


class CommandGroup(click.Group):
    """Finds the commands of `ccmix` by name, without importing the modules of all others.

    Turns exceptions into a line on standard error and an exit status.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the module of the command, and returns the command; None for an unknown name.

        Raises WrongInput if a limit of this process is too low for it.
        """
        if cmd_name not in COMMANDS:
            return None
        if not ctx.resilient_parsing:  # as for completion
            _check_limits(cmd_name)
        module = importlib.import_module(f"ccmix.cli.{MODULES.get(cmd_name, cmd_name)}")
        name = "import_" if cmd_name == "import" else cmd_name
        command: click.Command = getattr(module, name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands for --help from COMMANDS, so that no module is imported."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns completions without importing modules: commands from COMMANDS, and options."""
        options = click.Command.shell_complete(self, ctx, incomplete)
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        return [CompletionItem(name, help=COMMANDS[name]) for name in names] + options

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parses the command line.

        --help and --version already print here, which may fail, for instance on a full disk.
        """
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            raise
        except OSError as error:  # --help and --version are printed here
            raise click.ClickException(_message_and_status(error)[0]) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. Exits with a message after an error that a user can fix, and with
        status 130 after Ctrl-C.

        click handles its own exceptions, and a closed pipe (`ccmix ... | head`), which ends the
        command without a message.
        """
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            raise
        except KeyboardInterrupt:
            ctx.exit(output.INTERRUPTED)
        except Exception as error:
            sentence, exit_status = _message_and_status(error)
            output.tell(sentence)
            ctx.exit(exit_status)


def _check_limits(command: str) -> None:
    """Raises WrongInput if a limit of this process is too low for a command: libraries would abort,
    or fail with messages that don't name the limit.
    """
    memory_bytes = DRAWS_WITH_BYTES if command in DRAWING else LEAST_MEMORY_BYTES
    for kind, option, least, what in (
        (resource.RLIMIT_AS, "v", memory_bytes, "memory"),
        (resource.RLIMIT_DATA, "d", LEAST_MEMORY_BYTES, "data in memory"),
        (resource.RLIMIT_FSIZE, "f", LEAST_FILE_BYTES, "the size of files"),
        (resource.RLIMIT_NOFILE, "n", LEAST_OPEN_FILES, "open files"),
    ):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY and limit < least:
            raise WrongInput(
                f"ulimit -{option}: {what} is limited to {limit}, but 'ccmix {command}' needs "
                f"{least}: run 'ulimit -{option} unlimited', or ask your administrator to raise it"
            )


def _message_and_status(error: Exception) -> tuple[str, int]:
    """Returns the message for the user and the exit status of an error that the user can fix.

    Raises all other errors again, because they are bugs. An OSError that names no file comes from
    writing to standard output: ccmix adds the file's name to every other OSError.
    """
    match error:
        case Failure():
            return str(error), error.exit_status
        case JournalError():
            return str(error), output.BAD
        case OSError(filename=None, errno=number) if number in WHAT_TO_DO:  # files are always named
            output.drop_the_rest()
            return located(error, "standard output"), output.BAD
        case FileNotFoundError(filename=None):  # from getcwd(2)
            return "the working folder was removed: change to another one", output.BAD
        case OSError():
            return located(error), output.BAD
        case MemoryError():
            return f"{os.strerror(errno.ENOMEM)}: {WHAT_TO_DO[errno.ENOMEM]}", output.BAD
    raise error


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Prints the version and exits, if --version is given (a callback of click)."""
    if wanted and not ctx.resilient_parsing:
        from ccmix.version import version  # noqa: PLC0415  # packages' metadata is slow

        click.echo(f"ccmix {version().text}")
        ctx.exit()


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Measure how TCP congestion control algorithms share a path.

    \b
    ccmix demo --quick                     get a first answer in seconds
    ccmix init lab my-test                 write my-test.ini to start from
    ccmix doctor my-test.ini --lab         check whether it can run here
    ccmix plan my-test.ini                 list its runs and how long they take
    ccmix run my-test.ini --lab            run it in the lab, on all cores
    ccmix report results/my-test           print the table of its results
    ccmix compare results/a results/b      compare two campaigns
    ccmix twin results/geneva -o twin.ini  describe a path, write its twin
    ccmix import tests.csv -o results/b    import third-party results
    ccmix archive pack results/my-test     pack it into a file to mail and cite
    ccmix verify my-test.zip               check whether its numbers repeat
    ccmix index results/my-test --url URL  send it to Elasticsearch

    `ccmix COMMAND --help` explains a command, with examples.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal with another encoding shows ? for characters that it lacks
            stream.reconfigure(errors="replace")
    if not isinstance(sys.stderr, output.Messages):
        sys.stderr = output.Messages(sys.stderr)


SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script with which SHELL completes commands, options, INI files, archives, and names
    of kernels and CCAs.

    Write the script to the file where your shell looks for it, and start a new shell:

    \b
    ccmix completion bash   to ~/.local/share/bash-completion/completions/ccmix
    ccmix completion zsh    to ~/.zfunc/_ccmix
    ccmix completion fish   to ~/.config/fish/completions/ccmix.fish

    Bash needs the package bash-completion. Zsh needs the folder on its fpath:
    `fpath+=~/.zfunc; autoload -U compinit; compinit` in ~/.zshrc.
    """
    completion_class = get_completion_class(shell)
    assert completion_class
    output.put(completion_class(main, {}, "ccmix", "_CCMIX_COMPLETE").source().strip() + "\n")
