"""Decides which runs are started a second time: those that take far longer than others, when nothing else is left."""

import statistics
import time
from dataclasses import dataclass, field

TIMES_AS_LONG = 3.0  # as a run of its length is expected to take
AT_LEAST_S = 10.0  # so that no short run is started twice for a moment's load
LEAST_FINISHED = 3  # runs by which the others are expected


@dataclass
class Flight:
    """Describes a run that was submitted and has not come back."""

    traffic_s: float
    since_s: float | None = None  # when it began, or should have


@dataclass
class Pace:
    """Knows how long runs take for each second of their traffic, by those that have finished."""

    _rates: list[float] = field(default_factory=list)

    def add(self, traffic_s: float, took_s: float) -> None:
        if traffic_s > 0:
            self._rates.append(took_s / traffic_s)

    def stragglers(self, flights: dict[str, Flight], threads: int) -> list[str]:
        """Returns the keys of the runs that take far longer than expected; none while runs wait for a thread.

        A run that has not reported its begin counts from the first call at which a thread was free for it.
        """
        if len(flights) > threads or len(self._rates) < LEAST_FINISHED:
            return []
        now_s, rate = time.monotonic(), statistics.median(self._rates)
        late = []
        for key, flight in flights.items():
            if flight.since_s is None:
                flight.since_s = now_s  # a thread is free for it
            elif now_s - flight.since_s > max(AT_LEAST_S, TIMES_AS_LONG * rate * flight.traffic_s):
                late.append(key)
        return late
