"""All hosts that the runs of a plan need, sources first: what they see of a path decides what destinations need."""

from collections.abc import Callable
from functools import partial

from ccmix.doctor.checks import HostChecks, Options
from ccmix.doctor.needs import CONTROLLER, Sending, needs_of
from ccmix.doctor.report import Report, Seen
from ccmix.hosts import CommandError, Host, LocalHost, NamespaceHost

Connect = Callable[[str], Host]  # by a host's name in an entry; raises CommandError


def without_agent(name: str) -> Host:
    """This machine, or 'netns:NAME'. Raises CommandError for others."""
    if name == CONTROLLER:
        return LocalHost()
    if name.startswith("netns:"):
        return NamespaceHost(name.removeprefix("netns:"))
    raise CommandError(name, ["ssh", name], "hosts over SSH can't be looked at yet")


def examine(options: Options, connect: Connect = without_agent) -> list[Report]:
    """Of this machine first, then of each host of the runs in the order in which they name them."""
    all_needs = needs_of(options.runs or ())
    seen: dict[Sending, Seen] = {}
    reports = {name: Report(name) for name in all_needs}
    for name in sorted(all_needs, key=lambda name: not all_needs[name].sendings):
        report = reports[name]
        checks = HostChecks(options, report, all_needs[name], seen)
        checks.controller()
        if checks.works_here:
            why = "ccmix starts and ends everything there by this way."
            host = report.read("connection", partial(connect, name), why, (f"ssh {name} true",))
            if host is not None:
                checks.look(host)
    return list(reports.values())
