"""Kills parts of campaigns at random moments, and resumes what a kill has ended, until each
campaign is whole.
"""

import json
import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

STARTS_WITHOUT_KILLS = 3  # that may fail one after the other before the campaign is given up

Start = Callable[[Path, IO[bytes]], subprocess.Popen[Any]]
Victims = Callable[[int], Mapping[str, Sequence[int]]]
Check = Callable[[set[str]], Iterable[str]]


@dataclass
class Kills:
    """Counts the kills by kind, and holds what was not as it must be."""

    by_kind: Counter[str] = field(default_factory=Counter)
    campaigns: int = 0
    starts: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.by_kind.items()))
        return (
            f"{self.by_kind.total()} kills ({kinds}) in {self.starts} starts of "
            f"{self.campaigns} campaigns"
        )


class Killer:
    """Makes one campaign after the other in a folder of its own, and kills what belongs to them.

    `start` starts the campaign in a folder, or resumes it, and has it write to the file. `victims`
    gets the process of the harness, and returns by kind the processes that may be killed; a negative
    number is a process group. After each end of a campaign, `check` gets the kinds that were killed
    since its start, and returns the violations that it finds.
    """

    def __init__(
        self,
        folder: Path,
        start: Start,
        victims: Victims,
        check: Check,
        *,
        seed: int,
        longest_wait_s: float,
    ) -> None:
        self._folder = folder
        self._start = start
        self._victims = victims
        self._check = check
        self._dice = random.Random(seed)
        self._longest_wait_s = longest_wait_s
        self._kills = Kills()

    def make(self, kills: int) -> Kills:
        """Makes campaigns until so many processes were killed and the last campaign is whole, or
        something is wrong.
        """
        while self._kills.by_kind.total() < kills and not self._kills.faults:
            self._campaign(self._folder / str(self._kills.campaigns), kills)
            self._kills.campaigns += 1
        return self._kills

    def _campaign(self, outdir: Path, kills: int) -> None:
        failed, finished = 0, runs(outdir)
        while failed < STARTS_WITHOUT_KILLS:
            status, killed = self._once(outdir, kills)
            kept, finished = finished, runs(outdir)
            if changed := [name for name, content in kept.items() if finished.get(name) != content]:
                self._kills.faults.append(
                    f"{outdir.name}: finished runs were made again: {changed}"
                )
            if status == 0 or (
                not killed and len(finished) == planned(outdir)
            ):  # 1: some of them are not valid
                break
            failed = 0 if killed else failed + 1
        else:
            log = outdir.with_suffix(".log").read_text()
            self._kills.faults.append(
                f"{outdir.name}: {failed} starts failed though nothing was killed: {log}"
            )
        if len(finished) != planned(outdir) or list(outdir.rglob("*.partial")):
            self._kills.faults.append(
                f"{outdir.name}: of {planned(outdir)} runs there are {sorted(finished)}"
            )

    def _once(self, outdir: Path, kills: int) -> tuple[int, set[str]]:
        """Starts or resumes the campaign, and kills until it ends; returns its status, and the
        kinds killed.
        """
        self._kills.starts += 1
        log = outdir.with_suffix(".log")
        killed: set[str] = set()
        with log.open("ab") as output:
            begin = output.tell()
            harness = self._start(outdir, output)
        while True:
            try:
                status = harness.wait(self._dice.uniform(0.1, self._longest_wait_s))
                break
            except subprocess.TimeoutExpired:
                if self._kills.by_kind.total() < kills and (kind := self._kill(harness.pid)):
                    killed.add(kind)
                    print(
                        f"{self._kills.by_kind.total()}: {kind} in campaign {outdir.name}",
                        flush=True,
                    )
        faults = list(self._check(killed))
        said = log.read_bytes()[begin:].decode(errors="replace")
        allowed = (0, 1, -signal.SIGKILL) if "harness" in killed else (0, 1)
        if status not in allowed or "Traceback" in said:
            faults.append(f"status {status}: {said}")
        self._kills.faults += [f"{outdir.name}: {fault}" for fault in faults]
        after = ", ".join(sorted(killed)) or "no kill"
        print(
            f"campaign {outdir.name} ended with {status} after {after}: {len(faults)} faults",
            flush=True,
        )
        return status, killed

    def _kill(self, harness: int) -> str | None:
        """Kills a process of a random kind; returns the kind, or nothing if no such process
        exists now.
        """
        kinds = self._victims(harness)
        kind = self._dice.choice(sorted(kinds))
        if not kinds[kind]:
            return None
        victim = self._dice.choice(kinds[kind])
        try:
            (os.kill if victim > 0 else os.killpg)(abs(victim), signal.SIGKILL)
        except ProcessLookupError:
            return None
        self._kills.by_kind[kind] += 1
        return kind


def runs(outdir: Path) -> dict[str, bytes]:
    """Returns the content of run.json of each finished run."""
    return {
        str(file.parent.relative_to(outdir)): file.read_bytes()
        for file in sorted(outdir.rglob("run.json"))
    }


def planned(outdir: Path) -> int | None:
    """Returns the number of runs in the plan, if there is one yet."""
    plan = outdir / "campaign.json"
    return len(json.loads(plan.read_text())["runs"]) if plan.exists() else None
