#!/usr/bin/env python3
"""Measure the commands that read a campaign with very many runs: its table, its comparison with
another campaign, and its report.

    .venv/bin/python bench/campaign.py [--runs 100000] [--keep FOLDER]

Makes four short runs in the lab, and two campaigns of copies of them, A and B: each mix of CCAs at
many delays and five losses, ten times. The series are the same files (links). The numbers in
run.json vary by some per cent, and B's are 2% greater. Prints the wall time, processor time and
peak memory of each command, and the load of the machine.
"""

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.many_runs import CCMIX, copies, measured, originals, varied
from ccmix.archive import Campaign, RunFolder, codec
from ccmix.archive.campaign import FILE
from ccmix.files import staged
from ccmix.model.results import CampaignPlan

TRAFFIC = """
streams = 4
duration = 5s
sweep.cca =
    cubic
    bbr
    reno
    cubic:2,bbr:2
"""
DELAY_STEP_MS = 0.1
MOST_LINKS = 50_000  # of a file; ext4 has no more than 65,000
GREATER = {"a": 1.0, "b": 1.02}


def multiplied(original: Campaign, count: int, outdir: Path, greater: float) -> None:
    """Writes a campaign of copies, whose goodputs are those of the original times a factor."""
    draw = random.Random(count)
    with staged(outdir, "bench") as folder:
        runs = []
        for number, (copy, source) in enumerate(copies(original, count, DELAY_STEP_MS)):
            place = RunFolder.of(folder, copy.run)
            place.path.mkdir(parents=True)
            for file in source.glob("*.parquet"):
                linked = (
                    folder / f"series-{number // MOST_LINKS}" / source.parents[1].name / file.name
                )
                if not linked.exists():
                    linked.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, linked)
                (place.path / file.name).hardlink_to(linked)
            place.write_staged(varied(copy, greater * draw.gauss(1, 0.05)))
            runs.append(copy.run)
        codec.write_plan(folder / FILE, CampaignPlan(original.origin, original.ini, tuple(runs)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="put the campaigns there, or reuse those that are there",
    )
    parser.add_argument("--only", nargs="*", metavar="NAME", help="only these measurements")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as scratch:
        folder = arguments.keep or Path(
            scratch.enter_context(tempfile.TemporaryDirectory(prefix="ccmix-bench-"))
        )
        folder.mkdir(parents=True, exist_ok=True)
        a, b = (folder / f"{name}-{arguments.runs}" for name in GREATER)
        for outdir in (a, b):
            if not outdir.exists():
                original = (
                    Campaign.load(folder / "original")
                    if (folder / "original").exists()
                    else originals(TRAFFIC, folder)
                )
                multiplied(original, arguments.runs, outdir, GREATER[outdir.name[0]])
        page, shown = folder / "page.html", folder / "compared.txt"
        commands: dict[str, tuple[object, ...]] = {
            "table": ("report", a),
            "compare": ("compare", a, b, "-o", shown),
            "html": ("report", a, "--format", "html", "-o", page),
        }
        print(f"{arguments.runs} runs each, {os.cpu_count()} processors")
        print(
            "| command | wall (s) | processor (s) | memory (MB) | load |\n|---|--:|--:|--:|--:|",
            flush=True,
        )
        for name, argv in commands.items():
            if arguments.only is None or name in arguments.only:
                cost = measured(CCMIX, *argv)
                print(
                    f"| {name} | {cost.wall_s:.0f} | {cost.processor_s:.0f} | "
                    f"{cost.memory_bytes / 1e6:.0f} | "
                    f"{os.getloadavg()[0]:.1f} |",
                    flush=True,
                )
        for file in (a / FILE, shown, page):
            if file.exists():
                print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
