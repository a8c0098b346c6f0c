"""The command line: `ccmix COMMAND`. Results on standard output, everything else on standard error.

Exit status: 0 all good, 1 a run failed or was not valid, 2 wrong usage or input (nothing was started), 130 interrupted.
"""

import signal


def main() -> None:
    """Runs the command of sys.argv. Ctrl-C before it begins or after it has ended is the signal's own death."""
    by_python = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where the caller ignores it
    if by_python:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ccmix.cli.main import main as commands  # noqa: PLC0415

    if by_python:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        commands()
    finally:
        if by_python:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
