#!/usr/bin/env python3
"""Measure the cost of bbr2 and bbr3 per ACK in the lab, compared with the kernel's bbr.

    .venv/bin/python bench/cca.py [--rounds N] [--seconds N]

Builds a separate kernel whose CCAs count the cycles of each of their hooks (bench/cca-cost.patch).
In one guest for each path, flows of each CCA take turns, once a round. Prints the cycles per ACK of
the hook that handles an ACK (cong_control), and of all hooks together: medians of the rounds, and
their ratio to bbr's. The cost of reading the counter is subtracted. Calls of 32760 cycles and more
are left out, because other work on the machine interrupted them.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ccmix.lab import GuestSpec, run_guest
from ccmix.tools import find_iperf3

REPOSITORY = Path(__file__).resolve().parents[1]
PATCH = REPOSITORY / "bench" / "cca-cost.patch"
CCAS = ("bbr", "bbr2", "bbr3")
GOAL = 1.2  # times bbr's cycles per ACK
LONGEST_CYCLES = 32760  # the lower end of the last class that the kernel counts
MEMORY_BYTES = 1 << 30
# 100 Mbit/s, 20 ms; netem's limit covers the packets that it delays, and a buffer of one
# bandwidth-delay product
GUEST = """
set -e
ip netns add s; ip netns add r
ip link add vs netns s type veth peer name vr netns r
for side in "s vs 1" "r vr 2"; do
    set -- $side
    ip -n $1 addr add 10.0.0.$3/24 dev $2
    ip -n $1 link set $2 up gso_max_segs 1
    ip -n $1 link set lo up
done
tc -n s qdisc add dev vs root netem delay 10ms rate 100mbit limit 250 $LOSS
tc -n r qdisc add dev vr root netem delay 10ms limit 10000
cat /proc/cca_cost >start
for round in $(seq $ROUNDS); do
    for cca in $CCAS; do
        ip netns exec r $IPERF3 -s -1 >/dev/null &
        sleep 0.1
        ip netns exec s $IPERF3 -c 10.0.0.2 -C $cca -t $SECONDS_EACH -P $FLOWS >/dev/null
        wait
        cat /proc/cca_cost >$cca-$round
    done
done
"""

Counts = Counter[tuple[str, str, int]]
"""Number of calls by CCA, hook, and the lower end of the class of cycles."""


@dataclass(frozen=True)
class CostPath:
    name: str
    flows: int
    loss: str = ""


PATHS = (
    CostPath("1 flow", 1),
    CostPath("1 flow, 1% loss", 1, "loss 1%"),
    CostPath("16 flows", 16),
)


@dataclass(frozen=True)
class Cost:
    """Holds cycles per ACK."""

    acks: int
    cong_control: float
    all_hooks: float


def read_counts(file: Path) -> tuple[int, Counts]:
    """Returns the cycles of reading the counter, and the counts."""
    (_, overhead), *lines = (line.split() for line in file.read_text().splitlines())
    return int(overhead), Counter(
        {(cca, hook, int(cycles)): int(calls) for cca, hook, cycles, calls in lines}
    )


def cost(cca: str, counts: Counts, overhead: int) -> Cost:
    cycles: Counter[str] = Counter()
    acks = 0
    for (of, hook, low), calls in counts.items():
        if of == cca and low < LONGEST_CYCLES:
            cycles[hook] += calls * max(0, low - overhead)
            acks += calls if hook == "cong_control" else 0
    return Cost(acks, cycles["cong_control"] / acks, cycles.total() / acks)


def measured(kernel: Path, path: CostPath, rounds: int, seconds: int) -> dict[str, list[Cost]]:
    """Returns the costs of each CCA in each round."""
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as folder:
        environment = {
            "ROUNDS": str(rounds),
            "CCAS": " ".join(CCAS),
            "SECONDS_EACH": str(seconds),
            "FLOWS": str(path.flows),
            "LOSS": path.loss,
            "IPERF3": str(find_iperf3()),
        }
        spec = GuestSpec(
            ("sh", "-c", GUEST), Path(folder), MEMORY_BYTES, seed=1, environment=environment
        )
        result = asyncio.run(run_guest(kernel, spec))
        if result.exit_status != 0:
            raise SystemExit(
                f"bench/cca.py: {path.name}: the guest ended with "
                f"{result.exit_status}:\n{result.console}"
            )
        costs: dict[str, list[Cost]] = {cca: [] for cca in CCAS}
        _, before = read_counts(Path(folder, "start"))
        for number in range(1, rounds + 1):
            for cca in CCAS:
                overhead, after = read_counts(Path(folder, f"{cca}-{number}"))
                costs[cca].append(cost(cca, after - before, overhead))
                before = after
        return costs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds in which each CCA has a turn (default: 3)"
    )
    parser.add_argument(
        "--seconds", type=int, default=20, help="virtual time of a turn (default: 20)"
    )
    options = parser.parse_args()
    build: list[str | Path] = [REPOSITORY / "lab" / "build", "--name", "cca-cost", "--patch", PATCH]
    kernel = Path(
        subprocess.run(build, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    )
    print(
        f"{options.rounds} rounds; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} "
        "processors\n"
    )
    print(
        "| path | CCA | ACKs | cong_control | all hooks | to bbr's | goal "
        "|\n|---|---|--:|--:|--:|--:|--:|"
    )
    for path in PATHS:
        costs = measured(kernel, path, options.rounds, options.seconds)
        of_bbr = statistics.median(each.all_hooks for each in costs["bbr"])
        for cca, each in costs.items():
            acks = sum(one.acks for one in each)
            control = statistics.median(one.cong_control for one in each)
            hooks = statistics.median(one.all_hooks for one in each)
            goal = "" if cca == "bbr" else f"{GOAL:g}"
            ratio = hooks / of_bbr
            print(
                f"| {path.name} | {cca} | {acks} | {control:.0f} | {hooks:.0f} | {ratio:.2f} | "
                f"{goal} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
