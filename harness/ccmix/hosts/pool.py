"""Keeps the hosts of a campaign: one agent on each, connected on demand, and again after a loss."""

import secrets
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from ccmix.hosts.address import HostAddress
from ccmix.hosts.agent_host import AgentHost
from ccmix.hosts.connect import connect
from ccmix.hosts.errors import CommandError, HostLost, HostUnreachable

WAITS_S = (1.0, 2.0)  # between attempts to connect

Result = TypeVar("Result")


class Hosts:
    """Connects to hosts for any number of threads. `owner` describes the campaign to others who want the same
    hosts; an onlooker locks no host.
    """

    def __init__(self, owner: str, silence_s: float = 60.0, onlooker: bool = False) -> None:
        self._owner = owner
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

    def get(self, address: HostAddress) -> AgentHost:
        """Returns the agent on a host. Raises ConnectError; HostLost after close() or abandon()."""
        with self._lock:
            connecting = self._connecting.setdefault(address, threading.Lock())
        with connecting:
            host = self._hosts.get(address)
            if host is None or host.lost:
                host = self._connect(address)
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

    def _connect(self, address: HostAddress) -> AgentHost:
        for wait_s in WAITS_S:
            if self._over.is_set():
                raise HostLost(str(address), "it was closed")
            try:
                return self._connect_once(address)
            except HostUnreachable:
                self._over.wait(wait_s)
        return self._connect_once(address)

    def _connect_once(self, address: HostAddress) -> AgentHost:
        return connect(address, self._owner, self._silence_s, self._token, self._onlooker)

    def _all(self, action: Callable[[AgentHost], Result]) -> Iterable[Result]:
        self._over.set()
        with self._lock:
            hosts = list(self._hosts.values())
        if not hosts:
            return []
        with ThreadPoolExecutor(len(hosts)) as threads:
            return list(threads.map(action, hosts))


def _close(host: AgentHost) -> CommandError | None:
    try:
        host.close()
    except CommandError as error:
        return error
    return None
