"""The filter of elk/logstash run by Debian's Ruby, and messages as pScheduler's http archiver
sends them.
"""

import json
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest

from support.commands import REPOSITORY

FILTER = REPOSITORY / "elk" / "logstash" / "ruby" / "filter.rb"
HERE = REPOSITORY / "tests" / "elk" / "logstash"
MIXES = REPOSITORY / "tests" / "data" / "pscheduler" / "iperf3mix"

Message = dict[str, Any]


def recorded() -> Message:
    """A run of two BBR streams by stock iperf3 between two real pScheduler 5.2 servers.

    run.result-merged has no diags, which result has too.
    """
    message: Message = json.loads((HERE / "recorded-run.json").read_text())
    return message


def of_mix(name: str = "forward") -> Message:
    """A run of two CUBIC and two BBR streams by the tool iperf3mix:
    tests/data/pscheduler/README.md.
    """
    message: Message = json.loads((MIXES / f"{name}.json").read_text())
    return message


def filtered(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The events that the filter makes of the messages; skips the test if Ruby is missing."""
    if not shutil.which("ruby"):
        pytest.skip("there is no ruby: run 'tools/setup --dev'")
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    argv = ["ruby", "-w", str(HERE / "filter_messages.rb"), str(FILTER)]
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_bulk(events: Iterable[dict[str, Any]]) -> bytes:
    """What Logstash's output would send."""
    lines = []
    for event in events:
        metadata = event["@metadata"]
        fields = {name: value for name, value in event.items() if name != "@metadata"}
        lines += [{"index": {"_index": metadata["index"], "_id": metadata["id"]}}, fields]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()
