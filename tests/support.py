"""What tests share: the ccmix command of this checkout, a small configuration, and a look at processes."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import click

from ccmix.analysis.tables import RunTables
from ccmix.analysis.validity import judge
from ccmix.cli.main import main
from ccmix.model import (
    Buffer,
    Destination,
    Group,
    HostPath,
    Iperf3Source,
    Loss,
    Measurement,
    Netem,
    NetemPlace,
    Run,
    Sender,
    Topology,
    Traffic,
    TrafficSource,
)
from ccmix.model.results import Metrics, Verdict

CCMIX = str(Path(sys.prefix, "bin", "ccmix"))
REPOSITORY = Path(__file__).parent.parent
LOADED_BY_TESTS = ("bbr2", "bbr3")  # for a moment, by tests that may run beside this one
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


def one_sender(
    rate_bps: float, delay_s: float, loss: Loss | None, buffer: Buffer, mtu_bytes: int, offloads: bool, **more: Any
) -> Topology:
    """Returns the emulated path of a sender h1."""
    senders = (Sender("h1", delay_s, loss),)
    return Topology(rate_bps, senders, buffer, mtu_bytes, offloads, **more)


def with_senders(topology: Topology, **settings: Any) -> Topology:
    """Returns the path with settings of each sender changed."""
    return replace(topology, senders=tuple(replace(sender, **settings) for sender in topology.senders))


def iperf3_traffic(
    groups: tuple[Group, ...], streams: int, duration_s: float, omit_s: float, interval_s: float, *,
    pacing_bps: float | None = None, host: str = "h1",
) -> Traffic:  # fmt: skip
    """Returns the traffic of one test of ccmix's own iperf3."""
    return Traffic((Iperf3Source("", host, groups, streams),), duration_s, omit_s, interval_s, pacing_bps)


def with_groups(traffic: Traffic, *groups: Group, streams: int | None = None) -> Traffic:
    """Returns the traffic of one test with other groups, and other streams where they are given."""
    test = traffic.test
    assert isinstance(test, Iperf3Source)
    changed = replace(test, groups=groups, streams=test.streams if streams is None else streams)
    return replace(traffic, sources=(changed,))


def add_sources(traffic: Traffic, *sources: TrafficSource) -> Traffic:
    """Returns the traffic with more sources: beside a test, cross traffic."""
    return replace(traffic, sources=(*traffic.sources, *sources))


# An emulated path of one sender, with a little loss
TOPOLOGY = one_sender(
    rate_bps=1e9,
    delay_s=0.005,
    loss=Loss("random", (0.001,)),
    buffer=Buffer(1.0, "bdp"),
    mtu_bytes=1500,
    offloads=False,
)


def empty_metrics(**some: Any) -> Metrics:
    """Returns the metrics of a run of which nothing is known but what is given."""
    nothing = ("utilisation", "bytes_sent", "fairness", "fairness_of_groups", "retransmission_rate", "convergence_s")
    return Metrics(**{"goodput_bps": 0.0, **dict.fromkeys((*nothing, "netem_loss")), **some})


def judged(run: Run, tables: RunTables, measurement: Measurement) -> Verdict:
    """Returns the verdict on what was seen, apart from the metrics that follow from it."""
    return judge(run, tables, measurement, empty_metrics())


def host_run(
    src: str, dst: str, address: str = "127.0.0.1", *, pacing_bps: float | None = None, netem: str = "", **path: object
) -> Run:
    """A run of two BBR flows between hosts; `netem`: a device of src with 10 ms of delay and loss."""
    emulation: dict[str, Any] = {}
    if netem:
        emulation = {"netem": Netem(0.01, Loss("random", (0.01,))), "netem_at": NetemPlace(src, netem, None)}
    traffic = iperf3_traffic((Group("bbr"),), 2, 10.0, 0.0, 0.5, pacing_bps=pacing_bps, host="src")
    return Run(
        "one",
        {},
        "b",
        1,
        7,
        traffic,
        HostPath(src, Destination("b", address, dst), "iperf3", **emulation, **path),  # type: ignore[arg-type]
    )


class Ccmix:
    """Runs the real command, with a temporary folder by which its processes are known."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = os.environ | {"TMPDIR": str(folder)}

    def __call__(
        self, *arguments: object, timeout: float = 240, path: Path | str | None = None, prefix: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        argv = [*prefix, CCMIX, *map(str, arguments)]
        environment = self._environment | ({"PATH": str(path)} if path else {})
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout, env=environment, check=False)

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


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mounts a file system of this size at the folder, which is made; the test has the mark "namespaces"."""
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


def packet_train(packet_s: float) -> list[float]:
    """When the replies to 200 packets come: two pass the bottleneck at once, the others one packet's time apart."""
    return [1000.0, 1000.0, *(1000.0 + packet_s * number for number in range(1, 199))]


Write = Callable[..., Path]


@dataclass(frozen=True)
class Pair:
    """The names of the namespaces, and the far one's address, and its name by which the near one knows it."""

    near: str
    far: str
    address: str
    name: str

    def running(self) -> list[int]:
        """The processes in both, by age."""
        found = [subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True).stdout
                 for name in (self.near, self.far)]  # fmt: skip
        return sorted(int(pid) for pids in found for pid in pids.split())

    def near_says(self, *argv: str) -> str:
        command = ["ip", "netns", "exec", self.near, *argv]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def commands_in(namespace: str) -> list[str]:
    """The command lines of the processes in a network namespace; those that have ended, and zombies, have none."""
    found = []
    pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True).stdout.split()
    for pid in pids:
        try:
            found.append(Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").replace("\0", " "))
        except OSError:
            continue
    return [command for command in found if command]


def run_in_lab(folder: Path, ini: str) -> subprocess.CompletedProcess[str]:
    """Runs a configuration in the lab into the folder's `out`; fails unless all its runs are valid."""
    config = folder / "lab.ini"
    config.write_text(ini)
    done = Ccmix(folder)("run", config, "--lab", "-o", folder / "out")
    assert done.returncode == 0, done.stderr
    return done


def rows(ccmix: Ccmix, outdir: Path) -> list[dict[str, Any]]:
    """Of the report's table."""
    done = ccmix("report", outdir, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def summaries(outdir: Path) -> list[dict[str, Any]]:
    """What run.json says of each finished run."""
    return [json.loads(file.read_text()) for file in sorted(outdir.glob("*/*/*/*/run.json"))]


def loaded(script: Path, name: str | None = None) -> ModuleType:
    """Returns a script without a suffix as a module of this name."""
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
    """Returns a CCA that all users of this machine may use, and one that root alone may, if there is one."""
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    return allowed[0], next((name for name in ccas_of_this_machine() if name not in allowed), None)
