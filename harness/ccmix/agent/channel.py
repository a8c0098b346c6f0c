"""Exchanges JSON lines with the controller (the ccmix that drives this agent), without blocking."""

from __future__ import annotations

import json
import os
import select
from typing import TYPE_CHECKING, cast

from ccmix.agent.deadline import Deadline
from ccmix.agent.messages import LONGEST_MESSAGE, MOST_RECEIVED

if TYPE_CHECKING:
    from ccmix.agent.messages import AgentMessage, CommandMessage, ControllerMessage

FULL_BYTES = 2**20  # maximum to be sent before outputs of commands are no longer read
READ_BYTES = 2**18


class ChannelEnded(Exception):
    """Reports that the controller has closed its end, or has died."""


class Channel:
    """Represents the agent's end of the connection to its controller.

    Sending on an ended channel does nothing, so that the agent can still end its commands and undo
    its changes.
    """

    def __init__(self, receives: int, sends: int) -> None:
        """Takes the descriptors for receiving and sending, usually standard input and output."""
        self.receives = receives
        self.sends = sends
        os.set_blocking(receives, False)
        os.set_blocking(sends, False)
        self._received = bytearray()
        self._unsent = bytearray()
        self._searched_bytes = 0
        self.ended = False

    @property
    def unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def full(self) -> bool:
        """Returns whether so much is unsent that the agent should not read more output of its
        commands.
        """
        return len(self._unsent) > FULL_BYTES

    def receive(self) -> list[ControllerMessage]:
        """Returns the messages that have arrived completely. Raises ChannelEnded, and ValueError if
        they do not follow the protocol.
        """
        try:
            data = os.read(self.receives, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise ChannelEnded(str(error)) from error
        if not data:
            raise ChannelEnded("the controller has closed the channel")
        self._received += data
        end = self._received.rfind(b"\n", self._searched_bytes)
        self._searched_bytes = len(self._received)
        if end < 0:
            if len(self._received) > MOST_RECEIVED:
                raise ValueError(f"more than {MOST_RECEIVED} bytes without an end")
            return []
        lines = bytes(self._received[:end]).split(b"\n")
        del self._received[: end + 1]
        self._searched_bytes = len(self._received)
        return [_parse_message(line) for line in lines]

    def send(self, message: AgentMessage | CommandMessage) -> None:
        """Queues a message, and sends as much of the queue as is possible without waiting."""
        if not self.ended:
            self._unsent += json.dumps(_limit_reply(message)).encode() + b"\n"
            self.flush()

    def flush(self) -> None:
        """Sends as much of the queue as is possible without waiting."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self.sends, self._unsent[:READ_BYTES])]
        except BlockingIOError:
            return
        except OSError:
            self.ended = True
            self._unsent.clear()

    def flush_all(self, timeout_s: float) -> None:
        """Sends the whole queue. It waits for the controller to read, but at most `timeout_s`."""
        deadline = Deadline(timeout_s)
        while self._unsent and not deadline.expired:
            select.select([], [self.sends], [], 0.1)
            self.flush()


def _parse_message(line: bytes) -> ControllerMessage:
    """Returns the message in a line of JSON. Raises ValueError."""
    try:
        message = json.loads(line)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(message, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004
    return cast("ControllerMessage", message)


def _limit_reply(message: AgentMessage | CommandMessage) -> AgentMessage | CommandMessage:
    """Returns the message. If the message is a reply that is too long for the controller, returns
    an error reply to the same request instead.
    """
    if "reply" in message and len(json.dumps(message)) >= LONGEST_MESSAGE:
        error = f"its answer is longer than {LONGEST_MESSAGE} bytes"
        return cast(
            "AgentMessage", {"reply": cast("AgentMessage", message)["reply"], "error": error}
        )
    return message
