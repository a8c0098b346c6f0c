"""Limits which folders of the host a guest's process can reach, by the program ccmix-confine.

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
    """Lists the folders of the host that a guest's process may read and write, in addition to the
    guest's kernel and the files that this kernel needs.
    """

    read: tuple[Path, ...]
    write: tuple[Path, ...]


def reach_of_guest(spec: GuestSpec, job_dir: Path, launch: Path, memory: Path) -> Reach:
    """Returns the folders that a guest may reach. It may read all of the host if the host's file
    system is its root. `launch` is its launch folder, `memory` the folder of its memory file.
    """
    read = (ROOT,) if spec.userland is None else tuple(filter(None, (spec.userland, spec.code)))
    return Reach(read, write=(job_dir, launch, memory))


class WayReport:
    """Reads from a pipe how ccmix-confine has confined a guest. The guest itself does not get the
    pipe, so it can't lie.
    """

    def __enter__(self) -> WayReport:
        """Makes the pipe; ccmix-confine gets the end `theirs`."""
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._closing = contextlib.ExitStack()
        self._closing.callback(os.close, self._ours)
        self._closing.callback(os.close, self.theirs)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def text(self) -> str:
        """Returns how the guest was confined, `landlock ABI`, `namespaces`, or `none: REASONS`, and
        the capabilities that root could not drop; '' if the guest was not started.
        """
        try:
            return os.read(self._ours, _REPORT_BYTES).decode().strip()
        except BlockingIOError:
            return ""


def command(reach: Reach, cpu: int, report: WayReport, argv: list[str]) -> list[str]:
    """Returns the command that runs `argv` confined to these folders, on the processor `cpu`, until
    this process ends.

    Raises GuestError("start") if ccmix-confine is missing.
    """
    way = os.environ.get(WAY)
    return [
        str(_find_program()),
        f"--parent={os.getpid()}",
        f"--processor={cpu}",
        f"--report={report.theirs}",
        *([f"--way={way}"] if way else []),
        *(f"--read={path}" for path in reach.read),
        *(f"--write={path}" for path in reach.write),
        "--",
        *argv,
    ]


def _find_program() -> Path:
    """Returns the path of ccmix-confine. Raises GuestError("start") if it is missing."""
    try:
        return find_confine()
    except ToolError as error:
        raise GuestError("start", str(error)) from error


def confinement_way() -> str:
    """Returns how guests of this process would be confined now, such as 'namespaces'
    (WayReport.text() has all values). To find out, starts ccmix-confine without a guest. Raises
    GuestError("start") if ccmix-confine is missing or refuses.
    """
    with WayReport() as report:
        argv = command(
            Reach((ROOT,), ()),
            max(os.sched_getaffinity(0)),
            report,
            [str(_find_program()), "--help"],
        )
        completed = subprocess.run(
            argv,
            cwd=launch_parent(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(report.theirs,),
            check=False,
        )
        if completed.returncode != 0:
            raise GuestError("start", os.fsdecode(completed.stderr).strip())
        return report.text()


def why_not_confined(way: str) -> str | None:
    """Returns the reasons why a guest is not confined; None if it is confined. `way` is the report
    of ccmix-confine, such as 'landlock 3', 'namespaces' or 'none: REASONS'.
    """
    kind, _, reasons = way.partition(": ")
    return reasons if kind == NOT_CONFINED else None
