"""Measures runs whose traffic pScheduler makes: its part of a run between hosts, and a run from a host without a
shell.
"""

import json
import math
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.archive.replacing import write_whole
from ccmix.generators.kept_results import of_pscheduler
from ccmix.generators.pscheduler.runs import ScheduledRun, Tasks
from ccmix.generators.pscheduler.task import SLOT_S
from ccmix.generators.results import GeneratorError
from ccmix.model import Command, Facts, Measurement, PschedulerClock, PschedulerFacts, Run, run_files
from ccmix.run.limits import latest_end_s
from ccmix.run.log import RunLog
from ccmix.run.tool_facts import ToolFacts

KERNEL = "unknown"  # pScheduler doesn't report it


@dataclass(frozen=True)
class Scheduled:
    """Describes a run that is about to begin."""

    run: Run
    tasks: Tasks
    slot: ScheduledRun

    @property
    def begins_s(self) -> float:
        """Returns when the run begins, by this machine's wall clock."""
        return self.slot.begins_s

    def finish(self, generators: Path) -> ToolFacts:
        """Waits for the result and keeps it. Raises GeneratorError."""
        try:
            self.slot.finish(self.run.host_path.timeout_s)
            self.slot.record["clocks"] = self.tasks.clocks(self.slot)
        finally:
            if self.slot.record:
                write_whole(generators / run_files.PSCHEDULER, json.dumps(self.slot.record), sync=False)
        record = self.slot.record
        result = of_pscheduler(generators)
        commands = tuple(Command("", text.partition("\n")[0]) for text in _diags(record["run"]))
        version = (result.client or {}).get("start", {}).get("version", "")
        return ToolFacts("pscheduler", str(version), commands, _facts(record))


def _facts(record: Mapping[str, Any]) -> PschedulerFacts:
    """Returns what identifies the run, as far as pScheduler reports it as text and numbers."""
    run = record["run"]

    def text(name: str) -> str | None:
        value = run.get(name)
        return value if isinstance(value, str) else None

    participants, priority = run.get("participants"), run.get("priority")
    return PschedulerFacts(
        lead=record["lead"],
        task=json.dumps(record["task"]),
        clocks={host: _clock(clock) for host, clock in record["clocks"].items()},
        href=text("href"),
        start_time=text("start-time"),
        end_time=text("end-time"),
        participants=tuple(map(str, participants)) if isinstance(participants, list) else (),
        priority=priority if isinstance(priority, int) else None,
    )


def _clock(clock: Mapping[str, Any]) -> PschedulerClock:
    synchronized = clock.get("synchronized")

    def text(name: str) -> str | None:
        return str(clock[name]) if name in clock else None

    def seconds(name: str) -> float | None:
        value = clock.get(name)
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    return PschedulerClock(
        time=text("time"),
        synchronized=synchronized if isinstance(synchronized, bool) else None,
        source=text("source"),
        reference=text("reference"),
        offset_s=seconds("offset"),
        ahead_s=seconds("ahead_s"),
        within_s=seconds("within_s"),
        error=text("error"),
    )


def _diags(run: dict[str, Any]) -> Iterator[str]:
    for result in run["result-full"] or ():
        if isinstance(result, dict) and isinstance(result.get("diags"), str):
            yield result["diags"]


@contextmanager
def scheduled(run: Run, tasks: Tasks, log: RunLog) -> Iterator[Scheduled]:
    """Gives the run, when pScheduler is about to begin it; cancels its task if the context fails."""
    window = run.host_path.time_window
    latest_s = latest_end_s(window, time.time()) - run.traffic.total_s - SLOT_S if window else None
    with tasks.slot(run, latest_s, log) as slot:
        yield Scheduled(run, tasks, slot)


def measure_unseen(run: Run, tasks: Tasks, folder: Path) -> Measurement:
    """Measures like between_hosts.measure(), if nothing of the hosts can be seen but what pScheduler reports."""
    generators, logs = folder / run_files.GENERATORS, folder / run_files.LOGS
    generators.mkdir()
    logs.mkdir()
    log = RunLog(logs / run_files.RUN_LOG)
    log(f"{run.name}: by pScheduler")
    try:
        with scheduled(run, tasks, log) as slot:
            started_s, tool = slot.begins_s, slot.finish(generators)
    except GeneratorError as error:
        log(f"failed: {error}")
        raise
    facts = Facts(
        kernel=KERNEL, iperf3=tool.version, commands=tool.commands, generator=tool.generator, hosts={},
        pscheduler=tool.pscheduler, offloads={},
    )  # fmt: skip
    return Measurement(facts=facts, started_s=started_s, ended_s=time.time(), ping_rtt_s={})


def is_this_machine(name: str) -> bool:
    """Returns whether an address of the host is one of this machine's: whether a socket can have it."""
    try:
        candidates = socket.getaddrinfo(name, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in candidates:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
        except OSError:
            continue
        return True
    return False
