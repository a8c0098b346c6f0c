"""`ccmix completion`: prints what makes a shell complete ccmix's commands, options, files and names."""

from __future__ import annotations

import click

from ccmix.cli.output import put

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print the script by which a shell completes ccmix's words.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script for SHELL, which completes commands, options, INI files, archives, and names of kernels and CCAs.

    Write it where the shell looks for such scripts, and start the shell anew:

    \b
    ccmix completion bash   to ~/.local/share/bash-completion/completions/ccmix
    ccmix completion zsh    to ~/.zfunc/_ccmix
    ccmix completion fish   to ~/.config/fish/completions/ccmix.fish

    Bash needs the package bash-completion, zsh the folder on its fpath: `fpath+=~/.zfunc; autoload -U compinit;
    compinit` in ~/.zshrc.
    """
    from click.shell_completion import get_completion_class

    from ccmix.cli.main import main

    kind = get_completion_class(shell)
    assert kind
    put(kind(main, {}, "ccmix", "_CCMIX_COMPLETE").source().strip() + "\n")
