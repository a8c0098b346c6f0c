"""The server of a run: the dest, which waits for its client until the slot ends."""

from __future__ import annotations

import math
import shlex
import time
from typing import Any

from . import process, results
from .agreement import Agreement
from .results import OutputError, Result
from .slot import Slot
from .spec import Request

RESTART_EVERY_S = 0.2
# Longer than the slot, for a server that nobody is left to end
_BACKSTOP_S = 5.0
_PERMANENT = ("unable to set",)  # a CCA or rate that this kernel refuses: the client doesn't come again


def run(request: Request, agreement: Agreement, slot: Slot, iperf3: str) -> Result:
    """Serves one test of its own client, and says how it went.

    Whoever else connects, such as a scanner of ports or a stranger's iperf3, has not the client's token: the server then
    starts anew, for iperf3 ends after one connection. It listens on all addresses: the host's own name may stand for
    another address here than where the client comes from (Debian's 127.0.1.1).
    """
    notes: list[str] = []
    slot.wait_for_start()
    last_error = ""
    while True:
        argv = command(request, agreement, iperf3, slot.stop - time.time() + _BACKSTOP_S)
        ended = process.run(argv, slot.stop, request.server_cpu)
        if not ended.in_time:
            what = f": {last_error}" if last_error else f", on port {agreement.port}"
            return results.failure(f"no client came before the slot ended{what}", _diags(argv, notes, ""))
        try:
            output = results.parse(ended.stdout)
        except OutputError:
            output = {"error": ended.stderr.strip() or f"it ended with status {ended.status} and said nothing"}
        error = str(output.get("error") or "").removeprefix("error - ")
        if output.get("extra_data") == agreement.token:
            diags = _diags(argv, notes, results.text(output))
            if not error:
                try:
                    return results.of_run(output, request, sends=request.reverse, diags=diags)
                except OutputError as problem:
                    return results.failure(str(problem), diags)
            if output.get("intervals") or error.startswith(_PERMANENT):
                return results.failure(f"iperf3: {error}", diags)
        elif output.get("start", {}).get("accepted_connection"):
            notes.append(f"ignored a test of {output['start']['accepted_connection'].get('host')}: not of this run")
        if error:
            last_error = error
            notes += [f"the server started anew after: {error}"] if error not in " ".join(notes[-1:]) else []
        if time.time() + RESTART_EVERY_S > slot.stop:
            return results.failure(
                f"no client came before the slot ended: {last_error or 'others did'}", _diags(argv, notes, "")
            )
        time.sleep(RESTART_EVERY_S)


def command(request: Request, agreement: Agreement, iperf3: str, at_most_s: float) -> list[str]:
    """The server's argv; it ends by itself when nothing has come for so many seconds."""
    argv = [iperf3, "-s", "-1", "-J", "-p", str(agreement.port), "--idle-timeout", str(math.ceil(at_most_s))]
    return argv + ([f"-{request.ip_version}"] if request.ip_version is not None else [])


def _diags(argv: list[str], notes: list[str], output: str) -> str:
    return "\n".join([shlex.join(argv), *notes, "", output])
