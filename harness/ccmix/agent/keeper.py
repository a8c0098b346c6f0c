"""Keeps control of a command for the agent: a keeper is a process between the two from which no
process of the command can escape.

The agent forks it. It starts the command in a session of its own, and is its subreaper: a
descendant whose parent ends, such as a daemon, becomes the keeper's child. So if a keeper has no
children, no process of the command is left. The keeper ends all of them when it gets SIGTERM, which
the kernel also sends when the agent dies.

It writes one JSON object per line to its status pipe: {"failed": reason} if the command can't be
started, {"exit": status} of the command itself, {"left": [pid...]} of processes that could not be
ended. The end of the pipe means that no process is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ccmix.agent.deadline import Deadline
from ccmix.agent.processes import become_subreaper, descendants, die_with_parent, signal_descendants

if TYPE_CHECKING:
    from collections.abc import Sequence

GRACE_S = 3.0  # between SIGTERM and SIGKILL
GIVES_UP_S = (
    10.0  # after SIGTERM: SIGKILL takes effect at once except in the kernel's uninterruptible waits
)
KILLS_EVERY_S = 0.005  # until none is left: looking again finds processes that fork meanwhile
AGENT_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@dataclass(frozen=True)
class Descriptors:
    """Holds the keeper's ends of the pipes, and the agent's lock, if it has one, which the keeper
    keeps open as long as it lives.
    """

    stdin: int
    stdout: int
    stderr: int
    status: int
    lock: int | None


def fork_keeper(argv: Sequence[str], descriptors: Descriptors) -> int:
    """Starts a command in a keeper; returns the keeper's pid. The caller closes its copies of the
    pipes' ends.
    """
    agent = os.getpid()
    waited_for = {*AGENT_SIGNALS, signal.SIGCHLD}
    former = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    pid = os.fork()
    if pid != 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for number in AGENT_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _close_all_but(descriptors)
        become_subreaper()
        die_with_parent(signal.SIGTERM)
        if os.getppid() == agent:  # otherwise it died before the kernel could know
            _Keeper(descriptors.status).keep(argv, descriptors, former)
    except BaseException as error:  # no code of the agent may run in here
        with contextlib.suppress(OSError):
            _report(descriptors.status, {"failed": f"the agent's keeper failed: {error!r}"})
    finally:
        os._exit(0)


class _Keeper:
    def __init__(self, status: int) -> None:
        self._status = status
        self._command = 0
        self._grace: Deadline | None = None  # from the time when it ends the processes
        self._gives_up = Deadline(GIVES_UP_S)

    def keep(self, argv: Sequence[str], descriptors: Descriptors, mask: set[int]) -> None:
        """Runs the command; returns when none of its processes is left, or when the remaining ones
        can't be ended.
        """
        try:
            command = subprocess.Popen(
                argv,
                stdin=descriptors.stdin,
                stdout=descriptors.stdout,
                stderr=descriptors.stderr,
                start_new_session=True,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),  # noqa: PLW1509
            )
        except (OSError, ValueError) as error:
            _report(self._status, {"failed": getattr(error, "strerror", None) or str(error)})
            return
        self._command = command.pid
        for descriptor in (descriptors.stdin, descriptors.stdout, descriptors.stderr):
            os.close(descriptor)
        while self._reap():
            timeout_s = self._end(self._grace) if self._grace else 3600.0
            if timeout_s is None:
                _report(self._status, {"left": descendants(os.getpid())})
                return
            received = signal.sigtimedwait([*AGENT_SIGNALS, signal.SIGCHLD], timeout_s)
            if received and received.si_signo != signal.SIGCHLD and not self._grace:
                self._grace, self._gives_up = Deadline(GRACE_S), Deadline(GIVES_UP_S)
                signal_descendants(os.getpid(), signal.SIGTERM)

    def _reap(self) -> bool:
        """Notes which processes have ended; returns whether any is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._command:
                code = os.waitstatus_to_exitcode(status)
                _report(self._status, {"exit": code if code >= 0 else 128 - code})

    def _end(self, grace: Deadline) -> float | None:
        """Continues to end processes; returns after how many seconds to call it again, or None if
        that is useless.
        """
        if not grace.expired:
            return grace.remaining_s
        if self._gives_up.expired:
            return None
        signal_descendants(os.getpid(), signal.SIGKILL)
        return KILLS_EVERY_S


def _close_all_but(descriptors: Descriptors) -> None:
    """Closes all other descriptors, above all the agent's channel, because a connection stays open
    while a process holds it.
    """
    kept = {
        descriptors.stdin,
        descriptors.stdout,
        descriptors.stderr,
        descriptors.status,
        descriptors.lock,
    }
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    for descriptor in [int(file.name) for file in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor not in kept:
            with contextlib.suppress(OSError):  # the process that listed them
                os.close(descriptor)


def _report(status: int, message: dict[str, object]) -> None:
    """Writes a message, even if its reader has died: the command's processes must be ended all the
    same.
    """
    with contextlib.suppress(BrokenPipeError):
        os.write(status, json.dumps(message).encode() + b"\n")
