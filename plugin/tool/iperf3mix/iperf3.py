"""Runs one iperf3 process, which never outlives this process, and reads its JSON."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

GRACE_S = 0.2

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Cancelled(BaseException):
    """Reports that a signal ends this run. It is not an Exception, so no handler mistakes it for a
    failure.
    """


@dataclass(frozen=True)
class Iperf3Report:
    """Holds the output of a process. `error` is empty if its test succeeded."""

    argv: list[str]
    output: dict[str, Any]
    error: str
    in_time: bool  # it ended by itself, before its time was over
    killed_by: str = ""  # the signal that ended it before it could write anything, such as SIGKILL

    @property
    def test_began(self) -> bool:
        """Returns whether the test itself began, not only the exchange before it."""
        return bool(self.test)

    @property
    def test(self) -> dict[str, Any]:
        """Returns the parameters that iperf3 reports when a test begins; empty before that."""
        test = self._start.get("test_start")
        return test if isinstance(test, dict) else {}

    @property
    def nothing_since_s(self) -> float | None:
        """Returns the time of the test, in seconds, after which no more byte arrived; None if
        bytes arrived until the end.
        """
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
        """Returns the command, the notes, and the JSON in one line, in the format of pScheduler's
        iperf3 tool.
        """
        document = json.dumps(self.output, separators=(",", ":")) if self.output else ""
        return "\n".join([shlex.join(self.argv), *notes, "", document])

    @property
    def _start(self) -> dict[str, Any]:
        start = self.output.get("start")
        return start if isinstance(start, dict) else {}


def run(argv: list[str], until: float, cpu: int | None) -> Iperf3Report:
    """Runs iperf3 with JSON output, at most until a time in seconds since 1970."""
    ended = _run_process(argv, until, cpu)
    output = _json(ended.stdout)
    error = str(output.get("error") or "").removeprefix("error - ")
    killed_by = signal.Signals(-ended.status).name if ended.status < 0 and not output else ""
    if killed_by:
        error = f"it was ended by {killed_by}"
    if not error and (ended.status != 0 or not output):
        error = (
            f"it ended with status {ended.status} and wrote "
            f"{(ended.stderr or ended.stdout).strip()[:1000]!r}"
        )
    return Iperf3Report(argv, output, error, ended.in_time, killed_by)


def too_late(report: Iperf3Report) -> str:
    """Explains why a test that began did not end before its slot."""
    late = "the test didn't end before its slot"
    if report.nothing_since_s is not None:
        return (
            f"{late}: no byte got through after its first {report.nothing_since_s:.1f} s, so "
            "look at the path"
        )
    return f"{late}: if the path has a longer round-trip time than link-rtt, give that"


def connected(diags: object) -> list[dict[str, int]]:
    """Returns `id`, `local_port` and `remote_port` of the streams in the text of diags(); empty for
    other text.
    """
    text, mark = diags if isinstance(diags, str) else "", '"connected":'
    try:
        # Read only this list: parsing the whole document takes seconds if it has many streams and
        # intervals
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
    """Returns the first JSON object of iperf3's output; an empty one if there is none.

    If a signal arrives while the control connection ends, iperf3 (also without the patches) behaves
    in one of three ways: it ends properly, it prints its output twice, or it never ends. In the
    third case it is killed and has printed nothing.

    Leaves out the description of the system (kernel, host name), as pScheduler's own tool does,
    because everybody may read the results.
    """
    try:
        output, _ = json.JSONDecoder().raw_decode(
            stdout, max(stdout.find("{"), 0)
        )  # other text may come before it
    except ValueError:
        return {}
    if not isinstance(output, dict):
        return {}
    if isinstance(output.get("start"), dict):
        output["start"].pop("system_info", None)
    return output


@dataclass(frozen=True)
class ProcessEnd:
    """Holds the end of a process and its output. `in_time`: it ended by itself, before its time was
    over.
    """

    status: int
    stdout: str
    stderr: str
    in_time: bool


def cancel_on_signals() -> None:
    """Makes signals that end a process raise Cancelled."""

    def cancel(number: int, _frame: FrameType | None) -> NoReturn:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)  # the first signal is enough
        raise Cancelled(signal.Signals(number).name)

    for number in _SIGNALS:
        signal.signal(number, cancel)


def usable_cpus() -> set[int]:
    return os.sched_getaffinity(0)


def _run_process(argv: list[str], until: float, cpu: int | None) -> ProcessEnd:
    """Runs a program until it ends, at most until a time (seconds since 1970). It then gets
    SIGTERM, and GRACE_S later SIGKILL.

    It has a separate process group, and gets SIGKILL from the kernel when this process dies. A
    program with a file capability doesn't get that signal (prctl(2)), so callers also set iperf3's
    own time limits.
    """
    parent = os.getpid()

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})

    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=prepare,  # noqa: PLW1509 - this process has one thread
        encoding="utf-8",
        errors="replace",
    )
    in_time = True
    try:
        try:
            stdout, stderr = process.communicate(timeout=max(0.0, until - time.time()))
        except subprocess.TimeoutExpired:
            in_time = False
            _signal(process, signal.SIGTERM)  # iperf3 then writes its results so far
            try:
                stdout, stderr = process.communicate(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                stdout, stderr = process.communicate()
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()
    return ProcessEnd(process.returncode, stdout, stderr, in_time)


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Signals the process group. No other group can have its number until the process has been
    waited for.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
