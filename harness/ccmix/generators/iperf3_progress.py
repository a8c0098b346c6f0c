"""Reads the reports of a running iperf3 test from --json-stream."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ccmix import foreign_json


@dataclass
class GroupProgress:
    """Collects the progress of a group's flows since the omitted time. Only the sender reports RTTs
    and retransmissions.
    """

    cca: str
    streams: int
    goodput_bps: list[float] = field(default_factory=list)  # in each interval that is over
    rtts_s: list[float] = field(default_factory=list)  # of each flow at the end of each interval
    bytes: int = 0
    retransmits: int = 0  # segments


def read_progress(output: Path, interval_s: float) -> dict[int, GroupProgress]:
    """Returns the progress of each group, by its number from 1; empty if no interval is over."""
    groups: dict[int, GroupProgress] = {}
    for seconds, streams in _intervals(output, interval_s):
        for number in sorted({stream.get("group", 1) for stream in streams}):
            own = [stream for stream in streams if stream.get("group", 1) == number]
            group = groups.setdefault(number, GroupProgress(own[0].get("congestion", ""), len(own)))
            moved = sum(stream["bytes"] for stream in own)
            group.bytes += moved
            group.goodput_bps.append(moved * 8 / seconds)
            group.rtts_s += [stream["rtt"] / 1e6 for stream in own if stream.get("rtt")]
            group.retransmits += sum(stream.get("retransmits", 0) for stream in own)
    return groups


def _intervals(output: Path, interval_s: float) -> Iterator[tuple[float, list[dict[str, Any]]]]:
    """Yields the length and the streams of each interval since the omitted time.

    Like analysis/iperf3_tables.py, counts time from the end of the previous interval, and leaves
    out splinters.
    """
    if not output.exists():
        return
    end_s = 0.0
    for line in output.read_text(errors="replace").splitlines():
        try:
            event = foreign_json.loads(line)
        except ValueError:
            return  # the line is still being written
        if event.get("event") != "interval" or event["data"]["sum"]["omitted"]:
            continue
        begin_s, end_s = end_s, event["data"]["sum"]["end"]
        if end_s - begin_s >= interval_s / 2:
            yield end_s - begin_s, event["data"]["streams"]
