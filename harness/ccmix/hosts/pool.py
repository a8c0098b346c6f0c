"""Connects to the hosts of a campaign: starts ccmix's agent on each, and again after a loss.

If a host can't be used, the error says in one line why, and what to do.
"""

import getpass
import json
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self, TypeVar

from ccmix.agent.deadline import Deadline
from ccmix.hosts.address import AddressKind, HostAddress, agent_command, agent_source
from ccmix.hosts.agent_host import AgentHost
from ccmix.hosts.connection import Connection
from ccmix.hosts.errors import (
    CapExceeded,
    CommandError,
    ConnectError,
    HostLost,
    HostSilent,
    HostUnreachable,
    ProtocolBroken,
)
from ccmix.hosts.output_text import shortened

CONNECTS_WITHIN_S = 20.0  # to the agent's first message: its Python starts in a second
TELLS_AFTER_S = 5.0
WAITS_WITHIN_S = (
    120.0  # for an agent that reports that its predecessor is leaving, or that it carries out undos
)
SSH_FAILED = 255
NOT_FOUND = 127
# OpenSSH's errors if the network, or a server that starts or stops, is at fault.
NETWORK_ERRORS = (
    "could not resolve",
    "connection refused",
    "timed out",
    "no route to host",
    "unreachable",
    "connection reset",
    "connection closed",
    "broken pipe",
    "not responding",
)


def connect(
    address: HostAddress,
    owner: str,
    silence_s: float = 60.0,
    token: str | None = None,
    onlooker: bool = False,
    within_s: float = CONNECTS_WITHIN_S,
    tell: Callable[[str], object] = lambda _: None,
) -> AgentHost:
    """Starts an agent on the host for a campaign, which `owner` describes to other campaigns that
    want the host, and returns it once it has reported.

    Agent and controller (this process) treat each other as lost after a silence of `silence_s`.
    `token` identifies the agents of a campaign. If an earlier agent with this token still has the
    host, because it has not noticed yet that its connection was lost, it leaves at once. An
    `onlooker` takes no lock and undoes no old changes, because another campaign may be using the
    host. `tell` gets a sentence if this takes long.

    Raises ConnectError: HostUnreachable if the network is at fault, HostSilent if no agent answers
    within `within_s`.
    """
    first_message = {
        "owner": {
            "campaign": owner,
            "user": getpass.getuser(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        },
        "token": token or secrets.token_hex(16),
        "silence_s": silence_s,
        "onlooker": onlooker,
    }
    name = str(address)
    try:
        connection = Connection(
            name,
            agent_command(address),
            agent_source() + json.dumps(first_message).encode() + b"\n",
            silence_s,
        )
    except OSError as error:
        raise ConnectError(name, f"{error.filename or 'its agent'}: {error.strerror}") from error
    host = AgentHost(connection, is_this_machine=address.kind is not AddressKind.SSH)
    try:
        greeted = _wait_for_hello(host, within_s, tell)
    except (CapExceeded, ProtocolBroken) as error:
        raise ConnectError(name, f"there is no agent of ccmix: {error.reason}") from None
    except HostLost:
        raise _start_error(address, connection) from None
    if not greeted:
        host.abandon(0)
        raise HostSilent(name, _describe_silence(host, within_s))
    if host.refused:
        host.abandon()
        raise ConnectError(name, host.refused)
    if ("left" if onlooker else "restored") not in host.hello:
        host.abandon(0)
        raise ConnectError(name, "there is no agent of ccmix: it does not say what it has restored")
    return host


def _wait_for_hello(host: AgentHost, within_s: float, tell: Callable[[str], object]) -> bool:
    """Waits for the agent's first report, for longer if the agent says that it has to wait. Returns
    whether it has said hello, or has refused to serve. Raises HostLost.
    """

    def greeted() -> bool:
        return bool(host.hello or host.refused)

    def spoke() -> bool:
        return greeted() or host.waits is not None

    connection, deadline = host.connection, Deadline(within_s)
    if (
        not connection.wait_for(spoke, min(TELLS_AFTER_S, deadline.remaining_s))
        and not deadline.expired
    ):
        tell(
            f"{host.name}: no answer after {TELLS_AFTER_S:g} s; ccmix waits {within_s:g} s "
            "(connect-timeout)"
        )
        connection.wait_for(spoke, deadline.remaining_s)
    if host.waits is not None and not greeted():
        longest_s = max(WAITS_WITHIN_S, within_s)
        tell(f"{host.name}: {shortened(host.waits)}; ccmix waits up to {longest_s:g} s")
        return connection.wait_for(greeted, longest_s)
    return greeted()


def _describe_silence(host: AgentHost, within_s: float) -> str:
    """Returns why no agent answered in time, and what to do, for a HostSilent."""
    if host.waits is not None:
        return (
            f"its agent did not begin within {max(WAITS_WITHIN_S, within_s):g} s: "
            f"{shortened(host.waits)}"
        )
    return (
        f"it accepted the connection, but no agent answered within {within_s:g} s: "
        f"check that 'ssh {host.name} python3 --version' answers, or set a longer connect-timeout"
    )


def _start_error(address: HostAddress, connection: Connection) -> ConnectError:
    """Returns the error that says why no agent started, from what the process (such as ssh) has
    printed before it ended.
    """
    name, stderr_lines = str(address), connection.last_error_lines
    last_line = (
        stderr_lines[-1] if stderr_lines else f"it ended with status {connection.exit_status}"
    )
    if address.kind is AddressKind.SSH and connection.exit_status == SSH_FAILED:
        return _ssh_error(name, last_line, " ".join(stderr_lines).lower())
    if "its python3 is" in last_line:
        return ConnectError(
            name,
            f"{last_line.removeprefix('ccmix-agent: ')}: ccmix needs Python 3.9 or newer there",
        )
    if connection.exit_status == NOT_FOUND and "python3" in last_line:
        return ConnectError(
            name, f"no python3 there ({last_line}): ccmix needs Python 3.9 or newer"
        )
    if connection.no_message and not stderr_lines:
        last_line = f"it answered {connection.no_message!r}, but did not run python3"
    return ConnectError(name, f"ccmix's agent did not start: {last_line}")


def _ssh_error(name: str, last_line: str, lower_output: str) -> ConnectError:
    """Returns the error for ssh's exit with status 255. `last_line` is the last line of its
    standard error, `lower_output` all of it in lower case.
    """
    if "host key" in lower_output or "host identification" in lower_output:
        return ConnectError(
            name, f"{last_line} Look at its host key and accept it first: ssh {name}"
        )
    if "permission denied" in lower_output:
        return ConnectError(
            name,
            f"{last_line} ccmix can't enter a password: 'ssh {name}' must work with a key or an "
            "agent",
        )
    if any(phrase in lower_output for phrase in NETWORK_ERRORS):
        return HostUnreachable(name, last_line)
    return ConnectError(name, last_line)


WAITS_S = (1.0, 2.0)  # between attempts to connect
SILENT_S = (
    60.0,
    3600.0,
)  # between attempts at a host that hung after connecting: first, then doubled; maximum

Result = TypeVar("Result")


@dataclass(frozen=True)
class Silence:
    """Describes a host that accepted a connection and then hung. To save time, it is not tried
    before `next_attempt`, which is `waits_s` after the last one.
    """

    error: HostSilent
    waits_s: float
    next_attempt: Deadline


class Hosts:
    """Connects to hosts, for any number of threads, and keeps one connection to each.

    `owner` describes the campaign to other campaigns that want the same hosts. An onlooker locks no
    host. `tell` gets sentences about slow hosts.
    """

    def __init__(
        self,
        owner: str,
        silence_s: float = 60.0,
        onlooker: bool = False,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Connects to no host yet; get() does. `silence_s` is the silence after which a host and
        this process treat each other as lost.
        """
        self._owner = owner
        self._tell = tell
        self._silent: dict[HostAddress, Silence] = {}
        self._onlooker = onlooker
        self._silence_s = silence_s
        self._token = secrets.token_hex(16)
        self._hosts: dict[HostAddress, AgentHost] = {}
        self._connecting: dict[HostAddress, threading.Lock] = {}
        self._lock = threading.Lock()
        self._is_closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, address: HostAddress, within_s: float = CONNECTS_WITHIN_S) -> AgentHost:
        """Returns the agent on a host, and starts it if there is none or its connection was lost.

        Raises ConnectError if no agent can be started. It is a HostSilent if the host does not
        answer within `within_s`, and comes at once if the host did not answer a while ago. Raises
        HostLost after close() or abandon().
        """
        with self._lock:
            connecting = self._connecting.setdefault(address, threading.Lock())
        with connecting:
            host = self._hosts.get(address)
            if host is None or host.lost:
                host = self._connect_unless_silent(address, within_s)
                with self._lock:
                    self._hosts[address] = host
            if self._is_closed.is_set():
                host.abandon()
                raise HostLost(str(address), "it was closed")
            return host

    def close(self) -> None:
        """Tells all agents at the same time to leave, and waits for them. Raises CommandError if
        one could not undo everything.
        """
        errors = [error for error in self._at_all_hosts(_close) if error]
        if errors:
            raise errors[0]

    def abandon(self) -> bool:
        """Cuts all connections, from any thread. Returns whether all agents have ended their
        commands and undone their changes in time.
        """
        return all(self._at_all_hosts(AgentHost.abandon))

    def _connect_unless_silent(self, address: HostAddress, within_s: float) -> AgentHost:
        """Connects to a host, unless it hung a while ago: then it raises HostSilent at once."""
        silent = self._silent.get(address)
        if silent and not silent.next_attempt.expired:
            raise HostSilent(
                str(address),
                f"{silent.error.reason}; it is not tried again before "
                f"{silent.next_attempt.remaining_s:.0f} s have passed",
            )
        try:
            host = self._connect_patiently(address, within_s)
        except HostSilent as error:
            waits_s = next_wait_s(silent.waits_s if silent else None)
            self._silent[address] = Silence(error, waits_s, Deadline(waits_s))
            raise
        self._silent.pop(address, None)
        return host

    def _connect_patiently(self, address: HostAddress, within_s: float) -> AgentHost:
        """Connects, and tries again twice if the network did not reach the host. Tries a host that
        hangs only once.
        """
        for wait_s in WAITS_S:
            if self._is_closed.is_set():
                raise HostLost(str(address), "it was closed")
            try:
                return self._connect_once(address, within_s)
            except HostSilent:
                raise
            except HostUnreachable:
                self._is_closed.wait(wait_s)
        return self._connect_once(address, within_s)

    def _connect_once(self, address: HostAddress, within_s: float) -> AgentHost:
        """Connects with the settings of all hosts."""
        return connect(
            address,
            self._owner,
            self._silence_s,
            self._token,
            self._onlooker,
            within_s=within_s,
            tell=self._tell,
        )

    def _at_all_hosts(self, action: Callable[[AgentHost], Result]) -> Iterable[Result]:
        """Lets no more connections be made, and carries out the action on all connected hosts at
        the same time.
        """
        self._is_closed.set()
        with self._lock:
            hosts = list(self._hosts.values())
        if not hosts:
            return []
        with ThreadPoolExecutor(len(hosts)) as threads:
            return list(threads.map(action, hosts))


def next_wait_s(former_s: float | None) -> float:
    """Returns for how long a host that hung is not tried again: at first 60 s, and twice as long
    each time that it hangs again, up to an hour. `former_s` is the time of the last wait; None if
    the host hung for the first time.
    """
    first_s, most_s = SILENT_S
    return first_s if former_s is None else min(2 * former_s, most_s)


def _close(host: AgentHost) -> CommandError | None:
    """Closes a host; returns the error instead of raising it, so that the other hosts are closed,
    too.
    """
    try:
        host.close()
    except CommandError as error:
        return error
    return None
