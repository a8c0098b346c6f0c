"""Runs ccmix's iperf3: a server on the receiver, and a client whose streams use several CCAs."""

import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ccmix.agent.deadline import Deadline
from ccmix.failures import signal_text
from ccmix.generators.results import GeneratorError, load_json
from ccmix.hosts.errors import CommandError
from ccmix.hosts.host import Host, Process
from ccmix.hosts.output_text import last_line
from ccmix.model import Command, Traffic, run_files
from ccmix.model.group_grammar import format_groups

PORT = 5201  # of the first line; the others have the ports after it
LABEL = "h1"  # of a single test
STARTS_WITHIN_S = 10.0
# RTTs from the start of a client to its first data, in addition to one for each stream, as
# measured over an empty path
ROUND_TRIPS_TO_TCP, ROUND_TRIPS_TO_UDP = 5, 3
ROUND_TRIPS_A_TEST = 12  # of its control connection, before and after the traffic
ROUND_TRIPS_A_STREAM = 4  # streams connect in turn, and their first packet may wait or be lost
SIGNALLED = 128  # plus N: the exit status of a command that signal N has ended
ENDS_WITHIN_S = (
    60.0  # in addition to these and to the time of the traffic: draining, exchanging results
)


@dataclass(frozen=True)
class Iperf3Ends:
    """Describes both ends of an iperf3 test: their hosts, their iperf3 binaries, and the server's
    address. `receiver` is None if a third-party server runs there, which ccmix never changes.
    """

    sender: Host
    sender_iperf3: str
    receiver: Host | None
    receiver_iperf3: str
    address: str
    port: int = PORT


def longest_s(traffic: Traffic, rtt_s: float, streams: int) -> float:
    """Returns the time limit for an iperf3 test in seconds, from the client's start to its end: the
    time of the traffic, the round trips for connecting (4 for each stream) and for the control
    connection (12), and 60 s for exchanging the results.
    """
    connecting = ROUND_TRIPS_A_STREAM * streams
    return traffic.total_s + (ROUND_TRIPS_A_TEST + connecting) * rtt_s + ENDS_WITHIN_S


class Iperf3Test:
    """Runs one iperf3 test, which leaves the JSON of client and server in `folder`.

    Call serve(), start() and finish() in this order.
    """

    def __init__(
        self,
        ends: Iperf3Ends,
        arguments: Sequence[str],
        interval_s: float,
        folder: Path,
        label: str,
        before_client: Sequence[str] = (),
        pid_file: str | None = None,
    ) -> None:
        """Prepares the test, without starting anything.

        arguments: arguments of the client, in addition to those that every test has
        interval_s: seconds between the reports of both ends
        folder, label: the output goes to files in this folder that have the label in their names
        before_client: the words of a command that runs the client, such as a prefix that limits its
            bytes
        pid_file: a path on the sender for the client's process id. With it, both ends report each
            interval as soon as it has ended, and end_now() can end the test early.
        """
        self._ends = ends
        self._client_json, self._server_json = (
            folder / run_files.iperf3_client(label),
            folder / run_files.iperf3_server(label),
        )
        self._errors = folder / run_files.iperf3_errors(label)
        output = "--json-stream" if pid_file else "--json"
        every = ["--port", str(ends.port), output, "--interval", f"{interval_s:g}"]
        ended_by = ["--pidfile", pid_file] if pid_file else []
        self.client_argv = [
            ends.sender_iperf3,
            "--client",
            ends.address,
            *every,
            *ended_by,
            *arguments,
        ]
        self.server_argv = (
            [ends.receiver_iperf3, "--server", "--one-off", *every] if ends.receiver else None
        )
        self._before_client = before_client
        self._pid_file = pid_file
        self.start_signal_pid: int | None = None
        self._client: Process | None = None
        self._server: Process | None = None

    def serve(self, started: ExitStack) -> None:
        """Starts iperf3's server and waits until it listens. The stack `started` ends the server.
        If a third-party server already runs on the receiver, starts none, and makes the client ask
        for the server's results instead.
        """
        if not (self._ends.receiver and self.server_argv):
            self.client_argv.append("--get-server-output")
            return
        receiver = self._ends.receiver
        self._server = started.enter_context(
            receiver.start(self.server_argv, stdout=self._server_json, stderr=self._errors)
        )
        wait_until_listening(receiver, self._server, self._ends.port, self._errors)

    def start(self, started: ExitStack) -> None:
        """Starts iperf3's client, which begins to send as soon as its streams are connected. If
        `start_signal_pid` is set, the client then sends SIGUSR1 to this process. The stack
        `started` ends the client.
        """
        signal = ["--start-signal", str(self.start_signal_pid)] if self.start_signal_pid else []
        argv = [*self._before_client, *self.client_argv, *signal]
        client = self._ends.sender.start(argv, stdout=self._client_json, stderr=self._errors)
        self._client = started.enter_context(client)

    @property
    def commands(self) -> tuple[Command, ...]:
        """Returns the command lines of both ends."""
        server = (Command("server", shlex.join(self.server_argv)),) if self.server_argv else ()
        return (Command("client", shlex.join(self.client_argv)), *server)

    @property
    def client_output(self) -> Path:
        """Returns the file for the client's output."""
        return self._client_json

    @property
    def receiver_output(self) -> Path:
        """Returns the JSON file that has the goodput as the receiver counted it: the server's
        output. With a third-party server, it is the client's output, which then contains the
        server's.
        """
        return self._server_json if self._ends.receiver else self._client_json

    def ends_within(self, timeout_s: float) -> bool:
        """Waits until the client has ended, but at most `timeout_s` seconds, and returns whether it
        has.
        """
        assert self._client
        try:
            self._client.wait(max(timeout_s, 0.0))
        except CommandError:
            return self._client.ended()
        return True

    def end_now(self) -> None:
        """Ends the test early, as if its time were over, so that both ends still write their
        results: sends SIGUSR1 to the client, whose process id is in the pid file. Raises
        CommandError.
        """
        assert self._pid_file
        self._ends.sender.run(
            ["sh", "-c", 'kill -USR1 "$(tr -d "\\0" <"$1")"', "end-iperf3", self._pid_file]
        )

    def finish(self, end: Deadline) -> None:
        """Waits until the client has ended (until the deadline `end`) and then the server. Raises
        GeneratorError if the result of one of them reports an error, and CommandError if one does
        not end.
        """
        assert self._client
        status = self._client.wait(end.remaining_s)
        _raise_error(self._client_json, self._errors, status)
        if self._server:
            status = self._server.wait(ENDS_WITHIN_S)
            _raise_error(self._server_json, self._errors, status)


def tcp_arguments(traffic: Traffic, starts_s: Sequence[float] = ()) -> list[str]:
    """Returns the arguments of iperf3's client for a TCP test. `starts_s` has for each stream the
    seconds by which it starts later than its group of flows; empty if no stream starts later.
    """
    delays = (
        ["--stream-delays", ",".join(f"{start_s:.6f}" for start_s in starts_s)]
        if any(starts_s)
        else []
    )
    return [
        "--parallel",
        str(traffic.streams),
        "--congestion",
        format_groups(traffic.groups),
        "--time",
        f"{traffic.measured_s:.0f}",
        "--omit",
        f"{traffic.omit_s:.0f}",
        "--zerocopy",
        "--skip-rx-copy",
        *delays,
    ]


def run_test(
    ends: Iperf3Ends,
    traffic: Traffic,
    timeout_s: float,
    folder: Path,
    before_client: Sequence[str] = (),
    pid_file: str | None = None,
    watch: Callable[[Iperf3Test], None] | None = None,
) -> tuple[Command, ...]:
    """Runs a single test from the server's start to the client's end, and returns the commands of
    both ends. Raises GeneratorError or CommandError.

    before_client: the words of a command that runs the client, such as a prefix that limits its
        bytes
    pid_file: a path on the sender for the client's process id, which is needed to end the test
        early
    watch: is called with the test after its start, and may end it early
    """
    arguments, interval_s = tcp_arguments(traffic), traffic.goodput_interval_s
    test = Iperf3Test(ends, arguments, interval_s, folder, LABEL, before_client, pid_file)
    with ExitStack() as started:
        test.serve(started)
        test.start(started)
        longest = Deadline(timeout_s)
        if watch:
            watch(test)
        test.finish(longest)
    return test.commands


def wait_until_listening(
    receiver: Host, server: Process, port: int, errors: Path, name: str = "iperf3"
) -> None:
    """Waits until a server listens on the port of the receiver. `ss` tells this; a connection to
    the port would not do, because it would end a server that accepts only one test.

    Raises GeneratorError if the server ends, with the last line of its standard error (the file
    `errors`), or if it does not listen within 10 s. `name` is the server's name in the message.
    """
    deadline = Deadline(STARTS_WITHIN_S)
    while not receiver.run(["ss", "-t", "-l", "-n", "-H", f"sport = :{port}"]).strip():
        if server.ended():
            raise GeneratorError(
                f"the {name} server on {receiver.name} has ended: {last_line(errors)}"
            )
        if deadline.expired:
            raise GeneratorError(
                f"the {name} server on {receiver.name} does not listen after {STARTS_WITHIN_S:g} s"
            )
        time.sleep(0.02)


def _raise_error(result: Path, errors: Path, status: int) -> None:
    """Raises GeneratorError if iperf3's JSON (the file `result`) reports an error or can't be read.
    In the second case, the message names the signal that has ended iperf3, if its exit `status`
    tells one (128 + N or -N), and ends with the last line of its standard error (the file
    `errors`).
    """
    try:
        message = load_json(result).get("error")
    except GeneratorError as error:
        number = status - SIGNALLED if status > SIGNALLED else -status
        killed = f"killed by {signal_text(number)}" if number > 0 else ""
        parts = (str(error), killed, last_line(errors))
        raise GeneratorError(": ".join(filter(None, parts))) from error
    if message:
        raise GeneratorError(f"{result.stem}: {message}")
