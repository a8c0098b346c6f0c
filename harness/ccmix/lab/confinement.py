"""Confines a guest's process on the host, by the program ccmix-confine (lab/confine).

Root in a guest can mount any folder of the host, so only a limit outside of the guest can stop it:
the guest's process can read and write only the folders that are listed here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ccmix.lab.host import launch_parent
from ccmix.lab.spec import GuestError, GuestSpec
from ccmix.tools import ToolError, find_confine

# The environment variable that demands a way of confinement: landlock, namespaces or none
WAY = "CCMIX_CONFINEMENT"
ROOT = Path("/")
NOT_CONFINED = "none"
_REPORT_BYTES = 4096


@dataclass(frozen=True)
class Reach:
    """Lists the folders that a guest's process may reach on the host, in addition to the guest's
    kernel and the files that this kernel needs.
    """

    read: tuple[Path, ...]
    write: tuple[Path, ...]


def reach(spec: GuestSpec, job_dir: Path, launch: Path, memory: Path) -> Reach:
    """Returns the folders of a guest. If the host's file system is the guest's root, the guest may
    read all of the host.
    """
    read = (ROOT,) if spec.userland is None else tuple(filter(None, (spec.userland, spec.code)))
    return Reach(read, write=(job_dir, launch, memory))


class WayReport:
    """Reads how ccmix-confine has confined a guest, from a pipe that the guest itself does not
    have.
    """

    def __enter__(self) -> WayReport:
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._closing = contextlib.ExitStack()
        self._closing.callback(os.close, self._ours)
        self._closing.callback(os.close, self.theirs)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def text(self) -> str:
        """Returns `landlock ABI`, `namespaces`, or `none: REASONS`, and the capabilities that root
        could not drop; empty if the guest was not started.
        """
        try:
            return os.read(self._ours, _REPORT_BYTES).decode().strip()
        except BlockingIOError:
            return ""


def command(reach: Reach, cpu: int, report: WayReport, argv: list[str]) -> list[str]:
    """Returns a command that executes `argv` confined, on one processor, and ends when this process
    ends.

    Raises GuestError("start") if ccmix-confine is missing.
    """
    way = os.environ.get(WAY)
    return [
        str(_program()),
        f"--parent={os.getpid()}",
        f"--processor={cpu}",
        f"--report={report.theirs}",
        *([f"--way={way}"] if way else []),
        *(f"--read={path}" for path in reach.read),
        *(f"--write={path}" for path in reach.write),
        "--",
        *argv,
    ]


def _program() -> Path:
    try:
        return find_confine()
    except ToolError as error:
        raise GuestError("start", str(error)) from error


def way_here() -> str:
    """Returns how guests of this process would be confined now, in the format of WayReport.text().
    Starts ccmix-confine without a guest. Raises GuestError("start") if it is missing or refuses.
    """
    with WayReport() as report:
        argv = command(
            Reach((ROOT,), ()), max(os.sched_getaffinity(0)), report, [str(_program()), "--help"]
        )
        done = subprocess.run(
            argv,
            cwd=launch_parent(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(report.theirs,),
            check=False,
        )
        if done.returncode != 0:
            raise GuestError("start", os.fsdecode(done.stderr).strip())
        return report.text()


def why_not_confined(way: str) -> str | None:
    """Returns the reasons why a guest is not confined; None if it is confined."""
    kind, _, reasons = way.partition(": ")
    return reasons if kind == NOT_CONFINED else None
