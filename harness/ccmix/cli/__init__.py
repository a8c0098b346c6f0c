"""Runs the command line `ccmix COMMAND`: the entry point of the program.

Results go to standard output, everything else to standard error. The exit status is 0 if all is
good, 1 if a run failed or was not valid, 2 for wrong usage or input (nothing was started), 130 if
the user interrupted it.
"""

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Runs the command line of sys.argv: the entry point of the program `ccmix`.

    During the slow import of the commands, and after the command has ended, Ctrl-C ends the process
    silently, as if Python had no handler for SIGINT. In between it raises KeyboardInterrupt as
    usual.
    """
    _replace_closed_streams()
    # False if the program that started ccmix makes it ignore Ctrl-C, as nohup does
    python_handles_ctrl_c = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if python_handles_ctrl_c:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ccmix.cli.main import main as run_command  # noqa: PLC0415  # imported late: Ctrl-C now ends the import quietly

    if python_handles_ctrl_c:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run_command()
    finally:
        if python_handles_ctrl_c:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _replace_closed_streams() -> None:
    """Opens /dev/null in place of each standard stream that the caller has closed (`ccmix >&-`).

    Python sets sys.stdout to None for a closed stream, so that writing to it fails, and the next
    file that is opened would get its descriptor number (0, 1 or 2).
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # until the end
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
