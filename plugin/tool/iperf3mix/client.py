"""Runs the client of a test: the source, which tries to connect until the server listens."""

from __future__ import annotations

import time

from . import addresses, iperf3, results
from .addresses import Route
from .agreement import Agreement
from .iperf3 import Iperf3Report
from .results import OutputError, Result
from .slot import RunSlot
from .spec import Request

RETRY_EVERY_S = 0.2
LEAST_CONNECT_S = 1.0
# Beginnings of errors that another attempt may not meet: no server listens yet, it is busy with a stranger's test, or
# it is about to end.
_PASSING = (
    "unable to connect to server",
    "the server is busy",
    "unable to receive control message",
    "control socket has closed unexpectedly",
)
# Signs in an error that no packet came back (strerror of ETIMEDOUT, EHOSTUNREACH, ENETUNREACH)
_NO_ANSWER = ("timed out", "No route to host", "unreachable")


def run(request: Request, agreement: Agreement, slot: RunSlot, program: str) -> Result:
    """Makes the test and returns its result."""
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
        report = iperf3.run(command(request, agreement, route, program, connect_s), slot.stop, request.client_cpu)
        if report.test_began or not report.in_time or not report.error.startswith(_PASSING):
            return _result(report, request)
        if time.time() + RETRY_EVERY_S > slot.last_start(request):
            break
        time.sleep(RETRY_EVERY_S)
    tried = f"{attempts} attempt{'s'[: attempts - 1]} in {time.time() - began:.1f} s"
    return results.failure(f"iperf3: {report.error} ({tried}){_hint(report, route, agreement)}", report.diags())


def _hint(report: Iperf3Report, route: Route, agreement: Agreement) -> str:
    """Returns where to look when no connection came about, after a colon; "" where the error says enough."""
    if "refused" in report.error:
        return f": {route.remote} answers, and no server listens there: see what the other participant reports"
    if any(sign in report.error for sign in _NO_ANSWER):
        return (
            f": {route.remote} doesn't answer: is the path up (ping), and port {agreement.port} open in its firewall?"
        )
    return ""


def command(request: Request, agreement: Agreement, route: Route, program: str, connect_s: float) -> list[str]:
    """Returns the client's command, which tries to connect for `connect_s`."""
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


def _result(report: Iperf3Report, request: Request) -> Result:
    if not report.in_time:
        return results.failure(iperf3.too_late(report), report.diags())
    if report.error:
        return results.failure(f"iperf3: {report.error}", report.diags())
    try:
        return results.of_run(report.output, request, sends=not request.reverse, diags=report.diags())
    except OutputError as error:
        return results.failure(str(error), report.diags())
