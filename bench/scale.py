#!/usr/bin/env python3
"""Measure runs on a Dask cluster: compared with runs on this machine, and with very many workers
that only sleep.

    .venv/bin/python bench/scale.py [--only processes] [--rounds 3] [--cells 24]
    .venv/bin/python bench/scale.py --only simulation --workers 1000 --runs 100000 --sleep 5

processes: makes a grid of short runs in each round with 1, 2 and 4 runs at a time, first with `-j`
on this machine, then with the same number of workers of one thread, which are processes of this
machine, too. Both times are those of the whole command; the scheduler and the workers are started
before it. Prints the speed of the workers relative to -j, and the additional time of a run.

simulation: a real scheduler, and workers of Dask as objects in a few processes. They get ccmix's
real requests, but sleep instead of making a run, and answer with a small finished run. The client
is ccmix's own, and writes the archive. Prints the progress each 10 s, and at the end the speed,
and the processor time and peak memory of client, scheduler and workers, because the busiest of them
is the first limit. Ends after --most-seconds, done or not.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import dask
from distributed import Client, Worker, get_worker

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from ccmix.archive import Campaign, RunFolder
from ccmix.archive.packed import pack_folder
from ccmix.cluster import worker as at_worker
from ccmix.cluster.executor import DaskExecutor, SchedulerConnection
from ccmix.cluster.messages import (
    ABOUT,
    ENDLESS,
    KERNEL,
    MEMORY,
    USERLAND,
    Job,
    Reply,
    encoded,
    parts,
    resources,
)
from ccmix.model import Run
from ccmix.model.results import CampaignOrigin, CampaignPlan
from ccmix.run.campaign import Outcome, run_all
from support.arriving_runs import made_with
from support.cluster import executor, finished, grid
from support.dask_cluster import DaskCluster, dask_cluster
from support.finished_runs import finished_run, group_metrics, metrics
from support.model import TOPOLOGY, iperf3_traffic

REPOSITORY = Path(__file__).resolve().parents[1]
CCMIX = REPOSITORY / ".venv/bin/ccmix"
STARTED_AT_ONCE = 25  # workers of a process
# Housekeeping of each worker, 170 times a second. A real worker has its own processor for it.
FOR_ITSELF = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.system-monitor.interval": "1h",
}
TELLS_EACH_S = 10.0


def took_s(*argv: object) -> float:
    """Runs a command of ccmix, and returns its time."""
    begin_s = time.monotonic()
    subprocess.run([CCMIX, *map(str, argv)], check=True, capture_output=True)
    return time.monotonic() - begin_s


def processes(arguments: argparse.Namespace, folder: Path) -> None:
    ini = grid(folder / "grid.ini", arguments.cells)
    runs = 2 * (arguments.cells // 2)
    print(
        "| places | -j (s) | workers (s) | workers / -j | more for a run (s) "
        "|\n|--:|--:|--:|--:|--:|",
        flush=True,
    )
    for places in arguments.places:
        with dask_cluster(folder / f"cluster-{places}") as cluster:
            for _ in range(places):
                cluster.start_worker()
            times = [
                turn(ini, cluster, places, folder / f"{places}-{number}")
                for number in range(arguments.rounds + 1)
            ]
        locally, spread = zip(*times[1:], strict=True)  # the first round warms up
        ratio = statistics.median(here_s / there_s for here_s, there_s in times[1:])
        more_s = statistics.median(
            (there_s - here_s) * places / runs for here_s, there_s in times[1:]
        )
        print(
            f"| {places} | {statistics.median(locally):.1f} | {statistics.median(spread):.1f} | "
            f"{ratio:.3f} | {more_s:+.3f} |",
            flush=True,
        )


def turn(ini: Path, cluster: DaskCluster, places: int, folder: Path) -> tuple[float, float]:
    """Returns the times of -j and of the workers."""
    here_s = took_s("run", ini, "--lab", "-j", places, "-o", folder / "here")
    return here_s, took_s("run", ini, "--lab", *executor(cluster), "-o", folder / "there")


@dataclass
class _Progress:
    """Counts ended runs, for the campaign."""

    ended_runs: int = 0
    failed: int = 0
    reason: str = ""

    def waiting(self, run: Run, why: str) -> None: ...

    def started(self, run: Run, folder: RunFolder) -> None: ...

    def ended(self, run: Run, outcome: Outcome) -> None:
        self.ended_runs += 1
        if outcome.status != "valid":
            self.failed += 1
            self.reason = self.reason or "; ".join(outcome.reasons)


def simulation(arguments: argparse.Namespace, folder: Path) -> None:
    with dask_cluster(folder / "simulated") as cluster, contextlib.ExitStack() as ended:
        own = [arguments.workers // arguments.processes] * arguments.processes
        own[0] += arguments.workers - sum(own)
        workers = [
            ended.enter_context(started(folder, cluster.address, count, arguments.sleep))
            for count in filter(None, own)
        ]
        assert cluster.scheduler
        asyncio.run(
            simulated(arguments, cluster, folder / "out", [process.pid for process in workers])
        )


@contextlib.contextmanager
def started(
    folder: Path, address: str, count: int, sleep_s: float
) -> Iterator[subprocess.Popen[bytes]]:
    """Yields a process with a number of workers, and ends it."""
    argv = [
        sys.executable,
        __file__,
        "--be-workers",
        address,
        str(count),
        str(sleep_s),
        str(folder),
    ]
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *argv])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def simulated(
    arguments: argparse.Namespace, cluster: DaskCluster, outdir: Path, workers: list[int]
) -> None:
    async with Client(cluster.address, asynchronous=True, set_as_default=False) as client:
        begin_s = time.monotonic()
        await client.wait_for_workers(arguments.workers, timeout=arguments.most_seconds)
        print(
            f"{arguments.workers} workers have registered in {time.monotonic() - begin_s:.0f} s",
            flush=True,
        )
    runs = [
        Run(
            "one",
            {"cell": str(number // 10)},
            "receiver",
            number % 10 + 1,
            number,
            TRAFFIC,
            TOPOLOGY,
        )
        for number in range(arguments.runs)
    ]
    campaign = Campaign.create(outdir, CampaignPlan(CampaignOrigin(lab=True), "", tuple(runs)))
    connection = SchedulerConnection(
        cluster.address, lambda sentence: print(sentence, flush=True), parts()
    )
    progress = _Progress()
    begin_s, before_s = time.monotonic(), time.process_time()
    task = asyncio.create_task(
        run_all(campaign, runs, DaskExecutor(connection, None, outdir), progress)
    )
    at_scheduler = [cluster.scheduler.pid]  # type: ignore[union-attr]
    while not task.done() and time.monotonic() - begin_s < arguments.most_seconds:
        await asyncio.wait({task}, timeout=TELLS_EACH_S)
        took = time.monotonic() - begin_s
        shown = ", ".join(
            f"{name} {processor_s(pids) / took:.2f} processors, {memory_mb(pids):.0f} MB"
            for name, pids in (("scheduler", at_scheduler), ("workers", workers))
        )
        here = (
            f"client {(time.process_time() - before_s) / took:.2f} processors, "
            f"{memory_mb([os.getpid()]):.0f} MB"
        )
        print(
            f"{took:.0f} s: {progress.ended_runs} runs, {progress.ended_runs / took:.0f} a "
            f"second; {here}; {shown}; "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    if not task.done():
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    made = finished(outdir)
    ideal = arguments.workers / arguments.sleep
    print(
        f"{made} of {arguments.runs} runs are in the archive, {progress.failed} "
        f"failed{': ' * bool(progress.reason)}"
        f"{progress.reason}; workers without other limits would make {ideal:.0f} a second"
    )


TRAFFIC = iperf3_traffic((), 1, 1.0, 0.0, 1.0)
TICKS = os.sysconf("SC_CLK_TCK")


def processor_s(pids: list[int]) -> float:
    """Returns the processor time of processes so far."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(of[11]) + int(of[12]) for of in fields) / TICKS


def memory_mb(pids: list[int]) -> float:
    """Returns the largest memory of processes so far."""
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(text.partition("VmHWM:")[2].split()[0]) for text in texts) / 1000


async def be_workers(address: str, count: int, sleep_s: float, folder: str) -> None:
    """Runs a number of workers of one thread, which sleep instead of making runs."""

    async def make_run(job: Job) -> bytes:
        worker = get_worker()
        worker.log_event(job.topic, {"began": job.key, "worker": worker.address})
        await asyncio.sleep(sleep_s)
        return await asyncio.to_thread(answer, job, worker.address)

    at_worker.make_run = make_run  # which jobs name
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # many lines for each worker
    dask.config.set(FOR_ITSELF)
    have = {**dict.fromkeys(resources(parts()), ENDLESS), MEMORY: ENDLESS * 100}
    about = {ABOUT: lambda worker: {"id": worker.id, "parts": parts()}}
    for first in range(0, count, STARTED_AT_ONCE):
        numbers = range(first, min(first + STARTED_AT_ONCE, count))
        some = [
            Worker(
                address,
                nthreads=1,
                name=f"{os.getpid()}-{number}",
                host="127.0.0.1",
                dashboard=False,
                memory_limit=0,
                resources=have,
                startup_information=about,
                local_directory=f"{folder}/{os.getpid()}-{number}",
            )
            for number in numbers
        ]
        await asyncio.gather(*some)
    await asyncio.Event().wait()


def answer(job: Job, address: str) -> bytes:
    """Returns the reply with a finished run, made from the client's data."""
    facts = replace(made_with(parts()[KERNEL], parts()[USERLAND]), lab_programs=None)
    run = finished_run(job.run, metrics([group_metrics("cubic")], bytes_sent=1000), facts=facts)
    with tempfile.TemporaryDirectory() as folder:
        RunFolder(Path(folder)).write_staged(run)
        out = BytesIO()
        pack_folder(Path(folder), out)
    return encoded(replace(Reply("finished", address), files=out.getvalue()))


def main() -> None:
    if sys.argv[1:2] == ["--be-workers"]:
        address, count, sleep_s, place = sys.argv[2:]
        asyncio.run(be_workers(address, int(count), float(sleep_s), place))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        choices=["processes", "simulation"],
        nargs="*",
        default=["processes", "simulation"],
    )
    parser.add_argument("--rounds", type=int, default=3, help="of processes")
    parser.add_argument("--cells", type=int, default=24, help="of processes: runs of the grid")
    parser.add_argument("--places", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--workers", type=int, default=100, help="of the simulation")
    parser.add_argument("--runs", type=int, default=2000, help="of the simulation")
    parser.add_argument(
        "--sleep",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="that a run of the simulation takes",
    )
    parser.add_argument(
        "--processes", type=int, default=4, help="that hold the workers of the simulation"
    )
    parser.add_argument("--most-seconds", type=float, default=3600.0, help="of the simulation")
    arguments = parser.parse_args()
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (most_files, most_files)
    )  # each worker has some connections
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ccmix-bench-") as name:
        for what, measure in (("processes", processes), ("simulation", simulation)):
            if what in arguments.only:
                measure(arguments, Path(name))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
