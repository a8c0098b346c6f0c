"""The patched iperf3: a server on the receiver, and a client that mixes CCAs over its parallel streams."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ccmix.generators.results import GeneratorError, load_json
from ccmix.hosts.host import Host, Process
from ccmix.hosts.words import last_line
from ccmix.model import Traffic

PORT = 5201
CLIENT_FILE, SERVER_FILE, ERRORS_FILE = "h1-iperf3-client.json", "h1-iperf3-server.json", "h1-iperf3-errors.log"
STARTS_WITHIN_S = 10.0
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


def longest_s(traffic: Traffic, rtt_s: float) -> float:
    """After which a test can't be about to end any more."""
    return traffic.seconds + ROUND_TRIPS_A_STREAM * traffic.streams * rtt_s + ENDS_WITHIN_S


def run_test(ends: Ends, traffic: Traffic, timeout_s: float, folder: Path) -> tuple[list[str], list[str] | None]:
    """Runs one test from sender to receiver and leaves both ends' JSON in `folder`; returns both command lines.

    Raises GeneratorError or CommandError.
    """
    client_argv = [
        ends.sender_iperf3, "--client", ends.address, "--port", str(ends.port), "--json",
        "--parallel", str(traffic.streams), "--congestion", ",".join(map(str, traffic.groups)),
        "--time", f"{traffic.duration_s:.0f}", "--omit", f"{traffic.omit_s:.0f}",
        "--interval", f"{traffic.interval_s:g}", "--zerocopy", "--skip-rx-copy",
    ]  # fmt: skip
    server_argv = [
        ends.receiver_iperf3, "--server", "--one-off", "--port", str(ends.port), "--json",
        "--interval", f"{traffic.interval_s:g}",
    ]  # fmt: skip
    client_json, server_json, errors = folder / CLIENT_FILE, folder / SERVER_FILE, folder / ERRORS_FILE
    with ExitStack() as started:
        server = None
        if ends.receiver:
            server = started.enter_context(ends.receiver.start(server_argv, stdout=server_json, stderr=errors))
            _wait_until_listening(ends.receiver, server, ends.port, errors)
        else:
            client_argv.append("--get-server-output")
        with ends.sender.start(client_argv, stdout=client_json, stderr=errors) as client:
            client.wait(timeout_s)
        _raise_error(client_json, errors)
        if server:
            server.wait(ENDS_WITHIN_S)
            _raise_error(server_json, errors)
    return client_argv, server_argv if server else None


def _wait_until_listening(receiver: Host, server: Process, port: int, errors: Path) -> None:
    """Looks for the listening socket: connecting to a server of one test would end it."""
    deadline = time.monotonic() + STARTS_WITHIN_S
    while not receiver.run(["ss", "-t", "-l", "-n", "-H", f"sport = :{port}"]).strip():
        if server.ended():
            raise GeneratorError(f"the iperf3 server on {receiver.name} has ended: {last_line(errors)}")
        if time.monotonic() > deadline:
            raise GeneratorError(f"the iperf3 server on {receiver.name} does not listen after {STARTS_WITHIN_S:g} s")
        time.sleep(0.02)


def _raise_error(result: Path, errors: Path) -> None:
    try:
        message = load_json(result).get("error")
    except GeneratorError as error:
        said = last_line(errors)
        raise GeneratorError(f"{error}: {said}" if said else str(error)) from error
    if message:
        raise GeneratorError(f"{result.stem}: {message}")
