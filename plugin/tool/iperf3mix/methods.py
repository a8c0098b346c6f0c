"""Answers the six methods of a pScheduler tool: they read JSON and write JSON.

Failures are data: a method's exit status is nonzero only if its answer has no place for an error,
such as that of duration.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from . import NAME, VERSION, agreement, ends, host, iperf3, results, spec

NEWEST_INPUT_SCHEMA = 1  # of the input that the runner gives to run


class InputError(ValueError):
    """Reports standard input that pScheduler would not give."""


def enumerate_() -> NoReturn:
    _answer(
        {
            "schema": 1,
            "name": NAME,
            "description": "Measure throughput with streams of different congestion control "
            "algorithms",
            "version": VERSION,
            "tests": ["throughput"],
            "preference": 20,  # above iperf3's 10: can-run accepts only tests that iperf3 can't do
            "maintainer": {"name": "ccmix"},
        }
    )


def can_run() -> NoReturn:
    try:
        spec.read(_input())
    except InputError as error:
        _answer({"can-run": False, "reasons": [str(error)]})
    except spec.SpecError as error:
        _answer({"can-run": False, "reasons": error.reasons})
    _answer({"can-run": True, "reasons": []})


def duration() -> NoReturn:
    try:
        request = spec.read(_input())
    except (InputError, spec.SpecError) as error:
        sys.exit(f"{NAME}: {error}")
    _answer({"duration": spec.duration_text(agreement.needed_s(request))})


def participant_data() -> NoReturn:
    try:
        given = _input()
        participant = given.get("participant")
    except InputError as error:
        sys.exit(f"{NAME}: {error}")
    if participant not in (agreement.CLIENT, agreement.SERVER) or isinstance(participant, bool):
        sys.exit(
            f"{NAME}: participant is {participant!r}, and the test has the participants 0 and 1"
        )
    _answer(host.participant_data(participant))


def run() -> NoReturn:
    iperf3.cancel_on_signals()
    try:
        _answer(_run())
    except iperf3.Cancelled as signal:
        _answer(results.failure(f"the run was ended by {signal}"))


def merged_results() -> NoReturn:
    try:
        given = _input()
    except InputError as error:
        _answer(results.failure(str(error)))
    _answer(results.merge(given.get("test"), given.get("results")))


def _run() -> results.Result:
    try:
        given = _input()
        request = spec.read(given.get("test"))
        participant, times = _participant_and_slot(given)
        settings = host.load_settings()
        agreed = _agree(request, participant, given.get("participant-data"), settings.port)
    except (InputError, spec.SpecError, agreement.Disagreement, host.ToolConfigError) as error:
        return results.failure(str(error))
    side: Callable[..., results.Result] = (
        ends.run_client if participant == agreement.CLIENT else ends.run_server
    )
    cpu = request.client_cpu if participant == agreement.CLIENT else request.server_cpu
    if cpu is not None and cpu not in iperf3.usable_cpus():
        return results.failure(
            f"CPU {cpu} is not one that iperf3 may use here: there are "
            f"{sorted(iperf3.usable_cpus())}"
        )
    try:
        return side(request, agreed, times, settings.iperf3)
    except OSError as error:
        return results.failure(f"iperf3 can't be run: {error}")


def _agree(request: spec.Request, participant: int, data: object, port: int) -> agreement.Agreement:
    """Returns the conclusion of both ends. A server without data relies on its client, which
    connects only if it agrees.
    """
    if participant == agreement.SERVER and agreement.data_is_missing(data):
        agreement.every_group_sends(request)
        return agreement.Agreement(port, "")
    return agreement.agree(request, data)


def _participant_and_slot(given: dict[str, Any]) -> tuple[int, agreement.RunSlot]:
    schema = given.get("schema", 1)
    if schema != NEWEST_INPUT_SCHEMA or isinstance(schema, bool):
        raise InputError(
            f"the run's schema is {schema!r}, and this tool knows {NEWEST_INPUT_SCHEMA}"
        )
    participant = given.get("participant")
    if participant not in (agreement.CLIENT, agreement.SERVER) or isinstance(participant, bool):
        raise InputError(
            f"participant is {participant!r}, and the test has the participants 0 and 1"
        )
    schedule = given.get("schedule")
    try:
        start = spec.moment_s(schedule["start"])  # type: ignore[index]
        length_s = spec.duration_s(schedule["duration"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the run's schedule can't be read: {error}") from None
    return participant, agreement.RunSlot(start, start + length_s)


def _input() -> dict[str, Any]:
    """Reads standard input; raises InputError."""
    try:
        given = json.loads(sys.stdin.buffer.read())
    except (ValueError, RecursionError) as error:
        raise InputError(f"standard input is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise InputError("standard input is not a JSON object")
    return given


def _answer(answer: dict[str, Any]) -> NoReturn:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    # Nothing is left to do, and a closed pipe is not an error
    os._exit(0)
