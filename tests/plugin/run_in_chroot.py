"""Runs both participants of a test in a chroot, in this namespace of network and mounts, and prints
their results.

Standard input has the test, both participant-data, the path of the method `run` in the chroot, and
the chroot.
"""

import datetime
import json
import subprocess
import sys
import time

LEAD_S, SLOT_S = 0.5, 8.0

given = json.load(sys.stdin)
for folder in ("/proc", "/dev"):
    subprocess.run(["mount", "--rbind", folder, f"{given['root']}{folder}"], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
start = datetime.datetime.fromtimestamp(time.time() + LEAD_S, datetime.UTC).isoformat()
participants = []
for number in (0, 1):
    participant = subprocess.Popen(
        ["chroot", given["root"], given["run"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert participant.stdin
    schedule = {"start": start, "duration": f"PT{SLOT_S:g}S"}
    run = {
        "schema": 1,
        "task-uuid": "0",
        "schedule": schedule,
        "test": given["test"],
        "participant": number,
    }
    participant.stdin.write(json.dumps(run | {"participant-data": given["data"]}))
    participant.stdin.close()
    participants.append(participant)
json.dump(
    [json.loads(participant.stdout.read()) for participant in participants if participant.stdout],
    sys.stdout,
)
