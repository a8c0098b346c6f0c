#!/usr/bin/env python3
"""Measure the speed of the lab: virtual seconds of traffic per real second, on one processor, and
on two compared with one.

    bench/lab.py [--rounds N] [--only WORD] [--against FOLDER]

Each path is a separate campaign of one run. "guest" counts only the time of the guest, from its
kernel's start to its end; "run" counts the whole process `ccmix run`, with its start, tables and
verdict. The paths take turns, once a round. Prints the medians, and the best in brackets.
"parallel" is a campaign of twelve runs of some seconds each: the time of the whole `ccmix run` on
one processor, divided by its time on two. The last line is the alternative: one of the paths in
namespaces of this machine, if its kernel supports that and we are root.

--against compares with another commit, which is set up in another folder. Both take turns on each
path. The ratio is that of processor time, user and system, which other work on the machine disturbs
least: of the guest, and of the whole `ccmix run`, whose start, verdict and pages take the same time
for a run of a second and of an hour.

    git worktree add ../before 9dd6605
    (cd ../before && CCMIX_CACHE=$HOME/.cache/ccmix-before tools/setup)
    .venv/bin/python bench/lab.py --rounds 5 --against ../before
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
CCMIX = REPOSITORY / ".venv" / "bin" / "ccmix"
INI = """
[topology path]
rate = {rate}
delay = 10ms
buffer = 1bdp
mtu = {mtu}
offloads = {offloads}

[entry]
type = iperf3
topology = path
cca = {cca}
streams = {streams}
duration = {seconds}s
iterations = {iterations}
"""


@dataclass(frozen=True)
class LabPath:
    name: str
    goal: float
    rate: str
    cca: str
    streams: int
    seconds: int
    mtu: int = 9000
    offloads: str = "on"

    def ini(self, iterations: int = 1) -> str:
        return INI.format(**vars(self), iterations=iterations)


PATHS = (
    LabPath("10 Mbit/s, 1 flow", 100, "10mbit", "bbr", 1, 60),
    LabPath("100 Mbit/s, 1 flow", 60, "100mbit", "cubic", 1, 60),
    LabPath("1 Gbit/s, 1 flow", 30, "1gbit", "cubic", 1, 60),
    LabPath("1 Gbit/s, 16 BBR flows", 18, "1gbit", "bbr", 16, 60),
    LabPath("10 Gbit/s, 1 flow", 3, "10gbit", "bbr", 1, 10),
    LabPath(
        "1 Gbit/s per packet, MTU 1500, 16 BBR flows",
        3.5,
        "1gbit",
        "bbr",
        16,
        20,
        mtu=1500,
        offloads="off",
    ),
)
PARALLEL = LabPath("", 1.8, "1gbit", "bbr", 16, 60)
PARALLEL_RUNS = 12
REAL_TIME = PATHS[2]


def ran(ccmix: Path, ini: str, processors: int, folder: Path) -> tuple[float, Path]:
    """Runs it on a number of processors; returns the real seconds of the process, and its
    results."""
    of_these = ",".join(map(str, sorted(os.sched_getaffinity(0))[:processors]))
    config, outdir = folder / "bench.ini", folder / "results"
    config.write_text(ini)
    begin = time.monotonic()
    done = subprocess.run(
        ["taskset", "-c", of_these, ccmix, "run", config, "--lab", "-o", outdir],
        capture_output=True,
        text=True,
        check=False,
    )
    real_s = time.monotonic() - begin
    if done.returncode != 0:
        raise SystemExit(
            f"bench/lab.py: {ccmix} run ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return real_s, outdir


def campaign(ini: str, processors: int) -> tuple[float, float]:
    """Runs it on a number of processors; returns the real seconds of the process and of its
    guests."""
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as folder:
        real_s, outdir = ran(CCMIX, ini, processors, Path(folder))
        return real_s, sum(
            json.loads(f.read_text())["execution"]["real_seconds"] for f in outdir.rglob("run.json")
        )


def in_real_time(ini: str, seconds: float) -> str:
    """Virtual seconds per real second without the lab, or the reason why it can't run."""
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as folder:
        config = Path(folder, "bench.ini")
        config.write_text(ini)
        begin = time.monotonic()
        argv: list[str | Path] = [CCMIX, "run", config, "-o", Path(folder, "results")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return f"{seconds / (time.monotonic() - begin):.2f}"
        reasons = [line.strip() for line in done.stderr.splitlines() if line.startswith("    ")]
        return f"can't: {reasons[0] if reasons else done.stderr.strip()}"


def ratios(values: list[float]) -> str:
    return f"{statistics.median(values):6.1f} [{max(values):.1f}]"


# Runs ccmix as its own command would, and prints the processor time of its guests on the last line
# of standard error.
CCMIX_WITH_GUEST_TIME = """
import resource, sys
from ccmix.cli import main
from ccmix.run import machines

def of_children():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime

run_guest, seconds = machines.run_guest, []

async def timed(*arguments):
    before = of_children()
    result = await run_guest(*arguments)
    seconds.append(of_children() - before)
    return result

machines.run_guest = timed
try:
    main()
finally:
    print(sum(seconds), file=sys.stderr)
"""


@dataclass(frozen=True)
class ProcessorTime:
    """Holds seconds, user and system."""

    whole_s: float
    """of `ccmix run` and of all processes that it starts"""
    guest_s: float
    """only of the guests"""


def processor_time(ini: str, checkout: Path) -> ProcessorTime:
    """Runs it on one processor with that checkout of ccmix. Ends the bench if the run fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as folder:
        config, outdir = Path(folder, "bench.ini"), Path(folder, "results")
        config.write_text(ini)
        python = checkout / ".venv" / "bin" / "python"
        done = subprocess.run(
            [
                "taskset",
                "-c",
                str(min(os.sched_getaffinity(0))),
                python,
                "-c",
                CCMIX_WITH_GUEST_TIME,
                "run",
                config,
                "--lab",
                "-o",
                outdir,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(
                f"bench/lab.py: {checkout} ended with "
                f"{done.returncode}:\n{done.stdout}{done.stderr}"
            )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return ProcessorTime(whole_s, float(done.stderr.splitlines()[-1]))


def compare(paths: list[LabPath], rounds: int, other: Path) -> None:
    """Prints the speed of this commit divided by that of the other, path by path."""
    print("speed of this commit / of the other, by processor time; median [all]")
    print(f"{'':<45}{'guest, goal 0.95':<36}whole 'ccmix run'")
    for path in paths:
        guest, whole = [], []
        for number in range(rounds):
            order = (REPOSITORY, other) if number % 2 else (other, REPOSITORY)
            took = {checkout: processor_time(path.ini(), checkout) for checkout in order}
            guest.append(took[other].guest_s / took[REPOSITORY].guest_s)
            whole.append(took[other].whole_s / took[REPOSITORY].whole_s)
        print(
            f"{path.name:<45}{each(guest):<36}{each(whole)}  load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


def each(speeds: list[float]) -> str:
    return f"{statistics.median(speeds):.2f} [{' '.join(f'{speed:.2f}' for speed in speeds)}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--only",
        default="",
        help="only paths whose name has this word, or only 'parallel' or 'namespaces'",
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FOLDER",
        help="compare with the commit that is set up there",
    )
    options = parser.parse_args()
    print(
        f"{options.rounds} rounds; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} "
        "processors"
    )
    paths = [path for path in PATHS if options.only in path.name]
    if options.against:
        compare(paths, options.rounds, options.against.resolve())
        return
    print("virtual seconds per real second; median [best]        guest           run  goal")
    guest: dict[str, list[float]] = {path.name: [] for path in paths}
    whole: dict[str, list[float]] = {path.name: [] for path in paths}
    for _ in range(options.rounds):
        for path in paths:
            real_s, guest_s = campaign(path.ini(), processors=1)
            guest[path.name].append(path.seconds / guest_s)
            whole[path.name].append(path.seconds / real_s)
    for path in paths:
        print(
            f"{path.name:<45}{ratios(guest[path.name]):>14}{ratios(whole[path.name]):>14}{path.goal:6g}"
        )
    if options.only in ("", "parallel"):
        ini = PARALLEL.ini(PARALLEL_RUNS)
        gains = [
            campaign(ini, processors=1)[0] / campaign(ini, processors=2)[0]
            for _ in range(options.rounds)
        ]
        gain = f"{statistics.median(gains):.2f} [{max(gains):.2f}]"
        print(f"{'parallel: two processors to one':<59}{gain:>14}{PARALLEL.goal:6g}")
    if options.only in ("", "namespaces"):
        found = in_real_time(REAL_TIME.ini(), REAL_TIME.seconds)
        print(f"{f'{REAL_TIME.name}, in namespaces of this machine':<59}{found:>14}")


if __name__ == "__main__":
    main()
