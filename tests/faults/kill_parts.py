"""Kills parts of a campaign between the namespaces near, router and far at random moments, until it
is complete.

    kill_parts.py INI FOLDER KILLS SEED STATE [--ssh]

It starts `ccmix run INI`, kills one process after the other by SIGKILL, and resumes a campaign that
a kill has ended; the next campaign follows a complete one. Whenever no campaign runs, every process
on the hosts must have ended, and the shell command STATE must print the same as before; if an agent
was killed, after `ccmix restore`. Each kill is a line of the output, and the last line is a summary
in JSON. Exit status: 0 if all of these checks passed.

With --ssh, the hosts are reached by an sshd in each namespace, under the namespace's name. The sshd
is also killed, and started again.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from support.kills import Killer
from support.sshd import SSHD, start_sshd, write_configuration

CCMIX = str(Path(sys.prefix, "bin", "ccmix"))
HOSTS = ("near", "router", "far")
LONGEST_WAIT_S = 1.5  # of the clock that the campaign has: a guest's is virtual
ENDS_WITHIN_S = 120.0


def _let_root_log_in(folder: Path) -> None:
    """Gives a list of passwords to a guest that an ordinary user has started. The guest can't read
    this machine's list, and sshd refuses users whose account it can't look up.
    """
    passwords = Path("/etc/shadow")
    try:
        passwords.read_bytes()
    except PermissionError:
        ours = folder / "shadow"
        ours.write_text("root:*:20000:0:99999:7:::\n")
        subprocess.run(["mount", "--bind", ours, passwords], check=True)


class SshServers:
    """Has an sshd in each namespace, which this one reaches over a device of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        configurations = []
        environment = {
            name: os.environ[name] for name in ("CCMIX_STATE", "TMPDIR")
        }  # a guest has no other /tmp
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        _let_root_log_in(folder)
        for number, host in enumerate(HOSTS):
            ours, its = f"10.9.{number}.1", f"10.9.{number}.2"
            ip(
                "link",
                "add",
                f"to-{host}",
                "type",
                "veth",
                "peer",
                "name",
                "control",
                "netns",
                host,
            )
            ip("addr", "add", f"{ours}/24", "dev", f"to-{host}")
            ip("link", "set", f"to-{host}", "up")
            ip("-n", host, "addr", "add", f"{its}/24", "dev", "control")
            ip("-n", host, "link", "set", "control", "up")
            (folder / host).mkdir()
            write_configuration(folder / host, host, its, environment)
            configurations.append((folder / host / "ssh_config").read_text())
        everyone = folder / "ssh_config"
        everyone.write_text("".join(configurations))
        os.environ["CCMIX_SSH_CONFIG"] = str(everyone)
        self.keep()

    def keep(self) -> None:
        """Starts each sshd that does not run."""
        for host in HOSTS:
            if host not in self._servers or self._servers[host].poll() is not None:
                self._servers[host] = start_sshd(self._folder / host, "ip", "netns", "exec", host)

    def close(self) -> None:
        for server in self._servers.values():
            server.kill()
            server.wait()

    def pids(self) -> set[int]:
        return {server.pid for server in self._servers.values()}


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def processes() -> dict[int, tuple[str, int]]:
    """Returns the command line and the parent of each process on the hosts."""
    found = {}
    for host in HOSTS:
        pids = subprocess.run(
            ["ip", "netns", "pids", host], capture_output=True, text=True, check=True
        ).stdout
        for pid in pids.split():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if line.strip():
                found[int(pid)] = (line, parent)
    return found


class Parts:
    """Finds the parts of a campaign, and checks whether the hosts are as before."""

    def __init__(self, state: str, servers: SshServers | None) -> None:
        self._state = state
        self._servers = servers
        self._before = self._says()

    def _says(self) -> str:
        return subprocess.run(
            ["sh", "-c", self._state], capture_output=True, text=True, check=False
        ).stdout

    def victims(self, harness: int) -> dict[str, list[int]]:
        """Returns the processes of each part. A keeper has the command line of its agent, which
        forked it.
        """
        if self._servers:
            self._servers.keep()
        found = processes()
        forked = {
            pid for pid, (line, parent) in found.items() if found.get(parent, ("",))[0] == line
        }
        agents = [
            pid
            for pid, (line, _) in found.items()
            if "python3" in line.split()[0] and pid not in forked
        ]
        programs = {
            part: [pid for pid, (line, _) in found.items() if part in line.split()[0]]
            for part in ("sockmon", "iperf3")
        }
        victims = {
            "harness": [harness],
            "agent": agents,
            "keeper": [pid for pid in forked if found[pid][1] in agents],
        } | programs
        if self._servers:
            victims["sshd"] = [
                pid for pid, (line, _) in found.items() if line.startswith(("sshd", SSHD))
            ]
        return victims

    def check(self, killed: set[str]) -> Iterator[str]:
        """Yields the differences from before, after waiting for processes that end by themselves."""
        servers = set()
        if self._servers:
            self._servers.keep()
            servers = self._servers.pids()
        end = time.monotonic() + ENDS_WITHIN_S
        while left := {pid: line for pid, line in processes().items() if pid not in servers}:
            if time.monotonic() > end:
                yield f"still there: {left}"
                break
            time.sleep(0.1)
        if "agent" in killed:
            hosts = [host if self._servers else f"netns:{host}" for host in HOSTS]
            subprocess.run([CCMIX, "restore", *hosts], check=False, stdout=subprocess.DEVNULL)
        if (now := self._says()) != self._before:
            different = set(now.splitlines()) ^ set(self._before.splitlines())
            yield f"the hosts are not as before: {sorted(different)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("ini")
    parser.add_argument("folder", type=Path)
    parser.add_argument("kills", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("state")
    parser.add_argument("--ssh", action="store_true")
    options = parser.parse_args()

    def start(outdir: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
        argv = [CCMIX, "run", options.ini, "-o", str(outdir), "--resume"]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = SshServers(Path(folder)) if options.ssh else None
        if servers:
            stack.callback(servers.close)
        parts = Parts(options.state, servers)
        killer = Killer(
            options.folder,
            start,
            parts.victims,
            parts.check,
            seed=options.seed,
            longest_wait_s=LONGEST_WAIT_S,
        )
        kills = killer.make(options.kills)
    summary = {
        "kills": kills.by_kind,
        "starts": kills.starts,
        "campaigns": kills.campaigns,
        "faults": kills.faults,
    }
    print(json.dumps(summary))
    return 1 if kills.faults else 0


if __name__ == "__main__":
    sys.exit(main())
