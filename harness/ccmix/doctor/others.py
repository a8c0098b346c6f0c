"""What other campaigns do on a host, and what those that died have left there."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from ccmix.agent.lock import ADDRESS
from ccmix.doctor.findings import Finding, Status, line, problem

LOCK = ADDRESS.replace("\0", "@")  # as /proc/net/unix writes an abstract name
SOCKETS = "/proc/net/unix"


def judge_journals(left: Sequence[str], hosts: Sequence[str] = ()) -> Iterator[Finding]:
    """`left`: what runs that died have left changed, on this machine or on the one of `hosts`."""
    if not left:
        yield Finding("left by dead runs", Status.OK, "nothing")
        return
    yield Finding(
        "left by dead runs", Status.WARN, f"{len(left)} changes: {'; '.join(left)}",
        "The host is not as its administrator set it up; the next run would put it back first.",
        (line("ccmix", "restore", *hosts),), root=False,
    )  # fmt: skip


def read_sockets() -> str:
    """The unix sockets of this machine, or of its namespace. Raises OSError."""
    return Path(SOCKETS).read_text(errors="replace")


def judge_lock(sockets: str, needed: bool) -> Iterator[Finding]:
    """`sockets`: /proc/net/unix. Raises ValueError."""
    lines = sockets.splitlines()
    if not lines or "Path" not in lines[0]:
        raise ValueError("the kernel does not list its sockets")
    if any(one.split()[-1:] == [LOCK] for one in lines[1:]):
        yield Finding(
            "other campaigns", problem(needed), "one runs here now",
            "Two at a time would disturb each other, so a second one is refused: wait for it.",
        )  # fmt: skip
    else:
        yield Finding("other campaigns", Status.OK, "none")
