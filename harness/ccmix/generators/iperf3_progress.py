"""Reads the interval reports of a running iperf3 test, to see early whether it has settled."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ccmix import foreign_json


@dataclass
class GroupProgress:
    """Collects the reports of a group of flows with the same CCA since the omitted time (the begin,
    which isn't measured). Only the sender reports RTTs and retransmissions.
    """

    cca: str
    streams: int
    goodput_bps: list[float] = field(default_factory=list)  # in each interval that is over
    rtts_s: list[float] = field(default_factory=list)  # of each flow at the end of each interval
    bytes: int = 0
    retransmits: int = 0  # segments


def read_progress(output: Path, interval_s: float) -> dict[int, GroupProgress]:
    """Reads from the output of a running iperf3 test what each group of flows has done in the
    intervals so far. Returns the groups by their numbers, which begin with 1; empty if no interval
    has ended.

    output: the client's or server's output with --json-stream
    interval_s: nominal length of an interval
    """
    groups: dict[int, GroupProgress] = {}
    for seconds, streams in _intervals(output, interval_s):
        for number in sorted({stream.get("group", 1) for stream in streams}):
            group_streams = [stream for stream in streams if stream.get("group", 1) == number]
            group = groups.setdefault(
                number, GroupProgress(group_streams[0].get("congestion", ""), len(group_streams))
            )
            sent_bytes = sum(stream["bytes"] for stream in group_streams)
            group.bytes += sent_bytes
            group.goodput_bps.append(sent_bytes * 8 / seconds)
            group.rtts_s += [stream["rtt"] / 1e6 for stream in group_streams if stream.get("rtt")]
            group.retransmits += sum(stream.get("retransmits", 0) for stream in group_streams)
    return groups


def _intervals(output: Path, interval_s: float) -> Iterator[tuple[float, list[dict[str, Any]]]]:
    """Yields for each interval that has ended its length in seconds and iperf3's JSON of its
    streams. The omitted time at the start is left out, and so are intervals shorter than half of
    the nominal length. The length is counted from the end of the previous interval, as in
    analysis/iperf3_tables.py.
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
