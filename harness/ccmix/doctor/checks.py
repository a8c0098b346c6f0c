"""Runs the checks of `ccmix doctor` for one host, in the order in which the report lists them."""

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
from ccmix.lab.limits import inside_container, processors
from ccmix.model import Run
from ccmix.run.reachable import unreachable
from ccmix.tools import ToolError, find_iperf3

PATCHED_IPERF3 = "ccmix-iperf3"  # among the tools that a host needs; not one that a shell finds
TOPOLOGY_TOOLS = ("ip", "tc", "ss", "ethtool", "sysctl", "ping", "setpriv")
DEFAULT_QDISC = "/proc/sys/net/core/default_qdisc"  # network namespaces don't show it


@dataclass(frozen=True)
class DoctorOptions:
    """Says what `ccmix doctor` examines.

    `runs` are the planned runs. Without an INI file they are None, and the doctor examines whether
    the machine can do everything that ccmix can do. `outdir` is the folder for results (None: not
    checked); `in_lab` means that the runs use the lab.
    """

    runs: tuple[Run, ...] | None
    outdir: Path | None
    in_lab: bool = False


class HostChecks:
    """Runs the checks of one host for `ccmix doctor`, and adds their findings to its report.

    `needs` is what the planned runs need on this host. `seen` has what sources have measured on the
    way to their destinations (round-trip time, rate). If this host is a source, it adds its own
    measurements to `seen`, and the checks of its destinations use them later.
    """

    def __init__(
        self, options: DoctorOptions, report: Report, needs: Needs, seen: dict[Sending, Seen]
    ) -> None:
        """Prepares the checks of the host of `report`; nothing is asked yet."""
        self._options = options
        self._report = report
        self._needs = needs
        self._seen = seen
        self._checked_devices: dict[str, device.Device] = {}
        self._kernel_parts: dict[str, bool | None] = {}  # whether the kernel has them
        # Without an INI file, everything is checked, but nothing is needed, so nothing fails
        self._without_runs = options.runs is None
        self._is_controller = report.host == CONTROLLER
        self._emulated = bool(needs.topologies)
        self._in_namespaces = self._emulated and not options.in_lab
        # Such a container is for the lab only
        self._only_lab = self._without_runs and inside_container() and not rights.read_devices()
        self._polices = self._in_namespaces and any(path.policer for path in needs.topologies)

    @property
    def works_here(self) -> bool:
        """Whether any part of the runs is done on the host itself, outside the lab."""
        needs = self._needs
        return (
            (self._without_runs and not self._only_lab)
            or self._in_namespaces
            or bool(needs.sendings or needs.receives or needs.netem)
        )

    def check_controller(self) -> None:
        """Checks what concerns only the machine of ccmix itself, before any connection to a host.

        That is the lab, network namespaces, a container, remains of killed runs, other campaigns,
        and the room for results.
        """
        report, needs, outdir = self._report, self._needs, self._options.outdir
        if self._without_runs or self._emulated:
            report.check(
                "lab", lambda: this_machine.judge_lab(needs.topologies, self._options.in_lab)
            )
        if self._emulated and self._options.in_lab:
            report.check("lab: CCAs", lambda: this_machine.judge_ccas_of_lab(needs.lab_ccas))
            report.check("lab: parameters", lambda: judge_lab_parameters(needs.topologies))
        if self._in_namespaces:
            report.check("namespaces", lambda: this_machine.judge_namespaces(os.geteuid()))
        if self._without_runs or PATCHED_IPERF3 in needs.tools:
            report.check(
                "patched iperf3", lambda: this_machine.judge_iperf3(not self._without_runs)
            )
        if inside_container():
            self._check_container()
        report.check(
            "left by dead runs",
            lambda: rights.judge_journals([undo.what for undo in left_journals.remaining_undos()]),
        )
        needed = self.works_here and not self._without_runs
        report.check("other campaigns", lambda: rights.judge_lock(rights.read_sockets(), needed))
        if outdir:
            report.check(
                "results",
                lambda: resources.judge_outdir(outdir, needs.runs, needs.all_captures_bytes),
            )

    def _check_container(self) -> None:
        """Checks that this container has the rights for the runs, such as NET_ADMIN for queues."""
        report, needs = self._report, self._needs
        if self._only_lab:
            report.findings.append(
                ok("container: network", "none: for the lab, plans and reports; see --network host")
            )
            return
        wanted_by_use = {
            rights.CAPTURES: "NET_RAW" in needs.root_for.values(),
            rights.QUEUES: "NET_ADMIN" in needs.root_for.values(),
            rights.SYSCTLS: any("sysctl" in text for text in needs.lines),
            rights.PARAMETERS: bool(needs.parameters),
            rights.NAMESPACES: self._in_namespaces,
        }
        needed_uses = [use for use, wants in wanted_by_use.items() if wants]
        report.check("container", lambda: rights.judge(this_machine.read_rights(), needed_uses))
        report.check("container", lambda: rights.judge_network(rights.read_devices()))
        if os.geteuid() == 0:  # others change nothing of the host
            report.check("container", lambda: rights.judge_state(journal.state_folder()))

    def check_host(self, host: Host) -> None:
        """Runs all checks that need a connection: login, kernel, paths, devices, programs."""
        report, needs = self._report, self._needs
        if isinstance(host, AgentHost) and not self._is_controller:
            report.check(
                "left by dead runs", lambda: rights.judge_journals(host.hello["left"], [host.name])
            )
            report.check(
                "other campaigns", lambda: rights.judge_lock(host.read(rights.SOCKETS), needed=True)
            )
        login = report.read("login", lambda: rights.read_login(host))
        if login:
            self._check_rights(login)
        self._check_ccas(host, privileged=login is not None and login.is_privileged)
        if needs.loads or self._without_runs:
            report.check(
                "BPF",
                lambda: kernel.judge_needs(
                    kernel.read_needs(host, login is not None and login.sudo), sorted(needs.loads)
                ),
            )
        self._check_kernel(host)
        for sending in needs.sendings:
            self._check_path(host, sending)
        for sending in needs.receives:
            self._check_receiving_device(host, sending)
        if self._without_runs:
            self._check_default_device(host)
        for name in needs.netem:
            self._check_device(host, name)
            self._check_netem(host, name)
        self._check_buffers(host)
        self._check_processors(host)
        if self._without_runs or needs.sendings or needs.receives:
            report.check("clock", lambda: resources.judge_clock(resources.read_clock(host)))
        self._check_programs(host)
        if needs.capture_bytes:
            folder = host.temporary if isinstance(host, AgentHost) else resources.TEMPORARY
            report.check("room for captures", lambda: self._judge_room(host, folder))

    def _check_rights(self, login: rights.Login) -> None:
        """Checks that the login has the rights that the runs need on this host, by sudo or as
        root.
        """
        report, needs = self._report, self._needs
        report.uid = login.uid
        if self._is_controller and inside_container():
            report.findings.append(ok("privileges", f"{login.user}, in a container: see above"))
            return
        report.check(
            "privileges",
            lambda: rights.judge_privileges(login, needs.root_for, self._in_namespaces),
        )
        sysctls = self._in_namespaces or any("sysctl" in text for text in needs.lines)
        report.check(
            "/proc/sys", lambda: rights.judge_writable(login, bool(needs.parameters), sysctls)
        )

    def _check_ccas(self, host: Host, privileged: bool) -> None:
        """Checks that the kernel has the CCAs of the runs, that this login may use them, and that
        the module parameters exist that the runs set.

        `privileged` means that the login may use every available CCA, as root may.
        """
        if not (self._without_runs or self._in_namespaces or self._needs.sendings):
            return
        needed_ccas = self._needs.ccas
        host_ccas = self._report.read("CCAs", lambda: kernel.read_ccas(host, needed_ccas))
        if host_ccas:
            self._report.check(
                "CCAs",
                lambda: kernel.judge_ccas(
                    host_ccas, needed_ccas, privileged, self._patched_iperf3()
                ),
            )
        for path in self._needs.parameters:
            self._report.findings.append(_judge_parameter(host, path))

    def _patched_iperf3(self) -> str | None:
        """Returns the path of ccmix's iperf3 on this machine; None on other hosts or if missing."""
        try:
            return str(find_iperf3()) if self._is_controller else None
        except ToolError:
            return None

    def _check_kernel(self, host: Host) -> None:
        """Checks that the kernel has the parts for pacing and emulation: fq, netem, tbf, a policer.

        Without an INI file, all of these parts are checked, but a missing one is only a warning.
        """
        needs = self._needs
        paced = any(sending.paced for sending in needs.sendings)
        is_needed = {
            "fq": paced or self._in_namespaces,
            "netem": bool(needs.netem) or self._in_namespaces,
            "tbf": self._in_namespaces,
            **dict.fromkeys(kernel.OF_A_POLICER, self._polices),
        }
        checked_parts = {name for name in is_needed if self._without_runs or is_needed[name]}
        if not checked_parts and not needs.sendings:
            return
        self._kernel_parts = self._report.read("kernel", lambda: kernel.read_kernel(host)) or {}
        found_parts = {
            name: is_there for name, is_there in self._kernel_parts.items() if name in checked_parts
        }
        needed_parts = {name for name in is_needed if is_needed[name]}
        self._report.check(
            "kernel", lambda: kernel.judge_kernel(found_parts, needed_parts, self._in_namespaces)
        )

    def _check_path(self, host: Host, sending: Sending) -> None:
        """Checks the path to one destination: pings, round-trip time, path MTU, sending device.

        Stores the round-trip time and the rate, from which the buffers of both ends are judged
        later.
        """
        report, destination = self._report, sending.path.dst.address
        why_needed = "Nothing can be sent to a destination whose name has no address."
        addresses = report.read(
            f"name {destination}",
            lambda: paths.read_addresses(host, destination),
            why_needed,
            (line("getent", "ahosts", destination),),
        )
        if not addresses:
            return
        ping_outputs = {
            address: report.read(f"ping {address}", partial(paths.read_ping, host, address)) or ""
            for address in addresses
        }
        rtt_and_address = [
            (rtt_s, address)
            for address, output in ping_outputs.items()
            if (rtt_s := paths.base_rtt_s(output)) is not None
        ]
        why_silent = (
            None
            if rtt_and_address
            else report.read(f"TCP {destination}", lambda: unreachable(host, sending.path))
        )
        report.findings += [
            paths.judge_family(address, output, why_silent)
            for address, output in ping_outputs.items()
        ]
        nic = self._check_sending_device(host, sending, addresses[0])
        if rtt_and_address and nic:
            self._check_path_mtu(host, nic, rtt_and_address[0][1])
        rtt_s = min(rtt_and_address)[0] if rtt_and_address else None
        self._seen[sending] = Seen(rtt_s, nic.speed_bps if nic else None, tuple(addresses))

    def _check_path_mtu(self, host: Host, nic: device.Device, address: str) -> None:
        """Finds the largest packet that reaches the address, and compares it with the NIC's MTU."""

        def judge() -> Iterable[DoctorFinding]:
            """Pings the address with packets of several sizes, and judges which of them pass."""
            mtu_bytes, reported = paths.path_mtu(paths.probe(host, address), nic.mtu_bytes)
            return paths.judge_path_mtu(nic, address, mtu_bytes, reported)

        self._report.check(f"path MTU {address}", judge)

    def _check_sending_device(
        self, host: Host, sending: Sending, address: str
    ) -> device.Device | None:
        """Checks the NIC by which traffic to this address leaves: the one that the entry names, or
        that of the route. Returns the NIC; None if it can't be found or read.
        """
        route = ["ip", "-j", "route", "get", address]
        name = sending.path.nic or self._report.read(
            "network device", lambda: device.route_device(ask(host, route))
        )
        if not name:
            return None
        paced_rates_bps = [
            load.flow_bps * load.streams for load in sending.loads if load.flow_bps is not None
        ]
        nic = self._check_device(host, name, max(paced_rates_bps, default=None))
        if nic:
            self._check_fq(host, name, sending.paced)
        return nic

    def _check_receiving_device(self, host: Host, sending: Sending) -> None:
        """Checks the NIC of a destination: the one that has an address to which the source sends.

        Does nothing if the source could not find these addresses.
        """
        seen = self._seen.get(sending)
        if seen is None:
            return
        addresses = ["ip", "-j", "addr", "show"]
        name = self._report.read(
            "network device", lambda: device.device_with(ask(host, addresses), seen.addresses)
        )
        if name:
            self._check_device(host, name)

    def _check_default_device(self, host: Host) -> None:
        """Checks the NIC of the default route. Without an INI file, nothing else names a NIC."""
        routes = ["ip", "-j", "route", "show", "default"]
        name = self._report.read("network device", lambda: device.default_device(ask(host, routes)))
        if name and self._check_device(host, name):
            self._check_fq(host, name, paced=False)

    def _check_device(
        self, host: Host, name: str, needed_bps: float | None = None
    ) -> device.Device | None:
        """Checks the link, MTU, rings and offloads of a NIC, and adds the findings to the report.

        `needed_bps` is the rate to which an entry paces all of its flows together, the largest of
        all conditions (None: no pacing). Returns the NIC; None if it can't be read. A later call
        for the same NIC only returns it.
        """
        if name in self._checked_devices:
            return self._checked_devices[name]
        report = self._report
        nic = report.read(
            f"NIC {name}",
            lambda: device.read_device(host, name),
            "The entries name this device.",
            (line("ip", "-br", "link"),),
        )
        if nic is None:
            return None
        self._checked_devices[name] = nic
        report.check(f"NIC {name}", lambda: device.judge_link(nic, needed_bps))
        report.check(f"MTU {name}", lambda: device.judge_mtu(nic))
        rings = report.read(f"rings {name}", lambda: device.read_rings(host, name))
        if rings is not None:
            report.check(f"rings {name}", lambda: device.judge_rings(nic, rings))
        netem_with_loss = self._needs.netem.get(name)  # None: the runs put no netem on this NIC
        offloads = ["ethtool", "-k", name]
        report.check(
            f"offloads {name}",
            lambda: device.judge_offloads(nic, ask(host, offloads), netem_with_loss),
        )
        return nic

    def _check_fq(self, host: Host, name: str, paced: bool) -> None:
        """Checks that the sending NIC has the queue discipline fq, which paces flows.

        `paced` means that an entry sets a pacing rate.
        """
        if self._kernel_parts.get("fq") is False:
            return  # the check of the kernel reports it
        has_bbr = any(cca.startswith("bbr") for cca in self._needs.ccas)

        def judge() -> Iterable[DoctorFinding]:
            """Reads the NIC's queue disciplines and the kernel's default, and judges them."""
            default = files(host, DEFAULT_QDISC).get(DEFAULT_QDISC, "")
            return device.judge_sending(
                name, device.read_qdiscs(host, name), default, paced, has_bbr
            )

        self._report.check(f"fq {name}", judge)

    def _check_netem(self, host: Host, name: str) -> None:
        """Checks that netem may replace the queue discipline of this NIC during runs."""
        self._report.check(
            f"queue {name}", lambda: device.judge_netem(name, device.read_qdiscs(host, name))
        )

    def _check_buffers(self, host: Host) -> None:
        """Checks that the kernel's limits of socket buffers hold the BDP of the planned flows.

        That needs the rate and the round-trip time of the path, which may not be known.
        """
        needs, report = self._needs, self._report
        if not needs.sendings and not needs.receives:
            return
        sends, receives = self._largest_demand(needs.sendings), self._largest_demand(needs.receives)
        if sends is None and receives is None:
            why = (
                "ccmix needs both: the rate comes from pacing or from a device that reports its "
                "speed, and the round-trip time from a destination that answers pings."
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

    def _largest_demand(self, sendings: Iterable[Sending]) -> paths.Demand | None:
        """Returns the largest demand of all paths: how many bytes the socket buffers must hold for
        the path on which a flow has the most bytes in flight. None if no path's demand is known.
        """
        demands = [
            paths.demand(sending.loads, seen.rtt_s, seen.speed_bps)
            for sending in sendings
            if (seen := self._seen.get(sending))
        ]
        return max(
            (demand for demand in demands if demand),
            key=lambda demand: demand.flow_bytes,
            default=None,
        )

    def _check_processors(self, host: Host) -> None:
        """Checks CPU governors and cores; for fast NICs also NUMA node and irqbalance."""
        report = self._report
        report.check(
            "CPU governor", lambda: resources.judge_governors(resources.read_governors(host))
        )
        of_this_process = [processors()] if self._is_controller else []
        report.check(
            "cores",
            lambda: resources.judge_cores(min([resources.read_cores(host), *of_this_process])),
        )
        for nic in self._checked_devices.values():
            if nic.numa_node is not None:
                report.check(f"cores near {nic.name}", partial(resources.look_near, host, nic))
            if (
                nic.speed_bps
                and nic.speed_bps >= resources.BALANCED_BPS
                and nic.driver != device.VIRTUAL
            ):
                report.check("irqbalance", partial(resources.look_at_irqbalance, host, nic))

    def _check_programs(self, host: Host) -> None:
        """Checks that all programs needed on this host are installed and new enough.

        The planned runs start these programs themselves or in the shell commands of their entries.
        If the doctor has no INI file, there are no planned runs: only TOPOLOGY_TOOLS are checked,
        and a missing program is not a failure. check_controller() checks PATCHED_IPERF3.
        """
        needs = self._needs
        # for each program, the part of the configuration that needs it
        used_by = {name: use for name, use in needs.tools.items() if name != PATCHED_IPERF3}
        if self._in_namespaces:
            used_by |= dict.fromkeys(TOPOLOGY_TOOLS, "a topology without --lab")
        for text in needs.lines:
            used_by |= {
                name: f"the command '{text[:60]}'"
                for name in programs_in(text)
                if name not in used_by
            }
        if self._without_runs:
            used_by = dict.fromkeys(TOPOLOGY_TOOLS, "ccmix")
        installed = self._report.read("programs", lambda: resources.read_programs(host, used_by))
        if installed:
            red_hat = bool(self._report.read("programs", lambda: resources.is_red_hat(host)))
            self._report.check(
                "programs",
                lambda: resources.judge_programs(
                    installed, used_by, red_hat, not self._without_runs
                ),
            )

    def _judge_room(self, host: Host, folder: str) -> Iterable[DoctorFinding]:
        """Judges whether the folder for captures has room for the largest capture of a run."""
        return resources.judge_temporary(
            folder,
            resources.free_bytes(resources.read_free(host, folder)),
            self._needs.capture_bytes,
        )


def _judge_parameter(host: Host, path: str) -> DoctorFinding:
    """Judges whether the module parameter that entries set exists; `path` is below /sys/module."""
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
