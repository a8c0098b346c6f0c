"""Runs commands on this machine and in its network namespaces."""

import contextlib
import ctypes
import os
import select
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ccmix.agent.journal import Journal
from ccmix.hosts.errors import CommandError, CommandTimeout, ExitStatusError, exit_status_error

NAMES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)  # os.setns is of Python 3.12

ENTERS_NAMESPACE = {"ip": "-n", "tc": "-n", "ss": "-N"}
ENDS_WITHIN_S = 5.0  # how long a command may take to end after SIGTERM


@contextmanager
def entered(namespace: str) -> Iterator[None]:
    """Puts this thread into a network namespace for the context, so that sockets and processes that
    it makes belong there. Raises CommandError.
    """
    try:
        with (
            Path("/proc/thread-self/ns/net").open("rb") as former,
            (NAMES / namespace).open("rb") as target,
        ):
            _set_namespace(target.fileno())
            try:
                yield
            finally:
                _set_namespace(former.fileno())
    except OSError as error:
        raise CommandError(namespace, ["setns"], error.strerror or str(error)) from error


def _set_namespace(file: int) -> None:
    """Puts this thread into the network namespace of an open file, by setns(2)."""
    if _libc.setns(file, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class LocalProcess:
    """Runs a command in the background on this machine. The kernel kills it when this
    process dies.
    """

    def __init__(self, host: str, argv: Sequence[str], stdout: Path, stderr: Path) -> None:
        """Starts the command, with its outputs to these files; stderr's is appended to. `host` is
        the name for errors. Raises CommandError.
        """
        self._host = host
        self._argv = tuple(argv)
        with stdout.open("wb") as out, stderr.open("ab") as err:
            try:
                self._popen = subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *argv],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                )
            except OSError as error:
                raise CommandError(host, argv, error.strerror or str(error)) from error

    @property
    def pid(self) -> int:
        return self._popen.pid

    def ended(self) -> bool:
        return self._popen.poll() is not None

    def wait(self, timeout_s: float) -> int:
        """Returns the exit status, once the command has ended. Raises CommandTimeout."""
        if not self._ends_within(timeout_s):
            raise CommandTimeout(self._host, self._argv, timeout_s)
        return self._popen.wait()

    def end(self) -> None:
        """Sends SIGTERM, and SIGKILL if the command has not ended after ENDS_WITHIN_S."""
        if self.ended():
            return
        self._popen.terminate()
        if not self._ends_within(ENDS_WITHIN_S):
            self._popen.kill()
        self._popen.wait()

    def _ends_within(self, timeout_s: float) -> bool:
        """Waits for the command's end, and returns whether it ended in time. Popen.wait() would
        poll 20 times a second, which is expensive in a guest of the lab.
        """
        if self.ended():
            return True
        descriptor = os.pidfd_open(self._popen.pid)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(timeout_s * 1e3))
        finally:
            os.close(descriptor)


class LocalHost:
    """Represents this machine itself. This process undoes its changes; if it dies, `ccmix restore`
    does, from the journal (a file that has each undo before the change).
    """

    name = "localhost"

    def __init__(self, journal: Journal | None = None) -> None:
        """Takes the journal for changes. Without a journal, the host can't be changed."""
        self._journal = journal

    def command(self, argv: Sequence[str]) -> list[str]:
        """Returns the command that runs `argv` on this host, for a thread that is not in the host's
        namespace.
        """
        return list(argv)

    def _command_here(self, argv: Sequence[str]) -> list[str]:
        """Returns the command with which the methods of this class run `argv`. A subclass whose
        methods enter the namespace first overrides it.
        """
        return self.command(argv)

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 30) -> str:
        """Runs a command to its end, and returns its standard output. Raises CommandError if it
        can't be started, fails, or takes longer than `timeout_s`.
        """
        try:
            completed = subprocess.run(
                self._command_here(argv),
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except OSError as error:
            raise CommandError(self.name, argv, error.strerror or str(error)) from error
        except subprocess.TimeoutExpired:
            raise CommandTimeout(self.name, argv, timeout_s) from None
        if completed.returncode != 0:
            raise exit_status_error(
                self.name, argv, completed.returncode, completed.stderr or completed.stdout
            )
        return completed.stdout

    @contextmanager
    def start(self, argv: Sequence[str], *, stdout: Path, stderr: Path) -> Iterator[LocalProcess]:
        """Runs a command in the background until the context ends, with its outputs to these files;
        stderr's is appended to. Raises CommandError.
        """
        process = self._start_process(argv, stdout, stderr)
        try:
            yield process
        finally:
            process.end()

    def _start_process(self, argv: Sequence[str], stdout: Path, stderr: Path) -> LocalProcess:
        return LocalProcess(self.name, self._command_here(argv), stdout, stderr)

    def read(self, path: str) -> str:
        """Returns the text of a file. Raises CommandError."""
        try:
            return Path(path).read_text()
        except OSError as error:
            raise CommandError(self.name, ["read", path], error.strerror or str(error)) from error

    @contextmanager
    def changed(self, what: str, do: Sequence[str], undo: Sequence[str]) -> Iterator[str]:
        """Makes a change for the context with the command `do`, yields its output, and undoes the
        change afterwards with the command `undo`. `what` describes the change in messages.

        The undo is in the journal before the change is made. If the undo fails, it stays there, for
        `ccmix restore`. Raises CommandError, and ValueError without a journal.
        """
        if self._journal is None:
            raise ValueError(f"{self.name}: {what} can't be changed without a journal")
        number = self._journal.about_to(f"{what} on {self.name}", self.command(undo))
        try:
            output = self.run(do)
        except BaseException:  # SIGTERM and Ctrl-C too
            with contextlib.suppress(CommandError):  # it stays in the journal
                with contextlib.suppress(ExitStatusError):  # there may be nothing to undo
                    self.run(undo)
                self._journal.undone(number)
            raise
        try:
            self._journal.made(number)
            yield output
        finally:
            self._journal.undoing(number)
            try:
                self.run(undo)
            except ExitStatusError:
                self._journal.not_undone(number)
                raise
            self._journal.undone(number)


class NamespaceHost(LocalHost):
    """Represents a network namespace of this machine, which ip-netns(8) has made. It needs root."""

    def __init__(self, name: str, journal: Journal | None = None) -> None:
        super().__init__(journal)
        self.name = name

    def command(self, argv: Sequence[str]) -> list[str]:
        """Returns the command that runs `argv` in the namespace. Tools of iproute2 can enter it
        themselves, which saves a process.
        """
        if option := ENTERS_NAMESPACE.get(argv[0]):
            return [argv[0], option, self.name, *argv[1:]]
        return ["ip", "netns", "exec", self.name, *argv]

    def read(self, path: str) -> str:
        """Reads a file as a thread in the namespace sees it. /proc/net is that of the process's
        main thread, so it reads /proc/thread-self/net instead.
        """
        with entered(self.name):
            return super().read(path.replace("/proc/net/", "/proc/thread-self/net/"))


class EnteredNamespace(NamespaceHost):
    """Represents a network namespace of this machine, like NamespaceHost, but starts programs
    faster. They get no /sys of the namespace.

    The thread that starts a program enters the namespace itself instead of by ip-netns(8), whose
    process and mounts take as long in a guest of the lab as the program itself.
    """

    def _command_here(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 30) -> str:
        with entered(self.name):
            return super().run(argv, stdin=stdin, timeout_s=timeout_s)

    def _start_process(self, argv: Sequence[str], stdout: Path, stderr: Path) -> LocalProcess:
        with entered(self.name):
            return super()._start_process(argv, stdout, stderr)
