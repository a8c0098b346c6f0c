"""All checks of all hosts that the runs of a plan need, sources first: what they see of a path, destinations need."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ccmix.doctor import (
    buffers, ccas, clock, device, disk, kernel, login, processors, programs, queues, this_machine, way,
)  # fmt: skip
from ccmix.doctor.findings import Finding, Status
from ccmix.doctor.needs import CONTROLLER, Needs, Sending, needs_of, programs_in
from ccmix.hosts import CommandError, Host, LocalHost, NamespaceHost
from ccmix.model import Run
from ccmix.run.reachable import unreachable
from ccmix.tools import ToolError, find_iperf3

T = TypeVar("T")
Connect = Callable[[str], Host]  # by a host's name in an entry; raises CommandError


@dataclass
class Report:
    """What was found on a host; `uid` None where nobody could log in."""

    host: str
    uid: int | None = None
    findings: list[Finding] = field(default_factory=list)

    def check(self, what: str, judge: Callable[[], Iterable[Finding]]) -> None:
        """What the check finds; that it is unknown where the host doesn't say, or says what nobody understands."""
        self.read(what, lambda: self.findings.extend(judge()))

    def read(self, what: str, ask: Callable[[], T]) -> T | None:
        """What the host says; None where it doesn't, which is told then."""
        try:
            return ask()
        except CommandError as error:
            self.findings.append(Finding(what, Status.UNKNOWN, error.reason))
        except (ValueError, OSError) as error:
            self.findings.append(Finding(what, Status.UNKNOWN, str(error)))
        return None


@dataclass(frozen=True)
class Seen:
    """What the source saw of a way."""

    rtt_s: float | None
    speed_bps: float | None
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Options:
    """`runs` None: no configuration was given. `outdir` None: no results are written."""

    runs: tuple[Run, ...] | None
    outdir: Path | None
    in_lab: bool = False


def this_machine_s(name: str) -> Host:
    """The hosts that need no agent: this machine, 'netns:NAME'. Raises CommandError for others."""
    if name == CONTROLLER:
        return LocalHost()
    if name.startswith("netns:"):
        return NamespaceHost(name.removeprefix("netns:"))
    raise CommandError(name, ["ssh", name], "hosts over SSH can't be looked at yet")


def examine(options: Options, connect: Connect = this_machine_s) -> list[Report]:
    """Of this machine first, then of each host of the runs in the order in which they name them."""
    all_needs = needs_of(options.runs or ())
    seen: dict[Sending, Seen] = {}
    reports = {name: Report(name) for name in all_needs}
    sources = [name for name, needs in all_needs.items() if needs.sendings]
    for name in [*sources, *(name for name in all_needs if name not in sources)]:
        one = _Host(options, reports[name], all_needs[name], seen)
        if name == CONTROLLER:
            one.controller()
        host = one.report.read("connection", lambda name=name: connect(name))  # type: ignore[misc]
        if host is None:
            _must_answer(one.report)
        else:
            one.look(host)
    return list(reports.values())


def _must_answer(report: Report) -> None:
    """Nothing runs where nobody can log in."""
    last = report.findings.pop()
    why = "ccmix starts and ends everything there by this way."
    report.findings.append(Finding("connection", Status.FAIL, last.seen, why, (f"ssh {report.host} true",), root=False))


class _Host:
    """The checks of one host, in the order of the table."""

    def __init__(self, options: Options, report: Report, needs: Needs, seen: dict[Sending, Seen]) -> None:
        self._options = options
        self.report = report
        self._needs = needs
        self._seen = seen
        self._is_controller = report.host == CONTROLLER
        self._emulated = bool(needs.topologies)
        self._in_namespaces = self._emulated and not options.in_lab
        self._alone = options.runs is None
        self._devices: dict[str, device.Device] = {}

    def controller(self) -> None:
        """What is asked of this machine as the one that ccmix runs on."""
        report, needs = self.report, self._needs
        if self._alone or self._emulated:
            report.check("lab", lambda: this_machine.judge_lab(needs.topologies, self._options.in_lab))
        if self._in_namespaces:
            report.check("namespaces", lambda: this_machine.judge_namespaces(os.geteuid()))
        if self._alone or "ccmix-iperf3" in needs.tools:
            report.check("patched iperf3", lambda: this_machine.judge_iperf3(not self._alone))
        report.check("left by dead runs", this_machine.judge_journals)
        if outdir := self._options.outdir:
            report.check("results", lambda: disk.judge_outdir(outdir, needs.runs, needs.all_captures_bytes))

    def look(self, host: Host) -> None:
        report, needs = self.report, self._needs
        works_here = self._alone or self._in_namespaces or bool(needs.sendings or needs.receives or needs.netem)
        if not works_here:
            return
        who = report.read("login", lambda: login.read_login(host))
        if who:
            report.uid = who.uid
            self._rights(host, who)
        if self._is_controller:
            report.check(
                "other campaigns", lambda: this_machine.judge_lock(host.read("/proc/net/unix"), not self._alone)
            )
        self._kernel(host, who)
        for sending in needs.sendings:
            self._way(host, sending)
        for sending in needs.receives:
            self._receiving_device(host, sending)
        if self._alone:
            name = report.read(
                "network device", lambda: device.default_device(host.run(["ip", "-j", "route", "show", "default"]))
            )
            if name:
                self._device(host, name)
                report.check(f"fq {name}", lambda: self._fq(host, name, paced=False))
        for name in needs.netem:
            self._device(host, name)
            report.check(f"queue {name}", lambda name=name: queues.judge_netem(name, queues.read_qdiscs(host, name)))  # type: ignore[misc]
        self._buffers(host)
        report.check("CPU governor", lambda: processors.judge_governors(processors.read_governors(host)))
        report.check("cores", lambda: processors.judge_cores(processors.read_cores(host)))
        for one in self._devices.values():
            self._interrupts(host, one)
        if self._alone or needs.sendings or needs.receives:
            report.check("clock", lambda: clock.judge_clock(clock.read_clock(host)))
        self._programs(host)
        if needs.capture_bytes:
            folder = getattr(host, "temporary", disk.TEMPORARY)
            report.check("room for captures", lambda: disk.judge_temporary(
                folder, disk.free_bytes(disk.read_free(host, folder)), needs.capture_bytes
            ))  # fmt: skip

    def _rights(self, host: Host, who: login.Login) -> None:
        del host
        needs = self._needs
        self.report.check("privileges", lambda: login.judge_privileges(who, needs.root_for, self._in_namespaces))
        sysctls = self._in_namespaces or any("sysctl" in text for text in needs.lines)
        self.report.check("/proc/sys", lambda: login.judge_writable(who, bool(needs.parameters), sysctls))

    def _kernel(self, host: Host, who: login.Login | None) -> None:
        needs, report = self._needs, self.report
        wanted = needs.ccas if not (self._emulated and self._options.in_lab and not needs.sendings) else set()
        if self._alone or self._in_namespaces or needs.sendings:
            found = report.read("CCAs", lambda: ccas.read_ccas(host, wanted))
            if found:
                privileged = who is not None and who.is_privileged
                report.check("CCAs", lambda: ccas.judge_ccas(found, wanted, privileged, self._iperf3()))
        qdiscs = {"fq"} if any(sending.paced for sending in needs.sendings) else set()
        if needs.netem or self._in_namespaces:
            qdiscs |= {"netem"}
        if self._in_namespaces:
            qdiscs |= {"tbf", "fq"}
        if self._alone or qdiscs:
            there = report.read("kernel", lambda: kernel.read_kernel(host))
            if there is not None:
                asked = there if self._alone else {name: there[name] for name in there if name in qdiscs}
                report.check("kernel", lambda: kernel.judge_kernel(asked, qdiscs))
        for path in needs.parameters:
            report.check(path, lambda path=path: [_parameter(host, path)])  # type: ignore[misc]

    def _iperf3(self) -> str | None:
        try:
            return str(find_iperf3()) if self._is_controller else None
        except ToolError:
            return None

    def _way(self, host: Host, sending: Sending) -> None:
        """To one destination: answers, round-trip time, path MTU, and the device that sends."""
        report, name = self.report, sending.path.dst.address
        addresses = report.read(f"name {name}", lambda: way.read_addresses(host, name)) or []
        if not addresses:
            last = report.findings.pop()
            report.findings.append(Finding(f"name {name}", Status.FAIL, last.seen, "The name of a destination must be known.",
                                           (f"getent ahosts {name}",), root=False))  # fmt: skip
            self._seen[sending] = Seen(None, None, ())
            return
        pings = [(one, report.read(f"ping {one}", lambda one=one: way.read_ping(host, one)) or "") for one in addresses]  # type: ignore[misc]
        answered = [(rtt, one) for one, said in pings if (rtt := way.base_rtt_s(said)) is not None]
        silent = None if answered else report.read(f"TCP {name}", lambda: unreachable(host, sending.path))
        for one, said in pings:
            report.findings.append(way.judge_family(one, said, silent))
        sends_by = self._sending_device(host, sending, addresses[0])
        if answered and sends_by:
            address = answered[0][1]
            report.check(f"path MTU {address}", lambda: way.judge_path_mtu(
                sends_by, address, *way.path_mtu(way.probe(host, address), sends_by.mtu_bytes)
            ))  # fmt: skip
        self._seen[sending] = Seen(
            min(answered)[0] if answered else None, sends_by.speed_bps if sends_by else None, tuple(addresses)
        )

    def _sending_device(self, host: Host, sending: Sending, address: str) -> device.Device | None:
        report = self.report
        name = sending.path.nic or report.read(
            "network device", lambda: device.route_device(host.run(["ip", "-j", "route", "get", address]))
        )
        if not name:
            return None
        rates = [load.flow_bps * load.streams for load in sending.loads if load.flow_bps is not None]
        found = self._device(host, name, max(rates, default=None))
        report.check(f"fq {name}", lambda: self._fq(host, name, sending.paced))
        return found

    def _receiving_device(self, host: Host, sending: Sending) -> None:
        seen = self._seen.get(sending)
        said = self.report.read("network device", lambda: host.run(["ip", "-j", "addr", "show"]))
        if seen is None or said is None:
            return
        name = self.report.read("network device", lambda: device.device_with(said, seen.addresses))
        if name:
            self._device(host, name)

    def _device(self, host: Host, name: str, needed_bps: float | None = None) -> device.Device | None:
        """Everything about a device but its queue, once."""
        if name in self._devices:
            return self._devices[name]
        report = self.report
        found = report.read(f"NIC {name}", lambda: device.read_device(host, name))
        if found is None:
            last = report.findings.pop()
            report.findings.append(Finding(f"NIC {name}", Status.FAIL, last.seen, "The entries name this device.",
                                           ("ip -br link",), root=False))  # fmt: skip
            return None
        self._devices[name] = found
        report.check(f"NIC {name}", lambda: device.judge_link(found, needed_bps))
        report.check(f"MTU {name}", lambda: device.judge_mtu(found))
        rings = report.read(f"rings {name}", lambda: device.read_rings(host, name))
        if rings is not None:
            report.check(f"rings {name}", lambda: device.judge_rings(found, rings))
        report.check(f"offloads {name}", lambda: device.judge_offloads(
            found, host.run(["ethtool", "-k", name]), self._needs.netem.get(name)
        ))  # fmt: skip
        return found

    def _fq(self, host: Host, name: str, paced: bool) -> Iterable[Finding]:
        default = host.read("/proc/sys/net/core/default_qdisc").strip() if host.name == "localhost" else ""
        bbr = any(cca.startswith("bbr") for cca in self._needs.ccas)
        return queues.judge_sending(name, queues.read_qdiscs(host, name), default, paced, bbr)

    def _buffers(self, host: Host) -> None:
        needs = self._needs
        if not needs.sendings and not needs.receives:
            return
        sends, receives = (
            max(
                (
                    one
                    for sending in ways
                    if (seen := self._seen.get(sending))
                    and (one := buffers.demand(sending.loads, seen.rtt_s, seen.speed_bps))
                ),
                key=lambda one: one.flow_bytes,
                default=None,
            )
            for ways in (needs.sendings, needs.receives)
        )
        if sends is None and receives is None and not needs.windows_bytes:
            self.report.findings.append(Finding(
                "buffers", Status.UNKNOWN, "the rate or the round-trip time of the path is not known",
                "Pacing in the entry, or a device that tells its speed, and a destination that answers pings would tell.",
            ))  # fmt: skip
            return
        self.report.check("buffers", lambda: buffers.judge_buffers(
            buffers.read_buffers(host), sends, receives, needs.windows_bytes
        ))  # fmt: skip

    def _interrupts(self, host: Host, one: device.Device) -> None:
        if one.numa_node is not None:
            self.report.check(
                f"cores near {one.name}", lambda: processors.judge_near(one, processors.read_near(host, one))
            )
        if one.speed_bps and one.speed_bps >= processors.BALANCED_BPS and one.driver != "veth":
            self.report.check("irqbalance", lambda: processors.judge_irqbalance(processors.read_irqbalance(host), one))

    def _programs(self, host: Host) -> None:
        needs = self._needs
        used_by = {name: use for name, use in needs.tools.items() if name != "ccmix-iperf3"}
        if self._in_namespaces:
            used_by |= dict.fromkeys(
                ("ip", "tc", "ss", "ethtool", "sysctl", "ping", "setpriv"), "a topology without --lab"
            )
        for text in needs.lines:
            used_by |= {name: f"the command '{text[:60]}'" for name in programs_in(text) if name not in used_by}
        if self._alone:
            used_by = dict.fromkeys(("ip", "tc", "ss", "ethtool", "sysctl", "ping"), "ccmix")
        found = self.report.read("programs", lambda: programs.read_programs(host, used_by))
        if found:
            red_hat = bool(self.report.read("programs", lambda: programs.read_distribution(host)))
            self.report.check("programs", lambda: programs.judge_programs(found, used_by, red_hat, not self._alone))


def _parameter(host: Host, path: str) -> Finding:
    """Whether a parameter below /sys/module is there, and its value."""
    module = path.split("/")[0]
    try:
        value = host.read(f"/sys/module/{path}").strip()
    except CommandError as error:
        return Finding(
            f"parameter {path}", Status.FAIL, error.reason, "The entries vary it; the module is not loaded, or has none such.",
            (f"modprobe {module}",) if module.replace("_", "").isalnum() else (),
        )  # fmt: skip
    return Finding(f"parameter {path}", Status.OK, value)


def failed(reports: Sequence[Report]) -> bool:
    """Whether anything must be mended before the entries run."""
    return any(finding.status is Status.FAIL for report in reports for finding in report.findings)
