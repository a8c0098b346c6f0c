"""Measures runs between real hosts, one after the other, over connections that are kept.

Before the first run of an entry it checks whether the destination answers. Some commands and
settings last for a whole entry.
"""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from ccmix.archive import file_name
from ccmix.conditions.bpf_cca import CcaProgram
from ccmix.conditions.host_changes import bracketed
from ccmix.files import refuse_links
from ccmix.generators.command import kept_src_command, running_dst_command
from ccmix.generators.pscheduler.ledger import CommandTasks
from ccmix.generators.pscheduler.runs import Tasks
from ccmix.generators.results import GeneratorError
from ccmix.hosts import CommandError
from ccmix.hosts.address import parse_host
from ccmix.hosts.agent_process import AgentProcess
from ccmix.hosts.caps import KEPT_OUTPUT
from ccmix.hosts.host import RealHost
from ccmix.hosts.pool import Hosts
from ccmix.model import HostPath, Measurement, Run
from ccmix.model.results import Execution
from ccmix.run import between_hosts, host_traffic
from ccmix.run.host_probes import HostPrograms
from ccmix.run.machines import Measured, Skipped
from ccmix.run.reachable import unreachable

LOCAL = "localhost"
NOTHING = object()  # the value of a context that yields None


class HostsMachine:
    """Measures runs between the hosts that the entries of the INI file name, one run at a time.
    Connections are kept from run to run.
    """

    def __init__(
        self, hosts: Hosts, programs: HostPrograms, logs: Path, tell: Callable[[str], None]
    ) -> None:
        """Prepares the machine, without connecting to any host.

        hosts: the pool of connections
        programs: copies ccmix's programs to the hosts
        logs: folder for the output of commands that last longer than a run
        tell: is called with a sentence for the user if a run is given up and leaves something on a
            host
        """
        self._tell = tell
        self._programs = programs
        self._logs = logs
        self._hosts = hosts
        self._entry = _Entry("", tell)
        self._greeted: WeakSet[RealHost] = WeakSet()  # connections that were not lost

    async def measure(self, run: Run, folder: Path) -> Measured:
        """Measures a run in a thread, and adds how long it took. The folder gets the raw files.
        Raises Skipped, CommandError or GeneratorError.
        """
        begin = asyncio.get_running_loop().time()
        measurement = await self._in_a_thread(self._measure, run, folder)
        seconds = asyncio.get_running_loop().time() - begin
        return Measured(measurement, Execution("hosts", round(seconds, 2)))

    async def close(self) -> None:
        """Ends commands and settings of the entry. Connections stay for the next entry."""
        await self._in_a_thread(self._close)

    async def _in_a_thread(self, function: Any, *arguments: Any) -> Any:
        """Calls a blocking function in a thread. If this task is cancelled meanwhile, the
        connections to the hosts are cut: then the function fails soon, and the agents on the hosts
        undo all changes.
        """
        task = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._entry.tasks.interrupt()
            await asyncio.to_thread(self._entry.command_tasks.cancel)
            await asyncio.to_thread(self._hosts.abandon)
            with contextlib.suppress(Exception):
                await task
            raise

    def _measure(self, run: Run, folder: Path) -> Measurement:
        """Measures a run; called in a thread. If the run is the first of its entry, first ends
        commands and settings that have lasted for the previous entry.
        """
        if run.entry != self._entry.name:
            self._entry.close()
            self._entry = _Entry(run.entry, self._tell)
        shell = _shell_host(run)
        try:
            if shell is None:
                return host_traffic.measure_unseen(run, self._entry.tasks, folder)
            return self._between_hosts(run, folder, shell)
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise GeneratorError(
                f"the output of a tool on a host is not understood: {error!r}"
            ) from error

    def _between_hosts(self, run: Run, folder: Path, src: str) -> Measurement:
        """Connects to the hosts of a run, starts the commands and settings that last for the whole
        entry, and measures the run. `src` is the host on which the sender's commands run. Raises
        Skipped if the destination does not answer.
        """
        path = run.host_path
        diagnostics: list[str] = []
        ends = host_traffic.Ends(
            src=self._host(src, path, diagnostics),
            dst=self._host(path.dst.host, path, diagnostics) if run.needs_dst_host else None,
            netem=self._host(path.netem_at.host, path, diagnostics)
            if path.netem and path.netem_at
            else None,
            command_tasks=self._entry.command_tasks,
            tasks=self._entry.tasks if run.traffic.task else None,
        )
        self._entry.check(ends.src, path)
        logs = self._logs / file_name(run.entry)
        # if a third-party folder is resumed
        refuse_links(self._logs, logs / file_name(path.dst.name))
        ends = self._entry.begin(ends, run, self._programs, logs)
        measurement = between_hosts.measure(run, ends, self._programs, folder)
        return replace(measurement, diagnostics=(*diagnostics, *measurement.diagnostics))

    def _host(self, name: str, path: HostPath, diagnostics: list[str]) -> RealHost:
        """Returns the connection to a host, which is made if there is none yet. If ccmix was killed
        on this host before, its agent has now undone the changes that were left: a sentence on each
        of them is added to `diagnostics`.
        """
        host = self._hosts.get(parse_host(name), path.connect_timeout_s)
        if host not in self._greeted:
            self._greeted.add(host)
            for what, reason in host.hello["restored"]:
                diagnostics.append(f"left by a dead run: {what}: {reason or 'restored'}")
        return host

    def _close(self) -> None:
        """Ends commands and settings that last for the present entry. The next run begins a new
        entry.
        """
        self._entry.close()
        self._entry = _Entry("", self._tell)


def _loaded(
    _: RealHost, program: CcaProgram, cca: str, for_users: bool, __: Path
) -> AbstractContextManager[None]:
    """Returns the context in which a CCA is loaded as a BPF program. _Entry._once() calls it, which
    also passes the host and the folder of logs; they are not needed here.
    """
    return program.loaded(cca, for_users)


def _shell_host(run: Run) -> str | None:
    """Returns the host on which ccmix runs the sender's commands: the source, or this machine if
    they are the same. None if ccmix can't log in to the source: then only pScheduler can make the
    run.
    """
    src = run.host_path.src
    if run.has_shell:
        return src
    return LOCAL if host_traffic.is_this_machine(src) else None


class _Entry:
    """Holds what lasts from the first run of an entry to its last: the user's commands before and
    after all runs, commands that continue, loaded CCAs, whether destinations answer, and tasks of
    pScheduler.
    """

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        """Prepares an entry, without starting anything. `tell` is called with a sentence for the
        user if a run is given up and its task may be left in pScheduler.
        """
        self.name = name
        # by address: the reason why it doesn't answer, or None
        self._silent: dict[str, str | None] = {}
        self.tasks = Tasks(tell)
        self.command_tasks = CommandTasks(tell)
        self._kept = ExitStack()
        self._begun: dict[tuple[str, RealHost], Any] = {}  # by purpose and connection

    def check(self, src: RealHost, path: HostPath) -> None:
        """Raises Skipped if the destination of a path does not answer, so that no traffic is sent
        there. Each destination is tried only once per entry.
        """
        address = path.dst.address
        if address not in self._silent:
            self._silent[address] = unreachable(src, path)
        if reason := self._silent[address]:
            raise Skipped(reason)

    def begin(
        self, ends: host_traffic.Ends, run: Run, programs: HostPrograms, logs: Path
    ) -> host_traffic.Ends:
        """Starts what lasts for the whole entry, unless it runs already: loaded CCAs, the user's
        command before all runs, and those commands on the destination and the source that continue
        from run to run.

        Returns `ends`, the hosts of the run, with the source's continuing command if there is one.
        After a lost connection, everything on that host has ended, and is started again.
        """
        path, src_command = run.host_path, run.traffic.command
        commands, dst_logs = path.commands, logs / file_name(path.dst.name)
        if path.cca_load and (program := programs.cca_on(ends.src)):
            for cca in path.cca_load:
                self._once(
                    f"cca-load {cca}",
                    ends.src,
                    logs,
                    _loaded,
                    program,
                    cca,
                    run.traffic.task is not None,
                )
        if commands.pre or commands.post:
            self._once("pre", ends.src, logs, bracketed, "entry", commands.pre, commands.post)
        if commands.dst_once and commands.dst and ends.dst:
            lasting = partial(running_dst_command, cap=KEPT_OUTPUT)
            self._once(f"dst {path.dst.name}", ends.dst, dst_logs, lasting, commands.dst)
        if src_command and src_command.kept:
            kept = self._once(
                f"src for {path.dst.name}",
                ends.src,
                dst_logs,
                kept_src_command,
                src_command.line,
                self.command_tasks,
            )
            return replace(ends, kept_src_command=kept)
        return ends

    def close(self) -> None:
        """Ends everything that lasts for the entry, and undoes its settings on the hosts."""
        self.tasks.close()
        with contextlib.suppress(CommandError):  # after a lost connection, its agent has done this
            self._kept.close()

    def _once(self, purpose: str, host: RealHost, logs: Path, start: Any, *arguments: Any) -> Any:
        """Enters the context `start(host, *arguments, logs)` on the first call for a purpose and a
        connection, and returns the context's value. Later calls return the same value; if it is a
        command that has ended meanwhile, the context is entered again. All contexts last until
        close().

        purpose: what it is for, such as 'pre' or 'cca-load bbr3'
        """
        begun = self._begun.get((purpose, host))
        if begun is None or (isinstance(begun, AgentProcess) and begun.gone()):
            logs.mkdir(parents=True, exist_ok=True)
            begun = self._begun[purpose, host] = (
                self._kept.enter_context(start(host, *arguments, logs)) or NOTHING
            )
        return begun
