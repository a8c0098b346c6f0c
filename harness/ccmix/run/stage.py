"""Runs any command in a guest with the emulated path of a run: `... -m ccmix.run.stage JOB COMMAND`

JOB is a pickled run. The exit status is the command's; without a path it is 1, with a line on
standard error.
"""

import pickle
import subprocess
import sys
from pathlib import Path

from ccmix.agent.journal import Journal
from ccmix.conditions.dumbbell import dumbbell
from ccmix.hosts import CommandError
from ccmix.model import Run


def main() -> int:
    """Sets up the emulated path of the pickled run JOB, runs COMMAND in it, and returns the
    command's exit status. If a signal has ended the command, this is 128 plus the signal's number.
    """
    run: Run = pickle.loads(Path(sys.argv[1]).read_bytes())
    try:
        with Journal() as journal, dumbbell(run.topology, journal):
            status = subprocess.run(sys.argv[2:], check=False).returncode
    except (CommandError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
