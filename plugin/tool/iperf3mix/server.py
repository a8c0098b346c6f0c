"""Runs the server of a test: the dest, which waits for its client until the slot ends."""

from __future__ import annotations

import math
import time

from . import iperf3, results
from .agreement import Agreement
from .iperf3 import Iperf3Report
from .results import OutputError, Result
from .slot import RunSlot
from .spec import Request

RESTART_EVERY_S = 0.2
# A server whose tool died ends by itself this long after the slot
BACKSTOP_S = 5.0
# The beginning of errors after which the client does not try again: this kernel refuses a CCA or a rate
_PERMANENT = "unable to set"


def run(request: Request, agreement: Agreement, slot: RunSlot, program: str) -> Result:
    """Serves one test of its own client and returns its result.

    Others that connect, such as a port scanner or a stranger's iperf3, lack the client's token. iperf3 ends after one
    connection, so the server then starts anew. It listens on all addresses, since here the host's name may stand for
    another address than the one that the client connects to (Debian's 127.0.1.1).
    """
    notes = (
        [] if agreement.token else ["pScheduler gave no participant-data: the server recognises its client by the test"]
    )
    slot.wait_for_start()
    killed = ""
    while True:
        report = iperf3.run(command(request, agreement, slot, program), slot.stop, request.server_cpu)
        if _is_of_this_run(report, request, agreement) and (report.test_began or report.error.startswith(_PERMANENT)):
            return _result(report, request, notes)
        if not report.in_time and not report.output:
            return results.failure(
                "iperf3 had to be killed when its slot ended: it left no result", report.diags(notes)
            )
        if report.in_time and report.killed_by:
            killed = f"{report.killed_by} ended iperf3 {time.time() - slot.start:.1f} s after the slot's start"
        if not report.in_time or time.time() + RESTART_EVERY_S > slot.stop:
            return results.failure(_nothing_began(request, agreement, notes, killed), report.diags(notes))
        note = f"the server started anew: {_why_ended(report)}"
        notes += [note] if notes[-1:] != [note] else []
        time.sleep(RESTART_EVERY_S)


def _nothing_began(request: Request, agreement: Agreement, notes: list[str], killed: str) -> str:
    """Returns why the slot has ended without a test that this side knows of."""
    if killed:
        return f"{killed}, perhaps in the middle of the test, and none began after that"
    nothing = "no test of this run began before its slot ended"
    if notes:
        return f"{nothing}; {notes[-1]}"
    source = request.source or "the source"
    return (
        f"{nothing}: nobody connected to port {agreement.port}. If {source} reports that it tried, look at the path "
        "between both (ping) and at this host's firewall"
    )


def command(request: Request, agreement: Agreement, slot: RunSlot, program: str) -> list[str]:
    """Returns the server's command, which ends by itself when nothing has come until after the slot."""
    at_most_s = math.ceil(slot.stop - time.time() + BACKSTOP_S)
    argv = [program, "-s", "-1", "-J", "-p", str(agreement.port), "--idle-timeout", str(max(at_most_s, 1))]
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
    return bool(report.extra_data) and (not report.test_began or asked.items() <= report.test.items())


def _why_ended(report: Iperf3Report) -> str:
    if report.test_began:
        return f"a test from {report.accepted}, which does not belong to this run"
    if report.accepted and not report.error:
        return f"{report.accepted} connected, and left before a test began"
    return report.error


def _result(report: Iperf3Report, request: Request, notes: list[str]) -> Result:
    diags = report.diags(notes)
    if not report.in_time:
        return results.failure(iperf3.too_late(report), diags)
    if report.error:
        return results.failure(f"iperf3: {report.error}", diags)
    try:
        return results.of_run(report.output, request, sends=request.reverse, diags=diags)
    except OutputError as error:
        return results.failure(str(error), diags)
