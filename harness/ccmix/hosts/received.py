"""Cuts what comes from an agent into lines, and keeps apart what a login prints before the agent's first message."""

from collections.abc import Iterator

from ccmix.hosts.caps import LOGIN, MESSAGE, Cap
from ccmix.hosts.output_text import printable

BEGINNING = b'{"'  # of a message
LONGEST_LINE = 300  # characters of what is no message


class TooLong(Exception):
    """Reports that what has come exceeds a cap."""

    def __init__(self, cap: Cap) -> None:
        super().__init__(cap.what)
        self.cap = cap


class ReceivedLines:
    """Takes what comes in parts, and yields the lines of messages.

    `begun` says whether a message has come, and `no_message` is the last line before it.
    """

    def __init__(self) -> None:
        self.begun = False
        self.no_message = ""
        self._login_bytes = 0
        self._rest = bytearray()  # a line whose end has not come

    def take(self, part: memoryview) -> Iterator[bytearray]:
        """Yields the lines that are whole now. Raises TooLong."""
        for line in self._whole_lines(part):
            if self.begun or line.startswith(BEGINNING):
                self.begun = True
                _check(MESSAGE, len(line))
                yield line
            else:
                self._login_bytes += len(line) + 1
                self.no_message = printable(line[-LONGEST_LINE:].decode(errors="replace"))
        if not self.begun and not self._rest.startswith(BEGINNING):
            _check(LOGIN, self._login_bytes + len(self._rest))
        _check(MESSAGE, len(self._rest))

    def _whole_lines(self, part: memoryview) -> list[bytearray]:
        searched = len(self._rest)
        self._rest += part
        if self._rest.find(b"\n", searched) < 0:
            return []
        *lines, self._rest = self._rest.split(b"\n")
        return lines


def _check(cap: Cap, size: int) -> None:
    if size > cap.bytes:
        raise TooLong(cap)
