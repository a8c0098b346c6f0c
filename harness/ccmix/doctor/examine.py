"""Examines all hosts that the runs of a plan need, sources first: what they measure decides what destinations need."""

import os
from collections.abc import Callable, Sequence
from functools import partial

from ccmix.doctor import pscheduler
from ccmix.doctor.checks import DoctorOptions, HostChecks
from ccmix.doctor.findings import NAMESPACE, line
from ccmix.doctor.needs import CONTROLLER, Sending, needs_of
from ccmix.doctor.report import Report, Seen
from ccmix.hosts import CommandError, Host, LocalHost, NamespaceHost

SYSTEM_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"
Connect = Callable[[str], Host]  # by a host's name in an entry; raises CommandError


class ExaminedMachine(LocalHost):
    """Represents this machine as its administrator sees it: an ordinary user's PATH may lack the folders of tc and
    ethtool.
    """

    def command(self, argv: Sequence[str]) -> list[str]:
        return ["env", f"PATH={os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}", *argv]


def without_agent(name: str) -> Host:
    """Returns this machine, or 'netns:NAME'. Raises CommandError for others."""
    if name == CONTROLLER:
        return ExaminedMachine()
    if name.startswith(NAMESPACE):
        return NamespaceHost(name.removeprefix(NAMESPACE))
    raise CommandError(name, ["ssh", name], "hosts over SSH are looked at by an agent")


def examine(options: DoctorOptions, connect: Connect = without_agent) -> list[Report]:
    """Returns the reports of this machine, of each host of the runs in the order in which they name them, and of
    pSchedulers.
    """
    all_needs = needs_of(options.runs or ())
    seen: dict[Sending, Seen] = {}
    reports = {name: Report(name) for name in all_needs}
    checks = {name: HostChecks(options, reports[name], needs, seen) for name, needs in all_needs.items()}
    checks[CONTROLLER].controller()  # before anything is connected, which other campaigns would see
    for name in sorted(all_needs, key=lambda name: not all_needs[name].sendings):
        if not checks[name].works_here:
            continue
        way = () if name == CONTROLLER or name.startswith(NAMESPACE) else (line("ssh", name, "true"),)
        why = "ccmix starts and ends everything on a host by its connection."
        host = reports[name].read("connection", partial(connect, name), why, way)
        if host is not None:
            checks[name].look(host)
    return [*reports.values(), *pscheduler.examine(options.runs or ())]
