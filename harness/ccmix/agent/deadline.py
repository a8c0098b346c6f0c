"""Measures time limits by the monotonic clock.

It is in the agent's package because the agent imports nothing else of ccmix.
"""

import time

_SOON_S = 0.001


class Deadline:
    """Represents a moment of the monotonic clock by which something must have happened."""

    def __init__(self, seconds: float) -> None:
        """Sets the moment to this number of seconds from now, which may be negative."""
        self._seconds = seconds
        self._moment_s = 0.0
        self.restart()

    def restart(self) -> None:
        """Sets the moment again, to the original number of seconds from now."""
        self._moment_s = time.monotonic() + self._seconds

    def plus(self, seconds: float) -> "Deadline":
        """Returns the deadline that comes this number of seconds after this one."""
        later = Deadline(self._seconds + seconds)
        later._moment_s = self._moment_s + seconds
        return later

    @property
    def remaining_s(self) -> float:
        """Returns the seconds until the deadline, and 0 after it, as select, sleep and wait take
        them.
        """
        return max(0.0, self._moment_s - time.monotonic())

    @property
    def socket_timeout_s(self) -> float:
        """Returns the seconds until the deadline for socket.settimeout(). After it, they are a
        millisecond, because 0 would make the socket non-blocking.
        """
        return self.remaining_s or _SOON_S

    @property
    def expired(self) -> bool:
        return time.monotonic() >= self._moment_s

    def allows(self, seconds: float) -> bool:
        """Returns whether something that takes `seconds` would end before the deadline."""
        return time.monotonic() + seconds <= self._moment_s
