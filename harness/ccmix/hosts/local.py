"""This machine and its network namespaces."""

import contextlib
import os
import select
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ccmix.agent.journal import Journal
from ccmix.hosts.errors import CommandError
from ccmix.hosts.namespace import entered

ENTERS_NAMESPACE = {"ip": "-n", "tc": "-n", "ss": "-N"}
ENDS_WITHIN_S = 5.0  # how long a command may take to end after SIGTERM


class LocalProcess:
    """A command that runs in the background on this machine, and is killed by the kernel when this process dies."""

    def __init__(self, host: str, argv: Sequence[str], stdout: Path, stderr: Path) -> None:
        self._host = host
        self._argv = tuple(argv)
        with stdout.open("wb") as out, stderr.open("ab") as err:
            try:
                self._popen = subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *argv], stdin=subprocess.DEVNULL, stdout=out, stderr=err
                )
            except OSError as error:
                raise CommandError(host, argv, error.strerror or str(error)) from error

    def ended(self) -> bool:
        return self._popen.poll() is not None

    def wait(self, timeout_s: float) -> int:
        if not self._ends_within(timeout_s):
            raise CommandError(self._host, self._argv, f"has not ended after {timeout_s:g} s")
        return self._popen.wait()

    def end(self) -> None:
        """SIGTERM, and SIGKILL where that is not heard."""
        if self.ended():
            return
        self._popen.terminate()
        if not self._ends_within(ENDS_WITHIN_S):
            self._popen.kill()
        self._popen.wait()

    def _ends_within(self, timeout_s: float) -> bool:
        """Sleeps until then, where Popen.wait() would look 20 times a second, which costs much in a guest."""
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
    """This machine as it is. What it changes is undone by this process, or from the journal by `ccmix restore`."""

    name = "localhost"

    def __init__(self, journal: Journal | None = None) -> None:
        """Without a journal, nothing can be changed."""
        self._journal = journal

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argument list that runs `argv` on this host."""
        return list(argv)

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = 30) -> str:
        command = self.command(argv)
        try:
            done = subprocess.run(
                command, input=stdin, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
            )
        except OSError as error:
            raise CommandError(self.name, argv, error.strerror or str(error)) from error
        except subprocess.TimeoutExpired:
            raise CommandError(self.name, argv, f"has not ended after {timeout_s:g} s") from None
        if done.returncode != 0:
            said = " / ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
            raise CommandError(self.name, argv, f"exit status {done.returncode}{': ' + said if said else ''}")
        return done.stdout

    @contextmanager
    def start(self, argv: Sequence[str], *, stdout: Path, stderr: Path) -> Iterator[LocalProcess]:
        process = LocalProcess(self.name, self.command(argv), stdout, stderr)
        try:
            yield process
        finally:
            process.end()

    def read(self, path: str) -> str:
        try:
            return Path(path).read_text()
        except OSError as error:
            raise CommandError(self.name, ["read", path], error.strerror or str(error)) from error

    @contextmanager
    def changed(self, what: str, do: Sequence[str], undo: Sequence[str]) -> Iterator[str]:
        """An undo that fails stays in the journal, for `ccmix restore`. Raises CommandError, and ValueError without a
        journal.
        """
        if self._journal is None:
            raise ValueError(f"{self.name}: {what} can't be changed without a journal")
        number = self._journal.about_to(f"{what} on {self.name}", self.command(undo))
        try:
            output = self.run(do)
        except BaseException:  # SIGTERM and Ctrl-C too
            with contextlib.suppress(CommandError):  # there may be nothing to undo
                self.run(undo)
            self._journal.undone(number)
            raise
        try:
            self._journal.made(number)
            yield output
        finally:
            self.run(undo)
            self._journal.undone(number)


class NamespaceHost(LocalHost):
    """A network namespace of this machine, made with ip-netns(8); needs root there."""

    def __init__(self, name: str, journal: Journal | None = None) -> None:
        super().__init__(journal)
        self.name = name

    def command(self, argv: Sequence[str]) -> list[str]:
        """iproute2's own tools enter a namespace by themselves, which saves starting a process."""
        if option := ENTERS_NAMESPACE.get(argv[0]):
            return [argv[0], option, self.name, *argv[1:]]
        return ["ip", "netns", "exec", self.name, *argv]

    def read(self, path: str) -> str:
        """/proc shows this thread the namespace that it is in, but for what lies below self, which is the process."""
        with entered(self.name):
            return super().read(path.replace("/proc/net/", "/proc/thread-self/net/"))
