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
    """Puts this thread into the network namespace, and back into its own afterwards. Raises
    CommandError.
    """
    try:
        with (
            Path("/proc/thread-self/ns/net").open("rb") as own,
            (NAMES / namespace).open("rb") as other,
        ):
            _enter(other.fileno())
            try:
                yield
            finally:
                _enter(own.fileno())
    except OSError as error:
        raise CommandError(namespace, ["setns"], error.strerror or str(error)) from error


def _enter(file: int) -> None:
    if _libc.setns(file, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class LocalProcess:
    """Runs a command in the background on this machine; the kernel kills it when this
    process dies.
    """

    def __init__(self, host: str, argv: Sequence[str], stdout: Path, stderr: Path) -> None:
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
        if not self._ends_within(timeout_s):
            raise CommandTimeout(self._host, self._argv, timeout_s)
        return self._popen.wait()

    def end(self) -> None:
        """Sends SIGTERM, and SIGKILL if that has no effect."""
        if self.ended():
            return
        self._popen.terminate()
        if not self._ends_within(ENDS_WITHIN_S):
            self._popen.kill()
        self._popen.wait()

    def _ends_within(self, timeout_s: float) -> bool:
        """Waits for the end without polling: Popen.wait() would look 20 times a second, which is
        expensive in a guest.
        """
        if self.ended():
            return True
        descriptor = os.pidfd_open(self._popen.pid)
        try:
            end = select.poll()
            end.register(descriptor, select.POLLIN)
            return bool(end.poll(timeout_s * 1e3))
        finally:
            os.close(descriptor)


class LocalHost:
    """Represents this machine itself. This process undoes its changes; if it can't, `ccmix restore`
    does, from the journal.
    """

    name = "localhost"

    def __init__(self, journal: Journal | None = None) -> None:
        """Takes the journal for changes; without a journal, no changes are possible."""
        self._journal = journal

    def command(self, argv: Sequence[str]) -> list[str]:
        """Returns the argument list that runs `argv` on this host, from any thread of this
        machine.
        """
        return list(argv)

    def _own_command(self, argv: Sequence[str]) -> list[str]:
        """Returns the argument list as this host itself runs it."""
        return self.command(argv)

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 30) -> str:
        try:
            done = subprocess.run(
                self._own_command(argv),
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
        if done.returncode != 0:
            raise exit_status_error(self.name, argv, done.returncode, done.stderr or done.stdout)
        return done.stdout

    @contextmanager
    def start(self, argv: Sequence[str], *, stdout: Path, stderr: Path) -> Iterator[LocalProcess]:
        process = self._started(argv, stdout, stderr)
        try:
            yield process
        finally:
            process.end()

    def _started(self, argv: Sequence[str], stdout: Path, stderr: Path) -> LocalProcess:
        return LocalProcess(self.name, self._own_command(argv), stdout, stderr)

    def read(self, path: str) -> str:
        try:
            return Path(path).read_text()
        except OSError as error:
            raise CommandError(self.name, ["read", path], error.strerror or str(error)) from error

    @contextmanager
    def changed(self, what: str, do: Sequence[str], undo: Sequence[str]) -> Iterator[str]:
        """Makes a change and undoes it. An undo that fails stays in the journal, for
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
    """Represents a network namespace of this machine, made with ip-netns(8); it needs root."""

    def __init__(self, name: str, journal: Journal | None = None) -> None:
        super().__init__(journal)
        self.name = name

    def command(self, argv: Sequence[str]) -> list[str]:
        """Lets iproute2's own tools enter the namespace themselves, which saves a process."""
        if option := ENTERS_NAMESPACE.get(argv[0]):
            return [argv[0], option, self.name, *argv[1:]]
        return ["ip", "netns", "exec", self.name, *argv]

    def read(self, path: str) -> str:
        """Reads a file inside the namespace: /proc shows this thread its own namespace, except
        below self, which is the process.
        """
        with entered(self.name):
            return super().read(path.replace("/proc/net/", "/proc/thread-self/net/"))


class EnteredNamespace(NamespaceHost):
    """Represents a network namespace of this machine whose programs need no /sys of their own.

    The thread that starts a program enters the namespace itself. It does not use ip-netns(8), whose
    process and mounts take as long in a guest as the program itself.
    """

    def _own_command(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 30) -> str:
        with entered(self.name):
            return super().run(argv, stdin=stdin, timeout_s=timeout_s)

    def _started(self, argv: Sequence[str], stdout: Path, stderr: Path) -> LocalProcess:
        with entered(self.name):
            return super()._started(argv, stdout, stderr)
