"""Tests the second process of an import."""

import os
import signal
import time

import pytest

from ccmix.archive import ArchiveError
from ccmix.importing.beside import beside


def test_what_the_work_raises_is_raised() -> None:
    def archive_error() -> None:
        raise ArchiveError("run.json: is no run")

    def unicode_error() -> None:
        b"\xff".decode()

    def os_error() -> None:
        raise PermissionError(13, "Permission denied", "run.json")

    for work, kind, says in (
        (archive_error, ArchiveError, "run.json: is no run"),
        (unicode_error, ArchiveError, "invalid start byte"),
        (os_error, PermissionError, "Permission denied"),
    ):
        with pytest.raises(kind, match=says), beside(work):
            pass


def test_ctrl_c_ends_it_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    """A terminal sends SIGINT to both processes."""
    reads, writes = os.pipe()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.write(writes, b"goes on")
        time.sleep(60)

    def interrupted() -> None:
        with beside(work):
            os.close(writes)  # so that nothing comes where the work has ended
            assert os.read(reads, 7) == b"goes on"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    os.close(reads)
    assert capfd.readouterr().err == ""
