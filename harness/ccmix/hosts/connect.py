"""Starts an agent on a host and connects to it, or says in one line why there is none and what to do."""

import getpass
import json
import os
import secrets
import socket
from collections.abc import Callable
from datetime import UTC, datetime

from ccmix.agent.deadline import Deadline
from ccmix.hosts.address import AddressKind, HostAddress
from ccmix.hosts.agent_host import AgentHost
from ccmix.hosts.connection import Connection
from ccmix.hosts.errors import CapExceeded, ConnectError, HostLost, HostSilent, HostUnreachable, ProtocolBroken
from ccmix.hosts.launch import agent_command, agent_source
from ccmix.hosts.output_text import shortened

CONNECTS_WITHIN_S = 20.0  # to the agent's first message: its Python starts in a second
TELLS_AFTER_S = 5.0
WAITS_WITHIN_S = 120.0  # for an agent that says that one before it is leaving, or that it carries out undos
SSH_FAILED = 255
NOT_FOUND = 127
# OpenSSH's errors when the network, or a server that starts or stops, is at fault.
NETWORK_ERRORS = (
    "could not resolve", "connection refused", "timed out", "no route to host", "unreachable", "connection reset",
    "connection closed", "broken pipe", "not responding",
)  # fmt: skip


def connect(
    address: HostAddress, owner: str, silence_s: float = 60.0, token: str | None = None, onlooker: bool = False,
    within_s: float = CONNECTS_WITHIN_S, tell: Callable[[str], object] = lambda _: None,
) -> AgentHost:  # fmt: skip
    """Returns an agent on the host, for the campaign that `owner` describes. Raises ConnectError, HostUnreachable if
    the network is at fault, HostSilent if no agent answers within `within_s`. `tell` gets a sentence when that lasts.

    Agent and controller take each other for lost after `silence_s`. An agent that was given the same token, and that
    does not know yet that its connection was lost, leaves at once. An onlooker takes no lock, and undoes nothing that
    was left: others may have the host meanwhile.
    """
    first = {
        "owner": {
            "campaign": owner, "user": getpass.getuser(), "host": socket.gethostname(), "pid": os.getpid(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        },
        "token": token or secrets.token_hex(16),
        "silence_s": silence_s,
        "onlooker": onlooker,
    }  # fmt: skip
    name = str(address)
    try:
        connection = Connection(
            name, agent_command(address), agent_source() + json.dumps(first).encode() + b"\n", silence_s
        )
    except OSError as error:
        raise ConnectError(name, f"{error.filename or 'its agent'}: {error.strerror}") from error
    host = AgentHost(connection, is_this_machine=address.kind is not AddressKind.SSH)
    try:
        greeted = _wait_for_hello(host, within_s, tell)
    except (CapExceeded, ProtocolBroken) as error:
        raise ConnectError(name, f"there is no agent of ccmix: {error.reason}") from None
    except HostLost:
        raise _failure(address, connection) from None
    if not greeted:
        host.abandon(0)
        raise HostSilent(name, _silence(host, within_s))
    if host.refused:
        host.abandon()
        raise ConnectError(name, host.refused)
    if ("left" if onlooker else "restored") not in host.hello:
        host.abandon(0)
        raise ConnectError(name, "there is no agent of ccmix: it does not say what it has restored")
    return host


def _wait_for_hello(host: AgentHost, within_s: float, tell: Callable[[str], object]) -> bool:
    """Returns whether the agent has said hello, or refused to serve. Raises HostLost."""

    def greeted() -> bool:
        return bool(host.hello or host.refused)

    def spoke() -> bool:
        return greeted() or host.waits is not None

    connection, first = host.connection, Deadline(within_s)
    if not connection.wait_for(spoke, min(TELLS_AFTER_S, first.remaining_s)) and not first.expired:
        tell(f"{host.name}: no answer after {TELLS_AFTER_S:g} s; ccmix waits {within_s:g} s (connect-timeout)")
        connection.wait_for(spoke, first.remaining_s)
    if host.waits is not None and not greeted():
        longest_s = max(WAITS_WITHIN_S, within_s)
        tell(f"{host.name}: {shortened(host.waits)}; ccmix waits up to {longest_s:g} s")
        return connection.wait_for(greeted, longest_s)
    return greeted()


def _silence(host: AgentHost, within_s: float) -> str:
    if host.waits is not None:
        return f"its agent did not begin within {max(WAITS_WITHIN_S, within_s):g} s: {shortened(host.waits)}"
    return (
        f"it took the connection, and no agent answered within {within_s:g} s: look whether 'ssh {host.name} python3 "
        "--version' answers; connect-timeout sets another time"
    )


def _failure(address: HostAddress, connection: Connection) -> ConnectError:
    """Returns why there is no agent; the connection has ended before an agent answered."""
    name, stderr_lines = str(address), connection.last_error_lines
    last_line = stderr_lines[-1] if stderr_lines else f"it ended with status {connection.exit_status}"
    if address.kind is AddressKind.SSH and connection.exit_status == SSH_FAILED:
        return _ssh_failure(name, last_line, " ".join(stderr_lines).lower())
    if "its python3 is" in last_line:
        return ConnectError(name, f"{last_line.removeprefix('ccmix-agent: ')}: ccmix needs Python 3.9 or newer there")
    if connection.exit_status == NOT_FOUND and "python3" in last_line:
        return ConnectError(name, f"no python3 there ({last_line}): ccmix needs Python 3.9 or newer")
    if connection.no_message and not stderr_lines:
        last_line = f"it answered {connection.no_message!r}, and did not run python3"
    return ConnectError(name, f"ccmix's agent did not start: {last_line}")


def _ssh_failure(name: str, last: str, everything: str) -> ConnectError:
    """Returns the error that OpenSSH reported; `everything` is its whole output in lower case."""
    if "host key" in everything or "host identification" in everything:
        return ConnectError(name, f"{last} Look at its host key and accept it first: ssh {name}")
    if "permission denied" in everything:
        return ConnectError(name, f"{last} ccmix can't enter a password: 'ssh {name}' must work with a key or an agent")
    if any(phrase in everything for phrase in NETWORK_ERRORS):
        return HostUnreachable(name, last)
    return ConnectError(name, last)
