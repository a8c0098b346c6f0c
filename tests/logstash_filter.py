"""The filter of elk/logstash run by Debian's Ruby, and messages as pScheduler's http archiver sends them."""

import copy
import json
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest

from support import REPOSITORY

FILTER = REPOSITORY / "elk" / "logstash" / "ruby" / "filter.rb"
HERE = REPOSITORY / "tests" / "elk" / "logstash"

Message = dict[str, Any]


def recorded() -> Message:
    """A run of two BBR streams between two real pScheduler 5.2 servers."""
    message: Message = json.loads((HERE / "recorded-run.json").read_text())
    return message


def mixed() -> Message:
    """The same as the tool iperf3mix reports a mix: streams named 'ID:CCA:GROUP', and `congestion` in the summary."""
    message = recorded()
    spec = {"congestion": "cubic,bbr"}
    for holder in (message["test"], message["task"]["test"]):
        holder["spec"] |= spec
    message["tool"]["name"] = "iperf3mix"
    ccas = {"5": "cubic", "7": "bbr"}
    for result in (message["result"], message["run"]["result-merged"]):
        result["summary"]["congestion"] = ccas
        for streams in (result["summary"]["streams"], *(interval["streams"] for interval in result["intervals"])):
            for group, stream in enumerate(streams, start=1):
                number = str(stream["stream-id"])
                stream["stream-id"] = f"{number}:{ccas[number]}:{group}"
    return message


def between(source: str, destination: str, number: int, start: str, factor: float, message: Message) -> Message:
    """The message as of another run, between other hosts and with other rates."""
    other = copy.deepcopy(message)
    other["id"] = f"run-{source}-{destination}-{number}"
    other["task"]["href"] = f"https://{source}/pscheduler/tasks/{destination}"
    other["run"] |= {"start-time": start, "end-time": start, "result-full": None}
    other["participants"] = [source, destination]
    other["test"]["spec"] |= {"source": source, "dest": destination}
    result = other["result"]
    for record in (result["summary"]["summary"], *result["summary"]["streams"]):
        for key in ("throughput-bits", "receiver-throughput-bits"):
            if key in record:
                record[key] *= factor
        record["retransmits"] = round(record["retransmits"] / factor)
    return other


def filtered(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The events that the filter makes of the messages; skips the test where there is no Ruby."""
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
