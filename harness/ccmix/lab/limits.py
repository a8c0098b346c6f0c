"""Reads the limits of this process: processors, and the memory and processes that control groups
still allow, for example those of a container. Linux counts threads as processes there.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))  # of Docker; of podman
GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
OWN_PROCESSES = 48  # threads of this process while it makes tables
GUEST_PROCESSES = 16  # of a guest; most guests have 6


def inside_container() -> bool:
    """Returns whether this process is in a container.

    Docker and podman leave a file, systemd-nspawn and others set a variable.
    """
    return any(mark.exists() for mark in MARKS) or "container" in os.environ


def memory_left_bytes() -> int | None:
    """Returns how much more memory the control groups allow; None without such a limit. The cache
    of files does not count as used, because the kernel can free it.
    """
    version_2 = _left("memory", "memory.max", "memory.current", ("active_file", "inactive_file"))
    version_1 = _left(
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    )
    return min([*version_2, *version_1], default=None)


def processes_left() -> int | None:
    """Returns how many more processes the control groups allow; None without such a limit."""
    return min(_left("pids", "pids.max", "pids.current"), default=None)


def processors() -> int:
    """Returns how many processors this process may use: by its affinity, and by the share of
    processor time that the control groups allow, rounded up.
    """
    shares = []
    for folder in _groups("cpu"):
        version_2 = _text(folder / "cpu.max").split()
        version_1 = [_text(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        quota, period = version_2 or version_1
        if quota.isdigit():
            shares.append(math.ceil(int(quota) / int(period)))
    return min([len(os.sched_getaffinity(0)), *shares])


def guests_at_a_time() -> int:
    """Returns how many guests run at the same time by default: one on each processor, or fewer if
    the control groups do not allow the processes of so many.
    """
    most = processors()
    if (left := processes_left()) is not None:
        most = min(most, (left - OWN_PROCESSES) // GUEST_PROCESSES)
    return max(1, most)


def _groups(controller: str) -> Iterator[Path]:
    """Yields the folders of the control groups of this process, from its own group upwards.

    A container may see the host's names of groups, but only its own group, as the top folder.
    """
    for line in _text(OWN_GROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            top = GROUPS / controller if controllers else GROUPS  # version 1 or 2
            own = top / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(top))


def _left(
    controller: str, limit_file: str, used_file: str, not_used: tuple[str, ...] = ()
) -> list[int]:
    """Returns the limit of each group that has one, less what is used of it.

    `not_used` are the lines of the group's memory.stat that the used memory includes wrongly.
    """
    left = []
    for folder in _groups(controller):
        limit, used = _text(folder / limit_file), _text(folder / used_file)
        if limit.isdigit():
            lines = map(str.split, _text(folder / "memory.stat").splitlines())
            freed = sum(int(size) for name, size in lines if name in not_used)
            left.append(max(0, int(limit) - int(used) + freed))
    return left


def _text(file: Path) -> str:
    """Returns the text of a file of the kernel, without the end of its line; '' without the
    file.
    """
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
