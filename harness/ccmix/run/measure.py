"""Measures one run on an emulated path of this machine or guest: sets up, makes traffic, records.

It writes everything observed as raw files.

This runs inside the lab's guest and, without the lab, on a host with root and netem. It imports
only the standard library, because otherwise the start of a guest's Python would cost more than the
run's set-up; tables are made outside. For the same reason, functions import modules that few runs
need.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ccmix.agent.journal import Journal
from ccmix.conditions import namespaces, qdisc
from ccmix.conditions.dumbbell import Dumbbell, dumbbell
from ccmix.conditions.layout import BOTTLENECK, DELAY, Pair
from ccmix.conditions.sysctl import OF_TCP, of_ends
from ccmix.conditions.tc import described_counters, qdisc_counters
from ccmix.conditions.timeline import Timeline
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError, Host, LocalHost
from ccmix.hosts.local import entered
from ccmix.model import (
    CaptureFacts,
    Counters,
    DeviceState,
    Facts,
    Iperf3Source,
    Measurement,
    PathState,
    PingRtts,
    ProbeReport,
    Run,
    Sender,
    SeriesNames,
    Topology,
    Traffic,
    UdpSource,
    run_files,
)
from ccmix.probes import rtt_beside, sockmon
from ccmix.run import ping
from ccmix.run.traffic_sources import TrafficSources

if TYPE_CHECKING:
    from ccmix.probes.capture import CaptureReport

TRAIN_PACKETS, LEAST_TRAIN_PACKETS = 200, 8
IP_AND_ICMP_HEADER_BYTES = 28
NS_PER_S = 1_000_000_000
PINGS, PING_INTERVAL_S = 5, 0.2  # or the RTT
PINGS_AT_ONCE = 16
ANSWERS_WITHIN_S = 60.0  # in addition to the time on the empty path
PING = ("ping", "-n", "-W", f"{ANSWERS_WITHIN_S:g}")


@dataclass(frozen=True)
class Programs:
    """Holds the paths of the programs that measure: the patched iperf3, ccmix-sockmon and
    ccmix-rtt, in the order of main()'s arguments.
    """

    iperf3: str
    sockmon: str
    rtt: str


def measure(run: Run, folder: Path, programs: Programs) -> Measurement:
    """Measures a run on an emulated path in namespaces of this machine. Returns the measurement:
    the facts that are not in raw files, such as versions, times and counters.

    The raw files are written into `folder`: generators/ gets the output of iperf3 and other
    generators, and logs/ the samples of the probes. Raises CommandError or GeneratorError.
    """
    _wait_for_whole_second()
    generators, logs = folder / run_files.GENERATORS, folder / run_files.LOGS
    generators.mkdir()
    logs.mkdir(exist_ok=True)
    iperf3_version = _iperf3_version(programs.iperf3)
    with (
        Journal() as journal,
        _parameter(run.topology, journal),
        dumbbell(run.topology, journal) as path,
    ):
        first = path.sender(path.pairs[0])
        _check_ccas(run, first)
        with entered(first.name):
            sysctls = namespaces.sysctls(OF_TCP)
        offloads = _offloads(path)
        ping_rtt_s = _ping(path)
        train_s = _packet_train(path, run.topology)
        if run.traffic.pacing_bps is not None:
            _pace(path, run.traffic, run.traffic.pacing_bps)
        before, state_before = _counters(path), _state(path, run.topology)
        sources = TrafficSources(run, path, programs.iperf3, programs.rtt, generators)
        changes = Timeline(run.topology, path)
        series = _series(path)
        probes = _Probes(run, path, programs, logs, series)
        _wait_for_whole_second()
        with (
            _capturing(run, path, folder) as captured,
            ExitStack() as probing,
            ExitStack() as started,
        ):
            started_s = time.time()
            sources.serve(started)
            sources.schedule()
            sockmon_pid = probing.enter_context(probes.sampling(sources.began_s))
            with changes.running(sources.began_s - time.time()):
                sources.run(started, sockmon_pid)
            ended_s = time.time()
        after, state_after = _counters(path), _state(path, run.topology)
    return Measurement(
        facts=Facts(
            kernel=os.uname().release,
            kernel_version=os.uname().version,
            iperf3=iperf3_version,
            sysctls=sysctls,
            commands=sources.commands,
            probes=probes.reports,
            offloads=offloads,
            capture=CaptureFacts(captured.counts, captured.complete, captured.bytes)
            if captured
            else None,
            sender_qdiscs={
                pair.sender.name: described_counters(after.qdiscs[pair.sender_queue.what])
                for pair in path.pairs
            },
        ),
        started_s=started_s,
        ended_s=ended_s,
        began_s=sources.began_s,
        settled_after_s=sources.settled_after_s,
        ping_rtt_s=ping_rtt_s,
        train_s=train_s,
        before=before,
        after=after,
        state_before=state_before,
        state_after=state_after,
        changes=tuple(changes.made),
        series=series,
        diagnostics=tuple(probes.diagnostics),
    )


def _parameter(topology: Topology, journal: Journal) -> AbstractContextManager[None]:
    """Returns a context in which a parameter of a kernel module has the value that the topology
    asks for; a context that does nothing if it asks for none. At the end the former value is put
    back, because all namespaces share the kernel.
    """
    if topology.module_parameter is None:
        return nullcontext()
    from ccmix.conditions.sysctl import changed_parameter  # noqa: PLC0415  # few runs need it

    return changed_parameter(LocalHost(journal), topology.module_parameter)


def _wait_for_whole_second() -> None:
    """Waits until the monotonic clock shows a whole second, so that runs in the lab repeat exactly.

    A failed system call takes a microsecond of the lab's virtual time. Without this wait, all later
    times would depend on how many files Python has looked for before.
    """
    left_ns = -time.monotonic_ns() % NS_PER_S
    time.sleep(max(0.0, left_ns - 0.5) / NS_PER_S)  # sleep() rounds up to a nanosecond


def _iperf3_version(iperf3_path: str) -> str:
    """Returns the first line of `iperf3 --version`. Raises GeneratorError if it is not ccmix's
    patched iperf3.
    """
    version = LocalHost().run([iperf3_path, "--version"]).splitlines()[0]
    if "+ccmix" not in version:
        raise GeneratorError(
            f"{iperf3_path} is {version}, without ccmix's patches: 'make setup' builds one with "
            "them"
        )
    return version


def _check_ccas(run: Run, sender: Host) -> None:
    """Raises GeneratorError if the kernel lacks a CCA of the run's traffic."""
    available = sender.read("/proc/sys/net/ipv4/tcp_available_congestion_control").split()
    for cca in sorted(run.traffic.ccas):
        if cca not in available:
            raise GeneratorError(
                f"the sender's kernel has no CCA '{cca}'; it has {', '.join(available)}"
            )


def _pace(path: Dumbbell, traffic: Traffic, pacing_bps: float) -> None:
    """Limits each flow to `pacing_bps` on every sender whose traffic the entry paces, by the option
    maxrate of the qdisc fq.
    """
    for pair in path.pairs:
        if not traffic.paces(pair.sender.name):
            continue
        line = pair.sender_queue.lines("change")[-1]
        path.sender(pair).run(["tc", *line.split(), "maxrate", f"{pacing_bps:.0f}bit"])


def _offloads(path: Dumbbell) -> dict[str, bool]:
    """Returns whether offloads that may join packets are on, by 'host feature'. Two devices are
    read: a sender's device, and the router's device through which data arrives at the netem. Only
    the first pair of sender and receiver is read, because all pairs have the same settings.
    """
    features: dict[str, bool] = {}
    pair = path.pairs[0]
    for device in (pair.sender_queue, pair.ack_delay):
        host = path.host(device.place.namespace)
        with entered(host.name):
            states = namespaces.offloads(device.place.device)
        features |= {f"{host.name} {name}": on for name, on in states.items()}
    return features


def _ping(path: Dumbbell) -> PingRtts:
    """Pings over the path before the traffic. Returns the round-trip times in seconds, by sender.

    If there are several senders, they ping at the same time. Each starts a little after the
    previous one, so that their pings do not queue at the bottleneck.
    """
    if len(path.pairs) == 1:
        return {pair.sender.name: _ping_pair(path, pair) for pair in path.pairs}
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # few runs need it

    with ThreadPoolExecutor(PINGS_AT_ONCE) as pool:
        pings = []
        for pair in path.pairs:
            pings.append(pool.submit(_ping_pair, path, pair))
            time.sleep(PING_INTERVAL_S / PINGS_AT_ONCE)
        return {
            pair.sender.name: ping.result() for pair, ping in zip(path.pairs, pings, strict=True)
        }


def _ping_pair(path: Dumbbell, pair: Pair) -> tuple[float, ...]:
    """Pings the receiver of a pair from its sender, and returns the round-trip times in seconds. On
    a path that loses packets, more pings are sent, so that about 5 are answered. Raises
    GeneratorError if none is answered.
    """
    interval_s = max(PING_INTERVAL_S, pair.sender.base_rtt_s)
    lost = pair.sender.loss.mean if pair.sender.loss else 0.0
    count = round(PINGS / (1 - lost) ** 2)
    argv = [*PING, "-c", str(count), "-i", f"{interval_s:g}", "-s", "56", pair.receiver_address]
    timeout_s = (count + 1) * interval_s + ANSWERS_WITHIN_S
    try:
        answers = path.sender(pair).run(argv, timeout_s=timeout_s)
    except CommandError as error:
        name, rtt_s = pair.sender.name, pair.sender.base_rtt_s
        raise GeneratorError(
            f"no ping of {name} was answered, over a base RTT of {rtt_s:g} s: {error}"
        ) from error
    return ping.rtts_s(answers, pair.sender.name)


def _packet_train(path: Dumbbell, topology: Topology) -> tuple[float, ...]:
    """Sends a train before the traffic: up to 200 full-sized pings at once. Returns when the
    replies arrived, in seconds since the epoch. The time between two replies shows the rate of the
    bottleneck, or that of the ACKs' bottleneck if that is slower.

    Returns () if a train can't show the rate: if the buffer holds too few packets, or if every
    sender has a limited or paced rate, a delay that varies, or reordering.
    """
    packets = min(TRAIN_PACKETS, topology.buffer_bytes // topology.packet_bytes)
    if topology.ack_bottleneck:
        unit_bytes = 1 if topology.ack_bottleneck.counts_packets else topology.packet_bytes
        packets = min(packets, topology.ack_limit // unit_bytes)
    if topology.policer:
        packets = min(packets, topology.policer.burst_bytes // topology.packet_bytes)
    steady = [pair for pair in path.pairs if _passes_trains(pair.sender)]
    if packets < LEAST_TRAIN_PACKETS or not steady:
        return ()
    size = topology.mtu_bytes - IP_AND_ICMP_HEADER_BYTES
    argv = [*PING, "-D", "-c", str(packets), "-l", str(packets), "-s", str(size)]
    took_s = (
        packets * topology.packet_bytes * 8 / topology.least_rate_bps + steady[0].sender.base_rtt_s
    )
    timeout_s = took_s + ANSWERS_WITHIN_S
    lines = (
        path.sender(steady[0])
        .run([*argv, steady[0].receiver_address], timeout_s=timeout_s)
        .splitlines()
    )
    if topology.policer:  # the traffic begins with a full bucket
        time.sleep(packets * topology.packet_bytes * 8 / topology.policer.rate_bps)
    return tuple(float(line[1:].partition("]")[0]) for line in lines if line.startswith("["))


def _passes_trains(sender: Sender) -> bool:
    """Returns whether packets that a sender sends at once also reach the bottleneck at once. They
    do unless the sender's rate is limited or paced, or the delay varies, or packets are reordered.
    """
    paces = sender.queue.parameter("maxrate") is not None
    return not (sender.rate_bps or sender.jitter_s or sender.reorder or paces)


def _counters(path: Dumbbell) -> Counters:
    """Reads counters of the kernel, which are compared before and after the traffic: those of the
    qdiscs of all devices that emulate the path, of TCP at all senders and receivers, and of packets
    that were dropped between devices (softnet_stat).
    """
    namespaces = {device.place.namespace for device in path.layout.emulating}
    by_namespace = {name: qdisc_counters(path.host(name), None) for name in sorted(namespaces)}
    return Counters(
        qdiscs={
            purpose: tuple(
                qdisc
                for qdisc in by_namespace[device.place.namespace]
                if qdisc.device == device.place.device
            )
            for purpose, device in path.devices.items()
        },
        netstat={host.name: host.read("/proc/net/netstat") for host in path.ends},
        softnet={"localhost": LocalHost().read("/proc/net/softnet_stat")},
    )


def _state(path: Dumbbell, topology: Topology) -> PathState:
    """Reads the present settings of the path from the kernel, to check that they are those of the
    topology: MTUs, addresses and offloads of devices, sysctls of senders and receivers, classes of
    htb, filters, and the kernel module's parameter.
    """
    devices: dict[str, DeviceState] = {}
    for namespace in path.layout.namespaces:
        host = path.host(namespace)
        with entered(host.name):
            for device, addresses in namespaces.addresses().items():
                if device != "lo":
                    on = tuple(name for name, is_on in namespaces.offloads(device).items() if is_on)
                    devices[f"{host.name}/{device}"] = DeviceState(
                        namespaces.mtu_bytes(device), addresses, on
                    )
    sysctls: dict[str, dict[str, str]] = {}
    for end in path.ends:
        with entered(end.name):
            sysctls[end.name] = namespaces.sysctls(of_ends(topology))
    bottleneck = path.bottleneck.place
    router = path.host(bottleneck.namespace)
    classes = (
        {BOTTLENECK: router.run(qdisc.classes_command(bottleneck.device))}
        if topology.shaper == "htb"
        else {}
    )
    filters = (
        {BOTTLENECK: router.run(qdisc.filters_command(bottleneck.device))}
        if topology.policer
        else {}
    )
    return PathState(devices, sysctls, classes, _parameters(topology), filters)


def _parameters(topology: Topology) -> dict[str, str]:
    """Reads from the kernel the value of the module parameter that the topology sets, by the
    parameter's path; {} if it sets none.
    """
    parameter = topology.module_parameter
    if parameter is None:
        return {}
    from ccmix.conditions.sysctl import read_parameter  # noqa: PLC0415  # few runs need it

    return {parameter.path: read_parameter(LocalHost(), parameter)}


class _Probes:
    """Samples sockets and counters of all senders and receivers, the path's queues, and the load of
    the processors, while the traffic runs.

    Without ccmix-sockmon, it samples the senders' sockets with ss and the bottleneck with tc.
    `reports` and `diagnostics` are complete when sampling has ended.
    """

    def __init__(
        self, run: Run, path: Dumbbell, programs: Programs, logs: Path, series: SeriesNames
    ) -> None:
        """Prepares the command of ccmix-sockmon, which samples sockets and queues, and tries it on
        this kernel.

        logs: the folder for the samples
        series: the names of the namespaces and devices to sample
        """
        self.reports: dict[str, ProbeReport] = {}
        self.diagnostics: list[str] = []
        self._run, self._path, self._rtt_program, self._logs = run, path, programs.rtt, logs
        short_flows = any(
            not isinstance(source, Iperf3Source | UdpSource) for source in run.traffic.sources
        )
        watched = BOTTLENECK if run.topology.shaper == "htb" or run.topology.offloads else None
        self._argv = [
            programs.sockmon,
            *(f"--sockets={end}" for end in series.sockets),
            *(f"--queue={device}" for device in series.queues),
            *(f"--counters={end}" for end in series.sockets),
            *(f"--watch={device}" for device, what in series.queues.items() if what == watched),
            "--cpu",
            f"--tree={os.getpid()}",
            *sockmon.rates(
                run.traffic.interval_s,
                sockmon.DISCOVER_SHORT_HZ if short_flows else sockmon.DISCOVER_HZ,
            ),
        ]
        self._refusal = sockmon.refusal(LocalHost(), self._argv)

    @contextmanager
    def sampling(self, began_s: float) -> Iterator[int | None]:
        """Samples until the context ends, into files in the folder of logs. Yields the process id
        of ccmix-sockmon, or None if it does not work here and ss and tc sample in its place.

        `began_s` is the time at which the traffic will begin (seconds since the epoch).
        ccmix-sockmon expects the signal SIGUSR1 when the traffic really begins.
        """
        sampled, sockmon_pid = {}, None
        with ExitStack() as probes:
            if self._refusal:
                self.diagnostics.append(
                    f"sockets and queues were sampled by ss and tc: {self._refusal}"
                )
                from ccmix.probes.sampler import sampling  # noqa: PLC0415  # few runs need it

                for name, (host, command) in _fallback_commands(self._path).items():
                    samples = sampling(
                        host, command, self._run.traffic.interval_s, self._logs / f"{name}.jsonl"
                    )
                    sampled[name] = probes.enter_context(samples)
            else:
                argv = [*self._argv, *sockmon.moments(self._run.traffic, began_s)]
                stream = self._logs / run_files.SOCKMON_STREAM
                process = LocalHost().start(argv, stdout=stream, stderr=sockmon.errors_of(stream))
                sockmon_pid = probes.enter_context(process).pid
            if probe := self._run.traffic.rtt_probe:
                pair = self._path.pairs[0]
                command = rtt_beside.argv(self._rtt_program, probe, pair.receiver_address)
                files = {
                    "stdout": self._logs / run_files.RTT_SAMPLES,
                    "stderr": self._logs / run_files.RTT_ERRORS,
                }
                probes.enter_context(self._path.sender(pair).start(command, **files))
            yield sockmon_pid
        self.reports |= {name: ProbeReport(**asdict(report)) for name, report in sampled.items()}


@contextmanager
def _capturing(run: Run, path: Dumbbell, folder: Path) -> Iterator[CaptureReport | None]:
    """Captures packets until the context ends, if the run asks for it, at their
    arrival at the router that delays them. Yields the report on the capture; None if the run asks
    for none. The file is written into `folder`.
    """
    if run.topology.capture is None:
        yield None
        return
    from ccmix.probes.capture import capturing_in_namespace  # noqa: PLC0415  # few runs need it

    devices = [pair.ack_delay.place.device for pair in path.pairs]
    with capturing_in_namespace(path.host(DELAY), devices, run.topology.capture, folder) as report:
        yield report


def _series(path: Dumbbell) -> SeriesNames:
    """Returns the meaning of the names in ccmix-sockmon's output: for each namespace whether it is
    a sender or a receiver, for each address its sender, and for each device with a queue its
    purpose.
    """
    senders = {path.sender(pair).name: "sender" for pair in path.pairs}
    return SeriesNames(
        sockets=senders | {path.receiver(pair).name: "receiver" for pair in path.pairs},
        senders={pair.sender_address: pair.sender.name for pair in path.pairs},
        queues={
            f"{path.host(queue.place.namespace).name}/{queue.place.device}": queue.what
            for queue in path.layout.emulating
        },
    )


def _fallback_commands(path: Dumbbell) -> dict[str, tuple[Host, Sequence[str]]]:
    """Returns the commands of ss and tc that sample instead of ccmix-sockmon, if that does not work
    on this kernel. Each comes with the host on which it runs, by the name of the series that it
    gives, such as 'sockets' or 'queues'.
    """
    from ccmix.probes import sockets  # noqa: PLC0415  # few runs need it

    socket_commands = {
        "sockets" if len(path.pairs) == 1 else f"sockets-{pair.sender.name}": (
            path.sender(pair),
            sockets.COMMAND,
        )
        for pair in path.pairs
    }
    place = path.bottleneck.place
    return socket_commands | {
        "queues": (path.host(place.namespace), qdisc.statistics_command(place.device))
    }


def main() -> int:
    """Runs `python -m ccmix.run.measure FOLDER IPERF3 SOCKMON RTT`, which measures the pickled run
    in FOLDER. Writes the measurement as JSON, or the reason of a failure to logs/error.txt.
    """
    # exits by an exception, so that changes are undone
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder, programs = Path(sys.argv[1]), Programs(*sys.argv[2:])
    run: Run = pickle.loads((folder / run_files.JOB).read_bytes())
    try:
        measurement = measure(run, folder, programs)
        (folder / run_files.FACTS).write_text(json.dumps(asdict(measurement), indent=1))
    except (CommandError, GeneratorError, OSError) as error:
        (folder / run_files.ERROR).write_text(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
