"""Makes campaigns of very many runs, which are copies of a few runs of the lab at other delays and
losses, and measures the cost of a command that reads them.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ccmix.archive import Campaign
from ccmix.model import Loss
from ccmix.model.results import FinishedRun

REPOSITORY = Path(__file__).resolve().parents[1]
CCMIX = REPOSITORY / ".venv/bin/ccmix"
LOSSES, ITERATIONS = 5, 10
INI = """
[topology path]
rate = 50mbit
delay = 20ms
buffer = 1bdp

[bench]
type = iperf3
topology = path
"""


@dataclass(frozen=True)
class Cost:
    """Cost of a command."""

    wall_s: float
    processor_s: float
    memory_bytes: int


def measured(*argv: object) -> Cost:
    begin = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{argv} failed")
    return Cost(time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def originals(traffic: str, folder: Path) -> Campaign:
    """Makes the runs that are copied; `traffic` are lines of INI for them."""
    ini, outdir = folder / "bench.ini", folder / "original"
    ini.write_text(INI + traffic)
    subprocess.run(
        [CCMIX, "run", ini, "--lab", "-o", outdir], stdout=subprocess.DEVNULL, check=True
    )
    return Campaign.load(outdir)


def copies(
    original: Campaign, count: int, delay_step_ms: float
) -> Iterator[tuple[FinishedRun, Path]]:
    """Yields copies, with the folder of the original of each: each run at several delays and
    losses, ITERATIONS times.
    """
    runs = list(original.finished())
    for iteration in range(1, ITERATIONS + 1):
        for finished, folder in runs:
            run = finished.run
            for delay in range(count // (len(runs) * LOSSES * ITERATIONS)):
                delay_ms = 20 + delay * delay_step_ms
                for loss in range(LOSSES):
                    senders = tuple(
                        replace(
                            sender,
                            delay_s=delay_ms / 1e3,
                            loss=Loss("random", (loss / 1e4,)) if loss else None,
                        )
                        for sender in run.topology.senders
                    )
                    condition = {
                        **run.condition,
                        "delay": f"{delay_ms:g}ms",
                        "loss": f"{loss / 100:g}%",
                    }
                    path = replace(run.topology, senders=senders)
                    copy = replace(run, condition=condition, iteration=iteration, path=path)
                    yield replace(finished, run=copy), folder


def varied(copy: FinishedRun, factor: float) -> FinishedRun:
    """Returns the copy with goodputs that are `factor` times as large."""
    metrics = copy.metrics
    return replace(
        copy,
        metrics=replace(
            metrics,
            goodput_bps=metrics.goodput_bps * factor,
            groups=tuple(
                replace(group, goodput_bps=group.goodput_bps * factor) for group in metrics.groups
            ),
            flows=tuple(
                replace(flow, goodput_bps=flow.goodput_bps * factor) for flow in metrics.flows
            ),
        ),
    )
