"""Divides the time of a run: how long a slot the tool asks for, and what must end when."""

from __future__ import annotations

import time
from dataclasses import dataclass

from .spec import Request

# Time to start: the clocks of the two hosts differ, both processes start, the first connection may be refused.
STARTING_S = 2.0
# Time to end: iperf3 reads what is still under way, and the tool writes the result before pScheduler collects it.
ENDING_S = 2.0
# The results must be written before the slot ends: then the lead participant collects, and the runner kills.
WRITING_S = 0.5
# Round trips of an iperf3 test besides one for each stream's connection: the control connection, cookie, parameters,
# creation and exchange of streams, start; end, results (which may take two), good-bye. tests/plugin count them.
ROUND_TRIPS = 10


def needed_s(request: Request) -> float:
    """Returns the length of the slot that the test needs, in seconds."""
    handshake_s = (ROUND_TRIPS + request.streams) * request.link_rtt_s
    return STARTING_S + handshake_s + request.traffic_s + ENDING_S


@dataclass(frozen=True)
class RunSlot:
    """Holds when a run's slot starts and ends, in seconds since 1970."""

    start: float
    end: float

    @property
    def stop(self) -> float:
        """Returns when the tool ends iperf3, so that it can write the result in time."""
        return self.end - WRITING_S

    def last_start(self, request: Request) -> float:
        """Returns the latest start of a test that can still end in time."""
        return self.stop - request.traffic_s

    def wait_for_start(self) -> None:
        while (left := self.start - time.time()) > 0:
            time.sleep(min(left, 1.0))  # in steps, as the clock may be set meanwhile
