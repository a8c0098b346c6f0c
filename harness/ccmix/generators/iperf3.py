"""The patched iperf3: a server on the receiver, and a client that mixes CCAs over its parallel streams."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ccmix.generators.results import GeneratorError, load_json
from ccmix.hosts.host import Host, Process
from ccmix.hosts.words import last_line
from ccmix.model import Traffic

PORT = 5201  # of the first line; the others have the ports after it
MOST_PORTS = 1000
LABEL = "h1"  # of a test that is alone
STARTS_WITHIN_S = 10.0
# From the start of a client to its first data, beside one for each stream: as measured over an empty path
ROUND_TRIPS_TO_TCP, ROUND_TRIPS_TO_UDP = 5, 3
ROUND_TRIPS_A_TEST = 12  # of its control connection, before and after the traffic
ROUND_TRIPS_A_STREAM = 4  # streams connect one after the other, and their first packet may wait or be lost
ENDS_WITHIN_S = 60.0  # beyond that and the time of the traffic: draining, exchanging results


@dataclass(frozen=True)
class Ends:
    """Between whom: `receiver` None where somebody's server runs already, which is never touched."""

    sender: Host
    sender_iperf3: str
    receiver: Host | None
    receiver_iperf3: str
    address: str
    port: int = PORT


def client_file(label: str = LABEL) -> str:
    return f"{label}-iperf3-client.json"


def server_file(label: str = LABEL) -> str:
    return f"{label}-iperf3-server.json"


def longest_s(traffic: Traffic, rtt_s: float, streams: int | None = None) -> float:
    """After which a test can't be about to end any more; of `streams`, the traffic's own where None."""
    connecting = ROUND_TRIPS_A_STREAM * (traffic.streams if streams is None else streams)
    return traffic.seconds + (ROUND_TRIPS_A_TEST + connecting) * rtt_s + ENDS_WITHIN_S


class Iperf3Test:
    """One test, which leaves both ends' JSON in `folder`: serve, start, finish, in this order."""

    def __init__(self, ends: Ends, arguments: Sequence[str], interval_s: float, folder: Path, label: str) -> None:
        """`arguments` are the client's, beside those that every test has."""
        self._ends = ends
        self._client_json, self._server_json = folder / client_file(label), folder / server_file(label)
        self._errors = folder / f"{label}-iperf3-errors.log"
        every = ["--port", str(ends.port), "--json", "--interval", f"{interval_s:g}"]
        self.client_argv = [ends.sender_iperf3, "--client", ends.address, *every, *arguments]
        self.server_argv = [ends.receiver_iperf3, "--server", "--one-off", *every] if ends.receiver else None
        self._client: Process | None = None
        self._server: Process | None = None

    def serve(self, started: ExitStack) -> None:
        """Starts the server, unless somebody's runs already, and waits until it listens."""
        if not (self._ends.receiver and self.server_argv):
            self.client_argv.append("--get-server-output")
            return
        receiver = self._ends.receiver
        self._server = started.enter_context(
            receiver.start(self.server_argv, stdout=self._server_json, stderr=self._errors)
        )
        wait_until_listening(receiver, self._server, self._ends.port, self._errors)

    def start(self, started: ExitStack) -> None:
        client = self._ends.sender.start(self.client_argv, stdout=self._client_json, stderr=self._errors)
        self._client = started.enter_context(client)

    def finish(self, timeout_s: float) -> None:
        """Raises GeneratorError or CommandError."""
        assert self._client
        self._client.wait(timeout_s)
        _raise_error(self._client_json, self._errors)
        if self._server:
            self._server.wait(ENDS_WITHIN_S)
            _raise_error(self._server_json, self._errors)


def tcp_arguments(traffic: Traffic) -> list[str]:
    return [
        "--parallel", str(traffic.streams), "--congestion", ",".join(map(str, traffic.groups)),
        "--time", f"{traffic.duration_s:.0f}", "--omit", f"{traffic.omit_s:.0f}", "--zerocopy", "--skip-rx-copy",
    ]  # fmt: skip


def run_test(ends: Ends, traffic: Traffic, timeout_s: float, folder: Path) -> tuple[list[str], list[str] | None]:
    """Runs one test alone; returns both command lines. Raises GeneratorError or CommandError."""
    test = Iperf3Test(ends, tcp_arguments(traffic), traffic.interval_s, folder, LABEL)
    with ExitStack() as started:
        test.serve(started)
        test.start(started)
        test.finish(timeout_s)
    return test.client_argv, test.server_argv


def wait_until_listening(receiver: Host, server: Process, port: int, errors: Path, name: str = "iperf3") -> None:
    """Looks for the listening socket: connecting to a server of one test would end it."""
    deadline = time.monotonic() + STARTS_WITHIN_S
    while not receiver.run(["ss", "-t", "-l", "-n", "-H", f"sport = :{port}"]).strip():
        if server.ended():
            raise GeneratorError(f"the {name} server on {receiver.name} has ended: {last_line(errors)}")
        if time.monotonic() > deadline:
            raise GeneratorError(f"the {name} server on {receiver.name} does not listen after {STARTS_WITHIN_S:g} s")
        time.sleep(0.02)


def _raise_error(result: Path, errors: Path) -> None:
    try:
        message = load_json(result).get("error")
    except GeneratorError as error:
        said = last_line(errors)
        raise GeneratorError(f"{error}: {said}" if said else str(error)) from error
    if message:
        raise GeneratorError(f"{result.stem}: {message}")
