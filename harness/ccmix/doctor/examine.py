"""Examines all hosts that the runs of a plan need. Sources come first, because their measurements
decide the needs of destinations.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ccmix.doctor.checks import DoctorOptions, HostChecks
from ccmix.doctor.needs import CONTROLLER, Sending, needs_of
from ccmix.doctor.report import (
    NAMESPACE,
    Findings,
    Report,
    Seen,
    fail,
    line,
    ok,
    warn,
)
from ccmix.generators.pscheduler.rest import Interruption, PschedulerError, PschedulerServer
from ccmix.generators.pscheduler.runs import clock_of
from ccmix.generators.pscheduler.task import participants, throughput_spec
from ccmix.hosts import CommandError, Host, LocalHost, NamespaceHost
from ccmix.model import HostPath, PschedulerTask, Run
from ccmix.units import format_time

SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
Connect = Callable[[str], Host]  # by a host's name in an entry; raises CommandError


class ExaminedMachine(LocalHost):
    """Represents this machine with its administrator's PATH: an ordinary user's PATH may lack the
    folders of tc and ethtool.
    """

    def command(self, argv: Sequence[str]) -> list[str]:
        return ["env", f"PATH={os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}", *argv]


def without_agent(name: str) -> Host:
    """Returns this machine, or 'netns:NAME'. Raises CommandError for other hosts."""
    if name == CONTROLLER:
        return ExaminedMachine()
    if name.startswith(NAMESPACE):
        return NamespaceHost(name.removeprefix(NAMESPACE))
    raise CommandError(name, ["ssh", name], "an agent examines hosts over SSH")


def examine(options: DoctorOptions, connect: Connect = without_agent) -> list[Report]:
    """Returns the reports of this machine, of each host of the runs in their order, and of
    pSchedulers.
    """
    all_needs = needs_of(options.runs or ())
    seen: dict[Sending, Seen] = {}
    reports = {name: Report(name) for name in all_needs}
    checks = {
        name: HostChecks(options, reports[name], needs, seen) for name, needs in all_needs.items()
    }
    checks[CONTROLLER].controller()  # before any connection, which other campaigns would see
    for name in sorted(all_needs, key=lambda name: not all_needs[name].sendings):
        if not checks[name].works_here:
            continue
        way = (
            () if name == CONTROLLER or name.startswith(NAMESPACE) else (line("ssh", name, "true"),)
        )
        why = "ccmix starts and ends all processes on a host through its connection."
        host = reports[name].read("connection", partial(connect, name), why, way)
        if host is not None:
            checks[name].look(host)
    return [*reports.values(), *_examine_pschedulers(options.runs or ())]


API = "6"  # since then the list of tools includes refusing tools, with their reasons
MOST_AHEAD_S = 1.0


def _examine_pschedulers(runs: Iterable[Run]) -> list[Report]:
    """Returns a report for each participant of the runs' tests with a pScheduler, leads
    first.
    """
    asked: dict[tuple[str, str | None], tuple[bool, dict[str, PschedulerTask]]] = {}
    for run in runs:
        if isinstance(run.path, HostPath) and (task := run.traffic.task):
            spec = throughput_spec(run.path, run.traffic)
            for number, name in enumerate(participants(spec, task.lead)):
                leads, tests = asked.setdefault((name, task.tls_ca), (number == 0, {}))
                asked[name, task.tls_ca] = (leads or number == 0, tests | {json.dumps(spec): task})
    ordered = sorted(asked.items(), key=lambda item: not item[1][0])
    return [_report(name, ca_file, leads, tests) for (name, ca_file), (leads, tests) in ordered]


def _report(
    name: str, ca_file: str | None, leads: bool, tests: dict[str, PschedulerTask]
) -> Report:
    """Examines one pScheduler server: whether it answers, its clock, and whether it has the tests
    and tools of the tasks, which are given by the specification of the test. `leads` is true if
    ccmix would post tasks to it.
    """
    report = Report(f"pScheduler at {name}")
    why = "ccmix posts tasks to the lead, and asks it for their results." if leads else ""
    server = report.read("REST interface", lambda: _reached(name, ca_file), why)
    if server is None:
        return report
    report.findings.append(ok("REST interface", "answers, and its certificate is trusted"))
    report.check("clock", lambda: _judge_clock(server))
    for spec, task in tests.items():
        report.check("test", partial(_judge_test, server, spec))
        report.check("tool", partial(_judge_tools, server, spec, task.tool))
    report.findings = list(dict.fromkeys(report.findings))
    return report


def _reached(name: str, ca_file: str | None) -> PschedulerServer:
    """Returns the server after it has answered. Raises ValueError."""
    own = PschedulerServer(name, ca_file, Interruption())
    _ask(own, "")
    return own


def _ask(server: PschedulerServer, path: str, **parameters: str) -> Any:
    """Returns the server's answer. Raises ValueError."""
    try:
        return server.get(path, parameters)
    except PschedulerError as error:
        raise ValueError(str(error)) from error


def _judge_clock(server: PschedulerServer) -> Findings:
    clock = clock_of(server)
    if "error" in clock:
        raise ValueError(clock["error"])
    why = "Participants begin a test at the same time, each by its own clock."
    ahead_s = clock["ahead_s"]
    if abs(ahead_s) > MOST_AHEAD_S + clock["within_s"] / 2:
        apart = (
            f"{format_time(round(abs(ahead_s), 1))} "
            f"{'ahead of' if ahead_s > 0 else 'behind'} this machine's"
        )
        yield warn("clock", apart, why)
    elif clock.get("synchronized") is not True:
        yield warn("clock", "nothing synchronises it", why)
    else:
        yield ok("clock", "synchronised, and that of this machine to a second")


def _judge_test(server: PschedulerServer, spec: str) -> Findings:
    answer = _ask(server, "tests/throughput/spec/is-valid", spec=spec)
    if not isinstance(answer, dict):
        raise ValueError(f"it answers {answer!r} to the test")  # noqa: TRY004
    if answer.get("valid") is True:
        yield ok("test", "its throughput test supports the entries")
    else:
        yield fail("test", str(answer.get("error")), "It refuses a task with this test.")


def _judge_tools(server: PschedulerServer, spec: str, wanted: str | None) -> Findings:
    test = json.dumps({"type": "throughput", "spec": json.loads(spec)})
    offers = _ask(server, "tools", test=test, api=API)
    try:
        reasons = dict(map(_offer, offers))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"its list of tools is not understood: {error!r}") from error
    able = [name for name, reason in reasons.items() if reason is None]
    if wanted is None and able:
        yield ok("tool", f"can run the test: {', '.join(able)}")
    elif wanted in able:
        yield ok("tool", f"{wanted} can run the test")
    else:
        refused = [
            f"{name}: {reason}"
            for name, reason in reasons.items()
            if reason and wanted in (None, name)
        ]
        seen = "; ".join(refused) or (
            f"it has no {wanted}" if wanted else "it has no tool for the test"
        )
        yield fail("tool", seen, "Each participant of a test must have the tool for it.")


def _offer(offer: Any) -> tuple[str, str | None]:
    """Returns a tool, and the reason why it can't run the test (None if it can). Before API 6, only
    tools that can run the test are listed.
    """
    if "can-run" not in offer:
        return str(offer["name"]), None
    reasons: Sequence[str] = offer["can-run"].get("reasons", ())
    can = offer["can-run"]["can-run"] is True
    return str(offer["tool"]["name"]), None if can else ", ".join(
        map(str, reasons)
    ) or "it can't run the test"
