"""The client of a run: the source, which connects until the server is there."""

from __future__ import annotations

import time

from . import addresses, iperf3, results
from .addresses import Route
from .agreement import Agreement
from .results import OutputError, Result
from .slot import Slot
from .spec import Request

RETRY_EVERY_S = 0.2
LEAST_CONNECT_S = 1.0
# How errors begin that another attempt may not meet: no server yet, one that is busy with a stranger's test, one that
# just ends.
_PASSING = (
    "unable to connect to server",
    "the server is busy",
    "unable to receive control message",
    "control socket has closed unexpectedly",
)


def run(request: Request, agreement: Agreement, slot: Slot, program: str) -> Result:
    """Makes the test, and says how it went."""
    try:
        route = addresses.route(request)
    except addresses.AddressError as error:
        return results.failure(str(error))
    slot.wait_for_start()
    began = time.time()
    attempts = 0
    while True:
        attempts += 1
        connect_s = max(slot.last_start(request) - time.time(), LEAST_CONNECT_S)
        said = iperf3.run(command(request, agreement, route, program, connect_s), slot.stop, request.client_cpu)
        if said.test_began or not said.in_time or not said.error.startswith(_PASSING):
            return _result(said, request)
        if time.time() + RETRY_EVERY_S > slot.last_start(request):
            break
        time.sleep(RETRY_EVERY_S)
    tried = f"{attempts} attempt{'s'[: attempts - 1]} in {time.time() - began:.1f} s"
    return results.failure(f"iperf3: {said.error} ({tried})", said.diags())


def command(request: Request, agreement: Agreement, route: Route, program: str, connect_s: float) -> list[str]:
    """The client's argv; it tries for so many seconds to connect."""
    argv = [program, "-c", route.remote, "-p", str(agreement.port), "-J", "-C", request.congestion]
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


def _result(said: iperf3.Said, request: Request) -> Result:
    if not said.in_time:
        return results.failure("the test didn't end before its slot", said.diags())
    if said.error:
        return results.failure(f"iperf3: {said.error}", said.diags())
    try:
        return results.of_run(said.output, request, sends=not request.reverse, diags=said.diags())
    except OutputError as error:
        return results.failure(str(error), said.diags())
