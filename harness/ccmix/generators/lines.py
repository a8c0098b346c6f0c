"""All that makes the traffic of a run on an emulated path: each line's processes, started when it is their time."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from ccmix.conditions.dumbbell import Dumbbell
from ccmix.generators import iperf3
from ccmix.model import Flows, Iperf3Flows, Run, UdpFlows

UDP_HEADERS_BYTES = 28  # IP and UDP


class Generator(Protocol):
    """What makes the flows of one line."""

    def serve(self, started: ExitStack) -> None:
        """Starts what must be there before any traffic. Raises GeneratorError or CommandError."""

    def start(self, started: ExitStack) -> None:
        """Starts the traffic, and doesn't wait for it."""

    def finish(self, timeout_s: float) -> None:
        """Waits for the traffic's end. Raises GeneratorError or CommandError where it did not run as asked."""

    @property
    def commands(self) -> dict[str, Any]:
        """The command lines, for run.json."""


class _Iperf3(iperf3.Iperf3Test):
    @property
    def commands(self) -> dict[str, Any]:
        return {"client": self.client_argv, "server": self.server_argv}


class Traffic:
    """The generators of a run's lines."""

    def __init__(self, run: Run, path: Dumbbell, iperf3_path: str, folder: Path) -> None:
        self._run = run
        self._lines = [
            (line, _generator(run, line, number, path, iperf3_path, folder)) for number, line in enumerate(run.flows)
        ]

    def serve(self, started: ExitStack) -> None:
        for _, generator in self._lines:
            generator.serve(started)

    def run(self, started: ExitStack) -> None:
        """From the first line's start to the last one's end."""
        begin_s = time.monotonic()
        for line, generator in sorted(self._lines, key=lambda pair: pair[0].start_s):
            time.sleep(max(0.0, begin_s + line.start_s - time.monotonic()))
            generator.start(started)
        for line, generator in self._lines:
            generator.finish(_longest_s(self._run, line))

    @property
    def commands(self) -> dict[str, Any]:
        return {line.label: generator.commands for line, generator in self._lines}


def _longest_s(run: Run, line: Flows) -> float:
    """After which a line can't be about to end any more."""
    streams = line.what.streams if isinstance(line.what, Iperf3Flows) else 1
    return iperf3.longest_s(run.traffic, run.topology.base_rtt_s, streams)


def _generator(run: Run, line: Flows, number: int, path: Dumbbell, iperf3_path: str, folder: Path) -> Generator:
    pair = path.pair(line.host)
    ends = iperf3.Ends(
        path.sender(pair), iperf3_path, path.receiver(pair), iperf3_path, pair.receiver_address, iperf3.PORT + number
    )
    match line.what:
        case Iperf3Flows():
            arguments = iperf3.tcp_arguments(run.traffic.of_line(line))
        case UdpFlows() as udp:
            arguments = _udp_arguments(run, line, udp)
        case _:
            raise NotImplementedError
    return _Iperf3(ends, arguments, run.traffic.interval_s, folder, line.label)


def _udp_arguments(run: Run, line: Flows, udp: UdpFlows) -> list[str]:
    """Datagrams of the largest packet's size, until the other traffic ends."""
    seconds = max(1.0, run.traffic.seconds - line.start_s)
    return [
        "--udp", "--bitrate", f"{udp.rate_bps:.0f}", "--parallel", str(udp.udp_streams), "--time", f"{seconds:.0f}",
        "--length", str(run.topology.mtu_bytes - UDP_HEADERS_BYTES),
    ]  # fmt: skip
