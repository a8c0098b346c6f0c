"""Tests a guest on a terminal: what is typed is done, and the terminal is afterwards as it was."""

from __future__ import annotations

import os
import pty
import subprocess
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support.commands import CCMIX, run_program

pytestmark = pytest.mark.lab

WAIT_S = 60.0
SIZE = (37, 91)


@dataclass
class Terminal:
    """Runs `ccmix lab shell` on a terminal of its own."""

    process: subprocess.Popen[bytes]
    ours: int
    theirs: int
    seen: str = ""

    def type(self, line: str) -> None:
        os.write(self.ours, f"{line}\n".encode())

    def wait_for(self, words: str) -> None:
        """Reads on until the text has come since the last wait."""
        end = time.monotonic() + WAIT_S
        os.set_blocking(self.ours, False)
        while words not in self.seen:
            assert time.monotonic() < end, f"{words!r} did not come: {self.seen!r}"
            try:
                self.seen += os.read(self.ours, 4096).decode(errors="replace")
            except BlockingIOError:
                time.sleep(0.05)
        self.seen = self.seen.partition(words)[2]


@pytest.fixture
def shell(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """Starts the shell with the options that `parametrize` gives the test, if any."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, SIZE)
    argv = [CCMIX, "lab", "shell", *getattr(request, "param", ())]
    process = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    yield Terminal(process, ours, theirs)
    process.kill()
    process.wait()
    os.close(ours)
    os.close(theirs)


def test_a_shell_and_its_exit_status(shell: Terminal) -> None:
    before = termios.tcgetattr(shell.theirs)
    shell.wait_for("lab# ")
    shell.type("echo $((6 * 7)) on $(hostname)")
    shell.wait_for("42 on lab")
    shell.type("stty size")
    shell.wait_for("{} {}".format(*SIZE))
    shell.type("sleep 1000")
    time.sleep(1)
    shell.type("\x03")  # which interrupts the sleep, not ccmix
    shell.wait_for("lab# ")
    shell.type("exit 7")
    assert shell.process.wait(WAIT_S) == 7
    assert termios.tcgetattr(shell.theirs) == before


@pytest.mark.parametrize("shell", [("--virtual-time",)], indirect=True)
def test_virtual_time(shell: Terminal) -> None:
    shell.wait_for("lab# ")
    begin = time.monotonic()
    shell.type("sleep 1000; echo woke u''p")
    shell.wait_for("woke up")
    assert time.monotonic() - begin < WAIT_S


def test_a_shell_without_a_terminal_says_so() -> None:
    done = run_program([CCMIX, "lab", "shell"], stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert "terminal" in done.stderr
