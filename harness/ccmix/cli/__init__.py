"""Runs the command line `ccmix COMMAND`. Results go to standard output, everything else to standard error.

The exit status is 0 if all is good, 1 if a run failed or was not valid, 2 for wrong usage or input (nothing was
started), 130 if the user interrupted it.
"""

import signal


def main() -> None:
    """Runs the command of sys.argv. Ctrl-C before it begins or after it has ended is the signal's own death."""
    by_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where the caller ignores it
    if by_python:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ccmix.cli.main import main as commands

    if by_python:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        commands()
    finally:
        if by_python:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
