"""Defines what can go wrong with a guest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Reason = Literal["panic", "hang", "out of memory", "start", "links"]


class GuestError(Exception):
    """Reports that a guest did not run its command to the end.

    `reason`: "start" (it never reached the command), "panic" (its kernel died, or was killed), "hang" (nothing grew for
    `stall_seconds`), "out of memory" (in the guest), "links" (it left what is neither file nor folder).
    `last_lines`: the last lines that it printed.
    """

    def __init__(self, reason: Reason, message: str, last_lines: Iterable[str] = ()) -> None:
        self.reason: Reason = reason
        self.last_lines = tuple(last_lines)
        super().__init__("\n".join([message, *(f"  {line}" for line in self.last_lines)]))
