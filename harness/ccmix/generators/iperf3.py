"""The patched iperf3: a server on the receiver, and a client that mixes CCAs over its parallel streams."""

import json
import time
from pathlib import Path
from typing import Any

from ccmix.hosts import Host
from ccmix.model import Traffic

PORT = 5201
STARTS_WITHIN_S = 10.0
ROUND_TRIPS_A_STREAM = 4  # streams connect one after the other, and their first packet may wait or be lost
ENDS_WITHIN_S = 60.0  # beyond that and the time of the traffic: draining, exchanging results


class GeneratorError(Exception):
    """The traffic did not run as asked; the message says why in one line."""


def run_test(
    sender: Host, receiver: Host, address: str, traffic: Traffic, base_rtt_s: float, iperf3: str, folder: Path
) -> tuple[list[str], list[str]]:
    """Runs one test from sender to receiver and leaves both ends' JSON in `folder`; returns both command lines.

    Raises GeneratorError or CommandError.
    """
    server_argv = [
        iperf3, "--server", "--one-off", "--port", str(PORT), "--json",
        "--interval", f"{traffic.interval_s:g}",
    ]  # fmt: skip
    client_argv = [
        iperf3, "--client", address, "--port", str(PORT), "--json",
        "--parallel", str(traffic.streams), "--congestion", ",".join(map(str, traffic.groups)),
        "--time", f"{traffic.duration_s:.0f}", "--omit", f"{traffic.omit_s:.0f}",
        "--interval", f"{traffic.interval_s:g}", "--zerocopy", "--skip-rx-copy",
    ]  # fmt: skip
    client_json, server_json = folder / "h1-iperf3-client.json", folder / "h1-iperf3-server.json"
    errors = folder / "h1-iperf3-errors.log"
    with receiver.start(server_argv, stdout=server_json, stderr=errors) as server:
        _wait_until_listening(receiver)
        with sender.start(client_argv, stdout=client_json, stderr=errors) as client:
            client.wait(traffic.seconds + ROUND_TRIPS_A_STREAM * traffic.streams * base_rtt_s + ENDS_WITHIN_S)
        _raise_error(client_json, errors)
        server.wait(ENDS_WITHIN_S)
        _raise_error(server_json, errors)
    return client_argv, server_argv


def load_json(file: Path) -> dict[str, Any]:
    """iperf3's own result. Raises GeneratorError where it is not JSON."""
    try:
        result = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise GeneratorError(f"iperf3 left no result in {file.name}: {error}") from error
    if not isinstance(result, dict):
        raise GeneratorError(f"iperf3 left no result in {file.name}: it is not a JSON object")
    return result


def _wait_until_listening(receiver: Host) -> None:
    """Looks for the listening socket: connecting to a server of one test would end it."""
    deadline = time.monotonic() + STARTS_WITHIN_S
    while not receiver.run(["ss", "-t", "-l", "-n", "-H", f"sport = :{PORT}"]).strip():
        if time.monotonic() > deadline:
            raise GeneratorError(f"the iperf3 server on {receiver.name} does not listen after {STARTS_WITHIN_S:g} s")
        time.sleep(0.02)


def _raise_error(result: Path, errors: Path) -> None:
    try:
        message = load_json(result).get("error")
    except GeneratorError as error:
        said = errors.read_text(errors="replace").strip().splitlines()
        raise GeneratorError(f"{error}: {said[-1]}" if said else str(error)) from error
    if message:
        raise GeneratorError(f"{result.stem}: {message}")
