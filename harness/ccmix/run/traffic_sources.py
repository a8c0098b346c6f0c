"""Starts the traffic sources of a run on an emulated path at their times, and awaits their ends."""

import itertools
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Protocol

from ccmix.agent.deadline import Deadline
from ccmix.conditions.dumbbell import Dumbbell
from ccmix.conditions.layout import CONTROL_TABLE
from ccmix.generators import http_requests, iperf3
from ccmix.generators.distributions import arrivals
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError, Host, NamespaceHost, Process
from ccmix.hosts.output_text import last_line
from ccmix.model import (
    Command,
    CommandSource,
    HttpSource,
    ImportedSource,
    Iperf3Source,
    PathSource,
    PschedulerSource,
    Run,
    Traffic,
    TrafficSource,
    UdpSource,
    WorkloadSource,
    run_files,
)

FIRST_DATA_PORT, MOST_STREAMS = 10000, 128  # of tests whose control connection bypasses the path
TESTS_WITH_PORTS = 177  # below the kernel's own ports, 32768 and more
UDP_HEADERS_BYTES = 28  # IP and UDP
LEAST_FLOW_BYTES = 16  # of a workload: the header for the receiver
# an environment variable, in guests without the host's programs
IN_USERLAND = "CCMIX_IN_USERLAND"
PROBES_START_WITHIN_S = 0.1
NOT_FOUND = 127  # a shell's exit status for a missing program
LACKS_PROGRAM = (
    "; the lab's own userland has few programs: with host-root = on, guests have this machine's"
)


class Generator(Protocol):
    """Makes the flows of one traffic source, such as an iperf3 test or HTTP downloads."""

    lead_s: float
    """The time from its start to the start of its traffic."""

    def serve(self, started: ExitStack) -> None:
        """Starts programs that must run before any traffic, such as servers; they end with the
        stack. Raises GeneratorError or CommandError.
        """

    def start(self, started: ExitStack) -> None:
        """Starts the traffic without waiting for its end; its programs end with the stack."""

    def finish(self, end: Deadline) -> None:
        """Waits for the traffic's end, which is due at `end`.

        Raises GeneratorError or CommandError if it did not run as requested.
        """

    @property
    def commands(self) -> tuple[Command, ...]:
        """Returns the commands that make the flows."""


class TrafficSources:
    """Runs the traffic of a run: a generator for each of its traffic sources. First call serve(),
    then schedule(), then run().

    `began_s` is the time of the wall clock at which the traffic began, or will begin.
    `settled_after_s` is the measured time of a run that ended early because its goodputs no longer
    changed; otherwise None.
    """

    def __init__(
        self, run: Run, path: Dumbbell, iperf3_path: str, rtt_path: str, folder: Path
    ) -> None:
        """Prepares a generator for each traffic source of the run, without starting anything.

        path: the emulated path that was set up
        iperf3_path, rtt_path: the programs iperf3 and ccmix-rtt
        folder: gets the raw output of the generators
        """
        self._run = run
        self._begin, self.began_s = Deadline(0.0), 0.0
        self.settled_after_s: float | None = None
        spread = run.spread  # random delays, so that flows do not start in step
        self._phase_s = spread.phase_s if spread else 0.0
        starts = spread.starts_s if spread else ((),) * len(run.traffic.sources)
        self._sources = [
            (
                source,
                _start_s(source, starts_s),
                _generator(run, source, port, path, iperf3_path, rtt_path, folder, starts_s),
            )
            for port, source, starts_s in zip(
                itertools.count(iperf3.PORT), run.traffic.sources, starts, strict=False
            )
        ]

    def serve(self, started: ExitStack) -> None:
        """Starts the servers of all sources. They end together with the stack `started`."""
        for *_, generator in self._sources:
            generator.serve(started)

    def schedule(self) -> None:
        """Decides when the traffic will begin, and sets `began_s` to this time: as early as
        possible, but late enough for the probes to start, and for the source that needs the most
        time to connect. The run's random phase (less than a tick of the kernel) is added.
        """
        lead_s = (
            max(generator.lead_s for *_, generator in self._sources)
            + self._phase_s
            + PROBES_START_WITHIN_S
        )
        self._begin, self.began_s = Deadline(lead_s), time.time() + lead_s

    def run(self, started: ExitStack, sockmon_pid: int | None) -> None:
        """Runs all sources, from the first start to the last end. A source whose connections take
        long, because of a long RTT, is started earlier, so that its traffic begins on time.

        When the first iperf3 tests begin to send, they send a signal to ccmix-sockmon
        (`sockmon_pid`; None if it does not run). The planned time would not do, because lost
        packets can delay their connections.
        """
        for source, _, generator in self._sources:
            if isinstance(generator, iperf3.Iperf3Test) and not source.start_s:
                generator.start_signal_pid = sockmon_pid
        if self._run.traffic.at_most_s is not None:
            from ccmix.run.until_settled import ended_when_settled  # noqa: PLC0415  # few runs need it
        begin = self._begin
        for start_s, generator in sorted(self._due, key=lambda due: due[0]):
            time.sleep(begin.plus(start_s).remaining_s)
            generator.start(started)
        if self._run.traffic.at_most_s is not None:
            tests = [
                (source, generator)
                for source, _, generator in self._sources
                if isinstance(source, Iperf3Source | UdpSource)
                and isinstance(generator, iperf3.Iperf3Test)
            ]
            self.settled_after_s = ended_when_settled(self._run, tests, begin)
        for *_, generator in self._sources:
            generator.finish(begin.plus(self._run.traffic.total_s))

    @property
    def commands(self) -> tuple[Command, ...]:
        """Returns the commands that have made the traffic, for the results. The role of a command
        begins with the label of its source, such as 'h1 client'.
        """
        return tuple(
            Command(f"{source.label} {command.role}", command.line)
            for source, _, generator in self._sources
            for command in generator.commands
        )

    @property
    def _due(self) -> Iterator[tuple[float, Generator]]:
        """Yields for each generator the time at which to start it, in seconds after the begin of
        the traffic. The time is negative if the generator must be started earlier, for example to
        open connections.
        """
        return ((start_s - generator.lead_s, generator) for _, start_s, generator in self._sources)


def _start_s(source: TrafficSource, starts_s: Sequence[float]) -> float:
    """Returns when the traffic of a source starts, in seconds after the begin of the traffic.
    `starts_s` are random delays of its streams. iperf3 delays each stream itself, so they don't
    count here; another source has only one delay.
    """
    drawn_s = 0.0 if isinstance(source, Iperf3Source) or not starts_s else starts_s[0]
    return source.start_s + drawn_s


def _generator(
    run: Run,
    source: TrafficSource,
    port: int,
    path: Dumbbell,
    iperf3_path: str,
    rtt_path: str,
    folder: Path,
    starts_s: Sequence[float],
) -> Generator:
    """Creates the generator that makes the flows of a source.

    port: the port of the source's server
    iperf3_path, rtt_path: the programs iperf3 and ccmix-rtt
    folder: gets the generator's raw output
    starts_s: random delays of the source's streams, so that they are not synchronised
    """
    if isinstance(source, CommandSource):
        return _Command(source, path, folder)
    pair = path.pair(source.host)
    sender, receiver, address = path.sender(pair), path.receiver(pair), pair.receiver_address
    ends = iperf3.Iperf3Ends(sender, iperf3_path, receiver, iperf3_path, address, port)
    seconds = run.traffic.total_s - source.start_s
    separate_control = run.topology.control == "beside"
    pid_file = (
        None if run.traffic.at_most_s is None else str(folder / run_files.iperf3_pid(source.label))
    )
    match source:
        case Iperf3Source(streams=streams):
            longest_s = (
                iperf3.longest_s(run.traffic, run.topology.longest_rtt_s, streams)
                - run.traffic.total_s
            )
            arguments = [
                *iperf3.tcp_arguments(run.traffic.of_source(source), starts_s),
                *_data_ports(run, port),
            ]
            lead_s = (iperf3.ROUND_TRIPS_TO_TCP + streams) * pair.sender.base_rtt_s
            return _Iperf3(
                ends,
                arguments,
                run.traffic.goodput_interval_s,
                folder,
                source.label,
                longest_s,
                lead_s,
                pid_file=pid_file,
                separate_control=separate_control,
            )
        case UdpSource() as udp:
            arguments = [
                *_udp_arguments(run, run.traffic.of_source(udp), udp),
                *_data_ports(run, port),
            ]
            lead_s = (iperf3.ROUND_TRIPS_TO_UDP + udp.streams) * pair.sender.base_rtt_s
            return _Iperf3(
                ends,
                arguments,
                run.traffic.goodput_interval_s,
                folder,
                source.label,
                iperf3.ENDS_WITHIN_S,
                lead_s,
                pid_file=pid_file,
                separate_control=separate_control,
            )
        case HttpSource() as http:
            server = python_module(
                "http_server", pair.sender_address, port, http.size_bytes, http.cca
            )
            clients = [
                http_requests.curl(requests, pair.sender_address, port)
                for requests in http.requests_of_clients
            ]
            return HttpDownloads(
                http,
                sender,
                server,
                receiver,
                clients,
                port,
                folder,
                run_files.http(source.label),
                stderr=True,
            )
        case WorkloadSource() as load:
            name = run_files.workload(source.label)
            schedule = folder / run_files.schedule(name)
            drawn = arrivals(load.sizes, load.offered_bps, seconds, f"{run.seed} {source.label}")
            sizes = ((at_s, max(size_bytes, LEAST_FLOW_BYTES)) for at_s, size_bytes in drawn)
            schedule.write_text("".join(f"{at_s:.9f} {size_bytes}\n" for at_s, size_bytes in sizes))
            server = python_module("workload_ends", "receive", address, port)
            client = python_module("workload_ends", "send", address, port, load.cca, schedule)
            return _Service(receiver, server, sender, [client], port, folder, name)
        case PathSource(most_bps=most_bps):
            from ccmix.generators.path_steps import PathSteps  # noqa: PLC0415  # few runs need it

            def start_rtt(
                options: Sequence[str], *, stdout: Path, stderr: Path
            ) -> AbstractContextManager[Process]:
                """Starts ccmix-rtt on the sender, which pings the receiver."""
                return sender.start(
                    [rtt_path, *options, "--", address], stdout=stdout, stderr=stderr
                )

            pid_file = str(folder / run_files.iperf3_pid(source.label))
            return PathSteps(ends, start_rtt, most_bps, seconds, folder, source.label, pid_file)
        case PschedulerSource() | ImportedSource():
            raise AssertionError(f"a source {source.kind} is not possible on an emulated path")


def _udp_arguments(run: Run, traffic: Traffic, udp: UdpSource) -> list[str]:
    """Returns the arguments of iperf3's client for a UDP source. Its datagrams are as large as the
    path's MTU allows.
    """
    return [
        "--udp",
        "--bitrate",
        f"{udp.rate_bps:.0f}",
        "--parallel",
        str(udp.streams),
        "--omit",
        f"{traffic.omit_s:.0f}",
        "--time",
        f"{traffic.measured_s:.0f}",
        "--length",
        str(run.topology.mtu_bytes - UDP_HEADERS_BYTES),
    ]


def _data_ports(run: Run, port: int) -> list[str]:
    """Returns iperf3's option --cport with the first client port for the streams of a test. It is
    needed only if iperf3's control connection bypasses the emulated path; otherwise the result is
    empty.

    Routing rules separate the control connection from the streams by client port: for a control
    connection, the kernel chooses a port from 32768 on. `port` is the port of the test's server.
    """
    if run.topology.control == "path":
        return []
    return [
        "--cport",
        str(FIRST_DATA_PORT + (port - iperf3.PORT) % TESTS_WITH_PORTS * MOST_STREAMS),
    ]


def python_module(module: str, *arguments: object) -> list[str]:
    """Returns the command that runs a module of ccmix.generators, such as 'http_server', in a new
    Python process.
    """
    from ccmix.isolated import module_command  # noqa: PLC0415  # few runs need it

    return module_command(f"ccmix.generators.{module}", *arguments)


class _Iperf3(iperf3.Iperf3Test):
    """Runs an iperf3 test on the emulated path, with its control connection on it or next to it."""

    def __init__(
        self,
        ends: iperf3.Iperf3Ends,
        arguments: list[str],
        interval_s: float,
        folder: Path,
        label: str,
        longest_s: float,
        lead_s: float,
        *,
        pid_file: str | None,
        separate_control: bool,
    ) -> None:
        """Prepares the test.

        longest_s: seconds after the planned end of the traffic by which the test must have ended
        lead_s: seconds from the client's start until its streams send data
        separate_control: whether the control connection has a link of its own

        The other arguments are those of Iperf3Test.
        """
        super().__init__(ends, arguments, interval_s, folder, label, pid_file=pid_file)
        self._longest_s = longest_s
        self.lead_s = lead_s
        assert ends.receiver
        server_port, kernel_ports = str(ends.port), "32768-60999"
        self._rules = (
            [
                (ends.sender, ["dport", server_port, "sport", kernel_ports]),
                (ends.receiver, ["sport", server_port, "dport", kernel_ports]),
            ]
            if separate_control
            else []
        )

    def serve(self, started: ExitStack) -> None:
        """Adds the routing rules that lead the control connection past the emulated path, if it has
        its own link, and starts iperf3's server.
        """
        for host, rule in self._rules:
            host.run(["ip", "rule", "add", "ipproto", "tcp", *rule, "lookup", str(CONTROL_TABLE)])
        super().serve(started)

    def finish(self, end: Deadline) -> None:
        """Waits until the test has ended. `end` is the planned end of the traffic; the test may
        take longer, to exchange its results.
        """
        super().finish(end.plus(self._longest_s))


class _Service:
    """Runs a server on one host, and clients on another host; the clients print when each of their
    flows was complete.
    """

    lead_s = 0.0

    def __init__(
        self,
        server_host: Host,
        server: list[str],
        client_host: Host,
        clients: Sequence[list[str]],
        port: int,
        folder: Path,
        name: str,
        *,
        stderr: bool = False,
    ) -> None:
        """Prepares the commands of the server and of the clients (lists of arguments).

        port: the port on which the server listens
        folder, name: outputs go to files in this folder whose names begin with `name`
        stderr: whether the clients print their results on standard error
        """
        self._server_host, self._server_argv = server_host, server
        self._client_host, self._client_argvs = client_host, clients
        self._port = port
        self._server_files = (
            folder / run_files.server_output(name),
            folder / run_files.server_errors(name),
        )
        self._outputs = [
            folder / run_files.client_output(name, number) for number in range(len(clients))
        ]
        self._errors = folder / run_files.client_errors(name)
        self._stderr = stderr
        self._clients: list[Process] = []

    def serve(self, started: ExitStack) -> None:
        """Starts the server and waits until it listens. Raises GeneratorError."""
        stdout, stderr = self._server_files
        server = started.enter_context(
            self._server_host.start(self._server_argv, stdout=stdout, stderr=stderr)
        )
        iperf3.wait_until_listening(
            self._server_host, server, self._port, stderr, self._server_argv[0]
        )

    def start(self, started: ExitStack) -> None:
        """Starts all clients, without waiting for them."""
        for argv, output in zip(self._client_argvs, self._outputs, strict=True):
            stdout, stderr = (self._errors, output) if self._stderr else (output, self._errors)
            self._clients.append(
                started.enter_context(self._client_host.start(argv, stdout=stdout, stderr=stderr))
            )

    def finish(self, end: Deadline) -> None:
        """Waits for the clients until the deadline `end`, and then ends those that still run. Flows
        that are cut off by this are not in the results. Raises GeneratorError if a client failed.
        """
        for client, argv in zip(self._clients, self._client_argvs, strict=True):
            try:
                status = client.wait(end.remaining_s)
            except CommandError:
                client.end()
                continue
            if status != 0:
                reason = last_line(self._errors)
                raise GeneratorError(
                    f"{argv[0]} on {self._client_host.name} ended with {status}: {reason}"
                )

    @property
    def commands(self) -> tuple[Command, ...]:
        """Returns the commands of the clients and of the server."""
        clients = (Command("clients", shlex.join(argv)) for argv in self._client_argvs)
        return (*clients, Command("server", shlex.join(self._server_argv)))


class HttpDownloads(_Service):
    """Downloads a file again and again over HTTP; each download must be complete."""

    def __init__(self, source: HttpSource, *service: Any, **more: Any) -> None:
        """Prepares the downloads of a source; the other arguments are those of _Service."""
        super().__init__(*service, **more)
        self._source = source

    def finish(self, end: Deadline) -> None:
        """Waits for the clients until the deadline `end`, and then ends those that still run.
        Raises GeneratorError if a client failed, or if the server answered a request with an error
        or with only a part of the file.
        """
        super().finish(end)
        answers = [
            answer for output in self._outputs for answer in http_requests.read_answers(output)
        ]
        wrong = [answer for answer in answers if not http_requests.is_whole(answer, self._source)]
        if wrong:
            first = (
                f"the first with status {wrong[0]['http_code']} and "
                f"{wrong[0]['size_download']} bytes"
            )
            raise GeneratorError(
                f"{self._server_host.name} answered {len(wrong)} of {len(answers)} requests "
                f"wrongly, {first}"
            )


class _Command:
    """Runs a user's shell line on a host of the path as a traffic source, and ends it when the time
    of the traffic is over. {dst} and {src} in the line become addresses.
    """

    lead_s = 0.0

    def __init__(self, source: CommandSource, path: Dumbbell, folder: Path) -> None:
        """Prepares the user's shell line: {dst} and {src} in it become the addresses of the host's
        receiver and sender. Output goes to files in `folder`.
        """
        pair = path.pair_of(source.host)
        shell = source.line.replace("{dst}", pair.receiver_address).replace(
            "{src}", pair.sender_address
        )
        self._host, self._shell = NamespaceHost(path.host(source.host).name), shell
        self._files = (
            folder / run_files.command_output(source.label),
            folder / run_files.command_errors(source.label),
        )
        self._process: Process | None = None

    def serve(self, started: ExitStack) -> None:
        """Does nothing, because a server is a separate source on the receiver."""

    def start(self, started: ExitStack) -> None:
        """Starts a shell with the line on the host, without waiting for it."""
        stdout, stderr = self._files
        self._process = started.enter_context(
            self._host.start(["sh", "-c", self._shell], stdout=stdout, stderr=stderr)
        )

    def finish(self, end: Deadline) -> None:
        """Waits for the command until the deadline `end`, and then ends it. Raises GeneratorError
        if the command has ended by itself with an error.
        """
        assert self._process
        try:
            status = self._process.wait(end.remaining_s)
        except CommandError:
            self._process.end()
            return
        if status != 0:
            reason = last_line(self._files[1])
            hint = LACKS_PROGRAM if status == NOT_FOUND and IN_USERLAND in os.environ else ""
            raise GeneratorError(
                f"{self._host.name}: {self._shell} ended with {status}: {reason}{hint}"
            )

    @property
    def commands(self) -> tuple[Command, ...]:
        """Returns the shell line, with addresses filled in."""
        return (Command("command", self._shell),)
