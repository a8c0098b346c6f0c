"""Reads how each core of a host has spent its time since the host started, from /proc/stat (proc_stat(5))."""

import re
from collections.abc import Sequence

from ccmix.hosts.output_text import output_lines

COMMAND: Sequence[str] = ("cat", "/proc/stat")
TICKS_PER_S = 100  # USER_HZ of every architecture that Linux supports, except Alpha

_RANGE = re.compile(r"(?P<first>\d{1,4})(?:-(?P<last>\d{1,4}))?", re.ASCII)
# Eight to ten times since Linux 2.6.11: a host that invents cores writes at least that much for each
_CORE = re.compile(r"cpu(?P<core>\d{1,4}) (?P<ticks>\d{1,20}(?: \d{1,20}){7,9})", re.ASCII)


def parse(text: str, cores: str | None) -> dict[int, list[float]]:
    """Returns per core the seconds spent in each of stream.format.CPU_TIMES.

    `cores` is a list as in '4-5' or '0,2-3', or a word for all of them that every() knows.
    """
    wanted = None if every(cores) else chosen_cores(cores or "")
    return {
        core: [int(ticks) / TICKS_PER_S for ticks in match["ticks"].split()]
        for line in output_lines(text)
        if (match := _CORE.match(line))
        for core in [int(match["core"])]
        if wanted is None or core in wanted
    }


def every(cores: str | None) -> bool:
    """Returns whether a list of cores, as mpstat takes it, means all that are online; None means all, too."""
    return cores is None or cores.upper().partition(",")[0] in ("ALL", "ON")


def chosen_cores(text: str) -> set[int]:
    """Returns the numbers in a list of cores: {0, 4, 5} for '0,4-5'. Raises ValueError."""
    cores: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise ValueError("is no list of cores: write for instance 0,4-5")
        cores.update(range(int(match["first"]), int(match["last"] or match["first"]) + 1))
    return cores
