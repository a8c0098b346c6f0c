"""Calculates when runs may begin (time windows, budgets of bytes), and when the last one ends."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field

from ccmix.analysis.cost import makespan_s, run_seconds, slowdown
from ccmix.generators.pscheduler.task import most_sent_bytes
from ccmix.model import HostPath, Run
from ccmix.units import format_bytes

DAY_S = 86400.0


def seconds_until_open(
    window: tuple[float, float], lasts_s: float, now: datetime.datetime
) -> float:
    """Returns how many seconds to wait until a run that lasts `lasts_s` fits into the daily time
    window; 0 if it fits now. A run that is longer than the window may only begin when the window
    opens.

    window: its begin and end in seconds after midnight UTC; a window may span midnight
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
    """Returns when the daily time window closes, which is open at the time `now_s`. Both times are
    in seconds since the epoch. `window` has its begin and end in seconds after midnight UTC.
    """
    begin, end = window
    length = (end - begin) % DAY_S or DAY_S
    return now_s + length - (now_s - begin) % DAY_S


@dataclass
class Budget:
    """Counts the bytes that the runs of each entry have sent, so that no entry exceeds its
    rate-budget: the bytes that it may send within a period, such as 1 GB in 24 h.
    """

    _sent: list[tuple[str, float, int]] = field(default_factory=list)  # entry, when it ended, bytes
    # by entry, the bytes that a run may send in addition to those so far
    _most: dict[str, float] = field(default_factory=dict)

    def add(self, entry: str, ended_s: float, sent_bytes: int, stretched: float = 1.0) -> None:
        """Counts a run of an entry: it has sent `sent_bytes`, and ended at `ended_s` (seconds since
        the epoch). If it ended early, the entry's next run may take up to `stretched` times as
        long, and so send as many times more.
        """
        self._sent.append((entry, ended_s, sent_bytes))
        self._most[entry] = max(self._most.get(entry, 0.0), sent_bytes * stretched)

    def refusal(self, run: Run, now_s: float) -> str | None:
        """Returns the reason why a run must not begin now: with the bytes that it is expected to
        send, its entry would exceed its budget. None if it may begin.

        The expected bytes are the maximum of the entry's runs so far. A run that ended early
        because its goodput no longer changed counts with its maximum duration. Before the entry's
        first run, the expected bytes are the maximum that it can send. Runs of pScheduler and the
        steps that measure a path are expected to send at least this maximum, because they do not
        end when the budget is used up.
        """
        budget = run.host_path.rate_budget
        if budget is None:
            return None
        most_bytes, _ = budget
        ignores_budget = run.traffic.task or run.traffic.steps
        sent_so_far, most_of_run = (
            self._sent_within(run, now_s),
            most_sent_bytes(run.host_path, run.traffic) or 0.0,
        )
        expected_bytes = (
            max(self._most.get(run.entry, 0.0), most_of_run)
            if ignores_budget
            else self._most.get(run.entry, most_of_run)
        )
        if sent_so_far < most_bytes and sent_so_far + expected_bytes <= most_bytes:
            return None
        return (
            f"rate-budget: {format_bytes(sent_so_far)} were sent in the period, and a run is "
            f"expected to send {format_bytes(expected_bytes)}: "
            f"together more than the budget of {format_bytes(most_bytes)}"
        )

    def cap_bytes(self, run: Run, now_s: float) -> int | None:
        """Returns the number of bytes after which a run that begins now must be ended: what is left
        of its entry's budget. None if the entry has no budget, or if the run can't send as much.
        """
        budget = run.host_path.rate_budget
        if budget is None:
            return None
        left = budget[0] - self._sent_within(run, now_s)
        bound = most_sent_bytes(run.host_path, run.traffic)
        return None if bound is not None and bound <= left else int(left)

    def _sent_within(self, run: Run, now_s: float) -> int:
        """Returns how many bytes the run's entry has sent in the period of its budget that ends
        now, such as the last 24 h.
        """
        assert run.host_path.rate_budget
        since_s = now_s - run.host_path.rate_budget[1]
        return sum(
            sent for entry, ended_s, sent in self._sent if entry == run.entry and ended_s > since_s
        )


MOST_PLACED = 1000  # runs; with more, their assignment to processors changes hardly anything


class ExpectedEnd:
    """Estimates how long the remaining runs of a campaign will take, for a progress bar. It is told
    when runs start and end. Times are in seconds of any clock, but always of the same one.

    The number of simultaneous runs is observed, because it is not known on a cluster. A run of
    unknown length counts as the mean of the others.
    """

    def __init__(self, runs: Sequence[Run], in_lab: bool) -> None:
        """Prepares the estimate for the runs that are still to be made. With `in_lab`, they are
        made in guests, whose virtual time is slower or faster than real time.
        """
        known = {run.name: run_seconds(run, in_lab) for run in runs}
        seconds = [each for each in known.values() if each is not None]
        self._mean_s = sum(seconds) / len(seconds) if seconds else 1.0
        self._left = {name: self._mean_s if each is None else each for name, each in known.items()}
        self._pauses_s = {
            run.name: run.path.pause_s for run in runs if isinstance(run.path, HostPath)
        }
        self._begun: dict[str, float] = {}
        self._places = 1
        self._expected_s = self._took_s = 0.0

    def expected_s(self, run: Run) -> float:
        """Returns how many seconds a run that has not ended should take according to its entry. How
        long finished runs have really taken is not considered here.
        """
        return self._left[run.name]

    def started(self, run: Run, now_s: float) -> None:
        """Notes that a run has started. The maximum number of runs at the same time is remembered
        for the estimate.
        """
        self._begun[run.name] = now_s
        self._places = max(self._places, len(self._begun))

    def ended(self, run: Run, now_s: float, *, finished: bool) -> None:
        """Notes that a run has ended. If it has finished (it was not skipped and did not fail), its
        time is used to correct the estimates of the other runs.
        """
        expected_s, began_s = self._left.pop(run.name), self._begun.pop(run.name, None)
        if finished and began_s is not None:
            self._expected_s += expected_s
            self._took_s += now_s - began_s

    def left_s(self, now_s: float) -> float:
        """Returns the seconds until the last run ends. Each run's estimate is multiplied by a
        correction:

        correction = time that the finished runs have taken / time that they were expected to take

        The mean estimate of a run counts as one more finished run, so that the first runs do not
        change the correction too much.
        """
        prior_s = self._mean_s if self._left else 0.0
        took_s = self._took_s + prior_s * slowdown(self._places)
        times = took_s / (self._expected_s + prior_s) if self._expected_s + prior_s else 1.0
        busy = [
            max(0.0, self._left[name] * times - (now_s - began_s))
            for name, began_s in self._begun.items()
        ]
        waiting = {name: each for name, each in self._left.items() if name not in self._begun}
        waiting_s = (
            expected_s * times + self._pauses_s.get(name, 0.0)
            for name, expected_s in waiting.items()
        )
        if len(waiting) > MOST_PLACED:
            return (sum(busy) + sum(waiting_s)) / self._places
        return makespan_s(waiting_s, self._places, busy)
