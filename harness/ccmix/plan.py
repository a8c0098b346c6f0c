"""Entries to runs: every condition, every iteration, in a seeded order. Pure: no clock, no network, no root."""

import hashlib
import random
from collections.abc import Iterable

from ccmix.config import Entry
from ccmix.model import Run

RECEIVER = "receiver"  # the destination of a run on an emulated topology


def make_plan(entries: Iterable[Entry], seed: int) -> tuple[Run, ...]:
    """All runs in the order in which they are started.

    An iteration is a block: each of its conditions once, in the order of the file or shuffled by the seed, so that what
    drifts during a campaign hits all conditions alike.
    """
    return tuple(run for entry in entries for run in _entry_runs(entry, seed))


def _entry_runs(entry: Entry, seed: int) -> Iterable[Run]:
    for iteration in range(1, entry.iterations + 1):
        block = list(entry.conditions)
        if entry.repeat_order == "shuffled":
            random.Random(f"{seed} {entry.name} {iteration}").shuffle(block)
        for condition in block:
            yield Run(
                entry=entry.name,
                condition=condition.values,
                dst=RECEIVER,
                iteration=iteration,
                seed=_run_seed(seed, entry.name, condition.values, iteration),
                path=condition.path,
                traffic=condition.traffic,
                accept_limits=entry.accept_limits,
            )


def _run_seed(seed: int, entry: str, condition: dict[str, str], iteration: int) -> int:
    """A seed of the run's own, 32 bits, that stays the same when other entries or iterations are added."""
    text = repr((seed, entry, sorted(condition.items()), iteration))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
