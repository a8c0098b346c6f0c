"""Defines the common interface of all hosts, which conditions, probes and generators use."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from ccmix.hosts.caps import Cap
from ccmix.hosts.errors import CommandError


class Process(Protocol):
    """Represents a command that runs in the background on a host, with all processes that it
    starts.
    """

    def ended(self) -> bool:
        """Returns whether the command itself has ended; processes that it started may still run."""

    def wait(self, timeout_s: float) -> int:
        """Returns the command's own exit status (128 + N if signal N ended it). Raises CommandError
        after `timeout_s`.
        """

    def end(self) -> None:
        """Sends SIGTERM, and then SIGKILL if that has no effect, to the command and to all
        processes that it has started.
        """


class Host(Protocol):
    """Represents a machine, or a network namespace of one. `name` is for messages: 'localhost',
    'netns:a', 'dtn@example.org'.

    Commands are argument lists, never lines for a shell.
    """

    name: str

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 30) -> str:
        """Returns the standard output. Raises CommandError if the command can't be started, fails,
        or takes longer.
        """

    def start(
        self, argv: Sequence[str], *, stdout: Path, stderr: Path
    ) -> AbstractContextManager[Process]:
        """Runs a command in the background until the context ends. Outputs go to files of *this*
        machine; stderr's is appended to.
        """

    def read(self, path: str) -> str:
        """Returns a text file of the host. Raises CommandError."""

    def changed(
        self, what: str, do: Sequence[str], undo: Sequence[str]
    ) -> AbstractContextManager[str]:
        """Records `undo` on the host's disk, carries out `do`, and carries out `undo` when the
        context ends; yields the output of `do`.

        Raises CommandError. If this process, the connection or the host's power fails in between,
        the host itself carries out `undo`, or the next ccmix that connects to it.
        """


class ContainedProcess(Process, Protocol):
    """Represents a process on a real host, which keeps control of all processes that it starts."""

    def listening(self) -> list[int]:
        """Returns the TCP ports on which this process, or one that it has started, listens."""

    def command_lines(self) -> list[str]:
        """Returns the command lines of its processes, with spaces between the arguments."""

    def gone(self) -> bool:
        """Returns whether no process of it is left, daemons included."""


class RealHost(Host, Protocol):
    """Represents a host of a real path, with an agent on it. `privileged` commands use sudo -n if
    the login is not root.

    `temporary` is a folder on the host that is removed with the agent.
    """

    is_this_machine: bool  # its files are those of this process

    @property
    def lost(self) -> CommandError | None:
        """Returns why the connection has ended, or None."""

    @property
    def temporary(self) -> str: ...

    def remember(self, what: str, undo: Sequence[str]) -> int:
        """Records the undo of an earlier change on the host's disk, and returns its number."""

    def forget(self, number: int) -> None:
        """Removes the record of such a change, which then stays."""

    @property
    def agent_pid(self) -> int:
        """Returns the pid of the agent, from which all processes that it starts descend."""

    def clock_ahead_s(self) -> float:
        """Returns how far the host's wall clock is ahead of this machine's, exact to half a round
        trip. Raises CommandError.
        """

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout_s: float = 30,
        privileged: bool = False,
    ) -> str: ...

    def start(
        self,
        argv: Sequence[str],
        *,
        stdout: Path,
        stderr: Path,
        privileged: bool = False,
        cap: Cap | None = None,
    ) -> AbstractContextManager[ContainedProcess]:
        """Starts a command like Host.start; `cap` limits each output, and outputs_capped() if it is
        not given.
        """

    def outputs_capped(self, cap: Cap, most_bytes: int) -> AbstractContextManager[None]:
        """Sets the maximum number of bytes of each output of commands that are started in the
        context.
        """

    def changed(
        self,
        what: str,
        do: Sequence[str],
        undo: Sequence[str],
        privileged: bool = True,
        undo_within_s: float = 30,
        undone: Callable[[str], object] | None = None,
        all_or_nothing: bool = False,
    ) -> AbstractContextManager[str]:
        """Makes a change like Host.changed; `undone` gets the output of the undo.

        `all_or_nothing`: a `do` that failed has changed nothing, so its undo could only undo
        somebody else's change.
        """

    def put(self, local: Path, name: str) -> str:
        """Sends a file into the agent's own folder, which is removed with the agent; returns its
        path there.
        """

    def fetch(self, path: str, local: Path, cap: Cap, most_bytes: int) -> None:
        """Copies a file of the host, of at most this number of bytes, to this machine."""
