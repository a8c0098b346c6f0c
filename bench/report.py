#!/usr/bin/env python3
"""Measure `ccmix report` on the demo, and on campaigns of up to 2,000 runs with 16 flows at 10
samples a second.

    .venv/bin/python bench/report.py [--demo OUTDIR] [--runs 400 1000 2000] [--seconds 60]

Makes one run of each mix in the lab, and the requested number of copies. The series are the same
files (links), and the numbers in run.json vary by some per cent. Prints the wall time, processor
time and peak memory of each command, and how the time grows with the number of runs. If this
machine has a browser, it opens each report.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench.many_runs import CCMIX, Cost, copies, measured, originals, varied
from ccmix.archive import Campaign, RunFolder, codec
from ccmix.model.results import CampaignPlan
from ccmix.model.run_files import SUMMARY

TRAFFIC = """
streams = 16
interval = 100ms
duration = {seconds}s
sweep.cca =
    cubic
    bbr
    reno
    cubic:8,bbr:8
"""
DELAY_STEP_MS = 1


def multiplied(original: Campaign, count: int, outdir: Path) -> Path:
    """Makes a campaign of `count` runs."""
    made = list(copies(original, count, DELAY_STEP_MS))
    plan = CampaignPlan(original.origin, original.ini, tuple(copy.run for copy, _ in made))
    campaign = Campaign.create(outdir, plan)
    draw = random.Random(count)
    for copy, source in made:
        target = RunFolder.of(campaign.outdir, copy.run).path
        target.mkdir(parents=True)
        for file in source.iterdir():
            if file.is_file() and file.name != SUMMARY:
                (target / file.name).hardlink_to(file)
        changed = varied(copy, draw.gauss(1, 0.05))
        codec.write(target / SUMMARY, codec.FINISHED_RUN, changed)
    return outdir


def opened_s(page: Path) -> float | None:
    """Seconds until the browser has loaded all of it."""
    try:
        from support.browser import chromium, opened  # noqa: PLC0415  # may lack a browser
    except ImportError:
        return None
    with chromium() as browser:
        there = opened(browser, page)
        return (
            float(there.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
            / 1e3
        )


def told(name: str, cost: Cost) -> None:
    memory = cost.memory_bytes / 2**20
    print(f"| {name} | {cost.wall_s:.2f} | {cost.processor_s:.2f} | {memory:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demo", type=Path, help="folder of the demo's results")
    parser.add_argument("--runs", type=int, nargs="*", default=[400, 1000, 2000])
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    print("| command | wall (s) | processor (s) | memory (MiB) |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as scratch:
        folder = Path(scratch)
        campaigns = [("demo", arguments.demo)] if arguments.demo else []
        if arguments.runs:
            original = originals(TRAFFIC.format(seconds=arguments.seconds), folder)
            campaigns += [
                (f"{count} runs", multiplied(original, count, folder / str(count)))
                for count in arguments.runs
            ]
        walls: dict[str, list[float]] = {}
        for name, outdir in campaigns:
            page = folder / f"{name.replace(' ', '-')}.html"
            for form, more in (("table", []), ("html", ["-o", page])):
                cost = measured(CCMIX, "report", outdir, "--format", form, *more)
                told(f"{form}, {name}", cost)
                walls.setdefault(form, []).append(cost.wall_s)
            opening = opened_s(page)
            shown = "" if opening is None else f", opened in {opening:.2f} s"
            print(f"{name}: {page.stat().st_size / 1e6:.2f} MB{shown}", file=sys.stderr, flush=True)
        for form, seconds in walls.items():
            if len(arguments.runs) > 1:
                first, last = seconds[-len(arguments.runs)], seconds[-1]
                growth = (last / first) / (arguments.runs[-1] / arguments.runs[0])
                print(f"{form}: {growth:.2f} of linear growth", file=sys.stderr)


if __name__ == "__main__":
    main()
