"""Defines the keeper, a process between the agent and a command that controls all its processes.

No process of the command can escape from it. The agent forks it. It starts the command in a session
of its own, and is its subreaper: a descendant whose parent ends, such as a daemon, becomes the
keeper's child. So if a keeper has no children, no process of the command is left. The keeper ends
all of them when it gets SIGTERM, which the kernel also sends when the agent dies.

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
    """Holds the descriptors that a keeper keeps open: its ends of the pipes, and the agent's lock
    on the host, so that the host stays locked until all processes of the command have ended (None
    without a lock).
    """

    stdin: int
    stdout: int
    stderr: int
    status: int
    lock: int | None


def fork_keeper(argv: Sequence[str], descriptors: Descriptors) -> int:
    """Starts a command in a new keeper, and returns the keeper's pid. The caller then closes its
    own copies of the pipe ends in `descriptors`.
    """
    agent = os.getpid()
    handled_signals = {*AGENT_SIGNALS, signal.SIGCHLD}
    former_mask = signal.pthread_sigmask(signal.SIG_BLOCK, handled_signals)
    pid = os.fork()
    if pid != 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, former_mask)
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for number in AGENT_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _close_others(descriptors)
        become_subreaper()
        die_with_parent(signal.SIGTERM)
        if os.getppid() == agent:  # otherwise it died before the kernel could know
            _Keeper(descriptors.status).keep(argv, descriptors, former_mask)
    except BaseException as error:  # no code of the agent may run in here
        with contextlib.suppress(OSError):
            _report(descriptors.status, {"failed": f"the agent's keeper failed: {error!r}"})
    finally:
        os._exit(0)


class _Keeper:
    """Runs in the keeper's process: starts the command, and ends its processes on SIGTERM."""

    def __init__(self, status: int) -> None:
        """Takes the descriptor of the status pipe, to which it writes reports."""
        self._status = status
        self._command = 0  # its pid
        self._grace: Deadline | None = None  # from the time when it ends the processes
        self._gives_up = Deadline(GIVES_UP_S)

    def keep(self, argv: Sequence[str], descriptors: Descriptors, mask: set[int]) -> None:
        """Runs the command until none of its processes is left, or until the remaining ones can't
        be ended. `mask` is the signal mask that the command starts with.
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
        while self._reap_children():
            timeout_s = self._continue_ending(self._grace) if self._grace else 3600.0
            if timeout_s is None:
                _report(self._status, {"left": descendants(os.getpid())})
                return
            received = signal.sigtimedwait([*AGENT_SIGNALS, signal.SIGCHLD], timeout_s)
            if received and received.si_signo != signal.SIGCHLD and not self._grace:
                self._grace, self._gives_up = Deadline(GRACE_S), Deadline(GIVES_UP_S)
                signal_descendants(os.getpid(), signal.SIGTERM)

    def _reap_children(self) -> bool:
        """Collects the exit statuses of ended processes, and reports the command's own. Returns
        whether a process is left.
        """
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

    def _continue_ending(self, grace: Deadline) -> float | None:
        """Sends SIGKILL to all processes once SIGTERM has had its time. Returns after how many
        seconds to call it again; None if the processes do not end even so.
        """
        if not grace.expired:
            return grace.remaining_s
        if self._gives_up.expired:
            return None
        signal_descendants(os.getpid(), signal.SIGKILL)
        return KILLS_EVERY_S


def _close_others(descriptors: Descriptors) -> None:
    """Closes all descriptors that are not in `descriptors`, and connects the standard ones to
    /dev/null. Above all, it closes the agent's channel, which would stay open as long as the keeper
    has it.
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
    """Writes a report to the status pipe. An agent that has died must not keep the keeper from
    ending the command's processes.
    """
    with contextlib.suppress(BrokenPipeError):
        os.write(status, json.dumps(message).encode() + b"\n")
