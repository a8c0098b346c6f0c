"""One run on this machine: the path set up, the traffic made, everything observed written as raw files.

This is what runs inside the lab's guest and, without the lab, on a host with root and netem. It imports nothing but the
standard library, since starting a guest's Python costs more than the run's set-up otherwise; tables are made outside.
"""

import json
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ccmix.agent.journal import Journal
from ccmix.conditions import qdisc
from ccmix.conditions.dumbbell import RECEIVER_ADDRESS, Dumbbell, dumbbell
from ccmix.conditions.sysctl import OF_TCP, read_sysctls
from ccmix.generators import iperf3
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError, LocalHost
from ccmix.model import Run, Topology
from ccmix.model.traffic import DEFAULT_CCA
from ccmix.probes import rtt_beside, sockets, sockmon
from ccmix.probes.sampler import sampling

JOB, ERROR = Path("logs/job.json"), Path("logs/error.txt")  # below the run's folder
OFFLOADS = ("tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload")
TRAIN_PACKETS, LEAST_TRAIN_PACKETS = 200, 8
IP_AND_ICMP_HEADER_BYTES = 28
PINGS = 5


@dataclass(frozen=True)
class Programs:
    """Where ccmix's own are, in the order of main()'s arguments."""

    iperf3: str
    sockmon: str
    rtt: str


def measure(run: Run, folder: Path, programs: Programs) -> None:
    """Measures a run; `folder` gets generators/, logs/ and facts.json. Raises CommandError or GeneratorError."""
    generators, logs = folder / "generators", folder / "logs"
    generators.mkdir()
    logs.mkdir(exist_ok=True)
    facts: dict[str, Any] = {"kernel": platform.release(), "kernel_version": platform.version()}
    facts["iperf3"] = _iperf3_version(programs.iperf3)
    with Journal() as journal, dumbbell(run.topology, journal) as path:
        _check_ccas(run, path)
        facts["sysctls"] = read_sysctls(path.sender, OF_TCP)
        facts["offloads"] = _offloads(path)
        facts["ping_rtt_s"] = _ping(path)
        facts["train_s"] = _packet_train(path, run.topology)
        facts["before"] = _counters(path)
        with (
            qdisc.paced(path.sender, path.sender_queue.name, run.traffic.pacing_bps),
            _probing(run, path, programs, logs, facts),
        ):
            facts["started_s"] = time.time()
            ends = iperf3.Ends(path.sender, programs.iperf3, path.receiver, programs.iperf3, RECEIVER_ADDRESS)
            longest_s = iperf3.longest_s(run.traffic, run.topology.base_rtt_s)
            facts["commands"] = iperf3.run_test(ends, run.traffic, longest_s, generators)
            facts["ended_s"] = time.time()
        facts["after"] = _counters(path)
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))


def _iperf3_version(iperf3_path: str) -> str:
    version = LocalHost().run([iperf3_path, "--version"]).splitlines()[0]
    if "+ccmix" not in version:
        raise GeneratorError(f"{iperf3_path} is {version}, without ccmix's patches: 'make setup' builds one with them")
    return version


def _check_ccas(run: Run, path: Dumbbell) -> None:
    available = path.sender.read("/proc/sys/net/ipv4/tcp_available_congestion_control").split()
    for cca in {group.cca for group in run.traffic.groups} - {DEFAULT_CCA}:
        if cca not in available:
            raise GeneratorError(f"the sender's kernel has no CCA '{cca}'; it has {', '.join(available)}")


def _offloads(path: Dumbbell) -> dict[str, bool]:
    """What could make one packet of many, on the device that sends and on the router whose netem comes next."""
    features = {}
    for device in (path.sender_queue, path.ack_delay):
        for line in device.host.run(["ethtool", "-k", device.name]).splitlines():
            name, _, state = line.strip().partition(": ")
            if name in OFFLOADS:
                features[f"{device.host.name} {name}"] = state.startswith("on")
    return features


def _ping(path: Dumbbell) -> list[float]:
    """Round-trip times over the empty path, in seconds. The first, which waits for ARP on each link, is left out."""
    argv = ["ping", "-n", "-c", str(PINGS + 1), "-i", "0.2", "-s", "56", RECEIVER_ADDRESS]
    words = path.sender.run(argv, timeout_s=60).split()
    times = [float(word.removeprefix("time=")) / 1e3 for word in words if word.startswith("time=")]
    return times[1:]


def _packet_train(path: Dumbbell, topology: Topology) -> list[float]:
    """When the replies to a train of full packets came, sent all at once: as far apart as the bottleneck lets them.

    Seconds of the wall clock; empty where the buffer holds too few packets for a train.
    """
    packets = min(TRAIN_PACKETS, topology.buffer_bytes // topology.packet_bytes)
    if packets < LEAST_TRAIN_PACKETS:
        return []
    size = topology.mtu_bytes - IP_AND_ICMP_HEADER_BYTES
    argv = ["ping", "-n", "-D", "-c", str(packets), "-l", str(packets), "-s", str(size)]
    lines = path.sender.run([*argv, RECEIVER_ADDRESS], timeout_s=120).splitlines()
    return [float(line[1:].partition("]")[0]) for line in lines if line.startswith("[")]


def _counters(path: Dumbbell) -> dict[str, Any]:
    """Qdisc statistics of every emulating device, TCP counters of both ends, drops of the backlog between devices."""
    return {
        "qdiscs": {what: qdisc.qdiscs(device.host, device.name) for what, device in path.devices.items()},
        "netstat": {end.name: end.read("/proc/net/netstat") for end in (path.sender, path.receiver)},
        "softnet": {"localhost": LocalHost().read("/proc/net/softnet_stat")},
    }


@contextmanager
def _probing(run: Run, path: Dumbbell, programs: Programs, logs: Path, facts: dict[str, Any]) -> Iterator[None]:
    """Samples until the context ends: both ends' sockets and counters, both queues, processors.

    Where ccmix-sockmon can't, the sender's sockets by ss and the bottleneck by tc.
    """
    machine, interval_s = LocalHost(), run.traffic.interval_s
    queues = {"bottleneck": path.bottleneck, "sender-queue": path.sender_queue}
    devices = {f"{device.host.name}/{device.name}": place for place, device in queues.items()}
    ends = {path.sender.name: "sender", path.receiver.name: "receiver"}
    facts["series"] = {"sockets": ends, "queues": devices}
    argv = [
        programs.sockmon, *(f"--sockets={end}" for end in ends), *(f"--queue={device}" for device in devices),
        *(f"--counters={end}" for end in ends), "--cpu", f"--tree={os.getpid()}", *sockmon.rates(interval_s),
    ]  # fmt: skip
    reports = {}
    with ExitStack() as probes:
        if refusal := sockmon.refusal(machine, argv):
            facts["notices"] = [f"sockets and queues were sampled by ss and tc: {refusal}"]
            tc = qdisc.statistics_command(path.bottleneck.name)
            for name, host, sample in (
                ("sockets", path.sender, sockets.COMMAND), ("queues", path.bottleneck.host, tc)
            ):  # fmt: skip
                samples = sampling(host, sample, interval_s, logs / f"{name}.jsonl")
                reports[name] = probes.enter_context(samples)
        else:
            probes.enter_context(sockmon.recording(machine, argv, logs / sockmon.STREAM))
        if probe := run.traffic.rtt_probe:
            command = rtt_beside.argv(programs.rtt, probe, RECEIVER_ADDRESS)
            files = {"stdout": logs / rtt_beside.FILE, "stderr": logs / rtt_beside.ERRORS}
            probes.enter_context(path.sender.start(command, **files))
        yield
    facts["probes"] = {name: asdict(report) for name, report in reports.items()}


def main() -> int:
    """`python -m ccmix.run.measure FOLDER IPERF3 SOCKMON RTT`: exit status 1 and a line in ERROR: the run failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was changed is undone
    folder, programs = Path(sys.argv[1]), Programs(*sys.argv[2:])
    run = Run.from_json(json.loads((folder / JOB).read_text()))
    try:
        measure(run, folder, programs)
    except (CommandError, GeneratorError, OSError) as error:
        (folder / ERROR).write_text(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
