#!/usr/bin/env python3
"""Runs tests over blind paths and over their twins, and scores how close the twins' goodput is.

    .venv/bin/python bench/twin.py --seeds 1-30 -o results/twin-paths
        measures the paths
    .venv/bin/python bench/twin_goodput.py --seeds 1-30 -o results/twin-paths
        makes the missing runs, and scores all

The paths are those of bench/twin.py, measured into the same folder before. Each has tests of 1 and
16 flows of CUBIC and of BBR, and of 8 flows of each, five times. `ccmix twin` writes the twin, with
the tests, only from the measurement, and each of its conditions runs three times. A group's goodput
is near if the twin's best estimate is within 10% of the truth, or within the truth's own 95%
interval. It is covered if the twin's range (its open values, with the intervals of its runs)
overlaps that interval, with the margin of `ccmix compare`. Misses are listed by the kind of the
path.
"""

import argparse
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import twin as paths
from ccmix.analysis.comparison import MARGIN
from ccmix.analysis.ranges import MetricRange, planned_ranges, range_of, split
from ccmix.analysis.statistics import Spread
from ccmix.archive import Campaign

CASES = {
    "cubic-1": "cubic:1",
    "bbr-1": "bbr:1",
    "cubic-16": "cubic:16",
    "bbr-16": "bbr:16",
    "mixed-16": "cubic:8,bbr:8",
}
TRUTHS, TWINS = 5, 3  # runs of a condition
SECONDS, OMIT_S = 20, 5
NEAR = 0.1


@dataclass(frozen=True)
class Compared:
    """Holds a group's goodput over a path, and over its twin, in bits per second."""

    seed: int
    kind: str
    case: str
    truth_bps: float
    truth_ends_bps: tuple[float, float]
    twin_bps: float | None  # of the best estimate
    twin_ends_bps: tuple[float, float]

    @property
    def near(self) -> bool:
        low, high = self.truth_ends_bps
        allowed_bps = max(NEAR * self.truth_bps, self.truth_bps - low, high - self.truth_bps)
        return self.twin_bps is not None and abs(self.twin_bps - self.truth_bps) <= allowed_bps

    @property
    def covered(self) -> bool:
        (low, high), (truth_low, truth_high) = self.twin_ends_bps, self.truth_ends_bps
        return low / (1 + MARGIN) <= truth_high and high / (1 - MARGIN) >= truth_low


def tests_ini(seed: int) -> str:
    """Returns the configuration of the tests over a path."""
    drawn = paths.draw(seed)
    text = paths.ini(drawn)
    topology, _, entry = text.partition("[path]\n")
    cross = [line for line in entry.splitlines() if line.startswith("flows.")]
    for name, groups in CASES.items():
        lines = [
            f"[{name}]",
            "type = iperf3",
            "topology = hidden",
            f"duration = {SECONDS}s",
            f"omit = {OMIT_S}s",
            f"iterations = {TRUTHS}",
            f"flows.test = h1 {groups}",
            *cross,
        ]
        topology += "\n".join(lines) + "\n"
    return topology


def ccmix(*arguments: object) -> bool:
    """Runs a command of ccmix; returns whether it succeeded, apart from runs that are not valid."""
    argv = [Path(sys.executable).with_name("ccmix"), *arguments]
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        print(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}", file=sys.stderr)
    return done.returncode in (0, 1)


def made(seed: int, outdir: Path, jobs: int) -> bool:
    """Makes the tests over a path and over its twin, unless they exist; returns whether they
    exist."""
    path, tests, twin = _folders(seed, outdir)
    if not (path / "report.html").exists():
        return False
    for folder in (tests, twin):
        if (folder / "report.html").exists():  # written at the end
            continue
        config = folder.with_suffix(".ini")
        if folder == tests:
            config.write_text(tests_ini(seed))
        else:
            config.unlink(missing_ok=True)
            if not ccmix("twin", path, tests, "-o", config):
                return False
            config.write_text(config.read_text().replace("iterations = 5", f"iterations = {TWINS}"))
        if folder.exists():
            shutil.rmtree(folder)
        if not ccmix("run", config, "--lab", "-j", jobs, "--seed", seed, "-o", folder):
            return False
    return True


def _folders(seed: int, outdir: Path) -> tuple[Path, Path, Path]:
    return outdir / f"{seed:04d}", outdir / f"{seed:04d}-tests", outdir / f"{seed:04d}-twin"


def goodputs(folder: Path) -> dict[tuple[str, str], MetricRange]:
    """Returns the goodput of each entry and group of flows, as a range over the entry's open
    values."""
    campaign = Campaign.load(folder)
    known: dict[tuple[str, str], dict[tuple[tuple[str, str], ...], list[float]]] = {}
    for finished, _ in campaign.finished():
        run = finished.run
        _, unknown = split(run.condition, campaign.plan.unknown.get(run.entry, ()))
        for group in finished.metrics.groups:
            if group.cca in ("cubic", "bbr"):
                known.setdefault((run.entry, group.cca), {}).setdefault(unknown, []).append(
                    group.goodput_bps
                )
    # the values of a range are in the order of the file, in which the best estimates come first
    order = {entry: unknown for (entry, _, _), unknown in planned_ranges(campaign).items()}
    found = {}
    for (entry, cca), own in known.items():
        values = {unknown: own.get(unknown, []) for unknown in order.get(entry, own)}
        if (span := range_of(values)) is not None:
            found[entry, cca] = span
    return found


def compared(seed: int, outdir: Path) -> Iterator[Compared]:
    """Yields the goodput of each group of flows over the path, and over the twin."""
    _, tests, twin = _folders(seed, outdir)
    truths, twins = goodputs(tests), goodputs(twin)
    for (case, cca), truth in truths.items():
        spread = Spread.of(truth.members[0].sample.values)
        assert spread
        span = twins.get((case, cca))
        yield Compared(
            seed,
            paths.draw(seed).kind,
            f"{case} {cca}" if case.startswith("mixed") else case,
            spread.mean,
            truth.members[0].ends,
            span.point.sample.mean if span and span.point else None,
            (span.low, span.high) if span else (math.inf, -math.inf),
        )


def shown(every: list[Compared]) -> str:
    """Returns the table, and the misses by kind."""
    lines = [f"{'flows':15} {'groups':>6} {'near':>9} {'covered':>9}"]
    for case in [*dict.fromkeys(each.case for each in every), "all"]:
        own = [each for each in every if case in (each.case, "all")]
        near, covered = (
            f"{sum(flags)}/{len(own)}"
            for flags in ([e.near for e in own], [e.covered for e in own])
        )
        lines.append(f"{case:15} {len(own):6} {near:>9} {covered:>9}")
    misses = [each for each in every if not (each.near and each.covered)]
    for each in sorted(misses, key=lambda each: (each.kind, each.seed)):
        what = "; ".join(
            word
            for word, missed in (("not near", not each.near), ("not covered", not each.covered))
            if missed
        )
        twin = "-" if each.twin_bps is None else f"{each.twin_bps / 1e6:.4g}"
        ends = [
            " to ".join(f"{end / 1e6:.4g}" for end in ends)
            for ends in (each.truth_ends_bps, each.twin_ends_bps)
        ]
        lines.append(
            f"{what}: seed {each.seed} {each.kind}: {each.case}: {each.truth_bps / 1e6:.4g} "
            f"({ends[0]}) Mbit/s, "
            f"twin {twin} ({ends[1]})"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=paths.seeds, required=True, metavar="FIRST-LAST,...")
    parser.add_argument("-o", "--outdir", type=Path, required=True)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin with no path after this time"
    )
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    found = [
        seed
        for seed in given.seeds
        if (_folders(seed, given.outdir)[2] / "report.html").exists()
        or (time.monotonic() < until and made(seed, given.outdir, given.jobs))
    ]
    every = [each for seed in found for each in compared(seed, given.outdir)]
    print(f"{len(found)} of {len(given.seeds)} paths\n{shown(every)}", end="")
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
