"""Tests results of the tool that the archivers of real pScheduler servers sent
(tests/data/pscheduler/README.md).
"""

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import REPOSITORY
from support.plugin_runner import Tool, check

MESSAGES = REPOSITORY / "tests" / "data" / "pscheduler" / "iperf3mix"
GOOD, FAILED = ("forward", "reverse", "repeated-second-run"), ("unknown-cca", "server-unreachable")


def message(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(Path(MESSAGES, f"{name}.json").read_text())
    return read


@pytest.mark.parametrize("name", GOOD + FAILED)
def test_the_participants_results_are_merged_to_what_was_archived(tool: Tool, name: str) -> None:
    archived = message(name)
    merged = tool.call(
        "merged-results", {"test": archived["test"], "results": archived["run"]["result-full"]}
    )
    check(merged, "result")
    summary = merged["summary"]
    if summary:  # the version of that time had no sums of groups
        summary["streams"] = [
            each for each in summary["streams"] if not each["stream-id"].startswith("SUM:")
        ]
    assert merged == archived["result"]


@pytest.mark.parametrize("name", GOOD)
def test_the_text_of_a_run_has_the_sum_of_each_group(tool: Tool, name: str) -> None:
    """pScheduler's text output has only the records of summary.streams, in the order of their
    identifiers.
    """
    archived = message(name)
    merged = tool.call(
        "merged-results", {"test": archived["test"], "results": archived["run"]["result-full"]}
    )
    streams = sorted(merged["summary"]["streams"], key=lambda stream: str(stream["stream-id"]))
    *of_streams, bbr, cubic = streams
    assert [stream["stream-id"] for stream in (cubic, bbr)] == ["SUM:cubic:1", "SUM:bbr:2"]
    for total in (cubic, bbr):
        own = [
            stream for stream in of_streams if stream["stream-id"].endswith(total["stream-id"][-2:])
        ]
        assert total["throughput-bytes"] == sum(stream["throughput-bytes"] for stream in own) > 0
        assert total["retransmits"] == sum(stream["retransmits"] for stream in own)
        assert total["receiver-throughput-bits"] > 0


@pytest.mark.parametrize("name", GOOD)
def test_each_stream_of_the_archive_has_its_cca(name: str) -> None:
    archived = message(name)
    summary = archived["result"]["summary"]
    streams = {stream["stream-id"] for stream in summary["streams"]}
    assert sorted(summary["congestion"].values()) == ["bbr", "bbr", "cubic", "cubic"]
    assert set(summary["congestion"]) == streams
    for group in summary["groups"]:
        own = [
            stream
            for stream in summary["streams"]
            if stream["stream-id"].endswith(f":{group['group']}")
        ]
        assert group["throughput-bytes"] == sum(stream["throughput-bytes"] for stream in own) > 0


@pytest.mark.parametrize("name", FAILED)
def test_a_failed_run_says_why(name: str) -> None:
    result = message(name)["result"]
    assert result["succeeded"] is False
    assert "participant 0" in result["error"]
    assert "participant 1" in result["error"]
