"""Entries to runs: every condition, every iteration, in a seeded order. Pure: no clock, no network, no root."""

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ccmix.analysis.spread import draw_spread
from ccmix.config import Entry
from ccmix.model import HostPath, Run, RunSpread, Topology, Traffic, condition_name

RECEIVER = "receiver"  # the destination of a run on an emulated topology


def make_plan(entries: Iterable[Entry], seed: int) -> tuple[Run, ...]:
    """Returns all runs in the order in which they are started.

    An iteration is a block: each of its conditions to each destination once, in the order of the file or shuffled by
    the seed, so that what drifts during a campaign hits all alike.
    """
    return tuple(run for entry in entries for run in _entry_runs(entry, seed))


def named(runs: Sequence[Run], names: Sequence[str]) -> tuple[Run, ...]:
    """Returns the runs with these names, or all without any; their seeds stay the same.

    Raises KeyError with a name that none has.
    """
    by_name = {run.name: run for run in runs}
    for name in names:
        if name not in by_name:
            raise KeyError(name)
    return tuple(run for run in runs if not names or run.name in names)


def file_order(entries: Iterable[Entry], runs: Sequence[Run]) -> tuple[int, ...]:
    """Returns for each run its place among them in the order of the INI file; () where they are in this order.

    That is entry by entry, each iteration by iteration, each with its conditions as the file has them.
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
    return draw_spread(path, traffic, run_seed) if isinstance(path, Topology) and path.spread else None


def _run_seed(seed: int, entry: str, condition: dict[str, str], dst: str | None, iteration: int) -> int:
    """Returns a seed of the run's own, 32 bits, that stays the same when other entries or iterations are added."""
    place = () if dst is None else (dst,)  # an emulated path has one destination
    text = repr((seed, entry, sorted(condition.items()), *place, iteration))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


@dataclass(frozen=True)
class Span:
    """Holds how long runs take: `seconds` of traffic as far as that is known, `pauses_s` before runs, `unknown`
    runs.
    """

    runs: int
    seconds: float
    pauses_s: float
    unknown: int


def span(runs: Sequence[Run]) -> Span:
    """Returns how long runs take that are started one after the other."""
    return Span(
        runs=len(runs),
        seconds=sum(run.seconds or 0.0 for run in runs),
        pauses_s=sum(run.path.pause_s for run in runs[1:] if isinstance(run.path, HostPath)),
        unknown=sum(run.seconds is None for run in runs),
    )
