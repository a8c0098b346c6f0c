"""Kills parts of a campaign between the namespaces near, router and far at random moments, until it is whole.

    kill_parts.py INI FOLDER KILLS SEED STATE

It starts `ccmix run INI`, kills one process after the other by SIGKILL, and resumes what a kill has ended; a campaign
that is whole is followed by the next. Whenever no campaign runs, every process on the hosts must have ended, and what
the shell command STATE prints must be as before; where an agent was killed, after `ccmix restore`. Each kill is a line
of the output, and the last line is a summary in JSON. Exit status: 0 unless something was not as it must be.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

CCMIX = str(Path(sys.prefix, "bin", "ccmix"))
HOSTS = ("near", "router", "far")
PARTS = ("harness", "agent", "keeper", "sockmon", "iperf3")
LONGEST_WAIT_S = 4.0  # of the clock that the campaign has: a guest's is virtual
ENDS_WITHIN_S = 120.0


def processes() -> dict[int, tuple[str, int]]:
    """Returns the command line and the parent of each process on the hosts."""
    found = {}
    for host in HOSTS:
        pids = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=True).stdout
        for pid in pids.split():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if line:
                found[int(pid)] = (line, parent)
    return found


def of_part(part: str, harness: int) -> list[int]:
    """Returns the processes of a part. A keeper has the command line of its agent, which forked it."""
    if part == "harness":
        return [harness]
    found = processes()
    if part in ("agent", "keeper"):
        forked = {pid for pid, (line, parent) in found.items() if found.get(parent, ("",))[0] == line}
        agents = {pid for pid, (line, _) in found.items() if "python3" in line} - forked
        return sorted(agents if part == "agent" else {pid for pid in forked if found[pid][1] in agents})
    return [pid for pid, (line, _) in found.items() if part in line.split()[0]]


class Campaigns:
    """Makes one campaign after the other, each in a folder of its own."""

    def __init__(self, ini: str, folder: Path, state: str, seed: int) -> None:
        self._ini = ini
        self._folder = folder
        self._state = state
        self._random = random.Random(seed)
        self._before = self._says()
        self.kills: Counter[str] = Counter()
        self.whole = 0
        self.faults: list[str] = []

    def _says(self) -> str:
        return subprocess.run(["sh", "-c", self._state], capture_output=True, text=True, check=False).stdout

    def make(self, kills: int) -> None:
        """Makes campaigns until so many kills were made, and the last campaign is whole."""
        while self.kills.total() < kills:
            outdir = self._folder / str(self.whole)
            while not self._once(outdir, kills):
                pass
            runs = sorted(str(file.parent.relative_to(outdir)) for file in outdir.rglob("run.json"))
            planned = len(json.loads((outdir / "campaign.json").read_text())["runs"])
            if len(set(runs)) != planned or list(outdir.rglob("*.partial")):
                self.faults.append(f"{outdir.name}: of {planned} runs there are {runs}")
            self.whole += 1

    def _once(self, outdir: Path, kills: int) -> bool:
        """Starts or resumes the campaign, and kills parts of it until it ends; returns whether it is whole."""
        argv = [CCMIX, "run", self._ini, "-o", outdir, "--resume"]
        log = outdir.with_suffix(".log")
        agents_killed = False
        with log.open("ab") as output:
            harness = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        while True:
            try:
                harness.wait(self._random.uniform(0.1, LONGEST_WAIT_S))
                break
            except subprocess.TimeoutExpired:
                part = self._random.choice(PARTS)
                victims = of_part(part, harness.pid) if self.kills.total() < kills else []
                if victims:
                    os.kill(self._random.choice(victims), signal.SIGKILL)
                    self.kills[part] += 1
                    print(f"{self.kills.total()}: {part} in campaign {outdir.name}", flush=True)
                    agents_killed = agents_killed or part == "agent"
        self._check(outdir.name, agents_killed)
        if harness.returncode == -signal.SIGKILL:
            return False
        if "Traceback" in log.read_text():
            self.faults.append(f"{outdir.name}: {log.read_text()}")
            return True
        return harness.returncode == 0

    def _check(self, name: str, agents_killed: bool) -> None:
        end = time.monotonic() + ENDS_WITHIN_S
        while left := processes():
            if time.monotonic() > end:
                self.faults.append(f"{name}: still there: {left}")
                break
            time.sleep(0.1)
        if agents_killed:
            hosts = [f"netns:{host}" for host in HOSTS]
            subprocess.run([CCMIX, "restore", *hosts], check=False, stdout=subprocess.DEVNULL)
        if (now := self._says()) != self._before:
            different = set(now.splitlines()) ^ set(self._before.splitlines())
            self.faults.append(f"{name}: the hosts are not as before: {sorted(different)}")


def main() -> int:
    ini, folder, kills, seed, state = sys.argv[1:]
    campaigns = Campaigns(ini, Path(folder), state, int(seed))
    campaigns.make(int(kills))
    print(json.dumps({"kills": campaigns.kills, "campaigns": campaigns.whole, "faults": campaigns.faults}))
    return 1 if campaigns.faults else 0


if __name__ == "__main__":
    sys.exit(main())
