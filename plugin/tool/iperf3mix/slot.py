"""The time of a run: how long a slot is asked for, and what happens until when within it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from .spec import Request

# Starting: clocks of two hosts that differ, the start of both processes, a refused first connection.
STARTING_S = 2.0
# Ending: what iperf3 has still to read, and the writing of the result, before pScheduler collects it.
ENDING_S = 2.0
# The results must be written before the slot ends: then the lead participant collects, and the runner kills.
WRITING_S = 0.5
# Round trips of an iperf3 test besides one for each stream's connection: the control connection, cookie, parameters,
# creation and exchange of streams, start; end, results (which may take two), good-bye. tests/plugin count them.
ROUND_TRIPS = 10


def needed_s(request: Request) -> float:
    """How long a slot the test needs, in seconds."""
    handshake_s = (ROUND_TRIPS + request.streams) * request.link_rtt_s
    return STARTING_S + handshake_s + request.traffic_s + ENDING_S


@dataclass(frozen=True)
class Slot:
    """A run's slot: when it starts and ends, in seconds since 1970."""

    start: float
    end: float

    @property
    def stop(self) -> float:
        """When whatever still runs is ended, so that the result is written in time."""
        return self.end - WRITING_S

    def last_start(self, request: Request) -> float:
        """When a test that starts can just end in time, at best."""
        return self.stop - request.traffic_s

    def wait_for_start(self) -> None:
        while (left := self.start - time.time()) > 0:
            time.sleep(min(left, 1.0))  # in steps, as the clock may be set meanwhile
