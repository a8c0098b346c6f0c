#!/usr/bin/env python3
"""Measure the cost of bbr2 and bbr3 per ACK as BPF programs on this machine's kernel, compared with
the kernel's bbr.

    sudo .venv/bin/python bench/cca_bpf.py [--rounds N] [--seconds N] [--loader PROGRAM]

The kernel counts the nanoseconds of BPF programs. Its own bbr is called by programs that do nothing
else (bench/cca_bpf/bbr.bpf.c), so it is counted in the same way. Flows between two network
namespaces take turns, once a round. Prints the nanoseconds of the hook that handles an ACK
(cong_control): medians of the rounds, and their ratio to bbr's. The cost of counting, which the
small hook min_tso_segs shows, is subtracted.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.cca_flows import linked, options_of_turns, run, transfer
from ccmix.tools import cache_folder

REPOSITORY = Path(__file__).resolve().parents[1]
CCAS = {"bench_bbr": "bbr", "bbr2": "bbr2", "bbr3": "bbr3"}  # and the names in the table
COUNTED = ("bbr_", "bench_")  # how the names of the programs begin
RATE = "100mbit"


@dataclass(frozen=True)
class CostPath:
    name: str
    flows: int
    buffer: str


PATHS = (
    CostPath("1 flow", 1, "500k"),
    CostPath("1 flow, small buffer", 1, "20k"),
    CostPath("16 flows", 16, "500k"),
)


@dataclass(frozen=True)
class Cost:
    """Holds nanoseconds per ACK."""

    acks: int
    cong_control: float


class Counts:
    """Asks the kernel, through bench/cca_bpf/count.c, for the calls of BPF programs and their
    nanoseconds."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self) -> Mapping[str, tuple[int, int]]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        programs = json.loads(self._process.stdout.readline())
        return {
            name: (calls, spent)
            for name, (calls, spent) in programs.items()
            if name.split()[1].startswith(COUNTED)
        }


@contextmanager
def counted(folder: Path) -> Iterator[Counts]:
    libbpf = max((cache_folder() / "cca").glob("libbpf-*"), key=lambda path: path.stat().st_mtime)
    here = REPOSITORY / "bench" / "cca_bpf"
    multiarch = subprocess.run(
        ["gcc", "-print-multiarch"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    includes = [
        f"-I{libbpf}/include",
        f"-I{REPOSITORY}/cca/bpf/programs",
        f"-I/usr/include/{multiarch}",
    ]
    clang: list[str | Path] = [
        "clang",
        "-target",
        "bpf",
        "-mcpu=v3",
        "-O2",
        "-g",
        *includes,
        "-c",
        here / "bbr.bpf.c",
    ]
    subprocess.run([*clang, "-o", folder / "bbr.bpf.o"], check=True)
    gcc: list[str | Path] = [
        "gcc",
        "-O2",
        "-o",
        folder / "count",
        f"-I{libbpf}/include",
        here / "count.c",
        libbpf / "libbpf.a",
    ]
    subprocess.run([*gcc, "-lelf", "-lz"], check=True)
    argv = [folder / "count", folder / "bbr.bpf.o"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Counts(process)
        assert process.stdin
        process.stdin.close()


@contextmanager
def registered(cca: str, counts: Counts, loader: Path) -> Iterator[Mapping[str, tuple[int, int]]]:
    """Loads the CCA, unless it is bench_bbr, and yields the counts of its programs."""
    others = counts.read()
    if cca == "bench_bbr":
        yield {
            name: count for name, count in others.items() if name.split()[1].startswith("bench_")
        }
        return
    run(str(loader), "load", cca)
    try:
        yield {name: count for name, count in counts.read().items() if name not in others}
    finally:
        run(str(loader), "unload", cca)


def cost(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> Cost:
    """Returns the cost of the programs that were counted before."""
    calls = {name: after[name][0] - before[name][0] for name in before}
    spent = {name: after[name][1] - before[name][1] for name in calls}
    small = next(name for name in calls if "_min_tso_" in name)
    ack = max((name for name in calls if "_ack" in name), key=lambda name: calls[name])
    counting = spent[small] / calls[small]
    return Cost(calls[ack], spent[ack] / calls[ack] - counting)


def measured(
    counts: Counts, loader: Path, path: CostPath, rounds: int, seconds: int
) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {cca: [] for cca in CCAS}
    with linked("tbf", "rate", RATE, "burst", "10k", "limit", path.buffer):
        for _ in range(rounds):
            for cca in CCAS:
                with registered(cca, counts, loader) as before:
                    transfer([cca], seconds, path.flows)
                    costs[cca].append(cost(before, counts.read()))
    return costs


def show(path: CostPath, costs: Mapping[str, Sequence[Cost]]) -> None:
    of_bbr = statistics.median(each.cong_control for each in costs["bench_bbr"])
    for cca, each in costs.items():
        control = statistics.median(one.cong_control for one in each)
        acks = sum(one.acks for one in each)
        print(
            f"| {path.name} | {CCAS[cca]} | {acks} | {control:.0f} | {control / of_bbr:.2f} |",
            flush=True,
        )


def main() -> None:
    options = options_of_turns(__doc__, seconds=3)
    print(
        f"{options.rounds} rounds; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} "
        "processors\n"
    )
    print("| path | CCA | ACKs | ns per ACK | to bbr's |\n|---|---|--:|--:|--:|")
    with (
        tempfile.TemporaryDirectory(prefix="ccmix-bench-") as folder,
        counted(Path(folder)) as counts,
    ):
        for path in PATHS:
            show(path, measured(counts, options.loader, path, options.rounds, options.seconds))


if __name__ == "__main__":
    main()
