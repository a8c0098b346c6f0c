"""What the processors of a host did: /proc/stat, sampled, to shares per core (proc_stat(5))."""

import re
from collections.abc import Iterator, Sequence

from ccmix.probes.sampler import Sample

COMMAND: Sequence[str] = ("cat", "/proc/stat")
SHARES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")  # in the order of /proc/stat

_RANGE = re.compile(r"(?P<first>\d{1,4})(?:-(?P<last>\d{1,4}))?", re.ASCII)
_CORE = re.compile(r"cpu(?P<core>\d+) (?P<jiffies>[\d ]+)")


def read(samples: Sequence[Sample], cores: str | None) -> Iterator[dict[str, float]]:
    """Per interval between two samples and core: time_s (its end), core, and the share of each of SHARES.

    `cores`: as in '4-5' or '0,2-3'; 'ALL' or None is each of them.
    """
    wanted = None if cores is None or cores.upper() == "ALL" else chosen_cores(cores)
    before: dict[int, list[int]] = {}
    for sample in samples:
        now = {
            int(match["core"]): [int(value) for value in match["jiffies"].split()[: len(SHARES)]]
            for line in sample.output.splitlines()
            if (match := _CORE.match(line))
        }
        for core, jiffies in now.items():
            spent = [new - old for new, old in zip(jiffies, before.get(core, jiffies), strict=True)]
            if (total := sum(spent)) > 0 and (wanted is None or core in wanted):
                shares = {name: part / total for name, part in zip(SHARES, spent, strict=True)}
                yield {"time_s": sample.time_s, "core": core, **shares}
        before = now


def chosen_cores(text: str) -> set[int]:
    """'0,4-5' to {0, 4, 5}. Raises ValueError."""
    cores: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise ValueError("is no list of cores: write for instance 0,4-5")
        cores.update(range(int(match["first"]), int(match["last"] or match["first"]) + 1))
    return cores
