"""Checks whether the pSchedulers of entries of type perfSONAR answer, and would take their tests. It only asks them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ccmix.doctor.findings import DoctorFinding, Status
from ccmix.doctor.report import Report
from ccmix.generators.pscheduler.rest import Interruption, PschedulerError, PschedulerServer
from ccmix.generators.pscheduler.runs import clock_of
from ccmix.generators.pscheduler.task import participants, throughput_spec
from ccmix.model import HostPath, PschedulerTask, Run
from ccmix.units import format_time

API = "6"  # whose list of tools has those that refuse, with their reasons
MOST_AHEAD_S = 1.0


def examine(runs: Iterable[Run]) -> list[Report]:
    """Returns a report for each participant of the runs' tests that has a pScheduler, leads first."""
    asked: dict[tuple[str, str | None], tuple[bool, dict[str, PschedulerTask]]] = {}
    for run in runs:
        if isinstance(run.path, HostPath) and (task := run.traffic.task):
            spec = throughput_spec(run.path, run.traffic)
            for number, name in enumerate(participants(spec, task.lead)):
                leads, tests = asked.setdefault((name, task.tls_ca), (number == 0, {}))
                asked[name, task.tls_ca] = (leads or number == 0, tests | {json.dumps(spec): task})
    ordered = sorted(asked.items(), key=lambda item: not item[1][0])
    return [_report(name, ca_file, leads, tests) for (name, ca_file), (leads, tests) in ordered]


def _report(name: str, ca_file: str | None, leads: bool, tests: dict[str, PschedulerTask]) -> Report:
    report = Report(f"pScheduler at {name}")
    why = "The lead is given the tasks, and asked for their results." if leads else ""
    server = report.read("REST interface", lambda: _reached(name, ca_file), why)
    if server is None:
        return report
    report.findings.append(DoctorFinding("REST interface", Status.OK, "answers, and its certificate is trusted"))
    report.check("clock", lambda: _judge_clock(server))
    for spec, task in tests.items():
        report.check("test", partial(_judge_test, server, spec))
        report.check("tool", partial(_judge_tools, server, spec, task.tool))
    report.findings = list(dict.fromkeys(report.findings))
    return report


def _reached(name: str, ca_file: str | None) -> PschedulerServer:
    """Returns the server, which has answered. Raises ValueError."""
    own = PschedulerServer(name, ca_file, Interruption())
    _ask(own, "")
    return own


def _ask(server: PschedulerServer, path: str, **parameters: str) -> Any:
    """Returns the server's answer. Raises ValueError."""
    try:
        return server.get(path, parameters)
    except PschedulerError as error:
        raise ValueError(str(error)) from error


def _judge_clock(server: PschedulerServer) -> Iterator[DoctorFinding]:
    clock = clock_of(server)
    if "error" in clock:
        raise ValueError(clock["error"])
    why = "Participants begin a test at the same time, each by its own clock."
    ahead_s = clock["ahead_s"]
    if abs(ahead_s) > MOST_AHEAD_S + clock["within_s"] / 2:
        apart = f"{format_time(round(abs(ahead_s), 1))} {'ahead of' if ahead_s > 0 else 'behind'} this machine's"
        yield DoctorFinding("clock", Status.WARN, apart, why)
    elif clock.get("synchronized") is not True:
        yield DoctorFinding("clock", Status.WARN, "nothing synchronises it", why)
    else:
        yield DoctorFinding("clock", Status.OK, "synchronised, and that of this machine to a second")


def _judge_test(server: PschedulerServer, spec: str) -> Iterator[DoctorFinding]:
    answer = _ask(server, "tests/throughput/spec/is-valid", spec=spec)
    if not isinstance(answer, dict):
        raise ValueError(f"it answers {answer!r} to the test")  # noqa: TRY004
    if answer.get("valid") is True:
        yield DoctorFinding("test", Status.OK, "its throughput test takes what the entries ask for")
    else:
        yield DoctorFinding("test", Status.FAIL, str(answer.get("error")), "It refuses a task with this test.")


def _judge_tools(server: PschedulerServer, spec: str, wanted: str | None) -> Iterator[DoctorFinding]:
    test = json.dumps({"type": "throughput", "spec": json.loads(spec)})
    offers = _ask(server, "tools", test=test, api=API)
    try:
        reasons = dict(map(_offer, offers))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"its list of tools is not understood: {error!r}") from error
    able = [name for name, reason in reasons.items() if reason is None]
    if wanted is None and able:
        yield DoctorFinding("tool", Status.OK, f"can run the test: {', '.join(able)}")
    elif wanted in able:
        yield DoctorFinding("tool", Status.OK, f"{wanted} can run the test")
    else:
        refused = [f"{name}: {reason}" for name, reason in reasons.items() if reason and wanted in (None, name)]
        seen = "; ".join(refused) or (f"it has no {wanted}" if wanted else "it has no tool for the test")
        why = "Each participant of a test must have the tool for it."
        yield DoctorFinding("tool", Status.FAIL, seen, why)


def _offer(offer: Any) -> tuple[str, str | None]:
    """Returns a tool, and why it can't run the test; None if it can. Before API 6 only tools are listed that can."""
    if "can-run" not in offer:
        return str(offer["name"]), None
    reasons: Sequence[str] = offer["can-run"].get("reasons", ())
    can = offer["can-run"]["can-run"] is True
    return str(offer["tool"]["name"]), None if can else ", ".join(map(str, reasons)) or "it can't run the test"
