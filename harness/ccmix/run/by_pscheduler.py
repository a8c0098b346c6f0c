"""Runs whose traffic pScheduler makes: its part of a run between hosts, and a run from a host without a shell."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccmix.generators.pscheduler import runs
from ccmix.generators.pscheduler.runs import Slot, Tasks
from ccmix.generators.pscheduler.task import SLOT_S
from ccmix.generators.results import GeneratorError
from ccmix.model import Run
from ccmix.run.limits import latest_end_s
from ccmix.run.log import RunLog

KERNEL = "unknown"  # pScheduler doesn't tell


@dataclass(frozen=True)
class Scheduled:
    """A run that is about to begin."""

    run: Run
    tasks: Tasks
    slot: Slot

    @property
    def begins_s(self) -> float:
        """By this machine's wall clock."""
        return self.slot.begins_s

    def finish(self, generators: Path) -> dict[str, Any]:
        """Waits for the result and keeps it; the facts that come of it. Raises GeneratorError."""
        try:
            self.slot.finish(self.run.host_path.timeout_s)
            self.slot.record["clocks"] = self.tasks.clocks(self.slot)
        finally:
            if self.slot.record:
                (generators / runs.FILE).write_text(json.dumps(self.slot.record, indent=1))
        record = self.slot.record
        result = runs.result_of(generators)
        commands = [text.partition("\n")[0] for text in _diags(record["run"])]
        about = {name: record[name] for name in ("lead", "task", "clocks")} | {
            name: record["run"].get(name) for name in ("href", "start-time", "end-time", "participants", "priority")
        }
        version = (result.client or {}).get("start", {}).get("version", "")
        return {"commands": commands, "iperf3": str(version), "generator": "pscheduler", "pscheduler": about}


def _diags(run: dict[str, Any]) -> Iterator[str]:
    for one in run["result-full"] or ():
        if isinstance(one, dict) and isinstance(one.get("diags"), str):
            yield one["diags"]


@contextmanager
def scheduled(run: Run, tasks: Tasks, log: RunLog) -> Iterator[Scheduled]:
    """The run, when pScheduler is about to begin it; its task is cancelled where the context fails."""
    window = run.host_path.time_window
    latest_s = latest_end_s(window, time.time()) - run.seconds - SLOT_S if window else None
    with tasks.slot(run, latest_s, log) as slot:
        yield Scheduled(run, tasks, slot)


def measure_unseen(run: Run, tasks: Tasks, folder: Path) -> list[str]:
    """As between_hosts.measure(), where nothing of the hosts can be seen but what pScheduler says."""
    generators, logs = folder / "generators", folder / "logs"
    generators.mkdir()
    logs.mkdir()
    log = RunLog(logs / "run.log")
    log(f"{run.name}: by pScheduler")
    nothing: dict[str, Any] = {"qdiscs": {}, "netstat": {}, "softnet": {}}
    try:
        with scheduled(run, tasks, log) as one:
            facts: dict[str, Any] = {"started_s": one.begins_s} | one.finish(generators)
    except GeneratorError as error:
        log(f"failed: {error}")
        raise
    facts |= {
        "kernel": KERNEL, "hosts": {}, "before": nothing, "after": nothing, "ping_before_s": [], "ping_rtt_s": [],
        "offloads": {}, "ports_before": [], "probes": {}, "notices": [], "ended_s": time.time(),
    }  # fmt: skip
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))
    return []


def is_this_machine(name: str) -> bool:
    """Whether an address of the host is one of this machine's: whether a socket can have it."""
    try:
        found = socket.getaddrinfo(name, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
        except OSError:
            continue
        return True
    return False
