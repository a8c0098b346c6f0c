"""Reads the names of hosts, and builds the command that starts ccmix's agent on each.

A name is 'localhost', 'netns:NAME' for a network namespace, or '[USER@]HOST' as for OpenSSH. The
agent is a Python program that runs commands on the host for ccmix.
"""

import functools
import io
import os
import re
import shlex
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import ccmix
from ccmix.isolated import python_command

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
NAMESPACE_PREFIX = "netns:"
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_HOST = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9._:%-]*")  # a name, an alias, IPv4, IPv6 with its scope


# the variable that names a configuration file for OpenSSH, which replaces the user's own
SSH_CONFIG = "CCMIX_SSH_CONFIG"

# One line without quotes of the other kind, since any login shell may read it. A buffer of one byte
# leaves all data after the source to the agent; zipimport accepts a file in memory by its name in
# /proc.
_BOOTSTRAP = (
    "import io,os,sys;"
    'sys.version_info<(3,9)and sys.exit("ccmix-agent: its python3 is %d.%d"%sys.version_info[:2]);'
    'zip=os.memfd_create("ccmix");'
    "os.write(zip,io.BufferedReader(io.FileIO(0,closefd=False),1).read({size}));"
    'sys.path.insert(0,"/proc/self/fd/%d"%zip);'
    "from ccmix.agent.service import main;main()"
)


class AddressKind(Enum):
    """Lists the ways to reach a host."""

    LOCAL = "local"
    NAMESPACE = "namespace"
    SSH = "ssh"


@dataclass(frozen=True)
class HostAddress:
    """Names a host by the way to reach it. `host` is the namespace's name or OpenSSH's name for the
    host; `user` is the login for OpenSSH, None for OpenSSH's own default.
    """

    kind: AddressKind
    host: str
    user: str | None = None

    def __str__(self) -> str:
        if self.kind is AddressKind.NAMESPACE:
            return NAMESPACE_PREFIX + self.host
        return f"{self.user}@{self.host}" if self.user else self.host


def parse_host(text: str, user: str | None = None) -> HostAddress:
    """Returns the host that a user's text names. `user` is the login for an OpenSSH host whose text
    has none. Raises ValueError.

    A text that is accepted is safe as an argument of ssh(1), ip(8) and a shell: it is never taken
    for an option or for several arguments.
    """
    if text in LOCAL_NAMES:
        return HostAddress(AddressKind.LOCAL, "localhost")
    if text.startswith(NAMESPACE_PREFIX):
        namespace = text.removeprefix(NAMESPACE_PREFIX)
        if not _NAMESPACE.fullmatch(namespace):
            raise ValueError(
                f"{text!r} is not a network namespace: write letters, digits, '.', '_' and '-' "
                "after 'netns:'"
            )
        return HostAddress(AddressKind.NAMESPACE, namespace)
    named_user, at, host = text.rpartition("@")
    if at:
        user = named_user
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if user is not None and not _USER.fullmatch(user):
        raise ValueError(
            f"{user!r} is not a user's name: write letters, digits, '.', '_' and '-', with no '-' "
            "at its beginning"
        )
    if not _HOST.fullmatch(host):
        raise ValueError(
            f"{text!r} is not a host: write 'localhost', 'netns:NAME', or '[USER@]HOST' with a "
            "name or an address"
        )
    return HostAddress(AddressKind.SSH, host, user)


@functools.cache
def agent_source() -> bytes:
    """Returns the agent's package as a zip file, which ccmix sends to each host, so nothing has to
    be installed there. It is uncompressed because not every Python has zlib.
    """
    package = Path(ccmix.__file__).parent
    files = [package / "__init__.py", *sorted((package / "agent").glob("*.py"))]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in files:
            zipped.writestr(
                zipfile.ZipInfo(str(file.relative_to(package.parent))), file.read_bytes()
            )
    return archive.getvalue()


def agent_command(address: HostAddress) -> list[str]:
    """Returns the command that starts an agent on the host. Its standard input must begin with
    agent_source(), from which the host's Python imports the agent.
    """
    bootstrap = _BOOTSTRAP.format(size=len(agent_source()))
    if address.kind is AddressKind.SSH:
        return [*ssh_command(), str(address), shlex.join(["exec", *python_command(bootstrap)])]
    local_command = python_command(bootstrap, python=sys.executable)
    if address.kind is AddressKind.LOCAL:
        return local_command
    become_root: Sequence[str] = () if os.geteuid() == 0 else ("sudo", "-n")
    return [*become_root, "ip", "netns", "exec", address.host, *local_command]


def ssh_command(forwards: Sequence[str] = ()) -> list[str]:
    """Returns the beginning of an ssh(1) command, up to the host. It uses the user's own
    configuration, but overrides settings with which ssh would ask questions, wait, or open more
    channels.

    `forwards` are options that forward ports. If there are some and one fails, ssh ends.
    """
    configuration = os.environ.get(SSH_CONFIG)
    forwarding = "ExitOnForwardFailure=yes" if forwards else "ClearAllForwardings=yes"
    return [
        "ssh",
        *(["-F", configuration] if configuration else []),
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=10",
        "-o",
        "ServerAliveInterval=5",
        "-o",
        "ServerAliveCountMax=3",
        "-o",
        forwarding,
        "-o",
        "RemoteCommand=none",
        "-T",
        *forwards,
        "--",
    ]
