"""Defines the interface to hosts, for code that changes, observes or loads a host."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from ccmix.hosts.caps import Cap
from ccmix.hosts.errors import CommandError


class Process(Protocol):
    """Represents a command that runs in the background on a host, together with all processes that
    it starts.
    """

    def ended(self) -> bool:
        """Returns whether the command itself has ended; processes that it started may still run."""

    def wait(self, timeout_s: float) -> int:
        """Waits for the command's end, and returns its own exit status (128 + N if signal N ended
        it). Raises CommandError after `timeout_s`.
        """

    def end(self) -> None:
        """Sends SIGTERM, and then SIGKILL if that has no effect, to the command and to all
        processes that it has started.
        """


class Host(Protocol):
    """Represents a machine, or a network namespace of one, on which commands can be run. `name` is
    for messages: 'localhost', 'netns:a', 'dtn@example.org'.

    Commands are lists of arguments, never lines for a shell.
    """

    name: str

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 30) -> str:
        """Runs a command to its end, and returns its standard output. Raises CommandError if it
        can't be started, fails, or takes longer than `timeout_s`.
        """

    def start(
        self, argv: Sequence[str], *, stdout: Path, stderr: Path
    ) -> AbstractContextManager[Process]:
        """Runs a command in the background until the context ends. Its outputs go to files of
        *this* machine; stderr's is appended to.
        """

    def read(self, path: str) -> str:
        """Returns a text file of the host. Raises CommandError."""

    def changed(
        self, what: str, do: Sequence[str], undo: Sequence[str]
    ) -> AbstractContextManager[str]:
        """Makes a change for the context: runs the command `do`, yields its output, and runs the
        command `undo` when the context ends. `what` describes the change in messages.

        `undo` is on the host's disk before the change is made. If this process, the connection or
        the host's power fails in between, the host itself runs `undo`, or the next ccmix that
        connects to it. Raises CommandError.
        """


class ContainedProcess(Process, Protocol):
    """Represents a background command on a host with an agent, which also knows the processes that
    the command has started.
    """

    def listening(self) -> list[int]:
        """Returns the TCP ports on which the command, or a process that it has started, listens."""

    def command_lines(self) -> list[str]:
        """Returns the command lines of its processes, with spaces between the arguments."""

    def gone(self) -> bool:
        """Returns whether no process of the command is left, daemons included."""


class RealHost(Host, Protocol):
    """Represents an end of a real (not emulated) path, on which ccmix runs its agent. `privileged`
    commands use sudo -n if the login is not root.

    `temporary` is a folder on the host that is removed when the agent leaves.
    """

    is_this_machine: bool  # its files are those of this process

    @property
    def lost(self) -> CommandError | None:
        """Returns why the connection has ended, or None."""

    @property
    def temporary(self) -> str: ...

    def remember(self, what: str, undo: Sequence[str]) -> int:
        """Records on the host's disk how to undo a change that was made earlier, and returns the
        record's number. The agent undoes the change when it leaves.
        """

    def forget(self, number: int) -> None:
        """Removes a record of remember(): the change will not be undone."""

    @property
    def agent_pid(self) -> int:
        """Returns the pid of the agent, from which all processes that it starts descend."""

    def clock_ahead_s(self) -> float:
        """Returns how many seconds the host's wall clock is ahead of this machine's, exact to half
        a round trip. Raises CommandError.
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
        """Runs a command in the background like Host.start. `cap` limits the size of each output;
        None means the limit of outputs_capped().
        """

    def outputs_capped(self, cap: Cap, most_bytes: int) -> AbstractContextManager[None]:
        """Limits each output of commands that are started in the context to `most_bytes`; `cap`
        says why, in the error of a host that sends more.
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
        """Makes a change for the context like Host.changed. `undone` is called with the output of
        `undo`.

        `all_or_nothing` says that a `do` that fails has changed nothing. Then `undo` is not run,
        because it could only undo somebody else's change.
        """

    def put(self, local: Path, name: str) -> str:
        """Copies a file into the agent's own folder on the host, and returns its path there. The
        folder is removed when the agent leaves.
        """

    def fetch(self, path: str, local: Path, cap: Cap, most_bytes: int) -> None:
        """Copies a file of the host, of at most `most_bytes`, to the path `local` on this
        machine.
        """
