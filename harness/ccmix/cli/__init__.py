"""Runs the command line `ccmix COMMAND`. Results go to standard output, everything else to standard
error.

The exit status is 0 if all is good, 1 if a run failed or was not valid, 2 for wrong usage or input
(nothing was started), 130 if the user interrupted it.
"""

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Runs the command of sys.argv. Before it begins and after it has ended, Ctrl-C ends this
    process as if no handler were set.
    """
    _replace_closed_streams()
    # False if the caller ignores the signal
    by_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if by_python:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ccmix.cli.main import main as commands  # noqa: PLC0415  # imported late: Ctrl-C now ends the import quietly

    if by_python:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        commands()
    finally:
        if by_python:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _replace_closed_streams() -> None:
    """Opens /dev/null for each standard stream that the caller has closed.

    Otherwise Python has None for it, which can't be written to, and the next file that is opened
    would get its descriptor.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # until the end
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
