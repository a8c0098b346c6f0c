"""The server of a run: the dest, which waits for its client until the slot ends."""

from __future__ import annotations

import math
import time

from . import iperf3, results
from .agreement import Agreement
from .results import OutputError, Result
from .slot import Slot
from .spec import Request

RESTART_EVERY_S = 0.2
# How much longer than the slot a server lasts that nobody is left to end
BACKSTOP_S = 5.0
# How errors begin for which the client doesn't come again: a CCA or rate that this kernel refuses
_PERMANENT = "unable to set"


def run(request: Request, agreement: Agreement, slot: Slot, program: str) -> Result:
    """Serves one test of its own client, and says how it went.

    Whoever else connects, such as a scanner of ports or a stranger's iperf3, has not the client's token: the server
    then starts anew, for iperf3 ends after one connection. It listens on all addresses: the host's own name may stand
    for another address here than where the client comes from (Debian's 127.0.1.1).
    """
    notes = [] if agreement.token else ["pScheduler gave no participant-data: the client is known by its test"]
    slot.wait_for_start()
    while True:
        said = iperf3.run(command(request, agreement, slot, program), slot.stop, request.server_cpu)
        if _is_of_this_run(said, request, agreement) and (said.test_began or said.error.startswith(_PERMANENT)):
            return _result(said, request, notes)
        if not said.in_time and not said.output:
            return results.failure("iperf3 had to be killed when its slot ended: it left no result", said.diags(notes))
        if not said.in_time or time.time() + RESTART_EVERY_S > slot.stop:
            last = f"; {notes[-1]}" if notes else ""
            return results.failure(f"no test of this run began before its slot ended{last}", said.diags(notes))
        note = f"the server started anew: {_why_ended(said)}"
        notes += [note] if notes[-1:] != [note] else []
        time.sleep(RESTART_EVERY_S)


def command(request: Request, agreement: Agreement, slot: Slot, program: str) -> list[str]:
    """The server's argv; it ends by itself when nothing has come until after the slot."""
    at_most_s = math.ceil(slot.stop - time.time() + BACKSTOP_S)
    argv = [program, "-s", "-1", "-J", "-p", str(agreement.port), "--idle-timeout", str(max(at_most_s, 1))]
    return argv + ([f"-{request.ip_version}"] if request.ip_version is not None else [])


def _is_of_this_run(said: iperf3.Said, request: Request, agreement: Agreement) -> bool:
    if agreement.token:
        return said.extra_data == agreement.token
    asked = {
        "num_streams": request.streams,
        "duration": request.duration_s,
        "omit": request.omit_s,
        "reverse": int(request.reverse),
    }
    return bool(said.extra_data) and (not said.test_began or asked.items() <= said.test.items())


def _why_ended(said: iperf3.Said) -> str:
    if said.test_began:
        return f"a test of {said.accepted}, which is none of this run"
    if said.accepted and not said.error:
        return f"{said.accepted} connected, and left before a test began"
    return said.error


def _result(said: iperf3.Said, request: Request, notes: list[str]) -> Result:
    diags = said.diags(notes)
    if not said.in_time:
        return results.failure("the test didn't end before its slot", diags)
    if said.error:
        return results.failure(f"iperf3: {said.error}", diags)
    try:
        return results.of_run(said.output, request, sends=request.reverse, diags=diags)
    except OutputError as error:
        return results.failure(str(error), diags)
