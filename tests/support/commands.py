"""The ccmix command of this checkout, a small configuration, and a look at processes."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import click
import pytest
from click.testing import CliRunner, Result

from ccmix.cli.main import main

CCMIX = str(Path(sys.prefix, "bin", "ccmix"))
REPOSITORY = Path(__file__).parent.parent.parent
LOADED_BY_TESTS = ("bbr2", "bbr3")  # for a moment, by tests that may run at the same time
Write = Callable[..., Path]
RunIni = Callable[..., subprocess.CompletedProcess[str]]
NOT_EMULATED = 125  # lab/emulate's exit status

# 100 Mbit/s and 3 s of traffic take a second or two of real time in the lab.
SMALL = """
[topology small]
rate = 100mbit
delay = 5ms
mtu = 9000

[both]
type = iperf3
topology = small
cca = cubic,bbr
streams = 2
duration = 2s
omit = 1s
iterations = 2
"""


def deep(*values: Any, **more: Any) -> Any:
    """Marks the parameters of a test."""
    return pytest.param(*values, marks=pytest.mark.deep, **more)


def long(*values: Any, **more: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.long, **more)


def assert_has(values: Mapping[str, Any], **expected: object) -> None:
    """Compares some of the values, by their keys."""
    assert {name: values[name] for name in expected} == expected


class Ccmix:
    """Runs the real command, with a temporary folder by which its processes are known."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = os.environ | {"TMPDIR": str(folder)}

    def __call__(
        self,
        *arguments: object,
        timeout: float = 240,
        path: Path | str | None = None,
        prefix: Sequence[str] = (),
        status: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Returns the command's output; fails unless it ends with `status`, if given."""
        argv = [*prefix, CCMIX, *map(str, arguments)]
        environment = self._environment | ({"PATH": str(path)} if path else {})
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout, env=environment, check=False
        )
        assert status in (None, done.returncode), done.stdout + done.stderr
        return done

    def start(self, *arguments: object, output: IO[bytes] | None = None) -> subprocess.Popen[str]:
        """Starts the command, which writes to pipes, or all to one file."""
        argv = [CCMIX, *map(str, arguments)]
        to = output or subprocess.PIPE
        return subprocess.Popen(argv, stdout=to, stderr=to, text=True, env=self._environment)

    def guests(self) -> list[int]:
        """The processes that work below the temporary folder: the lab's kernels and their stubs."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "cwd").readlink().is_relative_to(self.folder):
                    found.append(int(process.name))
            except OSError:
                continue
        return found

    def guest_groups(self) -> set[int]:
        """Returns a process group for each guest: its kernel and the stubs of its processes."""
        groups = set()
        for process in self.guests():
            with contextlib.suppress(ProcessLookupError):
                groups.add(os.getpgid(process))
        return groups


def invoke(*arguments: object) -> Result:
    """Runs a command of ccmix in the process of the test. Raises what the command does not handle."""
    done = CliRunner().invoke(main, list(map(str, arguments)))
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


class CcmixInProcess(Ccmix):
    """Runs commands in the process of the test, which saves a second of imports for each."""

    def __call__(self, *arguments: object, **_: object) -> subprocess.CompletedProcess[str]:
        done = invoke(*arguments)
        return subprocess.CompletedProcess(
            list(map(str, arguments)), done.exit_code, done.stdout, done.stderr
        )


def run_program(argv: Any, *, check: bool = False, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program, and returns its output."""
    return subprocess.run(argv, capture_output=True, text=True, check=check, **more)


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mounts a file system of this size at the folder, which is made; the test has the mark
    "namespaces".
    """
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
        time.sleep(0.05)


@dataclass(frozen=True)
class Pair:
    """The names of the namespaces, and the far one's address, and its name by which the near
    one knows it.
    """

    near: str
    far: str
    address: str
    name: str

    def running(self) -> list[int]:
        """The processes in both, by age; pids do not tell it, because they wrap."""
        found = [
            subprocess.run(
                ["ip", "netns", "pids", name], capture_output=True, text=True, check=True
            ).stdout
            for name in (self.near, self.far)
        ]
        by_age = []
        for pid in (int(pid) for pids in found for pid in pids.split()):
            with contextlib.suppress(OSError):  # it has ended
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                by_age.append((int(fields[19]), pid))  # its start, field 22 of proc_pid_stat(5)
        return [pid for _, pid in sorted(by_age)]

    def near_says(self, *argv: str) -> str:
        command = ["ip", "netns", "exec", self.near, *argv]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def commands_in(namespace: str) -> list[str]:
    """The command lines of the processes in a network namespace; those that have ended, and
    zombies, have none.
    """
    found = []
    pids = subprocess.run(
        ["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True
    ).stdout.split()
    for pid in pids:
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").replace("\0", " "))
        except OSError:
            continue
    return [command for command in found if command]


def run_in_lab(folder: Path, ini: str) -> subprocess.CompletedProcess[str]:
    """Runs a configuration in the lab into the folder's `out`; fails unless all its runs
    are valid.
    """
    config = folder / "lab.ini"
    config.write_text(ini)
    done = Ccmix(folder)("run", config, "--lab", "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    return done


def rows(outdir: Path) -> list[dict[str, Any]]:
    """Of the report's table."""
    done = invoke("report", outdir, "--format", "json")
    assert done.exit_code == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def summaries(outdir: Path) -> list[dict[str, Any]]:
    """What run.json says of each finished run."""
    return [json.loads(file.read_text()) for file in sorted(outdir.glob("*/*/*/*/run.json"))]


def loaded(script: Path, name: str | None = None) -> ModuleType:
    """Returns a script as a module of this name."""
    loader = SourceFileLoader(name or script.name.replace("-", "_"), str(script))
    spec = importlib.util.spec_from_file_location(loader.name, script, loader=loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


def called(words: Sequence[str]) -> click.Context:
    """The command of a line as it would be called. Raises click.UsageError."""
    command: click.Command | None = main
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words[0])
        assert command, words
        words = words[1:]
    assert command
    return command.make_context(None, list(words))


def ccas_of_this_machine() -> list[str]:
    """Returns the available CCAs, but those that another test has loaded."""
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return [name for name in available if name not in LOADED_BY_TESTS]


def allowed_and_not() -> tuple[str, str | None]:
    """Returns a CCA that all users of this machine may use, and one that only root may use, if it
    exists.
    """
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    return allowed[0], next((name for name in ccas_of_this_machine() if name not in allowed), None)
