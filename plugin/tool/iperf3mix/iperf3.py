"""One iperf3 process, and what it said in JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import process


@dataclass(frozen=True)
class Said:
    """What a process left. `error` is empty where its test went well."""

    argv: list[str]
    output: dict[str, Any]
    error: str
    in_time: bool  # it ended by itself, and not because its time was over

    @property
    def test_began(self) -> bool:
        """Whether there was a test, and not only the talk before it."""
        return bool(self.test)

    @property
    def test(self) -> dict[str, Any]:
        """What was tested, as iperf3 says when it begins; empty before that."""
        test = self._start.get("test_start")
        return test if isinstance(test, dict) else {}

    @property
    def extra_data(self) -> str:
        """What its client, or it as a client, was told to name the test by."""
        return str(self.output.get("extra_data") or "")

    @property
    def accepted(self) -> str:
        """The address from which a server was called; empty without a call."""
        call = self._start.get("accepted_connection")
        return str(call.get("host", "")) if isinstance(call, dict) else ""

    def diags(self, notes: Iterable[str] = ()) -> str:
        """The command, notes below it, and the JSON in one line, as pScheduler's iperf3 tool has them."""
        said = json.dumps(self.output, separators=(",", ":")) if self.output else ""
        return "\n".join([shlex.join(self.argv), *notes, "", said])

    @property
    def _start(self) -> dict[str, Any]:
        start = self.output.get("start")
        return start if isinstance(start, dict) else {}


def run(argv: list[str], until: float, cpu: int | None) -> Said:
    """Runs iperf3 with JSON output, at most until a time in seconds since 1970."""
    ended = process.run(argv, until, cpu)
    output = _json(ended.stdout)
    error = str(output.get("error") or "").removeprefix("error - ")
    if not error and (ended.status != 0 or not output):
        error = f"it ended with status {ended.status} and said {(ended.stderr or ended.stdout).strip()[:1000]!r}"
    return Said(argv, output, error, ended.in_time)


def connected(diags: object) -> list[dict[str, int]]:
    """The streams with `id`, `local_port` and `remote_port` from diagnostics as above; none where they are no such."""
    text, mark = diags if isinstance(diags, str) else "", '"connected":'
    try:
        # Only this list: all of it takes seconds where there are many streams and intervals
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
    """iperf3's output, or the first of two; empty where it is none.

    Stock iperf3, too, ends in one of three ways when a signal meets the other end's good-bye: as it should, with its
    output printed twice, or never (then it is killed, and says nothing).

    Without the description of the system: pScheduler's own tool, too, keeps that (kernel, host name) from the results,
    which everybody may read.
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
