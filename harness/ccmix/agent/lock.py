"""Allows one campaign at a time on a host, with an abstract unix socket, which the kernel frees
when its owner dies.

The socket's name is the same for all users of a network namespace. An agent that finds it taken
connects and reads the owner's description, a JSON object on one line. If the owner has lost its
controller, the next agent of the same controller asks it to leave, with a token that only the two
know. The owner answers with LEAVING, and its connections end when it and its commands have ended.
Any user may take the name, or connect. So the token is sent only to processes of the same user, and
is accepted only from them.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import struct
import time
from typing import TYPE_CHECKING

from ccmix.agent.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable

    from ccmix.agent.messages import HostOwner

ADDRESS = "\0ccmix-host"
ANSWERS_WITHIN_S = (
    15.0  # not at once: a dead agent's keepers hold the lock while they end its commands
)
LEAVES_OR_NOT_WITHIN_S = 2.0  # the second answer of an agent that has given its first
LEAVES_WITHIN_S = (
    45.0  # an agent that was asked to leave: its commands end, and its changes are undone
)
LEAVING = b"leaving\n"
MOST_CONNECTIONS = 16
LONGEST_LINE = 4096
OWNER = ("campaign", "user", "host", "pid", "since")  # of the controller


class LockError(Exception):
    """Reports that another campaign is using the host; the sentence names it."""


class HostLock:
    """Holds the lock. Its `socket` and `connections` are readable when another agent asks for
    it.
    """

    def __init__(self, owner: HostOwner, token: str, tell: Callable[[str], None]) -> None:
        """Takes the lock; reports in a sentence if it has to wait for it. Raises LockError, within
        LEAVES_WITHIN_S or sooner.
        """
        self._line = (
            json.dumps({name: str(value)[:500] for name, value in owner.items()}).encode() + b"\n"
        )
        self._token = token.encode()
        self.socket = _take(self._token, tell)
        self.socket.setblocking(False)
        self.connections: list[socket.socket] = []

    def answer(self) -> socket.socket | None:
        """Sends a caller the name of the owner; returns the connection on which the caller may send
        the token, or None.
        """
        try:
            connection, _ = self.socket.accept()
        except OSError:
            return None  # gone again
        connection.setblocking(False)
        try:
            connection.send(self._line)
        except OSError:
            connection.close()
            return None
        if len(self.connections) >= MOST_CONNECTIONS:
            connection.close()
            return None
        self.connections.append(connection)
        return connection

    def is_asked_to_leave(self, connection: socket.socket) -> bool:
        """Returns whether a caller knew the token. If so, its connection ends with this process,
        otherwise now.
        """
        try:
            received = connection.recv(LONGEST_LINE)
        except OSError:
            received = b""
        if received and received == self._token and _is_of_this_user(connection):
            connection.send(LEAVING)
            return True
        self.connections.remove(connection)
        connection.close()
        return False


def _take(token: bytes, tell: Callable[[str], None]) -> socket.socket:
    deadline = Deadline(LEAVES_WITHIN_S)
    waits = False
    while True:
        taken = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            taken.bind(ADDRESS)
            taken.listen()
        except OSError as error:
            taken.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return taken
        if deadline.expired:
            raise LockError("the host is in use by a ccmix that has not left in time")
        if not waits:
            tell(
                "another ccmix has the host, and may be ending its commands and undoing its changes"
            )
            waits = True
        _ask(token, deadline)


def _ask(token: bytes, deadline: Deadline) -> None:
    """Asks the owner to leave; returns when the lock may be free. Raises LockError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(ANSWERS_WITHIN_S)
        try:
            asking.connect(ADDRESS)
            line = _answer(asking, ANSWERS_WITHIN_S)
            if line is None:
                raise LockError(
                    "the host is in use by a ccmix that does not answer, or whose commands can't "
                    "be ended"
                )
            if not line:  # its last holder has ended
                return
            if not _is_of_this_user(
                asking
            ):  # so it is not an agent of this controller, and may want to steal the token
                raise LockError(_sentence(line))
            asking.send(token)
            if _answer(asking, LEAVES_OR_NOT_WITHIN_S) != LEAVING:
                raise LockError(_sentence(line))
            _answer(asking, deadline.remaining_s)
        except OSError:  # not yet listening, or freed meanwhile
            time.sleep(0.02)


def _is_of_this_user(connection: socket.socket) -> bool:
    """Returns whether the process at the other end runs as the same user, according to the kernel
    (unix(7)).
    """
    _, uid, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return bool(uid == os.geteuid())


def _answer(asking: socket.socket, timeout_s: float) -> bytes | None:
    """Returns a line, which is empty if the other end is closed; None after the timeout."""
    if not select.select([asking], [], [], timeout_s)[0]:
        return None
    return asking.recv(LONGEST_LINE)


def _sentence(line: bytes) -> str:
    """Returns the lock's owner as a sentence, in printable characters only, because any user of the
    host may have written the line.
    """
    try:
        owner = dict(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return "the host is in use by a program that does not speak ccmix's protocol"
    printable = {
        name: "".join(filter(str.isprintable, str(owner.get(name, "?")))) for name in OWNER
    }
    return (
        "the host is in use by {campaign}, of {user} on {host} (pid {pid}), since {since}".format(
            **printable
        )
    )
