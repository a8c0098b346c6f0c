"""A real sshd in a separate network namespace, joined to this one by a veth pair, with a user who is
not root.

`ip netns exec` replaces files in /etc by those of /etc/netns/NAME. So the user and his rights by
sudo exist only in the namespace. An OpenSSH client finds the server as the host 'dtn' in
`client_config`.

login_to_this_machine() is a server in the machine's own network namespace, for tests of settings
that all namespaces share.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ccmix.agent.processes import descendants, signal_descendants
from ccmix.hosts import NamespaceHost
from support.commands import commands_in
from support.ports import free_port

SSHD = "/usr/sbin/sshd"
LISTENS = "Server listening"
USER, USER_ID = "dtn", 54321
ALLOWED = "/usr/sbin/sysctl, /usr/bin/kill, /usr/bin/env"  # to that user, by sudo
HERE = "here"
ACCOUNTS = (
    "passwd",
    "group",
    "shadow",
    "sudoers",
)  # the files that are written below an /etc of the server's own

SERVER_CONFIG = """
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/client_key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv {environment}
"""

CLIENT_CONFIG = """
Host {name}
    HostName {address}
    HostKeyAlias {name}
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile none
    IdentityFile {folder}/client_key
    IdentitiesOnly yes
    IdentityAgent none
"""

REORDERING = ["sysctl", "-n", "net.ipv4.tcp_reordering"]
CHANGES = """pre-dst-cmd = sysctl -qw net.ipv4.tcp_reordering=7
post-dst-cmd = sysctl -qw net.ipv4.tcp_reordering=3
"""


@dataclass(frozen=True)
class RunningServer:
    """A running server. `folder` is readable for everybody; `state` is where its agents'
    journals lie.
    """

    folder: Path
    pid: int

    @property
    def client_config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def state(self) -> Path:
        return self.folder / "state"


@dataclass(frozen=True)
class SshServer(RunningServer):
    """A server in a namespace of its own."""

    namespace: NamespaceHost
    address: str

    def set_link(self, state: str) -> None:
        """'down' or 'up'."""
        self.namespace.run(["ip", "link", "set", "eth0", state])

    def reconfigure(self, line: str) -> None:
        """Has the server take one more line of configuration, which is for connections
        from now on.
        """
        config = self.folder / "sshd_config"
        config.write_text(f"{line}\n{config.read_text()}")  # the first value of an option counts
        listens = (self.folder / "log").read_text().count(LISTENS)
        os.kill(self.pid, signal.SIGHUP)
        _wait_for(self.folder / "log", LISTENS, listens + 1)

    def ini(self, file: Path, text: str) -> Path:
        """Writes a configuration whose entries run from this machine to the server's."""
        head = (
            f"[DEFAULT]\ndst = {self.address}\ndst-host = dtn\ninterval = "
            "100ms\naccept-limits = probe, cpu\n"
        )
        file.write_text(head + text)
        return file

    def is_as_before(self) -> bool:
        """Returns whether nothing of a campaign is left: of CHANGES, of processes, and
        of journals.
        """
        running = [command for command in commands_in(self.namespace.name) if "sshd" not in command]
        return (
            self.namespace.run(REORDERING) == "3\n"
            and not running
            and not list(self.state.iterdir())
        )

    def sessions(self) -> list[int]:
        """The server's processes, one or two for each connection; not what runs in them."""
        found = []
        for pid in descendants(self.pid):
            with contextlib.suppress(OSError):  # it has just ended
                if Path(f"/proc/{pid}/cmdline").read_text().startswith("sshd:"):
                    found.append(pid)
        return found


@contextmanager
def ssh_server(name: str) -> Iterator[SshServer]:
    """A server in the namespace `name`, which is made here. Needs root; raises
    subprocess.CalledProcessError.
    """
    number = os.getpid() % 16384
    ours, its = (f"198.18.{number // 64}.{number % 64 * 4 + end}" for end in (1, 2))
    device = f"ccs{os.getpid()}"
    etc = Path("/etc/netns", name)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ccmix-sshd-") as folder_name:
        folder = Path(folder_name)
        try:
            _call("ip", "netns", "add", name)
            _call(
                "ip", "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", name
            )
            _call("ip", "addr", "add", f"{ours}/30", "dev", device)
            _call("ip", "link", "set", device, "up")
            for line in ("link set lo up", f"addr add {its}/30 dev eth0", "link set eth0 up"):
                _call("ip", "-n", name, *line.split())
            _write_files(folder, etc, its)
            server = start_sshd(folder, "ip", "netns", "exec", name)
            try:
                yield SshServer(folder, server.pid, NamespaceHost(name), its)
            finally:
                signal_descendants(server.pid, signal.SIGKILL)
                server.kill()
                server.wait()
        finally:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
            subprocess.run(
                ["ip", "link", "del", device], check=False, capture_output=True
            )  # went with the namespace
            shutil.rmtree(etc, ignore_errors=True)


def write_configuration(
    folder: Path, name: str, address: str, environment: Mapping[str, object]
) -> None:
    """Writes keys, and the configuration of a server, which gives sessions this environment, and of
    its client.

    The client knows the server by the name.
    """
    variables = " ".join(f"{variable}={value}" for variable, value in environment.items())
    for key in ("host_key", "client_key"):
        _call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}")
    host_key = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"{name} {host_key}")
    server_config = SERVER_CONFIG.format(address=address, folder=folder, environment=variables)
    (folder / "sshd_config").write_text(server_config)
    (folder / "ssh_config").write_text(
        CLIENT_CONFIG.format(name=name, address=address, folder=folder)
    )


def start_sshd(folder: Path, *enter: str) -> subprocess.Popen[bytes]:
    """Starts a server with the configuration of the folder, where `enter` leads; returns when
    it listens.
    """
    log = folder / "log"
    listens = log.read_text().count(LISTENS) if log.exists() else 0
    argv = [*enter, SSHD, "-D", "-f", f"{folder}/sshd_config", "-E", str(log)]
    server = subprocess.Popen(argv)
    try:
        _wait_for(log, LISTENS, listens + 1)
    except AssertionError:
        server.kill()
        server.wait()
        raise
    return server


@dataclass(frozen=True)
class OwnServer(RunningServer):
    """A server that leads to this machine itself, where the user may do everything by sudo."""

    def agents(self) -> list[int]:
        """Returns the processes of logins, which all know the state folder; not what they have
        run by sudo.
        """
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has just ended
                if f"CCMIX_STATE={self.state}\0".encode() in (process / "environ").read_bytes():
                    found.append(int(process.name))
        return found


@contextmanager
def login_to_this_machine() -> Iterator[OwnServer]:
    """A server in the machine's own network namespace, for the host HERE. Needs root.

    The user exists only in the server's own mounts.
    """
    with tempfile.TemporaryDirectory(prefix="ccmix-sshd-") as folder_name:
        folder = Path(folder_name)
        etc, port = folder / "etc", free_port()
        _write_files(folder, etc, "127.0.0.1", HERE)
        with (
            (folder / "sshd_config").open("a") as server_config,
            (folder / "ssh_config").open("a") as client_config,
        ):
            server_config.write(f"Port {port}\n")
            client_config.write(f"    Port {port}\n")
        with (etc / "sudoers").open("a") as sudoers:
            sudoers.write(f"{USER} ALL=(root) NOPASSWD: ALL\n")
        binds = "; ".join(f"mount --bind {etc}/{file} /etc/{file}" for file in ACCOUNTS)
        server = start_sshd(folder, "unshare", "--mount", "sh", "-ec", f'{binds}; exec "$@"', "sh")
        try:
            yield OwnServer(folder, server.pid)
        finally:
            signal_descendants(server.pid, signal.SIGKILL)
            server.kill()
            server.wait()


def _write_files(folder: Path, etc: Path, address: str, name: str = "dtn") -> None:
    state = folder / "state"
    state.mkdir()
    home = folder / "home"
    home.mkdir()
    os.chown(home, USER_ID, USER_ID)
    for readable in (folder, state):
        readable.chmod(0o755 if readable is folder else 0o777)
    write_configuration(folder, name, address, {"CCMIX_STATE": state})
    etc.mkdir(parents=True)
    (etc / "passwd").write_text(
        Path("/etc/passwd").read_text() + f"{USER}:x:{USER_ID}:{USER_ID}::{home}:/bin/sh\n"
    )
    (etc / "group").write_text(Path("/etc/group").read_text() + f"{USER}:x:{USER_ID}:\n")
    (etc / "shadow").write_text(Path("/etc/shadow").read_text() + f"{USER}:*:19000:0:99999:7:::\n")
    (etc / "sudoers").write_text(f"root ALL=(ALL:ALL) ALL\n{USER} ALL=(root) NOPASSWD: {ALLOWED}\n")
    (etc / "shadow").chmod(0o640)
    (etc / "sudoers").chmod(0o440)


def _wait_for(log: Path, words: str, times: int) -> None:
    deadline = time.monotonic() + 10
    while not log.exists() or log.read_text().count(words) < times:
        assert time.monotonic() < deadline, (
            f"sshd does not start: {log.read_text() if log.exists() else 'no log'}"
        )
        time.sleep(0.01)


def _call(*argv: str) -> None:
    subprocess.run(argv, check=True)
