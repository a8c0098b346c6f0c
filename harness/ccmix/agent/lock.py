"""Locks a host for one campaign at a time, with an abstract unix socket as the lock.

The kernel frees the socket when its owner dies. The socket's name is the same for all users of a
network namespace. An agent that finds it taken connects and reads the owner's description, a JSON
object on one line. If the owner has lost its controller, the next agent of the same controller asks
it to leave, with a token that only the two know. The owner answers with LEAVING, and its
connections end when it and its commands have ended. Any user may take the name, or connect. So the
token is sent only to processes of the same user, and is accepted only from them.
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
    """Reports that another campaign is using the host. The message describes its owner."""


class HostLock:
    """Holds the lock of a host. Its `socket` and `connections` become readable when another agent
    asks for the lock.
    """

    def __init__(self, owner: HostOwner, token: str, tell: Callable[[str], None]) -> None:
        """Takes the lock. `owner` describes this campaign to agents that ask for the lock, and
        `token` identifies agents of the same controller. `tell` gets a sentence if the lock has to
        be waited for.

        Raises LockError if another campaign has the lock, after at most LEAVES_WITHIN_S.
        """
        self._line = (
            json.dumps({name: str(value)[:500] for name, value in owner.items()}).encode() + b"\n"
        )
        self._token = token.encode()
        self.socket = _wait_for_lock(self._token, tell)
        self.socket.setblocking(False)
        self.connections: list[socket.socket] = []

    def answer(self) -> socket.socket | None:
        """Accepts an agent that asks for the lock, and sends it the owner's description. Returns
        the connection, on which the agent may send the token; None if it has left or there are too
        many.
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
        """Returns whether the agent at the other end sent the right token, so that this agent must
        leave. If it did, the connection stays open until this process ends. Otherwise the
        connection is closed now.
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


def _wait_for_lock(token: bytes, tell: Callable[[str], None]) -> socket.socket:
    """Returns the socket that is the lock, after the former owner has left it. Raises LockError."""
    deadline = Deadline(LEAVES_WITHIN_S)
    has_told = False
    while True:
        lock_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lock_socket.bind(ADDRESS)
            lock_socket.listen()
        except OSError as error:
            lock_socket.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return lock_socket
        if deadline.expired:
            raise LockError(
                "the host is in use by another ccmix, which was ending but did not end within "
                f"{LEAVES_WITHIN_S:g} s"
            )
        if not has_told:
            tell(
                "another ccmix has the host, and may be ending its commands and undoing its changes"
            )
            has_told = True
        _ask_owner_to_leave(token, deadline)


def _ask_owner_to_leave(token: bytes, deadline: Deadline) -> None:
    """Asks the lock's owner to leave. It leaves if it has the same token, which only agents of the
    same controller have. Returns when the lock may be free. Raises LockError if the owner stays.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWERS_WITHIN_S)
        try:
            connection.connect(ADDRESS)
            line = _receive_line(connection, ANSWERS_WITHIN_S)
            if line is None:
                raise LockError(
                    "the host is in use by a ccmix that does not answer, or whose commands can't "
                    "be ended"
                )
            if not line:  # its last holder has ended
                return
            if not _is_of_this_user(
                connection
            ):  # so it is not an agent of this controller, and may want to steal the token
                raise LockError(_describe_owner(line))
            connection.send(token)
            if _receive_line(connection, LEAVES_OR_NOT_WITHIN_S) != LEAVING:
                raise LockError(_describe_owner(line))
            _receive_line(connection, deadline.remaining_s)
        except OSError:  # not yet listening, or freed meanwhile
            time.sleep(0.02)


def _is_of_this_user(connection: socket.socket) -> bool:
    """Returns whether the process at the other end runs as the same user, according to the kernel
    (SO_PEERCRED, unix(7)).
    """
    _, uid, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return bool(uid == os.geteuid())


def _receive_line(connection: socket.socket, timeout_s: float) -> bytes | None:
    """Returns the next line, which is empty if the other end has closed; None after the timeout."""
    if not select.select([connection], [], [], timeout_s)[0]:
        return None
    return connection.recv(LONGEST_LINE)


def _describe_owner(line: bytes) -> str:
    """Returns a sentence about the lock's owner, from the JSON that it has sent. It has only
    printable characters, because any user of the host may have written it.
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
