"""Runs one iperf3 process and reads its JSON."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import process


@dataclass(frozen=True)
class Iperf3Report:
    """Holds what a process wrote. `error` is empty where its test succeeded."""

    argv: list[str]
    output: dict[str, Any]
    error: str
    in_time: bool  # it ended by itself, before its time was over
    killed_by: str = ""  # the signal that ended it before it could write anything, such as SIGKILL

    @property
    def test_began(self) -> bool:
        """Returns whether the test itself began, and not only the exchange before it."""
        return bool(self.test)

    @property
    def test(self) -> dict[str, Any]:
        """Returns the parameters that iperf3 reports when a test begins; empty before that."""
        test = self._start.get("test_start")
        return test if isinstance(test, dict) else {}

    @property
    def nothing_since_s(self) -> float | None:
        """Returns the time of the test, in seconds, from which no byte passed; None if some did to the end."""
        since_s = None
        for interval in self.output.get("intervals", []):
            sums = interval.get("sum", {})
            if sums.get("bytes", 0) > 0:
                since_s = None
            elif since_s is None:
                since_s = sums.get("start", 0.0)
        return since_s

    @property
    def extra_data(self) -> str:
        """Returns the text by which the client names the test."""
        return str(self.output.get("extra_data") or "")

    @property
    def accepted(self) -> str:
        """Returns the address from which a client connected to this server; empty without one."""
        connection = self._start.get("accepted_connection")
        return str(connection.get("host", "")) if isinstance(connection, dict) else ""

    def diags(self, notes: Iterable[str] = ()) -> str:
        """Returns the command, the notes, and the JSON in one line, in the form of pScheduler's iperf3 tool."""
        document = json.dumps(self.output, separators=(",", ":")) if self.output else ""
        return "\n".join([shlex.join(self.argv), *notes, "", document])

    @property
    def _start(self) -> dict[str, Any]:
        start = self.output.get("start")
        return start if isinstance(start, dict) else {}


def run(argv: list[str], until: float, cpu: int | None) -> Iperf3Report:
    """Runs iperf3 with JSON output, at most until a time in seconds since 1970."""
    ended = process.run(argv, until, cpu)
    output = _json(ended.stdout)
    error = str(output.get("error") or "").removeprefix("error - ")
    killed_by = signal.Signals(-ended.status).name if ended.status < 0 and not output else ""
    if killed_by:
        error = f"it was ended by {killed_by}"
    if not error and (ended.status != 0 or not output):
        error = f"it ended with status {ended.status} and wrote {(ended.stderr or ended.stdout).strip()[:1000]!r}"
    return Iperf3Report(argv, output, error, ended.in_time, killed_by)


def too_late(report: Iperf3Report) -> str:
    """Returns why a test that began was not over when its slot ended."""
    late = "the test didn't end before its slot"
    if report.nothing_since_s is not None:
        return f"{late}: no byte got through after its first {report.nothing_since_s:.1f} s, so look at the path"
    return f"{late}: if the path has a longer round-trip time than link-rtt, give that"


def connected(diags: object) -> list[dict[str, int]]:
    """Returns `id`, `local_port` and `remote_port` of the streams in such diagnostics; no streams for other text."""
    text, mark = diags if isinstance(diags, str) else "", '"connected":'
    try:
        # Read only this list: the whole document takes seconds where there are many streams and intervals
        streams, _ = json.JSONDecoder().raw_decode(text, text.index(mark) + len(mark))
    except (ValueError, RecursionError):  # the other end's diagnostics may be anything
        return []
    keys = ("id", "local_port", "remote_port")
    return [
        {key: stream[key] for key in keys}
        for stream in (streams if isinstance(streams, list) else [])
        if isinstance(stream, dict) and all(isinstance(stream.get(key), int) for key in keys)
    ]


def _json(stdout: str) -> dict[str, Any]:
    """Returns the first JSON object of iperf3's output; an empty one where there is none.

    iperf3, also without the patches, ends in one of three ways when a signal meets the end of its control connection:
    it ends properly, it prints its output twice, or it never ends (then it is killed and has printed nothing).

    The description of the system (kernel, host name) is left out, as in pScheduler's own tool, since everybody may read
    the results.
    """
    try:
        output, _ = json.JSONDecoder().raw_decode(stdout, max(stdout.find("{"), 0))  # something may be printed before
    except ValueError:
        return {}
    if not isinstance(output, dict):
        return {}
    if isinstance(output.get("start"), dict):
        output["start"].pop("system_info", None)
    return output
