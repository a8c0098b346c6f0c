"""Checks what other campaigns do on a host, and what those that died have left there."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ccmix.agent.lock import ADDRESS
from ccmix.doctor.findings import DoctorFinding, Status, line, problem

LOCK = ADDRESS.replace("\0", "@")  # as /proc/net/unix writes an abstract name
SOCKETS = "/proc/net/unix"


def judge_journals(left: Sequence[str], hosts: Sequence[str] = ()) -> Iterator[DoctorFinding]:
    """Judges journals; `left` is what runs that died have left changed, on this machine or on the one of `hosts`."""
    if not left:
        yield DoctorFinding("left by dead runs", Status.OK, "nothing")
        return
    yield DoctorFinding(
        "left by dead runs", Status.WARN, f"{len(left)} changes: {'; '.join(left)}",
        "The host is not as its administrator set it up; the next run would put it back first.",
        (line("ccmix", "restore", *hosts),), root=False,
    )  # fmt: skip


def read_sockets() -> str:
    """Returns the unix sockets of this machine, or of its namespace. Raises OSError."""
    return Path(SOCKETS).read_text(errors="replace")


def judge_lock(sockets: str, needed: bool) -> Iterator[DoctorFinding]:
    """Judges the lock of campaigns; `sockets` is /proc/net/unix. Raises ValueError."""
    lines = sockets.splitlines()
    if not lines or "Path" not in lines[0]:
        raise ValueError("the kernel does not list its sockets")
    if any(row.split()[-1:] == [LOCK] for row in lines[1:]):
        yield DoctorFinding(
            "other campaigns", problem(needed), "another campaign runs here now",
            "Two campaigns at a time would disturb each other, so ccmix refuses the second: wait for the first.",
        )  # fmt: skip
    else:
        yield DoctorFinding("other campaigns", Status.OK, "none")
