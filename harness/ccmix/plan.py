"""Turns entries into runs: every condition and every iteration, in a seeded order. It uses no
clock, no network and no root rights.
"""

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ccmix.analysis.path_text import draw_spread
from ccmix.config import Entry
from ccmix.model import HostPath, Run, RunSpread, Topology, Traffic, condition_name

RECEIVER = "receiver"  # the destination of a run on an emulated topology


def make_plan(entries: Iterable[Entry], seed: int) -> tuple[Run, ...]:
    """Returns all runs in the order in which they are started.

    An iteration is a block that has each condition with each destination once, in the order of the
    file or shuffled by the seed. So changes during a campaign affect all conditions alike.
    """
    return tuple(run for entry in entries for run in _entry_runs(entry, seed))


def named(runs: Sequence[Run], names: Sequence[str]) -> tuple[Run, ...]:
    """Returns the runs with these names, or all runs if there are no names; their seeds stay the
    same.

    Raises KeyError with a name that no run has.
    """
    by_name = {run.name: run for run in runs}
    for name in names:
        if name not in by_name:
            raise KeyError(name)
    return tuple(run for run in runs if not names or run.name in names)


def file_order(entries: Iterable[Entry], runs: Sequence[Run]) -> tuple[int, ...]:
    """Returns for each run its position in the order of the INI file; () if the runs are already in
    this order.

    That order is entry by entry, within an entry iteration by iteration, and within an iteration
    with the conditions as in the file.
    """
    places: dict[tuple[str, str, str], tuple[int, int]] = {}
    for number, entry in enumerate(entries):
        for at, condition in enumerate(entry.conditions):
            dst = condition.path.dst.name if isinstance(condition.path, HostPath) else RECEIVER
            places.setdefault((entry.name, condition_name(condition.values), dst), (number, at))

    def place(run: Run) -> tuple[int, int, int]:
        number, at = places[run.entry, run.condition_name, run.dst]
        return number, run.iteration, at

    in_order = sorted(range(len(runs)), key=lambda at: place(runs[at]))
    if in_order == list(range(len(runs))):
        return ()
    order = [0] * len(runs)
    for number, at in enumerate(in_order):
        order[at] = number
    return tuple(order)


def _entry_runs(entry: Entry, seed: int) -> Iterable[Run]:
    for iteration in range(1, entry.iterations + 1):
        block = list(entry.conditions)
        if entry.repeat_order == "shuffled":
            random.Random(f"{seed} {entry.name} {iteration}").shuffle(block)
        for condition in block:
            path = condition.path
            dst = path.dst.name if isinstance(path, HostPath) else None
            run_seed = _run_seed(seed, entry.name, condition.values, dst, iteration)
            yield Run(
                entry=entry.name,
                condition=condition.values,
                dst=RECEIVER if dst is None else dst,
                iteration=iteration,
                seed=run_seed,
                path=path,
                traffic=condition.traffic,
                accept_limits=entry.accept_limits,
                spread=_spread(path, condition.traffic, run_seed),
            )


def _spread(path: Topology | HostPath, traffic: Traffic, run_seed: int) -> RunSpread | None:
    return (
        draw_spread(path, traffic, run_seed) if isinstance(path, Topology) and path.spread else None
    )


def _run_seed(
    seed: int, entry: str, condition: dict[str, str], dst: str | None, iteration: int
) -> int:
    """Returns the run's seed of 32 bits, which stays the same if other entries or iterations are
    added.
    """
    place = () if dst is None else (dst,)  # an emulated path has one destination
    text = repr((seed, entry, sorted(condition.items()), *place, iteration))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


@dataclass(frozen=True)
class Span:
    """Holds how long runs take: `seconds` of traffic as far as they are known, `pauses_s` before
    runs, and the number of runs of `unknown` duration.
    """

    runs: int
    seconds: float
    pauses_s: float
    unknown: int


def span(runs: Sequence[Run]) -> Span:
    """Returns how long runs take if they are made one after the other."""
    return Span(
        runs=len(runs),
        seconds=sum(run.seconds or 0.0 for run in runs),
        pauses_s=sum(run.path.pause_s for run in runs[1:] if isinstance(run.path, HostPath)),
        unknown=sum(run.seconds is None for run in runs),
    )
