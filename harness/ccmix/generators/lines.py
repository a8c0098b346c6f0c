"""All that makes the traffic of a run on an emulated path: each line's processes, started when it is their time."""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from ccmix.conditions.dumbbell import Dumbbell
from ccmix.generators import iperf3
from ccmix.generators.distributions import arrivals
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError, Host, Process
from ccmix.hosts.words import last_line
from ccmix.model import CommandFlows, Flows, HttpFlows, Iperf3Flows, Run, Traffic, UdpFlows, WorkloadFlows

UDP_HEADERS_BYTES = 28  # IP and UDP
LEAST_FLOW_BYTES = 16  # of a workload: what tells the receiver of it
# what curl says of each transfer, on its standard error, which it does not hold back
HTTP_COLUMNS = ("http_code", "size_download", "time_connect", "time_starttransfer", "time_total")


class Generator(Protocol):
    """What makes the flows of one line."""

    lead_s: float
    """From its start to that of its traffic."""

    def serve(self, started: ExitStack) -> None:
        """Starts what must be there before any traffic. Raises GeneratorError or CommandError."""

    def start(self, started: ExitStack) -> None:
        """Starts the traffic, and doesn't wait for it."""

    def finish(self, end_s: float) -> None:
        """Waits for the traffic's end, which is due at `end_s` of the monotonic clock.

        Raises GeneratorError or CommandError where it did not run as asked.
        """

    @property
    def commands(self) -> dict[str, Any]:
        """The command lines, for run.json."""


class Lines:
    """The generators of a run's lines; `began_s` is the wall clock when the traffic began."""

    def __init__(self, run: Run, path: Dumbbell, iperf3_path: str, folder: Path) -> None:
        self._run = run
        self.began_s = 0.0
        self._lines = [
            (line, _generator(run, line, iperf3.PORT + number, path, iperf3_path, folder))
            for number, line in enumerate(run.flows)
        ]

    @property
    def lead_s(self) -> float:
        """From run() to the begin of the traffic."""
        return max(generator.lead_s for _, generator in self._lines)

    def serve(self, started: ExitStack) -> None:
        for _, generator in self._lines:
            generator.serve(started)

    def run(self, started: ExitStack) -> None:
        """From the first line's start to the last one's end; each has its traffic when it is due, whatever its path."""
        begin_s, self.began_s = time.monotonic() + self.lead_s, time.time() + self.lead_s
        for line, generator in sorted(self._lines, key=lambda pair: pair[0].start_s - pair[1].lead_s):
            time.sleep(max(0.0, begin_s + line.start_s - generator.lead_s - time.monotonic()))
            generator.start(started)
        for _, generator in self._lines:
            generator.finish(begin_s + self._run.seconds)

    @property
    def commands(self) -> dict[str, Any]:
        return {line.label: generator.commands for line, generator in self._lines}


def _generator(run: Run, line: Flows, port: int, path: Dumbbell, iperf3_path: str, folder: Path) -> Generator:
    if isinstance(line.what, CommandFlows):
        return _Command(line, path, folder)
    pair = path.pair(line.host)
    sender, receiver, address = path.sender(pair), path.receiver(pair), pair.receiver_address
    ends = iperf3.Ends(sender, iperf3_path, receiver, iperf3_path, address, port)
    seconds = run.traffic.seconds - line.start_s
    match line.what:
        case Iperf3Flows(streams=streams):
            longest_s = iperf3.longest_s(run.traffic, run.topology.longest_rtt_s, streams) - run.traffic.seconds
            arguments = iperf3.tcp_arguments(run.traffic.of_line(line))
            lead_s = (iperf3.ROUND_TRIPS_TO_TCP + streams) * pair.sender.base_rtt_s
            return _Iperf3(ends, arguments, run.traffic.interval_s, folder, line.label, longest_s, lead_s)
        case UdpFlows() as udp:
            arguments = _udp_arguments(run, run.traffic.of_line(line), udp.rate_bps)
            lead_s = (iperf3.ROUND_TRIPS_TO_UDP + udp.udp_streams) * pair.sender.base_rtt_s
            return _Iperf3(ends, arguments, run.traffic.interval_s, folder, line.label, iperf3.ENDS_WITHIN_S, lead_s)
        case HttpFlows() as http:
            server = python_module("http_server", pair.sender_address, port, http.size_bytes, http.http_cca)
            clients = [curl(requests, pair.sender_address, port) for requests in http.requests_of_clients]
            return HttpDownloads(
                http, sender, server, receiver, clients, port, folder / f"{line.label}-http", stderr=True
            )
        case WorkloadFlows() as load:
            schedule = folder / f"{line.label}-workload-schedule.txt"
            drawn = arrivals(load.sizes, load.offered_bps, seconds, f"{run.seed} {line.label}")
            sizes = ((at_s, max(size_bytes, LEAST_FLOW_BYTES)) for at_s, size_bytes in drawn)
            schedule.write_text("".join(f"{at_s:.9f} {size_bytes}\n" for at_s, size_bytes in sizes))
            server = python_module("workload_ends", "receive", address, port)
            client = python_module("workload_ends", "send", address, port, load.workload_cca, schedule)
            return _Service(receiver, server, sender, [client], port, folder / f"{line.label}-workload")


def _udp_arguments(run: Run, traffic: Traffic, rate_bps: float) -> list[str]:
    """Datagrams of the largest packet's size."""
    return [
        "--udp", "--bitrate", f"{rate_bps:.0f}", "--parallel", str(traffic.streams),
        "--omit", f"{traffic.omit_s:.0f}", "--time", f"{traffic.duration_s:.0f}",
        "--length", str(run.topology.mtu_bytes - UDP_HEADERS_BYTES),
    ]  # fmt: skip


def curl(requests: int, address: str, port: int) -> list[str]:
    """One request after the other. Several at a time are several processes: curl's own --parallel lets one transfer
    wait for another (7.88, measured).
    """
    told = "%{stderr}" + " ".join(f"%{{{name}}}" for name in HTTP_COLUMNS) + "\\n"
    url = f"http://{address}:{port}/[1-{requests}]"
    return ["curl", "--silent", "--output", "/dev/null", "--write-out", told, url]


def python_module(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-S", "-m", f"ccmix.generators.{module}", *map(str, arguments)]


class _Iperf3(iperf3.Iperf3Test):
    def __init__(
        self, ends: iperf3.Ends, arguments: list[str], interval_s: float, folder: Path, label: str, longest_s: float,
        lead_s: float,
    ) -> None:  # fmt: skip
        super().__init__(ends, arguments, interval_s, folder, label)
        self._longest_s = longest_s
        self.lead_s = lead_s

    def finish(self, end_s: float) -> None:
        super().finish(end_s + self._longest_s - time.monotonic())

    @property
    def commands(self) -> dict[str, Any]:
        return {"client": self.client_argv, "server": self.server_argv}


class _Service:
    """A server on one host, and clients on another that write down when their flows were through."""

    lead_s = 0.0

    def __init__(
        self, server_host: Host, server: list[str], client_host: Host, clients: Sequence[list[str]], port: int,
        stem: Path, *, stderr: bool = False,
    ) -> None:  # fmt: skip
        """Outputs go to files that begin with `stem`; a client's is its standard error where `stderr` says so."""
        self._server_host, self._server_argv = server_host, server
        self._client_host, self._client_argvs = client_host, clients
        self._port = port
        self._server_files = (beside(stem, "server.txt"), beside(stem, "server.log"))
        self._told = [client_file(stem, number) for number in range(len(clients))]
        self._errors = beside(stem, "client.log")
        self._stderr = stderr
        self._clients: list[Process] = []

    def serve(self, started: ExitStack) -> None:
        stdout, stderr = self._server_files
        server = started.enter_context(self._server_host.start(self._server_argv, stdout=stdout, stderr=stderr))
        iperf3.wait_until_listening(self._server_host, server, self._port, stderr, self._server_argv[0])

    def start(self, started: ExitStack) -> None:
        for argv, told in zip(self._client_argvs, self._told, strict=True):
            stdout, stderr = (self._errors, told) if self._stderr else (told, self._errors)
            self._clients.append(started.enter_context(self._client_host.start(argv, stdout=stdout, stderr=stderr)))

    def finish(self, end_s: float) -> None:
        """What has not come to its end by then is cut off, and not in a client's file."""
        for client, argv in zip(self._clients, self._client_argvs, strict=True):
            try:
                status = client.wait(max(0.0, end_s - time.monotonic()))
            except CommandError:
                client.end()
                continue
            if status != 0:
                said = last_line(self._errors)
                raise GeneratorError(f"{argv[0]} on {self._client_host.name} ended with {status}: {said}")

    @property
    def commands(self) -> dict[str, Any]:
        return {"clients": self._client_argvs, "server": self._server_argv}


class HttpDownloads(_Service):
    """Requests for a file, which is to come as a whole each time."""

    def __init__(self, asked: HttpFlows, *service: Any, **more: Any) -> None:
        super().__init__(*service, **more)
        self._asked = asked

    def finish(self, end_s: float) -> None:
        """Raises GeneratorError also where a request was not answered with the whole file."""
        super().finish(end_s)
        answers = [answer for told in self._told for answer in http_answers(told)]
        wrong = [answer for answer in answers if not is_whole(answer, self._asked)]
        if wrong:
            first = f"the first with status {wrong[0]['http_code']} and {wrong[0]['size_download']} bytes"
            raise GeneratorError(
                f"{self._server_host.name} answered {len(wrong)} of {len(answers)} requests wrongly, {first}"
            )


def http_answers(told: Path) -> list[dict[str, str]]:
    """What curl has written of each request that came to its end; it may have been stopped within a line."""
    lines = told.read_text().split("\n")[:-1]
    return [dict(zip(HTTP_COLUMNS, line.split(), strict=True)) for line in lines]


def is_whole(answer: Mapping[str, str], asked: HttpFlows) -> bool:
    return answer["http_code"] == "200" and int(answer["size_download"]) == asked.size_bytes


def beside(stem: Path, end: str) -> Path:
    return stem.with_name(f"{stem.name}-{end}")


def client_file(stem: Path, number: int) -> Path:
    """What the client of this number, from 0, has told of its flows."""
    return beside(stem, f"client-{number + 1}.txt")


class _Command:
    """A shell line of the user's, which is ended when the traffic's time is over."""

    lead_s = 0.0

    def __init__(self, line: Flows, path: Dumbbell, folder: Path) -> None:
        assert isinstance(line.what, CommandFlows)
        pair = path.pair_of(line.host)
        shell = line.what.line.replace("{dst}", pair.receiver_address).replace("{src}", pair.sender_address)
        self._host, self._argv = path.host(line.host), ["sh", "-c", shell]
        self._files = folder / f"{line.label}-command.out", folder / f"{line.label}-command.err"
        self._process: Process | None = None

    def serve(self, started: ExitStack) -> None:
        """Nothing: a server is a line of its own, on the receiver."""

    def start(self, started: ExitStack) -> None:
        stdout, stderr = self._files
        self._process = started.enter_context(self._host.start(self._argv, stdout=stdout, stderr=stderr))

    def finish(self, end_s: float) -> None:
        assert self._process
        try:
            status = self._process.wait(max(0.0, end_s - time.monotonic()))
        except CommandError:
            self._process.end()
            return
        if status != 0:
            raise GeneratorError(
                f"{self._host.name}: {self._argv[-1]} ended with {status}: {last_line(self._files[1])}"
            )

    @property
    def commands(self) -> dict[str, Any]:
        return {"command": self._argv[-1]}
