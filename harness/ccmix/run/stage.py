"""The emulated path of a run set up, for any command: `python -m ccmix.run.stage JOB COMMAND...`; runs in a guest.

JOB is a run as JSON. The exit status is the command's; 1, and a line on standard error, without a path.
"""

import json
import subprocess
import sys
from pathlib import Path

from ccmix.agent.journal import Journal
from ccmix.conditions.dumbbell import dumbbell
from ccmix.hosts import CommandError
from ccmix.model import Run


def main() -> int:
    run = Run.from_json(json.loads(Path(sys.argv[1]).read_text()))
    try:
        with Journal() as journal, dumbbell(run.topology, journal):
            status = subprocess.run(sys.argv[2:], check=False).returncode
    except (CommandError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
