"""Chooses the addresses that the client connects from and to."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from .spec import Request

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class AddressError(Exception):
    """Reports hosts that have no addresses for each other."""


@dataclass(frozen=True)
class Route:
    """Holds numeric addresses of one family; `local` is None where the kernel is to choose."""

    remote: str
    local: str | None


def route(request: Request) -> Route:
    """Returns the addresses of a test's connections.

    The family is the one asked for, else the first in the resolver's order in which both sides have an address.
    The client binds to local-address, else to the source's address where that is one of this host's own. It is not
    behind an address translator, nor where the host's name is an alias of the loopback (Debian's 127.0.1.1).

    Raises AddressError.
    """
    remotes = _resolve(request.dest, request.ip_version)
    if request.flow_label is not None:
        remotes = [address for address in remotes if _version(address) == 6]
        if not remotes:
            raise AddressError(f"{request.dest} has no IPv6 address, which a flow-label needs")
    if request.local_address is not None:
        locals_ = _resolve(request.local_address, request.ip_version)
        for remote in remotes:
            for local in locals_:
                if _version(local) == _version(remote):
                    return Route(remote, local)
        raise AddressError(
            f"the local-address {request.local_address} ({', '.join(locals_)}) and {request.dest} "
            f"({', '.join(remotes)}) have no IP version in common"
        )
    if request.source is not None:
        for remote in remotes:
            for local in _resolve(request.source, request.ip_version, or_none=True):
                if _version(local) == _version(remote) and _is_for(local, remote):
                    return Route(remote, local)
    return Route(remotes[0], None)


def _resolve(name: str, version: int | None, *, or_none: bool = False) -> list[str]:
    family = _FAMILIES[version] if version is not None else socket.AF_UNSPEC
    try:
        records = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if or_none:
            return []
        of_version = f" in IPv{version}" if version is not None else ""
        raise AddressError(f"{name} has no address{of_version}: {error}") from None
    return list(dict.fromkeys(str(address[4][0]) for address in records))


def _version(address: str) -> int:
    return ipaddress.ip_address(address.partition("%")[0]).version


def _is_for(local: str, remote: str) -> bool:
    """Returns whether a connection to the remote address can come from the local one."""
    loopback = [ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in (local, remote)]
    if loopback[0] != loopback[1]:
        return False
    with socket.socket(_FAMILIES[_version(local)], socket.SOCK_STREAM) as probe:
        try:
            probe.bind((local, 0))
        except OSError:
            return False
    return True
