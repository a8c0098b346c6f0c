#!/usr/bin/env python3
"""Measures lab paths with seeded random settings as if they were unknown, and scores the estimates
of `ccmix twin`.

    .venv/bin/python bench/twin.py --seeds 1-20 -o results/twin
        make the runs that are missing there, and score all
    .venv/bin/python bench/twin.py --seeds 201-400 -o results/twin -j 4 --seconds 600
        at most that long; repeat the command to continue
    .venv/bin/python bench/twin.py --seeds 1-20 -o results/twin --format json
        for programs

A path's settings follow only from its seed. Each path is measured by one run of an entry of type
path, in the lab, with a load cap of 3.3 times its rate. An interval either covers the truth or not.
If the quantity applies, the value is also either sharp or not: see SHARP. Misses are listed by the
kind of the path. Seeds from 1000 on are for development. Published numbers are from seeds 201 to
400; docs/reference/path-steps.md says which of them the methods' authors had seen before the last
change. Fresh seeds for a later change are 401 and on. Exit status: 1 if less than 90% of the
intervals cover the truth.

Seeds from 3000 on draw paths of 10 to 500 Mbit/s and 5 to 150 ms, also with pie and red, a slow way
back, and cross traffic by UDP, by HTTP or in bursts of TCP flows; 3736 and on are fresh.

To keep the time of a path to seconds, the data in flight and in its buffer is at most 60 MB, its
MTU is 9000 above 1 Gbit/s, and it is measured for 30 s instead of 60 above 160 Mbit/s, unless its
RTT is 100 ms or more.
"""

import argparse
import functools
import json
import math
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from ccmix.archive import Campaign, parquet
from ccmix.config.contradictions import CONTROL_MESSAGES, CONTROL_TRIES, MOST_FAILURES
from ccmix.model import HttpSource, Run, Topology, UdpSource, WorkloadSource, run_files
from ccmix.twin.bottleneck import FIFO, MANAGED, PER_FLOW
from ccmix.twin.estimate import POLICER, WINDOW, Estimate
from ccmix.twin.twin import twin_of

MOST_IN_PATH_BYTES = 60e6
GBIT = 1e9
FAST_BPS, LONG_RTT_S = 160e6, 0.1
SHARP = {  # largest error of a sharp value: a share of the truth, or an amount if that is larger
    "rate": (0.05, 0.0),
    "base RTT": (0.02, 0.2e-3),
    "random loss": (0.25, 0.0),
    "buffer": (0.25, 0.0),
}
LEAST_LOSSES = 100
LEAST_PACKETS = 8  # of a buffer: the probe knows less than one of them
LEAST_COVERED = 0.9
SLACK, WINDOW_SLACK = 1e-9, 1 / 256  # of the truth; Linux gives windows as whole 256ths of a buffer
# Times the rate. Not a whole number, or packets would always meet cross traffic in the same phase
LOAD_CAP = 3.3
POLICERS_HOLD_S = 0.002, 0.2  # times their rate
LEAST_BURST_PACKETS, LEAST_WINDOW_BYTES = 10, 65536
VARIED_FROM = 3000  # seeds
HTTP_BYTES = 200_000
RED_HOLDS = 4  # times less than its limit: its `max` (red_parse_opt() in iproute2's tc/q_red.c)


@dataclass(frozen=True)
class Drawn:
    """Holds the settings of a path."""

    rate_bps: float
    rtt_s: float
    loss: str
    buffer_bdp: float
    qdisc: str
    reorder: float
    cross: float  # share of the rate
    policer_bytes: int | None  # its burst; the rate is then the policer's
    link_times: float  # how much faster than a policer the link behind it is
    window_bytes: int | None  # the receiver's
    cross_kind: str = "udp"  # or http, or workload
    ack_bps: float | None = None  # of the way back

    @property
    def mtu(self) -> int:
        return 9000 if self.rate_bps > GBIT else 1500

    @property
    def seconds(self) -> int:
        """Returns the duration of its measurement."""
        return 30 if self.rate_bps > FAST_BPS and self.rtt_s < LONG_RTT_S else 60

    @property
    def kind(self) -> str:
        """Lists the properties that may make an estimate difficult, such as the qdisc."""
        has = {
            "cross": self.cross,
            self.cross_kind: self.cross and self.cross_kind != "udp",
            "bursts": "gemodel" in self.loss,
            "reordering": self.reorder,
            "window": self.window_bytes,
            "acks": self.ack_bps,
        }
        return " ".join(
            [
                "policer" if self.policer_bytes else self.qdisc,
                *(name for name, there in has.items() if there),
            ]
        )


def draw(seed: int) -> Drawn:
    """Returns the settings of a path."""
    drawn = random.Random(f"path {seed}")
    if seed >= VARIED_FROM:
        return _draw_varied(drawn)

    log_uniform = functools.partial(_log_uniform, drawn)
    while True:
        rate_bps, rtt_s, buffer_bdp = (
            log_uniform(10e6, 10e9),
            log_uniform(1e-3, 300e-3),
            log_uniform(0.05, 5),
        )
        if rate_bps * rtt_s / 8 * (1 + buffer_bdp) <= MOST_IN_PATH_BYTES:
            break
    share = drawn.random()
    mean = log_uniform(1e-5, 1e-2)
    length = drawn.uniform(2, 10)
    while CONTROL_MESSAGES * mean * (1 - 1 / length) ** CONTROL_TRIES > MOST_FAILURES / 2:
        length = drawn.uniform(
            1.5, length
        )  # iperf3's control connection must survive the bursts of loss
    loss = "0%"
    if share < 0.35:
        loss = f"{mean * 100:.6f}%"
    elif share < 0.6:
        loss = f"gemodel {mean / (1 - mean) / length * 100:.6f}% {100 / length:.4f}%"
    qdisc = drawn.choices(("bfifo", "pfifo", "fq_codel", "codel"), (0.45, 0.15, 0.2, 0.2))[0]
    reorder = log_uniform(1e-4, 1e-2) if drawn.random() < 0.2 else 0.0
    cross = drawn.uniform(0.02, 0.5) if drawn.random() < 0.5 else 0.0
    policer_bytes, link_times = None, 1.0
    if drawn.random() < 0.15:
        burst_s, link_times = log_uniform(*POLICERS_HOLD_S), drawn.uniform(2, 10)
        policer_bytes = round(
            max(rate_bps / 8 * burst_s, LEAST_BURST_PACKETS * (9014 if rate_bps > GBIT else 1514))
        )
    window_bytes = None
    if drawn.random() < 0.15:
        window_bytes = round(max(log_uniform(0.03, 2) * rate_bps * rtt_s / 8, LEAST_WINDOW_BYTES))
    return Drawn(
        rate_bps,
        rtt_s,
        loss,
        buffer_bdp,
        qdisc,
        reorder,
        cross,
        policer_bytes,
        link_times,
        window_bytes,
    )


def _log_uniform(drawn: random.Random, least: float, most: float) -> float:
    return float(f"{math.exp(drawn.uniform(math.log(least), math.log(most))):.3g}")


def _draw_varied(drawn: random.Random) -> Drawn:
    rate_bps, rtt_s, buffer_bdp = (
        _log_uniform(drawn, *ends) for ends in ((10e6, 500e6), (5e-3, 150e-3), (0.3, 4))
    )
    loss = f"{_log_uniform(drawn, 1e-5, 1e-2) * 100:.6f}%" if drawn.random() < 0.5 else "0%"
    qdisc = drawn.choices(
        ("bfifo", "pfifo", "fq_codel", "codel", "pie", "red"), (6, 2, 3, 2, 2, 1)
    )[0]
    cross_kind = drawn.choice(("", "udp", "http", "workload"))
    cross = drawn.uniform(0.05, 0.4) if cross_kind else 0.0
    policer_bytes = None
    if drawn.random() < 0.1:
        policer_bytes = round(
            max(rate_bps / 8 * _log_uniform(drawn, *POLICERS_HOLD_S), LEAST_BURST_PACKETS * 1514)
        )
    ack_bps = _log_uniform(drawn, rate_bps / 40, rate_bps / 2) if drawn.random() < 0.25 else None
    link_times = drawn.uniform(2, 10)
    return Drawn(
        rate_bps,
        rtt_s,
        loss,
        buffer_bdp,
        qdisc,
        0.0,
        cross,
        policer_bytes,
        link_times,
        None,
        cross_kind,
        ack_bps,
    )


def ini(drawn: Drawn) -> str:
    """Returns the configuration of the run that measures the path."""
    delay_us = round(drawn.rtt_s / 2 * 1e6)
    rate = f"{drawn.rate_bps / 1e3:.0f}kbit"
    lines = [
        "[topology hidden]",
        f"rate = {rate}",
        f"buffer = {drawn.buffer_bdp:g}bdp",
        f"qdisc = {drawn.qdisc}",
        f"mtu = {drawn.mtu}",
        f"host.h1 = delay {delay_us}us loss {drawn.loss} reorder {drawn.reorder * 100:g}%",
    ]
    if drawn.policer_bytes:
        lines[1] = f"rate = {drawn.link_times * drawn.rate_bps / 1e3:.0f}kbit"
        bdp_bytes = drawn.rate_bps * drawn.rtt_s / 8
        lines[2] = f"buffer = {max(drawn.buffer_bdp * bdp_bytes, drawn.mtu * 2):.0f}b"
        lines.append(f"policer = {rate} burst {drawn.policer_bytes}b")
    if drawn.ack_bps:
        lines.append(f"ack-rate = {drawn.ack_bps / 1e3:.0f}kbit")
    if drawn.window_bytes:
        lines.append(f"receiver-window = {drawn.window_bytes}b")
    if drawn.cross:
        lines += [f"host.cross = delay {delay_us}us"]
    lines += [
        "[path]",
        "type = path",
        f"duration = {drawn.seconds}s",
        "topology = hidden",
        f"load-cap = {LOAD_CAP * drawn.rate_bps / 1e3:.0f}kbit",
    ]
    if drawn.cross:
        parallel = 1 + round(drawn.cross * 10)
        traffic = {
            "udp": f"udp@{drawn.cross * drawn.rate_bps / 1e3:.0f}K",
            "http": f"http requests 1000000 size {HTTP_BYTES}b parallel {parallel}",
            "workload": f"workload web-search load {drawn.cross * 100:.0f}%",
        }
        lines += [f"flows.cross = cross {traffic[drawn.cross_kind]}"]
    return "\n".join(lines) + "\n"


def measured(seed: int, folder: Path) -> bool:
    """Makes the run of a seed, unless it exists; returns whether it exists."""
    if not (folder / "path/all/receiver/001/run.json").exists():
        if folder.exists():
            shutil.rmtree(folder)
        config = folder.with_suffix(".ini")
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(ini(draw(seed)))
        ccmix = Path(sys.executable).with_name("ccmix")
        done = subprocess.run(
            [ccmix, "run", config, "--lab", "-j", "1", "--seed", str(seed), "-o", folder],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1):
            print(f"seed {seed}: {done.stderr.strip()}", file=sys.stderr)
    return (folder / "path/all/receiver/001/run.json").exists()


@dataclass(frozen=True)
class Score:
    """Holds the score of an estimate. `covered` and `sharp` are None if they do not apply."""

    seed: int
    kind: str
    quantity: str
    truth: float | None
    value: float | None
    low: float | None
    high: float | None
    covered: bool | None
    sharp: bool | None
    said: str


def _of_tcp_bps(run: Run, folder: Path) -> float:
    """Returns the goodput of TCP cross traffic in the steps that leave it most of the path."""
    others = [
        run.group_name(s) for s in run.traffic.sources if isinstance(s, HttpSource | WorkloadSource)
    ]
    if not others:
        return 0.0
    steps = parquet.read(folder / run_files.STEPS_SERIES).filter(
        pl.col("step").is_in(["idle", "below"])
    )
    spans = (
        steps.group_by("step")
        .agg(pl.col("begin_s", "end_s").first())
        .select("begin_s", "end_s")
        .rows()
    )
    flows = (
        parquet.read(folder / run_files.COMPLETIONS)
        .filter(pl.col("group").is_in(others))
        .drop_nulls("seconds")
    )
    begin_s, end_s = pl.col("start_s"), pl.col("start_s") + pl.col("seconds")
    inside_s = pl.sum_horizontal(
        (pl.min_horizontal(end_s, pl.lit(last)) - pl.max_horizontal(begin_s, pl.lit(first))).clip(0)
        for first, last in spans
    )
    bits = flows.select(pl.col("bytes") * 8 * inside_s / pl.col("seconds").clip(1e-9)).sum().item()
    return float(bits) / float(sum(last - first for first, last in spans))


def truths(run: Run, folder: Path) -> dict[str, float | None]:
    """Returns the path's true values by quantity; None for a part that it lacks, such as a
    policer."""
    path = run.topology
    assert isinstance(path, Topology)
    own = path.senders[0]
    packet, payload = path.packet_bytes, path.mtu_bytes - 28
    cross_bps = sum(
        s.rate_bps * s.streams * packet / payload
        for s in run.traffic.sources
        if isinstance(s, UdpSource)
    )
    cross_bps += _of_tcp_bps(run, folder) * packet / (path.mtu_bytes - 52)
    found: dict[str, float | None] = {
        "base RTT": own.delay_of_data_s + own.delay_of_acks_s,
        "rate": path.policer.rate_bps if path.policer else path.rate_bps,
        "buffer": path.buffer_bytes / (RED_HOLDS if path.queue.kind == "red" else 1.0),
        "random loss": own.loss.mean if own.loss else 0.0,
        "reordering": own.reorder,
        "cross traffic": cross_bps,
        POLICER: float(path.policer.burst_bytes) if path.policer else None,
        WINDOW: float(own.receiver_window_bytes) if own.receiver_window_bytes else None,
    }
    if path.policer:
        del found["buffer"]  # of the link after it, which nothing fills
    return found


def scores(seed: int, folder: Path) -> Iterator[Score]:
    """Yields the score of each estimate for the path of a seed."""
    [(finished, run_folder)] = Campaign.load(folder).finished()
    drawn, run = draw(seed), finished.run
    estimates = {each.quantity: each for each in twin_of([folder], unread=[])[0].estimates}
    for quantity, truth in truths(run, run_folder).items():
        estimate = estimates[quantity]
        sharp = None
        if (
            quantity in SHARP
            and truth is not None
            and _applies(quantity, truth, run, estimate, estimates)
        ):
            share, least = SHARP[quantity]
            sharp = estimate.value is not None and abs(estimate.value - truth) <= max(
                share * truth, least
            )
        yield Score(
            seed,
            drawn.kind,
            quantity,
            truth,
            estimate.value,
            estimate.low,
            estimate.high,
            _covered(estimate, truth, WINDOW_SLACK if quantity == WINDOW else SLACK),
            sharp,
            estimate.unknown or estimate.word or estimate.origin,
        )
    if drawn.policer_bytes:
        return
    queue = estimates["queue"]
    word = PER_FLOW if drawn.qdisc == "fq_codel" else FIFO if "fifo" in drawn.qdisc else MANAGED
    yield Score(
        seed,
        drawn.kind,
        "queue",
        None,
        None,
        None,
        None,
        queue.word == word if queue.word else None,
        None,
        f"{queue.word or queue.unknown}, is {drawn.qdisc}",
    )


def _covered(estimate: Estimate, truth: float | None, slack: float = SLACK) -> bool | None:
    if estimate.low is None and estimate.high is None:
        return None
    if truth is None:
        return estimate.high is None
    low, high = estimate.low or 0.0, math.inf if estimate.high is None else estimate.high
    return low * (1 - slack) <= truth <= high * (1 + slack)


def _applies(
    quantity: str, truth: float, run: Run, estimate: Estimate, estimates: dict[str, Estimate]
) -> bool:
    """Returns whether a value should be sharp: enough losses occurred, or a buffer could be filled,
    and is visible.
    """
    if quantity == "random loss":
        enough = (estimates["losses seen"].value or 0.0) >= LEAST_LOSSES
        return enough and truth > 0 and estimate.value is not None
    if quantity == "buffer":
        enough = truth >= LEAST_PACKETS * run.topology.packet_bytes
        return (
            enough
            and run.topology.queue.kind in ("bfifo", "pfifo", "codel")
            and estimate.value is not None
        )
    return True


def seeds(text: str) -> list[int]:
    """Returns the seeds of '1-20,25'."""
    parts = [part.partition("-") for part in text.split(",")]
    return [seed for first, _, last in parts for seed in range(int(first), int(last or first) + 1)]


def shown(every: list[Score]) -> str:
    """Returns the table, and the misses by kind."""
    lines = [f"{'quantity':20} {'paths':>5} {'told':>5} {'covered':>12} {'sharp':>12}"]
    by_name: dict[str, list[Score]] = {}
    for score in every:
        beside = (
            ", with cross traffic"
            if score.quantity == "rate" and "cross" in score.kind.split()
            else ""
        )
        by_name.setdefault(score.quantity + beside, []).append(score)
    for name, own in by_name.items():
        lines.append(
            f"{name:20} {len(own):5} {sum(score.value is not None for score in own):5} "
            f"{_share([score.covered for score in own]):>12} "
            f"{_share([score.sharp for score in own]):>12}"
        )
    misses = [score for score in every if score.covered is False or score.sharp is False]
    for score in sorted(misses, key=lambda score: (score.quantity, score.kind)):
        what = "not covered" if score.covered is False else "not sharp"
        truth, *numbers = (
            "-" if each is None else f"{each:.4g}"
            for each in (score.truth, score.value, score.low, score.high)
        )
        lines.append(
            f"{what:12} {score.quantity:14} seed {score.seed:4} {score.kind:34} truth {truth}: "
            f"{', '.join(numbers)} "
            f"({score.said})"
        )
    return "\n".join(lines) + "\n"


def _share(flags: list[bool | None]) -> str:
    known = [flag for flag in flags if flag is not None]
    return f"{sum(known)}/{len(known)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=seeds, required=True, metavar="FIRST-LAST,...")
    parser.add_argument("-o", "--outdir", type=Path, required=True)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no run after this time"
    )
    parser.add_argument("--format", choices=("table", "json"), default="table")
    given = parser.parse_args()
    until = time.monotonic() + given.seconds

    def made(seed: int) -> bool:
        folder = given.outdir / f"{seed:04d}"
        there = (folder / "path/all/receiver/001/run.json").exists()
        return there or (time.monotonic() < until and measured(seed, folder))

    with ThreadPoolExecutor(given.jobs) as pool:
        there = list(pool.map(made, given.seeds))
    found = [seed for seed, is_there in zip(given.seeds, there, strict=True) if is_there]
    every = [score for seed in found for score in scores(seed, given.outdir / f"{seed:04d}")]
    covered = [score.covered for score in every if score.covered is not None]
    if given.format == "json":
        print(json.dumps([asdict(score) for score in every], indent=1))
    else:
        print(f"{len(found)} of {len(given.seeds)} paths measured\n{shown(every)}", end="")
    return 0 if found and sum(covered) >= LEAST_COVERED * len(covered) else 1


if __name__ == "__main__":
    sys.exit(main())
