#!/usr/bin/env python3
"""Measure what a run between hosts costs beyond its generator's own time, in seconds.

    bench/fixed_cost.py [--iterations N]

Two namespaces of this machine are the hosts; needs root. For each generator: `real_seconds` of
run.json, from the moment when a run begins until everything is put back, less the time that the
traffic itself was to take; and the whole campaign's time per run, which includes the tables and the
verdict, less the same. Medians and maxima over the iterations; the first run of an entry, which
connects, is told apart.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
CCMIX = REPOSITORY / ".venv" / "bin" / "ccmix"
IPERF3 = (REPOSITORY / ".venv" / "bin" / "ccmix-iperf3").resolve()
NEAR, FAR = f"ccmix-bench-near-{os.getpid()}", f"ccmix-bench-far-{os.getpid()}"
TRAFFIC_S = 2
ENTRIES = {
    "iperf3 (ccmix's own)": f"type = iperf3\ncca = reno@50M\nduration = {TRAFFIC_S}s",
    "iperf3 -s -D and src-cmd": f"type = x\ndst-cmd = {IPERF3} -s -D\n"
    f"src-cmd = {IPERF3} -c {{dst}} -t {TRAFFIC_S} -b 50M -J",
    "sleep": f"type = x\nsrc-cmd = sleep {TRAFFIC_S}",
}


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def hosts() -> None:
    for name in (NEAR, FAR):
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("link", "add", "eth0", "netns", NEAR, "type", "veth", "peer", "name", "eth0", "netns", FAR)
    for name, address in ((NEAR, "10.213.8.1/24"), (FAR, "10.213.8.2/24")):
        ip("-n", name, "addr", "add", address, "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")


def measure(entry: str, iterations: int, folder: Path) -> tuple[list[float], float]:
    """Fixed cost of each run, and the campaign's time per run beyond the traffic; seconds."""
    config = folder / "bench.ini"
    config.write_text(
        f"[bench]\nsrc = netns:{NEAR}\ndst = 10.213.8.2\ndst-host = netns:{FAR}\niterations = "
        f"{iterations}\n{entry}\n"
    )
    begin = time.monotonic()
    subprocess.run([CCMIX, "run", config, "-o", folder / "out"], capture_output=True, check=False)
    whole = (time.monotonic() - begin) / iterations - TRAFFIC_S
    runs = sorted((folder / "out").glob("bench/*/*/*/run.json"))
    if len(runs) < iterations:
        sys.exit(f"only {len(runs)} of {iterations} runs: see {folder / 'out'}")
    return [
        json.loads(run.read_text())["execution"]["real_seconds"] - TRAFFIC_S for run in runs
    ], whole


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=5, metavar="N")
    iterations = parser.parse_args().iterations
    hosts()
    try:
        print(f"{'generator':28} {'first':>7} {'median':>7} {'most':>7} {'campaign per run':>17}")
        for name, entry in ENTRIES.items():
            with tempfile.TemporaryDirectory() as folder:
                (first, *others), whole = measure(entry, iterations, Path(folder))
            print(
                f"{name:28} {first:7.2f} {statistics.median(others):7.2f} {max(others):7.2f} "
                f"{whole:17.2f}"
            )
    finally:
        for name in (NEAR, FAR):
            ip("netns", "del", name)


if __name__ == "__main__":
    main()
