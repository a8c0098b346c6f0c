"""Confines a guest's process on the host, by the program ccmix-confine (lab/confine).

Root in a guest can mount any folder of the host, so what keeps it in must be outside: the guest's process can read and
write the folders that are listed here, and no others.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ccmix.lab.errors import GuestError
from ccmix.lab.host import launch_parent
from ccmix.lab.spec import GuestSpec
from ccmix.tools import ToolError, find_confine

WAY = "CCMIX_CONFINEMENT"  # landlock, namespaces or none: a variable for those who want one way, or none
ROOT = Path("/")
NOT_CONFINED = "none"
_REPORT_BYTES = 4096


@dataclass(frozen=True)
class Reach:
    """Lists what a guest's process may reach on the host, besides the guest's kernel and what that needs of it."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]


def reach(spec: GuestSpec, job_dir: Path, launch: Path, memory: Path) -> Reach:
    """Returns the folders of a guest: of a root of its own, or all of the host where that is its root."""
    read = (ROOT,) if spec.userland is None else tuple(filter(None, (spec.userland, spec.code)))
    return Reach(read, write=(job_dir, launch, memory))


class WayReport:
    """Reads in which way ccmix-confine has confined a guest: a pipe, which the guest itself does not have."""

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
        """Returns `landlock ABI`, `namespaces`, or `none: REASONS`, and which capabilities root could not drop; nothing
        if the guest was not started.
        """
        try:
            return os.read(self._ours, _REPORT_BYTES).decode().strip()
        except BlockingIOError:
            return ""


def command(reach: Reach, cpu: int, report: WayReport, argv: list[str]) -> list[str]:
    """Returns the command that becomes `argv`, confined, on one processor, and ending with this process.

    Raises GuestError("start") without the program.
    """
    way = os.environ.get(WAY)
    return [
        str(_program()), f"--parent={os.getpid()}", f"--processor={cpu}", f"--report={report.theirs}",
        *([f"--way={way}"] if way else []),
        *(f"--read={path}" for path in reach.read), *(f"--write={path}" for path in reach.write),
        "--", *argv,
    ]  # fmt: skip


def _program() -> Path:
    try:
        return find_confine()
    except ToolError as error:
        raise GuestError("start", str(error)) from error


def way_here() -> str:
    """Returns in which way guests of this process would be confined now, as WayReport.text() does: by a start without a
    guest. Raises GuestError("start") where the program is missing or refuses.
    """
    with WayReport() as report:
        argv = command(Reach((ROOT,), ()), max(os.sched_getaffinity(0)), report, [str(_program()), "--help"])
        done = subprocess.run(
            argv, cwd=launch_parent(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            pass_fds=(report.theirs,), check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise GuestError("start", os.fsdecode(done.stderr).strip())
        return report.text()


def why_not_confined(way: str) -> str | None:
    """Returns the reasons for which a guest is not confined; None if it is."""
    kind, _, reasons = way.partition(": ")
    return reasons if kind == NOT_CONFINED else None
