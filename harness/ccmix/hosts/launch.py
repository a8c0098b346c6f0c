"""Builds the command that starts an agent: its source goes to a waiting Python on standard input."""

import functools
import io
import os
import shlex
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import ccmix
from ccmix.hosts.address import AddressKind, HostAddress
from ccmix.isolated import python_command

SSH_CONFIG = "CCMIX_SSH_CONFIG"  # the variable that names a configuration file for OpenSSH, in place of the user's own

# One line without quotes of the other kind, since any login shell may read it. A buffer of one byte leaves all that
# follows the source to the agent; zipimport takes a file in memory by its name in /proc.
_BOOTSTRAP = (
    "import io,os,sys;"
    'sys.version_info<(3,9)and sys.exit("ccmix-agent: its python3 is %d.%d"%sys.version_info[:2]);'
    'zip=os.memfd_create("ccmix");'
    "os.write(zip,io.BufferedReader(io.FileIO(0,closefd=False),1).read({size}));"
    'sys.path.insert(0,"/proc/self/fd/%d"%zip);'
    "from ccmix.agent.service import main;main()"
)


@functools.cache
def agent_source() -> bytes:
    """Returns the agent's package as a zip file, not compressed, since not every Python has zlib."""
    package = Path(ccmix.__file__).parent
    files = [package / "__init__.py", *sorted((package / "agent").glob("*.py"))]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in files:
            zipped.writestr(zipfile.ZipInfo(str(file.relative_to(package.parent))), file.read_bytes())
    return archive.getvalue()


def agent_command(address: HostAddress) -> list[str]:
    """Returns the command that starts an agent on the host, once it gets agent_source() on its standard input."""
    bootstrap = _BOOTSTRAP.format(size=len(agent_source()))
    if address.kind is AddressKind.SSH:
        return [*ssh_command(), str(address), shlex.join(["exec", *python_command(bootstrap)])]
    here = python_command(bootstrap, python=sys.executable)
    if address.kind is AddressKind.LOCAL:
        return here
    as_root: Sequence[str] = () if os.geteuid() == 0 else ("sudo", "-n")
    return [*as_root, "ip", "netns", "exec", address.host, *here]


def ssh_command(forwards: Sequence[str] = ()) -> list[str]:
    """Returns OpenSSH's command with the user's own configuration, except for what would ask, wait, or open further
    channels; `forwards` are options that pass ports on, without which it ends.
    """
    configuration = os.environ.get(SSH_CONFIG)
    channels = "ExitOnForwardFailure=yes" if forwards else "ClearAllForwardings=yes"
    return [
        "ssh", *(["-F", configuration] if configuration else []),
        "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
        "-o", channels, "-o", "RemoteCommand=none", "-T", *forwards, "--",
    ]  # fmt: skip
