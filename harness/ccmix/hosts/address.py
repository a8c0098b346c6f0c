"""Reads the names of hosts: 'localhost', 'netns:NAME', or '[USER@]HOST' as OpenSSH takes it."""

import re
from dataclasses import dataclass
from enum import Enum

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
NAMESPACE_PREFIX = "netns:"
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_HOST = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9._:%-]*")  # a name, an alias, IPv4, IPv6 with its scope


class AddressKind(Enum):
    """Lists how a host is reached."""

    LOCAL = "local"
    NAMESPACE = "namespace"
    SSH = "ssh"


@dataclass(frozen=True)
class HostAddress:
    """Names a host by how it is reached; `host` is the namespace's name, or what OpenSSH is given."""

    kind: AddressKind
    host: str
    user: str | None = None

    def __str__(self) -> str:
        if self.kind is AddressKind.NAMESPACE:
            return NAMESPACE_PREFIX + self.host
        return f"{self.user}@{self.host}" if self.user else self.host


def parse_host(text: str, user: str | None = None) -> HostAddress:
    """Returns the host that a text names; `user` logs in to OpenSSH hosts that name no user. Raises ValueError.

    No text that passes is an option, or more than one argument, to OpenSSH, ip(8) or a shell.
    """
    if text in LOCAL_NAMES:
        return HostAddress(AddressKind.LOCAL, "localhost")
    if text.startswith(NAMESPACE_PREFIX):
        namespace = text.removeprefix(NAMESPACE_PREFIX)
        if not _NAMESPACE.fullmatch(namespace):
            raise ValueError(f"{text!r} names no network namespace: letters, digits, '.', '_' and '-' follow 'netns:'")
        return HostAddress(AddressKind.NAMESPACE, namespace)
    named_user, at, host = text.rpartition("@")
    if at:
        user = named_user
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if user is not None and not _USER.fullmatch(user):
        raise ValueError(
            f"{user!r} is no user's name: it has letters, digits, '.', '_' and '-', and does not begin with '-'"
        )
    if not _HOST.fullmatch(host):
        raise ValueError(
            f"{text!r} is no host: give 'localhost', 'netns:NAME', or '[USER@]HOST' with a name or an address"
        )
    return HostAddress(AddressKind.SSH, host, user)
