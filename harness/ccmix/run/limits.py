"""Decides when a run may begin: within its time window, and while its entry's budget of bytes lasts."""

import datetime
from dataclasses import dataclass, field

from ccmix.generators.most_sent import most_sent_bytes
from ccmix.model import Run
from ccmix.units import format_bytes

DAY_S = 86400.0


def seconds_until_open(window: tuple[float, float], lasts_s: float, now: datetime.datetime) -> float:
    """Returns how long to wait until a run of `lasts_s` fits into the daily window, given in seconds after midnight
    UTC.

    Returns 0 if it fits now. A run that is longer than the window may begin at its opening.
    """
    begin, end = window
    midnight = now.astimezone(datetime.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    second = (now - midnight).total_seconds()
    length = (end - begin) % DAY_S or DAY_S
    since_opening = (second - begin) % DAY_S
    if since_opening + min(lasts_s, length) <= length:
        return 0.0
    return DAY_S - since_opening


def latest_end_s(window: tuple[float, float], now_s: float) -> float:
    """Returns when the daily window closes that is open now, in seconds since the epoch."""
    begin, end = window
    length = (end - begin) % DAY_S or DAY_S
    return now_s + length - (now_s - begin) % DAY_S


@dataclass
class Budget:
    """Counts what the entries have sent, so that none sends more in a period than its rate-budget allows."""

    _sent: list[tuple[str, float, int]] = field(default_factory=list)  # entry, when it ended, bytes
    _most: dict[str, float] = field(default_factory=dict)  # by entry, the bytes that a run may send after those so far

    def add(self, entry: str, ended_s: float, sent_bytes: int, stretched: float = 1.0) -> None:
        """Adds a run, which the next one may take `stretched` times as long as."""
        self._sent.append((entry, ended_s, sent_bytes))
        self._most[entry] = max(self._most.get(entry, 0.0), sent_bytes * stretched)

    def refusal(self, run: Run, now_s: float) -> str | None:
        """Returns why the run must not begin: with what it is expected to send, the entry would exceed its budget.

        Expected is the most that a run of the entry has sent so far, or would have sent until its limit if it was ended
        since it had settled; before the first one, the most that it can send. pScheduler's run, and the steps that
        measure a path, are not ended when they exceed the budget, so the most that they can send is expected of each.
        """
        budget = run.host_path.rate_budget
        if budget is None:
            return None
        most_bytes, _ = budget
        unending = run.traffic.task or run.traffic.steps
        within, bound = self._sent_within(run, now_s), most_sent_bytes(run.host_path, run.traffic) or 0.0
        expected = max(self._most.get(run.entry, 0.0), bound) if unending else self._most.get(run.entry, bound)
        if within < most_bytes and within + expected <= most_bytes:
            return None
        return (
            f"rate-budget: {format_bytes(within)} were sent in the period and a run sends {format_bytes(expected)}: "
            f"together more than {format_bytes(most_bytes)}"
        )

    def cap_bytes(self, run: Run, now_s: float) -> int | None:
        """Returns after how many bytes the run must end; None where it can't send more than is left of its budget."""
        budget = run.host_path.rate_budget
        if budget is None:
            return None
        left = budget[0] - self._sent_within(run, now_s)
        bound = most_sent_bytes(run.host_path, run.traffic)
        return None if bound is not None and bound <= left else int(left)

    def _sent_within(self, run: Run, now_s: float) -> int:
        """Returns what the run's entry has sent in the period of its budget."""
        assert run.host_path.rate_budget
        since_s = now_s - run.host_path.rate_budget[1]
        return sum(sent for entry, ended_s, sent in self._sent if entry == run.entry and ended_s > since_s)
