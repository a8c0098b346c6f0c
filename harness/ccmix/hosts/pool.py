"""Keeps the hosts of a campaign: one agent on each, connected on demand, and again after a loss."""

import secrets
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from ccmix.agent.deadline import Deadline
from ccmix.hosts.address import HostAddress
from ccmix.hosts.agent_host import AgentHost
from ccmix.hosts.connect import CONNECTS_WITHIN_S, connect
from ccmix.hosts.errors import CommandError, HostLost, HostSilent, HostUnreachable

WAITS_S = (1.0, 2.0)  # between attempts to connect
SILENT_S = (60.0, 3600.0)  # between attempts at a host that hung after connecting: at first, then doubled; at most

Result = TypeVar("Result")


@dataclass(frozen=True)
class Silence:
    """Describes a host that took a connection and hung; nobody waits for it before `again`."""

    error: HostSilent
    waits_s: float
    again: Deadline


class Hosts:
    """Connects to hosts for any number of threads. `owner` describes the campaign to others who want the same
    hosts; an onlooker locks no host. `tell` gets sentences about hosts that let one wait.
    """

    def __init__(
        self,
        owner: str,
        silence_s: float = 60.0,
        onlooker: bool = False,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._owner = owner
        self._tell = tell
        self._silent: dict[HostAddress, Silence] = {}
        self._onlooker = onlooker
        self._silence_s = silence_s
        self._token = secrets.token_hex(16)
        self._hosts: dict[HostAddress, AgentHost] = {}
        self._connecting: dict[HostAddress, threading.Lock] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def get(self, address: HostAddress, within_s: float = CONNECTS_WITHIN_S) -> AgentHost:
        """Returns the agent on a host. Raises ConnectError, HostSilent if it does not answer within `within_s`, and at
        once where it did not a while ago; HostLost after close() or abandon().
        """
        with self._lock:
            connecting = self._connecting.setdefault(address, threading.Lock())
        with connecting:
            host = self._hosts.get(address)
            if host is None or host.lost:
                host = self._connect(address, within_s)
                with self._lock:
                    self._hosts[address] = host
            if self._over.is_set():
                host.abandon()
                raise HostLost(str(address), "it was closed")
            return host

    def close(self) -> None:
        """Lets all agents leave at the same time, and waits for them. Raises CommandError if one could not."""
        errors = [error for error in self._all(_close) if error]
        if errors:
            raise errors[0]

    def abandon(self) -> bool:
        """Cuts all connections, from any thread; returns whether all agents have ended and undone everything in
        time.
        """
        return all(self._all(AgentHost.abandon))

    def _connect(self, address: HostAddress, within_s: float) -> AgentHost:
        silent = self._silent.get(address)
        if silent and not silent.again.expired:
            raise HostSilent(
                str(address),
                f"{silent.error.reason}; it is not tried again before {silent.again.remaining_s:.0f} s have passed",
            )
        try:
            host = self._connect_patiently(address, within_s)
        except HostSilent as error:
            waits_s = distance_s(silent.waits_s if silent else None)
            self._silent[address] = Silence(error, waits_s, Deadline(waits_s))
            raise
        self._silent.pop(address, None)
        return host

    def _connect_patiently(self, address: HostAddress, within_s: float) -> AgentHost:
        """Connects, and tries again where the network did not reach the host; one that hangs is tried once."""
        for wait_s in WAITS_S:
            if self._over.is_set():
                raise HostLost(str(address), "it was closed")
            try:
                return self._connect_once(address, within_s)
            except HostSilent:
                raise
            except HostUnreachable:
                self._over.wait(wait_s)
        return self._connect_once(address, within_s)

    def _connect_once(self, address: HostAddress, within_s: float) -> AgentHost:
        return connect(
            address, self._owner, self._silence_s, self._token, self._onlooker, within_s=within_s, tell=self._tell
        )  # fmt: skip

    def _all(self, action: Callable[[AgentHost], Result]) -> Iterable[Result]:
        self._over.set()
        with self._lock:
            hosts = list(self._hosts.values())
        if not hosts:
            return []
        with ThreadPoolExecutor(len(hosts)) as threads:
            return list(threads.map(action, hosts))


def distance_s(former_s: float | None) -> float:
    """Returns how long a host is left alone that hung once more, or for the first time (None)."""
    first_s, most_s = SILENT_S
    return first_s if former_s is None else min(2 * former_s, most_s)


def _close(host: AgentHost) -> CommandError | None:
    try:
        host.close()
    except CommandError as error:
        return error
    return None
