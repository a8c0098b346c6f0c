"""Runs the checks of one host, in the order of the table."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ccmix.agent import journal, left_journals
from ccmix.doctor import device, kernel, paths, resources, rights, this_machine
from ccmix.doctor.needs import CONTROLLER, Needs, Sending, programs_in
from ccmix.doctor.report import (
    DoctorFinding,
    Report,
    Seen,
    ask,
    fail,
    files,
    line,
    ok,
    unknown,
)
from ccmix.doctor.this_machine import judge_lab_parameters
from ccmix.hosts import CommandError, Host
from ccmix.hosts.agent_host import AgentHost
from ccmix.model import Run
from ccmix.run.reachable import unreachable
from ccmix.tools import ToolError, find_iperf3

PATCHED_IPERF3 = "ccmix-iperf3"  # among the tools that a host needs; not one that a shell finds
TOPOLOGY_TOOLS = ("ip", "tc", "ss", "ethtool", "sysctl", "ping", "setpriv")
DEFAULT_QDISC = "/proc/sys/net/core/default_qdisc"  # network namespaces don't show it


@dataclass(frozen=True)
class DoctorOptions:
    """Describes what to examine; `runs` is None without a configuration, `outdir` is None if no
    results are written.
    """

    runs: tuple[Run, ...] | None
    outdir: Path | None
    in_lab: bool = False


class HostChecks:
    """Runs the checks of one host; `seen` has the measurements of sources towards their
    destinations, and this host adds its own.
    """

    def __init__(
        self, options: DoctorOptions, report: Report, needs: Needs, seen: dict[Sending, Seen]
    ) -> None:
        self._options = options
        self._report = report
        self._needs = needs
        self._seen = seen
        self._devices: dict[str, device.Device] = {}
        self._has: dict[str, bool | None] = {}  # parts of the kernel, if asked
        self._alone = options.runs is None  # nothing is needed, everything may be
        self._is_controller = report.host == CONTROLLER
        self._emulated = bool(needs.topologies)
        self._in_namespaces = self._emulated and not options.in_lab
        self._polices = self._in_namespaces and any(path.policer for path in needs.topologies)

    @property
    def works_here(self) -> bool:
        """Returns whether any part of the runs is done on the host itself, outside the lab."""
        needs = self._needs
        return (
            self._alone
            or self._in_namespaces
            or bool(needs.sendings or needs.receives or needs.netem)
        )

    def controller(self) -> None:
        """Checks the machine that ccmix runs on, before any host."""
        report, needs, outdir = self._report, self._needs, self._options.outdir
        if self._alone or self._emulated:
            report.check(
                "lab", lambda: this_machine.judge_lab(needs.topologies, self._options.in_lab)
            )
        if self._emulated and self._options.in_lab:
            report.check("lab: CCAs", lambda: this_machine.judge_ccas_of_lab(needs.lab_ccas))
            report.check("lab: parameters", lambda: judge_lab_parameters(needs.topologies))
        if self._in_namespaces:
            report.check("namespaces", lambda: this_machine.judge_namespaces(os.geteuid()))
        if self._alone or PATCHED_IPERF3 in needs.tools:
            report.check("patched iperf3", lambda: this_machine.judge_iperf3(not self._alone))
        if rights.inside():
            self._container()
        report.check(
            "left by dead runs",
            lambda: rights.judge_journals([undo.what for undo in left_journals.left()]),
        )
        needed = self.works_here and not self._alone
        report.check("other campaigns", lambda: rights.judge_lock(rights.read_sockets(), needed))
        if outdir:
            report.check(
                "results",
                lambda: resources.judge_outdir(outdir, needs.runs, needs.all_captures_bytes),
            )

    def _container(self) -> None:
        report, needs = self._report, self._needs
        wanted = {
            rights.CAPTURES: "NET_RAW" in needs.root_for.values(),
            rights.QUEUES: "NET_ADMIN" in needs.root_for.values(),
            rights.SYSCTLS: any("sysctl" in text for text in needs.lines),
            rights.PARAMETERS: bool(needs.parameters),
            rights.NAMESPACES: self._in_namespaces,
        }
        needed = [use for use, wants in wanted.items() if wants]
        report.check("container", lambda: rights.judge(this_machine.read_rights(), needed))
        report.check("container", lambda: rights.judge_network(rights.read_devices()))
        if os.geteuid() == 0:  # others change nothing of the host
            report.check("container", lambda: rights.judge_state(journal.state_folder()))

    def look(self, host: Host) -> None:
        """Runs all other checks."""
        report, needs = self._report, self._needs
        if isinstance(host, AgentHost) and not self._is_controller:
            report.check(
                "left by dead runs", lambda: rights.judge_journals(host.hello["left"], [host.name])
            )
            report.check(
                "other campaigns", lambda: rights.judge_lock(host.read(rights.SOCKETS), needed=True)
            )
        who = report.read("login", lambda: rights.read_login(host))
        if who:
            self._rights(who)
        self._ccas(host, privileged=who is not None and who.is_privileged)
        if needs.loads or self._alone:
            report.check(
                "BPF",
                lambda: kernel.judge_needs(
                    kernel.read_needs(host, who is not None and who.sudo), sorted(needs.loads)
                ),
            )
        self._kernel(host)
        for sending in needs.sendings:
            self._way(host, sending)
        for sending in needs.receives:
            self._receiving_device(host, sending)
        if self._alone:
            self._default_device(host)
        for name in needs.netem:
            self._device(host, name)
            self._netem(host, name)
        self._buffers(host)
        self._processors(host)
        if self._alone or needs.sendings or needs.receives:
            report.check("clock", lambda: resources.judge_clock(resources.read_clock(host)))
        self._programs(host)
        if needs.capture_bytes:
            folder = host.temporary if isinstance(host, AgentHost) else resources.TEMPORARY
            report.check("room for captures", lambda: self._room(host, folder))

    def _rights(self, who: rights.Login) -> None:
        report, needs = self._report, self._needs
        report.uid = who.uid
        if self._is_controller and rights.inside():
            report.findings.append(ok("privileges", f"{who.user}, in a container: see above"))
            return
        report.check(
            "privileges", lambda: rights.judge_privileges(who, needs.root_for, self._in_namespaces)
        )
        sysctls = self._in_namespaces or any("sysctl" in text for text in needs.lines)
        report.check(
            "/proc/sys", lambda: rights.judge_writable(who, bool(needs.parameters), sysctls)
        )

    def _ccas(self, host: Host, privileged: bool) -> None:
        if not (self._alone or self._in_namespaces or self._needs.sendings):
            return
        wanted = self._needs.ccas
        host_ccas = self._report.read("CCAs", lambda: kernel.read_ccas(host, wanted))
        if host_ccas:
            self._report.check(
                "CCAs",
                lambda: kernel.judge_ccas(host_ccas, wanted, privileged, self._patched_iperf3()),
            )
        for path in self._needs.parameters:
            self._report.findings.append(_parameter(host, path))

    def _patched_iperf3(self) -> str | None:
        try:
            return str(find_iperf3()) if self._is_controller else None
        except ToolError:
            return None

    def _kernel(self, host: Host) -> None:
        needs = self._needs
        paced = any(sending.paced for sending in needs.sendings)
        wanted = {
            "fq": paced or self._in_namespaces,
            "netem": bool(needs.netem) or self._in_namespaces,
            "tbf": self._in_namespaces,
            **dict.fromkeys(kernel.OF_A_POLICER, self._polices),
        }
        shown = {name for name in wanted if wanted[name] or self._alone}
        if not shown and not needs.sendings:
            return
        self._has = self._report.read("kernel", lambda: kernel.read_kernel(host)) or {}
        has = {name: there for name, there in self._has.items() if name in shown}
        needed = {name for name in wanted if wanted[name]}
        self._report.check("kernel", lambda: kernel.judge_kernel(has, needed, self._in_namespaces))

    def _way(self, host: Host, sending: Sending) -> None:
        """Checks the path to one destination: answers, round-trip time, path MTU and the sending
        device.
        """
        report, name = self._report, sending.path.dst.address
        why = "Nothing can be sent to a destination whose name has no address."
        addresses = report.read(
            f"name {name}",
            lambda: paths.read_addresses(host, name),
            why,
            (line("getent", "ahosts", name),),
        )
        if not addresses:
            return
        pings = {
            address: report.read(f"ping {address}", partial(paths.read_ping, host, address)) or ""
            for address in addresses
        }
        answers = [
            (rtt_s, address)
            for address, output in pings.items()
            if (rtt_s := paths.base_rtt_s(output)) is not None
        ]
        silent = (
            None if answers else report.read(f"TCP {name}", lambda: unreachable(host, sending.path))
        )
        report.findings += [
            paths.judge_family(address, output, silent) for address, output in pings.items()
        ]
        sends_by = self._sending_device(host, sending, addresses[0])
        if answers and sends_by:
            self._path_mtu(host, sends_by, answers[0][1])
        rtt_s = min(answers)[0] if answers else None
        self._seen[sending] = Seen(
            rtt_s, sends_by.speed_bps if sends_by else None, tuple(addresses)
        )

    def _path_mtu(self, host: Host, sends_by: device.Device, address: str) -> None:
        def judge() -> Iterable[DoctorFinding]:
            size, reported = paths.path_mtu(paths.probe(host, address), sends_by.mtu_bytes)
            return paths.judge_path_mtu(sends_by, address, size, reported)

        self._report.check(f"path MTU {address}", judge)

    def _sending_device(self, host: Host, sending: Sending, address: str) -> device.Device | None:
        route = ["ip", "-j", "route", "get", address]
        name = sending.path.nic or self._report.read(
            "network device", lambda: device.route_device(ask(host, route))
        )
        if not name:
            return None
        rates = [
            load.flow_bps * load.streams for load in sending.loads if load.flow_bps is not None
        ]
        sends_by = self._device(host, name, max(rates, default=None))
        if sends_by:
            self._fq(host, name, sending.paced)
        return sends_by

    def _receiving_device(self, host: Host, sending: Sending) -> None:
        seen = self._seen.get(sending)
        if seen is None:
            return
        addresses = ["ip", "-j", "addr", "show"]
        name = self._report.read(
            "network device", lambda: device.device_with(ask(host, addresses), seen.addresses)
        )
        if name:
            self._device(host, name)

    def _default_device(self, host: Host) -> None:
        routes = ["ip", "-j", "route", "show", "default"]
        name = self._report.read("network device", lambda: device.default_device(ask(host, routes)))
        if name and self._device(host, name):
            self._fq(host, name, paced=False)

    def _device(
        self, host: Host, name: str, needed_bps: float | None = None
    ) -> device.Device | None:
        """Runs all checks of a device, except those of its queue, once. `needed_bps` is the sum of
        the entries' pacing.
        """
        if name in self._devices:
            return self._devices[name]
        report = self._report
        nic = report.read(
            f"NIC {name}",
            lambda: device.read_device(host, name),
            "The entries name this device.",
            (line("ip", "-br", "link"),),
        )
        if nic is None:
            return None
        self._devices[name] = nic
        report.check(f"NIC {name}", lambda: device.judge_link(nic, needed_bps))
        report.check(f"MTU {name}", lambda: device.judge_mtu(nic))
        rings = report.read(f"rings {name}", lambda: device.read_rings(host, name))
        if rings is not None:
            report.check(f"rings {name}", lambda: device.judge_rings(nic, rings))
        loses = self._needs.netem.get(name)
        offloads = ["ethtool", "-k", name]
        report.check(
            f"offloads {name}", lambda: device.judge_offloads(nic, ask(host, offloads), loses)
        )
        return nic

    def _fq(self, host: Host, name: str, paced: bool) -> None:
        if self._has.get("fq") is False:
            return  # the check of the kernel reports it
        bbr = any(cca.startswith("bbr") for cca in self._needs.ccas)

        def judge() -> Iterable[DoctorFinding]:
            default = files(host, DEFAULT_QDISC).get(DEFAULT_QDISC, "")
            return device.judge_sending(name, device.read_qdiscs(host, name), default, paced, bbr)

        self._report.check(f"fq {name}", judge)

    def _netem(self, host: Host, name: str) -> None:
        self._report.check(
            f"queue {name}", lambda: device.judge_netem(name, device.read_qdiscs(host, name))
        )

    def _buffers(self, host: Host) -> None:
        needs, report = self._needs, self._report
        if not needs.sendings and not needs.receives:
            return
        sends, receives = self._demand(needs.sendings), self._demand(needs.receives)
        if sends is None and receives is None:
            why = (
                "ccmix needs pacing or a device that reports its speed, and a destination "
                "that answers pings."
            )
            report.findings.append(
                unknown("buffers", "the rate or the round-trip time of the path is not known", why)
            )
        report.check(
            "buffers",
            lambda: paths.judge_buffers(
                paths.read_buffers(host), sends, receives, needs.windows_bytes
            ),
        )

    def _demand(self, ways: Iterable[Sending]) -> paths.Demand | None:
        """Returns the largest demand of all paths."""
        demands = [
            paths.demand(sending.loads, seen.rtt_s, seen.speed_bps)
            for sending in ways
            if (seen := self._seen.get(sending))
        ]
        return max(
            (demand for demand in demands if demand),
            key=lambda demand: demand.flow_bytes,
            default=None,
        )

    def _processors(self, host: Host) -> None:
        report = self._report
        report.check(
            "CPU governor", lambda: resources.judge_governors(resources.read_governors(host))
        )
        report.check("cores", lambda: resources.judge_cores(resources.read_cores(host)))
        for nic in self._devices.values():
            if nic.numa_node is not None:
                report.check(f"cores near {nic.name}", partial(resources.look_near, host, nic))
            if (
                nic.speed_bps
                and nic.speed_bps >= resources.BALANCED_BPS
                and nic.driver != device.VIRTUAL
            ):
                report.check("irqbalance", partial(resources.look_at_irqbalance, host, nic))

    def _programs(self, host: Host) -> None:
        needs = self._needs
        used_by = {name: use for name, use in needs.tools.items() if name != PATCHED_IPERF3}
        if self._in_namespaces:
            used_by |= dict.fromkeys(TOPOLOGY_TOOLS, "a topology without --lab")
        for text in needs.lines:
            used_by |= {
                name: f"the command '{text[:60]}'"
                for name in programs_in(text)
                if name not in used_by
            }
        if self._alone:
            used_by = dict.fromkeys(TOPOLOGY_TOOLS, "ccmix")
        installed = self._report.read("programs", lambda: resources.read_programs(host, used_by))
        if installed:
            red_hat = bool(self._report.read("programs", lambda: resources.is_red_hat(host)))
            self._report.check(
                "programs",
                lambda: resources.judge_programs(installed, used_by, red_hat, not self._alone),
            )

    def _room(self, host: Host, folder: str) -> Iterable[DoctorFinding]:
        return resources.judge_temporary(
            folder,
            resources.free_bytes(resources.read_free(host, folder)),
            self._needs.capture_bytes,
        )


def _parameter(host: Host, path: str) -> DoctorFinding:
    """Returns a finding on whether a parameter below /sys/module exists, and on its value."""
    try:
        value = host.read(f"/sys/module/{path}").strip()
    except CommandError as error:
        return fail(
            f"parameter {path}",
            error.reason,
            "The entries vary it; its module is not loaded, or has no such parameter.",
            line("modprobe", path.partition("/")[0]),
        )
    return ok(f"parameter {path}", value)
