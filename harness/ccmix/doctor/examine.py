"""Examines all hosts of the planned runs for `ccmix doctor`, and the pScheduler servers.

Sources come before destinations: what a source measures decides what a destination needs.
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
    """Represents this machine. Commands also find the programs of administrators, such as tc, whose
    folders an ordinary user's PATH may lack.
    """

    def command(self, argv: Sequence[str]) -> list[str]:
        """Returns the command line that runs `argv` with a PATH that has these folders, too."""
        return ["env", f"PATH={os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}", *argv]


def without_agent(name: str) -> Host:
    """Returns a host that needs no connection: this machine, or the namespace 'netns:NAME'.

    Raises CommandError for other hosts, which only an agent over ssh can examine.
    """
    if name == CONTROLLER:
        return ExaminedMachine()
    if name.startswith(NAMESPACE):
        return NamespaceHost(name.removeprefix(NAMESPACE))
    raise CommandError(name, ["ssh", name], "an agent examines hosts over SSH")


def examine(options: DoctorOptions, connect: Connect = without_agent) -> list[Report]:
    """Runs all checks, and returns the reports: this machine, each host of the runs, pSchedulers.

    `connect` returns a connected host for the name that an entry uses.
    """
    all_needs = needs_of(options.runs or ())
    seen: dict[Sending, Seen] = {}
    reports = {name: Report(name) for name in all_needs}
    checks = {
        name: HostChecks(options, reports[name], needs, seen) for name, needs in all_needs.items()
    }
    checks[CONTROLLER].check_controller()  # before any connection, which other campaigns would see
    sources_first = sorted(all_needs, key=lambda name: not all_needs[name].sendings)
    for name in sources_first:
        if not checks[name].works_here:
            continue
        remedy = (
            () if name == CONTROLLER or name.startswith(NAMESPACE) else (line("ssh", name, "true"),)
        )
        why = "ccmix starts and ends all processes on a host through its connection."
        host = reports[name].read("connection", partial(connect, name), why, remedy)
        if host is not None:
            checks[name].check_host(host)
    return [*reports.values(), *_examine_pschedulers(options.runs or ())]


# The version of pScheduler's interface since which the list of tools also has those that can't run
# the test, with their reasons
API = "6"
MOST_AHEAD_S = 1.0  # if the clocks differ by more, the doctor warns


def _examine_pschedulers(runs: Iterable[Run]) -> list[Report]:
    """Returns a report on each pScheduler server that takes part in tests of the runs, leads first.

    The lead of a test is the server to which ccmix posts the task.
    """
    leads = set()
    # By name and CA file of the server: the tasks by their test's specification
    tests_by_server: dict[tuple[str, str | None], dict[str, PschedulerTask]] = {}
    for run in runs:
        if isinstance(run.path, HostPath) and (task := run.traffic.task):
            spec = throughput_spec(run.path, run.traffic)
            for number, name in enumerate(participants(spec, task.lead)):
                server = name, task.tls_ca
                tests_by_server.setdefault(server, {})[json.dumps(spec)] = task
                if number == 0:
                    leads.add(server)
    leads_first = sorted(tests_by_server, key=lambda server: server not in leads)
    return [
        _examine_pscheduler(*server, server in leads, tests_by_server[server])
        for server in leads_first
    ]


def _examine_pscheduler(
    name: str, ca_file: str | None, is_lead: bool, tests: dict[str, PschedulerTask]
) -> Report:
    """Examines one pScheduler server: does it answer, is its clock right, can it run the tests?

    `ca_file` verifies its certificate (None: the system's CAs); `is_lead` is true if ccmix posts
    tasks to it; `tests` has the tasks by their test's specification in JSON.
    """
    report = Report(f"pScheduler at {name}")
    why = "ccmix posts tasks to the lead, and asks it for their results." if is_lead else ""
    server = report.read("REST interface", lambda: _reach_server(name, ca_file), why)
    if server is None:
        return report
    report.findings.append(ok("REST interface", "answers, and its certificate is trusted"))
    report.check("clock", lambda: _judge_clock(server))
    for spec, task in tests.items():
        report.check("test", partial(_judge_test, server, spec))
        report.check("tool", partial(_judge_tools, server, spec, task.tool))
    report.findings = list(dict.fromkeys(report.findings))
    return report


def _reach_server(name: str, ca_file: str | None) -> PschedulerServer:
    """Returns a pScheduler server after it has answered once. Raises ValueError."""
    server = PschedulerServer(name, ca_file, Interruption())
    _ask_server(server, "")
    return server


def _ask_server(server: PschedulerServer, path: str, **parameters: str) -> Any:
    """Returns the answer of pScheduler's REST interface to a GET request. Raises ValueError."""
    try:
        return server.get(path, parameters)
    except PschedulerError as error:
        raise ValueError(str(error)) from error


def _judge_clock(server: PschedulerServer) -> Findings:
    """Compares the server's clock with this machine's. Raises ValueError without an answer."""
    clock = clock_of(server)
    if "error" in clock:
        raise ValueError(clock["error"])
    why = "Participants begin a test at the same time, each by its own clock."
    ahead_s = clock["ahead_s"]
    if abs(ahead_s) > MOST_AHEAD_S + clock["within_s"] / 2:
        difference = (
            f"{format_time(round(abs(ahead_s), 1))} "
            f"{'ahead of' if ahead_s > 0 else 'behind'} this machine's"
        )
        yield warn("clock", difference, why)
    elif clock.get("synchronized") is not True:
        yield warn("clock", "nothing synchronises it", why)
    else:
        yield ok("clock", "synchronised, and that of this machine to a second")


def _judge_test(server: PschedulerServer, spec: str) -> Findings:
    """Asks the server whether it accepts a test with this specification (JSON).

    Raises ValueError for an answer that is not understood.
    """
    answer = _ask_server(server, "tests/throughput/spec/is-valid", spec=spec)
    if not isinstance(answer, dict):
        raise ValueError(f"it answers {answer!r} to the test")  # noqa: TRY004
    if answer.get("valid") is True:
        yield ok("test", "its throughput test supports the entries")
    else:
        yield fail("test", str(answer.get("error")), "It refuses a task with this test.")


def _judge_tools(server: PschedulerServer, spec: str, wanted: str | None) -> Findings:
    """Asks the server which of its tools can run the test, and judges the wanted one.

    `wanted` is None if any tool will do. Raises ValueError for an answer that is not understood.
    """
    test = json.dumps({"type": "throughput", "spec": json.loads(spec)})
    offers = _ask_server(server, "tools", test=test, api=API)
    try:
        reason_by_tool = dict(map(_tool_and_refusal, offers))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"its list of tools is not understood: {error!r}") from error
    able_tools = [name for name, reason in reason_by_tool.items() if reason is None]
    if wanted is None and able_tools:
        yield ok("tool", f"can run the test: {', '.join(able_tools)}")
    elif wanted in able_tools:
        yield ok("tool", f"{wanted} can run the test")
    else:
        refusals = [
            f"{name}: {reason}"
            for name, reason in reason_by_tool.items()
            if reason and wanted in (None, name)
        ]
        seen = "; ".join(refusals) or (
            f"it has no {wanted}" if wanted else "it has no tool for the test"
        )
        yield fail("tool", seen, "Each participant of a test must have the tool for it.")


def _tool_and_refusal(offer: Any) -> tuple[str, str | None]:
    """Returns the name of a tool in pScheduler's answer, and the reason why it can't run the test
    (None: it can).

    Before version 6 of the interface, only tools that can run the test are listed.
    """
    if "can-run" not in offer:
        return str(offer["name"]), None
    reasons: Sequence[str] = offer["can-run"].get("reasons", ())
    can_run = offer["can-run"]["can-run"] is True
    refusal = None if can_run else ", ".join(map(str, reasons)) or "it can't run the test"
    return str(offer["tool"]["name"]), refusal
