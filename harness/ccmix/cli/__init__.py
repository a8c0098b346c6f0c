"""The command line: `ccmix COMMAND`. Results on standard output, everything else on standard error.

Exit status: 0 all good, 1 a run failed or was not valid, 2 wrong usage or input (nothing was started), 130 interrupted.
"""

from ccmix.cli.main import main

__all__ = ["main"]
