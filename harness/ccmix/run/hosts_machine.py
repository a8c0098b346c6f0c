"""Measures runs between hosts, one after the other: connects, checks destinations first, and keeps
commands and settings for a whole entry.
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
from ccmix.hosts.agent_host import AgentProcess
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
    """Measures on the hosts of the entries' paths. It measures one run at a time; connections are
    kept from run to run.
    """

    def __init__(
        self, hosts: Hosts, programs: HostPrograms, logs: Path, tell: Callable[[str], None]
    ) -> None:
        """Takes the hosts and programs. `logs` gets outputs of commands that live longer than a
        run; `tell` gets sentences about remains of runs that are given up.
        """
        self._tell = tell
        self._programs = programs
        self._logs = logs
        self._hosts = hosts
        self._entry = _Entry("", tell)
        self._greeted: WeakSet[RealHost] = WeakSet()  # connections that were not lost

    async def measure(self, run: Run, folder: Path) -> Measured:
        """Measures a run: see Machine. Raises Skipped, CommandError or GeneratorError."""
        begin = asyncio.get_running_loop().time()
        measurement = await self._in_a_thread(self._measure, run, folder)
        seconds = asyncio.get_running_loop().time() - begin
        return Measured(measurement, Execution("hosts", round(seconds, 2)))

    async def close(self) -> None:
        """Ends commands and settings of the entry. Connections stay for the next entry."""
        await self._in_a_thread(self._close)

    async def _in_a_thread(self, function: Any, *arguments: Any) -> Any:
        """Calls a function in a thread. If this is cancelled, it cuts the connections: then the
        agents put everything back.
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
        if run.entry != self._entry.name:
            self._entry.close()
            self._entry = _Entry(run.entry, self._tell)
        shell = _shell(run)
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
        refuse_links(
            self._logs, logs / file_name(path.dst.name)
        )  # if a third-party folder is resumed
        ends = self._entry.begin(ends, run, self._programs, logs)
        measurement = between_hosts.measure(run, ends, self._programs, folder)
        return replace(measurement, diagnostics=(*diagnostics, *measurement.diagnostics))

    def _host(self, name: str, path: HostPath, diagnostics: list[str]) -> RealHost:
        """Returns the connected host; `diagnostics` gets the changes of a killed run that its agent
        has undone.
        """
        host = self._hosts.get(parse_host(name), path.connect_timeout_s)
        if host not in self._greeted:
            self._greeted.add(host)
            for what, reason in host.hello["restored"]:
                diagnostics.append(f"left by a dead run: {what}: {reason or 'restored'}")
        return host

    def _close(self) -> None:
        self._entry.close()
        self._entry = _Entry("", self._tell)


def _loaded(
    _: RealHost, program: CcaProgram, cca: str, for_users: bool, __: Path
) -> AbstractContextManager[None]:
    return program.loaded(cca, for_users)


def _shell(run: Run) -> str | None:
    """Returns where src's commands run; None if pScheduler is on a host on which ccmix
    has no shell.
    """
    src = run.host_path.src
    if run.has_shell:
        return src
    return LOCAL if host_traffic.is_this_machine(src) else None


class _Entry:
    """Holds the things that last from the first run of an entry to its last: pre and post, kept
    commands, answers of destinations, and pScheduler's tasks.
    """

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self.name = name
        self._silent: dict[
            str, str | None
        ] = {}  # by address: the reason why it doesn't answer, or None
        self.tasks = Tasks(tell)
        self.command_tasks = CommandTasks(tell)
        self._kept = ExitStack()
        self._begun: dict[tuple[str, RealHost], Any] = {}  # by purpose and connection

    def check(self, src: RealHost, path: HostPath) -> None:
        """Checks once per entry whether the destination answers. Raises Skipped if it does not."""
        address = path.dst.address
        if address not in self._silent:
            self._silent[address] = unreachable(src, path)
        if reason := self._silent[address]:
            raise Skipped(reason)

    def begin(
        self, ends: host_traffic.Ends, run: Run, programs: HostPrograms, logs: Path
    ) -> host_traffic.Ends:
        """Starts commands that do not run yet. After a lost connection, all commands of that host
        are gone and start again.
        """
        path, src_command = run.host_path, run.traffic.command
        commands, to_dst = path.commands, logs / file_name(path.dst.name)
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
            self._once(f"dst {path.dst.name}", ends.dst, to_dst, lasting, commands.dst)
        if src_command and src_command.kept:
            kept = self._once(
                f"src for {path.dst.name}",
                ends.src,
                to_dst,
                kept_src_command,
                src_command.line,
                self.command_tasks,
            )
            return replace(ends, kept_src_command=kept)
        return ends

    def close(self) -> None:
        self.tasks.close()
        with contextlib.suppress(CommandError):  # after a lost connection, its agent has done this
            self._kept.close()

    def _once(self, what: str, host: RealHost, logs: Path, start: Any, *arguments: Any) -> Any:
        """Returns the result of `start`, from now or before. Starts a command again if it has
        ended.
        """
        begun = self._begun.get((what, host))
        if begun is None or (isinstance(begun, AgentProcess) and begun.gone()):
            logs.mkdir(parents=True, exist_ok=True)
            begun = self._begun[what, host] = (
                self._kept.enter_context(start(host, *arguments, logs)) or NOTHING
            )
        return begun
