"""The client of a run: the source, which connects until the server is there."""

from __future__ import annotations

import shlex
import time
from typing import Any

from . import addresses, process, results
from .agreement import Agreement
from .results import OutputError, Result
from .slot import Slot
from .spec import Request

RETRY_EVERY_S = 0.2
# Errors of iperf3 before a test began, which another attempt may not meet: no server yet, one that is busy with a
# stranger's test, one that just ends.
_PASSING = (
    "unable to connect to server",
    "the server is busy",
    "unable to receive control message",
    "control socket has closed unexpectedly",
    "unable to read from stream socket",
    "unable to initiate",
)


def run(request: Request, agreement: Agreement, slot: Slot, iperf3: str) -> Result:
    """Makes the test, and says how it went."""
    try:
        route = addresses.route(request)
    except addresses.AddressError as error:
        return results.failure(str(error))
    slot.wait_for_start()
    began = time.time()
    attempts = 0
    while True:
        connect_s = max(slot.last_start(request) - time.time(), 1.0)
        argv = command(request, agreement, route, iperf3, connect_s)
        attempts += 1
        ended = process.run(argv, slot.stop, request.client_cpu)
        diags = f"{shlex.join(argv)}\n\n{ended.stdout or ended.stderr}"
        if not ended.in_time:
            return results.failure("the test didn't end before its slot", diags)
        try:
            output = results.parse(ended.stdout)
        except OutputError as error:
            return results.failure(f"{error}; status {ended.status}, {ended.stderr.strip()!r}", diags)
        diags = f"{shlex.join(argv)}\n\n{results.text(output)}"
        error_text = _error(output, ended)
        if error_text is None:
            try:
                return results.of_run(output, request, sends=not request.reverse, diags=diags)
            except OutputError as error:
                return results.failure(str(error), diags)
        if not (error_text.startswith(_PASSING) and not output.get("intervals")):
            return results.failure(f"iperf3: {error_text}", diags)
        if time.time() + RETRY_EVERY_S > slot.last_start(request):
            seconds = time.time() - began
            return results.failure(f"iperf3: {error_text} ({attempts} attempts in {seconds:.1f} s)", diags)
        time.sleep(RETRY_EVERY_S)


def command(request: Request, agreement: Agreement, route: addresses.Route, iperf3: str, connect_s: float) -> list[str]:
    """The client's argv; it tries for so many seconds to connect."""
    argv = [iperf3, "-c", route.remote, "-p", str(agreement.port), "-J", "-C", request.congestion]
    argv += ["--connect-timeout", str(int(connect_s * 1000))]
    argv += ["-t", str(request.duration_s), "-P", str(request.streams)]
    options = {
        "-B": route.local,
        "-O": request.omit_s or None,
        "-i": request.interval_s and f"{request.interval_s:g}",
        "-b": request.bandwidth_bps,
        "--fq-rate": request.fq_rate_bps,
        "-w": request.window_bytes,
        "-l": request.buffer_bytes,
        "-M": request.mss_bytes,
        "-S": request.ip_tos,
        "-L": request.flow_label,
        "--extra-data": agreement.token or None,
    }
    for option, value in options.items():
        if value is not None:
            argv += [option, str(value)]
    flags = {"-R": request.reverse, "-Z": request.zero_copy, "-N": request.no_delay}
    return argv + [flag for flag, wanted in flags.items() if wanted]


def _error(output: dict[str, Any], ended: process.Ended) -> str | None:
    if output.get("error"):
        return str(output["error"]).removeprefix("error - ")
    if ended.status != 0:
        return f"it ended with status {ended.status}: {ended.stderr.strip()}"
    return None
