"""Reads the names of hosts: 'localhost', 'netns:NAME', or '[USER@]HOST' as for OpenSSH. Builds the
commands that reach them.
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
    """Names a host by the way to reach it; `host` is the namespace's name, or OpenSSH's name for
    the host.
    """

    kind: AddressKind
    host: str
    user: str | None = None

    def __str__(self) -> str:
        if self.kind is AddressKind.NAMESPACE:
            return NAMESPACE_PREFIX + self.host
        return f"{self.user}@{self.host}" if self.user else self.host


def parse_host(text: str, user: str | None = None) -> HostAddress:
    """Returns the host that a text names. `user` is the login for OpenSSH hosts without one in the
    text. Raises ValueError.

    A valid text is never an option, or more than one argument, for OpenSSH, ip(8) or a shell.
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
    """Returns the agent's package as a zip file, uncompressed because not every Python has zlib."""
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
    """Returns the command that starts an agent on the host once it reads agent_source() from its
    standard input.
    """
    bootstrap = _BOOTSTRAP.format(size=len(agent_source()))
    if address.kind is AddressKind.SSH:
        return [*ssh_command(), str(address), shlex.join(["exec", *python_command(bootstrap)])]
    here = python_command(bootstrap, python=sys.executable)
    if address.kind is AddressKind.LOCAL:
        return here
    as_root: Sequence[str] = () if os.geteuid() == 0 else ("sudo", "-n")
    return [*as_root, "ip", "netns", "exec", address.host, *here]


def ssh_command(forwards: Sequence[str] = ()) -> list[str]:
    """Returns OpenSSH's command with the user's own configuration, without settings that would ask
    questions, wait, or open more channels. `forwards` are options that forward ports; if this
    fails, the command ends.
    """
    configuration = os.environ.get(SSH_CONFIG)
    channels = "ExitOnForwardFailure=yes" if forwards else "ClearAllForwardings=yes"
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
        channels,
        "-o",
        "RemoteCommand=none",
        "-T",
        *forwards,
        "--",
    ]
