"""Names of hosts and devices. They end up in command lines, so only what can be such a name is taken.

Stricter than ccmix.hosts.address, which reads the names again to connect: an address goes into the user's shell lines.
"""

import ipaddress
import re

from ccmix.config.problems import quoted
from ccmix.config.values import Kind
from ccmix.hosts.address import LOCAL_NAMES, NAMESPACE_PREFIX, parse_host

LOCAL = "localhost"
MOST_ALIAS = 80  # bytes, since it is a folder's name
_LABELS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?", re.ASCII)
MOST_NAME = 253  # characters
_LOGIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}", re.ASCII)  # IFNAMSIZ, with its end
_ALIAS = re.compile(r"\w[\w .:%@+-]*")
_HOST_EXAMPLES = "write a name or an address, such as dtn.example.org or 2001:db8::1"


def read_address(text: str) -> str:
    """Reads an IP address or a host's name."""
    numeric = text.rpartition(".")[2].isdecimal()  # resolvers take it for IPv4, with surprises in 10.1 or 010.0.0.1
    if ":" in text or numeric:
        try:
            address, _, zone = text.partition("%")
            ipaddress.ip_address(address)
        except ValueError:
            raise ValueError(f"is no IP address: {_HOST_EXAMPLES}") from None
        if "%" in text and not (":" in address and _DEVICE.fullmatch(zone)):
            raise ValueError(f"has no device after %: {_HOST_EXAMPLES}")
    elif len(text) > MOST_NAME or not _LABELS.fullmatch(text):
        raise ValueError(f"is no host: {_HOST_EXAMPLES}")
    return text


def read_user(text: str) -> str:
    if not _LOGIN.fullmatch(text):
        raise ValueError("is no login: write letters, digits and . _ -, such as dtn")
    return text


def read_destination(text: str) -> tuple[str | None, str]:
    """Reads '[USER@]ADDRESS' and returns both parts."""
    user, at, address = text.rpartition("@")
    return (read_user(user) if at else None), read_address(address)


def read_host(text: str) -> str:
    """Reads where commands run: 'localhost' (also by its addresses), 'netns:NAME' or '[USER@]HOST'."""
    if text in LOCAL_NAMES:
        return LOCAL
    if text.startswith(NAMESPACE_PREFIX):
        if not _PLAIN.fullmatch(text.removeprefix(NAMESPACE_PREFIX)):
            raise ValueError("names no network namespace: write netns:NAME, of letters, digits and . _ -")
        return text
    read_destination(text)
    return text


def with_user(host: str, user: str | None) -> str:
    """Returns a host as read_host() does, with the login where it is a name for ssh that has none."""
    return str(parse_host(host, user))


def read_device(text: str) -> str:
    if not _DEVICE.fullmatch(text):
        raise ValueError(f"has {quoted(text)}, which is no network device: write its name, such as eth2")
    return text


def read_alias(text: str) -> str:
    if len(text.encode()) > MOST_ALIAS or not _ALIAS.fullmatch(text):
        raise ValueError(f"is no alias: write up to {MOST_ALIAS} letters, digits, blanks and . _ : % @ + -")
    return text


ADDRESS = Kind("host", "", read_destination)
HOST = Kind("host, localhost or netns:NAME", "", read_host)
USER = Kind("login", "", read_user)
ALIAS = Kind("text", "", read_alias)
