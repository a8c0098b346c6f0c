#!/usr/bin/env python3
"""Run one long campaign between the namespaces near and far, inject faults, and record the memory
and descriptors of its controller.

    tests/faults/soak.py FOLDER --seconds N [--runs N] [--every S] [--seed N] [--pause TIME]
        [--samples-each S] [--set-clock | --preload-clock]

FOLDER, which is made, gets the campaign, and samples.jsonl with the controller's memory and
descriptors, and with each fault. The namespaces must exist, joined by devices eth0. After the last
fault the campaign is resumed until it is complete. The last line of the output is a summary in
JSON. The order of the faults is random, but each kind comes once before one comes again.
--set-clock sets this machine's clock back an hour, and forward again: only in a guest.
--preload-clock does the same for the campaign and all processes that it starts, by a library that
they preload (clock.c). Exit status: 0 if every run was made exactly once, and the hosts are as
before; 1 otherwise.
"""

import argparse
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from ccmix.tools import find_iperf3

CCMIX = str(Path(sys.prefix, "bin", "ccmix"))
SILENCE_S = 60.0  # after which an agent considers its controller lost
DISK = "200m"
CLOCK = Path(__file__).parent / "clock.c"
OFFSET = struct.Struct("q")  # what CLOCK reads: seconds
CHANGED, UNCHANGED = 7, 3  # net.ipv4.tcp_reordering
INI = """[soak]
type = x
src = netns:near
dst-host = netns:far
dst = {address}
interval = 500ms
accept-limits = probe, cpu
connect-timeout = 120s
iterations = {runs}
pause = {pause}
pre-src-cmd = sysctl -qw net.ipv4.tcp_reordering={changed}
post-src-cmd = sysctl -qw net.ipv4.tcp_reordering={unchanged}
dst-cmd = {iperf3} -s -1
src-cmd = {iperf3} -c {{dst}} -n 200K -b 2M
"""


def output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def processes(*namespaces: str) -> list[int]:
    return [int(pid) for name in namespaces for pid in output("ip", "netns", "pids", name).split()]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def state() -> str:
    """Returns the settings of the hosts that a run changes."""
    parts = []
    for name in ("near", "far"):
        parts += [output("ip", "netns", "exec", name, "sysctl", "net.ipv4.tcp_reordering")]
        parts += [re.sub(r" 8[0-9a-f]*: ", " ", output("tc", "-n", name, "qdisc", "show"))]
    return "".join(parts)


class Soak:
    """Keeps a campaign going, and injects faults into it and its hosts."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder = folder
        self._random = random.Random(options.seed)
        self._stops_s = (2.0, SILENCE_S + 10) if options.seconds > 10 * SILENCE_S else (2.0,)
        self._began = time.monotonic()
        self._disk = folder / "disk"
        self._outdir = self._disk / "out"
        self._ini = folder / "soak.ini"
        self._samples = (folder / "samples.jsonl").open("w", buffering=1)
        self._campaign: subprocess.Popen[bytes] | None = None
        self.faults: Counter[str] = Counter()
        self.samples: list[dict[str, float]] = []
        self.starts = 0
        [address] = re.findall(
            r"inet ([0-9.]+)", output("ip", "-n", "far", "addr", "show", "dev", "eth0")
        )
        self._ini.write_text(
            INI.format(
                address=address,
                runs=options.runs,
                pause=options.pause,
                changed=CHANGED,
                unchanged=UNCHANGED,
                iperf3=find_iperf3(),
            )
        )
        self._kinds: list[Callable[[], None]] = [
            self.link_down,
            self.controller_stopped,
            self.disk_full,
            self.reboot_stand_in,
            self.agent_killed,
            self.iperf3_killed,
            self.second_controller,
            self.controller_killed,
        ]
        self._coming: list[Callable[[], None]] = []
        self._environment = dict(os.environ)
        self._offset = folder.resolve() / "offset"
        if options.set_clock:
            self._kinds.append(self.clock_set_back)
        if options.preload_clock:
            self._kinds.append(self.preloaded_clock_set_back)
            library = folder.resolve() / "clock.so"
            output("cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(CLOCK))
            self._offset.write_bytes(OFFSET.pack(0))
            self._environment |= {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(self._offset)}

    def begin(self) -> None:
        self._disk.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self._disk], check=True
        )

    def close(self) -> None:
        if self._campaign and self._campaign.poll() is None:
            self._campaign.kill()
            self._campaign.wait()
        subprocess.run(["umount", self._disk], check=True)

    def finished(self) -> int:
        return sum(1 for _ in self._outdir.rglob("run.json"))

    def whole(self, runs: int) -> bool:
        names = sorted(file.parent.name for file in self._outdir.rglob("run.json"))
        return len(set(names)) == len(names) == runs and not list(self._outdir.rglob("*.partial"))

    def keep_going(self) -> subprocess.Popen[bytes]:
        """Starts the campaign, or resumes it, unless it runs."""
        if self._campaign is None or self._campaign.poll() is not None:
            self.starts += 1
            with (self._folder / "campaign.log").open("ab") as log:
                argv: list[str | Path] = [CCMIX, "run", self._ini, "-o", self._outdir, "--resume"]
                self._campaign = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
                )
        return self._campaign

    def resume(self) -> int:
        """Lets the present campaign end, then resumes it; returns the exit status."""
        self.keep_going().wait()
        return self.keep_going().wait()

    def sample(self) -> None:
        campaign = self.keep_going()
        process = Path(f"/proc/{campaign.pid}")
        try:
            status = dict(
                line.split(":", 1) for line in (process / "status").read_text().splitlines()
            )
            sample: dict[str, float] = {
                "s": round(time.monotonic() - self._began, 1),
                "start": self.starts,
                "finished": self.finished(),
                "rss_kib": int(status["VmRSS"].split()[0]),
                "threads": int(status["Threads"]),
                "descriptors": len(list((process / "fd").iterdir())),
            }
        except (OSError, KeyError):  # it has just ended
            return
        self.samples.append(sample)
        self._write(sample)

    def inject(self) -> None:
        if not self._coming:
            self._coming = self._random.sample(self._kinds, k=len(self._kinds))
        kind = self._coming.pop()
        self.faults[kind.__name__] += 1
        self._write({"s": round(time.monotonic() - self._began, 1), "fault": kind.__name__})
        kind()

    def link_down(self) -> None:
        output("ip", "-n", "near", "link", "set", "eth0", "down")
        time.sleep(self._random.uniform(1, 8))
        output("ip", "-n", "near", "link", "set", "eth0", "up")

    def controller_stopped(self) -> None:
        campaign = self.keep_going()
        campaign.send_signal(signal.SIGSTOP)
        time.sleep(self._random.choice(self._stops_s))
        campaign.send_signal(signal.SIGCONT)

    def disk_full(self) -> None:
        filler = self._disk / "filler"
        subprocess.run(
            ["dd", "if=/dev/zero", f"of={filler}", "bs=1M"], stderr=subprocess.DEVNULL, check=False
        )
        time.sleep(self._random.uniform(1, 8))
        filler.unlink()

    def reboot_stand_in(self) -> None:
        """Imitates a reboot of the near host: all processes die, settings are the kernel's, the
        boot is another.

        The machine does not restart. Instead, journals get the id of an earlier boot.
        """
        kill(processes("near"))
        output(
            "ip", "netns", "exec", "near", "sysctl", "-qw", f"net.ipv4.tcp_reordering={UNCHANGED}"
        )
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        for journal in Path(os.environ["CCMIX_STATE"]).glob("undo-*.jsonl"):
            journal.write_text(journal.read_text().replace(boot_id, "of-an-earlier-boot"))

    def agent_killed(self) -> None:
        namespace = self._random.choice(("near", "far"))
        kill(processes(namespace)[:1])

    def iperf3_killed(self) -> None:
        kill([pid for pid in processes("near", "far") if "iperf3" in command_line(pid)])

    def second_controller(self) -> None:
        argv: list[str | Path] = [CCMIX, "run", self._ini, "-o", self._folder / "second"]
        self.keep_going()
        second = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(5)
        second.send_signal(signal.SIGINT)
        second.wait()
        subprocess.run(["rm", "-rf", self._folder / "second"], check=True)

    def controller_killed(self) -> None:
        self.keep_going().kill()

    def clock_set_back(self) -> None:
        now = time.time()
        time.clock_settime(time.CLOCK_REALTIME, now - 3600)
        time.sleep(20)
        time.clock_settime(time.CLOCK_REALTIME, time.time() + 3600)

    def preloaded_clock_set_back(self) -> None:
        for seconds in (-3600, 0):
            with self._offset.open("r+b", buffering=0) as file:
                file.write(OFFSET.pack(seconds))
            time.sleep(20 if seconds else 0)

    def _write(self, line: dict[str, object] | dict[str, float]) -> None:
        self._samples.write(json.dumps(line) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--pause", default="0s", help="between runs, as in the INI file")
    parser.add_argument("--samples-each", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    clock = parser.add_mutually_exclusive_group()
    clock.add_argument("--set-clock", action="store_true")
    clock.add_argument("--preload-clock", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    os.environ["CCMIX_STATE"] = str(options.folder / "state")

    before = state()
    soak = Soak(options.folder, options)
    soak.begin()
    try:
        end = time.monotonic() + options.seconds
        fault = time.monotonic() + options.every
        while time.monotonic() < end and soak.finished() < options.runs:
            soak.sample()
            if options.every and time.monotonic() > fault:
                soak.inject()
                fault = time.monotonic() + options.every
            time.sleep(options.samples_each)
        by_faults = soak.finished()
        status = soak.resume()
        subprocess.run([CCMIX, "restore"], check=False, stdout=subprocess.DEVNULL)
        whole, as_before = soak.whole(options.runs), state() == before
        longest = max(
            Counter(sample["start"] for sample in soak.samples).items(), key=lambda item: item[1]
        )[0]
        of_longest = [sample for sample in soak.samples if sample["start"] == longest]
        # while it makes runs, and not its report
        kept = [
            one for one, next_ in pairwise(of_longest) if next_["finished"] > one["finished"]
        ] or of_longest
        summary = {
            "seconds": options.seconds,
            "faults": dict(soak.faults),
            "starts": soak.starts,
            "runs": by_faults,
            "status": status,
            "whole": whole,
            "as_before": as_before,
            "longest": [kept[len(kept) // 4], kept[-1]],
        }
        print(json.dumps(summary))
    finally:
        soak.close()
    return 0 if whole and as_before else 1


if __name__ == "__main__":
    sys.exit(main())
