#!/usr/bin/env python3
"""Fits the model of `ccmix plan --cost` (harness/ccmix/analysis/cost.py) to runs in the lab.

    .venv/bin/python bench/cost.py --measure NAME mine.csv
        make the runs, and write the time of each; some 10 minutes
    .venv/bin/python bench/cost.py bench/cost.csv
        fit the model to runs, and print its constants
    .venv/bin/python bench/cost.py --check
        compare the predicted time with that of `ccmix run`

Times are processor times, user and system, of the guest, and of ccmix outside of it, which makes
tables of the run and judges it. One run is made at a time. The constants minimise the sum of the
squares of relative errors, and none is negative. You may join files: rows have the NAME of their
set, such as a machine. All sets have the same constants, except for a factor of each set. The
printed constants are those of the first set.

--check makes the demo and six runs of each of two fast paths, two at a time, and prints the wall
time of the whole command. It takes some four minutes on a machine with nothing else to do.

bench/cost.csv has three sets. 'quiet' has the guests of bench/lab.py in
docs/reference/performance.md, made on a machine with nothing else to do. 'busy' has the runs of
--measure, made on 2026-11-24 on two processors with a load of 5 to 8. 'path' has ten of these runs,
including those of UDP and of steps that measure a path, made on 2026-11-26 while two other guests
ran.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

from ccmix.analysis.cost import GUEST, TABLES, Work, cost, work
from ccmix.config import load
from ccmix.plan import make_plan
from ccmix.units import parse_rate

PATH = """
[topology {name}]
rate = {rate}
delay = {delay}
buffer = 1bdp
mtu = {mtu}
offloads = {offloads}

[{name}]
type = iperf3
topology = {name}
duration = {seconds}s
interval = {interval}
"""
TCP = "cca = {cca}\nstreams = {streams}\n"
UDP = "flows.h1 = h1 udp:{streams}@{rate_kbit}K\n"
STEPS = "type = path\nload-cap = {load_cap_kbit}kbit\n"  # that measure the path
#  rate, delay, MTU, offloads, CCA, streams, seconds, interval
PATHS = (
    ("10mbit", "10ms", 1500, "off", "cubic", 1, 1, "1s"),
    ("10mbit", "10ms", 1500, "off", "cubic", 1, 20, "1s"),
    ("10mbit", "10ms", 1500, "off", "bbr", 1, 200, "1s"),
    ("10mbit", "10ms", 1500, "on", "cubic", 1, 60, "100ms"),
    ("10mbit", "10ms", 1500, "off", "cubic", 16, 60, "100ms"),
    ("10mbit", "10ms", 1500, "off", "cubic", 64, 60, "1s"),
    ("10mbit", "10ms", 1500, "off", "cubic,bbr", 64, 30, "100ms"),
    ("100mbit", "44ms", 1500, "off", "cubic", 1, 60, "1s"),
    ("100mbit", "10ms", 1500, "off", "bbr", 8, 20, "1s"),
    ("100mbit", "10ms", 1500, "off", "cubic,bbr", 100, 20, "1s"),
    ("100mbit", "10ms", 9000, "on", "bbr", 1, 60, "100ms"),
    ("100mbit", "10ms", 9000, "on", "cubic", 16, 60, "1s"),
    ("100mbit", "10ms", 9000, "off", "cubic,bbr", 16, 60, "100ms"),
    ("100mbit", "10ms", 1500, "off", "cubic", 1, 5, "10ms"),
    ("100mbit", "10ms", 1500, "on", "cubic", 16, 5, "10ms"),
    ("1gbit", "10ms", 1500, "off", "cubic", 1, 5, "1s"),
    ("1gbit", "10ms", 1500, "off", "bbr", 16, 10, "100ms"),
    ("1gbit", "10ms", 9000, "on", "cubic", 1, 60, "100ms"),
    ("1gbit", "10ms", 9000, "on", "bbr", 16, 60, "100ms"),
    ("1gbit", "10ms", 9000, "on", "cubic", 16, 20, "1s"),
    ("1gbit", "10ms", 1500, "on", "bbr", 4, 20, "1s"),
    ("1gbit", "44ms", 9000, "off", "cubic,bbr", 8, 30, "1s"),
    ("1gbit", "44ms", 9000, "off", "cubic", 8, 60, "1s"),
    ("1gbit", "5ms", 9000, "off", "bbr2", 16, 30, "100ms"),
    ("1gbit", "10ms", 9000, "on", "bbr", 100, 10, "1s"),
    ("10gbit", "10ms", 9000, "on", "bbr", 1, 10, "100ms"),
    ("10gbit", "10ms", 9000, "on", "cubic", 16, 5, "1s"),
    ("10gbit", "10ms", 9000, "off", "cubic", 1, 3, "1s"),
    ("10gbit", "10ms", 9000, "off", "bbr", 16, 3, "100ms"),
    ("10gbit", "44ms", 1500, "on", "cubic", 4, 3, "1s"),
    ("10gbit", "10ms", 1500, "off", "bbr", 8, 1, "1s"),
    ("10mbit", "10ms", 1500, "off", "udp", 1, 60, "1s"),
    ("100mbit", "10ms", 1500, "off", "udp", 1, 10, "1s"),
    ("1gbit", "10ms", 9000, "off", "udp", 1, 5, "1s"),
    ("20mbit", "10ms", 1500, "off", "path", 1, 60, "100ms"),
    ("100mbit", "44ms", 1500, "off", "path", 1, 30, "100ms"),
    ("1gbit", "10ms", 9000, "off", "path", 1, 30, "100ms"),
    ("10gbit", "10ms", 9000, "off", "path", 1, 30, "100ms"),
)
CHECKED = {
    "1 Gbit/s, 16 BBR flows": ("1gbit", "10ms", 9000, "on", "bbr", 16, 60, "100ms"),
    "10 Gbit/s, 1 BBR flow": ("10gbit", "10ms", 9000, "on", "bbr", 1, 20, "100ms"),
}
CHECKED_RUNS, JOBS = 6, 2  # of each, and at the same time
REPOSITORY = Path(__file__).resolve().parents[1]
KEYS = ("rate", "delay", "mtu", "offloads", "cca", "streams", "seconds", "interval")
LEAST = 1e-12  # of a constant; less is 0
COLUMNS = ("set", *KEYS, "guest_s", "tables_s")

# Runs ccmix as its own command would, and writes the processor time of each guest and of its
# tables.
TIMED = """
import json, resource, sys, time
from ccmix.cli import main
from ccmix.run import conclude, machines

out = open(sys.argv.pop(1), "w")
run_guest, make_tables = machines.run_guest, conclude.conclude

def of_children():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime

async def timed_guest(*arguments):
    before = of_children()
    result = await run_guest(*arguments)
    out.write(json.dumps({"guest_s": of_children() - before}) + "\\n")
    return result

def timed_tables(run, *arguments):
    before = time.process_time()
    finished = make_tables(run, *arguments)
    out.write(json.dumps({"entry": run.entry, "tables_s": time.process_time() - before}) + "\\n")
    return finished

machines.run_guest, conclude.conclude = timed_guest, timed_tables
try:
    main()
finally:
    out.close()
"""


def ini(path: Sequence[object], name: str) -> str:
    """Returns the configuration of a run. The CCA 'udp' means UDP at 0.9 of the rate, and 'path'
    means steps that measure the path."""
    keys = dict(zip(KEYS, path, strict=True))
    lines = PATH.format(name=name, **keys)
    rate_bps = parse_rate(str(keys["rate"]))
    if keys["cca"] == "udp":
        return lines + UDP.format(
            rate_kbit=round(0.9 * rate_bps / 1e3 / int(str(keys["streams"]))),
            streams=keys["streams"],
        )
    if keys["cca"] == "path":
        return lines.replace(
            "type = iperf3\n", STEPS.format(load_cap_kbit=round(3 * rate_bps / 1e3))
        )
    return lines + TCP.format(**keys)


def measured(name: str) -> Iterator[tuple[object, ...]]:
    """Makes all runs, and yields the rows of the file."""
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as folder:
        config, times = Path(folder, "cost.ini"), Path(folder, "times")
        config.write_text("".join(ini(path, f"p{number}") for number, path in enumerate(PATHS)))
        argv: list[str | Path] = [
            sys.executable,
            "-c",
            TIMED,
            times,
            "run",
            config,
            "--lab",
            "-j",
            "1",
            "-o",
            Path(folder, "results"),
        ]
        subprocess.run(argv, stdout=subprocess.DEVNULL, check=False)
        lines = [json.loads(line) for line in times.read_text().splitlines()]
    of_guests = (line["guest_s"] for line in lines if "guest_s" in line)
    of_tables = (line for line in lines if "tables_s" in line)
    for guest_s, tables in zip(of_guests, of_tables, strict=True):
        yield (
            name,
            *PATHS[int(tables["entry"][1:])],
            round(guest_s, 2),
            round(tables["tables_s"], 3),
        )


def check() -> None:
    """Prints the measured and the predicted times of campaigns."""
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print(
        "| campaign | runs | predicted (s) | took (s) | predicted to took |\n|---|--:|--:|--:|--:|",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as folder:
        configs = {"the demo": REPOSITORY / "configs/demo.ini"}
        for number, (name, path) in enumerate(CHECKED.items()):
            configs[name] = Path(folder, f"{number}.ini")
            configs[name].write_text(ini(path, "path") + f"iterations = {CHECKED_RUNS}\n")
        for name, config in configs.items():
            runs = make_plan(load(config).entries, 1)
            predicted_s, begin_s = cost(runs, JOBS).real_s, time.monotonic()
            argv = [
                REPOSITORY / ".venv/bin/ccmix",
                "run",
                config,
                "--lab",
                "-j",
                JOBS,
                "-o",
                Path(folder, config.stem),
            ]
            subprocess.run([str(word) for word in argv], check=True, capture_output=True)
            took_s = time.monotonic() - begin_s
            times = f"{predicted_s:.1f} | {took_s:.1f} | {predicted_s / took_s:.2f}"
            print(f"| {name} | {len(runs)} | {times} |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


def works(rows: Sequence[dict[str, str]]) -> list[Work]:
    """Returns the model's input for each run."""
    found = []
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as folder:
        for row in rows:
            config = Path(folder, "cost.ini")
            config.write_text(ini([row[key] for key in KEYS], "path"))
            [run] = make_plan(load(config).entries, 1)
            found.append(work(run))
    return found


def fitted(
    amounts: Sequence[Sequence[float]], seconds: Sequence[float], sets: Sequence[str]
) -> tuple[list[float], dict[str, float]]:
    """Returns the constants of the first set, and the factor of each set, by which it is slower."""
    weighted = np.array(amounts) / np.array(seconds)[:, None]
    names = list(dict.fromkeys(sets))
    number = np.array([names.index(name) for name in sets])
    start, _ = nnls(weighted, np.ones(len(seconds)))
    unit = np.maximum(start, start.max() * 1e-9)

    def errors(found: NDArray[np.float64]) -> NDArray[np.float64]:
        constants, times = found[: unit.size] * unit, np.concatenate([[1.0], found[unit.size :]])
        off: NDArray[np.float64] = times[number] * (weighted @ constants) - 1
        return off

    begin = np.concatenate([start / unit, np.ones(len(names) - 1)])
    found = least_squares(errors, begin, bounds=(0, np.inf), x_scale="jac", max_nfev=10_000).x
    constants = [float(f"{value:.3g}") for value in found[: unit.size] * unit]
    times = [1.0, *(float(value) for value in found[unit.size :])]
    return [value if value > LEAST else 0.0 for value in constants], dict(
        zip(names, times, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--measure", metavar="NAME", help="make the runs, and write the file")
    parser.add_argument(
        "--check", action="store_true", help="make campaigns, and print how long was predicted"
    )
    arguments = parser.parse_args()
    if arguments.check:
        check()
        return
    if not arguments.file:
        parser.error("name the file, or give --check")
    if arguments.measure:
        with arguments.file.open("w", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows([COLUMNS, *measured(arguments.measure)])
    with arguments.file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    slower = report_fit("guest_s", GUEST, rows, {})
    report_fit("tables_s", TABLES, rows, slower)


def report_fit(
    column: str, now: Sequence[float], rows: Sequence[dict[str, str]], slower: dict[str, float]
) -> dict[str, float]:
    """Fits the times of a column and prints the result; returns the factor of each set, by which it
    is slower.

    `slower` has these factors if they are already known, because few sets have times of tables.
    """
    known = [row for row in rows if row[column]]
    amounts = [astuple(each) for each in works(known)]
    seconds = [float(row[column]) / slower.get(row["set"], 1.0) for row in known]
    constants, times = fitted(amounts, seconds, ["all" if slower else row["set"] for row in known])
    print(f"{column}: {constants}{'' if constants == list(now) else f', in cost.py {list(now)}'}")
    for row, each, took_s in zip(known, amounts, seconds, strict=True):
        took_as_first_s = took_s / (1.0 if slower else times[row["set"]])
        expected_s = sum(
            constant * amount for constant, amount in zip(constants, each, strict=True)
        )
        path = " ".join(row[key] for key in KEYS)
        print(
            f"    {row['set']}, {path}: {took_as_first_s:.2f} s, predicted {expected_s:.2f}, "
            f"{expected_s / took_as_first_s - 1:+.0%}"
        )
    for name, factor in times.items():
        print(f"    {name}: {factor:.2f} times as long")
    return times


if __name__ == "__main__":
    main()
