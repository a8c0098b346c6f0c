"""Decides when a run may begin: within its time window, and while its entry's budget of bytes lasts."""

import datetime
from dataclasses import dataclass, field

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

    def add(self, entry: str, ended_s: float, sent_bytes: int) -> None:
        self._sent.append((entry, ended_s, sent_bytes))

    def refusal(self, run: Run, now_s: float) -> str | None:
        """Returns why the run must not begin: with what it is expected to send, the entry would exceed its budget.

        Expected is the most that a run of the entry has sent so far; before the first one, what its pacing allows.
        """
        budget = run.host_path.rate_budget
        if budget is None:
            return None
        most_bytes, period_s = budget
        of_entry = [(ended_s, sent) for entry, ended_s, sent in self._sent if entry == run.entry]
        paced_bytes = (run.traffic.pacing_bps or 0.0) * (run.traffic.streams or 0) * (run.seconds or 0.0) / 8
        expected = max((sent for _, sent in of_entry), default=paced_bytes)
        within = sum(sent for ended_s, sent in of_entry if ended_s > now_s - period_s)
        if within + expected <= most_bytes:
            return None
        return (
            f"rate-budget: {format_bytes(within)} were sent in the period and a run sends {format_bytes(expected)}: "
            f"together more than {format_bytes(most_bytes)}"
        )
