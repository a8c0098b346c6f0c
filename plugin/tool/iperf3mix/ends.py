"""Runs one end of a test: the source's client, which tries to connect until the server listens, or
the dest's server, which waits for its client until the slot ends.
"""

from __future__ import annotations

import math
import time

from . import iperf3, results
from .agreement import AddressError, Agreement, Route, RunSlot, choose_route
from .iperf3 import Iperf3Report
from .results import OutputError, Result
from .spec import Request

RETRY_EVERY_S = 0.2
LEAST_CONNECT_S = 1.0
# Beginnings of errors after which another attempt may succeed: the server doesn't listen yet, is
# busy with a foreign test, or is about to end.
_PASSING = (
    "unable to connect to server",
    "the server is busy",
    "unable to receive control message",
    "control socket has closed unexpectedly",
)
# Signs in an error that no packet came back (strerror of ETIMEDOUT, EHOSTUNREACH, ENETUNREACH)
_NO_ANSWER = ("timed out", "No route to host", "unreachable")
RESTART_EVERY_S = 0.2
# A server whose tool died ends by itself this long after the slot
BACKSTOP_S = 5.0
# The beginning of errors after which the client doesn't try again: this kernel refuses a CCA or a
# rate
_PERMANENT = "unable to set"


def run_client(request: Request, agreement: Agreement, slot: RunSlot, program: str) -> Result:
    """Makes the test and returns its result."""
    try:
        route = choose_route(request)
    except AddressError as error:
        return results.failure(str(error))
    slot.wait_for_start()
    began = time.time()
    attempts = 0
    while True:
        attempts += 1
        connect_s = max(slot.last_start(request) - time.time(), LEAST_CONNECT_S)
        report = iperf3.run(
            client_command(request, agreement, route, program, connect_s),
            slot.stop,
            request.client_cpu,
        )
        if report.test_began or not report.in_time or not report.error.startswith(_PASSING):
            return _result(report, request, report.diags(), sends=not request.reverse)
        if time.time() + RETRY_EVERY_S > slot.last_start(request):
            break
        time.sleep(RETRY_EVERY_S)
    tried = f"{attempts} attempt{'s'[: attempts - 1]} in {time.time() - began:.1f} s"
    return results.failure(
        f"iperf3: {report.error} ({tried}){_hint(report, route, agreement)}", report.diags()
    )


def _hint(report: Iperf3Report, route: Route, agreement: Agreement) -> str:
    """Returns advice for a failed connection, after a colon; "" if the error is clear enough."""
    if "refused" in report.error:
        return (
            f": {route.remote} answers, and no server listens there: see what the other "
            "participant reports"
        )
    if any(sign in report.error for sign in _NO_ANSWER):
        return (
            f": {route.remote} doesn't answer: is the path up (ping), and port "
            f"{agreement.port} open in its firewall?"
        )
    return ""


def client_command(
    request: Request, agreement: Agreement, route: Route, program: str, connect_s: float
) -> list[str]:
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


def run_server(request: Request, agreement: Agreement, slot: RunSlot, program: str) -> Result:
    """Serves one test of its own client and returns its result.

    Other programs that connect, such as a port scanner or a foreign iperf3, lack the client's
    token. iperf3 ends after one connection, so the server then starts again. It listens on all
    addresses, because on this host the host's name may mean another address than the one to which
    the client connects (Debian's 127.0.1.1).
    """
    notes = (
        []
        if agreement.token
        else ["pScheduler gave no participant-data: the server recognises its client by the test"]
    )
    slot.wait_for_start()
    killed = ""
    while True:
        report = iperf3.run(
            server_command(request, agreement, slot, program), slot.stop, request.server_cpu
        )
        if _is_of_this_run(report, request, agreement) and (
            report.test_began or report.error.startswith(_PERMANENT)
        ):
            return _result(report, request, report.diags(notes), sends=request.reverse)
        if not report.in_time and not report.output:
            return results.failure(
                "iperf3 had to be killed when its slot ended: it left no result",
                report.diags(notes),
            )
        if report.in_time and report.killed_by:
            killed = (
                f"{report.killed_by} ended iperf3 {time.time() - slot.start:.1f} s after "
                "the slot's start"
            )
        if not report.in_time or time.time() + RESTART_EVERY_S > slot.stop:
            return results.failure(
                _nothing_began(request, agreement, notes, killed), report.diags(notes)
            )
        note = f"the server started again: {_why_ended(report)}"
        notes += [note] if notes[-1:] != [note] else []
        time.sleep(RESTART_EVERY_S)


def _nothing_began(request: Request, agreement: Agreement, notes: list[str], killed: str) -> str:
    """Explains why this side saw no test before the slot ended."""
    if killed:
        return f"{killed}, perhaps in the middle of the test, and none began after that"
    nothing = "no test of this run began before its slot ended"
    if notes:
        return f"{nothing}; {notes[-1]}"
    source = request.source or "the source"
    return (
        f"{nothing}: nobody connected to port {agreement.port}. If {source} reports that it "
        "tried, look at the path "
        "between both (ping) and at this host's firewall"
    )


def server_command(
    request: Request, agreement: Agreement, slot: RunSlot, program: str
) -> list[str]:
    """Returns the server's command, which ends by itself after the slot if no client has
    connected.
    """
    at_most_s = math.ceil(slot.stop - time.time() + BACKSTOP_S)
    argv = [
        program,
        "-s",
        "-1",
        "-J",
        "-p",
        str(agreement.port),
        "--idle-timeout",
        str(max(at_most_s, 1)),
    ]
    return argv + ([f"-{request.ip_version}"] if request.ip_version is not None else [])


def _is_of_this_run(report: Iperf3Report, request: Request, agreement: Agreement) -> bool:
    if agreement.token:
        return report.extra_data == agreement.token
    asked = {
        "num_streams": request.streams,
        "duration": request.duration_s,
        "omit": request.omit_s,
        "reverse": int(request.reverse),
    }
    return bool(report.extra_data) and (
        not report.test_began or asked.items() <= report.test.items()
    )


def _why_ended(report: Iperf3Report) -> str:
    if report.test_began:
        return f"a test from {report.accepted}, which does not belong to this run"
    if report.accepted and not report.error:
        return f"{report.accepted} connected, and left before a test began"
    return report.error


def _result(report: Iperf3Report, request: Request, diags: str, *, sends: bool) -> Result:
    if not report.in_time:
        return results.failure(iperf3.too_late(report), diags)
    if report.error:
        return results.failure(f"iperf3: {report.error}", diags)
    try:
        return results.of_run(report.output, request, sends=sends, diags=diags)
    except OutputError as error:
        return results.failure(str(error), diags)
