"""Measures time limits. It is here because all may import it, and the agent imports nothing of ccmix but itself."""

import time

_SOON_S = 0.001


class Deadline:
    """Describes a moment of the monotonic clock, by which something is to have happened."""

    def __init__(self, seconds: float) -> None:
        """Sets the moment that is so many seconds from now; they may be negative."""
        self._seconds = seconds
        self._moment_s = 0.0
        self.restart()

    def restart(self) -> None:
        """Sets the moment anew, as many seconds from now as at first."""
        self._moment_s = time.monotonic() + self._seconds

    def plus(self, seconds: float) -> "Deadline":
        """Returns the deadline that comes so many seconds after this one."""
        later = Deadline(self._seconds + seconds)
        later._moment_s = self._moment_s + seconds
        return later

    @property
    def remaining_s(self) -> float:
        """Returns the seconds until then, and 0 after it: what select, sleep and wait take."""
        return max(0.0, self._moment_s - time.monotonic())

    @property
    def socket_timeout_s(self) -> float:
        """Returns the seconds until then as socket.settimeout takes them, for which 0 means not to wait at all."""
        return self.remaining_s or _SOON_S

    @property
    def expired(self) -> bool:
        return time.monotonic() >= self._moment_s

    def allows(self, seconds: float) -> bool:
        """Returns whether something that takes so long would end in time."""
        return time.monotonic() + seconds <= self._moment_s
